"""`make_tensor`: random tensors of any dtype and layout."""

from __future__ import annotations

import math
from typing import Any

import tapegrad as tg

from ..core.warned import warn

FLOATS = (tg.float16, tg.bfloat16, tg.float32, tg.float64)
COMPLEX = (tg.complex64, tg.complex128)
SIGNED = (tg.int8, tg.int16, tg.int32, tg.int64)
UNSIGNED = (tg.uint8, tg.uint16, tg.uint32, tg.uint64)


def make_tensor(
    *shape: Any,
    dtype: Any,
    device: Any,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Any:
    """A tensor with values between `low` and `high`, uniformly drawn.

    Without bounds: -9 to 9 (below 10 for integers, from 0 for unsigned ones and truth values).

    >>> _ = torch.manual_seed(0)
    >>> torch.testing.make_tensor(3, dtype=torch.int64, device="cpu", low=0, high=10)
    tensor([4, 9, 3])
    """
    if len(shape) == 1 and isinstance(shape[0], (list, tuple)):
        shape = tuple(shape[0])
    if noncontiguous and memory_format is not None:
        raise ValueError(
            "The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got "
            f"noncontiguous={noncontiguous} and memory_format={memory_format}"
        )
    if requires_grad and dtype not in FLOATS and dtype not in COMPLEX:
        raise ValueError(
            "`requires_grad=True` is not supported for boolean and integral dtypes, but got "
            f"dtype={dtype}"
        )
    spread = noncontiguous and math.prod(shape) > 1
    size = (*shape[:-1], 2 * shape[-1]) if spread else shape
    result = drawn(size, dtype, device, low, high)
    if spread:
        result = result[..., 1::2]
    elif memory_format is not None:
        result = result.clone(memory_format=memory_format)
    if exclude_zero:
        smallest = tg.finfo(dtype).tiny if dtype in FLOATS or dtype in COMPLEX else 1
        result[result == 0] = smallest
    return result.requires_grad_() if requires_grad else result


def drawn(size: tuple[int, ...], dtype: Any, device: Any, low: Any, high: Any) -> Any:
    """Contiguous values of a dtype."""
    if dtype is tg.bool:
        low, high = bounds(low, high, dtype, 0, 2, 0, 2)
        return tg.randint(math.ceil(low), math.ceil(high), size, device=device, dtype=dtype)
    if dtype in SIGNED or dtype in UNSIGNED:
        info = tg.iinfo(dtype)
        # int64 itself cannot hold the number after its largest.
        above = info.max + (1 if dtype not in (tg.int64, tg.uint64) else 0)
        start = -9 if dtype in SIGNED else 0
        low, high = bounds(low, high, dtype, info.min, above, start, 10)
        drawn_as = tg.int64 if dtype in UNSIGNED[1:] else dtype  # which have no generator
        whole = math.ceil(low), math.ceil(high)
        return tg.randint(*whole, size, device=device, dtype=drawn_as).to(dtype)
    if dtype in FLOATS or dtype in COMPLEX:
        info = tg.finfo(dtype)
        low, high = bounds(low, high, dtype, info.min, info.max, -9, 9)
        result = tg.empty(size, device=device, dtype=dtype)
        parts = tg.view_as_real(result) if dtype in COMPLEX else result
        parts.uniform_(low, high)
        return result
    raise TypeError(
        f"The requested dtype '{dtype}' is not supported by torch.testing.make_tensor(). To "
        "request support, file an issue at: https://github.com/pytorch/pytorch/issues"
    )


def bounds(
    low: Any, high: Any, dtype: Any, lowest: Any, highest: Any, default_low: Any, default_high: Any
) -> tuple[Any, Any]:
    """The bounds asked for, or the usual ones, within what the dtype can hold."""
    low = default_low if low is None else low
    high = default_high if high is None else high
    if any(isinstance(v, float) and math.isnan(v) for v in (low, high)):
        raise ValueError(f"`low` and `high` cannot be NaN, but got low={low!r} and high={high!r}")
    continuous = dtype in FLOATS or dtype in COMPLEX
    if low == high and continuous:
        warn(
            "Passing `low==high` to `torch.testing.make_tensor` for floating or complex types is "
            "deprecated since 2.1 and will be removed in 2.3. Use `torch.full(...)` instead.",
            FutureWarning,
        )
    elif low >= high:
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    elif high < lowest or low >= highest:
        raise ValueError(
            f"The value interval specified by `low` and `high` is [{low}, {high}), but {dtype} "
            f"only supports [{lowest}, {highest})"
        )
    return max(low, lowest), min(high, highest)
