"""Resampling along one axis: which input places each output reads, and with which weights.

A table has one row per output and one column per tap. Sizes, scales and weights are computed in
the precision in which PyTorch computes them, so that the same places are read.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.host_arrays import host

Table = tuple[Any, Any]  # places (rows, taps), weights of the same shape or None for one tap of 1

F32 = np.float32

# ---------------------------------------------------------------------- tables


def step(n: int, out: int, scale: float | None, align: bool, kind: Any) -> Any:
    """The distance in the input of two neighbouring outputs."""
    if align:
        return kind(n - 1) / kind(out - 1) if out > 1 else kind(0)
    if scale is not None and scale > 0:
        return kind(1.0 / scale)
    return kind(n) / kind(out)


@functools.lru_cache(256)
def table(
    mode: str, n: int, out: int, scale: float | None, align: bool, kind: Any, small: bool = False
) -> Table:
    """The taps of `out` outputs over `n` inputs, by PyTorch's name for the mode.

    `small`: as PyTorch's kernel for small images finds the nearest place, and all its gradients.
    """
    if mode.startswith("nearest"):
        exact = mode == "nearest-exact"
        if small:
            return nearest_small(n, out, scale, exact), None
        return nearest(n, out, scale, exact, kind), None
    by = step(n, out, scale, align, kind)
    if mode in FILTERS:
        if n == out:
            return np.arange(n)[:, None], None
        return antialiased(*FILTERS[mode], n, out, by, kind)
    return (cubic if mode == "bicubic" else linear)(n, out, by, align, kind)


def nearest(n: int, out: int, scale: float | None, exact: bool, kind: Any) -> Any:
    by = step(n, out, scale, False, kind)
    places = np.arange(out).astype(kind)
    if exact:
        # The product is not rounded before the half is taken off: one fused instruction.
        product = (places + kind(0.5)).astype(np.float64) * np.float64(by)
        at = (product - 0.5).astype(kind) + kind(0.5)
    else:
        at = places * by
    return rounded_down(at, n)


def nearest_small(n: int, out: int, scale: float | None, exact: bool) -> Any:
    places = np.arange(out)
    if not exact and n == out:
        return places[:, None]
    if not exact and out == 2 * n:
        return places[:, None] // 2
    half = np.float32(0.5 if exact else 0)
    return rounded_down((places.astype(np.float32) + half) * step(n, out, scale, False, F32), n)


def rounded_down(at: Any, n: int) -> Any:
    """Rounded to single precision first, as PyTorch does whatever the dtype."""
    return np.minimum(np.floor(at.astype(F32)).astype(np.int64), n - 1)[:, None]


def sources(out: int, by: Any, align: bool, kind: Any) -> Any:
    """The position of each output in the input."""
    places = np.arange(out).astype(kind)
    if align:
        return places * by
    return (places + kind(0.5)) * by - kind(0.5)


def linear(n: int, out: int, by: Any, align: bool, kind: Any) -> Table:
    if n == out:
        return np.arange(out)[:, None], None
    at = np.maximum(sources(out, by, align, kind), kind(0))
    low = np.minimum(at.astype(np.int64), n - 1)
    high = np.minimum(low + 1, n - 1)
    part = np.clip(at - low.astype(kind), kind(0), kind(1))
    return np.stack((low, high), 1), np.stack((kind(1) - part, part), 1)


def near_cubic(x: Any, a: float) -> Any:
    return ((a + 2) * x - (a + 3)) * x * x + 1


def far_cubic(x: Any, a: float) -> Any:
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a


def cubic(n: int, out: int, by: Any, align: bool, kind: Any) -> Table:
    at = sources(out, by, align, kind)
    low = np.floor(at)
    part = np.clip(at - low, kind(0), kind(1))
    a = kind(-0.75)
    weights = np.stack(
        (
            far_cubic(part + 1, a),
            near_cubic(part, a),
            near_cubic(1 - part, a),
            far_cubic(2 - part, a),
        ),
        1,
    )
    places = low.astype(np.int64)[:, None] + np.arange(-1, 3)
    return np.clip(places, 0, n - 1), weights.astype(kind)


def hat(x: Any) -> Any:
    return np.maximum(1 - np.abs(x), 0)


def smooth(x: Any) -> Any:
    x = np.abs(x)
    a = x.dtype.type(-0.5)
    return np.where(x < 1, near_cubic(x, a), np.where(x < 2, far_cubic(x, a), 0))


def lanczos(x: Any) -> Any:
    return np.where(np.abs(x) < 3, host.sinc(x) * host.sinc(x / 3), 0)


# Antialiasing filters, and how far they reach to each side.
FILTERS: dict[str, tuple[Callable[[Any], Any], int]] = {
    "bilinear-aa": (hat, 1),
    "bicubic-aa": (smooth, 2),
    "lanczos-aa": (lanczos, 3),
}


def antialiased(
    curve: Callable[[Any], Any], reach: int, n: int, out: int, by: Any, kind: Any
) -> Table:
    """The table of an antialiasing filter, which widens as the image shrinks."""
    stretch = max(by, kind(1))
    support = kind(reach) * stretch
    centre = by * (np.arange(out).astype(kind) + kind(0.5))
    begin = np.maximum((centre - support + kind(0.5)).astype(np.int64), 0)
    end = np.minimum((centre + support + kind(0.5)).astype(np.int64), n)
    places = begin[:, None] + np.arange(max(int((end - begin).max()), 1))
    own = places < end[:, None]
    distance = (places.astype(kind) - centre[:, None] + kind(0.5)) * (kind(1) / stretch)
    weights = np.where(own, curve(distance), 0).astype(kind)
    total = weights.sum(1, keepdims=True)
    weights = np.divide(weights, total, out=weights, where=total != 0)
    return np.minimum(places, np.maximum(end - 1, 0)[:, None]), weights


@functools.lru_cache(256)
def transposed(mode: str, n: int, out: int, scale: float | None, align: bool, kind: Any) -> Table:
    """The table of the gradient: per input, the outputs that read it, and their weights."""
    places, weights = table(mode, n, out, scale, align, kind, True)
    flat = places.reshape(-1)
    factors = np.ones(flat.shape, kind) if weights is None else weights.reshape(-1)
    rows = np.repeat(np.arange(out), places.shape[1])
    used = factors != 0
    flat, factors, rows = flat[used], factors[used], rows[used]
    order = np.argsort(flat, kind="stable")
    flat, factors, rows = flat[order], factors[order], rows[order]
    count = np.bincount(flat, minlength=n)
    first = np.cumsum(count) - count
    column = np.arange(flat.size) - first[flat]
    width = max(int(count.max()), 1)
    back = np.zeros((n, width), np.int64)
    by = np.zeros((n, width), kind)
    back[flat, column] = rows
    by[flat, column] = factors
    return back, by


# ---------------------------------------------------------------------- applying them


def mix(xp: Any, x: Any, axis: int, taps: Table) -> Any:
    """Weighted sums of the places that a table names along `axis`."""
    places, weights = taps
    if weights is None:
        return x.take(xp.asarray(places[:, 0]), axis)
    behind = (1,) * (x.ndim - 1 - axis)
    total = None
    for k in range(places.shape[1]):
        part = x.take(xp.asarray(places[:, k]), axis)
        part *= xp.asarray(weights[:, k], x.dtype).reshape(-1, *behind)
        blank = weights[:, k] == 0
        if blank.any():
            # Not a tap at all: infinities must not leave a NaN here.
            part[(slice(None),) * axis + (xp.asarray(blank),)] = 0
        if total is None:
            total = part
        else:
            total += part
    return total


def stored_as(dtype: Any, taps: Table) -> Table:
    """The table with weights of half precision, which PyTorch's general kernels keep them in."""
    places, weights = taps
    if weights is None:
        return taps
    rounded = weights.astype(dtype).astype(weights.dtype)
    if weights.shape[1] == 2:
        rounded[:, 0] = (1 - rounded[:, 1]).astype(dtype).astype(weights.dtype)
    return places, rounded


@functools.lru_cache(256)
def fixed_point(mode: str, n: int, out: int, scale: float | None, align: bool) -> tuple[Any, ...]:
    """A table for bytes: 16-bit weights, and by how many bits the sums are shifted back."""
    places, weights = table(mode, n, out, scale, align, np.float64)
    if mode not in FILTERS:
        # Taps that were moved to the edge count as one.
        same = places[:, :, None] == places[:, None, :]
        merged = (same * weights[:, None, :]).sum(2)
        weights = np.where(np.tril(same, -1).any(2), 0, merged)
    largest = weights.max()
    bits = 0
    while bits < 22 and int(0.5 + largest * (1 << (bits + 1))) < 1 << 15:
        bits += 1
    whole = np.trunc(weights * (1 << bits) + np.copysign(0.5, weights))
    return places, whole.astype(np.int32), bits


def mix_bytes(xp: Any, x: Any, axis: int, taps: tuple[Any, ...]) -> Any:
    """`mix` for bytes: in integers, rounded and clamped to bytes."""
    places, weights, bits = taps
    behind = (1,) * (x.ndim - 1 - axis)
    total = xp.full((), 1 << (bits - 1), np.int32)
    for k in range(places.shape[1]):
        part = x.take(xp.asarray(places[:, k]), axis).astype(np.int32)
        total = total + part * xp.asarray(weights[:, k]).reshape(-1, *behind)
    return xp.clip(total >> bits, 0, 255).astype(x.dtype)


def forward_name(mode: str, n: int) -> str:
    return f"upsample_{mode.replace('-', '_')}{n}d"


def backward_name(mode: str, n: int) -> str:
    return f"{forward_name(mode, n)}_backward"
