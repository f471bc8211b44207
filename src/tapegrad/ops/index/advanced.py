"""Advanced indexing as ops: `index` reads at index arrays, `index_put` writes or adds there."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...autograd.inplace import write
from ...core.base import as_array, wrap
from ...core.devices import xp_of
from ...core.node import unbroadcast
from ...core.python_dispatch import same_always
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
    order = list(range(out.ndim - 1, -1, -1))  # innermost first
    # Indexed dimensions have no stride and so no say: they stay where they are unless passed over.
    for i in range(1, out.ndim):
        at = i
        for j in range(i - 1, -1, -1):
            inner, outer = strides[order[j]], strides[order[at]]
            if inner == 0 or outer == 0:
                continue
            if inner > outer or (inner == outer and out.shape[order[j]] > out.shape[order[at]]):
                order[j], order[at] = order[at], order[j]
                at = j
            elif inner < outer:
                break
    order.reverse()
    if not out.ndim:
        return out.copy()
    return repacked(xp, out.transpose(order)).transpose(np.argsort(order).tolist())


def repacked(xp: Any, out: Any) -> Any:
    """The same, contiguous; in dimensions of size 1 NumPy leaves any stride as it is."""
    made = xp.ascontiguousarray(out)
    return (made.reshape(-1) if 1 in out.shape else made).reshape(out.shape)


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

    def fwd(xp, input, values, index, accumulate):
        out = xp.array(input, order="K", copy=True)
        if accumulate:
            shape = out[index].shape
            out += added_up(xp, xp.broadcast_to(values, shape), input.shape, index)
        else:
            out[index] = values
        return out

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


def add_up(xp: Any, values: Any, shape: tuple[int, ...], index: tuple[Any, ...]) -> Any:
    """Zeros of `shape` with `values` added at the index arrays: what `index` sends back."""
    arrays = [i for i in index if type(i) is not slice]
    if len(arrays) == 1 and arrays[0].dtype.kind == "b":
        out = xp.zeros(shape, values.dtype)
        out[index] = values
        return out
    # Bring the indexed dimensions to the front of both sides: then it is a sum of rows.
    taken: list[int] = []
    flat: list[Any] = []
    dim = 0
    for item in index:
        if type(item) is slice:
            dim += 1
        elif item.dtype.kind == "b":
            flat.extend(item.nonzero())
            taken.extend(range(dim, dim + item.ndim))
            dim += item.ndim
        else:
            flat.append(item)
            taken.append(dim)
            dim += 1
    left = [d for d in range(len(shape)) if d not in taken]
    _, start, count = index_layout(xp.broadcast_to(xp.zeros(()), shape), index)
    where = xp.zeros((), np.int64)
    height = 1
    for d, item in zip(taken, flat, strict=True):
        where = where * shape[d] + xp.where(item < 0, item + shape[d], item)
        height *= shape[d]
    axes = [*range(start, start + count), *range(start), *range(start + count, values.ndim)]
    sizes = [shape[d] for d in left]
    width = int(np.prod(sizes, dtype=np.int64))
    lines = values.transpose(axes).reshape(where.size, width)
    out = sum_rows(xp, lines, where.reshape(-1), height)
    out = out.reshape([shape[d] for d in taken] + sizes)
    return xp.ascontiguousarray(out.transpose(np.argsort([*taken, *left]).tolist())).reshape(shape)


MANY = 12  # rows that go to one place: from here on one reduction is faster than a pass for each


def sum_rows(xp: Any, rows: Any, where: Any, height: int) -> Any:
    """A matrix of `height` rows; row i of `rows` is added to row `where[i]`."""
    out = xp.zeros((height, rows.shape[1]), rows.dtype)
    if not rows.size:
        return out
    if xp is not np:
        xp.add.at(out, where, rows)
        return out
    if rows.shape[1] == 1:
        xp.add.at(out.reshape(-1), where, rows.reshape(-1))
        return out
    order = xp.argsort(where, kind="stable")
    ordered = where[order]
    first = xp.flatnonzero(xp.concatenate((ordered[:1] >= 0, ordered[1:] != ordered[:-1])))
    counts = xp.diff(first, append=where.size)
    most = int(counts.max())
    if most > MANY:
        out[ordered[first]] = xp.add.reduceat(rows[order], first, axis=0)
        return out
    # The first of each target row, then the second of those that have one, and so on.
    out[ordered[first]] = rows[order[first]]
    for k in range(1, most):
        first = first[counts > k]
        counts = counts[counts > k]
        out[ordered[first + k]] += rows[order[first + k]]
    return out


add_up_on_host = HOST.helper("index_into", functools.partial(add_up, np))


def added_up(xp: Any, values: Any, shape: tuple[int, ...], index: tuple[Any, ...]) -> Any:
    """The same, where there is a kernel for it by that."""
    return add_up_on_host(values, shape, index) if xp is np else add_up(xp, values, shape, index)


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
