"""Sums, means and variances over dimensions of arrays in C order, and running sums."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from ....core.op import REGISTRY
from .. import KERNELS
from .rows import (
    LIKE_FLOAT,
    contiguous,
    copied,
    empty,
    for_dtypes,
    is_dense,
    is_half,
    narrowed,
    pick,
)

PIECE: Final = 32768  # of a long row
SCATTERED: Final = 4096  # elements that lie apart, each by itself: NumPy reads so many faster
BLOCKS: Final = 16  # at most: pieces of a column
SHORT: Final = 32  # rows of a piece, at least: each piece has a row of partial sums

sum_few: Final[Any] = KERNELS.sum_few
has_tape: Final[Any] = KERNELS.has_tape
SUM: Final = for_dtypes("sum")
SUM_COLUMNS: Final = for_dtypes("sum_columns")


def last_run(dim: tuple[int, ...]) -> int:
    """Where the last run of neighbours in ascending dimensions starts: dim[i:]."""
    i = len(dim) - 1
    while i and dim[i - 1] == dim[i] - 1:
        i -= 1
    return i


def reduced_shape(shape: tuple[int, ...], dim: Any, keepdim: bool) -> tuple[int, ...]:
    if dim is None:
        return (1,) * len(shape) if keepdim else ()
    if keepdim:
        return tuple([1 if d in dim else n for d, n in enumerate(shape)])
    return tuple([n for d, n in enumerate(shape) if d not in dim])


def is_last(x: Any, dim: Any) -> bool:
    """Whether rows are reduced: the last dimensions, or all of them."""
    return dim is None or (len(dim) > 0 and dim[-1] == x.ndim - 1 and last_run(dim) == 0)


def rows_and_width(x: Any, dim: Any) -> tuple[int, int]:
    width = x.size if dim is None else math.prod(x.shape[dim[0] :])
    return x.size // width, width


# ---------------------------------------------------------------------- sums and means


def sum_over(x: Any, dim: Any, keepdim: bool, divisor: float) -> Any:
    """Sums over dimensions, divided by a number; sums of half precision come as floats.

    Several runs of dimensions go one after the other. The array is in C order or `by_rows`.
    """
    if dim is not None:
        i = last_run(dim)
        if i:
            x = sum_over(x, dim[i:], True, 1.0)
            return sum_over(x, dim[:i], True, divisor).reshape(reduced_shape(x.shape, dim, keepdim))
    out = empty(reduced_shape(x.shape, dim, keepdim), LIKE_FLOAT if is_half(x) else x)
    if is_last(x, dim):
        rows, width = rows_and_width(x, dim)
        room = np.empty(rows * -(-width // PIECE)) if width > 2 * PIECE else None
        length = PIECE if room is not None else width
        step = width if is_dense(x) else x.strides[-2] // x.itemsize
        pick(SUM, x)((x, out, room), (rows, width, length, step), (divisor,))
        return out
    shape = x.shape
    outer, tall = math.prod(shape[: dim[0]]), math.prod(shape[dim[0] : dim[-1] + 1])
    inner = x.size // (outer * tall)
    height = max(-(-tall // BLOCKS), 16384 // inner + 1, SHORT) if outer == 1 else tall
    blocks = -(-tall // height)
    room = np.empty((outer, blocks, inner)) if blocks > 1 else None
    step = inner if is_dense(x) else x.strides[-2] // x.itemsize
    pick(SUM_COLUMNS, x)((x, out, room), (outer, tall, inner, height, step), (divisor,))
    return out


def summable(x: Any, dim: Any) -> Any:
    """The array for `sum_over`, a copy if it lies otherwise; None: NumPy sums it.

    NumPy would be as fast for few elements, but adds up in another order: sums have the same bits
    in compiled functions as elsewhere because there is one kernel for all of them. The exception
    are many elements that lie apart, which NumPy reads twice as fast as they can be copied.
    """
    if pick(SUM, x) is None or not x.size:
        return None
    if is_dense(x):
        return x
    whole = dim is None and x.flags.f_contiguous and x.flags.aligned
    if not has_tape():
        if is_for_parts(x) if dim is None else by_rows(x, dim):
            return x
        if x.size >= SCATTERED and x.strides[-1] != x.itemsize and not whole:
            return None
    return x.T if whole else contiguous(x)


def by_rows(x: Any, dim: Any) -> bool:
    """Whether the last dimension alone is reduced, or kept, and only rows have gaps between them.

    The rows have none in themselves, and all are equally far apart.
    """
    n, strides, shape = x.ndim - 1, x.strides, x.shape
    if n < 1 or strides[n] != x.itemsize or strides[n - 1] % x.itemsize or not x.flags.aligned:
        return False
    if dim is not None and dim != (n,) and dim != tuple(range(n)):
        return False
    return all([strides[d] == strides[d + 1] * shape[d + 1] for d in range(n - 1)])


def is_for_parts(x: Any) -> bool:
    """Whether `sum_in_parts` is for an array: a copy would not stay in the processor's cache."""
    return by_rows(x, None) and x.size > 2 * PIECE and x.shape[-1] <= PIECE and not is_half(x)


def sum_in_parts(x: Any, divisor: float) -> Any:
    """`sum_over` of all elements of a large array with gaps between its rows.

    They are copied a piece at a time, the pieces of an array without gaps: so are the bits.
    """
    run = pick(SUM, x)
    out = empty((), x)
    x = np.lib.stride_tricks.as_strided(x, (x.size // x.shape[-1], x.shape[-1]), x.strides[-2:])
    rows = PIECE // x.shape[-1]  # of a part: no more than a piece
    buffer = np.empty(2 * PIECE, x.dtype)
    room = np.empty(-(-x.size // PIECE))
    done = filled = 0
    for i in range(0, len(x), rows):
        part = x[i : i + rows]
        np.copyto(buffer[filled : filled + part.size].reshape(part.shape), part)
        filled += part.size
        if filled >= PIECE:
            run((buffer, out, room[done:]), (1, PIECE, PIECE, 0), (1.0,))
            done += 1
            filled -= PIECE
            buffer[:filled] = buffer[PIECE : PIECE + filled]
    if filled:
        run((buffer, out, room[done:]), (1, filled, PIECE, 0), (1.0,))
    total = 0.0
    for each in room.tolist():
        total += each
    out[...] = total / divisor
    return out


def without_repeats(x: Any, dim: tuple[int, ...]) -> Any:
    """An array without the repeats that `expand` made along dimensions that are kept."""
    again = [d for d in range(x.ndim) if not x.strides[d] and x.shape[d] > 1 and d not in dim]
    if not again:
        return x
    return x[tuple([slice(0, 1) if d in again else slice(None) for d in range(x.ndim)])]


def by_steps(x: Any) -> list[int]:
    """The dimensions sorted by stride, repeated ones first: the memory order, or nearly."""
    return sorted(range(x.ndim), key=lambda d: -(abs(x.strides[d]) or math.inf))


def conv_bias_grad(reference: Any) -> Any:
    def kernel(grad_output: Any) -> Any:
        x = summable(grad_output, (0, *range(2, grad_output.ndim)))
        if x is None:
            return reference(grad_output)
        return narrowed(sum_over(x, (0, *range(2, x.ndim)), False, 1.0), x)

    return kernel


def sums(whole: bool, averages: bool) -> Any:
    def make(reference: Any) -> Any:
        def over_all(input: Any, dtype: Any) -> Any:
            if dtype is None and not averages:
                out = sum_few(input)
                if out is not None:
                    return out
            x = None if dtype is not None else summable(input, None)
            if x is None:
                return reference(input, dtype)
            if not is_dense(x):
                return sum_in_parts(x, x.size if averages else 1.0)
            return narrowed(sum_over(x, None, False, x.size if averages else 1.0), x)

        def over_some(input: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
            if dim is not None and type(input) is np.ndarray and not is_dense(input):
                same = without_repeats(input, dim)
                if same is not input:
                    part = over_some(same, dim, keepdim, dtype)
                    return copied(np.broadcast_to(part, reduced_shape(input.shape, dim, keepdim)))
                order = by_steps(input)
                if order != list(range(input.ndim)):
                    dims = tuple(sorted([order.index(d) for d in dim]))
                    part = over_some(input.transpose(order), dims, True, dtype)
                    part = contiguous(part.transpose(np.argsort(order)))
                    return part if keepdim else part.squeeze(dim)
            x = None if dtype is not None or dim == () else summable(input, dim)
            if x is None:
                return reference(input, dim, keepdim, dtype)
            n = 1
            if averages:
                n = x.size if dim is None else math.prod([x.shape[d] for d in dim])
            return narrowed(sum_over(x, dim, keepdim, n), x)

        return over_all if whole else over_some

    return make


def vector_norm(reference: Any) -> Any:
    """The 2-norm as three calls: squares, their sums, and the roots of those."""
    add = sums(False, False)(None)

    def kernel(input: Any, ord: Any, dim: Any, keepdim: bool, *dtype: Any) -> Any:
        # `is None`: NumPy takes a float64 for equal to None.
        plain = ord == 2 and (not dtype or dtype[0] is None) and pick(SUM, input) is not None
        if not plain or is_half(input) or not input.size or not is_dense(input):
            return reference(input, ord, dim, keepdim, *dtype)
        out = reduced_shape(input.shape, dim, keepdim)
        if math.prod(out) == input.size:  # nothing is added up: a square might be too large
            return reference(input, ord, dim, keepdim, *dtype)
        squares = REGISTRY["mul"].kernel(input, input)
        return REGISTRY["sqrt"].kernel(add(squares, dim, keepdim, None))

    return kernel


def nansum(reference: Any) -> Any:
    """Zeros in the place of NaN, and the sum."""
    add = sums(False, False)(None)

    def kernel(input: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
        if dtype is not None or dim == () or not input.size or not is_dense(input):
            return reference(input, dim, keepdim, dtype)
        if pick(SUM, input) is None:
            return reference(input, dim, keepdim, dtype)
        numbers = REGISTRY["where"].kernel(REGISTRY["isnan"].kernel(input), 0.0, input)
        return add(numbers, dim, keepdim, None)

    return kernel


# ---------------------------------------------------------------------- variances


def spread(root: bool, both: bool) -> Any:
    kernels = for_dtypes("spread")

    def make(reference: Any) -> Any:
        def kernel(input: Any, dim: Any, correction: Any, keepdim: bool) -> Any:
            run = pick(kernels, input)
            if run is None or not input.size or not is_dense(input) or not is_last(input, dim):
                return reference(input, dim, correction, keepdim)
            rows, width = rows_and_width(input, dim)
            shape = reduced_shape(input.shape, dim, keepdim)
            out = np.empty(shape, input.dtype)
            mean = np.empty(shape, input.dtype) if both else None
            freedom = width - correction if width > correction else 0
            run((input, out, mean), (rows, width, root), (freedom,))
            if mean is None:
                return out
            if not np.isfinite(mean).all():  # PyTorch's mean of infinities depends on their order
                return reference(input, dim, correction, keepdim)
            return out, mean

        return kernel

    return make


def logsumexp(reference: Any) -> Any:
    kernels = for_dtypes("logsumexp")

    def kernel(input: Any, dim: Any, keepdim: bool) -> Any:
        run = pick(kernels, input)
        if run is None or not input.size or not is_dense(input) or not is_last(input, dim):
            return reference(input, dim, keepdim)
        out = np.empty(reduced_shape(input.shape, dim, keepdim), input.dtype)
        run((input, out), rows_and_width(input, dim))
        return out

    return kernel


# ---------------------------------------------------------------------- running sums


def around(shape: tuple[int, ...], dim: int) -> tuple[int, int, int]:
    """How many elements there are before, along and after a dimension."""
    return math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])


def running(product: bool) -> Any:
    kernels = for_dtypes("running")

    def make(reference: Any) -> Any:
        def kernel(input: Any, dim: int, dtype: Any = None) -> Any:
            run = pick(kernels, input)
            if run is None or dtype is not None or not input.ndim or not input.size:
                return reference(input, dim, dtype)
            x = contiguous(input)
            out = empty(x.shape, x)
            run((x, out), (*around(x.shape, dim), product))
            return out

        return kernel

    return make


def linear_scan(reference: Any) -> Any:
    kernels = for_dtypes("recurrence")

    def kernel(input: Any, factor: Any, dim: int) -> Any:
        run = pick(kernels, input)
        if run is None or not input.size or pick(kernels, factor) is not run:
            return reference(input, factor, dim)
        x, by = contiguous(input), contiguous(np.broadcast_to(factor, input.shape))
        out = empty(x.shape, x)
        run((x, by, out), around(x.shape, dim))
        return out

    return kernel


OVERRIDES = {
    "sum_all": sums(True, False),
    "sum": sums(False, False),
    "mean_all": sums(True, True),
    "mean": sums(False, True),
    "var": spread(False, False),
    "std": spread(True, False),
    "var_mean": spread(False, True),
    "std_mean": spread(True, True),
    "logsumexp": logsumexp,
    "conv_bias_grad": conv_bias_grad,
    "cumsum": running(False),
    "cumprod": running(True),
    "linear_scan": linear_scan,
    "nansum": nansum,
    "linalg_vector_norm": vector_norm,
    "norm_along": vector_norm,
}
