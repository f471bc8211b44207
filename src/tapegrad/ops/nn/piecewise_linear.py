"""Activations with corners: hard ones, shrinkages, thresholds; and glu."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import dtypes
from ...autograd.inplace import write
from ...core.arguments import cast_value, wrap_dim
from ...core.base import TensorBase
from ...core.rounding import half_as_single
from ...errors import must_be_tensor
from ..block import Block, Case, api, apply, op
from ..block.checks import OUT_FOUND, as_scalar, as_stored, not_implemented, refuse_overflow
from ..block.samples import Draw, unary_cases
from ..pointwise.branchless import keep, pick
from .smooth_activations import Activation, Slope, fits_kernel, logistic, number_of, real

# ruff: noqa: N805


class Corners(Slope):
    """The slope of a function made of straight pieces: it does not change with the input."""

    def d_input(F, grad):
        return F.zeros_like(grad)


# ---------------------------------------------------------------------- hardtanh, relu6


def limits(input: Any, low: Any, high: Any) -> tuple[Any, Any]:
    """The bounds as the dtype of `input` has them."""
    kind = input.dtype.kind
    if kind == "b":
        raise RuntimeError("Bool inputs not supported for hardtanh")
    if kind in "iu":
        low, high = int(low), int(high)
        if kind == "u" and (low < 0 or high < 0):
            raise RuntimeError("cannot do hardtanh on an unsigned type with negative limits")
    if kind == "c":
        raise NotImplementedError("clamp is not supported for complex types")
    return as_scalar(input.dtype, low), as_scalar(input.dtype, high)


def refuse_infinite(input: Any, *numbers: Any) -> None:
    """Refuse numbers that the dtype of `input` cannot hold."""
    if isinstance(input, TensorBase) and input._array.dtype.kind in "fViu":
        refuse_overflow(numbers, input)


@op
class Hardtanh(Activation):
    """hardtanh(input, low, high) -> Tensor: the elements, or the bound that they exceed."""

    aten = "hardtanh"

    def fwd(xp, input, low, high):
        low, high = limits(input, low, high)
        out = xp.asarray(xp.maximum(input, low))
        return xp.minimum(out, high, out=out)

    def d_input(F, grad, input, low, high):
        return F.hardtanh_backward(grad, input, low, high)


@op
class HardtanhBackward(Corners):
    """hardtanh_backward(grad_output, input, low, high) -> Tensor: the gradient between bounds."""

    node = "HardtanhBackwardBackward0"
    aten = "hardtanh_backward"
    formula = "where((input > low) & (input < high), grad_output, 0)"

    def fwd(xp, grad_output, input, low, high):
        return keep(xp, ~((input <= low) | (input >= high)), grad_output)

    def d_grad_output(F, grad, input, low, high):
        return F.hardtanh_backward(grad, input, low, high)


@api(
    name="nn.functional.hardtanh",
    method=False,
    samples=[Case(Draw(3, 4)), Case(Draw(3, 2, layout="T"), -0.5, 0.7), Case(Draw(0, 2))],
)
def hardtanh(input: Any, min_val: Any = -1.0, max_val: Any = 1.0, inplace: bool = False) -> Any:
    """hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False) -> Tensor: each element limited to
    [min_val, max_val].

    >>> torch.nn.functional.hardtanh(tensor([-2.0, 0.5, 3.0]))
    tensor([-1.0000,  0.5000,  1.0000])
    """
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    name = "hardtanh_" if inplace else "hardtanh"
    attrs = (number_of(name, "min_val", 2, min_val), number_of(name, "max_val", 3, max_val))
    refuse_infinite(input, *attrs)
    return (write if inplace else apply)(Hardtanh, (input,), attrs)


@api(name="nn.functional.hardtanh_", method=False)
def hardtanh_(input: Any, min_val: Any = -1.0, max_val: Any = 1.0) -> Any:
    """hardtanh_(input, min_val=-1.0, max_val=1.0) -> Tensor: `hardtanh` in place.

    >>> torch.nn.functional.hardtanh_(tensor([-2.0, 0.5]))
    tensor([-1.0000,  0.5000])
    """
    return hardtanh(input, min_val, max_val, True)


@api(name="nn.functional.relu6", method=False, samples=unary_cases(-2.0, 8.0))
def relu6(input: Any, inplace: bool = False) -> Any:
    """relu6(input, inplace=False) -> Tensor: the positive part, at most six.

    >>> torch.nn.functional.relu6(tensor([-2.0, 0.5, 7.0]))
    tensor([0.0000, 0.5000, 6.0000])
    """
    if not isinstance(input, TensorBase):
        raise must_be_tensor("relu6", "input", 1, input)
    return (write if inplace else apply)(Hardtanh, (input,), (0, 6))


# ---------------------------------------------------------------------- hardsigmoid, hardswish


def ramp(xp: Any, x: Any) -> Any:
    """`x + 3`, from zero to six."""
    out = xp.asarray(x + 3)
    xp.maximum(out, 0, out=out)
    return xp.minimum(out, 6, out=out)


@op
class Hardsigmoid(Activation):
    """hardsigmoid(input) -> Tensor: a sigmoid of three straight pieces."""

    aten = "hardsigmoid"

    def fwd(xp, input):
        x = real(input, "hardsigmoid_cpu")
        return cast_value(ramp(xp, x) / 6, input.dtype)

    def d_input(F, grad, input):
        return F.hardsigmoid_backward(grad, input)


SIXTH = float(np.float32(1 / 6))  # PyTorch has it in single precision


@op
class HardsigmoidBackward(Corners):
    """hardsigmoid_backward(grad_output, input) -> Tensor: the gradient of `hardsigmoid`."""

    node = "HardsigmoidBackwardBackward0"
    aten = "hardsigmoid_backward"

    def fwd(xp, grad_output, input):
        inside = (input > -3) & (input < 3)
        return cast_value(keep(xp, inside, half_as_single(grad_output) * SIXTH), grad_output.dtype)

    def d_grad_output(F, grad, input):
        return F.hardsigmoid_backward(grad, input)


@api(name="nn.functional.hardsigmoid", method=False, samples=unary_cases(-4.0, 4.0))
def hardsigmoid(input: Any, inplace: bool = False) -> Any:
    """hardsigmoid(input, inplace=False) -> Tensor: `relu6(x + 3) / 6`.

    >>> torch.nn.functional.hardsigmoid(tensor([-4.0, 0.0, 1.5]))
    tensor([0.0000, 0.5000, 0.7500])
    """
    return (write if inplace else apply)(Hardsigmoid, (input,))


@op
class Hardswish(Activation):
    """hardswish(input) -> Tensor: `x * hardsigmoid(x)`."""

    aten = "hardswish"
    onnx = "HardSwish"

    def fwd(xp, input):
        x = real(input, "hardswish_cpu")
        out = ramp(xp, x)
        out *= x
        out /= 6
        return cast_value(out, input.dtype)

    def d_input(F, grad, input):
        return F.hardswish_backward(grad, input)


@op
class HardswishBackward(Slope):
    """hardswish_backward(grad_output, input) -> Tensor: the gradient of `hardswish`."""

    node = "HardswishBackwardBackward0"
    aten = "hardswish_backward"

    def fwd(xp, grad_output, input):
        grad, x = half_as_single(grad_output), half_as_single(input)
        slope = pick(xp, x < 3, grad * (x / 3 + 0.5), grad)
        return cast_value(keep(xp, ~(x <= -3), slope), grad_output.dtype)

    def d_grad_output(F, grad, input):
        return F.hardswish_backward(grad, input)

    def d_input(F, grad, grad_output, input):
        return F.where((input > -3) & (input < 3), grad * grad_output / 3, 0)


@api(name="nn.functional.hardswish", method=False, samples=unary_cases(-4.0, 4.0))
def hardswish(input: Any, inplace: bool = False) -> Any:
    """hardswish(input, inplace=False) -> Tensor: `x * relu6(x + 3) / 6`.

    >>> torch.nn.functional.hardswish(tensor([-4.0, 0.0, 1.5]))
    tensor([-0.0000, 0.0000, 1.1250])
    """
    return (write if inplace else apply)(Hardswish, (input,))


# ---------------------------------------------------------------------- shrinkages


@op
class Hardshrink(Activation):
    """hardshrink(input, lambd) -> Tensor: the elements, zero for the small ones."""

    aten = "hardshrink"

    def fwd(xp, input, lambd):
        real(input, "hardshrink_cpu")
        if input.dtype.itemsize == 2:
            x, limit = half_as_single(input), float(input.dtype.type(lambd))
            return keep(xp, ~((x >= -limit) & (x <= limit)), input)
        return keep(xp, ~((input >= -lambd) & (input <= lambd)), input)

    def d_input(F, grad, input, lambd):
        return F.shrink_backward(grad, input, lambd)


@op
class Softshrink(Activation):
    """softshrink(input, lambd) -> Tensor: the elements moved towards zero."""

    aten = "softshrink"

    def fwd(xp, input, lambd):
        x = half_as_single(input)
        # What is left after cutting off the small part; zeros keep the sign of the element.
        rest = x - xp.maximum(xp.minimum(x, lambd), -lambd)
        return cast_value(xp.copysign(rest, x), input.dtype)

    def d_input(F, grad, input, lambd):
        return F.softshrink_backward(grad, input, lambd)


class Shrinking(Corners):
    """Where the elements were small there is no slope."""

    def fwd(xp, grad_output, input, lambd):
        lambd = as_stored(input, lambd)
        return keep(xp, ~((input >= -lambd) & (input <= lambd)), grad_output)


@op
class ShrinkBackward(Shrinking):
    """shrink_backward(grad_output, input, lambd) -> Tensor: the gradient of `hardshrink`."""

    node = "HardshrinkBackwardBackward0"
    aten = None

    def d_grad_output(F, grad, input, lambd):
        return F.shrink_backward(grad, input, lambd)


@op
class SoftshrinkBackward(Shrinking):
    """softshrink_backward(grad_output, input, lambd) -> Tensor: the gradient of `softshrink`."""

    node = "SoftshrinkBackwardBackward0"
    aten = "softshrink_backward"

    def d_grad_output(F, grad, input, lambd):
        return F.softshrink_backward(grad, input, lambd)


SHRINK_CASES = [Case(Draw(3, 4)), Case(Draw()), Case(Draw(3, 2, layout="T"), 0.7), Case(Draw(0, 2))]


@api(
    aliases=("nn.functional.hardshrink",),
    samples=SHRINK_CASES,
    functional_out=True,
    out_dtype=OUT_FOUND,
)
def hardshrink(input: Any, lambd: Any = 0.5) -> Any:
    """hardshrink(input, lambd=0.5) -> Tensor: zero for elements in [-lambd, lambd].

    >>> hardshrink(tensor([-2.0, 0.3, 0.6]))
    tensor([-2.0000,  0.0000,  0.6000])
    """
    width = number_of("hardshrink", "lambd", 2, lambd)
    refuse_infinite(input, width)
    return apply(Hardshrink, (input,), (width,))


@api(
    name="nn.functional.softshrink",
    method=False,
    samples=SHRINK_CASES,
    functional_out=True,
    out_dtype=OUT_FOUND,
)
def softshrink(input: Any, lambd: Any = 0.5) -> Any:
    """softshrink(input, lambd=0.5) -> Tensor: elements moved towards zero by `lambd`, not past it.

    >>> torch.nn.functional.softshrink(tensor([-2.0, 0.3, 0.6]))
    tensor([-1.5000,  0.0000,  0.1000])
    """
    width = number_of("softshrink", "lambd", 2, lambd)
    if not isinstance(input, TensorBase):
        raise must_be_tensor("softshrink", "input", 1, input)
    dtype = input.dtype
    if not dtype.is_floating_point:
        raise not_implemented("softshrink_check", dtype)
    most = dtypes.finfo(dtype).max
    if not 0 <= width <= most:
        raise RuntimeError(
            f"lambda must be in range [0, {most:g}] for input dtype {dtype.scalar_type}, "
            f"but found {width:g}"
        )
    return apply(Softshrink, (input,), (width,))


@api(name="nn.functional.tanhshrink", method=False, samples=unary_cases())
def tanhshrink(input: Any) -> Any:
    """tanhshrink(input) -> Tensor: `x - tanh(x)`.

    >>> torch.nn.functional.tanhshrink(tensor([0.0, 1.0]))
    tensor([0.0000, 0.2384])
    """
    return input - input.tanh()


@api(name="nn.functional.softsign", method=False, samples=unary_cases())
def softsign(input: Any) -> Any:
    """softsign(input) -> Tensor: `x / (1 + |x|)`.

    >>> torch.nn.functional.softsign(tensor([-1.0, 3.0]))
    tensor([-0.5000,  0.7500])
    """
    return input / (input.abs() + 1)


# ---------------------------------------------------------------------- threshold


def above(xp: Any, input: Any, threshold: Any, value: Any) -> Any:
    if input.dtype.kind in "bc":
        raise not_implemented("threshold_cpu", dtypes.of(input.dtype))
    if input.dtype.kind in "iu":
        low = input <= cast_value(threshold, input.dtype)
        return pick(xp, low, xp.full_like(input, value), input)
    low = half_as_single(input) <= threshold
    return pick(xp, low, xp.full_like(input, value), input) if value else keep(xp, ~low, input)


class AboveThreshold(Activation):
    """A value for what is not above a threshold."""

    def fwd(xp, input, threshold, value):
        return above(xp, input, threshold, value)

    def d_input(F, grad, input, threshold):
        return F.threshold_backward(grad, input, threshold)


@op
class Threshold(AboveThreshold):
    """threshold(input, threshold, value) -> Tensor: a value for what is not above a threshold."""

    aten = "threshold"
    keeps_finite = True


@op
class ThresholdWrite(AboveThreshold):
    """threshold_write(input, threshold, value) -> Tensor: `threshold` in place."""

    node = "ThresholdBackward1"
    aten = None


@op
class ThresholdBackward(Corners):
    """threshold_backward(grad_output, input, threshold) -> Tensor: the gradient of `threshold`."""

    node = "ThresholdBackwardBackward0"
    aten = "threshold_backward"
    formula = "where(input <= threshold, 0, grad_output)"

    def fwd(xp, grad_output, input, threshold):
        return keep(xp, ~(input <= threshold), grad_output)

    def d_grad_output(F, grad, input, threshold):
        return F.threshold_backward(grad, input, threshold)


THRESHOLD_CASES = [Case(Draw(3, 4), 0.1, 5.0), Case(Draw(3, 2, layout="T"), -0.5, -0.2)]


def threshold_attributes(function: str, input: Any, threshold: Any, value: Any) -> tuple[Any, Any]:
    """The threshold and the value, as numbers that the kernel holds."""
    given = number_of(function, "threshold", 2, threshold), number_of(function, "value", 3, value)
    if isinstance(input, TensorBase) and input._array.dtype.kind in "iu":
        refuse_overflow(given, input)
    fits_kernel(input, *given)
    return given


@api(method=False, samples=THRESHOLD_CASES)
def threshold(input: Any, threshold: Any, value: Any) -> Any:
    """threshold(input, threshold, value) -> Tensor: `x` above the threshold, else `value`.

    >>> torch.threshold(tensor([0.5, 2.0]), 1.0, -1.0)
    tensor([-1.,  2.])
    """
    attrs = threshold_attributes("threshold", input, threshold, value)
    return apply(Threshold, (input,), attrs)


@api(method=False)
def threshold_(input: Any, threshold: Any, value: Any) -> Any:
    """threshold_(input, threshold, value) -> Tensor: `threshold` in place.

    >>> torch.threshold_(tensor([0.5, 2.0]), 1.0, -1.0)
    tensor([-1.,  2.])
    """
    attrs = threshold_attributes("threshold_", input, threshold, value)
    return write(ThresholdWrite, (input,), attrs)


@api(name="nn.functional.threshold", method=False, samples=THRESHOLD_CASES)
def functional_threshold(input: Any, threshold: Any, value: Any, inplace: bool = False) -> Any:
    """threshold(input, threshold, value, inplace=False) -> Tensor: `x` above the threshold.

    >>> torch.nn.functional.threshold(tensor([0.5, 2.0]), 1.0, -1.0)
    tensor([-1.,  2.])
    """
    if inplace:
        return threshold_(input, threshold, value)
    attrs = threshold_attributes("threshold", input, threshold, value)
    return apply(Threshold, (input,), attrs)


@api(name="nn.functional.threshold_", method=False)
def functional_threshold_(input: Any, threshold: Any, value: Any) -> Any:
    """threshold_(input, threshold, value) -> Tensor: `threshold` in place.

    >>> torch.nn.functional.threshold_(tensor([0.5, 2.0]), 1.0, -1.0)
    tensor([-1.,  2.])
    """
    return threshold_(input, threshold, value)


# ---------------------------------------------------------------------- glu


def halves(F: Any, x: Any, dim: int) -> tuple[Any, Any]:
    size = x.shape[dim] // 2
    return F.narrow(x, dim, 0, size), F.narrow(x, dim, size, size)


def cut(x: Any, dim: int) -> tuple[Any, Any]:
    """The two halves of an array."""
    before = (slice(None),) * dim
    size = x.shape[dim] // 2
    return x[(*before, slice(size))], x[(*before, slice(size, None))]


def gated(xp: Any, a: Any, b: Any) -> Any:
    return a * logistic(xp, b)


def gate_slopes(xp: Any, grad: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """The gradients of both halves."""
    s = logistic(xp, b)
    along = grad * s
    return along, along * (1 - s) * a


@op
class Glu(Block):
    """glu(input, dim) -> Tensor: one half times the sigmoid of the other."""

    aten = "glu"
    public = False
    dims = ("dim",)

    def fwd(xp, input, dim):
        a, b = cut(real(input, "glu_cpu"), dim)
        return cast_value(gated(xp, a, b), input.dtype)

    def d_input(F, grad, input, dim):
        return F.glu_backward(grad, input, dim)

    def jvp(F, input, t_input, dim):
        a, b = halves(F, input, dim)
        t_a, t_b = halves(F, t_input, dim)
        s = F.sigmoid(b)
        return t_a * s + a * (s * (1 - s)) * t_b


@op
class GluBackward(Block):
    """glu_backward(grad_output, input, dim) -> Tensor: the gradient of `glu`."""

    node = "GluBackwardBackward0"
    aten = "glu_backward"
    tensors = ("grad_output", "input")
    public = False
    dims = ("dim",)

    def fwd(xp, grad_output, input, dim):
        grad = half_as_single(grad_output)
        a, b = cut(half_as_single(input), dim)
        out = xp.empty(input.shape, grad_output.dtype)
        first, second = cut(out, dim)
        first[...], second[...] = gate_slopes(xp, grad, a, b)
        return out

    def d_grad_output(F, grad, input, dim):
        a, b = halves(F, input, dim)
        first, second = halves(F, grad, dim)
        s = F.sigmoid(b)
        return first * s + second * (a * (s * (1 - s)))

    def d_input(F, grad, grad_output, input, dim):
        return glu_bend(F, grad, grad_output, input, dim)

    def jvp(F, grad_output, t_grad_output, input, t_input, dim):
        # As a function of the input this is a gradient, so its Jacobian is symmetric.
        total = None if t_input is None else glu_bend(F, t_input, grad_output, input, dim)
        if t_grad_output is None:
            return total
        part = F.glu_backward(t_grad_output, input, dim)
        return part if total is None else total + part


def glu_bend(F: Any, way: Any, grad_output: Any, input: Any, dim: int) -> Any:
    """The second derivative of `glu`, weighted by `grad_output`, times `way`."""
    a, b = halves(F, input, dim)
    first, second = halves(F, way, dim)
    s = F.sigmoid(b)
    slope = grad_output * (s * (1 - s))
    return F.cat([second * slope, first * slope + second * (slope * a * (1 - 2 * s))], dim)


@api(
    name="nn.functional.glu",
    method=False,
    samples=[Case(Draw(3, 4)), Case(Draw(4, 3), 0), Case(Draw(2, 4, 3, layout="T"), 1)],
)
def glu(input: Any, dim: int = -1) -> Any:
    """glu(input, dim=-1) -> Tensor: the first half along `dim` times the sigmoid of the second.

    >>> torch.nn.functional.glu(tensor([1.0, 2.0, 0.0, 0.0]))
    tensor([0.5000, 1.0000])
    """
    shape = input._array.shape
    if not shape:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    place = wrap_dim(dim, len(shape))
    if shape[place] % 2:
        raise RuntimeError(
            f"Halving dimension must be even, but dimension {place} is size {shape[place]}"
        )
    return apply(Glu, (input,), (place,))
