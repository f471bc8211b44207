"""Advanced indexing as ops: `index` reads at index arrays, `index_put` writes or adds there."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ...autograd.inplace import write
from ...autograd.inspect import INDEXING
from ...core.base import as_array, wrap
from ...core.devices import xp_of
from ...core.host_arrays import host
from ...core.node import unbroadcast
from ...core.python_dispatch import same_always
from ...core.strides import iteration_order, repacked
from ...core.transforms.batched import physical_array
from ...kernels.cpu.backend import HOST
from ..block import WIDEST, Autocast, Block, Case, api, apply, helper, op
from ..block.batching import lift, padded
from ..block.samples import Draw, Index
from . import subscripts

# The `index` attribute is a NumPy index: per dimension an integer array or a full slice, and one
# boolean array for as many dimensions as it has. subscripts.py makes and checks it.
# ruff: noqa: N805


class Move(Block):
    """Values change places and nothing else: a complex gradient goes back as it is."""

    wirtinger = True


class LinearMove(Move):
    linear = True


@op
class IndexAt(LinearMove):
    """index(input, index) -> Tensor: the elements at index arrays."""

    name = "index"
    node = "IndexBackward0"
    aten = "index.Tensor"
    public = False
    keeps_finite = True
    gradient_text = {"input": "zeros(input.shape) with grad added at [index]"}

    def fwd(xp, input, index):
        places = [d for d, i in enumerate(index) if type(i) is not slice]
        first = index[places[0]]
        if len(places) == 1 and first.dtype.kind != "b":
            out = input.take(first, places[0])
        else:
            out = input[index]
        if input.flags.c_contiguous:
            return repacked(xp, out)
        return in_memory_order(xp, out, input, index)

    def d_input(F, grad, input_shape, index):
        return F.index_into(grad, input_shape, index)

    def batch(F, size, batched, input, index):
        out = F.index(input, (slice(None), *index))
        return F.permute(out, batch_to_front(input, index, len(out.shape)))

    def aten_call(input, indices):
        return input[tuple([slice(None) if i is None else i for i in indices])]


def in_memory_order(xp: Any, out: Any, input: Any, index: tuple[Any, ...]) -> Any:
    """`out` in the memory order that PyTorch gives it: kept dimensions in the order of `input`."""
    strides, _, _ = index_layout(input, index)
    order = iteration_order(out.shape, strides)
    if not out.ndim:
        return out.copy()
    return repacked(xp, out.transpose(order)).transpose(np.argsort(order).tolist())


def index_layout(input: Any, index: tuple[Any, ...]) -> tuple[list[int], int, int]:
    """Of a result: its strides in `input` (0 where indexed), and where the index part lies."""
    dim = 0
    kept: list[int] = []
    arrays: list[Any] = []
    runs = 0  # groups of neighbouring index arrays
    start = 0
    before = False
    for item in index:
        if type(item) is slice:
            kept.append(input.strides[dim])
            dim += 1
            before = False
            continue
        if not before:
            runs += 1
            start = len(kept)
        before = True
        dim += item.ndim if item.dtype.kind == "b" else 1
        arrays.append(item)
    kept.extend(input.strides[dim:])
    count = len(np.broadcast_shapes(*[(1,) if a.dtype.kind == "b" else a.shape for a in arrays]))
    start = start if runs == 1 else 0
    return kept[:start] + [0] * count + kept[start:], start, count


def batch_to_front(input: Any, index: tuple[Any, ...], rank: int) -> tuple[int, ...]:
    """The order of dimensions that brings the batch of an indexed batch to the front again."""
    _, start, count = index_layout(np.broadcast_to(np.zeros(()), input.shape[1:]), index)
    _, moved, _ = index_layout(np.broadcast_to(np.zeros(()), input.shape), (slice(None), *index))
    if moved == 0 and count:
        # Index arrays with a slice between them put what they find in front of everything.
        return (count, *range(count), *range(count + 1, rank))
    return tuple(range(rank))


@op
class IndexPut(Move):
    """index_put(input, values, index, accumulate) -> Tensor: `input` with values put in."""

    aten = "index_put"
    tensors = ("input", "values")
    public = False
    autocast = Autocast(gpu=WIDEST)
    vmap_write = "index_put_"
    host_number = True
    apart = ("index",)
    copies_in = "K"

    def into(xp, input, values, index, accumulate):
        if accumulate:
            add_at(xp, input, values, index)
        else:
            input[index] = values

    def d_input(F, grad, index, accumulate):
        return grad if accumulate else F.index_clear(grad, index)

    def d_values(F, grad, index, values_shape):
        return unbroadcast(F, F.index(grad, index), values_shape)

    def jvp(F, input, values, t_input, t_values, index, accumulate):
        a = F.zeros_like(input) if t_input is None else t_input
        b = F.zeros_like(values) if t_values is None else t_values
        return F.index_put(a, b, index, accumulate)

    def batch(F, size, batched, input, values, index, accumulate):
        whole = lift(F, input, size, batched[0])
        like = index[0] if type(index[0]) is not slice else index[-1]
        region = xp_of(like).broadcast_to(xp_of(like).zeros(()), whole.shape[1:])[index].shape
        values = padded(F, values, 1, len(region) + 1) if batched[1] else values
        placed = F.expand(values, (size, *region))
        order = batch_to_front(whole, index, len(region) + 1)
        back = tuple([order.index(d) for d in range(len(order))])
        return F.index_put(whole, F.permute(placed, back), (slice(None), *index), accumulate)


INDEXING.update((IndexAt.name, IndexPut.name))


def add_up(xp: Any, values: Any, shape: tuple[int, ...], index: tuple[Any, ...]) -> Any:
    """Zeros of `shape` with `values` added at the index arrays: what `index` sends back."""
    arrays = [i for i in index if type(i) is not slice]
    if len(arrays) == 1 and arrays[0].dtype.kind == "b":
        out = xp.zeros(shape, values.dtype)
        out[index] = values
        return out
    out = xp.zeros([shape[d] for d in dims_in_front(index, len(shape))], values.dtype)
    taken, where, lines = as_rows(xp, values, shape, index)
    height = math.prod(out.shape[:taken])
    add_rows(xp, out.reshape(height, *out.shape[taken:]), where, lines)
    back = np.argsort(dims_in_front(index, len(shape))).tolist()
    return xp.ascontiguousarray(out.transpose(back)).reshape(shape)


def add_at(xp: Any, out: Any, values: Any, index: tuple[Any, ...]) -> None:
    """Add values to `out` at the index arrays, as often as each place is named."""
    arrays = [i for i in index if type(i) is not slice]
    if len(arrays) == 1 and arrays[0].dtype.kind == "b":
        out[index] += values
        return
    front = out.transpose(dims_in_front(index, out.ndim))
    taken = sum([a.ndim if a.dtype.kind == "b" else 1 for a in arrays])
    if taken > 1 and not front.flags.c_contiguous:
        xp.add.at(out, index, values)
        return
    shape = xp.broadcast_to(xp.zeros(()), out.shape)[index].shape  # which raises, if anything does
    _, where, lines = as_rows(xp, xp.broadcast_to(values, shape), out.shape, index)
    height = math.prod(front.shape[:taken])
    if taken > 1:
        front = front.reshape(height, *front.shape[taken:])
    add_rows(xp, front, where, lines)


def dims_in_front(index: tuple[Any, ...], ndim: int) -> list[int]:
    """The order of dimensions in which those that have index arrays are the first."""
    taken: list[int] = []
    dim = 0
    for item in index:
        if type(item) is slice:
            dim += 1
            continue
        count = item.ndim if item.dtype.kind == "b" else 1
        taken.extend(range(dim, dim + count))
        dim += count
    return taken + [d for d in range(ndim) if d not in taken]


def as_rows(
    xp: Any, values: Any, shape: tuple[int, ...], index: tuple[Any, ...]
) -> tuple[int, Any, Any]:
    """How many dimensions are indexed, the rows that the arrays mean, and the values by row."""
    flat: list[Any] = []
    for item in index:
        if type(item) is not slice:
            flat.extend(item.nonzero() if item.dtype.kind == "b" else (item,))
    order = dims_in_front(index, len(shape))
    _, start, count = index_layout(xp.broadcast_to(xp.zeros(()), shape), index)
    where = xp.zeros((), np.int64)
    for d, item in zip(order, flat, strict=False):
        where = where * shape[d] + xp.where(item < 0, item + shape[d], item)
    axes = [*range(start, start + count), *range(start), *range(start + count, values.ndim)]
    lines = values.transpose(axes).reshape(where.size, *[shape[d] for d in order[len(flat) :]])
    return len(flat), where.reshape(-1), lines


MANY = 12  # rows that go to one place: from here on one reduction is faster than a pass for each
SINGLY = 8  # rows that are added one by one: sorting them takes longer


def sum_rows(xp: Any, rows: Any, where: Any, height: int) -> Any:
    """Zeros of `height` rows; row i of `rows` is added to row `where[i]`."""
    out = xp.zeros((height, *rows.shape[1:]), rows.dtype)
    add_rows(xp, out, where, rows)
    return out


def add_rows(xp: Any, out: Any, where: Any, rows: Any) -> None:
    """Add row i of `rows` to row `where[i]` of `out`, one after the other."""
    if not rows.size:
        return
    if xp is not host:
        xp.add.at(out, where, rows)
        return
    if out.ndim == 1 or rows.size == len(rows):
        xp.add.at(out.reshape(len(out)), where, rows.reshape(-1))
        return
    if where.size <= SINGLY:
        for place, row in zip(where.tolist(), rows, strict=True):
            out[place] += row
        return
    order = xp.argsort(where, kind="stable")
    ordered = where[order]
    first = xp.flatnonzero(xp.concatenate((ordered[:1] >= 0, ordered[1:] != ordered[:-1])))
    counts = xp.diff(first, append=where.size)
    most = int(counts.max())
    if most > MANY:
        out[ordered[first]] += xp.add.reduceat(rows[order], first, axis=0, dtype=rows.dtype)
        return
    # The first of each target row, then the second of those that have one, and so on.
    for k in range(most):
        first = first[counts > k]
        counts = counts[counts > k]
        out[ordered[first + k]] += rows[order[first + k]]


add_up_on_host = HOST.helper("index_into", functools.partial(add_up, host))


def added_up(xp: Any, values: Any, shape: tuple[int, ...], index: tuple[Any, ...]) -> Any:
    """Zeros with `values` added at `index`, by a kernel where there is one."""
    return add_up_on_host(values, shape, index) if xp is host else add_up(xp, values, shape, index)


def index_into_raw(grad: Any, shape: tuple[int, ...], index: tuple[Any, ...]) -> Any:
    return added_up(xp_of(grad), as_array(grad), shape, index)


def index_into_recorded(grad: Any, shape: tuple[int, ...], index: tuple[Any, ...]) -> Any:
    return apply(IndexPut, (blank_recorded(grad, shape), grad), (index, True))


def index_clear_raw(grad: Any, index: tuple[Any, ...]) -> Any:
    out = xp_of(grad).array(grad)
    out[index] = 0
    return out


def index_clear_recorded(grad: Any, index: tuple[Any, ...]) -> Any:
    return apply(IndexPut, (grad, blank_recorded(grad, ())), (index, False))


def blank_raw(like: Any, shape: tuple[int, ...]) -> Any:
    return xp_of(like).zeros(shape, like.dtype)


def blank_recorded(like: Any, shape: tuple[int, ...]) -> Any:
    return same_always(wrap(xp_of(physical_array(like)).zeros(shape, like._array.dtype)))


helper("index_into", index_into_raw, index_into_recorded)
helper("index_clear", index_clear_raw, index_clear_recorded)
helper("blank", blank_raw, blank_recorded, "zeros(shape)")


@api(
    inplace=True,
    name="index_put",
    samples=[
        Case(Draw(4), (Index([0, 2]),), Draw(2)),
        Case(Draw(3, 4), (Index([0, 0, 2]),), Draw(3, 4), accumulate=True),
        Case(Draw(3, 4), (Index([0, 2]), Index([1, 3])), Draw()),
        Case(
            Draw(2, 3, layout="T"), (Index([[True, False, True], [False, True, False]]),), Draw(1)
        ),
    ],
    autocast=Autocast(gpu=WIDEST),
)
def put_at(
    input: Any, indices: Any, values: Any, accumulate: bool = False, run: Any = apply
) -> Any:
    """index_put(input, indices, values, accumulate=False) -> Tensor: values put or added in.

    >>> index_put(zeros(3), (tensor([0, 0]),), tensor([1.0, 2.0]), accumulate=True)
    tensor([3., 0., 0.])
    """
    noted, watched = subscripts.arrays_of(indices, "index_put")
    return subscripts.put_with(input, noted, values, bool(accumulate), watched, run)


@api(
    name="index_put_",
    method=False,
    samples=[Case(Index([1, 2]), (Index([1]),), Index(5))],
    inplace_functions=("index_put_",),
)
def put_at_in_place(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """index_put_(input, indices, values, accumulate=False) -> Tensor: `index_put` into `input`.

    >>> index_put_(zeros(3), (tensor([1]),), tensor(5.0))
    tensor([0., 5., 0.])
    """
    return put_at(input, indices, values, accumulate, write)
