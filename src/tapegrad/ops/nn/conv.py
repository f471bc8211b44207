"""The blocks of convolution: one op for all of them, and what goes back to its arguments.

`transposed` says which way round the three products of conv_kernels.py are used: a convolution goes
from the side of x to the side of y, a transposed one from y to x. The public functions are in
conv_functions.py.
"""

from __future__ import annotations

from typing import Any

from ...core.rounding import half_as_single
from ...core.strides import channels_last
from ...kernels.conv_windows import correlate, w_of, x_of
from ...kernels.geometry import out_size, transposed_size
from ..block import LOWER, Autocast, Block, op

# ruff: noqa: N805


@op
class Convolution(Block):
    """convolution(input, weight, bias, stride, …, groups) -> Tensor: any of the convolutions."""

    aten = "convolution"
    tensors = ("input", "weight", "bias")
    public = False
    gradient_text = {"bias": "sum(grad, every dim but the channels)"}

    def fwd(xp, input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
        x, w = half_as_single(input), half_as_single(weight)
        kernel, size = w.shape[2:], x.shape[2:]
        if transposed:
            out = transposed_size(size, kernel, stride, padding, dilation, output_padding)
        else:
            out = out_size(size, kernel, stride, padding, dilation)
        if not x.size:
            features = w.shape[1] * groups if transposed else w.shape[0]
            return xp.zeros((x.shape[0], features if x.shape[1] else 0, *out), input.dtype)
        if transposed:
            made = x_of(xp, x, w, out, stride, padding, dilation, groups)
        else:
            made = correlate(xp, x, w, stride, padding, dilation, groups, out)
        if bias is not None:
            made += bias.reshape(-1, *(1,) * len(kernel)).astype(made.dtype, copy=False)
        made = made.astype(input.dtype, copy=False)
        if len(kernel) > 1 and (channels_last(input) or channels_last(weight)):
            made = xp.moveaxis(xp.ascontiguousarray(xp.moveaxis(made, 1, -1)), -1, 1)
        return made

    def d_input(
        F, grad, weight, input_shape, stride, padding, dilation, transposed, output_padding, groups
    ):
        how = (stride, padding, dilation, transposed, output_padding, groups)
        return F.conv_input_grad(grad, weight, input_shape, how)

    def d_weight(
        F, grad, input, weight_shape, stride, padding, dilation, transposed, output_padding, groups
    ):
        how = (stride, padding, dilation, transposed, output_padding, groups)
        return F.conv_weight_grad(grad, input, weight_shape, how)

    def d_bias(F, grad, bias_shape):
        # Without input channels PyTorch's result has no channels either.
        return F.blank(grad, bias_shape) if 0 in grad.shape else F.conv_bias_grad(grad)

    def jvp(
        F,
        input,
        t_input,
        weight,
        t_weight,
        t_bias,
        out,
        stride,
        padding,
        dilation,
        transposed,
        output_padding,
        groups,
    ):
        how = (stride, padding, dilation, transposed, output_padding, groups)
        if t_input is None and t_weight is None:
            return F.expand(addable_bias(F, t_bias, len(out.shape)), out.shape)
        if t_input is None:
            return F.convolution(input, t_weight, t_bias, *how)
        total = F.convolution(t_input, weight, t_bias, *how)
        return total if t_weight is None else total + F.convolution(input, t_weight, None, *how)

    def batch(
        F,
        size,
        batched,
        input,
        weight,
        bias,
        stride,
        padding,
        dilation,
        transposed,
        output_padding,
        groups,
    ):
        how = (stride, padding, dilation, transposed, output_padding)
        common_bias = None if batched[2] else bias
        if batched[1]:
            # Every entry has kernels of its own: as many groups of channels.
            x = side_by_side(F, size, input, batched[0])
            out = apart(F, size, F.convolution(x, join(F, weight), None, *how, size * groups))
            if common_bias is not None:
                out = out + addable_bias(F, common_bias, len(out.shape) - 1)
        else:
            x = join(F, lift(F, input, size, batched[0]))
            out = part(F, size, F.convolution(x, weight, common_bias, *how, groups))
        return out + addable_bias(F, bias, len(out.shape) - 1) if batched[2] else out


def addable_bias(F: Any, bias: Any, ndim: int) -> Any:
    """A bias (channels) or (batch, channels) as it is added; `ndim` is that of an entry."""
    *batch, channels = bias.shape
    ones = (1,) * (ndim - 2)
    return F.reshape(bias, (*batch, 1, channels, *ones) if batch else (channels, *ones))


def lift(F: Any, x: Any, size: int, batched: bool) -> Any:
    return x if batched else F.expand(F.unsqueeze(x, 0), (size, *x.shape))


def join(F: Any, x: Any) -> Any:
    return F.reshape(x, (x.shape[0] * x.shape[1], *x.shape[2:]))


def part(F: Any, size: int, x: Any) -> Any:
    return F.reshape(x, (size, x.shape[0] // size, *x.shape[1:]))


def side_by_side(F: Any, size: int, x: Any, batched: bool) -> Any:
    """The batch as part of the channels: (images, batch * channels, *size)."""
    whole = F.transpose(lift(F, x, size, batched), 0, 1)
    images, _, channels, *rest = whole.shape
    return F.reshape(whole, (images, size * channels, *rest))


def apart(F: Any, size: int, x: Any) -> Any:
    images, channels, *rest = x.shape
    return F.transpose(F.reshape(x, (images, size, channels // size, *rest)), 0, 1)


class ConvGradient(Block):
    """Base of the gradients of convolutions by one argument: linear in `grad_output`."""

    node = "ConvolutionBackwardBackward0"
    aten = None
    public = False
    linear = True


# In the two blocks below `how` is (stride, padding, dilation, transposed, output_padding, groups).


@op
class ConvInputGrad(ConvGradient):
    """conv_input_grad(grad_output, weight, shape, how) -> Tensor: what goes back to the input."""

    tensors = ("grad_output", "weight")
    formula = "transposed_convolution(grad_output, weight)"

    def fwd(xp, grad_output, weight, shape, how):
        stride, padding, dilation, transposed, _, groups = how
        if not grad_output.size:
            return xp.zeros(shape, grad_output.dtype)
        y, w = half_as_single(grad_output), half_as_single(weight)
        if transposed:
            made = correlate(xp, y, w, stride, padding, dilation, groups, shape[2:])
        else:
            made = x_of(xp, y, w, shape[2:], stride, padding, dilation, groups)
        return made.astype(grad_output.dtype, copy=False)

    def d_grad_output(F, grad, weight, how):
        return F.convolution(grad, weight, None, *how)

    def d_weight(F, grad, grad_output, weight_shape, how):
        return F.conv_weight_grad(grad_output, grad, weight_shape, how)

    def batch(F, size, batched, grad_output, weight, shape, how):
        if not batched[1]:
            images = (size * shape[0], *shape[1:])
            return part(F, size, F.conv_input_grad(join(F, grad_output), weight, images, how))
        y = side_by_side(F, size, grad_output, batched[0])
        wide = (shape[0], size * shape[1], *shape[2:])
        how = (*how[:-1], size * how[-1])
        return apart(F, size, F.conv_input_grad(y, join(F, weight), wide, how))


@op
class ConvWeightGrad(ConvGradient):
    """conv_weight_grad(grad_output, input, shape, how) -> Tensor: what goes back to the weights."""

    tensors = ("grad_output", "input")
    formula = "convolution(input, grad_output)"

    def fwd(xp, grad_output, input, shape, how):
        stride, padding, dilation, transposed, _, groups = how
        if not grad_output.size or not input.size:
            return xp.zeros(shape, grad_output.dtype)
        y, x = half_as_single(grad_output), half_as_single(input)
        if transposed:
            x, y = y, x
        made = w_of(xp, x, y, shape[2:], stride, padding, dilation, groups)
        return made.astype(grad_output.dtype, copy=False)

    def d_grad_output(F, grad, input, how):
        return F.convolution(input, grad, None, *how)

    def d_input(F, grad, grad_output, input_shape, how):
        return F.conv_input_grad(grad_output, grad, input_shape, how)

    def batch(F, size, batched, grad_output, input, shape, how):
        y = side_by_side(F, size, grad_output, batched[0])
        x = side_by_side(F, size, input, batched[1])
        wide = (size * shape[0], *shape[1:])
        return part(F, size, F.conv_weight_grad(y, x, wide, (*how[:-1], size * how[-1])))


@op
class ConvBiasGrad(ConvGradient):
    """conv_bias_grad(grad_output) -> Tensor: what goes back to the bias."""

    tensors = ("grad_output",)

    def fwd(xp, grad_output):
        dims = (0, *range(2, grad_output.ndim))
        return half_as_single(grad_output).sum(axis=dims).astype(grad_output.dtype, copy=False)

    def d_grad_output(F, grad, grad_output_shape):
        return F.expand(addable_bias(F, grad, len(grad_output_shape)), grad_output_shape)

    def batch(F, size, batched, grad_output):
        return part(F, size, F.conv_bias_grad(side_by_side(F, size, grad_output, True)))


@op
class ConvTbc(Block):
    """conv_tbc(input, weight, bias, pad) -> Tensor: convolution of (time, batch, channels)."""

    aten = "conv_tbc"
    tensors = ("input", "weight", "bias")
    public = False
    autocast = Autocast(cpu=LOWER, gpu=LOWER)

    def fwd(xp, input, weight, bias, pad):
        x, w = half_as_single(input).transpose(1, 2, 0), half_as_single(weight).transpose(2, 1, 0)
        one = (1,)
        out = out_size(x.shape[2:], w.shape[2:], one, (pad,), one)
        made = correlate(xp, x, w, one, (pad,), one, 1, out).transpose(2, 0, 1)
        made = made + bias.astype(made.dtype, copy=False)
        return xp.ascontiguousarray(made.astype(input.dtype, copy=False))

    def d_input(F, grad, weight, input_shape, pad):
        time, batch, channels = input_shape
        y, w = F.permute(grad, (1, 2, 0)), F.permute(weight, (2, 1, 0))
        x = F.conv_input_grad(y, w, (batch, channels, time), along_time(pad))
        return F.permute(x, (2, 0, 1))

    def d_weight(F, grad, input, weight_shape, pad):
        y, x = F.permute(grad, (1, 2, 0)), F.permute(input, (1, 2, 0))
        return F.permute(F.conv_weight_grad(y, x, weight_shape[::-1], along_time(pad)), (2, 1, 0))

    def d_bias(F, grad):
        return F.sum(grad, (0, 1), False, None)

    def jvp(F, input, t_input, weight, t_weight, bias, t_bias, out, pad):
        total = F.zeros_like(out) if t_bias is None else F.expand(t_bias, out.shape)
        none = F.zeros_like(bias)
        if t_input is not None:
            total = total + F.conv_tbc(t_input, weight, none, pad)
        if t_weight is not None:
            total = total + F.conv_tbc(input, t_weight, none, pad)
        return total

    def batch(F, size, batched, input, weight, bias, pad):
        how = (*along_time(pad)[:-1], size)
        x = F.permute(lift(F, input, size, batched[0]), (2, 0, 3, 1))
        images, _, channels, time = x.shape
        w = F.permute(lift(F, weight, size, batched[1]), (0, 3, 2, 1))
        x = F.reshape(x, (images, size * channels, time))
        y = apart(F, size, F.convolution(x, join(F, w), None, *how))
        b = lift(F, bias, size, batched[2])
        return F.permute(y, (0, 3, 1, 2)) + F.reshape(b, (size, 1, 1, b.shape[1]))


def along_time(pad: int) -> tuple[Any, ...]:
    """`how` for one dimension with nothing but padding."""
    return ((1,), (pad,), (1,), False, (0,), 1)
