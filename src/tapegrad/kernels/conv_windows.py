"""Convolution on arrays: windows gathered and scattered, and the three products.

A convolution `y = correlate(x, w)` is linear in x and in w; `x_of` and `w_of` are its transposes.
Together the three are closed: the derivative of each is another of them.

Sizes are given per spatial dimension. `low` is how far the first window reaches out of the array
at its low end (negative: starts inside); elements outside count as zero, so that one explicit
output size says everything about the other end.

The copies cost more than the multiplications when they are done naively. Windows are gathered
along all spatial dimensions but the first; along that one, the rows that a tap needs lie one after
the other already, and each tap is a matrix product with a part of the same copy.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

from ..core.strides import strided

Ints = tuple[int, ...]
Span = tuple[slice, slice]  # outputs, and the inputs that they read

SHALLOW = 16  # a product with fewer columns than this is no better than copying every tap
SHORT = 32  # with fewer positions than this, all images make one matrix


def taps(size: int, kernel: int, stride: int, low: int, dilation: int, out: int) -> list[Span]:
    """Per tap of a kernel, which outputs read which inputs along one dimension."""
    found = []
    for tap in range(kernel):
        shift = tap * dilation - low
        first = max(0, -(shift // stride))
        last = max(first, min(out, (size - 1 - shift) // stride + 1))
        start = first * stride + shift
        stop = start + (last - first - 1) * stride + 1 if last > first else start
        found.append((slice(first, last), slice(start, stop, stride)))
    return found


@functools.lru_cache(256)
def spans(
    size: Ints, kernel: Ints, stride: Ints, low: Ints, dilation: Ints, out: Ints
) -> list[tuple[Ints, tuple[slice, ...], tuple[slice, ...]]]:
    """Every tap of the whole kernel: its index, the outputs and the inputs, without empty ones."""
    axes = [
        [(i, to, at) for i, (to, at) in enumerate(taps(*axis)) if to.stop > to.start]
        for axis in zip(size, kernel, stride, low, dilation, out, strict=True)
    ]
    found = []
    for chosen in itertools.product(*axes):
        tap, to, at = zip(*chosen, strict=True)
        found.append((tap, to, at))
    return found


def bordered(xp: Any, x: Any, low: Ints, needed: Ints) -> Any:
    """`needed` places of x along each dimension, from `low` before its first; zeros outside."""
    count = len(low)
    size = x.shape[x.ndim - count :]
    if any([p < 0 for p in low]):
        x = x[(..., *[slice(max(-p, 0), None) for p in low])]
        size = x.shape[x.ndim - count :]
    if all([p <= 0 and m <= n for p, m, n in zip(low, needed, size, strict=True)]):
        return x
    starts = [max(p, 0) for p in low]
    shape = [max(m, p + n) for p, m, n in zip(starts, needed, size, strict=True)]
    out = xp.zeros((*x.shape[: x.ndim - count], *shape), x.dtype)
    out[(..., *[slice(p, p + n) for p, n in zip(starts, size, strict=True)])] = x
    return out


def gather(
    xp: Any, x: Any, kernel: Ints, stride: Ints, low: Ints, dilation: Ints, out: Ints
) -> Any:
    """The windows of x (*lead, *size) as (*lead, *kernel, *out); x itself if there is one tap."""
    count = len(kernel)
    lead = x.shape[:-count]
    shape = (*lead, *kernel, *out)
    if x.shape[-count:] == out and all([n == 1 for n in (*kernel, *stride)]) and not any(low):
        return xp.ascontiguousarray(x).reshape(shape)
    if 0 in shape:
        return xp.empty(shape, x.dtype)
    needed = tuple(
        [
            (o - 1) * s + d * (k - 1) + 1
            for k, s, d, o in zip(kernel, stride, dilation, out, strict=True)
        ]
    )
    x = bordered(xp, x, low, needed)
    steps = x.strides[-count:]
    strides = (
        *x.strides[:-count],
        *[step * d for step, d in zip(steps, dilation, strict=True)],
        *[step * s if n > 1 else step for step, s, n in zip(steps, stride, out, strict=True)],
    )
    return xp.ascontiguousarray(strided(xp, x, shape, strides))


def scatter(xp: Any, cols: Any, size: Ints, stride: Ints, low: Ints, dilation: Ints) -> Any:
    """The transpose of `gather`: overlapping windows are added up."""
    count = len(size)
    lead = cols.shape[: -2 * count]
    kernel, out = cols.shape[-2 * count : -count], cols.shape[-count:]
    x = xp.zeros((*lead, *size), cols.dtype)
    for tap, to, at in spans(size, kernel, stride, low, dilation, out):
        x[(..., *at)] += cols[(..., *tap, *to)]
    return x


class Plan:
    """How x (images, channels, *size) is copied for products with w; `cols` is the copy."""

    def __init__(
        self,
        xp: Any,
        x: Any,
        kernel: Ints,
        stride: Ints,
        low: Ints,
        dilation: Ints,
        groups: int,
        out: Ints,
        merge: bool,
    ) -> None:
        images, channels = x.shape[:2]
        depth = channels // groups
        x = x.reshape(images, groups, depth, *x.shape[2:])
        self.length = length = math.prod(out)
        self.step = 0  # between the parts of `cols` for one tap of the first dimension and the next
        self.taps = 1
        if merge:
            # The images are one more dimension along which nothing slides.
            x = x.transpose(1, 2, 0, *range(3, x.ndim))
            one, zero = (1,), (0,)
            cols = gather(
                xp, x, one + kernel, one + stride, zero + low, one + dilation, (images, *out)
            )
            self.cols = cols.reshape(1, groups, depth * math.prod(kernel), images * length)
            self.length = images * length
        elif by_rows(depth, kernel, stride, groups):
            rows = out[0] + dilation[0] * (kernel[0] - 1)
            rest = (1, *kernel[1:])
            cols = gather(xp, x, rest, stride, low, dilation, (rows, *out[1:]))
            inner = math.prod(out[1:])
            self.cols = cols.reshape(images, groups, depth * math.prod(rest), rows * inner)
            self.step = dilation[0] * inner
            self.taps = kernel[0]
        else:
            cols = gather(xp, x, kernel, stride, low, dilation, out)
            self.cols = cols.reshape(images, groups, depth * math.prod(kernel), length)

    def part(self, tap: int) -> Any:
        start = tap * self.step
        return self.cols[..., start : start + self.length]


def by_rows(depth: int, kernel: Ints, stride: Ints, groups: int) -> bool:
    """Whether the taps along the first dimension are taken one by one."""
    if stride[0] != 1 or kernel[0] == 1:
        return False
    return groups > 1 or depth * math.prod(kernel[1:]) >= SHALLOW


def correlate(
    xp: Any,
    x: Any,
    w: Any,
    stride: Ints,
    low: Ints,
    dilation: Ints,
    groups: int,
    out: Ints,
) -> Any:
    """y[n, o, p] = the sum of w[o, c, t] * x[n, c, p * stride - low + t * dilation]."""
    x, w = xp.ascontiguousarray(x), xp.ascontiguousarray(w)
    images, kernel = x.shape[0], w.shape[2:]
    features, depth = w.shape[0] // groups, w.shape[1]
    merge = math.prod(out) < SHORT and images > 1
    plan = Plan(xp, x, kernel, stride, low, dilation, groups, out, merge)
    w = w.reshape(groups, features, depth, plan.taps, -1).transpose(3, 0, 1, 2, 4)
    w = xp.ascontiguousarray(w).reshape(plan.taps, groups, features, -1)
    y = xp.matmul(w[0], plan.part(0))
    if plan.taps > 1:
        more = xp.empty_like(y)
        for tap in range(1, plan.taps):
            y += xp.matmul(w[tap], plan.part(tap), out=more)
    if merge:
        y = y.reshape(groups * features, images, -1).transpose(1, 0, 2)
    return xp.ascontiguousarray(y).reshape(images, groups * features, *out)


def x_of(
    xp: Any,
    y: Any,
    w: Any,
    size: Ints,
    stride: Ints,
    low: Ints,
    dilation: Ints,
    groups: int,
) -> Any:
    """The transpose of `correlate` in x: a convolution run backwards, from y to x."""
    y, w = xp.ascontiguousarray(y), xp.ascontiguousarray(w)
    images, out, kernel = y.shape[0], y.shape[2:], w.shape[2:]
    features, depth = w.shape[0] // groups, w.shape[1]
    w = w.reshape(groups, features, depth, *kernel)
    few = features < 4 * depth and math.prod(size) <= 2 * math.prod(out)
    if few and all([s == 1 for s in stride]):
        # With steps of one it is a correlation too, with the kernel turned round; that copies the
        # windows of y, where the other way adds up the windows of x.
        turned = w[(..., *(slice(None, None, -1),) * len(kernel))].swapaxes(1, 2)
        turned = turned.reshape(groups * depth, features, *kernel)
        back = tuple([d * (k - 1) - p for k, d, p in zip(kernel, dilation, low, strict=True)])
        return correlate(xp, y, turned, stride, back, dilation, groups, size)
    flat = xp.ascontiguousarray(w.reshape(groups, features, -1).swapaxes(1, 2))
    y = y.reshape(images, groups, features, -1)
    if y.shape[-1] < SHORT and images > 1:
        y = xp.ascontiguousarray(y.transpose(1, 2, 0, 3)).reshape(groups, features, -1)
        cols = xp.matmul(flat, y).reshape(groups * depth, *kernel, images, *out)
        cols = xp.moveaxis(cols, 1 + len(kernel), 0)
    else:
        cols = xp.matmul(flat, y).reshape(images, groups * depth, *kernel, *out)
    return scatter(xp, cols, size, stride, low, dilation)


def w_of(
    xp: Any,
    x: Any,
    y: Any,
    kernel: Ints,
    stride: Ints,
    low: Ints,
    dilation: Ints,
    groups: int,
) -> Any:
    """The transpose of `correlate` in w: which weights bring x and y together."""
    x, y = xp.ascontiguousarray(x), xp.ascontiguousarray(y)
    images, out = y.shape[0], y.shape[2:]
    features, depth = y.shape[1] // groups, x.shape[1] // groups
    length = math.prod(out)
    # One product per image is added up afterwards: not when that is larger than the copy itself.
    merge = length < max(SHORT, features) and images > 1
    plan = Plan(xp, x, kernel, stride, low, dilation, groups, out, merge)
    y = y.reshape(images, groups, features, length)
    if merge:
        y = xp.ascontiguousarray(y.transpose(1, 2, 0, 3)).reshape(1, groups, features, -1)
    y = y.swapaxes(2, 3)
    rows = [xp.add.reduce(xp.matmul(plan.part(tap), y), 0) for tap in range(plan.taps)]
    w = xp.stack(rows).reshape(plan.taps, groups, depth, -1, features).transpose(1, 4, 2, 0, 3)
    return xp.ascontiguousarray(w).reshape(groups * features, depth, *kernel)
