"""Tensors that get another size or other memory; and functions called element by element."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import dtypes, errors
from ...autograd.inplace import bump, refuse, repoint
from ...autograd.starts import is_valueless
from ...core.base import TensorBase
from ...core.devices import xp_of
from ...core.lazy_conj import memory_behind, with_bits_of
from ...core.modes import MODES
from ...core.record import lay_out
from ...core.strides import contiguous_strides, strided
from ...core.transforms.batched import has_batched, is_batched, no_rule
from ...device import contiguous_format
from ...device import strided as dense
from ...storage import UntypedStorage, check_storage_dtype
from ..block import Block, api, op
from ..block.checks import as_ints, ints_of_call, invalid_call
from ..block.out_argument import refuse_inference
from ..creation.arrays import deterministic
from ..creation.sized import check_options, made, np_dtype, sizes, with_strides
from ..shape.copying import format_name, fresh
from ..shape.dim_views import expanded
from ..shape.strided import ByStrides, as_strided, storage_bytes

# ruff: noqa: N805


# ------------------------------------------------------------------ resize_


def only_self(name: str, input: Any) -> None:
    """Python's words for `Tensor.name(5, …)`: these are methods only."""
    if not isinstance(input, TensorBase):
        raise TypeError(
            f"descriptor '{name}' for 'torch._C.TensorBase' objects doesn't apply to a "
            f"'{type(input).__name__}' object"
        )


def refuse_grad(input: Any) -> None:
    refuse_inference(input)
    if input.requires_grad and not MODES.inference:
        raise RuntimeError("cannot resize variables that require grad")


def resized(
    input: Any, shape: tuple[int, ...], strides: tuple[int, ...], counts: bool = True
) -> Any:
    """Give a tensor this shape; what does not fit into its memory goes to new memory.

    (Other tensors that look at the old memory stay there, which is where PyTorch differs.)
    """
    if is_batched(input):
        raise no_rule("resize_")
    x = memory_behind(input._array)
    count = math.prod(shape)
    room = (storage_bytes(input) // x.itemsize - input.storage_offset()) if x.size else 0
    if count > room:
        if input._cell is not None and input._cell.borrowed:
            raise RuntimeError("Trying to resize storage that is not resizable")
        memory = deterministic(xp_of(x).empty(count, x.dtype))
        kept = max(min(room, count), 0)
        memory[:kept] = strided(np, x, (kept,), (x.itemsize,))
        x = memory
    input._array = with_bits_of(input._array, strided(np, x, shape, strides))
    if counts:
        bump(input, "resize_")
    return input


def resize_in_place(t: Any, shape: tuple[int, ...]) -> None:
    """Give an `out=` tensor another shape, in the memory of its base where there is room."""
    if not isinstance(memory_behind(t._array), np.ndarray):  # on a GPU it gets memory of its own
        fresh_array = xp_of(t._array).empty(shape, t._array.dtype)
        t._array = with_bits_of(t._array, fresh_array)
        return
    # The write that follows is counted: PyTorch has one version for both.
    resized(t, shape, contiguous_strides(shape, memory_behind(t._array).itemsize), counts=False)


@api(function=False)
def resize_(input: Any, *size: Any, memory_format: Any = contiguous_format) -> Any:
    """resize_(*size, memory_format=contiguous_format) -> Tensor: another size, memory kept.

    >>> arange(6).resize_(2, 2)
    tensor([[0, 1],
            [2, 3]])
    """
    only_self("resize_", input)
    shape = ints_of_call("resize_", "size", size)
    refuse_grad(input)
    if any([n < 0 for n in shape]):
        raise RuntimeError("numel: integer multiplication overflow")
    x = input._array
    if x.shape == shape and memory_format is contiguous_format:
        return input
    strides = contiguous_strides(shape, x.itemsize)
    if memory_format is not contiguous_format:
        like = np.broadcast_to(np.empty((), x.dtype), shape)
        strides = fresh(np, like, format_name("resize_", like, memory_format)).strides
    return resized(input, shape, strides)


@api(method=True, inplace_functions=("resize_as_",))
def resize_as_(input: Any, the_template: Any, *, memory_format: Any = None) -> Any:
    """resize_as_(the_template) -> Tensor: the size of another tensor.

    >>> arange(4).resize_as_(zeros(2, 2))
    tensor([[0, 1],
            [2, 3]])
    """
    only_self("resize_as_", input)
    if not isinstance(the_template, TensorBase):
        raise errors.must_be_tensor("resize_as_", "the_template", 1, the_template)
    refuse_grad(input)
    shape = the_template._array.shape
    x = input._array
    if memory_format is not None:
        like = the_template._array
        steps = fresh(np, like, format_name("resize_as_", like, memory_format)).strides
        strides = tuple([s // like.itemsize * x.itemsize for s in steps])
        return resized(input, shape, strides)
    if x.shape == shape:
        return input
    return resized(input, shape, contiguous_strides(shape, x.itemsize))


# ------------------------------------------------------------------ set_, as_strided_


@api(name="set_", function=False)
def look_at(
    input: Any, source: Any = None, storage_offset: int = 0, size: Any = None, stride: Any = None
) -> Any:
    """set_(source=None, storage_offset=0, size=None, stride=None) -> Tensor: look at other memory.

    >>> x, y = zeros(2), ones(3)
    >>> x.set_(y)
    tensor([1., 1., 1.])
    """
    if has_batched((input, source)):
        raise no_rule("set_")
    refuse(input, False)
    own = input._array.dtype
    if source is None:
        array = np.empty(0, own)
    elif isinstance(source, TensorBase):
        if source.layout is not dense:  # type: ignore[attr-defined]
            raise NotImplementedError(
                "Could not run 'aten::set_.source_Tensor' with arguments from the 'SparseCPU' "
                "backend."
            )
        if is_valueless(input) != is_valueless(source):
            raise RuntimeError(
                f'Attempted to set the storage of a tensor on device "{input.device}" to a storage '
                f'on different device "{source.device}".  This is no longer allowed; the devices '
                "must match."
            )
        if source._array.dtype != own:
            want, have = (dtypes.cpp_name(d) for d in (own, source._array.dtype))
            raise RuntimeError(f"Could not set tensor of type {have} to a tensor of type {want}")
        array = memory_behind(source._array)
        if size is not None:
            if not array.flags.c_contiguous:
                raise RuntimeError("passed in tensor to be used as storage must be contiguous")
            start = storage_offset + source.storage_offset()
            array = memory_at(
                UntypedStorage(array), own, start, size, steps_of(input, size, stride)
            )
    elif isinstance(source, UntypedStorage):
        check_storage_dtype(source, own, dtypes.cpp_name(own))
        if size is None:
            size = (source.nbytes() // own.itemsize,)
        array = memory_at(source, own, storage_offset, size, steps_of(input, size, stride))
    else:
        raise invalid_call("set_", source)
    origins = (input, source if isinstance(source, TensorBase) else None)
    mask = sum([t._wants_grad << i for i, t in enumerate(origins) if t is not None])
    node = None
    if mask and MODES.records:
        node = lay_out(SetSource, origins, (), (), mask, (array,))
    input._array = with_bits_of(input._array, array)
    input._view_of = None
    if node is None and input._node is not None and input._node._is_leaf:
        input._node = None  # what was recorded before is not the history of these values
    if node is not None:
        input._node, input._slot, input._wants_grad = node, 0, True
    bump(input, "set_")
    return input


@op
class SetSource(Block):
    """set_source(input, source) -> Tensor: what stands for `set_` in a history."""

    aten = None
    node = "torch::autograd::NotImplemented"
    tensors = ("input", "source")
    public = False
    unbatchable = "it has a history and no values"

    def fwd(xp, input, source):
        return source

    def d_input(F, grad):
        raise RuntimeError("derivative for set_ is not implemented")

    def d_source(F, grad):
        raise RuntimeError("derivative for set_ is not implemented")

    def jvp(F, input, source):
        raise NotImplementedError("Trying to use forward AD with set_ that does not support it.")


def steps_of(input: Any, size: Any, stride: Any) -> Any:
    """The strides that `set_` was given; of a tensor that has this size, those it has."""
    return input.stride() if not stride and tuple(size) == tuple(input.shape) else stride


def memory_at(storage: UntypedStorage, dtype: Any, offset: int, size: Any, stride: Any) -> Any:
    """An array on a storage, by size and strides in elements."""
    shape = as_ints("set_", "size", 3, size)
    item = dtype.itemsize
    steps = contiguous_strides(shape, 1) if not stride else as_ints("set_", "stride", 4, stride)
    if 0 not in shape:
        last = offset + sum([(n - 1) * s for n, s in zip(shape, steps, strict=True)])
        if (last + 1) * item > storage.nbytes():
            raise RuntimeError(
                f"setStorage: sizes {list(shape)}, strides {list(steps)}, storage offset {offset}, "
                f"and itemsize {item} requiring a storage size of {(last + 1) * item} are out of "
                f"bounds for storage of size {storage.nbytes()}"
            )
    memory = storage.untyped().bytes()
    whole = memory[: memory.size // item * item].view(dtype)
    return strided(np, whole, shape, tuple([s * item for s in steps]), offset * item)


@op
class AsStridedWrite(ByStrides):
    """as_strided_(input, size, stride, offset) -> Tensor: `as_strided` of the tensor itself."""

    name, node = "as_strided_", "AsStridedBackward1"
    aten = "as_strided_"
    unbatchable = "it speaks of memory that the entries of a batch share"


@api(name="as_strided_", inplace_functions=("as_strided_",))
def restrided(input: Any, size: Any, stride: Any, storage_offset: Any = None) -> Any:
    """as_strided_(input, size, stride, storage_offset=None) -> Tensor: by strides, itself.

    >>> arange(6).as_strided_((2, 2), (1, 2))
    tensor([[0, 2],
            [1, 3]])
    """
    as_strided(input.detach(), size, stride, storage_offset)
    offset = 0 if storage_offset is None else storage_offset - input.storage_offset()
    return repoint(AsStridedWrite, input, (tuple(size), tuple(stride), offset))


@api(method=False)
def empty_permuted(
    size: Any,
    physical_layout: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """empty_permuted(size, physical_layout, *, dtype=None) -> Tensor: dimensions in memory order.

    >>> empty_permuted((2, 3, 5), (0, 2, 1)).stride()
    (15, 1, 3)
    """
    shape = tuple(size)
    order = tuple(physical_layout)
    ndim = len(shape)
    if len(order) != ndim:
        raise RuntimeError(
            "Number of dimensions in size does not match the length of the physical_layout; i.e. "
            f"len(size) = {ndim} is not equal to len(physical_layout) = {len(order)}"
        )
    for i, d in enumerate(order):
        if not 0 <= d < ndim:
            raise RuntimeError(
                f"Dimension out of range (expected to be between 0 and {ndim - 1}, but got {d} at "
                f"index {i}).  NB: negative dims not currently supported; file an issue if you "
                "want it."
            )
        if d in order[:i]:
            raise RuntimeError("Duplicate dim not allowed")
    sizes("empty_permuted", ([shape[d] for d in order],), {})
    wanted = np_dtype(dtype, "empty_permuted") or dtypes.default_np()
    check_options("empty_permuted", device, layout, pin_memory)
    steps = [0] * ndim
    laid = contiguous_strides(tuple([shape[d] for d in order]), 1)
    for d, step in zip(order, laid, strict=True):
        steps[d] = step
    return made(deterministic(with_strides(shape, tuple(steps), wanted)), requires_grad)


# ------------------------------------------------------------------ functions of elements


def refuse_calls(name: str, *tensors: Any) -> None:
    if any(t.requires_grad for t in tensors):
        raise RuntimeError(
            f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() "
            "instead."
        )


def called(input: Any, function: Any, columns: list[Any]) -> Any:
    """Write `function` of the elements of `columns`, one after the other, into `input`."""
    x = input._array
    values = [fill_number(x, function(*row)) for row in zip(*columns, strict=True)]
    x[...] = np.asarray(values).astype(x.dtype).reshape(x.shape)
    return input


def fill_number(x: Any, value: Any) -> Any:
    if not isinstance(value, (int, float, np.generic)) and not (
        x.dtype.kind == "c" and isinstance(value, complex)
    ):
        raise TypeError(f"must be real number, not {type(value).__name__}")
    return value


def elements(array: Any) -> Any:
    return array.reshape(-1).tolist()


@api(function=False)
def apply_(input: Any, callable: Any) -> Any:
    """apply_(callable) -> Tensor: each element replaced by what `callable` makes of it.

    >>> tensor([1.0, 2.0]).apply_(lambda x: x + 1)
    tensor([2., 3.])
    """
    only_self("apply_", input)
    refuse_calls("apply_", input)
    return called(input, callable, [elements(input._array)])


def expanded_source(name: str, input: Any, other: Any, argument: str, position: int) -> Any:
    """The elements of another tensor of the same type, expanded to the shape of `input`."""
    if not isinstance(other, TensorBase):
        raise errors.must_be_tensor(name, argument, position, other)
    if other._array.dtype != input._array.dtype:
        raise TypeError(f"{name}: expected {input.type()} for '{argument}' (got {other.type()})")
    return elements(expanded(other.detach(), input._array.shape)._array)


@api(function=False)
def map_(input: Any, other: Any, callable: Any) -> Any:
    """map_(other, callable) -> Tensor: `callable` of the elements of two tensors, written here.

    >>> tensor([1.0, 2.0]).map_(tensor([3.0, 4.0]), lambda a, b: a * b)
    tensor([3., 8.])
    """
    only_self("map_", input)
    column = expanded_source("map_", input, other, "other", 1)
    refuse_calls("map_", input, other)
    return called(input, callable, [elements(input._array), column])


@api(function=False)
def map2_(input: Any, x: Any, y: Any, callable: Any) -> Any:
    """map2_(x, y, callable) -> Tensor: `callable` of the elements of three tensors, written here.

    >>> ones(2).map2_(ones(2), tensor([3.0, 4.0]), lambda a, b, c: a + b * c)
    tensor([4., 5.])
    """
    only_self("map2_", input)
    first = expanded_source("map2_", input, x, "x", 1)
    second = expanded_source("map2_", input, y, "y", 2)
    refuse_calls("map2_", input, x, y)
    return called(input, callable, [elements(input._array), first, second])


# Their own refusals of tensors that require grad come before autograd's.
METHODS = {
    "apply_": apply_,
    "map_": map_,
    "map2_": map2_,
    "resize_": resize_,
    "resize_as_": resize_as_,
}
