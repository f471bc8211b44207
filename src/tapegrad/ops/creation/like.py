"""Making tensors like others: `zeros_like` and its kin, and the `new_*` methods."""

from __future__ import annotations

from typing import Any

from ... import dtypes
from ...core.base import STATE
from ...core.host_arrays import host
from ...core.late_bound import ON_DEMAND
from ...core.transforms.batched import batch_of, batched, is_batched, repeated, through
from ...device import channels_last, channels_last_3d, contiguous_format, strided
from ..block.definition import api
from . import arrays as from_data
from .arguments import np_dtype
from .arrays import deterministic
from .sized import (
    check_options,
    checked_tensor,
    empty_strided,
    fresh,
    full,
    home,
    in_format,
    made,
    number_argument,
    with_strides,
)


def like(input: Any, dtype: Any, memory_format: Any = None, device: Any = None) -> Any:
    """An array with the shape and, if it is dense, the memory order of a tensor's."""
    array = input._array
    if dtype is None:
        dtype = array.dtype
    xp = home(device, input) if STATE.elsewhere or device is not None else host
    if memory_format in (channels_last, channels_last_3d):
        return in_format(array.shape, dtype, memory_format, xp)
    if memory_format is contiguous_format or (array.flags.c_contiguous and 1 not in array.shape):
        return xp.empty(array.shape, dtype)
    return with_strides(array.shape, like_strides(array), dtype, xp)


def like_strides(array: Any) -> tuple[int, ...]:
    """Strides (in elements) for a dense tensor in the order of another: its own, if it is dense."""
    shape, strides = array.shape, [s // array.itemsize for s in array.strides]
    order = stride_order(shape, strides)
    out = [0] * array.ndim
    step = 1
    dense = True
    for i in order:
        dense = dense and (shape[i] == 1 or strides[i] == step)
        out[i] = step
        step *= max(shape[i], 1)
    return tuple(strides if dense else out)


def stride_order(shape: tuple[int, ...], strides: list[int]) -> list[int]:
    """Dimensions from the fastest to the slowest; those that repeat (stride 0) stay where they "
    "are."""
    order = list(range(len(shape) - 1, -1, -1))
    for i in range(1, len(order)):
        low = i
        for j in range(i - 1, -1, -1):
            a, b = order[j], order[low]
            if strides[a] == 0 or strides[b] == 0:
                continue
            if (strides[a], shape[a]) > (strides[b], shape[b]):
                order[j], order[low] = b, a
                low = j
            elif strides[a] < strides[b]:
                break
    return order


def like_tensor(
    function: str,
    input: Any,
    value: Any,
    dtype: Any,
    layout: Any,
    device: Any,
    pin_memory: bool,
    requires_grad: bool,
    memory_format: Any,
) -> Any:
    checked_tensor(input, function)
    wanted = np_dtype(dtype, function)
    if device is not None or layout is not None or pin_memory:
        check_options(function, device, layout, pin_memory)
    if input._special and is_batched(input):
        order = None if memory_format in (channels_last, channels_last_3d) else memory_format
        return through(
            lambda t: like_tensor(
                function, t, value, dtype, layout, device, pin_memory, requires_grad, order
            ),
            input,
        )
    if input._special and input.layout is not strided:
        return ON_DEMAND.sparse_like(function, input, value, wanted, requires_grad)
    array = like(input, wanted, memory_format, device)
    if value is None:
        deterministic(array)
    else:
        array.fill(from_data.fill_value(value, array.dtype))
    return made(array, requires_grad)


def like_function(source: Any) -> Any:
    """Publish a function; `source` says what it fills with, and is called and described as it."""
    name, value = source.__name__, source()

    def made_like(
        input: Any,
        *,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        pin_memory: bool = False,
        requires_grad: bool = False,
        memory_format: Any = None,
    ) -> Any:
        return like_tensor(
            name, input, value, dtype, layout, device, pin_memory, requires_grad, memory_format
        )

    made_like.__name__, made_like.__doc__ = name, source.__doc__
    return api(method=False, direct=True)(made_like)


@like_function
def zeros_like() -> int | None:
    """zeros_like(input, *, dtype=None, requires_grad=False) -> Tensor: zeros of its shape.

    >>> zeros_like(tensor([1, 2]))
    tensor([0, 0])
    """
    return 0


@like_function
def ones_like() -> int | None:
    """ones_like(input, *, dtype=None, requires_grad=False) -> Tensor: ones of its shape.

    >>> ones_like(tensor([5.0, 6.0]))
    tensor([1., 1.])
    """
    return 1


@like_function
def empty_like() -> int | None:
    """empty_like(input, *, dtype=None, requires_grad=False) -> Tensor: a tensor of the same shape
    whose values are not set.

    >>> empty_like(zeros(2, 3)).shape
    torch.Size([2, 3])
    """
    return None


@api(method=False, direct=True)
def full_like(
    input: Any,
    fill_value: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Any:
    """full_like(input, fill_value, *, dtype=None, device=None) -> Tensor: one value, of its shape.

    >>> full_like(tensor([1, 2]), 2.75)
    tensor([2, 2])
    """
    value = number_argument(fill_value, "full_like", "fill_value", 2)
    return like_tensor(
        "full_like", input, value, dtype, layout, device, pin_memory, requires_grad, memory_format
    )


def batched_like(owner: Any, t: Any) -> Any:
    """A new tensor with a copy for every entry, if the one whose method made it is batched."""
    if not is_batched(owner):
        return t
    batch = batch_of(owner)
    below = batched_like(batch.physical, t)
    return batched(repeated(below, batch.level.size).clone(), batch.level)


def new_function(source: Any) -> Any:
    """Publish a method that makes a tensor with the dtype of its own."""
    name, value = source.__name__, source()

    def made_new(
        self: Any,
        *size: Any,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        pin_memory: bool = False,
        requires_grad: bool = False,
        **kwargs: Any,
    ) -> Any:
        own = self._array.dtype
        options = (dtype, device, layout, pin_memory, requires_grad)
        t = fresh(name, size, kwargs, value, *options, default=own)
        return batched_like(self, t) if self._special else t

    made_new.__name__, made_new.__doc__ = name, source.__doc__
    return api(function=False, direct=True)(made_new)


@new_function
def new_zeros() -> int | None:
    """new_zeros(*size, dtype=None, requires_grad=False) -> Tensor: zeros of self's dtype.

    >>> tensor([1]).new_zeros(2)
    tensor([0, 0])
    """
    return 0


@new_function
def new_ones() -> int | None:
    """new_ones(*size, dtype=None, requires_grad=False) -> Tensor: ones of self's dtype.

    >>> tensor([1]).new_ones((2,))
    tensor([1, 1])
    """
    return 1


@new_function
def new_empty() -> int | None:
    """new_empty(*size, dtype=None, device=None, requires_grad=False) -> Tensor: a tensor of the
    same dtype whose values are not set.

    >>> tensor([1]).new_empty(2).dtype
    torch.int64
    """
    return None


@api(function=False, direct=True)
def new_empty_strided(
    self: Any,
    size: Any,
    stride: Any,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """new_empty_strided(size, stride, dtype=None) -> Tensor: a given memory layout, self's dtype.

    >>> tensor([1]).new_empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    t = empty_strided(
        size,
        stride,
        dtype=dtype or dtypes.of(self._array.dtype),
        layout=layout,
        device=device,
        requires_grad=requires_grad,
        pin_memory=pin_memory,
    )
    return batched_like(self, t) if self._special else t


@api(function=False, direct=True)
def new_full(
    self: Any,
    size: Any,
    fill_value: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """new_full(size, fill_value, *, dtype=None, device=None) -> Tensor: one value, self's dtype.

    >>> tensor([1.0]).new_full((2,), 5)
    tensor([5., 5.])
    """
    t = full(
        size,
        fill_value,
        dtype=dtype or dtypes.of(self._array.dtype),
        layout=layout,
        device=device,
        requires_grad=requires_grad,
        pin_memory=pin_memory,
    )
    return batched_like(self, t) if self._special else t
