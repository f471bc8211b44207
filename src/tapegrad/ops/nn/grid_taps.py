"""The neighbours of points in an image: which pixels a sample reads, and with which weights.

Along one axis a point has one neighbour (nearest), two (linear) or four (cubic); the weights are
polynomials of the position between pixels, here also differentiated `order` times. Everything is
computed in the dtype of the points, half precision too, in the order of PyTorch's kernels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.rounding import half_as_single
from .pool_windows import volume

BILINEAR, NEAREST, BICUBIC = 0, 1, 2
ZEROS, BORDER, REFLECTION = 0, 1, 2
SHARPNESS = -0.75  # of the cubic

# ---------------------------------------------------------------------- one axis


def placed(x: Any, size: int, align: bool, flat: bool) -> tuple[Any, Any]:
    """From -1 … 1 to pixels, and the slope of that; rounded as PyTorch's 2-d and 3-d kernels do."""
    number = x.dtype.type
    slope = number((size - 1) / 2 if align else size / 2)
    if flat:
        return ((x + number(1)) * slope if align else (x + number(1)) * slope - number(0.5)), slope
    if align:
        return (x + number(1)) / number(2) * number(size - 1), slope
    return ((x + number(1)) * number(size) - number(1)) / number(2), slope


def reflected(xp: Any, x: Any, size: int, align: bool) -> tuple[Any, Any]:
    """Points outside mirrored back inside, and the sign of that."""
    number = x.dtype.type
    low = number(0.0 if align else -0.5)
    span = number(size - 1 if align else size)
    if span == 0:
        return xp.zeros_like(x), xp.zeros_like(x)
    away = xp.abs(x - low)
    flips = xp.floor(away / span)
    rest = away - flips * span
    odd = flips.astype(np.float64) % 2 == 1
    sign = xp.where((x < low) ^ odd, number(-1), number(1))
    return xp.where(odd, span - rest, rest) + low, sign


def clipped(xp: Any, x: Any, size: int) -> tuple[Any, Any]:
    """Points outside moved to the edge, and whether they were inside."""
    first, last = x.dtype.type(0), x.dtype.type(size - 1)
    inside = (x > first) & (x < last)
    return xp.fmin(xp.fmax(x, first), last), inside.astype(x.dtype)  # and NaN to the first pixel


def kept_inside(xp: Any, x: Any, size: int, padding: int, align: bool) -> tuple[Any, Any]:
    """A coordinate after padding moved it inside, and the slope of that."""
    if padding == ZEROS:
        return x, None
    if padding == BORDER:
        return clipped(xp, x, size)
    x, sign = reflected(xp, x, size, align)
    x, inside = clipped(xp, x, size)
    return x, sign * inside


def whole(xp: Any, x: Any) -> Any:
    """Coordinates as integers; NaN, and what is too large for one, becomes a place outside."""
    x = half_as_single(x)
    return xp.where(xp.abs(x) < 2**31, x, -100).astype(np.int64)


def cubic_weights(t: Any, order: int) -> list[Any]:
    """The four weights of a cubic at a fraction of a pixel, differentiated `order` times."""
    number = t.dtype.type
    a = SHARPNESS
    near = (a + 2, -(a + 3), 0.0, 1.0)
    far = (a, -5 * a, 8 * a, -4 * a)
    # Distances to the pixels grow with t on the left and shrink on the right.
    one, two = number(1), number(2)
    distances = ((far, t + one, 1), (near, t, 1), (near, one - t, -1), (far, two - t, -1))
    return [polynomial(c, x, order) * number(sign**order) for c, x, sign in distances]


def polynomial(coefficients: tuple[float, ...], x: Any, order: int) -> Any:
    """A derivative of a polynomial, by Horner's rule."""
    degree = len(coefficients) - 1
    total = x * x.dtype.type(0)
    for i, c in enumerate(coefficients[: degree + 1 - order]):
        total = total * x + x.dtype.type(c * math.perm(degree - i, order))
    return total


Tap = tuple[Any, Any, Any]


def axis_taps(
    xp: Any, x: Any, size: int, mode: int, padding: int, align: bool, order: int, flat: bool
) -> list[Tap]:
    """Along one axis, per neighbour: its place, whether it is in the image, and its weight."""
    x, slope = placed(x, size, align, flat)
    bend = None
    if mode == BICUBIC:
        low = xp.floor(x)
        weights = cubic_weights(x - low, order)
        # Here the padding applies to the pixels, not to the point.
        moved = [low + x.dtype.type(i) for i in range(-1, 3)]
        places = [whole(xp, kept_inside(xp, at, size, padding, align)[0]) for at in moved]
    else:
        x, bend = kept_inside(xp, x, size, padding, align)
        if mode == NEAREST:
            places = [whole(xp, xp.rint(x))]
            weights = [xp.ones_like(x) if order == 0 else xp.zeros_like(x)]
        else:
            low = xp.floor(x)
            places = [whole(xp, low), whole(xp, low) + 1]
            weights = linear_weights(xp, x - low, order)
    if order:
        chain = slope if bend is None else slope * bend
        weights = [w * chain**order for w in weights]
    return [
        (place, (place >= 0) & (place < size), weight)
        for place, weight in zip(places, weights, strict=True)
    ]


def linear_weights(xp: Any, t: Any, order: int) -> list[Any]:
    if order == 0:
        return [t.dtype.type(1) - t, t]
    one = xp.ones_like(t) if order == 1 else xp.zeros_like(t)
    return [-one, one]


def all_taps(
    xp: Any, grid: Any, sizes: Any, mode: int, padding: int, align: bool, order: Any
) -> Any:
    """The taps of every axis, for points whose last dimension counts the axes backwards."""
    n = len(sizes)
    return [
        axis_taps(xp, grid[..., n - 1 - d], sizes[d], mode, padding, align, order[d], n == 2)
        for d in range(n)
    ]


def corner(xp: Any, taps: Sequence[Tap], sizes: Any) -> Tap:
    """A neighbour, one tap per axis: index into the plane, whether it is there, and its weight."""
    index, inside, weight = taps[-1]
    stride = 1
    for d in range(len(sizes) - 2, -1, -1):
        place, within, by = taps[d]
        stride *= sizes[d + 1]
        index = index + place * stride
        inside = inside & within
        weight = weight * by
    # PyTorch's kernel for images, not that for volumes, multiplies with NaN outside too.
    used = inside | xp.isnan(weight) if len(sizes) == 2 else inside
    return index, inside, xp.where(used, weight, weight.dtype.type(0))


# ---------------------------------------------------------------------- pixels


def channels_last(xp: Any, x: Any) -> Any:
    """All pixels of all images, one row of channels each; the last row is the outside."""
    batch, channels = x.shape[:2]
    plane = volume(x.shape[2:])
    pixels = xp.zeros((batch * plane + 1, channels), x.dtype)
    pixels[:-1] = (
        x.reshape(batch, channels, plane).transpose(0, 2, 1).reshape(batch * plane, channels)
    )
    return pixels


def pixel_of(xp: Any, index: Any, inside: Any, sizes: Any) -> Any:
    """The rows of `channels_last` for indices into planes, (batch, points)."""
    plane = volume(sizes)
    start = xp.arange(len(index)).reshape(-1, 1) * plane
    return xp.where(inside, index + start, len(index) * plane)
