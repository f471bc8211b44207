"""Products of matrices: a linear layer with its bias, and stacks without loops in Python."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import KERNELS
from ..blas import CONNECTED
from .rows import dense, is_half, narrowed, widened

SMALL = 1 << 14  # elements
I64 = np.dtype(np.int64)


def addmm(reference: Any) -> Any:
    def kernel(input: Any, mat1: Any, mat2: Any, beta: Any, alpha: Any) -> Any:
        if beta == 1 and alpha == 1:
            if is_half(mat1):
                out = KERNELS.product(widened(mat1), widened(mat2), widened(input))
                return reference(input, mat1, mat2, 1, 1) if out is None else narrowed(out, mat1)
            out = KERNELS.product(mat1, mat2, input)
            if out is not None:
                return out
        return reference(input, mat1, mat2, beta, alpha)

    return kernel if CONNECTED else reference


def bmm(reference: Any) -> Any:
    def kernel(input: Any, mat2: Any) -> Any:
        out = KERNELS.product(input, mat2)
        return reference(input, mat2) if out is None else out

    return kernel if CONNECTED else reference


def half_product(reference: Any) -> Any:
    """A product of half precision, computed in floats and rounded once."""

    def kernel(xp: Any, a: Any, b: Any, rounded: bool) -> Any:
        if xp is np and is_half(a) and is_half(b):
            wide = widened(a), widened(b)
            out = None if min(a.ndim, b.ndim) < 2 else KERNELS.product(*wide)
            if out is None and not KERNELS.has_tape():
                out = np.matmul(*wide)
            if out is not None:
                return narrowed(np.asarray(out), a) if rounded else out
        return reference(xp, a, b, rounded)

    return kernel if CONNECTED else reference


def whole_product(reference: Any) -> Any:
    """A product of int64: NumPy multiplies element by element, 8 times slower."""
    run = KERNELS.KERNELS["whole_product"]

    def kernel(xp: Any, a: Any, b: Any) -> Any:
        if xp is not np or a.dtype != I64 or b.dtype != I64 or not (a.size and b.size):
            return reference(xp, a, b)
        left = a if a.ndim > 1 else a[None]
        right = b if b.ndim > 1 else b[:, None]
        shape = left.shape[:-2]
        if left.shape[-1] != right.shape[-2] or (right.ndim > 2 and right.shape[:-2] != shape):
            return reference(xp, a, b)  # which broadcasts, or complains
        rows, inner, columns = left.shape[-2], left.shape[-1], right.shape[-1]
        out = np.empty((*shape, rows, columns), I64)
        count = math.prod(shape)
        sizes = (count, rows) if right.ndim > 2 else (1, count * rows)
        run((dense(left), dense(right), out), (*sizes, inner, columns))
        if a.ndim > 1 and b.ndim > 1:
            return out
        return out.reshape((*shape, *(rows,) * (a.ndim > 1), *(columns,) * (b.ndim > 1)))

    return kernel


def with_vector(reference: Any) -> Any:
    """mv and dot: by BLAS; while a tape is recorded small ones run as matrix products."""

    def kernel(input: Any, vector: Any) -> Any:
        if KERNELS.has_tape() and input.size <= SMALL:
            out = KERNELS.product(np.atleast_2d(input), vector[:, None])
            if out is not None:
                return out.reshape(input.shape[:-1])
        return reference(input, vector)

    return kernel if CONNECTED else reference


OVERRIDES = {
    "addmm": addmm,
    "bmm": bmm,
    "mm": bmm,
    "half_product": half_product,
    "whole_product": whole_product,
    "mv": with_vector,
    "dot": with_vector,
}
