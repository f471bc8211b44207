"""Ranges: arange, linspace, logspace, rounded as PyTorch's loops round."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import dtypes
from ...core.base import F32, F64, TensorBase
from ...core.host_arrays import host
from ...core.rounding import fused
from ...core.settings import Settings
from ...core.warned import warn
from ...errors import does_not_fit
from ...kernels.cpu import KERNELS
from ..block.definition import api
from . import arrays as from_data
from .arguments import checked_device, np_dtype
from .sized import CREATION_OPTIONS, check_options, home, made, number_argument, store_out

RANGE_USAGE = (
    "{0}() received an invalid combination of arguments - got ({1}), but expected one of:\n"
    " * (Number end, *, Tensor out = None, torch.dtype dtype = None, torch.layout layout = None, "
    "torch.device device = None, bool pin_memory = False, bool requires_grad = False)\n"
    " * (Number start, Number end, *, torch.dtype dtype = None, torch.layout layout = None, "
    "torch.device device = None, bool pin_memory = False, bool requires_grad = False)\n"
    " * (Number start, Number end, Number step = 1, *, Tensor out = None, torch.dtype dtype = "
    "None, torch.layout layout = None, torch.device device = None, bool pin_memory = False, "
    "bool requires_grad = False)\n"
)


PLAIN = (None,) * 8  # no options


@api(method=False, direct=True)
def arange(
    *args: Any,
    start: Any = None,
    end: Any = None,
    step: Any = None,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """arange(start=0, end, step=1, *, dtype=None, requires_grad=False) -> Tensor: the numbers from
    `start` up to `end`, which is left out.

    >>> arange(1, 8, 3)
    tensor([1, 4, 7])
    """
    if len(args) == 1 and type(args[0]) is int and 0 <= args[0] < MOST_STEPS:
        options = (start, end, step, out, dtype, layout, device, pin_memory or None)
        if options == PLAIN:
            return made(np.arange(args[0], dtype=np.int64), requires_grad)
    if (
        not args
        and end is None
        or len(args) > 3
        or (len(args) == 1 and step is not None and end is None)
    ):
        got = [type(a).__name__ for a in args] + ([f"step={type(step).__name__}"] if step else [])
        raise TypeError(RANGE_USAGE.format("arange", ", ".join(got)))
    if len(args) == 1 and end is None:
        end = args[0]
    elif args:
        start, end, step = (*args, *(end, step)[len(args) - 1 :])[:3]
    given = (0 if start is None else start, end, 1 if step is None else step)
    names = (("end", 1),) * 3 if len(args) == 1 else (("start", 1), ("end", 2), ("step", 3))
    low, high, by = (number_argument(v, "arange", *n) for v, n in zip(given, names, strict=True))
    wanted = np_dtype(dtype, "arange")
    check_options("arange", device, layout, pin_memory)
    target = out._array.dtype if isinstance(out, TensorBase) else wanted
    if target is None:
        whole = all([isinstance(v, int) for v in (low, high, by)])
        target = dtypes.int64.np if whole else dtypes.default_np()
    xp = home(device) if out is None else host
    array = range_values(low, high, by, target, "arange_cpu", xp)
    if out is None:
        return made(array, requires_grad)
    if out._array.size and out._array.size != array.size:
        warn(
            f"The number of elements in the out tensor of shape {list(out._array.shape)} is "
            f"{out._array.size} which does not match the computed number of elements {array.size}. "
            "Note that this may occur as a result of rounding error. The out tensor will be "
            f"resized to a tensor of shape ({array.size},).",
            UserWarning,
        )
    return store_range("arange", out, array, wanted)


def store_range(function: str, out: Any, array: Any, wanted: Any) -> Any:
    """Fill `out` in order; it keeps its shape where it has as many elements as the range."""
    if isinstance(out, TensorBase) and out._array.size == array.size:
        array = array.reshape(out._array.shape)
    return store_out(function, out, array, wanted)


def check_range(low: Any, high: Any, by: Any) -> None:
    for value in (low, high, by):
        if isinstance(value, complex):
            raise does_not_fit(dtypes.float64)
    if by == 0:
        raise RuntimeError("step must be nonzero")
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"unsupported range: {low:g} -> {high:g}")
    if (by > 0) != (high >= low) and high != low:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")


# Too many numbers for any memory. For some counts beyond this NumPy gives an empty array.
MOST_STEPS = 1 << 60


def checked_count(count: int) -> int:
    """The number of elements of a range, if an array can have as many."""
    if count >= MOST_STEPS:
        if count >= 1 << 63:
            raise RuntimeError("invalid size, possible overflow?")
        raise RuntimeError(f"Storage size calculation overflowed with sizes=[{count}]")
    return count


def finite_steps(steps: float) -> float:
    """A number of steps, if it is one: the bounds may be too far apart for a float."""
    if not math.isfinite(steps):
        raise RuntimeError("invalid size, possible overflow?")
    return steps


def range_values(low: Any, high: Any, by: Any, dtype: Any, kernel: str, xp: Any = np) -> Any:
    """low, low + by, … below `high`, rounded as PyTorch's vector loop rounds."""
    if dtype.kind in "bc":
        raise NotImplementedError(
            f"\"{kernel}\" not implemented for '{dtypes.of(dtype).scalar_type}'"
        )
    check_range(low, high, by)
    if dtype.kind in "iu":
        count = math.ceil(finite_steps((high - low) / by))
        low, high, by = int(low), int(high), int(by)
        if not all([-(1 << 63) <= n < 1 << 63 for n in (low, high, by)]):
            raise does_not_fit(dtypes.int64)
        if dtype == np.int64:
            # Only here are the bounds whole before elements are counted.
            if by == 0:
                raise ValueError("step must be nonzero")
            count = -((low - high) // by)
        checked_count(count)
        return (low + by * xp.arange(count, dtype=np.int64)).astype(dtype, copy=False)
    count = checked_count(math.ceil(finite_steps((float(high) - float(low)) / float(by))))
    if xp is not host:  # every number by itself, rounded once
        return (xp.arange(count, dtype=np.float64) * float(by) + float(low)).astype(dtype)
    return steps_from(float(low), float(by), count, dtype)


def steps_from(start: float, step: float, count: int, dtype: Any) -> Any:
    """start + i * step. Whole blocks of two vectors start again from a rounded base."""
    if KERNELS is not None and dtype in (F32, F64) and not KERNELS.has_tape():
        out = np.empty(count, dtype)
        KERNELS.KERNELS["steps_f32" if dtype == F32 else "steps_f64"](
            (out,), (count,), (start, step)
        )
        return out
    width = 32 // dtype.itemsize
    small = dtype.itemsize == 2
    if small:  # half precision is computed in single
        start, step = float(np.float32(start)), float(np.float32(step))
    exact = fused(np.arange(count, dtype=np.float64), step, start)
    out = exact.astype(np.float32).astype(dtype) if small else exact.astype(dtype)
    whole_blocks = count - count % (2 * width)
    if whole_blocks:
        base = out[:whole_blocks:width].astype(np.float64)[:, None]
        lanes = fused(np.arange(width, dtype=np.float64), step, base).reshape(-1)
        out[:whole_blocks] = (
            lanes.astype(np.float32).astype(dtype) if small else lanes.astype(dtype)
        )
    return out


@api(name="range", method=False)
def range_(
    start: Any,
    end: Any,
    step: Any = 1,
    *,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """range(start, end, step=1, *, dtype=None) -> Tensor: a range with its end (deprecated).

    >>> range(0, 2)
    tensor([0., 1., 2.])
    """
    warn(
        "torch.range is deprecated and will be removed in a future release because its behavior is "
        "inconsistent with Python's range builtin. Instead, use torch.arange, which produces "
        "values in [start, end).",
        UserWarning,
    )
    for position, (name, value) in enumerate((("start", start), ("end", end)), 1):
        if value is None:
            raise TypeError(
                f"range(): argument '{name}' (position {position}) must be Number, not NoneType"
            )
    check_range(start, end, step)
    target = np_dtype(dtype, "range") or dtypes.default_np()
    checked_device(device, "range")
    count = checked_count(int(finite_steps((end - start) / step)) + 1)
    array = (
        steps_from(float(start), float(step), count, target)
        if target.kind in "fV"
        else (start + step * np.arange(count)).astype(target)
    )
    return made(array, requires_grad) if out is None else store_range("range", out, array, None)


def space_bounds(function: str, start: Any, end: Any, steps: Any, dtype: Any) -> tuple[Any, ...]:
    """Bounds, count and dtype of linspace and logspace, checked."""
    if isinstance(steps, bool) or not hasattr(steps, "__index__"):
        given = [type(v).__name__ for v in (start, end, steps) if v is not None]
        raise TypeError(
            f"{function}() received an invalid combination of arguments - got "
            f"({', '.join(given)}), but expected one of:\n * (Number or Tensor start, Number or "
            f"Tensor end, int steps, {CREATION_OPTIONS})\n"
        )
    tensors = {n: v for n, v in (("start", start), ("end", end)) if isinstance(v, TensorBase)}
    if any([v._array.ndim for v in tensors.values()]):
        dims = [f"{name} with {v._array.ndim} dimension(s)" for name, v in tensors.items()]
        raise RuntimeError(
            f"{function} only supports 0-dimensional start and end tensors, but got "
            f"{' and '.join(dims)}."
        )
    start, end = (v.detach() if isinstance(v, TensorBase) else v for v in (start, end))  # type: ignore[attr-defined]
    low, high = (
        number_argument(start, function, "start", 1),
        number_argument(end, function, "end", 2),
    )
    count = int(steps)
    if count < 0:
        raise RuntimeError("number of steps must be non-negative")
    if count >= 1 << 63:
        raise ValueError("Overflow when unpacking long long")
    checked_count(count)
    is_complex = isinstance(low, complex) or isinstance(high, complex)
    if dtype is None:
        dtype = dtypes.default_complex().np if is_complex else dtypes.default_np()
    elif is_complex and dtype.kind != "c":
        want = dtypes.of(dtype)
        raise RuntimeError(
            f"torch.{function}(): inferred dtype "
            f"{dtypes.cpp_name(dtypes.default_complex())} can't be safely cast to passed "
            f"dtype {want.scalar_type}"
        )
    if dtype.kind == "b" and count > 1:
        raise NotImplementedError(f"\"{function}_cpu\" not implemented for 'Bool'")
    return low, high, count, dtype


def evenly(low: Any, high: Any, count: int, dtype: Any) -> Any:
    """`count` values from both ends towards the middle, each with one rounding."""
    if count == 1:
        return np.asarray([low]).astype(dtype)
    index = np.arange(count)
    back = count - 1 - index
    if dtype.kind == "c":
        part = np.float64 if dtype.itemsize == 16 else np.float32
        step = dtype.type((dtype.type(high) - dtype.type(low)) / part(max(count - 1, 1)))
        return np.where(
            index < count // 2,
            dtype.type(low) + step * index.astype(part),
            dtype.type(high) - step * back.astype(part),
        ).astype(dtype)
    if dtype.itemsize == 2 and dtype.kind in "fV":
        return evenly_half(low, high, index, back, dtype)
    work = dtype if dtype.kind == "f" else np.dtype(np.float64)
    if dtype.kind in "iu":
        low, high = from_data.fill_value(low, dtype), from_data.fill_value(high, dtype)
    first, last = work.type(low), work.type(high)
    step = float(work.type((last - first) / work.type(max(count - 1, 1))))
    if work.itemsize == 4 and count < 1 << 29:  # in double the products are exact as they are
        out, middle = np.empty(count, dtype), count // 2
        out[:middle] = index[:middle] * step + float(first)
        out[middle:] = back[middle:] * -step + float(last)
        return out
    up = fused(index.astype(np.float64), step, float(first))
    down = fused(back.astype(np.float64), -step, float(last))
    return np.where(index < count // 2, up, down).astype(dtype)


def powers_between(low: Any, high: Any, count: int, base: float, dtype: Any) -> Any:
    """The powers of `logspace`: exponents are in double, but for the distance of the ends."""
    first, last = np.asarray([low, high]).astype(dtype)
    step = float(last - first) / max(count - 1, 1)
    index = np.arange(count)
    up, down = float(first) + step * index, float(last) - step * (count - 1 - index)
    exponents = np.where(index < count // 2, up, down) if count > 1 else np.full(count, float(low))
    if dtype.itemsize < 8 or Settings.portable:
        return host.power(np.float64(base), exponents)
    return np.array([c_power(base, e) for e in exponents.tolist()], np.float64)


def c_power(base: float, exponent: float) -> float:
    """A power as the C library computes it; those of NumPy differ in the last bit."""
    try:
        return math.pow(base, exponent)
    except (OverflowError, ValueError):
        return float(np.power(np.float64(base), exponent))


def evenly_half(low: Any, high: Any, index: Any, back: Any, dtype: Any) -> Any:
    """`evenly` for half precision, where every step is rounded."""

    def rounded(x: Any) -> Any:
        return np.asarray(x).astype(np.float32).astype(dtype).astype(np.float32)

    first, last = rounded(low), rounded(high)
    step = rounded(rounded(last - first) / rounded(max(len(index) - 1, 1)))
    up = first + rounded(step * rounded(index))
    down = last - rounded(step * rounded(back))
    return np.where(index < len(index) // 2, up, down).astype(dtype)


@api(method=False)
def linspace(
    start: Any,
    end: Any,
    steps: Any = None,
    *,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """linspace(start, end, steps, *, dtype=None) -> Tensor: evenly spaced, both ends in.

    >>> linspace(0, 1, 5)
    tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])
    """
    wanted = np_dtype(dtype, "linspace")
    check_options("linspace", device, layout, pin_memory)
    target = out._array.dtype if out is not None else wanted
    array = evenly(*space_bounds("linspace", start, end, steps, target))
    return (
        made(array, requires_grad) if out is None else store_range("linspace", out, array, wanted)
    )


@api(method=False)
def logspace(
    start: Any,
    end: Any,
    steps: Any = None,
    base: float = 10.0,
    *,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """logspace(start, end, steps, base=10.0, *, dtype=None) -> Tensor: `steps` powers of `base`,
    with evenly spaced exponents.

    >>> logspace(0, 2, 3)
    tensor([  1.,  10., 100.])
    """
    wanted = np_dtype(dtype, "logspace")
    check_options("logspace", device, layout, pin_memory)
    target = out._array.dtype if out is not None else wanted
    low, high, count, target = space_bounds("logspace", start, end, steps, target)
    if target.kind in "iu" and count > 1:
        low, high = from_data.fill_value(low, target), from_data.fill_value(high, target)
    work = target if target.kind in "fcV" else np.dtype(np.float64)
    if target.kind in "fV":
        powers = powers_between(low, high, count, base, target)
    else:
        wide = np.complex128 if target.kind == "c" else np.float64
        powers = host.power(wide(base), evenly(low, high, count, work).astype(wide))
    if target.kind in "iu" and count == 1:
        from_data.fill_value(float(powers[0]), target)
    array = powers.astype(np.int64).astype(target) if target.kind in "iu" else powers.astype(target)
    return (
        made(array, requires_grad) if out is None else store_range("logspace", out, array, wanted)
    )
