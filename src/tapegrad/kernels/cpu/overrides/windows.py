"""Maxima and means of windows of any kind, one window after the other, and their gradients.

Rows of many windows of a plane are for pool2d.py, which comes here with the others.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .rows import contiguous, dense, empty, for_dtypes, half_of, is_dense, is_half, pick, single_of

Ints = tuple[int, ...]

NO_AXIS = (1, 1, 1, 0, 1, 1)  # in front of fewer than three: one window of one element
MAXIMA = for_dtypes("window_max")
MEANS = for_dtypes("window_mean")
SPREAD = for_dtypes("window_mean_back")
DRAWN = for_dtypes("drawn_max")
BACK = for_dtypes("max_pool2d_back")


def windows(
    sizes: Ints, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, out: Ints
) -> list[int] | None:
    """The three axes as the kernels want them; None: a window has nothing but padding."""
    found = [*NO_AXIS * (3 - len(out))]
    for n, k, s, p, d, o in zip(sizes, kernel, stride, padding, dilation, out, strict=True):
        if (o - 1) * s - p >= n or p > (k - 1) * d or (p and d > n):
            return None
        found += (n, k, s, p, d, o)
    return found


def tiles(sizes: Ints, out: Ints) -> list[int]:
    """The kernel's description of pooling windows that tile each axis, of any number of axes."""
    found = [*NO_AXIS * (3 - len(out))]
    for n, o in zip(sizes, out, strict=True):
        found += (n, 0, 0, 0, 1, o)
    return found


def largest(run: Any, input: Any, axes: list[int], out: Ints, values: bool, indices: bool) -> Any:
    """The maxima, their places, or both."""
    lead = input.shape[: input.ndim - len(out)]
    made = empty((*lead, *out), input) if values else None
    places = np.empty((*lead, *out), np.int64) if indices else None
    run((input, made, places), (math.prod(lead), *axes))
    if values and indices:
        return made, places
    return made if values else places


def max_pool(values: bool, indices: bool) -> Any:
    def make(reference: Any) -> Any:
        def kernel(
            input: Any, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, out: Ints
        ) -> Any:
            run = pick(MAXIMA, input)
            sizes = input.shape[input.ndim - len(out) :]
            if run is not None and input.size and is_dense(input):
                axes = windows(sizes, kernel, stride, padding, dilation, out)
                if axes is not None:
                    return largest(run, input, axes, out, values, indices)
            return reference(input, kernel, stride, padding, dilation, out)

        return kernel

    return make


def adaptive_max(reference: Any) -> Any:
    def kernel(input: Any, out: Ints) -> Any:
        run = pick(MAXIMA, input)
        if run is None or not input.size or not all(out) or not is_dense(input):
            return reference(input, out)
        axes = tiles(input.shape[input.ndim - len(out) :], out)
        return largest(run, input, axes, out, True, True)

    return kernel


def at_places(reference: Any) -> Any:
    """Gradients of maxima go back to where these were."""

    def kernel(grad: Any, indices: Any, sizes: Ints, *apart: bool) -> Any:
        run = pick(BACK, grad)
        if run is None or not grad.size or indices.dtype != np.int64:
            return reference(grad, indices, sizes, *apart)
        if indices.shape != grad.shape:
            return reference(grad, indices, sizes, *apart)
        at = grad.ndim - len(sizes)
        lead = grad.shape[:at]
        out = empty((*lead, *sizes), grad)
        n = (math.prod(lead), math.prod(grad.shape[at:]), math.prod(sizes))
        run((dense(grad), dense(indices), out), n)
        return out

    return kernel


def avg_pool(reference: Any) -> Any:
    def kernel(
        input: Any,
        kernel: Ints,
        stride: Ints,
        padding: Ints,
        out: Ints,
        count_padding: bool,
        override: int | None,
    ) -> Any:
        run = pick(MEANS, input)
        sizes = input.shape[input.ndim - len(out) :]
        if run is not None and input.size and is_dense(input):
            axes = windows(sizes, kernel, stride, padding, (1,) * len(out), out)
            if axes is not None:
                lead = input.shape[: input.ndim - len(out)]
                made = empty((*lead, *out), input)
                run((input, made), (math.prod(lead), *axes, count_padding), (override or 0,))
                return made
        return reference(input, kernel, stride, padding, out, count_padding, override)

    return kernel


def avg_pool_backward(reference: Any) -> Any:
    def kernel(
        grad: Any,
        sizes: Ints,
        kernel: Ints,
        stride: Ints,
        padding: Ints,
        out: Ints,
        count_padding: bool,
        override: int | None,
    ) -> Any:
        run = pick(SPREAD, grad)
        if run is not None and grad.size and math.prod(sizes):
            axes = windows(sizes, kernel, stride, padding, (1,) * len(out), out)
            if axes is not None:
                lead = grad.shape[: grad.ndim - len(out)]
                made = empty((*lead, *sizes), grad)
                run((dense(grad), made), (math.prod(lead), *axes, count_padding), (override or 0,))
                return made
        return reference(grad, sizes, kernel, stride, padding, out, count_padding, override)

    return kernel


def adaptive_mean(reference: Any) -> Any:
    def kernel(input: Any, out: Ints) -> Any:
        run = pick(MEANS, input)
        if run is None or not input.size or not all(out) or not is_dense(input):
            return reference(input, out)
        at = input.ndim - len(out)
        lead = input.shape[:at]
        made = empty((*lead, *out), input)
        run((input, made), (math.prod(lead), *tiles(input.shape[at:], out), False), (0,))
        return made

    return kernel


def adaptive_mean_backward(reference: Any) -> Any:
    def kernel(grad: Any, sizes: Ints) -> Any:
        run = pick(SPREAD, grad)
        if run is None or not grad.size or not all(sizes):
            return reference(grad, sizes)
        at = grad.ndim - len(sizes)
        lead = grad.shape[:at]
        made = empty((*lead, *sizes), grad)
        run((dense(grad), made), (math.prod(lead), *tiles(sizes, grad.shape[at:]), False), (0,))
        return made

    return kernel


def fractional_max(reference: Any) -> Any:
    def kernel(input: Any, samples: Any, kernel: Ints, out: Ints) -> Any:
        run = pick(DRAWN, input)
        at = input.ndim - len(out)
        lead, sizes = input.shape[:at], input.shape[at:]
        if run is None or samples.dtype is not input.dtype or not input.size or not all(out):
            return reference(input, samples, kernel, out)
        ones = (1,) * len(out)
        axes = windows(sizes, kernel, ones, (0,) * len(out), ones, out)
        drawn = dense(samples)
        if axes is None or not ((drawn >= 0) & (drawn < 1)).all():
            return reference(input, samples, kernel, out)  # a window would leave the plane
        made, places = empty((*lead, *out), input), np.empty((*lead, *out), np.int64)
        run((dense(input), drawn, made, places), (math.prod(lead), *axes, len(out)))
        return made, places

    return kernel


def in_single(make: Any) -> Any:
    """The kernel for half precision, too: it computes in float, and values are rounded once."""

    def made(reference: Any) -> Any:
        kernel = make(reference)

        def run(input: Any, *how: Any) -> Any:
            if not is_half(input) or not input.size or not input.flags.c_contiguous:
                return kernel(input, *how)
            found = kernel(single_of(input), *how)
            if type(found) is tuple:
                return half_of(contiguous(found[0]), input.dtype), *found[1:]
            return found if found.dtype == np.int64 else half_of(contiguous(found), input.dtype)

        return run

    return made


OVERRIDES = {
    "fractional_max_pool2d": fractional_max,
    "fractional_max_pool3d": fractional_max,
    "max_pool3d": in_single(max_pool(True, False)),
    "max_pool3d_with_indices": in_single(max_pool(True, True)),
    "max_pool3d_backward": at_places,
    "adaptive_max_pool2d": in_single(adaptive_max),
    "adaptive_max_pool3d": in_single(adaptive_max),
    "adaptive_max_pool2d_backward": at_places,
    "adaptive_max_pool3d_backward": at_places,
    "fractional_max_pool2d_backward": at_places,
    "fractional_max_pool3d_backward": at_places,
    "avg_pool3d": avg_pool,
    "avg_pool3d_backward": avg_pool_backward,
    "adaptive_avg_pool2d": in_single(adaptive_mean),
    "adaptive_avg_pool3d": adaptive_mean,  # PyTorch adds up in half precision
    "adaptive_avg_pool2d_backward": adaptive_mean_backward,
    "adaptive_avg_pool3d_backward": adaptive_mean_backward,
}
