"""Arguments of ops that are no tensors: dimensions, slices and numbers, checked as PyTorch does."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import scalar_dtype
from ..errors.sentences import does_not_fit
from .base import F32, F64, TensorBase
from .dispatch import number_as
from .rounding import before_rounding_to, rounded_to

# What a loss does with the losses of the elements: words in nn.functional and in our ops, and
# numbers, their places here, in PyTorch's schemas and in the functions of `torch`.
REDUCTIONS = ("none", "mean", "sum")


def reduction_number(value: Any) -> Any:
    """PyTorch's number for a reduction that is given as a word; other values unchanged."""
    return REDUCTIONS.index(value) if value in REDUCTIONS else value


def is_fixed(given: tuple[Any, ...]) -> bool:
    """Whether arguments cannot change: numbers, words, and tuples of integers, but no lists."""
    for value in given:
        parts = value if type(value) is tuple else (value,)
        if not {*map(type, parts)} <= FIXED:
            return False
    return True


FIXED = {int, bool, str, type(None)}


def wrap_dim(dim: Any, ndim: int) -> int:
    """A dimension counted from the front; 0-d tensors have one dimension for this purpose."""
    bound = ndim if ndim else 1
    if type(dim) is not int and not is_index(dim):
        raise TypeError(f"argument 'dim' must be int, not {type(dim).__name__}")
    if not -bound <= dim < bound:
        if isinstance(dim, int) and not -(1 << 63) <= dim < 1 << 63:
            raise ValueError("Overflow when unpacking long long")
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-bound}, {bound - 1}], but got "
            f"{dim})"
        )
    return int(dim if dim >= 0 else dim + bound)


def is_index(value: Any) -> bool:
    """Whether PyTorch takes a value for an int: ints, not bools, and 0-d tensors of integers."""
    if isinstance(value, TensorBase):
        return value._array.ndim == 0 and value._array.dtype.kind in "iu"
    return hasattr(value, "__index__") and not isinstance(value, bool)


def number_as_array(dtype: Any, value: Any) -> Any:
    """A Python number as a 0-d array of `dtype`: truncated, but refused where it does not fit."""
    if type(value) is float and (dtype is F64 or dtype is F32 and -1e38 < value < 1e38):
        return np.array(value, dtype)
    kind = dtype.kind
    if isinstance(value, int):
        scalar_dtype(value)  # refuses what neither int64 nor uint64 holds
    if isinstance(value, complex) and kind not in "cb":
        if value.imag:
            raise does_not_fit(dtype)
        value = value.real
    if kind in "iu":
        limits = np.iinfo(dtype)
        # Negative integers wrap around in unsigned dtypes.
        low = -limits.max if kind == "u" and isinstance(value, int) else limits.min
        if not low <= value <= limits.max:
            raise does_not_fit(dtype)
        return np.asarray(int(value) & (1 << 64) - 1, np.uint64).astype(dtype)
    with np.errstate(over="ignore"):
        array = before_rounding_to(dtype, np.asarray(value)).astype(dtype)
    if kind != "b" and np.isinf(array) and not np.isinf(value):
        raise does_not_fit(dtype)
    return array


def bounds(item: slice, size: int) -> tuple[int, int, int]:
    start, stop, step = item.indices(size)
    if step < 0:
        raise ValueError("step must be greater than zero")
    return start, stop if stop > start else start, step


def number_beside(number: Any, dtype: Any, x: Any) -> Any:
    """A number for `x`, which has the values of `dtype`: half precision rounds it, as PyTorch."""
    return cast_value(cast_value(number, dtype), x.dtype)


def cast_value(value: Any, dtype: Any) -> Any:
    """An array or a number in a NumPy dtype."""
    if not hasattr(value, "dtype"):
        return number_as(value, dtype)
    return value if value.dtype == dtype else rounded_to(value, dtype)
