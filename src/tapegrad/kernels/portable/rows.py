"""Softmax and layer norm by c/kernels/portable_rows.c, with the bits of their forward on NumPy.

Contiguous floats and doubles along the last dimensions; everything else is left to the reference.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.base import ndarray
from ...core.host_arrays import host
from ..column_sums import column_sums
from ..cpu import KERNELS
from .functions import F32, F64, SUFFIXES


def kernel_for(name: str, *arrays: Any) -> Any:
    """The kernel for contiguous arrays of one dtype, or None."""
    dtype = arrays[0].dtype if type(arrays[0]) is ndarray else None
    if dtype is not F32 and dtype is not F64:
        return None
    for x in arrays:
        if type(x) is not ndarray or x.dtype is not dtype or not x.flags.carray or not x.size:
            return None
    return KERNELS.KERNELS[f"portable_{name}_{SUFFIXES[dtype]}"]


def along_rows(name: str, needs_room: bool = False) -> Any:
    def make(reference: Any) -> Any:
        def kernel(input: Any, dim: int) -> Any:
            run = kernel_for(name, input)
            if run is None or dim != input.ndim - 1:
                return reference(input, dim)
            out = KERNELS.empty(input.shape, input)
            room = (KERNELS.empty(input.shape, input),) if needs_room else ()
            width = input.shape[-1]
            run((input, out, *room), (input.size // width, width))
            return out

        return kernel

    return make


def back_along_rows(name: str, spread: bool = False) -> Any:
    """`spread`: a gradient that repeats elements is added up in the order of a dense one."""

    def make(reference: Any) -> Any:
        def kernel(input: Any, output: Any, dim: int) -> Any:
            if spread:
                input = np.ascontiguousarray(input)
            run = kernel_for(name, output, input)
            if run is None or input.shape != output.shape or dim != output.ndim - 1:
                return reference(input, output, dim)
            out = KERNELS.empty(output.shape, output)
            width = output.shape[-1]
            run((input, output, out), (output.size // width, width))
            return out

        return kernel

    return make


def layer_norm(reference: Any) -> Any:
    def kernel(input: Any, weight: Any, bias: Any, nd: int, eps: float) -> Any:
        given = [x for x in (input, weight, bias) if x is not None]
        run = kernel_for("layer_norm", *given)
        if run is None:
            return reference(input, weight, bias, nd, eps)
        lead = input.shape[: input.ndim - nd]
        length = math.prod(input.shape[len(lead) :])
        out, squares = KERNELS.empty(input.shape, input), KERNELS.empty(input.shape, input)
        stats = KERNELS.empty((2, *lead, *(1,) * nd), input)
        arrays = (input, weight, bias, out, stats[0], stats[1], squares)
        run(arrays, (input.size // length, length), (eps,))
        return out, stats

    return kernel


def layer_norm_back(reference: Any) -> Any:
    def kernel(
        grad_output: Any, input: Any, stats: Any, weight: Any, nd: int, eps: float, biased: bool
    ) -> Any:
        grad_output = np.ascontiguousarray(grad_output)
        given = [x for x in (input, grad_output, stats, weight) if x is not None]
        run = kernel_for("layer_norm_back", *given)
        if run is None or grad_output.shape != input.shape:
            return reference(grad_output, input, stats, weight, nd, eps, biased)
        shape = input.shape
        inside = shape[len(shape) - nd :]
        length = math.prod(inside)
        rows = input.size // length
        out, along = KERNELS.empty(shape, input), KERNELS.empty((rows, length), input)
        run((grad_output, input, stats[0], stats[1], weight, out, along), (rows, length))
        to_weight = to_bias = np.zeros(0, np.float32)  # which nobody asks for
        if weight is not None:
            to_weight = column_sums(host, along).reshape(weight.shape)
        if biased:
            to_bias = column_sums(host, grad_output.reshape(rows, length)).reshape(inside)
        return out, to_weight, to_bias

    return kernel


OVERRIDES = {
    "softmax": along_rows("softmax"),
    "log_softmax": along_rows("log_softmax", needs_room=True),
    "softmax_backward_data": back_along_rows("softmax_back", spread=True),
    "log_softmax_backward_data": back_along_rows("log_softmax_back"),
    "native_layer_norm": layer_norm,
    "native_layer_norm_backward": layer_norm_back,
}
