"""Batch norm and group norm, and their gradients."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....core.strides import channels_last
from .rows import (
    F64,
    contiguous,
    dense,
    empty,
    for_dtypes,
    half_of,
    is_dense,
    is_half,
    pick,
    single_of,
)

DTYPES = for_dtypes("batch_norm")
NOTHING = np.zeros(0, np.float32)  # in the place of a gradient that nobody asks for


def alike(x: Any, *others: Any) -> bool:
    """Whether all arrays that are not None have the dtype of `x` and are dense."""
    for other in others:
        if other is not None and (other.dtype is not x.dtype or not is_dense(other)):
            return False
    return is_dense(x)


def in_c_order(x: Any) -> Any:
    """Copied, if neither it nor its channels-last form is contiguous: then the kernels take it."""
    return x if pick(DTYPES, x) is None or channels_last(x) else dense(x)


def sizes(x: Any) -> tuple[int, int, int]:
    return x.shape[0], x.shape[1], math.prod(x.shape[2:])


def batch_norm(reference: Any) -> Any:
    images, matrices = for_dtypes("batch_norm"), for_dtypes("columns_norm")

    def kernel(input: Any, weight: Any, bias: Any, eps: float, kept: Any) -> Any:
        input = in_c_order(input)
        run = pick(images, input)
        if (
            run is None
            or not input.size
            or kept is not input.dtype
            or not alike(input, weight, bias)
        ):
            return reference(input, weight, bias, eps, kept)
        n = sizes(input)
        if n[2] == 1:
            run = pick(matrices, input)
        out = empty(input.shape, input)
        stats = np.empty((3, n[1]), kept)
        run((input, weight, bias, out, stats), n, (eps,))
        return out, stats

    return kernel


def batch_norm_fixed(reference: Any) -> Any:
    kernels = for_dtypes("batch_norm_fixed")

    def kernel(input: Any, weight: Any, bias: Any, mean: Any, var: Any, eps: float) -> Any:
        input = in_c_order(input)
        run = pick(kernels, input)
        if run is None or not input.size or not alike(input, weight, bias, mean, var):
            return reference(input, weight, bias, mean, var, eps)
        out = empty(input.shape, input)
        run((input, weight, bias, mean, var, out), sizes(input), (eps,))
        return out

    return kernel


def batch_norm_backward(reference: Any) -> Any:
    images, matrices = for_dtypes("batch_norm_back"), for_dtypes("columns_norm_back")

    def kernel(
        grad_output: Any,
        input: Any,
        weight: Any,
        stats: Any,
        training: bool,
        eps: float,
        biased: bool,
    ) -> Any:
        input = in_c_order(input)
        run = pick(images, input)
        if (
            run is None
            or not input.size
            or grad_output.dtype is not input.dtype
            or not alike(input, weight, stats)
        ):
            return reference(grad_output, input, weight, stats, training, eps, biased)
        n = sizes(input)
        if n[2] == 1:
            run = pick(matrices, input)
        out = empty(input.shape, input)
        to_weight = None if weight is None else np.empty(n[1], input.dtype)
        to_bias = np.empty(n[1], input.dtype) if biased else None
        grad = dense(grad_output)
        given = (grad, input, weight, stats[0], stats[1], out, to_weight, to_bias)
        run(given, (*n, training))
        return (
            out,
            NOTHING.copy() if to_weight is None else to_weight,
            NOTHING.copy() if to_bias is None else to_bias,
        )

    return kernel


def group_norm(reference: Any) -> Any:
    kernels = for_dtypes("group_norm")

    def kernel(input: Any, weight: Any, bias: Any, groups: int, eps: float) -> Any:
        if is_half(input) and input.size and alike(input, weight, bias):
            wide = [None if x is None else single_of(x) for x in (input, weight, bias)]
            found = kernel(*wide, groups, eps)
            return tuple([half_of(contiguous(x), input.dtype) for x in found])
        run = pick(kernels, input)
        if run is None or not input.size or not alike(input, weight, bias):
            return reference(input, weight, bias, groups, eps)
        images, channels, length = sizes(input)
        out = empty(input.shape, input)
        mean, r = np.empty((2, images, groups), input.dtype)
        n = (images * groups, groups, channels // groups, length)
        run((input, weight, bias, out, mean, r), n, (eps,))
        return out, mean, r

    return kernel


def group_norm_backward(reference: Any) -> Any:
    kernels = for_dtypes("group_norm_back")

    def kernel(
        grad_output: Any,
        input: Any,
        mean: Any,
        rstd: Any,
        weight: Any,
        groups: int,
        eps: float,
        biased: bool,
    ) -> Any:
        run = pick(kernels, input)
        if (
            run is None
            or not input.size
            or grad_output.dtype is not input.dtype
            or not alike(input, mean, rstd, weight)
        ):
            return reference(grad_output, input, mean, rstd, weight, groups, eps, biased)
        images, channels, length = sizes(input)
        out = empty(input.shape, input)
        sums, dots = np.empty((2, images, channels), F64)
        n = (images * groups, groups, channels // groups, length)
        to_weight = None if weight is None else empty((channels,), input)
        to_bias = empty((channels,), input) if biased else None
        arrays = (dense(grad_output), input, mean, rstd, weight, out, sums, dots)
        run((*arrays, to_weight, to_bias), n)
        made = [NOTHING.copy() if x is None else x for x in (to_weight, to_bias)]
        return (out, *made)

    return kernel


OVERRIDES = {
    "native_batch_norm": batch_norm,
    "native_batch_norm_fixed": batch_norm_fixed,
    "native_batch_norm_backward": batch_norm_backward,
    "native_group_norm": group_norm,
    "native_group_norm_backward": group_norm_backward,
}
