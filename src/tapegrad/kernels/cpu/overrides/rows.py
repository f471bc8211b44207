"""Helpers of the overrides that work along the last dimension."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ....core.base import F32 as F32
from ....core.base import F64 as F64
from ....core.base import ndarray
from .. import KERNELS

F16: Final = np.dtype(np.float16)
LIKE_FLOAT: Final = np.empty(0, F32)
empty: Final[Any] = getattr(
    KERNELS, "empty", None
)  # (shape, like): large ones in memory that is used again
zeros: Final[Any] = getattr(KERNELS, "zeros", None)
dense: Final[Any] = getattr(
    KERNELS, "dense", None
)  # (x): in C order, copied only if it is not; on a tape too
copied: Final[Any] = getattr(KERNELS, "copied", None)  # (x): a new array in C order


Kernels = tuple[Any, Any, Any, Any]


def for_dtypes(name: str) -> Kernels:
    """The kernels of a name by dtype: float, double, and bfloat16 and float16 if there are."""
    if KERNELS is None:  # what else is in a module of overrides can be imported all the same
        return None, None, None, None
    found = KERNELS.KERNELS
    halves = found.get(f"{name}_bf16"), found.get(f"{name}_f16")
    return found[f"{name}_f32"], found[f"{name}_f64"], *halves


def pick(kernels: Kernels, x: Any) -> Any:
    """The kernel for the dtype of an array; None for other dtypes, and for NumPy's scalars."""
    if type(x) is not ndarray:
        return None
    dtype = x.dtype
    if dtype is F32:
        return kernels[0]
    if dtype is F64:
        return kernels[1]
    if kernels[2] is None or dtype.itemsize != 2:
        return None
    return kernels[3] if dtype is F16 else kernels[2] if is_half(x) else None


def is_half(x: Any) -> bool:
    """Whether it is an array of float16 or bfloat16."""
    dtype: Any = getattr(x, "dtype", None)
    if type(x) is not ndarray or dtype.itemsize != 2:
        return False
    return dtype is F16 or (
        dtype.kind == "V" and dtype.type.__name__ == "bfloat16" and dtype.isnative
    )


def contiguous(x: Any) -> Any:
    """An array in C order, copied if it is not; bfloat16 is copied as integers: faster."""
    if is_dense(x):
        return x
    if x.dtype.kind == "V" and is_half(x):
        return np.require(x.view(np.uint16), None, ["C", "A"]).view(x.dtype)
    return dense(x)


def single_of(x: Any) -> Any:
    """An array of half precision in C order as float32."""
    out = empty(x.shape, LIKE_FLOAT)
    KERNELS.KERNELS["widen_f16" if x.dtype is F16 else "widen_bf16"]((x, out), (x.size,))
    return out


def half_of(x: Any, dtype: Any) -> Any:
    """A float32 array in C order, rounded to half precision."""
    out = empty(x.shape, np.empty(0, dtype))
    KERNELS.KERNELS["narrow_f16" if dtype is F16 else "narrow_bf16"]((x, out), (x.size,))
    return out


def widened(x: Any) -> Any:
    """Half precision as float, in its own memory order if that is by rows or by columns; other
    dtypes unchanged."""
    if not is_half(x):
        return x
    if x.ndim > 1 and not x.flags.c_contiguous:
        turned = x.swapaxes(-1, -2)
        if turned.flags.c_contiguous:
            return widened(turned).swapaxes(-1, -2)
    return single_of(contiguous(x))


def narrowed(x: Any, like: Any) -> Any:
    """A float32 array rounded to the dtype of `like`, if that is half precision."""
    if not is_half(like):
        return x
    return half_of(contiguous(x), like.dtype)


def is_dense(x: Any) -> bool:
    flags = x.flags
    return bool(flags.c_contiguous and flags.aligned)
