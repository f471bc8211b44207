"""Checks of the arguments of random functions, with PyTorch's messages."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.base import quiet
from ...core.warned import warn
from ...dtypes import cpp_name, of

Array = np.ndarray[Any, np.dtype[Any]]
DType = np.dtype[Any]
Shape = tuple[int, ...]

I64 = np.dtype(np.int64)
DIGITS = {"bfloat16": 8, "float16": 11, "float32": 24, "float64": 53}
LIMITS = {
    "bfloat16": 3.3895313892515355e38,
    "float16": 65504.0,
    "float32": 3.4028234663852886e38,
    "float64": 1.7976931348623157e308,
}


def is_half(dtype: DType) -> bool:
    """float16, or bfloat16 (which is not NumPy's own)."""
    return dtype.itemsize == 2 and dtype.kind not in "iu"


def round_draws(values: Array, dtype: DType, shape: Shape) -> Array:
    """Round as C++ does: to the two-byte floats by way of float32."""
    if values.dtype is dtype and values.flags.c_contiguous:
        return values.reshape(shape)
    if is_half(dtype):
        values = values.astype(np.float32, copy=False)
    return np.ascontiguousarray(quiet(values.astype, dtype)).reshape(shape)


def rounded(value: float, dtype: DType) -> float:
    """`value` as the dtype holds it."""
    return float(round_draws(np.array([value]), dtype, ()))


def is_floating(dtype: DType) -> bool:
    return dtype.kind == "f" or is_half(dtype)


def not_implemented(kernel: str, dtype: DType) -> NotImplementedError:
    return NotImplementedError(f"\"{kernel}\" not implemented for '{of(dtype).scalar_type}'")


def check_floating(kernel: str, dtype: DType) -> None:
    if not is_floating(dtype):
        raise not_implemented(kernel, dtype)


def check_continuous(name: str, dtype: DType, spelled: str) -> None:
    if not is_floating(dtype):
        raise RuntimeError(
            f"{name} distribution is a continuous probability distribution. dtype must be a "
            f"floating point but you specified {spelled}"
        )


def check_exponential(dtype: DType, lambd: float) -> None:
    check_continuous("Exponential", dtype, of(dtype).scalar_type)
    if not lambd > 0.0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd:g}")


def check_cauchy(dtype: DType, sigma: float, spelled: str) -> None:
    check_continuous("Cauchy", dtype, spelled)
    if not sigma > 0.0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma:g}")


def check_uniform(low: float, high: float, dtype: DType) -> None:
    if low == 0.0 and high == 1.0:
        return
    limit = LIMITS[dtype.name]
    for name, value in (("from", low), ("to", high)):
        if not -limit <= value <= limit:
            raise RuntimeError(f"{name} is out of bounds for {cpp_name(dtype)}")
    if low > high:
        raise RuntimeError(
            f"uniform_ expects to return a [from, to) range, but found from={low:g} > to={high:g}"
        )
    if high - low > limit:
        raise RuntimeError(
            f"uniform_ expects to-from <= std::numeric_limits<{of(dtype).scalar_type}>::max(), "
            f"but found to={high:g} and from={low:g} which result in to-from to exceed the limit"
        )


def largest(dtype: DType) -> int:
    """The largest value that Tensor.random_ gives: floats stop where they skip integers."""
    if dtype.kind == "b":
        return 1
    if dtype.kind == "c":
        raise RuntimeError(
            "check_random_bounds handles only integral, floating-point and boolean types"
        )
    if is_floating(dtype):
        return 1 << DIGITS[dtype.name]
    if dtype.kind == "u" and dtype.itemsize > 1:
        raise not_implemented("random_kernel_cpu", dtype)
    return (1 << 8 * dtype.itemsize - (dtype.kind == "i")) - 1


def checked_range(low: int, high: int | None, largest: int, dtype: DType) -> tuple[int, int]:
    """The half-open range that is drawn from, after PyTorch's checks."""
    last = largest if high is None else high - 1
    if last < low:
        raise RuntimeError(
            f"random_ expects 'from' to be less than 'to', but got from={low} >= to={last + 1}"
        )
    if high is not None and is_floating(dtype):
        low, last = representable(low, high, dtype)
    check_bound("from", low, largest, dtype)
    if high is not None:
        check_bound("to - 1", last, largest, dtype)
    return low, last + 1


def representable(low: int, high: int, dtype: DType) -> tuple[int, int]:
    """Ends that a float holds: an end that rounds out of the range steps inside by one spacing."""
    digits = DIGITS[dtype.name]
    above = rounded_int(low + 1, dtype)
    if above < low:
        low = above + (1 << (abs(low + 1).bit_length() - digits))
    below = rounded_int(high - 1, dtype)
    if below >= high:
        high = below - (1 << ((high - 1).bit_length() - digits))
    return low, high - 1


def rounded_int(value: int, dtype: DType) -> int:
    nearest = rounded(float(value), dtype)
    return int(nearest) if math.isfinite(nearest) else value


def check_bound(name: str, value: int, largest: int, dtype: DType) -> None:
    limit: float = largest
    smallest: float = 0 if dtype.kind in "bu" else -largest - 1
    if is_floating(dtype):
        limit = LIMITS[dtype.name]
        smallest = -limit
    if not smallest <= value <= limit:
        raise RuntimeError(f"{name} is out of bounds for {cpp_name(dtype)}")
    if is_floating(dtype) and abs(value) > largest:
        digits = DIGITS[dtype.name]
        warn(
            f"{name} is out of bounds [-(2^{digits}), 2^{digits}]. Due to precision limitations "
            f"{cpp_name(dtype)} can support discrete uniform distribution only within this "
            "range. This warning will become an error in version 1.7 release, please fix the code "
            "in advance",
            UserWarning,
        )


def check_multinomial(probs: Array, n: int, replacement: bool) -> None:
    if not 1 <= probs.ndim <= 2:
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if not is_floating(probs.dtype):
        raise RuntimeError(
            "multinomial only supports floating-point dtypes for input, got: "
            f"{of(probs.dtype).scalar_type}"
        )
    if n <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and n > probs.shape[-1]:
        raise RuntimeError(
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement"
        )


def integer_range(dtype: DType, low: int | None, high: int | None) -> tuple[int, int, bool]:
    """The first of the integers to draw, how many there are, and whether that takes 64 bits."""
    if dtype is I64 and high is not None:  # mostly; it may be far from the ends of int64
        first = low or 0
        if -(1 << 62) <= first < high <= 1 << 62:
            return first, high - first, high - first >= 1 << 28
    top = largest(dtype)
    if low is None and high is None:
        return 0, top + 1, dtype.itemsize == 8
    low, high = checked_range(0 if low is None else low, high, top, dtype)
    return low, high - low, high - low >= 1 << 28
