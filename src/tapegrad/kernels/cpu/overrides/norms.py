"""Layer norm and rms norm over the last dimensions, and their gradients."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .rows import (
    F32,
    LIKE_FLOAT,
    contiguous,
    empty,
    for_dtypes,
    is_dense,
    is_half,
    narrowed,
    pick,
    widened,
)

BLOCKS = 16  # at most: pieces of the rows whose shares of a weight's gradient are added up apart


def fits(parameter: Any, input: Any, length: int) -> bool:
    """Whether a weight or bias suits an input: of its dtype, or float beside half precision."""
    return parameter is None or (
        (parameter.dtype is input.dtype or (parameter.dtype is F32 and is_half(input)))
        and parameter.size == length
        and is_dense(parameter)
    )


def computed_in(x: Any) -> Any:
    """An array of the dtype in which the kernels compute for `x`: float32 for half precision."""
    return LIKE_FLOAT if is_half(x) else x


def length_of(x: Any, nd: int) -> int:
    return math.prod(x.shape[x.ndim - nd :])


def layer_norm(reference: Any) -> Any:
    kernels = for_dtypes("layer_norm")

    def kernel(input: Any, weight: Any, bias: Any, nd: int, eps: float) -> Any:
        run = pick(kernels, input)
        length = length_of(input, nd)
        if (
            run is None
            or not input.size
            or not is_dense(input)
            or not fits(weight, input, length)
            or not fits(bias, input, length)
        ):
            return reference(input, weight, bias, nd, eps)
        out = empty(input.shape, input)
        stats = empty((2, *input.shape[: input.ndim - nd], *(1,) * nd), computed_in(input))
        given = (input, widened(weight), widened(bias), out, stats[0], stats[1])
        run(given, (input.size // length, length), (eps,))
        first = bias if weight is None else weight
        return out, narrowed(stats, input if first is None else first)

    return kernel


def rms_norm(reference: Any) -> Any:
    kernels = for_dtypes("rms_norm")

    def kernel(input: Any, weight: Any, nd: int, eps: float) -> Any:
        run = pick(kernels, input)
        length = length_of(input, nd)
        if run is None or not input.size or not is_dense(input) or not fits(weight, input, length):
            return reference(input, weight, nd, eps)
        out = empty(input.shape, input)
        scales = empty((*input.shape[: input.ndim - nd], *(1,) * nd), computed_in(input))
        run((input, widened(weight), out, scales), (input.size // length, length), (eps,))
        return out, scales

    return kernel


def pull(
    run: Any, grad: Any, input: Any, stats: tuple[Any, Any], weight: Any, nd: int, biased: bool
) -> tuple[Any, Any, Any]:
    """The gradients of input, weight and bias; what nobody asks for is empty."""
    length = length_of(input, nd)
    rows = input.size // length
    tall = max(-(-rows // BLOCKS), 8192 // length + 1)
    blocks = -(-rows // tall)
    inside = input.shape[input.ndim - nd :]
    out, like = empty(input.shape, input), computed_in(input)
    to_weight = to_bias = room = None
    if weight is not None:
        to_weight = empty(inside, like)
    if biased:
        to_bias = empty(inside, like)
    if to_weight is not None or to_bias is not None:
        room = np.empty((blocks, 4, length))
    arrays = (grad, input, *stats, widened(weight), out, to_weight, to_bias, room)
    run(arrays, (rows, length, tall))
    nothing = np.zeros(0, np.float32)
    kept = input if weight is None else weight
    return (
        out,
        nothing if to_weight is None else narrowed(to_weight, kept),
        nothing if to_bias is None else narrowed(to_bias, kept),
    )


def can_pull(run: Any, grad: Any, input: Any, stats: Any, weight: Any, nd: int) -> bool:
    dtype = input.dtype
    return (
        run is not None
        and grad.dtype is dtype
        and (stats.dtype is dtype or (stats.dtype is F32 and is_half(input)))
        and grad.shape == input.shape
        and bool(input.size)
        and is_dense(input)
        and is_dense(stats)
        and fits(weight, input, length_of(input, nd))
    )


def layer_norm_backward(reference: Any) -> Any:
    kernels = for_dtypes("norm_back")

    def kernel(
        grad_output: Any, input: Any, stats: Any, weight: Any, nd: int, eps: float, biased: bool
    ) -> Any:
        run = pick(kernels, input)
        if not can_pull(run, grad_output, input, stats, weight, nd):
            return reference(grad_output, input, stats, weight, nd, eps, biased)
        grad = contiguous(grad_output)
        stats = widened(stats)
        return pull(run, grad, input, (stats[0], stats[1]), weight, nd, biased)

    return kernel


def rms_norm_backward(reference: Any) -> Any:
    kernels = for_dtypes("norm_back")

    def kernel(grad_output: Any, input: Any, rstd: Any, weight: Any, nd: int, eps: float) -> Any:
        run = pick(kernels, input)
        if not can_pull(run, grad_output, input, rstd, weight, nd):
            return reference(grad_output, input, rstd, weight, nd, eps)
        grad = contiguous(grad_output)
        return pull(run, grad, input, (None, widened(rstd)), weight, nd, False)[:2]

    return kernel


OVERRIDES = {
    "native_layer_norm": layer_norm,
    "native_layer_norm_backward": layer_norm_backward,
    "fused_rms_norm": rms_norm,
    "fused_rms_norm_backward": rms_norm_backward,
}
