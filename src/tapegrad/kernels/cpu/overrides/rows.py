"""Helpers of the overrides that work along the last dimension."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import KERNELS

F32 = np.dtype(np.float32)
F64 = np.dtype(np.float64)
LIKE_FLOAT = np.empty(0, F32)
empty = getattr(KERNELS, "empty", None)  # (shape, like): large ones in memory that is used again
zeros = getattr(KERNELS, "zeros", None)
dense = getattr(KERNELS, "dense", None)  # (x): in C order, copied only if it is not; on a tape too
copied = getattr(KERNELS, "copied", None)  # (x): a new array in C order


Kernels = tuple[Any, Any, Any]


def for_dtypes(name: str) -> Kernels:
    """The kernels of a name for float, double and bfloat16, where there is one."""
    found = KERNELS.KERNELS
    return found[f"{name}_f32"], found[f"{name}_f64"], found.get(f"{name}_bf16")


def pick(kernels: Kernels, x: Any) -> Any:
    """The kernel for the dtype of an array; None for other dtypes, and for NumPy's scalars."""
    if type(x) is not np.ndarray:
        return None
    dtype = x.dtype
    if dtype is F32:
        return kernels[0]
    if dtype is F64:
        return kernels[1]
    return kernels[2] if kernels[2] is not None and is_bfloat16(x) else None


def is_bfloat16(x: Any) -> bool:
    dtype = getattr(x, "dtype", None)
    return (
        type(x) is np.ndarray
        and dtype.kind == "V"
        and dtype.type.__name__ == "bfloat16"
        and dtype.isnative
    )


def contiguous(x: Any) -> Any:
    """In C order; NumPy copies bfloat16 faster when it takes it for integers."""
    if is_dense(x):
        return x
    if is_bfloat16(x):
        return np.require(x.view(np.uint16), None, ["C", "A"]).view(x.dtype)
    return dense(x)


def widened(x: Any) -> Any:
    """bfloat16 as float, in its own memory order if that is by rows or by columns; other dtypes
    unchanged."""
    if not is_bfloat16(x):
        return x
    if x.ndim > 1 and not x.flags.c_contiguous:
        turned = x.swapaxes(-1, -2)
        if turned.flags.c_contiguous:
            return widened(turned).swapaxes(-1, -2)
    out = empty(x.shape, LIKE_FLOAT)
    KERNELS.KERNELS["widen"]((contiguous(x), out), (x.size,))
    return out


def narrowed(x: Any, like: Any) -> Any:
    """Floats in the dtype of `like`, if that is bfloat16."""
    if not is_bfloat16(like):
        return x
    out = empty(x.shape, like)
    KERNELS.KERNELS["narrow"]((contiguous(x), out), (x.size,))
    return out


def is_dense(x: Any) -> bool:
    flags = x.flags
    return bool(flags.c_contiguous and flags.aligned)
