"""Smooth activations: elu and its relatives, gelu, silu, mish, softplus, logsigmoid."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import dtypes
from ...autograd.inplace import write
from ...core.arguments import cast_value
from ...core.base import TensorBase
from ...core.python_dispatch import read_values
from ...core.rounding import half_as_single
from ...core.strides import contiguous
from ..block import AS_IS, SINGLE, Autocast, Case, Elementwise, api, apply, op
from ..block.checks import OUT_FOUND, is_number, not_implemented, refuse_overflow, refuse_too_big
from ..block.samples import Draw, unary_cases
from ..pointwise.branchless import pick
from ..special.kernels import pointwise
from ..special.kernels_error import erf

# ruff: noqa: N805

SINGLE_ARRAY = np.empty(0, np.float32)


class Activation(Elementwise):
    """One float tensor in its own dtype; half precision is computed in single and rounded once."""

    dtype = AS_IS
    public = False
    inplace = False


class Slope(Activation):
    """The gradient of an activation as an op: elementwise in the gradient and a saved tensor."""

    tensors = ("grad_output", "input")


def real(x: Any, kernel: str) -> Any:
    """`x` in the dtype to compute in; only real floats have the kernel."""
    if x.dtype.kind not in "fV":
        raise not_implemented(kernel, dtypes.of(x.dtype))
    return half_as_single(x)


def number_of(function: str, argument: str, position: int, value: Any, kind: str = "Number") -> Any:
    """A Python number; 0-d tensors stand for theirs."""
    if type(value) is float:
        return value
    if type(value) is int:
        if kind == "Number":
            refuse_too_big(value)
        return value
    if isinstance(value, TensorBase) and not value._array.ndim and not value._wants_grad:
        return read_values(value).item()
    if not is_number(value):
        raise TypeError(
            f"{function}(): argument '{argument}' (position {position}) must be {kind}, "
            f"not {type(value).__name__}"
        )
    return value


def fits_kernel(input: Any, *numbers: Any) -> None:
    """Refuse numbers beyond the precision of a kernel: single where the input has half of it."""
    if isinstance(input, TensorBase) and input._array.dtype.kind in "fV":
        refuse_overflow(numbers, input if input._array.dtype.itemsize > 2 else SINGLE_ARRAY)


def logistic(xp: Any, x: Any) -> Any:
    """1 / (1 + exp(-x)), in as few arrays as can be."""
    out = xp.exp(-x)
    if not out.ndim:
        return 1 / (1 + out)
    xp.add(out, 1, out)
    return xp.reciprocal(out, out)


# ---------------------------------------------------------------------- elu, celu, selu

SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946


def elu_values(xp: Any, input: Any, alpha: float, scale: float, input_scale: float) -> Any:
    x = real(input, "elu_cpu")
    # Not the sum of both sides: an infinite alpha times the zero of the other side would be NaN.
    bent = xp.expm1(xp.minimum(x, 0) * input_scale) * (alpha * scale)
    return cast_value(pick(xp, x < 0, bent, x * scale), input.dtype)


def refuse_negative(alpha: float) -> None:
    """The signs of results tell which side they come from only if `alpha` is positive."""
    if alpha < 0:
        raise RuntimeError(
            "In-place elu backward calculation is triggered with a negative slope which is not "
            "supported. This is caused by calling in-place forward function with a negative "
            "slope, please call out-of-place version instead."
        )


def rounded_alpha(alpha: float) -> float:
    """PyTorch's gradients of celu take `alpha` in single precision."""
    return float(np.float32(alpha))


class EluFamily(Activation):
    """Exponential below zero, linear above."""

    def fwd(xp, input, alpha, scale, input_scale):
        return elu_values(xp, input, alpha, scale, input_scale)

    def d_input(F, grad, input, alpha, scale, input_scale):
        return F.elu_backward(grad, input, alpha, scale, input_scale, False)


class EluWritten(Activation):
    """In place only the result is left to work out the slope from."""

    def fwd(xp, input, alpha, scale, input_scale):
        return elu_values(xp, input, alpha, scale, input_scale)

    def d_input(F, grad, out, alpha, scale, input_scale):
        refuse_negative(alpha)
        return F.elu_backward(grad, out, alpha, scale, input_scale, True)


@op
class Elu(EluFamily):
    """elu(input, alpha, scale, input_scale) -> Tensor: exponential below zero."""

    aten = "elu"


@op
class EluWrite(EluWritten):
    """elu_write(input, alpha, scale, input_scale) -> Tensor: `elu` in place."""

    node = "EluBackward1"
    aten = None


@op
class Celu(EluFamily):
    """celu(input, alpha, scale, input_scale) -> Tensor: `elu` without a kink."""

    aten = "celu"

    def d_input(F, grad, input, alpha):
        return F.elu_backward(grad, input, alpha, 1.0, 1 / rounded_alpha(alpha), False)


@op
class CeluWrite(EluWritten):
    """celu_write(input, alpha, scale, input_scale) -> Tensor: `celu` in place."""

    node = "CeluBackward1"
    aten = None

    def d_input(F, grad, out, alpha):
        refuse_negative(alpha)
        return F.elu_backward(grad, out, alpha, 1.0, 1 / rounded_alpha(alpha), True)


@op
class EluBackward(Slope):
    """elu_backward(grad_output, input, alpha, scale, input_scale, is_result) -> Tensor."""

    node = "EluBackwardBackward0"
    aten = "elu_backward"
    formula = "where(input > 0, grad_output, grad_output * alpha * exp(input))"

    def fwd(xp, grad_output, input, alpha, scale, input_scale, is_result):
        grad, x = half_as_single(grad_output), half_as_single(input)
        factor = alpha * scale
        bent = x + factor if is_result else factor * xp.exp(xp.minimum(x, 0) * input_scale)
        return cast_value(
            pick(xp, x <= 0, grad * (bent * input_scale), grad * scale), grad_output.dtype
        )

    def d_grad_output(F, grad, input, alpha, scale, input_scale, is_result):
        return F.elu_backward(grad, input, alpha, scale, input_scale, is_result)

    def d_input(F, grad, grad_output, input, alpha, scale, input_scale, is_result):
        both = grad * grad_output
        if not is_result:
            both = F.elu_backward(both, input, alpha, scale, input_scale, False)
        return F.where(input < 0, both * input_scale, 0)


@api(
    name="nn.functional.elu",
    method=False,
    samples=[Case(Draw(3, 4)), Case(Draw()), Case(Draw(3, 2, layout="T"), 0.7), Case(Draw(0, 2))],
)
def elu(input: Any, alpha: Any = 1.0, inplace: bool = False) -> Any:
    """elu(input, alpha=1.0, inplace=False) -> Tensor: `alpha * (exp(x) - 1)` below zero, else `x`.

    >>> torch.nn.functional.elu(tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """
    attrs = (number_of("elu_" if inplace else "elu", "alpha", 2, alpha), 1.0, 1.0)
    fits_kernel(input, attrs[0])
    return write(EluWrite, (input,), attrs) if inplace else apply(Elu, (input,), attrs)


@api(name="nn.functional.elu_", method=False)
def elu_(input: Any, alpha: Any = 1.0) -> Any:
    """elu_(input, alpha=1.0) -> Tensor: `elu` in place.

    >>> torch.nn.functional.elu_(tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """
    return elu(input, alpha, True)


def celu_attributes(input: Any, alpha: Any, function: str) -> tuple[Any, ...]:
    value = number_of(function, "alpha", 2, alpha)
    if value == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    inverse = 1.0 / value
    fits_kernel(input, value, inverse)
    return value, 1.0, inverse


@api(method=False, samples=[Case(Draw(3, 4)), Case(Draw(3, 2, layout="T"), 0.7), Case(Draw())])
def celu(input: Any, alpha: Any = 1.0) -> Any:
    """celu(input, alpha=1.0) -> Tensor: `elu` of `x / alpha`, continuously differentiable.

    >>> celu(tensor([-1.0, 2.0]), 2.0)
    tensor([-0.7869,  2.0000])
    """
    return apply(Celu, (input,), celu_attributes(input, alpha, "celu"))


@api(method=False)
def celu_(input: Any, alpha: Any = 1.0) -> Any:
    """celu_(input, alpha=1.0) -> Tensor: `celu` in place.

    >>> celu_(tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """
    return write(CeluWrite, (input,), celu_attributes(input, alpha, "celu_"))


@api(name="nn.functional.celu", method=False, samples=[Case(Draw(3, 4)), Case(Draw(3), 0.7)])
def functional_celu(input: Any, alpha: Any = 1.0, inplace: bool = False) -> Any:
    """celu(input, alpha=1.0, inplace=False) -> Tensor: `elu` of `x / alpha`, without a kink.

    >>> torch.nn.functional.celu(tensor([-1.0, 2.0]), 2.0)
    tensor([-0.7869,  2.0000])
    """
    return celu_(input, alpha) if inplace else celu(input, alpha)


@api(name="nn.functional.celu_", method=False)
def functional_celu_(input: Any, alpha: Any = 1.0) -> Any:
    """celu_(input, alpha=1.0) -> Tensor: `celu` in place.

    >>> torch.nn.functional.celu_(tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """
    return celu_(input, alpha)


@api(method=False, samples=unary_cases())
def selu(input: Any) -> Any:
    """selu(input) -> Tensor: `elu` scaled so that means and variances stay put.

    >>> selu(tensor([-1.0, 2.0]))
    tensor([-1.1113,  2.1014])
    """
    return apply(Elu, (input,), (SELU_ALPHA, SELU_SCALE, 1.0))


@api(method=False)
def selu_(input: Any) -> Any:
    """selu_(input) -> Tensor: `selu` in place.

    >>> selu_(tensor([-1.0, 2.0]))
    tensor([-1.1113,  2.1014])
    """
    return write(EluWrite, (input,), (SELU_ALPHA, SELU_SCALE, 1.0))


@api(name="nn.functional.selu", method=False, samples=[Case(Draw(3, 4)), Case(Draw())])
def functional_selu(input: Any, inplace: bool = False) -> Any:
    """selu(input, inplace=False) -> Tensor: `elu` scaled so that means and variances stay put.

    >>> torch.nn.functional.selu(tensor([-1.0, 2.0]))
    tensor([-1.1113,  2.1014])
    """
    return selu_(input) if inplace else selu(input)


@api(name="nn.functional.selu_", method=False)
def functional_selu_(input: Any) -> Any:
    """selu_(input) -> Tensor: `selu` in place.

    >>> torch.nn.functional.selu_(tensor([-1.0, 2.0]))
    tensor([-1.1113,  2.1014])
    """
    return selu_(input)


# ---------------------------------------------------------------------- gelu

HALF_ROOT = math.sqrt(0.5)
DENSITY = 1 / math.sqrt(2 * math.pi)
INNER = math.sqrt(2 / math.pi)
CUBIC = 0.044715


# The share is 1 / (1 + exp(-x q(x²))). This q, fitted up to x = 5, makes it as exact as single
# precision goes (1.2e-7); highest power first.
LOGIT = (
    3.512343305089871e-9,
    -2.645267329626222e-7,
    7.929489584057592e-6,
    -1.1061238910770044e-4,
    -6.518994632642716e-5,
    7.266616821289062e-2,
    1.5957698822021484,
)


def normal_share(xp: Any, x: Any) -> Any:
    """How much of the normal distribution lies below `x`, in single precision."""
    square = xp.minimum(x * x, 25)
    q = square * LOGIT[0]
    for coefficient in LOGIT[1:-1]:
        q += coefficient
        q *= square
    q += LOGIT[-1]
    q *= x
    return logistic(xp, q)


def gelu_value(xp: Any, x: Any) -> Any:
    """`x` times that share; with its derivative below a primitive of the kernels in C."""
    return x * normal_share(xp, x)


def gelu_slope(xp: Any, x: Any) -> Any:
    return normal_share(xp, x) + x * density(xp, x)


def density(xp: Any, x: Any) -> Any:
    return DENSITY * xp.exp(-0.5 * (x * x))


def wide_share(xp: Any, x: Any) -> Any:
    return 0.5 * (1 + pointwise(xp, erf, x * HALF_ROOT))


def inner(x: Any) -> Any:
    """The argument of tanh in the tanh approximation of GELU."""
    return INNER * (x + CUBIC * (x * x * x))


@op
class Gelu(Activation):
    """gelu(input, approximate) -> Tensor: `x` times the normal distribution function of `x`."""

    aten = "gelu"

    def fwd(xp, input, approximate):
        x = real(input, "GeluKernelImpl")
        if approximate == "tanh":
            return cast_value(0.5 * x * (1 + xp.tanh(inner(x))), input.dtype)
        if x.dtype == xp.float32:
            return cast_value(pointwise(xp, gelu_value, x, double=False), input.dtype)
        return x * wide_share(xp, x)

    def d_input(F, grad, input, approximate):
        return F.gelu_backward(grad, input, approximate)


@op
class GeluBackward(Slope):
    """gelu_backward(grad_output, input, approximate) -> Tensor: the gradient of `gelu`."""

    node = "GeluBackwardBackward0"
    aten = "gelu_backward"
    formula = "grad_output * (cdf(input) + input * pdf(input))"

    def fwd(xp, grad_output, input, approximate):
        grad, x = half_as_single(grad_output), half_as_single(input)
        if approximate == "tanh":
            t = xp.tanh(inner(x))
            steep = INNER * (1 + 3 * CUBIC * (x * x))
            slope = 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * steep
        elif x.dtype == xp.float32:
            slope = pointwise(xp, gelu_slope, x, double=False)
        else:
            slope = wide_share(xp, x) + x * density(xp, x)
        return cast_value(grad * slope, grad_output.dtype)

    def d_grad_output(F, grad, input, approximate):
        return F.gelu_backward(grad, input, approximate)

    def d_input(F, grad, grad_output, input, approximate):
        square = input * input
        if approximate == "tanh":
            t = F.tanh(inner(input))
            steep = INNER * (1 + 3 * CUBIC * square)
            bend = steep + 3 * INNER * CUBIC * square - input * t * (steep * steep)
            return grad * grad_output * ((1 - t * t) * bend)
        return grad * grad_output * (DENSITY * F.exp(-0.5 * square) * (2 - square))


@api(
    name="nn.functional.gelu",
    method=False,
    samples=[*unary_cases(), Case(Draw(3, 2), approximate="tanh")],
    functional_out=True,
    out_dtype=OUT_FOUND,
)
def gelu(input: Any, *, approximate: str = "none") -> Any:
    """gelu(input, approximate="none") -> Tensor: `x` times the normal distribution function at `x`.

    >>> torch.nn.functional.gelu(tensor([-1.0, 2.0]))
    tensor([-0.1587,  1.9545])
    """
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    return apply(Gelu, (input,), (approximate,))


# ---------------------------------------------------------------------- silu, mish


@op
class Silu(Activation):
    """silu(input) -> Tensor: `x * sigmoid(x)`."""

    aten = "silu"

    def fwd(xp, input):
        if input.dtype.kind == "c":
            return input / (1 + xp.exp(-input))
        x = real(input, "silu_cpu")
        out = xp.exp(-x)
        if not out.ndim:
            return cast_value(x / (1 + out), input.dtype)
        xp.add(out, 1, out)
        return cast_value(xp.divide(x, out, out), input.dtype)

    def d_input(F, grad, input):
        if not F.is_final(grad, input):
            s = F.sigmoid(input)
            return grad * s * (1 + input * (1 - s))
        return F.silu_backward(grad, input)


@op
class SiluBackward(Slope):
    """silu_backward(grad_output, input) -> Tensor: the gradient of `silu`."""

    node = "SiluBackwardBackward0"
    aten = "silu_backward"
    formula = "grad_output * sigmoid(input) * (1 + input * (1 - sigmoid(input)))"

    def fwd(xp, grad_output, input):
        grad, x = half_as_single(grad_output), half_as_single(input)
        s = logistic(xp, x)
        return cast_value(grad * s * (1 + x * (1 - s)), grad_output.dtype)

    def d_grad_output(F, grad, input):
        s = F.sigmoid(input)
        return grad * s * (1 + input * (1 - s))

    def d_input(F, grad, grad_output, input):
        s = F.sigmoid(input)
        return grad * grad_output * (s * (1 - s) * (2 + input * (1 - 2 * s)))


@api(name="nn.functional.silu", method=False, samples=unary_cases())
def silu(input: Any, inplace: bool = False) -> Any:
    """silu(input, inplace=False) -> Tensor: `x * sigmoid(x)`.

    >>> torch.nn.functional.silu(tensor([-1.0, 2.0]))
    tensor([-0.2689,  1.7616])
    """
    return write(Silu, (input,)) if inplace else apply(Silu, (input,))


@op
class Mish(Activation):
    """mish(input) -> Tensor: `x * tanh(softplus(x))`."""

    aten = "mish"
    onnx = "Mish"

    def fwd(xp, input):
        x = real(input, "mish_cpu")
        return cast_value(x * xp.tanh(xp.log1p(xp.exp(x))), input.dtype)

    def d_input(F, grad, input):
        if not F.is_final(grad, input):
            t = F.tanh(F.softplus(input, 1.0, 20.0))
            return grad * (t + input * F.sigmoid(input) * (1 - t * t))
        return F.mish_backward(grad, input)


@op
class MishBackward(Slope):
    """mish_backward(grad_output, input) -> Tensor: the gradient of `mish`."""

    node = "MishBackwardBackward0"
    aten = "mish_backward"

    def fwd(xp, grad_output, input):
        grad, x = half_as_single(grad_output), half_as_single(input)
        t = xp.tanh(xp.log1p(xp.exp(x)))
        return cast_value(grad * (t + x * logistic(xp, x) * (1 - t * t)), grad_output.dtype)

    def d_grad_output(F, grad, input):
        return F.mish_backward(grad, input)

    def d_input(F, grad, grad_output, input):
        t = F.tanh(F.softplus(input, 1.0, 20.0))
        s = F.sigmoid(input)
        bend = s * (1 - t * t) * (2 + input * ((1 - s) - 2 * t * s))
        return grad * grad_output * bend


@api(name="nn.functional.mish", method=False, samples=unary_cases())
def mish(input: Any, inplace: bool = False) -> Any:
    """mish(input, inplace=False) -> Tensor: `x * tanh(softplus(x))`.

    >>> torch.nn.functional.mish(tensor([-1.0, 2.0]))
    tensor([-0.3034,  1.9440])
    """
    return write(Mish, (input,)) if inplace else apply(Mish, (input,))


# ---------------------------------------------------------------------- softplus, logsigmoid


@op
class Softplus(Activation):
    """softplus(input, beta, threshold) -> Tensor: a smooth positive part."""

    aten = "softplus"
    autocast = Autocast(gpu=SINGLE)

    def fwd(xp, input, beta, threshold):
        x = real(input, "softplus_cpu")
        scaled = x if beta == 1 else x * beta
        bent = xp.log1p(xp.exp(scaled))
        if beta != 1:
            bent = bent / beta
        return cast_value(pick(xp, scaled > threshold, x, bent), input.dtype)

    def d_input(F, grad, input, beta, threshold):
        return F.softplus_backward(grad, input, beta, threshold)


@op
class SoftplusBackward(Slope):
    """softplus_backward(grad_output, input, beta, threshold) -> Tensor: the gradient."""

    node = "SoftplusBackwardBackward0"
    aten = "softplus_backward"
    formula = "grad_output * sigmoid(input * beta)"

    def fwd(xp, grad_output, input, beta, threshold):
        grad, x = half_as_single(grad_output), half_as_single(input)
        scaled = x if beta == 1 else x * beta
        z = xp.exp(scaled)
        slope = pick(xp, scaled > threshold, grad, grad * z / (z + 1))
        return cast_value(slope, grad_output.dtype)

    def d_grad_output(F, grad, input, beta, threshold):
        return F.softplus_backward(grad, input, beta, threshold)

    def d_input(F, grad, grad_output, input, beta, threshold):
        scaled = input * beta
        s = F.sigmoid(scaled)
        return F.where(scaled < threshold, grad * grad_output * (s * (1 - s) * beta), 0)


@api(
    name="nn.functional.softplus",
    method=False,
    samples=[*unary_cases(), Case(Draw(3, 4), 2.0), Case(Draw(3, 4), beta=1.5, threshold=1)],
    autocast=Autocast(gpu=SINGLE),
    functional_out=True,
    out_dtype=OUT_FOUND,
)
def softplus(input: Any, beta: Any = 1, threshold: Any = 20) -> Any:
    """softplus(input, beta=1, threshold=20) -> Tensor: `log(1 + exp(beta * x)) / beta`.

    Where `beta * x` exceeds the threshold, it is `x`.

    >>> torch.nn.functional.softplus(tensor([-1.0, 2.0]))
    tensor([0.3133, 2.1269])
    """
    attrs = (
        number_of("softplus", "beta", 2, beta),
        number_of("softplus", "threshold", 3, threshold),
    )
    fits_kernel(input, *attrs)
    return apply(Softplus, (input,), attrs)


@op
class LogSigmoid(Activation):
    """log_sigmoid(input) -> Tensor: the logarithm of `sigmoid`."""

    aten = "log_sigmoid_forward"

    def fwd(xp, input):
        x = contiguous(xp, real(input, "log_sigmoid_cpu"))
        return cast_value(xp.minimum(x, 0) - xp.log1p(xp.exp(-xp.abs(x))), input.dtype)

    def d_input(F, grad, input):
        return F.log_sigmoid_backward(grad, input)


@op
class LogSigmoidBackward(Slope):
    """log_sigmoid_backward(grad_output, input) -> Tensor: the gradient of `logsigmoid`."""

    node = "LogSigmoidBackwardBackward0"
    aten = "log_sigmoid_backward"
    formula = "grad_output * sigmoid(-input)"

    def fwd(xp, grad_output, input):
        grad, x = half_as_single(grad_output), half_as_single(input)
        below = half_as_single(cast_value(xp.exp(-xp.abs(x)), input.dtype))  # kept by PyTorch
        share = below / (1 + below)
        return cast_value(grad * xp.where(x < 0, 1 - share, share), grad_output.dtype)

    def d_grad_output(F, grad, input):
        return F.log_sigmoid_backward(grad, input)

    def d_input(F, grad, grad_output, input):
        s = F.sigmoid(input)
        return grad * grad_output * (s * (s - 1))


@api(
    name="nn.functional.logsigmoid",
    method=False,
    samples=unary_cases(),
    functional_out=True,
    out_dtype="expected scalar type {want} but found {got}",
)
def logsigmoid(input: Any) -> Any:
    """logsigmoid(input) -> Tensor: the logarithm of `sigmoid`, without overflow.

    >>> torch.nn.functional.logsigmoid(tensor([-1000.0, 0.0]))
    tensor([-1.0000e+03, -6.9315e-01])
    """
    return apply(LogSigmoid, (input,))
