"""What overrides along the last dimension share."""

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


def for_dtypes(name: str) -> tuple[Any, Any]:
    """The kernels of a name for float and double."""
    return KERNELS.KERNELS[f"{name}_f32"], KERNELS.KERNELS[f"{name}_f64"]


def pick(kernels: tuple[Any, Any], x: Any) -> Any:
    """The kernel for the dtype of an array; None for other dtypes, and for NumPy's scalars."""
    if type(x) is not np.ndarray:
        return None
    dtype = x.dtype
    return kernels[0] if dtype is F32 else kernels[1] if dtype is F64 else None


def is_bfloat16(x: Any) -> bool:
    return type(x) is np.ndarray and x.dtype.kind == "V" and x.dtype.name == "bfloat16"


def widened(x: Any) -> Any:
    """bfloat16 as float; anything else as it is."""
    if not is_bfloat16(x):
        return x
    out = empty(x.shape, LIKE_FLOAT)
    KERNELS.KERNELS["widen"]((dense(x), out), (x.size,))
    return out


def narrowed(x: Any, dtype: Any) -> Any:
    out = np.empty(x.shape, dtype)
    KERNELS.KERNELS["narrow"]((dense(x), out), (x.size,))
    return out


def in_single(make: Any) -> Any:
    """The same override, which takes bfloat16 too: computed in float and rounded once.

    The last array says how the result lies; a gradient in front of it may be an expanded one.
    """

    def maker(reference: Any) -> Any:
        plain = make(reference)

        def kernel(*args: Any) -> Any:
            if is_bfloat16(args[0]) and args[0].size and is_dense(args[-2]):
                return narrowed(plain(*map(widened, args)), args[0].dtype)
            return plain(*args)

        return kernel

    return maker


def is_dense(x: Any) -> bool:
    flags = x.flags
    return bool(flags.c_contiguous and flags.aligned)
