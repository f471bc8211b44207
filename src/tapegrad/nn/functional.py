"""The computations of layers, as functions."""

from __future__ import annotations

import importlib
from typing import Any

import tapegrad as tg

from ..api.publish import lazy_space
from ..core.base import TensorBase
from ..core.function_modes import WATCHED, ask_watchers, is_watched
from ..core.warned import warn
from ..errors.absent import absent_function
from ..ops.block.definition import APIS
from ..overrides import (  # noqa: F401  PyTorch's own functions ask them here
    ask_foreign,
    has_torch_function,
    has_torch_function_unary,
    has_torch_function_variadic,
)
from ._scaling import ScalingType, SwizzleType  # noqa: F401

# What is not below is published by ops/ as `nn.functional.<name>`.
__getattr__, __dir__, _published = lazy_space("nn.functional", globals())


def _with_grad(name: str, published: Any = __getattr__) -> Any:
    if name == "grad":  # a module, which imports this one
        return importlib.import_module(".grad", __package__)
    return published(name)


__getattr__ = _with_grad

__all__ = [
    *_published,
    "linear",
    "log_softmax",
    "relu",
    "relu_",
    "sigmoid",
    "softmax",
    "softmin",
    "tanh",
]


scaled_mm = absent_function("torch.nn.functional.scaled_mm", "convert to float32 and use `@`")

GRID_SAMPLE_INTERPOLATION_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
GRID_SAMPLE_PADDING_MODES = {"zeros": 0, "border": 1, "reflection": 2}


def grouped_mm(
    mat_a: Any, mat_b: Any, *, offs: Any = None, bias: Any = None, out_dtype: Any = None
) -> Any:
    """grouped_mm(mat_a, mat_b, *, offs=None) -> Tensor: one product for each group of rows.

    A matrix is cut into groups that end at `offs`; a batch of matrices has one for each group.

    >>> rows, weights = ones(3, 2), stack([eye(2), 2 * eye(2)])
    >>> nn.functional.grouped_mm(rows, weights, offs=tensor([1, 3], dtype=int32))
    tensor([[1., 1.],
            [2., 2.],
            [2., 2.]])
    """
    if bias is not None:
        raise RuntimeError("Bias not supported yet")
    flat_a, flat_b = mat_a.dim() == 2, mat_b.dim() == 2
    if (offs is not None) != (flat_a or flat_b):
        raise RuntimeError(
            "Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d"
        )
    if not flat_a and not flat_b:
        out = tg.bmm(mat_a, mat_b)
    else:
        ends = offs.tolist()
        spans = [slice(first, last) for first, last in zip([0, *ends], ends, strict=False)]
        if flat_a and flat_b:
            out = tg.stack([mat_a[:, span] @ mat_b[span] for span in spans])
        elif flat_a:
            out = tg.cat([mat_a[span] @ b for span, b in zip(spans, mat_b, strict=True)])
        else:
            out = tg.cat([a @ mat_b[:, span] for a, span in zip(mat_a, spans, strict=True)], 1)
    return out if out_dtype is None else out.to(out_dtype)


def assert_int_or_pair(arg: Any, arg_name: str, message: str) -> None:
    """Refuse what is neither one number nor two."""
    if not (isinstance(arg, int) or len(arg) == 2):
        raise AssertionError(message.format(arg_name))


RELU = APIS["relu"].call
linear = APIS["nn.functional.linear"].call


# --- activations -----------------------------------------------------------------------------


def _asked(function: Any, input: Any, options: dict[str, Any]) -> Any:
    """The answer of a mode or of the `__torch_function__` of `input`, or NotImplemented."""
    if WATCHED and is_watched((input,), {}):
        return ask_watchers(function, (input,), options)
    return ask_foreign(function, (input,), options)


def relu(input: Any, inplace: bool = False) -> Any:
    """relu(input, inplace=False) -> Tensor: the positive part.

    >>> nn.functional.relu(tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    if WATCHED or not isinstance(input, TensorBase):
        found = _asked(relu, input, {"inplace": inplace})
        if found is not NotImplemented:
            return found
    return input.relu_() if inplace else RELU(input)


def relu_(input: Any) -> Any:
    """relu_(input) -> Tensor: the positive part, in place.

    >>> x = tensor([-1.0, 2.0])
    >>> nn.functional.relu_(x)
    tensor([0., 2.])
    >>> x
    tensor([0., 2.])
    """
    return input.relu_()


def sigmoid(input: Any) -> Any:
    """sigmoid(input) -> Tensor: 1 / (1 + exp(-x)).

    >>> nn.functional.sigmoid(tensor([0.0, 2.0]))
    tensor([0.5000, 0.8808])
    """
    return input.sigmoid()


def tanh(input: Any) -> Any:
    """tanh(input) -> Tensor: the hyperbolic tangent.

    >>> nn.functional.tanh(tensor([0.0, 1.0]))
    tensor([0.0000, 0.7616])
    """
    return input.tanh()


def softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """softmax(input, dim) -> Tensor: exponentials that sum to one along `dim`.

    >>> nn.functional.softmax(tensor([0.0, 0.0]), dim=0)
    tensor([0.5000, 0.5000])
    """
    if WATCHED or not isinstance(input, TensorBase):
        options = {"dim": dim, "_stacklevel": _stacklevel, "dtype": dtype}
        found = _asked(softmax, input, options)
        if found is not NotImplemented:
            return found
    dim = softmax_dim("softmax", input.dim()) if dim is None else dim
    return input.softmax(dim) if dtype is None else input.softmax(dim, dtype=dtype)


def softmin(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """softmin(input, dim) -> Tensor: softmax of the negated input.

    >>> nn.functional.softmin(tensor([1.0, 2.0, 3.0]), dim=0)
    tensor([0.6652, 0.2447, 0.0900])
    """
    if WATCHED or not isinstance(input, TensorBase):
        options = {"dim": dim, "_stacklevel": _stacklevel, "dtype": dtype}
        found = _asked(softmin, input, options)
        if found is not NotImplemented:
            return found
    dim = softmax_dim("softmin", input.dim()) if dim is None else dim
    return (-input).softmax(dim) if dtype is None else (-input).softmax(dim, dtype=dtype)


def log_softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """log_softmax(input, dim) -> Tensor: the logarithm of softmax, without overflow.

    >>> nn.functional.log_softmax(tensor([0.0, 0.0]), dim=0)
    tensor([-0.6931, -0.6931])
    """
    if WATCHED or not isinstance(input, TensorBase):
        options = {"dim": dim, "_stacklevel": _stacklevel, "dtype": dtype}
        found = _asked(log_softmax, input, options)
        if found is not NotImplemented:
            return found
    dim = softmax_dim("log_softmax", input.dim()) if dim is None else dim
    return input.log_softmax(dim) if dtype is None else input.log_softmax(dim, dtype=dtype)


def softmax_dim(name: str, ndim: int) -> int:
    """The dimension that was implied before `dim` had to be given."""
    warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include "
        "dim=X as an argument.",
    )
    return 0 if ndim in (0, 1, 3) else 1
