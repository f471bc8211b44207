"""Products of matrices: a linear layer with its bias, and stacks without loops in Python."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....core.host_arrays import host
from .. import KERNELS
from ..blas import CONNECTED
from .rows import dense, empty, for_dtypes, is_half, narrowed, pick, widened

PIECE = 1 << 16  # elements of a row that are summed up on their own
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
        if xp is host and is_half(a) and is_half(b):
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
        if xp is not host or a.dtype != I64 or b.dtype != I64 or not (a.size and b.size):
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
    """mv and dot, in an order of sums that depends on sizes alone: c/kernels/matvec.c."""
    by_rows, by_columns = for_dtypes("matvec"), for_dtypes("matvec_columns")

    def kernel(input: Any, vector: Any) -> Any:
        out = KERNELS.product_with_vector(input, vector)
        if out is not None:
            return out
        run = pick(by_rows, input)
        if run is None or is_half(input) or vector.dtype is not input.dtype or not input.size:
            return reference(input, vector)
        shape, item = input.shape[:-1], input.itemsize
        width = vector.size
        a, x = np.atleast_2d(input), dense(vector)
        rows = len(a)
        out = empty(shape, input)
        down, right = a.strides
        if down == item and rows > 1 and right >= rows * item and not right % item:
            pick(by_columns, input)((a, x, out), (rows, width, right // item))
            return out
        if right != item or down < 0 or down % item:
            a = dense(a)
            down = a.strides[0]
        pieces = -(-width // PIECE)
        parts = np.empty(rows * pieces) if pieces > 1 else None
        run((a, x, out, parts), (rows, width, down // item, PIECE))
        return out

    return kernel


OVERRIDES = {
    "addmm": addmm,
    "bmm": bmm,
    "mm": bmm,
    "half_product": half_product,
    "whole_product": whole_product,
    "mv": with_vector,
    "dot": with_vector,
}
