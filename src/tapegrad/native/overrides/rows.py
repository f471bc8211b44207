"""What overrides along the last dimension share."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import KERNELS

F32 = np.dtype(np.float32)
F64 = np.dtype(np.float64)
empty = getattr(KERNELS, "empty", None)  # (shape, like): large ones in memory that is used again


def for_dtypes(name: str) -> tuple[Any, Any]:
    """The kernels of a name for float and double."""
    return KERNELS.KERNELS[f"{name}_f32"], KERNELS.KERNELS[f"{name}_f64"]


def pick(kernels: tuple[Any, Any], x: Any) -> Any:
    """The kernel for the dtype of an array; None for other dtypes, and for NumPy's scalars."""
    if type(x) is not np.ndarray:
        return None
    dtype = x.dtype
    return kernels[0] if dtype is F32 else kernels[1] if dtype is F64 else None


def is_dense(x: Any) -> bool:
    flags = x.flags
    return bool(flags.c_contiguous and flags.aligned)
