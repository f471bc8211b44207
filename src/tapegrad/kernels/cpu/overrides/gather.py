"""Rows and elements by their numbers: embedding, gather, scatter and advanced indexing.

The kernels look at the numbers themselves. Where one is out of range nothing is written, and the
reference raises its error.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....core.dispatch import number_as
from .. import KERNELS
from .rows import copied, dense, empty, for_dtypes, is_dense, pick, zeros

I64 = np.dtype(np.int64)
BOOL = np.dtype(np.bool_)
FEW = 512  # rows: NumPy copies so many as well as anyone
MARKS = 16384  # of a mask: a piece of work

take = KERNELS.KERNELS["take"]
gather_elements = KERNELS.KERNELS["gather"]
marked = KERNELS.KERNELS["marked"]
places = KERNELS.KERNELS["places"]
put_part = KERNELS.KERNELS["put_part"]
ADD_ROWS = for_dtypes("add_rows")
SCATTER = for_dtypes("scatter")


def is_index(x: Any) -> bool:
    return type(x) is np.ndarray and x.dtype is I64


def is_plain(x: Any) -> bool:
    """Whether elements can be copied as bytes: no objects, and the native byte order."""
    return is_dense(x) and x.dtype.kind in "fiubc" and x.dtype.isnative


def is_few(count: int) -> bool:
    """Whether there are so few rows that NumPy copies them; never while a tape is recorded."""
    return count < FEW and not KERNELS.has_tape()


def succeeds(run: Any, arrays: tuple[Any, ...], sizes: tuple[int, ...], *numbers: Any) -> bool:
    """Run a kernel; False if an index was out of range, which its last array tells."""
    wrong = np.empty(1, np.int64)
    run((*arrays, wrong), sizes, *numbers)
    return bool(KERNELS.succeeded(wrong))


def around(shape: tuple[int, ...], first: int, last: int) -> tuple[int, int, int]:
    """The number of elements before, in and after the dimensions first … last - 1."""
    return math.prod(shape[:first]), math.prod(shape[first:last]), math.prod(shape[last:])


# ---------------------------------------------------------------------- whole rows


def taken(input: Any, index: Any, first: int, last: int, wraps: bool) -> Any:
    """`input` with an index in the place of its dimensions first … last - 1; None: it cannot."""
    if is_few(index.size):
        return None
    outer, size, inner = around(input.shape, first, last)
    out = np.empty(input.shape[:first] + index.shape + input.shape[last:], input.dtype)
    sizes = (outer, size, inner * input.itemsize, index.size, wraps)
    return out if not out.size or succeeds(take, (input, dense(index), out), sizes) else None


def embedding(reference: Any) -> Any:
    def kernel(weight: Any, indices: Any, *attrs: Any) -> Any:
        if weight.size and is_plain(weight) and is_index(indices):
            out = taken(weight, indices, 0, 1, False)
            if out is not None:
                return out
        return reference(weight, indices, *attrs)

    return kernel


def embedding_backward(reference: Any) -> Any:
    def kernel(
        grad_output: Any,
        indices: Any,
        rows: int,
        padding_idx: Any,
        scale_grad_by_freq: bool,
        entries: int,
    ) -> Any:
        run = pick(ADD_ROWS, grad_output)
        passes = padding_idx is not None
        if (
            run is not None
            and grad_output.size
            and is_index(indices)
            and not scale_grad_by_freq
            and (entries == 1 or not passes)
        ):
            width = grad_output.shape[-1]
            out = zeros((rows, width), grad_output)
            sizes = (1, rows, width, indices.size, 0, passes, padding_idx if passes else 0)
            if succeeds(run, (out, dense(indices), dense(grad_output)), sizes):
                return out
        return reference(grad_output, indices, rows, padding_idx, scale_grad_by_freq, entries)

    return kernel


def index_select(reference: Any) -> Any:
    def kernel(input: Any, index: Any, dim: int) -> Any:
        if input.size and input.ndim and index.ndim == 1 and is_plain(input) and is_index(index):
            out = taken(input, index, dim, dim + 1, False)
            if out is not None:
                return out
        return reference(input, index, dim)

    return kernel


def on_copy(change: Any) -> Any:
    """The override of an op that is `change` on a copy of its input."""

    def make(reference: Any) -> Any:
        def kernel(input: Any, *others: Any) -> Any:
            if change(None, input, *others):
                # First: on a tape the copy is then next to the kernel, which clears zeros itself.
                given = [dense(x) if isinstance(x, np.ndarray) else x for x in others]
                out = copied(input)
                if change(out, input, *given):
                    return out
            return reference(input, *others)

        return kernel

    return make


def in_place(change: Any) -> Any:
    """The in-place kernel of an op by `change`; it raises before anything is written."""

    def make(reference: Any) -> Any:
        def into(out: Any, *others: Any) -> None:
            if not is_dense(out) or not change(out, out, *others):
                reference(out, *others)

        return into

    return make


# Each of these changes `out`, which has the values of `input`, by a kernel; False: it did not. With
# None for `out` it says whether it would try.


def add_slices(out: Any, input: Any, index: Any, source: Any, dim: int, alpha: Any) -> bool:
    run = pick(ADD_ROWS, input)
    if (
        run is None
        or not input.size
        or not input.ndim
        or input.ndim != source.ndim
        or source.dtype is not input.dtype
        or index.ndim != 1
        or not is_index(index)
        or (alpha != 1 and KERNELS.has_tape())
    ):
        return False
    if out is None:
        return True
    if alpha != 1:
        source = source * number_as(alpha, input.dtype)
    outer, size, inner = around(input.shape, dim, dim + 1)
    sizes = (outer, size, inner, index.size, 0, 0, 0)
    return succeeds(run, (out, dense(index), dense(source)), sizes)


# ---------------------------------------------------------------------- along a dimension


def fits(index: Any, shape: tuple[int, ...], dim: int) -> bool:
    """Whether an index has the shape of `shape` except along `dim`."""
    at = index.shape
    return (
        len(at) == len(shape) > 0
        and bool(index.size)
        and is_index(index)
        and at[:dim] == shape[:dim]
        and at[dim + 1 :] == shape[dim + 1 :]
    )


def gather(reference: Any) -> Any:
    def kernel(input: Any, index: Any, dim: int) -> Any:
        if input.itemsize in (4, 8) and fits(index, input.shape, dim) and is_plain(input):
            outer, size, inner = around(input.shape, dim, dim + 1)
            out = np.empty(index.shape, input.dtype)
            sizes = (outer, size, inner, index.shape[dim], input.itemsize)
            if succeeds(gather_elements, (input, dense(index), out), sizes):
                return out
        return reference(input, index, dim)

    return kernel


def scatter(
    out: Any, input: Any, index: Any, source: Any, dim: int, adds: bool, value: float = 0.0
) -> bool:
    """Put or add a source, or put a number, along a dimension."""
    run = pick(SCATTER, input)
    if run is None or not fits(index, input.shape, dim):
        return False
    if source is not None and (source.dtype is not input.dtype or source.shape != index.shape):
        return False
    outer, size, inner = around(input.shape, dim, dim + 1)
    if out is None:
        return True
    if out is input and outer > 1 and not is_inside(index, size):
        return False  # the kernel looks at one row after the other, and writes it
    sizes = (outer, size, inner, index.shape[dim], adds, False)
    given = (out, dense(index), None if source is None else dense(source))
    return succeeds(run, given, sizes, (value,))


def is_inside(index: Any, size: int) -> bool:
    """Whether all are in range; negative ones are large when read as unsigned."""
    return bool(index.view(np.uint64).max() < size)


def scatter_src(out: Any, input: Any, index: Any, src: Any, dim: int) -> bool:
    return scatter(out, input, index, src, dim, False)


def scatter_add(out: Any, input: Any, index: Any, src: Any, dim: int) -> bool:
    return scatter(out, input, index, src, dim, True)


def scatter_value(out: Any, input: Any, index: Any, value: Any, dim: int) -> bool:
    number = 0.0 if pick(SCATTER, input) is None else float(value)
    return scatter(out, input, index, None, dim, False, number)


def scatter_into(reference: Any) -> Any:
    """Zeros of a shape with values added along a dimension."""

    def kernel(values: Any, index: Any, shape: tuple[int, ...], dim: int) -> Any:
        run = pick(SCATTER, values)
        if run is None or not fits(index, shape, dim) or values.shape != index.shape:
            return reference(values, index, shape, dim)
        outer, size, inner = around(shape, dim, dim + 1)
        clears = outer > 1  # row by row, else all of it beforehand
        out = empty(shape, values) if clears else zeros(shape, values)
        sizes = (outer, size, inner, index.shape[dim], True, clears)
        if succeeds(run, (out, dense(index), dense(values)), sizes):
            return out
        return reference(values, index, shape, dim)

    return kernel


# ---------------------------------------------------------------------- one part of a dimension


def put(part: Any, shape: tuple[int, ...], dim: int, first: int, step: int, count: int) -> Any:
    """Zeros of a shape with `part` in some places of `dim`; None: no kernel for this."""
    if pick(ADD_ROWS, part) is None or not part.size or is_few(math.prod(shape)):
        return None
    outer, size, inner = around(shape, dim, dim + 1)
    if any(part.strides):
        part = dense(part)
        strides = (count * inner, inner, 1)
    else:  # one number, as from a sum
        strides = (0, 0, 0)
    out = empty(shape, part)
    put_part((part, out), (outer, size, inner, first, step, count, part.itemsize, *strides))
    return out


def select_backward(reference: Any) -> Any:
    def kernel(input: Any, shape: tuple[int, ...], dim: int, index: int) -> Any:
        inside = input.shape == (*shape[:dim], *shape[dim + 1 :]) and 0 <= index < shape[dim]
        out = put(input, shape, dim, index, 1, 1) if inside else None
        return reference(input, shape, dim, index) if out is None else out

    return kernel


def slice_backward(reference: Any) -> Any:
    def kernel(
        input: Any, shape: tuple[int, ...], dim: int, start: int, end: int, step: int
    ) -> Any:
        count = len(range(start, min(end, shape[dim]), step))
        inside = input.shape == (*shape[:dim], count, *shape[dim + 1 :]) and start >= 0
        out = put(input, shape, dim, start, step, count) if inside else None
        return reference(input, shape, dim, start, end, step) if out is None else out

    return kernel


# ---------------------------------------------------------------------- advanced indexing


def single_run(index: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[int, int, Any] | None:
    """Neighbouring dimensions that integer arrays index, and their places; None: something else."""
    first = 0
    while type(index[first]) is slice:
        first += 1
    last = first
    while last < len(index) and type(index[last]) is not slice:
        last += 1
    arrays = list(index[first:last])
    at = arrays[0].shape
    for i, item in enumerate(arrays):
        if item.dtype is not I64 or item.shape != at:
            return None
        arrays[i] = dense(item)  # it may be a column of a table of places
    if any([type(item) is not slice for item in index[last:]]):
        return None
    if len(arrays) == 1:
        return first, last, arrays[0]
    where = np.empty(at, np.int64)
    if not succeeds(places, (where, *arrays), (where.size, len(arrays), *shape[first:last])):
        return None
    return first, last, where


def moved(all: Any, mask: Any, some: Any, total: int, back: bool) -> None:
    """Copy the rows of `all` that the mask selects to `some`, or those of `some` back."""
    room = np.empty(mask.size // MARKS + 2, np.int64)
    marked((all, mask, some, room), (mask.size, all.nbytes // mask.size, total, back, MARKS))


def is_mask(mask: Any, shape: tuple[int, ...]) -> bool:
    return bool(mask.size and mask.ndim) and mask.shape == shape[: mask.ndim] and is_dense(mask)


def index_at(reference: Any) -> Any:
    def kernel(input: Any, index: tuple[Any, ...]) -> Any:
        if not input.size or not input.ndim or not is_plain(input):
            return reference(input, index)
        if is_few(max([0 if type(item) is slice else item.size for item in index])):
            return reference(input, index)
        first = index[0]
        if type(first) is not slice and first.dtype is BOOL:
            if len(index) > 1 or not is_mask(first, input.shape):
                return reference(input, index)
            total = int(np.count_nonzero(first))
            made = np.empty((total, *input.shape[first.ndim :]), input.dtype)
            moved(input, first, made, total, False)
            return made
        found = single_run(index, input.shape)
        out = None if found is None else taken(input, found[2], *found[:2], True)
        return reference(input, index) if out is None else out

    return kernel


def index_into(reference: Any) -> Any:
    """Zeros of a shape with values added at index arrays."""

    def kernel(values: Any, shape: tuple[int, ...], index: tuple[Any, ...]) -> Any:
        first = index[0]
        if not values.size or not math.prod(shape):
            return reference(values, shape, index)
        if type(first) is not slice and first.dtype is BOOL:
            total = int(np.count_nonzero(first))
            if (
                len(index) > 1
                or not is_mask(first, shape)
                or values.dtype.kind not in "fiubc"
                or values.shape != (total, *shape[first.ndim :])
            ):
                return reference(values, shape, index)
            floats = pick(ADD_ROWS, values) is not None
            out = zeros(shape, values) if floats else np.zeros(shape, values.dtype)
            moved(out, first, dense(values), total, True)
            return out
        run = pick(ADD_ROWS, values)
        found = None if run is None else single_run(index, shape)
        if found is None:
            return reference(values, shape, index)
        start, stop, where = found
        if values.shape != shape[:start] + where.shape + shape[stop:]:
            return reference(values, shape, index)
        outer, size, inner = around(shape, start, stop)
        out = zeros(shape, values)
        sizes = (outer, size, inner, where.size, 1, 0, 0)
        if succeeds(run, (out, where, dense(values)), sizes):
            return out
        return reference(values, shape, index)

    return kernel


def add_at_index(
    out: Any, input: Any, values: Any, index: tuple[Any, ...], accumulate: bool
) -> bool:
    run = pick(ADD_ROWS, input)
    if (
        run is None
        or not accumulate
        or not is_dense(input)
        or not input.size
        or type(values) is not np.ndarray
        or values.dtype is not input.dtype
        or any([type(item) is not slice and item.dtype is BOOL for item in index])
    ):
        return False
    if out is None:
        return True
    found = single_run(index, input.shape)
    if found is None:
        return False
    start, stop, where = found
    shape = input.shape[:start] + where.shape + input.shape[stop:]
    if values.shape != shape:
        values = np.broadcast_to(values, shape)
    outer, size, inner = around(input.shape, start, stop)
    sizes = (outer, size, inner, where.size, 1, 0, 0)
    return not values.size or succeeds(run, (out, where, dense(values)), sizes)


def masked_select(reference: Any) -> Any:
    def kernel(input: Any, mask: Any) -> Any:
        if input.shape != mask.shape or not input.ndim or not input.size or not is_plain(input):
            return reference(input, mask)
        if mask.dtype is not BOOL or not is_dense(mask):
            return reference(input, mask)
        total = int(np.count_nonzero(mask))
        out = np.empty(total, input.dtype)
        moved(input, mask, out, total, False)
        return out

    return kernel


OVERRIDES = {
    "embedding": embedding,
    "embedding_dense_backward": embedding_backward,
    "index_select": index_select,
    "index_add": on_copy(add_slices),
    "gather": gather,
    "scatter_into": scatter_into,
    "select_backward": select_backward,
    "slice_backward": slice_backward,
    "scatter_add": on_copy(scatter_add),
    "scatter_src": on_copy(scatter_src),
    "scatter_value": on_copy(scatter_value),
    "index": index_at,
    "index_into": index_into,
    "index_put": on_copy(add_at_index),
    "masked_select": masked_select,
}
INTO = {
    "index_add": in_place(add_slices),
    "scatter_add": in_place(scatter_add),
    "scatter_src": in_place(scatter_src),
    "scatter_value": in_place(scatter_value),
    "index_put": in_place(add_at_index),
}
