"""What layers compute, as functions."""

from __future__ import annotations

import warnings
from typing import Any

import tapegrad as tg

from ..core.base import F32, F64, TensorBase
from ..core.dispatch import apply
from ..core.op import REGISTRY
from ..ops.block import APIS
from . import _ops, _reduction

__all__ = [
    "dropout",
    "l1_loss",
    "linear",
    "log_softmax",
    "mse_loss",
    "one_hot",
    "relu",
    "relu_",
    "sigmoid",
    "softmax",
    "softmin",
    "tanh",
]


T = REGISTRY["t"]
ADDMM = REGISTRY["addmm"]
RELU = APIS["relu"].call
one_hot = APIS["one_hot"].call


def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    """linear(input, weight, bias=None) -> Tensor: `input @ weight.T + bias`.

    >>> nn.functional.linear(tensor([[1.0, 2.0]]), tensor([[3.0, 4.0]]), tensor([0.5]))
    tensor([[11.5000]])
    """
    if is_plain(input, weight, bias):
        # What is said below, without looking at the arguments again.
        return apply(ADDMM, (bias, input, apply(T, (weight,))), (1, 1))
    for position, (name, value) in enumerate((("input", input), ("weight", weight)), 1):
        check_tensor("linear", name, position, value)
    if bias is None:
        return tg.matmul(input, weight.t())
    check_tensor("linear", "bias", 3, bias)
    if input.dim() == 2:
        return tg.addmm(bias, input, weight.t())
    if input.is_contiguous():
        flat = tg.addmm(bias, input.reshape(-1, input.size(-1)), weight.t())
        return flat.view(*input.shape[:-1], flat.size(1))
    return tg.matmul(input, weight.t()).add_(bias)


def is_plain(input: Any, weight: Any, bias: Any) -> bool:
    """Whether these are float matrices and a vector that fit each other: nothing to refuse."""
    if not (
        isinstance(input, TensorBase)
        and isinstance(weight, TensorBase)
        and isinstance(bias, TensorBase)
    ):
        return False
    x, w, b = input.array, weight.array, bias.array
    dtype = x.dtype
    if (dtype is not F32 and dtype is not F64) or w.dtype is not dtype or b.dtype is not dtype:
        return False
    if x.ndim != 2 or w.ndim != 2:
        return False
    rows, columns = w.shape
    fits: bool = x.shape[1] == columns and b.shape == (rows,)
    return fits


def check_tensor(function: str, name: str, position: int, value: Any) -> None:
    if not isinstance(value, tg.Tensor):
        raise TypeError(
            f"{function}(): argument '{name}' (position {position}) must be Tensor, "
            f"not {type(value).__name__}"
        )


# --- activations -----------------------------------------------------------------------------


def relu(input: Any, inplace: bool = False) -> Any:
    """relu(input, inplace=False) -> Tensor: the positive part.

    >>> nn.functional.relu(tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return input.relu_() if inplace else RELU(input)


def relu_(input: Any) -> Any:
    """relu_(input) -> Tensor: the positive part, in place."""
    return input.relu_()


def sigmoid(input: Any) -> Any:
    """sigmoid(input) -> Tensor: 1 / (1 + exp(-x))."""
    return input.sigmoid()


def tanh(input: Any) -> Any:
    """tanh(input) -> Tensor: the hyperbolic tangent."""
    return input.tanh()


def softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """softmax(input, dim) -> Tensor: exponentials that sum to one along `dim`.

    >>> nn.functional.softmax(tensor([0.0, 0.0]), dim=0)
    tensor([0.5000, 0.5000])
    """
    dim = softmax_dim("softmax", input.dim(), _stacklevel) if dim is None else dim
    return input.softmax(dim) if dtype is None else input.softmax(dim, dtype=dtype)


def softmin(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """softmin(input, dim) -> Tensor: softmax of the negated input."""
    dim = softmax_dim("softmin", input.dim(), _stacklevel) if dim is None else dim
    return (-input).softmax(dim) if dtype is None else (-input).softmax(dim, dtype=dtype)


def log_softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """log_softmax(input, dim) -> Tensor: the logarithm of softmax, without overflow.

    >>> nn.functional.log_softmax(tensor([0.0, 0.0]), dim=0)
    tensor([-0.6931, -0.6931])
    """
    dim = softmax_dim("log_softmax", input.dim(), _stacklevel) if dim is None else dim
    return input.log_softmax(dim) if dtype is None else input.log_softmax(dim, dtype=dtype)


def softmax_dim(name: str, ndim: int, stacklevel: int) -> int:
    """The dimension that was implied before `dim` had to be given."""
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include "
        "dim=X as an argument.",
        stacklevel=stacklevel,
    )
    return 0 if ndim in (0, 1, 3) else 1


# --- dropout ---------------------------------------------------------------------------------


def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """dropout(input, p=0.5, training=True) -> Tensor: zero elements at random, scale up the others.

    >>> nn.functional.dropout(tensor([1.0, 2.0]), training=False)
    tensor([1., 2.])
    """
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if p == 0 or not training or input.numel() == 0:
        return input
    if p == 1:
        noise = tg.zeros_like(input)
    else:
        noise = tg.empty_like(input).bernoulli_(1 - p).div_(1 - p)
    return input.mul_(noise) if inplace else input.mul(noise)


# --- losses ----------------------------------------------------------------------------------


def mse_loss(
    input: Any,
    target: Any,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Any = None,
) -> Any:
    """mse_loss(input, target, reduction="mean") -> Tensor: the mean of squared differences.

    >>> nn.functional.mse_loss(tensor([1.0, 2.0]), tensor([1.0, 4.0]))
    tensor(2.)
    """
    if not same_floats(input, target):
        warn_of_broadcast(input, target)
        input, target = tg.broadcast_tensors(input, target)
    reduction = _reduction.chosen(reduction, size_average, reduce)
    if weight is not None:
        return weighted(mse_elements(input, target, "none"), weight, input, reduction)
    return mse_elements(input, target, _reduction.check(reduction))


def same_floats(input: Any, target: Any) -> bool:
    """Whether two tensors are alike, so that there is nothing to broadcast, promote or refuse."""
    if not isinstance(input, TensorBase) or not isinstance(target, TensorBase):
        return False
    x, y = input.array, target.array
    if (x.dtype is not F32 and x.dtype is not F64) or x.dtype is not y.dtype:
        return False
    same: bool = x.shape == y.shape
    return same


def mse_elements(input: Any, target: Any, reduction: str) -> Any:
    if not same_floats(input, target):
        dtype = tg.promote_types(input.dtype, target.dtype)
        if not (dtype.is_floating_point or dtype.is_complex):
            raise NotImplementedError(f"\"mse_cpu\" not implemented for '{dtype.scalar_type}'")
    return _ops.apply(_ops.MseLoss, (input, target), (reduction,))


def l1_loss(
    input: Any,
    target: Any,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Any = None,
) -> Any:
    """l1_loss(input, target, reduction="mean") -> Tensor: the mean of absolute differences.

    >>> nn.functional.l1_loss(tensor([1.0, 2.0]), tensor([1.0, 4.0]))
    tensor(1.)
    """
    warn_of_broadcast(input, target)
    reduction = _reduction.chosen(reduction, size_average, reduce)
    input, target = tg.broadcast_tensors(input, target)
    loss = (input - target).abs()
    if weight is not None:
        return weighted(loss, weight, input, reduction)
    return _reduction.apply(loss, _reduction.check(reduction))


def warn_of_broadcast(input: Any, target: Any) -> None:
    if target.size() != input.size():
        warnings.warn(
            f"Using a target size ({target.size()}) that is different to the input size "
            f"({input.size()}). This will likely lead to incorrect results due to broadcasting. "
            "Please ensure they have the same size.",
            stacklevel=3,
        )


def weighted(loss: Any, weight: Any, input: Any, reduction: str) -> Any:
    """Elementwise losses times weights; the mean is over the weights."""
    if weight.size() != input.size():
        raise ValueError("Weights and input must have the same size.")
    loss = loss * weight
    if _reduction.check(reduction) == "mean":
        return loss.sum() / weight.sum()
    return _reduction.apply(loss, reduction)
