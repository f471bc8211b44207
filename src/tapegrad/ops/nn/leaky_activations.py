"""Leaky activations: less steep below zero, by a given, random or learned slope."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import dtypes
from ...autograd.inplace import write
from ...core.arguments import cast_value
from ...core.base import TensorBase, quiet, wrap
from ...core.rounding import half_as_single
from ...core.strides import contiguous
from ...core.transforms.batched_random import of_tensors
from ...core.transforms.levels import BATCHES
from ...errors import must_be_tensor
from ..block import LOWER, Autocast, Case, api, apply, op
from ..block.batching import lift, padded
from ..block.checks import not_implemented
from ..block.samples import Draw, Index
from ..draws.generators import place_of, stream_of
from ..draws.streams import unit53
from ..pointwise.branchless import keep, pick
from .piecewise_linear import Corners
from .smooth_activations import Activation, fits_kernel, number_of, real

# ruff: noqa: N805

# ---------------------------------------------------------------------- leaky_relu, rrelu


def leaky(xp: Any, input: Any, slope: float) -> Any:
    x = real(input, "leaky_relu_cpu")
    if 0 < slope <= 1:
        return cast_value(xp.maximum(x, x * slope), input.dtype)
    return cast_value(pick(xp, x > 0, x, x * slope), input.dtype)


def no_negative_slope(slope: float) -> None:
    """The signs of results tell which side they come from only if the slope is positive."""
    if slope < 0:
        raise RuntimeError(
            "In-place leakyReLu backward calculation is triggered with a negative slope which is "
            "not supported. This is caused by calling in-place forward function with a negative "
            "slope, please call out-of-place version instead. File an issue at "
            "https://github.com/pytorch/pytorch if you do require supporting in-place leakRelu "
            "backward calculation with negative slope"
        )


class Leaky(Activation):
    def fwd(xp, input, slope):
        return leaky(xp, input, slope)

    def d_input(F, grad, input, slope):
        return F.leaky_relu_backward(grad, input, slope)


class LeakyWritten(Leaky):
    """In place: the results tell the sides."""

    def d_input(F, grad, out, slope):
        no_negative_slope(slope)
        return F.leaky_relu_backward(grad, out, slope)


@op
class LeakyRelu(Leaky):
    """leaky_relu(input, slope) -> Tensor: the elements, the negative ones times `slope`."""

    aten = "leaky_relu"


@op
class LeakyReluWrite(LeakyWritten):
    """leaky_relu_write(input, slope) -> Tensor: `leaky_relu` in place."""

    node = "LeakyReluBackward1"
    aten = None


@op
class LeakyReluBackward(Corners):
    """leaky_relu_backward(grad_output, input, slope) -> Tensor: the gradient of `leaky_relu`."""

    node = "LeakyReluBackwardBackward0"
    aten = "leaky_relu_backward"
    formula = "where(input > 0, grad_output, grad_output * slope)"

    def fwd(xp, grad_output, input, slope):
        grad = half_as_single(grad_output)
        if 0 <= slope <= 1:
            out = grad * xp.maximum((input > 0).astype(grad.dtype), slope)
        else:
            out = pick(xp, input > 0, grad, grad * slope)
        return cast_value(out, grad_output.dtype)

    def d_grad_output(F, grad, input, slope):
        return F.leaky_relu_backward(grad, input, slope)


@api(
    name="nn.functional.leaky_relu",
    method=False,
    samples=[Case(Draw(3, 4)), Case(Draw()), Case(Draw(3, 2, layout="T"), 0.3), Case(Draw(0, 2))],
)
def leaky_relu(input: Any, negative_slope: Any = 0.01, inplace: bool = False) -> Any:
    """leaky_relu(input, negative_slope=0.01, inplace=False) -> Tensor: `x`, less steep below zero.

    >>> torch.nn.functional.leaky_relu(tensor([-1.0, 2.0]), 0.1)
    tensor([-0.1000,  2.0000])
    """
    slope = number_of(
        "leaky_relu_" if inplace else "leaky_relu", "negative_slope", 2, negative_slope
    )
    fits_kernel(input, slope)
    if inplace:
        return write(LeakyReluWrite, (input,), (slope,))
    return apply(LeakyRelu, (input,), (slope,))


@api(name="nn.functional.leaky_relu_", method=False)
def leaky_relu_(input: Any, negative_slope: Any = 0.01) -> Any:
    """leaky_relu_(input, negative_slope=0.01) -> Tensor: `leaky_relu` in place.

    >>> torch.nn.functional.leaky_relu_(tensor([-1.0, 2.0]), 0.1)
    tensor([-0.1000,  2.0000])
    """
    return leaky_relu(input, negative_slope, True)


class WithNoise(Activation):
    tensors = ("input", "noise")
    plain_tensors = ("noise",)

    def fwd(xp, input, noise):
        return cast_value(
            contiguous(xp, half_as_single(input)) * half_as_single(noise), input.dtype
        )

    def d_input(F, grad, noise):
        return F.rrelu_with_noise_backward(grad, noise)


@op
class RreluWithNoise(WithNoise):
    """rrelu_with_noise(input, noise) -> Tensor: every element times a slope of its own."""

    aten = "rrelu_with_noise"


@op
class RreluWithNoiseWrite(WithNoise):
    """rrelu_with_noise_write(input, noise) -> Tensor: `rrelu_with_noise` in place."""

    node = "RreluWithNoiseBackward1"
    aten = None


@op
class RreluWithNoiseBackward(Activation):
    """rrelu_with_noise_backward(grad_output, noise) -> Tensor: the gradient, which is linear."""

    node = "RreluWithNoiseBackwardBackward0"
    aten = "rrelu_with_noise_backward"
    tensors = ("grad_output", "noise")
    plain_tensors = ("noise",)

    def fwd(xp, grad_output, noise):
        return cast_value(half_as_single(grad_output) * half_as_single(noise), grad_output.dtype)

    def d_grad_output(F, grad, noise):
        return F.rrelu_with_noise_backward(grad, noise)


@op
class RreluOnAverage(Leaky):
    """rrelu_on_average(input, slope) -> Tensor: `rrelu` after training, one slope for all."""

    node = "RreluWithNoiseBackward0"
    aten = None

    def fwd(xp, input, slope):
        return leaky(xp, contiguous(xp, input), slope)


@op
class RreluOnAverageWrite(LeakyWritten):
    """rrelu_on_average_write(input, slope) -> Tensor: `rrelu_on_average` in place."""

    node = "RreluWithNoiseBackward1"
    aten = None

    def fwd(xp, input, slope):
        return leaky(xp, contiguous(xp, input), slope)


def draw_slopes(input: Any, lower: float, upper: float, generator: Any) -> Any:
    """Slopes for the elements that are not positive, drawn in their order; one for the others."""
    dtype = input._array.dtype
    place = place_of(input)
    if place is not None:
        return slopes_on_device(input, lower, upper, stream_of(generator, "rrelu", place))
    if dtype.kind not in "fV" or dtype.itemsize == 2 and dtype.kind == "f":
        raise not_implemented("rrelu_with_noise_out_cpu", dtypes.of(dtype))
    stream = stream_of(generator, "rrelu")

    def draw(t: Any) -> Any:
        x = t._array
        below = np.asarray(quiet(np.less_equal, x, 0))
        slopes = np.ones(x.shape, dtype)
        drawn = unit53(stream, int(np.count_nonzero(below)))
        slopes[below] = (drawn * (upper - lower) + lower).astype(dtype)
        return wrap(slopes)

    return of_tensors(draw, input) if BATCHES else draw(input)


def slopes_on_device(input: Any, lower: float, upper: float, stream: Any) -> Any:
    """Every element draws there, and those that are positive have one: the GPU does not count."""
    kind = dtypes.of(input._array.dtype)
    if not kind.is_floating_point:
        raise not_implemented("rrelu_with_noise_out_cuda", kind)

    def draw(t: Any) -> Any:
        return wrap(stream.home.slopes(stream, t._array, lower, upper))

    return of_tensors(draw, input) if BATCHES else draw(input)


def random_leaky(
    input: Any, lower: Any, upper: Any, training: bool, generator: Any, inplace: bool
) -> Any:
    name = "rrelu_" if inplace else "rrelu"
    if not isinstance(input, TensorBase):
        raise must_be_tensor(name, "input", 1, input)
    low, high = number_of(name, "lower", 2, lower), number_of(name, "upper", 3, upper)
    for side, bound in (("lower", low), ("upper", high)):
        if not math.isfinite(bound):
            raise RuntimeError(f"rrelu: {side} bound must be finite, got {bound:g}")
    if low > high:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")
    if training:
        noise = draw_slopes(input, low, high, generator)
        if inplace:
            return write(RreluWithNoiseWrite, (input, noise))
        return apply(RreluWithNoise, (input, noise))
    slope = (low + high) / 2
    if inplace:
        return write(RreluOnAverageWrite, (input,), (slope,))
    return apply(RreluOnAverage, (input,), (slope,))


RRELU_CASES = [Case(Draw(3, 4)), Case(Draw(3, 4), 0.1, 0.3, True), Case(Draw(3, 2, layout="T"))]


@api(method=False, samples=RRELU_CASES)
def rrelu(
    input: Any,
    lower: Any = 1.0 / 8,
    upper: Any = 1.0 / 3,
    training: bool = False,
    generator: Any = None,
) -> Any:
    """rrelu(input, lower=1/8, upper=1/3, training=False) -> Tensor: `leaky_relu` with slopes drawn
    at random in training.

    >>> rrelu(tensor([-1.0, 2.0]), 0.1, 0.3)
    tensor([-0.2000,  2.0000])
    """
    return random_leaky(input, lower, upper, training, generator, False)


@api(method=False)
def rrelu_(
    input: Any,
    lower: Any = 1.0 / 8,
    upper: Any = 1.0 / 3,
    training: bool = False,
    generator: Any = None,
) -> Any:
    """rrelu_(input, lower=1/8, upper=1/3, training=False) -> Tensor: `rrelu` in place.

    >>> rrelu_(tensor([-1.0, 2.0]), 0.1, 0.3)
    tensor([-0.2000,  2.0000])
    """
    return random_leaky(input, lower, upper, training, generator, True)


@api(name="nn.functional.rrelu", method=False, samples=RRELU_CASES)
def functional_rrelu(
    input: Any,
    lower: Any = 1.0 / 8,
    upper: Any = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Any:
    """rrelu(input, lower=1/8, upper=1/3, training=False, inplace=False) -> Tensor: `leaky_relu`
    with slopes drawn at random in training.

    >>> torch.nn.functional.rrelu(tensor([-1.0, 2.0]), 0.1, 0.3)
    tensor([-0.2000,  2.0000])
    """
    return random_leaky(input, lower, upper, training, None, bool(inplace))


@api(name="nn.functional.rrelu_", method=False)
def functional_rrelu_(
    input: Any, lower: Any = 1.0 / 8, upper: Any = 1.0 / 3, training: bool = False
) -> Any:
    """rrelu_(input, lower=1/8, upper=1/3, training=False) -> Tensor: `rrelu` in place.

    >>> torch.nn.functional.rrelu_(tensor([-1.0, 2.0]), 0.1, 0.3)
    tensor([-0.2000,  2.0000])
    """
    return random_leaky(input, lower, upper, training, None, True)


# ---------------------------------------------------------------------- prelu


@op
class PreluKernel(Activation):
    """prelu_kernel(input, weight) -> Tensor: `leaky_relu` with learned slopes."""

    aten = "_prelu_kernel"
    tensors = ("input", "weight")

    def fwd(xp, input, weight):
        x, w = real(input, "prelu_cpu"), half_as_single(weight)
        return cast_value(pick(xp, x > 0, x, x * w), input.dtype)

    def backward(F, grad, needs, input, weight):
        return F.prelu_kernel_backward(grad, input, weight)

    def jvp(F, input, t_input, weight, t_weight):
        total = None
        if t_input is not None:
            total = F.where(input > 0, t_input, t_input * weight)
        if t_weight is None:
            return total
        part = F.where(input > 0, 0, input * t_weight)
        return part if total is None else total + part


@op
class PreluKernelBackward(Activation):
    """prelu_kernel_backward(grad_output, input, weight) -> (Tensor, Tensor): both gradients."""

    node = "PreluKernelBackwardBackward0"
    aten = "_prelu_kernel_backward"
    tensors = ("grad_output", "input", "weight")
    outs = ("grad_input", "grad_weight")

    def fwd(xp, grad_output, input, weight):
        grad, x, w = half_as_single(grad_output), half_as_single(input), half_as_single(weight)
        up = x > 0
        to_input = pick(xp, up, grad, grad * w)
        to_weight = keep(xp, ~up, x * grad)
        return cast_value(to_input, grad_output.dtype), cast_value(to_weight, grad_output.dtype)

    def backward(F, grad, needs, grad_output, input, weight):
        first, second = grad
        up = input > 0
        to_grad = F.where(up, first, first * weight + second * input)
        return to_grad, F.where(up, 0, second * grad_output), F.where(up, 0, first * grad_output)

    def jvp(F, grad_output, t_grad_output, input, t_input, weight, t_weight):
        up = input > 0
        zero = F.zeros_like(grad_output)
        t_grad = zero if t_grad_output is None else t_grad_output
        by_weight = zero if t_weight is None else grad_output * t_weight
        by_input = zero if t_input is None else grad_output * t_input
        first = F.where(up, t_grad, t_grad * weight + by_weight)
        return first, F.where(up, 0, t_grad * input + by_input)

    def batch(F, size, batched, grad_output, input, weight):
        # Both results depend on the gradient, so it carries the batch.
        grad = lift(F, grad_output, size, batched[0])
        rank = len(grad.shape)
        x, w = [
            padded(F, t, 1, rank) if b else t
            for t, b in zip((input, weight), batched[1:], strict=True)
        ]
        return F.prelu_kernel_backward(grad, x, w)


@api(
    aliases=("nn.functional.prelu",),
    samples=[
        Case(Draw(3, 4), Index([0.3])),
        Case(Draw(3, 4), Draw(4)),
        Case(Draw(2, 3, 2, layout="T"), Draw(3)),
        Case(Draw(5), Draw()),
    ],
    autocast=Autocast(cpu=LOWER, gpu=LOWER),
)
def prelu(input: Any, weight: Any) -> Any:
    """prelu(input, weight) -> Tensor: `weight * x` below zero, with one weight or one per channel.

    >>> prelu(tensor([-1.0, 2.0]), tensor([0.25]))
    tensor([-0.2500,  2.0000])
    """
    for position, (name, value) in enumerate((("input", input), ("weight", weight)), 1):
        if not isinstance(value, TensorBase):
            raise must_be_tensor("prelu", name, position, value)
    x, w = input._array, weight._array
    if x.dtype != w.dtype:
        raise RuntimeError(
            f"prelu: Type promoting not supported. Got {input.dtype.scalar_type} and "
            f"{weight.dtype.scalar_type}"
        )
    if w.size != 1:
        if not x.ndim:
            raise RuntimeError("Not allow zero-dim input tensor.")
        channels = x.shape[1] if x.ndim > 1 else 1
        if channels != w.size:
            raise RuntimeError(
                "Mismatch of parameter numbers and input channel size. Found parameter numbers = "
                f"{w.size} and channel size = {channels}."
            )
    if w.ndim > 1:
        raise RuntimeError(
            f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {w.ndim}"
        )
    if w.ndim != x.ndim:
        weight = weight.view([w.size if i == 1 else 1 for i in range(x.ndim)])
    return apply(PreluKernel, (input, weight))
