"""Picking and placing whole slices of one dimension: the index_* functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd.inplace import EXPANDED
from ...core.arguments import number_as_array, wrap_dim
from ...core.base import TensorBase
from ...core.dispatch import number_as
from ...core.transforms.batched import known_values, left_to_device
from ...kernels.cpu import KERNELS
from ..block import WIDEST, Autocast, Case, Linear, api, apply, looks_at_values, op
from ..block.batching import lift, padded
from ..block.checks import OUT_EXACT, OUT_SAME_TYPE, refuse_overflow
from ..block.samples import Draw, Index
from .advanced import LinearMove, Move, add_rows
from .gather import (
    check_index_dtype,
    check_range,
    check_tensor,
    first_outside,
    one_dim,
    scalar_name,
)

# ruff: noqa: N805


def along_entries(F: Any, index: Any, shape: tuple[int, ...], dim: int) -> Any:
    """One index vector per entry, as an index for every element along `dim` of the entries."""
    sizes = [1] * len(shape)
    sizes[0], sizes[dim + 1] = index.shape[0], index.shape[-1] if len(index.shape) > 1 else 1
    full = list(shape)
    full[dim + 1] = sizes[dim + 1]
    return F.expand(F.reshape(index, tuple(sizes)), tuple(full))


def along_lines(
    F: Any, size: int, batched: Any, input: Any, index: Any, source: Any, dim: int
) -> tuple[Any, Any, Any]:
    """Input, source and index with the batch in front, the index spread over the source."""
    whole = lift(F, input, size, batched[0])
    values = lift(F, source, size, batched[2])
    return whole, values, along_entries(F, lift(F, index, size, batched[1]), values.shape, dim)


@op
class IndexSelect(LinearMove):
    """index_select(input, dim, index) -> Tensor: the slices of `dim` that a vector names.

    >>> tensor([[1, 2], [3, 4]]).index_select(1, tensor([1, 1]))
    tensor([[2, 2],
            [4, 4]])
    """

    tensors = ("input", "index")
    plain_tensors = ("index",)
    out_apart = True
    out_dtype = OUT_SAME_TYPE
    keeps_finite = True
    samples = [
        Case(Draw(3, 2), 0, Index([2, 0, 2])),
        Case(Draw(3, 2, layout="T"), -1, Index([1])),
        Case(Draw(3), 0, Index(np.zeros(0, np.int64))),
        Case(Draw(), 0, Index([0])),
    ]

    def fwd(xp, input, index, dim):
        if not input.ndim:
            return input.copy()
        return xp.take(input, one_dim(index), axis=dim)

    def d_input(F, grad, index, input_shape, dim):
        return F.index_add(F.blank(grad, input_shape), index, grad, dim, 1)

    def call(input, dim, index, run=apply):
        check_tensor("index_select", "index", 2, index)
        shape = input._array.shape
        dim = wrap_dim(dim, len(shape))
        if index._array.ndim > 1:
            raise IndexError("index_select(): Index is supposed to be a vector")
        check_index_dtype(index, "index_select(): Expected dtype int32 or int64 for index")
        if not shape and index._array.size != 1:
            raise RuntimeError(
                "index_select(): Index to scalar can have only 1 value, got "
                f"{index._array.size} value(s)"
            )
        size = shape[dim] if shape else 1
        wrong = first_outside(index, size)
        if wrong is not None:
            if dim == 1:
                raise RuntimeError(
                    f"INDICES element is out of DATA bounds, id={wrong} axis_dim={size}"
                )
            raise IndexError("index out of range in self")
        return run(IndexSelect, (input, index), (dim,))

    def batch(F, size, batched, input, index, dim):
        whole = lift(F, input, size, batched[0])
        if len(whole.shape) == 1:
            return F.clone(
                whole, "preserve"
            )  # entries without dimensions: there is only one to select
        if not batched[1]:
            return F.index_select(whole, index, dim + 1)
        return F.gather(whole, along_entries(F, index, whole.shape, dim), dim + 1)


def source_mismatch(shape: Any, given: Any) -> RuntimeError:
    return RuntimeError(
        "source tensor shape must match self tensor shape, excluding the specified "
        f"dimension. Got self.shape = {list(shape)} source.shape = {list(given)}"
    )


def check_source(function: str, input: Any, index: Any, source: Any, dim: int) -> None:
    """The index is a vector of the right kind, and as long as the source is along `dim`."""
    at, given = index._array, source._array.shape
    if at.ndim > 1:
        raise IndexError(
            f"{function}: Index is supposed to be a vector, but got dim: {at.ndim} with "
            f"type: {scalar_name(index)} and size: {list(at.shape)}"
        )
    if at.dtype.name not in ("int64", "int32"):
        raise RuntimeError(
            f"{function}: Expected dtype int32/int64 for index but got: {scalar_name(index)}"
        )
    if source._array.dtype != input._array.dtype:
        raise RuntimeError(
            f"{function}: self ({scalar_name(input)}) and source ({scalar_name(source)}) "
            "must have the same scalar type"
        )
    width = given[dim] if dim < len(given) else 1
    if at.size != width:
        raise RuntimeError(
            f"{function}: Number of indices ({at.size}) should be equal to source.size(dim): "
            f"({width}), for dim: {dim}"
        )


@op
class IndexAdd(Linear):
    """index_add(input, dim, index, source, *, alpha=1) -> Tensor: slices of `source` added at the
    positions in `index`.

    >>> zeros(3).index_add(0, tensor([0, 0, 2]), tensor([1.0, 2.0, 3.0]))
    tensor([3., 0., 3.])
    """

    tensors = ("input", "index", "source")
    plain_tensors = ("index",)
    inplace = True
    vmap_write = "index_add_"
    apart = ("index", "source")
    out_dtype = OUT_EXACT
    samples = [
        Case(Draw(3, 2), 0, Index([2, 0, 2]), Draw(3, 2)),
        Case(Draw(2, 3, layout="T"), 1, Index([1]), Draw(2, 1), alpha=-2.0),
    ]

    def into(xp, input, index, source, dim, alpha):
        if alpha != 1:
            source = source * number_as(alpha, input.dtype)
        if not input.ndim:
            input += source.reshape(())
            return
        rows = xp.moveaxis(source, dim, 0) if source.ndim else source.reshape(1)
        add_rows(xp, xp.moveaxis(input, dim, 0), one_dim(index), rows)

    def d_input(F, grad):
        return grad

    def d_source(F, grad, index, source_shape, dim, alpha):
        found = F.index_select(grad, index, dim)
        if tuple(found.shape) != tuple(source_shape):
            found = F.reshape(found, source_shape)
        return found if alpha == 1 else found * alpha

    def jvp(F, input, index, source, t_input, t_source, dim, alpha):
        a = F.zeros_like(input) if t_input is None else t_input
        b = F.zeros_like(source) if t_source is None else t_source
        return F.index_add(a, index, b, dim, alpha)

    def call(input, dim, index, source, *, alpha=1, run=apply):
        shape, given = input._array.shape, source._array.shape
        dim = wrap_dim(dim, len(shape))
        check_source("index_add_()", input, index, source, dim)
        if without(shape, dim) != without(given, dim) or bool(shape) != bool(given):
            raise source_mismatch(shape, given)
        if len(shape) > 1:
            check_range(index, shape, dim)
        elif first_outside(index, shape[0] if shape else 1) is not None:
            raise IndexError("index out of range in self")
        refuse_overflow((alpha,), input)
        return run(IndexAdd, (input, index, source), (dim, alpha))

    def batch(F, size, batched, input, index, source, dim, alpha):
        whole, values, index = along_lines(F, size, batched, input, index, source, dim)
        return F.scatter_add(whole, index, values if alpha == 1 else values * alpha, dim + 1)


def without(shape: tuple[int, ...], dim: int) -> tuple[int, ...]:
    return shape[:dim] + shape[dim + 1 :]


def along(index: Any, dim: int) -> tuple[Any, ...]:
    """NumPy index of whole slices of `dim`."""
    return (slice(None),) * dim + (one_dim(index),)


@op
class IndexCopy(Move):
    """index_copy(input, dim, index, source) -> Tensor: `source`'s slices in the place of `input`'s.

    >>> zeros(3).index_copy(0, tensor([2]), tensor([5.0]))
    tensor([0., 0., 5.])
    """

    tensors = ("input", "index", "source")
    plain_tensors = ("index",)
    inplace = True
    autocast = Autocast(cpu=WIDEST)
    apart = ("index", "source")
    out_dtype = OUT_EXACT
    samples = [
        Case(Draw(3, 2), 0, Index([2, 0]), Draw(2, 2)),
        Case(Draw(2, 3, layout="T"), -1, Index([1]), Draw(2, 1)),
    ]

    def into(xp, input, index, source, dim):
        if input.ndim:
            input[along(index, dim)] = source
        else:
            input[...] = source.reshape(())

    def d_input(F, grad, index, dim):
        return F.index_fill_value(grad, index, 0, dim)

    def d_source(F, grad, index, source_shape, dim):
        found = F.index_select(grad, index, dim)
        same = tuple(found.shape) == tuple(source_shape)
        return found if same else F.reshape(found, source_shape)

    def jvp(F, input, index, source, t_input, t_source, dim):
        a = F.zeros_like(input) if t_input is None else t_input
        b = F.zeros_like(source) if t_source is None else t_source
        return F.index_copy(a, index, b, dim)

    def call(input, dim, index, source, run=apply):
        shape, given = input._array.shape, source._array.shape
        dim = wrap_dim(dim, len(shape))
        if index._array.ndim > 1:
            raise IndexError(
                f"index_copy_(): Index should have dimension 1 or 0 (got {index._array.ndim})"
            )
        if index._array.dtype != np.int64:
            raise RuntimeError(
                f"index_copy_(): Expected a long tensor for index, but got {scalar_name(index)}"
            )
        if source._array.dtype != input._array.dtype:
            raise RuntimeError(
                "index_copy_(): self and source expected to have the same dtype, but got (self) "
                f"{scalar_name(input)} and (source) {scalar_name(source)}"
            )
        own, other = without(shape, dim), without(given, dim)
        if own != other:
            own_sizes = " ".join(map(str, own))
            its_sizes = " ".join(map(str, other))
            raise RuntimeError(
                "index_copy_(): Source/destination tensor must have same slice shapes. Destination "
                f"slice shape: {own_sizes} at dimension {dim} and source slice shape: {its_sizes} "
                f"at dimension {0 if not given else dim}."
            )
        count = given[dim] if given else 1
        if not given and index._array.size != 1:
            raise IndexError(
                "index_copy_(): When source is scalar, index should have one element (got "
                f"{index._array.size})"
            )
        if index._array.size != count:
            raise IndexError(
                f"index_copy_(): Number of indices ({index._array.size}) should be equal to "
                f"source.size(dim) ({count})"
            )
        check_range(index, shape, dim, IndexError, "index_copy_(): ")
        return run(IndexCopy, (input, index, source), (dim,))

    def batch(F, size, batched, input, index, source, dim):
        whole, values, index = along_lines(F, size, batched, input, index, source, dim)
        return F.scatter_src(whole, index, values, dim + 1)


class IndexFilling(Move):
    plain_tensors = ("index",)
    public = False
    vmap_write = "index_fill_"
    apart = ("index",)
    copies_in = "K"

    def into(xp, input, index, value, dim):
        if input.ndim:
            input[along(index, dim)] = value
        elif index.size:
            input[...] = value

    def d_input(F, grad, index, dim):
        return F.index_fill_value(grad, index, 0, dim)


@op
class IndexFillValue(IndexFilling):
    """index_fill_value(input, index, value, dim) -> Tensor: `index_fill` with a number."""

    node = "IndexFillBackward0"
    aten = "index_fill.int_Scalar"
    tensors = ("input", "index")

    def jvp(F, index, t_input, dim):
        return F.index_fill_value(t_input, index, 0, dim)

    def batch(F, size, batched, input, index, value, dim):
        whole = lift(F, input, size, batched[0])
        if not batched[1]:
            return F.index_fill_value(whole, index, value, dim + 1)
        return F.scatter_value(whole, along_entries(F, index, whole.shape, dim), value, dim + 1)


@op
class IndexFillTensor(IndexFilling):
    """index_fill_tensor(input, index, value, dim) -> Tensor: `index_fill` with a 0-d tensor."""

    node = "IndexFillBackward1"
    aten = "index_fill.int_Tensor"
    tensors = ("input", "index", "value")
    host_number = True

    def d_value(F, grad, index, dim):
        # What is no longer the input's; a place that is named twice counts once.
        return F.sum(grad - F.index_fill_value(grad, index, 0, dim), None, False, None)

    def jvp(F, input, index, value, t_input, t_value, dim):
        a = F.zeros_like(input) if t_input is None else t_input
        b = F.zeros_like(value) if t_value is None else t_value
        return F.index_fill_tensor(a, index, b, dim)

    def batch(F, size, batched, input, index, value, dim):
        whole = lift(F, input, size, batched[0])
        places = along_entries(F, lift(F, index, size, batched[1]), whole.shape, dim)
        value = lift(F, value, size, batched[2])
        values = F.expand(padded(F, value, 1, len(whole.shape)), places.shape)
        return F.scatter_src(whole, places, values, dim + 1)


for _name in (IndexFillValue.name, IndexFillTensor.name):
    EXPANDED[_name] = EXPANDED["masked_fill"].replace("masked_fill_", "index_fill_")


@api(
    inplace=True,
    samples=[
        Case(Draw(3, 2), 0, Index([2, 0]), 1.5),
        Case(Draw(3, 2, layout="T"), -1, Index([1]), Draw()),
    ],
)
def index_fill(input: Any, dim: int, index: Any, value: Any, *, run: Any = apply) -> Any:
    """index_fill(input, dim, index, value) -> Tensor: the named slices of `dim` set to `value`.

    >>> zeros(3).index_fill(0, tensor([0, 2]), 1)
    tensor([1., 0., 1.])
    """
    shape = input._array.shape
    dim = wrap_dim(dim, len(shape))
    if index._array.dtype != np.int64:
        raise IndexError("index_fill_(): Expected dtype int64 for index.")
    if index._array.ndim > 1:
        raise RuntimeError("Index has to be a vector/scalar")
    if isinstance(value, TensorBase) and value._array.ndim:
        raise RuntimeError(
            "index_fill_ only supports a 0-dimensional value tensor, but got tensor with "
            f"{value._array.ndim} dimension(s)."
        )
    size = shape[dim] if shape else 1
    check_fill_index(index, dim, size)
    of_value = value._array.dtype.kind if isinstance(value, TensorBase) else ""
    if (of_value == "c" or isinstance(value, complex)) and input._array.dtype.kind != "c":
        raise RuntimeError(
            "index_fill_(): Converting complex Scalar to non-complex type is not supported"
        )
    if isinstance(value, TensorBase):
        return run(IndexFillTensor, (input, index, value), (dim,))
    return run(
        IndexFillValue, (input, index), (number_as_array(input._array.dtype, value)[()], dim)
    )


@looks_at_values
def check_fill_index(index: Any, dim: int, size: int) -> None:
    if left_to_device(index, -size, size):
        return
    x = known_values(index)
    if KERNELS is not None and KERNELS.all_below(x, size):
        return
    wrong = x[(x < -size) | (x >= size)]
    if wrong.size:
        raise IndexError(
            f"index {int(wrong.flat[0])} is out of bounds for dimension {dim} with size {size}"
        )
