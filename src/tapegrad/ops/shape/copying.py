"""Copies, casts and fills: ops that know how memory is laid out."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import errors
from ...autograd.inplace import overwrite, write
from ...core.arguments import number_as_array
from ...core.base import STATE, TensorBase, wrap
from ...core.devices import is_device
from ...core.dispatch import number_as
from ...core.python_dispatch import same_always
from ...core.rounding import before_rounding_to
from ...core.strides import contiguous_strides, empty, empty_like
from ...device import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    memory_format,
    preserve_format,
)
from ..block import Block, Case, Linear, api, apply, op
from ..block.batching import lift, padded
from ..block.samples import Draw

# ruff: noqa: N805

# ------------------------------------------------------------------ clone, contiguous, cast


def fresh(xp: Any, x: Any, format: str) -> Any:
    """Memory for a copy of `x` in a memory format."""
    if format == "preserve":
        return empty_like(xp, x)
    if format == "contiguous":
        return xp.empty(x.shape, x.dtype)
    order = (0, *range(2, x.ndim), 1)
    swapped = contiguous_strides(tuple([x.shape[d] for d in order]), x.itemsize)
    strides = [0] * x.ndim
    for d, s in zip(order, swapped, strict=True):
        strides[d] = s
    return empty(xp, x.shape, tuple(strides), x.dtype)


def format_name(function: str, x: Any, format: Any) -> str:
    """The kernels' word for a memory format, if a tensor of this shape can have it."""
    if not isinstance(format, memory_format):
        raise TypeError(
            f"{function}(): argument 'memory_format' must be torch.memory_format, not "
            f"{type(format).__name__}"
        )
    if format is channels_last or format is channels_last_3d:
        rank = 4 if format is channels_last else 5
        if x.ndim != rank:
            name = "channels_last" if rank == 4 else "channels_last_3d"
            raise RuntimeError(f"required rank {rank} tensor to use {name} format")
        return "channels_last"
    return "contiguous" if format is contiguous_format else "preserve"


@op
class Clone(Linear):
    """clone(input, *, memory_format=preserve_format) -> Tensor: a copy that gradients pass through.

    >>> tensor([1, 2]).clone()
    tensor([1, 2])
    """

    samples = (
        Case(Draw(2, 3)),
        Case(Draw()),
        Case(Draw(0, 2)),
        Case(Draw(2, 3, layout="T")),
        Case(Draw(2, 3, layout="step")),
    )
    leading = (0,)

    def fwd(xp, input, format):
        if format == "preserve" and input.size:
            out = input.copy("K")
            if out.strides == input.strides:  # NumPy forgets odd strides and leaves gaps out
                return out
        out = fresh(xp, input, format)
        out[...] = input
        return out

    def d_input(F, grad):
        return grad

    def call(input, *, memory_format=preserve_format):
        if not isinstance(input, TensorBase):
            raise errors.must_be_tensor("clone", "input", 1, input)
        if memory_format is preserve_format or memory_format is None:
            return apply(Clone, (input,), ("preserve",))
        return apply(Clone, (input,), (format_name("clone", input._array, memory_format),))


@api(function=False, samples=[Case(Draw(2, 3)), Case(Draw(2, 3, layout="T"))])
def contiguous(input: Any, memory_format: Any = contiguous_format) -> Any:
    """contiguous(memory_format=contiguous_format) -> Tensor: itself if contiguous, else a copy.

    >>> zeros(2, 3).t().contiguous().stride()
    (2, 1)
    """
    name = format_name("contiguous", input._array, memory_format)
    if memory_format is preserve_format:
        raise RuntimeError("preserve memory format is unsupported by the contiguous operator")
    if input.is_contiguous(memory_format=memory_format):
        return input
    return apply(Clone, (input,), (name,))


@op
class Cast(Linear):
    """cast(input, dtype) -> Tensor: a copy in another dtype."""

    node = "ToCopyBackward0"
    aten = "_to_copy"
    casts = True
    wirtinger = True
    public = False
    leading = (0,)

    def fwd(xp, input, dtype):
        input = xp.asarray(input)
        part = input.real if input.dtype.kind == "c" and dtype.kind not in "cb" else input
        part = before_rounding_to(dtype, part)
        if input.size and input.flags.c_contiguous and 1 not in input.shape:
            return part.astype(dtype)
        out = empty_like(xp, input, dtype)
        out[...] = part
        return out

    def d_input(F, grad, input_dtype):
        return F.cast(grad, input_dtype)

    def aten_call(input, *, dtype=None, **options):
        return input.to(dtype=input.dtype if dtype is None else dtype, copy=True)


# ------------------------------------------------------------------ writes


@op
class Copy(Block):
    """copy(input, src) -> Tensor: `src` in the shape and dtype of `input`; what `copy_` records."""

    node = "torch::autograd::CopyBackwards"
    aten = "copy"
    tensors = ("input", "src")
    broadcasts = True
    wirtinger = True
    public = False
    vmap_write = "inplace arithmetic"
    across_devices = True
    host_number = True

    def fwd(xp, input, src):
        if src.dtype.kind == "c" and input.dtype.kind not in "cb":
            src = src.real
        # Only ever written into `input`: a view will do.
        if src.shape == input.shape:
            return src.view()
        return xp.broadcast_to(src, np.broadcast_shapes(input.shape, src.shape))

    def into(xp, input, src):
        if src.ndim > input.ndim:
            raise ValueError("too many dimensions")  # of size 1, which an assignment allows
        input[...] = before_rounding_to(input.dtype, src)

    def d_input(F, grad):
        return F.zeros_like(grad)

    def d_src(F, grad):
        return grad

    def jvp(F, input, t_input, t_src):
        if t_src is None:
            return F.zeros_like(t_input)
        return F.expand(t_src, input.shape)

    def batch(F, size, batched, input, src):
        whole = lift(F, input, size, batched[0])
        return F.copy(whole, padded(F, src, 1, len(whole.shape)) if batched[1] else src)


@api(function=False)
def copy_(input: Any, src: Any, non_blocking: bool = False) -> Any:
    """copy_(src, non_blocking=False) -> Tensor: take over the values of `src`, broadcast and cast.

    >>> zeros(2).copy_(tensor([1, 2]))
    tensor([1., 2.])
    """
    if not isinstance(src, TensorBase):
        if not isinstance(src, (bool, int, float, complex)):
            raise errors.must_be_tensor("copy_", "other", 1, src)
        with np.errstate(over="ignore"):
            number = number_as(src, input._array.dtype)
            src = same_always(wrap(np.asarray(number, input._array.dtype)))
    if STATE.device_type is not None and is_device(input) != is_device(src):
        src = moved_to(input, src)
    return write(Copy, (input, src))


def moved_to(input: Any, src: Any) -> Any:
    """`src` on the device of `input`."""
    from ...cuda import runtime

    return runtime.move(src, runtime.place_of(input))


class Filling(Block):
    public = False

    def d_input(F, grad):
        return F.zeros_like(grad)


class FillingNumber(Filling):
    leading = (0,)

    def fwd(xp, input, value):
        return xp.full_like(input, before_rounding_to(input.dtype, value))

    def jvp(F, t_input):
        return F.zeros_like(t_input)


class FillingTensor(Filling):
    tensors = ("input", "value")

    def fwd(xp, input, value):
        if value.dtype.kind == "c" and input.dtype.kind not in "cb":
            value = value.real
        return xp.full_like(input, before_rounding_to(input.dtype, value))

    def d_value(F, grad):
        return F.sum(grad, None, False, None)

    def jvp(F, input, t_input, t_value):
        zeros = F.zeros_like(input)
        return zeros if t_value is None else zeros + t_value

    def batch(F, size, batched, input, value):
        whole = lift(F, input, size, batched[0])
        value = padded(F, value, 1, len(whole.shape)) if batched[1] else value
        return F.expand(value, whole.shape) + F.zeros_like(whole)


@op
class Zero(Filling):
    """zero(input) -> Tensor: what `zero_` records."""

    aten = "zero"
    leading = (0,)

    def fwd(xp, input):
        return xp.zeros_like(input)

    def jvp(F, t_input):
        return F.zeros_like(t_input)


@op
class Fill(FillingNumber):
    """fill(input, value) -> Tensor: a tensor like `input`, every element `value`."""

    aten = "fill.Scalar"
    vmap_write = "fill_"


@op
class FillWith(FillingTensor):
    """fill_with(input, value) -> Tensor: the same with the value of a 0-d tensor."""

    node = "FillBackward1"
    aten = "fill.Tensor"
    vmap_write = "fill_"
    host_number = True


@op
class FillNumber(FillingNumber):
    """fill_number(input, value) -> Tensor: what `fill_` with a number records."""

    node = "FillBackward2"
    aten = "fill.Scalar"
    vmap_write = "fill_"


@op
class FillTensor(FillingTensor):
    """fill_tensor(input, value) -> Tensor: what `fill_` with a tensor records."""

    node = "FillBackward3"
    aten = "fill.Tensor"
    vmap_write = "fill_"
    host_number = True


@api(function=False, inplace_functions=("zero_",))
def zero_(input: Any) -> Any:
    """zero_() -> Tensor: set every element to zero.

    >>> ones(2).zero_()
    tensor([0., 0.])
    """
    return overwrite(Zero, input, 0, "zero_")


def checked_value(function: str, input: Any, value: Any) -> Any:
    if isinstance(value, TensorBase):
        if value._array.ndim:
            raise RuntimeError(
                f"{function} only supports 0-dimension value tensor but got tensor with "
                f"{value._array.ndim} dimensions."
            )
        return value
    if not isinstance(value, (bool, int, float, complex, np.number, np.bool_)):
        raise TypeError(
            f"{function}() received an invalid combination of arguments - got "
            f"({type(value).__name__}), but expected one of:"
        )
    return number_as_array(input._array.dtype, value)[()]


@api(function=False, inplace_functions=("fill_",))
def fill_(input: Any, value: Any) -> Any:
    """fill_(value) -> Tensor: set every element to `value`.

    >>> zeros(2).fill_(3)
    tensor([3., 3.])
    """
    given = value
    value = checked_value("fill_", input, value)
    if isinstance(value, TensorBase):
        return write(FillTensor, (input, value))
    return overwrite(FillNumber, input, value, "fill_", {"value": given})


@api(method=False, samples=[Case(Draw(2, 3), 1.5), Case(Draw(2), Draw())])
def fill(input: Any, value: Any) -> Any:
    """fill(input, value) -> Tensor: a tensor like `input` with every element `value`.

    >>> fill(zeros(2), 3)
    tensor([3., 3.])
    """
    value = checked_value("fill", input, value)
    if isinstance(value, TensorBase):
        return apply(FillWith, (input, value))
    return apply(Fill, (input,), (value,))
