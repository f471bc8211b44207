"""Arithmetic that is rounded once, as a processor's fused instructions do it."""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import IGNORED, NUMPY_ERRORS
from .late_bound import HOST_KERNELS

SMALL = 512  # elements: NumPy converts so many in less time than it takes to look at them


def fused(a: Any, b: float, c: Any) -> Any:
    """a * b + c in float64 with one rounding: the errors of both steps are added back."""
    product = a * b
    a_high, a_low = halves(a)
    b_high, b_low = halves(np.float64(b))
    error = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
    total = product + c
    back = total - product
    rest = (product - (total - back)) + (c - back)
    return total + (rest + error)


def halves(a: Any) -> tuple[Any, Any]:
    """Two parts of 26 bits, whose products are exact."""
    scaled = a * 134217729.0
    high = scaled - (scaled - a)
    return high, a - high


def half_as_single(value: Any) -> Any:
    """Half precision as single: what PyTorch computes in before it rounds once at the end."""
    dtype = getattr(value, "dtype", None)
    if dtype is not None and dtype.itemsize == 2 and dtype.kind in "fV":
        if type(value) is np.ndarray and HOST_KERNELS.as_single is not None:
            if value.size >= SMALL and value.flags.carray and dtype.isnative:
                return HOST_KERNELS.as_single(value)
        return value.astype(np.float32)
    return value


def before_rounding_to(dtype: Any, value: Any) -> Any:
    """Double precision on its way to float16 as single: PyTorch rounds it twice.

    NumPy, which rounds it once, takes 35 times as long for what float16 cannot hold.
    """
    if dtype.itemsize == 2 and dtype.kind == "f":
        if value.dtype.kind == "f" and value.dtype.itemsize == 8:
            token = NUMPY_ERRORS.set(IGNORED)  # what single precision cannot hold is infinite
            try:
                return value.astype(np.float32)
            finally:
                NUMPY_ERRORS.reset(token)
    return value


def rounded_to(value: Any, dtype: Any) -> Any:
    """An array in another dtype; large ones of float32 become half precision by a C kernel."""
    value = before_rounding_to(dtype, value)
    if dtype.itemsize == 2 and dtype.kind in "fV" and type(value) is np.ndarray:
        if value.dtype == np.float32 and value.size >= SMALL and value.flags.carray:
            if HOST_KERNELS.as_half is not None and value.dtype.isnative and dtype.isnative:
                return HOST_KERNELS.as_half(value, dtype)
    return value.astype(dtype)
