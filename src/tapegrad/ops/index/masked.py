"""Choosing by mask or by flat position: masked_*, take, put, nonzero."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import errors
from ...core.arguments import number_as_array
from ...core.array_kind import out_of_sight
from ...core.base import TensorBase, wrap
from ...core.devices import to_host
from ...core.host_arrays import host
from ...core.transforms.batched import (
    dynamic_shape,
    is_batched,
    known_values,
    left_to_device,
    physical_array,
    refusal,
)
from ...dtypes import cpp_name
from ..block import Block, Case, api, apply, looks_at_values, op
from ..block.batching import broadcast_entries, flattened, lift
from ..block.checks import OUT_SAME_TYPE, invalid_call
from ..block.samples import Draw, Index
from .advanced import LinearMove, Move
from .gather import scalar_name

# ruff: noqa: N805

MASK = Index([[True, False, True], [False, True, False]])
MASK_VARIES = (
    "vmap: Attempted to vmap over `mask` in torch.masked_select(self, mask) We cannot support this "
    "because for each batch this would return a differently shaped Tensor. Please file an issue at "
    "https://github.com/pytorch/pytorch/issues if you need this feature."
)


def fits(mask: Any, input: Any) -> None:
    """Raise PyTorch's sentence unless the two shapes broadcast."""
    if mask._array.shape != input._array.shape:
        errors.check_broadcast([mask._array, input._array])


def contiguous(xp: Any, array: Any) -> Any:
    return xp.ascontiguousarray(array).reshape(array.shape)


# ---------------------------------------------------------------------- masks


@op
class MaskedFill(Move):
    """masked_fill_value(input, mask, value) -> Tensor: `masked_fill` with a number."""

    node = "MaskedFillBackward0"
    tensors = ("input", "mask")
    plain_tensors = ("mask",)
    broadcasts = True
    public = False
    name = "masked_fill"
    aten = "masked_fill.Scalar"
    aligns = True
    vmap_write = "inplace arithmetic"
    leaves_out = True

    def fwd(xp, input, mask, value):
        return contiguous(xp, xp.where(mask, input.dtype.type(value), input))

    def into(xp, input, mask, value):
        xp.copyto(input, input.dtype.type(value), where=mask)

    def d_input(F, grad, mask):
        return F.masked_fill(grad, mask, 0)

    def jvp(F, mask, t_input):
        return F.masked_fill(t_input, mask, 0)


@op
class MaskedFillTensor(Move):
    """masked_fill_tensor(input, mask, value) -> Tensor: `masked_fill` with a 0-d tensor."""

    node = "MaskedFillBackward1"
    aten = "masked_fill.Tensor"
    tensors = ("input", "mask", "value")
    plain_tensors = ("mask",)
    broadcasts = True
    public = False
    aligns = True
    host_number = True
    leaves_out = True

    def fwd(xp, input, mask, value):
        return contiguous(xp, xp.where(mask, value.astype(input.dtype), input))

    def into(xp, input, mask, value):
        xp.copyto(input, value.astype(input.dtype), where=mask)

    def d_input(F, grad, mask):
        return F.masked_fill(grad, mask, 0)

    def d_value(F, grad, mask):
        return F.sum(F.where(mask, grad, 0), None, False, None)

    def jvp(F, input, mask, value, t_input, t_value):
        a = F.zeros_like(input) if t_input is None else t_input
        b = F.zeros_like(value) if t_value is None else t_value
        return F.masked_fill_tensor(a, mask, b)


@api(
    name="masked_fill",
    inplace=True,
    samples=[
        Case(Draw(2, 3), MASK, 1.5),
        Case(Draw(3), MASK, 0),
        Case(Draw(2, 3, layout="T"), Index([True, False, True]), Draw()),
        Case(Draw(), Index(True), 2.0),
    ],
)
def fill_masked(input: Any, mask: Any, value: Any, *, run: Any = apply) -> Any:
    """masked_fill(input, mask, value) -> Tensor: `value` where `mask` is true.

    >>> tensor([1.0, 2.0, 3.0]).masked_fill(tensor([True, False, True]), 0)
    tensor([0., 2., 0.])
    """
    if value is None:
        raise invalid_call("masked_fill", input, mask, value)
    if not isinstance(mask, TensorBase):
        raise errors.must_be_tensor("masked_fill", "mask", 1, mask)
    if run is apply:
        fits(mask, input)
    else:
        fits(input, mask)
    if isinstance(value, TensorBase) and value._array.ndim:
        raise RuntimeError(
            "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with "
            f"{value._array.ndim} dimension(s)."
        )
    if mask._array.dtype.kind != "b":
        name = cpp_name(mask._array.dtype)
        raise RuntimeError(
            f"masked_fill_ only supports boolean masks, but got mask with dtype {name}"
        )
    if isinstance(value, TensorBase):
        if value._array.dtype.kind == "c" and input._array.dtype.kind != "c":
            number_as_array(input._array.dtype, complex(value._array))  # which refuses it
        return run(MaskedFillTensor, (input, mask, value))
    return run(MaskedFill, (input, mask), (number_as_array(input._array.dtype, value)[()],))


@op
class MaskedSelect(LinearMove):
    """masked_select(input, mask) -> Tensor: the elements where `mask` is true, as a vector.

    >>> tensor([1, 2, 3]).masked_select(tensor([True, False, True]))
    tensor([1, 3])
    """

    tensors = ("input", "mask")
    plain_tensors = ("mask",)
    out_apart = True
    out_dtype = OUT_SAME_TYPE
    dynamic_shape = True
    samples = [
        Case(Draw(2, 3), MASK),
        Case(Draw(3, layout="step"), MASK),
        Case(Draw(), Index(True)),
        Case(Draw(2, 3), Index([False])),
    ]

    def fwd(xp, input, mask):
        if input.shape != mask.shape:
            input, mask = xp.broadcast_arrays(input, mask)
        return input[mask]

    def d_input(F, grad, mask, input_shape):
        full = np.broadcast_shapes(tuple(input_shape), tuple(mask.shape))
        spread = F.masked_scatter(F.blank(grad, full), mask, grad)
        dims = tuple(range(len(full) - len(input_shape)))
        dims += tuple(
            [
                d
                for d in range(len(dims), len(full))
                if input_shape[d - len(dims)] == 1 and full[d] != 1
            ]
        )
        return F.reshape(F.sum(spread, dims, True, None), input_shape) if dims else spread

    def call(input, mask, run=apply):
        if not isinstance(mask, TensorBase):
            raise errors.must_be_tensor("masked_select", "mask", 1, mask)
        if mask._array.dtype.kind != "b":
            raise RuntimeError("masked_select: expected BoolTensor for mask")
        if is_batched(mask):
            raise refusal(MASK_VARIES)
        fits(mask, input)
        return run(MaskedSelect, (input, mask))

    def batch(F, size, batched, input, mask):
        shape = np.broadcast_shapes(input.shape[batched[0] :], mask.shape[batched[1] :])
        where = broadcast_entries(F, mask, size, batched[1], shape)
        found = F.masked_select(broadcast_entries(F, input, size, batched[0], shape), where)
        if batched[1]:
            marked = physical_array(where) if F.recorded else where
            counts = np.count_nonzero(to_host(marked), axis=tuple(range(-len(shape), 0)))
            if np.ptp(counts):
                raise refusal(MASK_VARIES)
        count = found.shape[0] // size if size else 0
        return F.reshape(found, (size, count))


@op
class MaskedScatter(Move):
    """masked_scatter(input, mask, source) -> Tensor: `source` in order where `mask` is true.

    >>> zeros(3).masked_scatter(tensor([True, False, True]), tensor([5.0, 6.0]))
    tensor([5., 0., 6.])
    """

    tensors = ("input", "mask", "source")
    plain_tensors = ("mask",)
    broadcasts = True
    inplace = True
    samples = [Case(Draw(2, 3), MASK, Draw(3)), Case(Draw(3, layout="step"), MASK, Draw(2, 2))]

    def fwd(xp, input, mask, source):
        shape = input.shape
        if mask.shape != shape:
            shape = np.broadcast_shapes(shape, mask.shape)
            input, mask = xp.broadcast_to(input, shape), xp.broadcast_to(mask, shape)
        out = xp.array(input, order="C", copy=True)
        if xp is host:
            out[mask] = source.reshape(-1)[: int(xp.count_nonzero(mask))]
            return out
        if not source.size:
            return out
        # The k-th marked place takes the k-th value: no need to know how many there are.
        taken = xp.cumsum(mask.reshape(-1)).reshape(shape) - 1
        return xp.where(mask, source.reshape(-1).take(xp.clip(taken, 0, None)), out)

    def into(xp, input, mask, source):
        if mask.shape != input.shape:
            mask = xp.broadcast_to(mask, input.shape)
        input[mask] = source.reshape(-1)[: int(xp.count_nonzero(mask))]

    def d_input(F, grad, mask):
        return F.masked_fill(grad, mask, 0)

    def d_source(F, grad, mask, source_shape):
        count = int(np.prod(source_shape, dtype=np.int64))
        taken = F.masked_select(grad, mask)
        rest = F.blank(grad, (count - taken.shape[0],))
        return F.reshape(F.cat([taken, rest], 0), source_shape)

    def jvp(F, input, mask, source, t_input, t_source):
        a = F.zeros_like(input) if t_input is None else t_input
        b = F.zeros_like(source) if t_source is None else t_source
        return F.masked_scatter(a, mask, b)

    def call(input, mask, source, run=apply):
        fits(mask, input)
        if input._array.dtype != source._array.dtype:
            raise RuntimeError(
                "masked_scatter: expected self and source to have same dtypes but got"
                f"{scalar_name(input)} and {scalar_name(source)}"
            )
        if mask._array.dtype.kind != "b":
            raise RuntimeError(
                "masked_scatter_ only supports boolean masks, but got mask with dtype "
                f"{scalar_name(mask)}"
            )
        shape = input._array.shape
        if mask._array.shape != shape:
            shape = np.broadcast_shapes(shape, mask._array.shape)
        check_source(mask, source, shape)
        return run(MaskedScatter, (input, mask, source))

    def batch(F, size, batched, input, mask, source):
        shape = np.broadcast_shapes(input.shape[batched[0] :], mask.shape[batched[1] :])
        whole = broadcast_entries(F, input, size, batched[0], shape)
        mask = broadcast_entries(F, mask, size, batched[1], shape)
        # The k-th marked element of an entry takes the k-th element of its source.
        flat = flattened(F, mask)
        values = flattened(F, lift(F, source, size, batched[2]))
        taken = F.where(flat, F.cumsum(flat, 1, None) - 1, 0)
        return F.where(mask, F.reshape(F.gather(values, taken, 1), mask.shape), whole)


@looks_at_values
def check_source(mask: Any, source: Any, shape: tuple[int, ...]) -> None:
    """Refuse a source with fewer elements than a mask marks."""
    if most_marked(mask, shape) > source._array.size:
        raise RuntimeError("Number of elements of source < number of ones in mask")


def most_marked(mask: Any, shape: tuple[int, ...]) -> int:
    """How many elements of `shape` a mask marks; of a batch of masks, the one that marks most."""
    values, size = physical_array(mask), mask._array.size
    if out_of_sight(values):
        return 0  # the GPU sees for itself
    dims = tuple(range(values.ndim - mask._array.ndim, values.ndim))
    counts = np.count_nonzero(values, axis=dims)
    return int(np.max(counts, initial=0)) * math.prod(shape) // max(size, 1)


# ---------------------------------------------------------------------- flat positions


def check_flat_index(function: str, index: Any) -> None:
    """Refuse an index of `take` or `put_` that is not a tensor of int64."""
    if not isinstance(index, TensorBase):
        raise errors.must_be_tensor(function, "index", 1, index)
    if index._array.dtype != np.int64:
        raise RuntimeError(
            f"{function}(): Expected a long tensor for index, but got {scalar_name(index)}"
        )


@looks_at_values
def check_flat_range(refused_if_empty: str, input: Any, index: Any) -> None:
    """Refuse positions that the flattened tensor does not have."""
    x, size = known_values(index), input._array.size
    if x.size and not size:
        raise IndexError(refused_if_empty)
    wrong = x[(x < -size) | (x >= size)]
    if not left_to_device(index, -size, size) and wrong.size:
        raise IndexError(
            f"out of range: tried to access index {int(wrong.flat[0])} on a tensor of {size} "
            f"elements."
        )


@op
class Take(LinearMove):
    """take(input, index) -> Tensor: the elements at positions in the flattened tensor.

    >>> tensor([[1, 2], [3, 4]]).take(tensor([0, -1]))
    tensor([1, 4])
    """

    tensors = ("input", "index")
    plain_tensors = ("index",)
    out_apart = True
    out_dtype = (
        "take(): self and out expected to have the same dtype, but got self.dtype = {want} and "
        "out.dtype = {got}"
    )
    samples = [
        Case(Draw(2, 3), Index([[0, 5], [-1, 0]])),
        Case(Draw(3, 2, layout="T"), Index([1, 1])),
    ]

    def fwd(xp, input, index):
        return input.reshape(-1)[index]

    def d_input(F, grad, index, input_shape):
        return F.put(F.blank(grad, input_shape), index, grad, True)

    def call(input, index, run=apply):
        check_flat_index("take", index)
        check_flat_range("take(): tried to take from an empty tensor", input, index)
        return run(Take, (input, index))

    def batch(F, size, batched, input, index):
        flat = flattened(F, lift(F, input, size, batched[0]))
        index = lift(F, index, size, batched[1])
        places = flattened(F, F.where(index < 0, index + flat.shape[1], index))
        return F.reshape(F.gather(flat, places, 1), index.shape)


@op
class Put(Move):
    """put(input, index, source, accumulate=False) -> Tensor: `source` put at flat positions.

    >>> zeros(2, 2).put(tensor([3]), tensor([1.0]))
    tensor([[0., 0.],
            [0., 1.]])
    """

    tensors = ("input", "index", "source")
    plain_tensors = ("index",)
    inplace = True
    samples = [
        Case(Draw(2, 3), Index([5, 0]), Draw(2)),
        Case(Draw(2, 3, layout="T"), Index([1, 1]), Draw(1, 2), accumulate=True),
    ]
    apart = ("index", "source")
    copies_in = "K"

    def into(xp, input, index, source, accumulate):
        where, values = index.reshape(-1), source.reshape(-1)
        if input.flags.c_contiguous:
            input, places = input.reshape(-1), (where,)
        else:
            places = xp.unravel_index(xp.where(where < 0, where + input.size, where), input.shape)
        if accumulate:
            xp.add.at(input, places, values)
        else:
            input[places] = values

    def d_input(F, grad, index, accumulate):
        return grad if accumulate else F.put(grad, index, F.blank(grad, index.shape), False)

    def d_source(F, grad, index, source_shape):
        return F.reshape(F.take(grad, index), source_shape)

    def jvp(F, input, index, source, t_input, t_source, accumulate):
        a = F.zeros_like(input) if t_input is None else t_input
        b = F.zeros_like(source) if t_source is None else t_source
        return F.put(a, index, b, accumulate)

    def call(input, index, source, accumulate=False, run=apply):
        check_flat_index("put_", index)
        if source._array.dtype != input._array.dtype:
            raise RuntimeError(
                f"put_(): self and source expected to have the same dtype, but got self.dtype = "
                f"{scalar_name(input)} and source.dtype = {scalar_name(source)}"
            )
        if source._array.size != index._array.size:
            raise IndexError(
                "put_(): Expected source and index to have the same number of elements, but got "
                f"source.numel() = {source._array.size}, index.numel() = {index._array.size}"
            )
        check_flat_range("put_(): Tried to put elements into an empty tensor", input, index)
        return run(Put, (input, index, source), (bool(accumulate),))

    def batch(F, size, batched, input, index, source, accumulate):
        whole = lift(F, input, size, batched[0])
        flat = flattened(F, whole)
        index = lift(F, index, size, batched[1])
        places = flattened(F, F.where(index < 0, index + flat.shape[1], index))
        values = flattened(F, lift(F, source, size, batched[2]))
        written = F.scatter_add if accumulate else F.scatter_src
        return F.reshape(written(flat, places, values, 1), whole.shape)


# ---------------------------------------------------------------------- where something is not zero


@op
class Nonzero(Block):
    """nonzero_rows(input) -> Tensor: one row of coordinates per element that is not zero."""

    name = "nonzero_rows"
    aten = "nonzero"
    public = False
    unbatchable = "how many elements are not zero depends on the data"
    dynamic_shape = True
    undifferentiable = "the results are indices"
    positions = (0,)

    def fwd(xp, input):
        if not input.ndim:
            return xp.zeros((1 if input else 0, 0), np.int64)
        places = input.nonzero()
        out = xp.empty((input.ndim, places[0].size), np.int64)
        for row, place in zip(out, places, strict=True):
            row[...] = place
        return out.T


@api(
    samples=[Case(Draw(2, 3)), Case(Draw())],
    out_dtype="nonzero: Expected out tensor to have scalar type Long but got scalar type{got}",
)
def nonzero(input: Any, *, as_tuple: bool = False) -> Any:
    """nonzero(input, *, as_tuple=False) -> Tensor or tuple: the indices of the nonzero elements,
    one row for each.

    >>> nonzero(tensor([0, 3, 0, 4]))
    tensor([[1],
            [3]])
    """
    if as_tuple:
        x = input._array
        return tuple([wrap(i.astype(np.int64)) for i in (x if x.ndim else x.reshape(1)).nonzero()])
    return apply(Nonzero, (input,))


@api(samples=[Case(Draw(2, 3))])
def argwhere(input: Any) -> Any:
    """argwhere(input) -> Tensor: the coordinates of the elements that are not zero.

    >>> argwhere(tensor([[0, 3], [4, 0]]))
    tensor([[0, 1],
            [1, 0]])
    """
    if is_batched(input):
        raise dynamic_shape("argwhere")
    return apply(Nonzero, (input,))
