"""Signatures of what takes `*args` in Python, as it is called: PyTorch's documentation's.

A signature that Python does not know (`start=0, end`) is shown as it is.
"""

from __future__ import annotations

import re

TENSOR_OPTIONS = "out=None, dtype=None, layout=None, device=None, pin_memory=False"
RECURRENT = (
    "input_size, hidden_size, num_layers=1, {}bias=True, batch_first=False, dropout=0.0, "
    "bidirectional=False, {}device=None, dtype=None"
)
ONE_PASS = (
    "input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first=False"
)
OLD_TYPES = "BFloat16 Bool Byte Char Double Float Half Int Long Short".split()

SIGNATURES = {
    "einsum": "equation, *operands",
    "arange": f"start=0, end, step=1, *, {TENSOR_OPTIONS}, requires_grad=False",
    "randint": f"low=0, high, size, *, generator=None, {TENSOR_OPTIONS}, requires_grad=False",
    "result_type": "tensor1, tensor2",
    "set_autocast_enabled": "device_type, enabled",
    **dict.fromkeys(("rnn_tanh", "rnn_relu", "gru", "lstm"), ONE_PASS),
    "nn.RNN": RECURRENT.format("nonlinearity='tanh', ", ""),
    "nn.GRU": RECURRENT.format("", ""),
    "nn.LSTM": RECURRENT.format("", "proj_size=0, "),
    **dict.fromkeys(
        [f"nn.{n}" for n in "LogSigmoid Sigmoid Softmax2d Softsign Tanh Tanhshrink".split()], ""
    ),
    "nn.Module": "",
    "nn.Module.to": "device=None, dtype=None, non_blocking=False, *, memory_format=None",
    "nn.Sequential": "*modules",
    "Tensor": "data",
    **dict.fromkeys([f"{n}Tensor" for n in OLD_TYPES], "data"),
    **dict.fromkeys([f"cuda.{n}Tensor" for n in OLD_TYPES], "data"),
    "Tensor.to": "device=None, dtype=None, non_blocking=False, copy=False, *, memory_format=None",
    "Tensor.permute": "*dims",
    "Tensor.reshape": "*shape",
    "Tensor.new": "*size, device=None",
    "Tensor.resize_as_sparse_": "other",
    "Tensor.sparse_resize_": "size, sparse_dim, dense_dim",
    "Tensor.sparse_resize_and_clear_": "size, sparse_dim, dense_dim",
    "device": "type, index=None",
    "finfo": "dtype=None",
    "iinfo": "dtype",
}
# Classes that nobody makes by calling them.
NEVER_CALLED = {"autograd.Function", "dtype", "layout", "memory_format"}


def own_signature(name: str) -> tuple[str, list[str]] | None:
    """The text of a signature and its parameters' names; None where Python's own says it."""
    short = name.removeprefix("torch.")
    if short in NEVER_CALLED:
        return "", []
    text = SIGNATURES.get(short)
    if text is None:
        return None
    return f"({text})", re.findall(r"(?:^|, )\**(\w+)", text)
