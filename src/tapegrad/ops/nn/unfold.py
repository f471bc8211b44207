"""Windows of images as columns of matrices, and back."""

from __future__ import annotations

import math
from typing import Any

from ... import dtypes
from ...core.arguments import wrap_dim
from ...core.base import TensorBase
from ...core.rounding import half_as_single
from ...errors import must_be_tensor
from ...kernels.conv_windows import Ints, gather, scatter
from ...kernels.geometry import out_size
from ..block import Case, Linear, api, apply, op
from ..block.checks import as_int, as_ints, not_implemented
from ..block.samples import Draw

# ruff: noqa: N805


@op
class Im2Col(Linear):
    """im2_col(input, kernel_size, dilation, padding, stride) -> Tensor: the sliding windows of
    images, each as a column."""

    aten = "im2col"
    public = False
    leading = (3,)

    def fwd(xp, input, kernel_size, dilation, padding, stride):
        out = out_size(input.shape[-2:], kernel_size, stride, padding, dilation)
        cols = gather(xp, input, kernel_size, stride, padding, dilation, out)
        rows = input.shape[-3] * math.prod(kernel_size)
        made = cols.reshape(*input.shape[:-3], rows, math.prod(out))
        return made.copy() if xp.may_share_memory(made, input) else made

    def d_input(F, grad, input_shape, kernel_size, dilation, padding, stride):
        return F.col2_im(grad, input_shape[-2:], kernel_size, dilation, padding, stride)


@op
class Col2Im(Linear):
    """col2_im(input, output_size, kernel_size, …) -> Tensor: columns added up as windows."""

    aten = "col2im"
    public = False
    leading = (2,)

    def fwd(xp, input, output_size, kernel_size, dilation, padding, stride):
        *lead, rows, _ = input.shape
        out = out_size(output_size, kernel_size, stride, padding, dilation)
        cols = half_as_single(input).reshape(
            *lead, rows // math.prod(kernel_size), *kernel_size, *out
        )
        made = scatter(xp, cols, output_size, stride, padding, dilation)
        return made.astype(input.dtype, copy=False)

    def d_input(F, grad, kernel_size, dilation, padding, stride):
        return F.im2_col(grad, kernel_size, dilation, padding, stride)


def two(function: str, name: str, value: Any) -> Ints:
    """A size given as one int or two."""
    if isinstance(value, TensorBase) and value._array.ndim == 1:
        value = tuple(value.tolist())
    if not isinstance(value, (tuple, list)):
        if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
            raise TypeError(
                f"{function}(): argument '{name}' failed to unpack the object at pos 1 with error "
                '"Overflow when unpacking long long"'
            )
        one = as_int(function, name, 0, value)
        return (one, one)
    values = as_ints(function, name, 0, value)
    if len(values) != 2:
        raise RuntimeError(f"It is expected {name} equals to 2, but got size {len(values)}")
    return values


def check_positive(kernel: Ints, dilation: Ints, padding: Ints, stride: Ints) -> None:
    if min(kernel) <= 0:
        raise RuntimeError(
            "kernel size should be greater than zero, but got "
            f"kernel_height: {kernel[0]} kernel_width: {kernel[1]}"
        )
    if min(dilation) <= 0:
        raise RuntimeError(
            "dilation should be greater than zero, but got "
            f"dilation_height: {dilation[0]} dilation_width: {dilation[1]}"
        )
    if min(padding) < 0:
        raise RuntimeError(
            f"padding should be non-negative, but got pad_height: {padding[0]} "
            f"pad_width: {padding[1]}"
        )
    if min(stride) <= 0:
        raise RuntimeError(
            "stride should be greater than zero, but got "
            f"stride_height: {stride[0]} stride_width: {stride[1]}"
        )


def windows(function: str, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    """The arguments that say where windows are, two numbers each, checked."""
    kernel = two(function, "kernel_size", kernel_size)
    spacing = two(function, "dilation", dilation)
    border = two(function, "padding", padding)
    step = two(function, "stride", stride)
    check_positive(kernel, spacing, border, step)
    return kernel, spacing, border, step


@api(
    name="nn.functional.unfold",
    samples=[
        Case(Draw(2, 2, 3, 4), 2),
        Case(Draw(1, 3, 4), (2, 1), 1, (0, 1), (2, 1)),
        Case(Draw(1, 2, 4, 4, layout="T"), 2, dilation=2, padding=1, stride=2),
        Case(Draw(0, 2, 3, 3), 2),
    ],
)
def unfold(
    input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Any:
    """unfold(input, kernel_size, dilation=1, padding=0, stride=1) -> Tensor: the sliding windows
    of images, each as a column.

    >>> nn.functional.unfold(arange(6.0).view(1, 1, 2, 3), (2, 2))[0]
    tensor([[0., 1.],
            [1., 2.],
            [3., 4.],
            [4., 5.]])
    """
    if not isinstance(input, TensorBase):
        raise must_be_tensor("im2col", "input", 1, input)
    kernel, spacing, border, step = windows("im2col", kernel_size, dilation, padding, stride)
    x = input._array
    if x.ndim < 3:
        wrap_dim(2, x.ndim)
    if x.ndim not in (3, 4) or 0 in x.shape[x.ndim - 3 :]:
        raise RuntimeError(
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero "
            f"dimensions for input, but got: {list(x.shape)}"
        )
    out = out_size(x.shape[-2:], kernel, step, border, spacing)
    if min(out) < 1:
        raise RuntimeError(
            f"Given input with spatial size {x.shape[-2:]}, kernel_size={kernel}, "
            f"dilation={spacing}, padding={border}, calculated shape of the array of sliding "
            f"blocks as {out}, but its components must be at least one."
        )
    if x.dtype.kind in "iu":
        raise not_implemented("im2col_out_cpu", dtypes.of(x.dtype))
    return apply(Im2Col, (input,), (kernel, spacing, border, step))


@api(
    name="nn.functional.fold",
    samples=[
        Case(Draw(2, 4, 6), (3, 4), 2),
        Case(Draw(4, 4), 4, 2, stride=2),
        Case(Draw(1, 6, 16, layout="T"), (2, 4), (3, 2), (1, 2), (2, 1)),
    ],
)
def fold(
    input: Any,
    output_size: Any,
    kernel_size: Any,
    dilation: Any = 1,
    padding: Any = 0,
    stride: Any = 1,
) -> Any:
    """fold(input, output_size, kernel_size, dilation=1, …) -> Tensor: columns added up as windows.

    >>> nn.functional.fold(ones(1, 4, 2), (2, 3), 2)
    tensor([[[[1., 2., 1.],
              [1., 2., 1.]]]])
    """
    if not isinstance(input, TensorBase):
        raise must_be_tensor("col2im", "input", 1, input)
    size = two("col2im", "output_size", output_size)
    kernel, spacing, border, step = windows("col2im", kernel_size, dilation, padding, stride)
    x = input._array
    if x.ndim not in (2, 3) or 0 in x.shape[x.ndim - 2 :]:
        raise RuntimeError(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and "
            f"non-zero dimensions for input, but got: {list(x.shape)}"
        )
    rows, length = x.shape[-2:]
    if rows % math.prod(kernel):
        raise RuntimeError(
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, "
            f"but got input.size(1)={rows} and kernel_size={kernel}."
        )
    out = out_size(size, kernel, step, border, spacing)
    given = (
        f"Given output_size={size}, kernel_size={kernel}, dilation={spacing}, padding={border}, "
        f"stride={step}"
    )
    if math.prod(out) != length:
        raise RuntimeError(
            f"{given}, expected size of input's dimension 2 to match the calculated number of "
            f"sliding blocks {out[0]} * {out[1]} = {out[0] * out[1]}, but got "
            f"input.size(2)={length}."
        )
    if min(out) < 1:
        raise RuntimeError(
            f"{given}, calculated shape of the array of sliding blocks as ({out[0]}, {out[1]}), "
            "which is too small (non-positive)"
        )
    if x.dtype.kind in "iu":
        raise not_implemented("col2im_out_cpu", dtypes.of(x.dtype))
    return apply(Col2Im, (input,), (size, kernel, spacing, border, step))
