"""Maxima and means of windows of planes, a row of windows at once, and their gradients."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from . import windows
from .rows import dense, empty, for_dtypes, is_dense, pick, zeros

Ints = tuple[int, ...]

LARGEST = 1 << 31  # elements of a plane: places are counted in 32 bits
TAPS, WIDEST = 64, 4096  # columns of a window and of a plane: see c/kernels/pooling2d.c
FEWEST = 4  # windows of a row, for the kernels to pay


def geometry(sizes: Ints, kernel: Ints, stride: Ints, padding: Ints, out: Ints) -> Any:
    """Window parameters for the kernels: those of rows, then those of columns."""
    return itertools.chain(*zip(sizes, kernel, stride, padding, out, strict=True))


def takes(x: Any, sizes: Ints, kernel: Ints, stride: Ints, padding: Ints, out: Ints) -> bool:
    """Whether an array, input or gradient, is for the kernels."""
    if len(kernel) != 2 or x.ndim < 2 or not x.size or not math.prod(sizes):
        return False
    if kernel[1] > TAPS or sizes[1] > WIDEST or out[1] < FEWEST or math.prod(sizes) >= LARGEST:
        return False
    for n, k, s, p, o in zip(sizes, kernel, stride, padding, out, strict=True):
        if p >= k or (o - 1) * s - p >= n:  # a window of nothing but padding
            return False
    return is_dense(x)


def max_pool(values: bool, indices: bool) -> Any:
    """The maxima, their places, or both."""
    kernels = for_dtypes("max_pool2d")

    def make(reference: Any) -> Any:
        one_by_one = windows.max_pool(values, indices)(reference)

        def kernel(
            input: Any, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, out: Ints
        ) -> Any:
            run = pick(kernels, input)
            if (
                run is None
                or not takes(input, input.shape[-2:], kernel, stride, padding, out)
                or max(dilation) > 1
            ):
                return one_by_one(input, kernel, stride, padding, dilation, out)
            *lead, height, width = input.shape
            made = empty((*lead, *out), input) if values else None
            places = np.empty((*lead, *out), np.int64) if indices else None
            n = (math.prod(lead), *geometry((height, width), kernel, stride, padding, out))
            run((input, made, places), n)
            if values and indices:
                return made, places
            return made if values else places

        return kernel

    return make


def avg_pool(reference: Any) -> Any:
    kernels = for_dtypes("avg_pool2d")
    one_by_one = windows.avg_pool(reference)

    def kernel(
        input: Any,
        kernel: Ints,
        stride: Ints,
        padding: Ints,
        out: Ints,
        count_padding: bool,
        override: int | None,
    ) -> Any:
        run = pick(kernels, input)
        if run is None or not takes(input, input.shape[-2:], kernel, stride, padding, out):
            return one_by_one(input, kernel, stride, padding, out, count_padding, override)
        *lead, height, width = input.shape
        made = empty((*lead, *out), input)
        n = geometry((height, width), kernel, stride, padding, out)
        run((input, made), (math.prod(lead), *n, count_padding), (override or 0,))
        return made

    return kernel


def avg_pool_backward(reference: Any) -> Any:
    kernels = for_dtypes("avg_pool2d_back")
    one_by_one = windows.avg_pool_backward(reference)

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
        run = pick(kernels, grad)
        rows = dense(grad)
        if run is None or not takes(rows, sizes, kernel, stride, padding, out):
            how = (sizes, kernel, stride, padding, out, count_padding, override)
            return one_by_one(grad, *how)
        lead = grad.shape[:-2]
        made = zeros((*lead, *sizes), grad)
        n = geometry(sizes, kernel, stride, padding, out)
        run((rows, made), (math.prod(lead), *n, count_padding), (override or 0,))
        return made

    return kernel


OVERRIDES = {
    "max_pool2d": max_pool(True, False),
    "max_pool2d_with_indices": max_pool(True, True),
    "max_pool_indices": max_pool(False, True),
    "max_pool2d_backward": windows.at_places,
    "avg_pool2d": avg_pool,
    "avg_pool2d_backward": avg_pool_backward,
}
