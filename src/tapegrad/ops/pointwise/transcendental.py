"""Functions of one real or complex variable: roots, exponentials, logarithms, angles."""

from __future__ import annotations

import math
from typing import Any

from ...core.arguments import cast_value
from ...core.base import F32, F64
from ...core.rounding import half_as_single
from ..block import PROMOTE, SINGLE, WIDEST, Autocast, Elementwise, apply, op, ufunc
from ..block.checks import BOOL, COMPLEX, INTEGRAL, not_for, only_tensors
from ..block.samples import binary_cases, unary_cases
from ..special.kernels import pointwise
from ..special.kernels_error import erf, erf_single, erfc

# Rules are written for the real case; for complex tensors the engine conjugates around them.
# ruff: noqa: N805

LN2 = math.log(2)
LN10 = 2.3025850929940456  # as PyTorch has it: the double below math.log(10)


@op
class Sqrt(Elementwise):
    """sqrt(input) -> Tensor: the square root of each element.

    >>> sqrt(tensor([1.0, 4.0]))
    tensor([1., 2.])
    """

    inplace_functions = ("sqrt_",)
    foreach = "unary"
    onnx = "Sqrt"
    nonfinite = "square_root"
    samples = unary_cases(low=0.2)
    fwd = ufunc("sqrt")

    def d_input(F, grad, out):
        return grad / (2 * out)


@op
class Rsqrt(Elementwise):
    """rsqrt(input) -> Tensor: one over the square root of each element.

    >>> rsqrt(tensor([1.0, 4.0]))
    tensor([1.0000, 0.5000])
    """

    autocast = Autocast(gpu=SINGLE)
    inplace_functions = ("rsqrt_",)
    foreach = "unary"
    nonfinite = "square_root"
    samples = unary_cases(low=0.2)

    def fwd(xp, input):
        return cast_value(1 / xp.sqrt(half_as_single(input)), input.dtype)

    def d_input(F, grad, out):
        return -0.5 * grad * F.pow_scalar(out, 3)


# ---------------------------------------------------------------------- exponentials and logarithms


@op
class Exp(Elementwise):
    """exp(input) -> Tensor: e to the power of each element.

    >>> exp(tensor([0.0, 1.0]))
    tensor([1.0000, 2.7183])
    """

    autocast = Autocast(gpu=SINGLE)
    inplace_functions = ("exp_",)
    foreach = "unary"
    onnx = "Exp"
    nonfinite = "exponential"
    fwd = ufunc("exp")

    def d_input(F, grad, out):
        return grad * out


@op
class Exp2(Elementwise):
    """exp2(input) -> Tensor: two to the power of each element.

    >>> exp2(tensor([0.0, 3.0]))
    tensor([1., 8.])
    """

    inplace_functions = ("exp2_",)
    aliases = ("special.exp2",)
    nonfinite = "exponential"

    def fwd(xp, input):
        if input.dtype.kind == "c":
            return xp.exp(input * LN2)
        return xp.exp2(input)

    def d_input(F, grad, out):
        return F.mul_number(grad * out, LN2)


@op
class Expm1(Elementwise):
    """expm1(input) -> Tensor: `exp(input) - 1`, exact near zero.

    >>> expm1(tensor([0.0, 1.0]))
    tensor([0.0000, 1.7183])
    """

    autocast = Autocast(gpu=SINGLE)
    inplace_functions = ("expm1_",)
    aliases = ("special.expm1",)
    foreach = "unary"
    nonfinite = "exponential"
    fwd = ufunc("expm1")

    def d_input(F, grad, out):
        return grad * (out + 1)


@op
class Log(Elementwise):
    """log(input) -> Tensor: the natural logarithm of each element.

    >>> log(tensor([1.0, 2.0]))
    tensor([0.0000, 0.6931])
    """

    autocast = Autocast(gpu=SINGLE)
    inplace_functions = ("log_",)
    foreach = "unary"
    onnx = "Log"
    nonfinite = "logarithm"
    samples = unary_cases(low=0.2)
    fwd = ufunc("log")

    def d_input(F, grad, input):
        return grad / input


@op
class Log2(Elementwise):
    """log2(input) -> Tensor: the logarithm to base two of each element.

    >>> log2(tensor([1.0, 8.0]))
    tensor([0., 3.])
    """

    autocast = Autocast(gpu=SINGLE)
    inplace_functions = ("log2_",)
    foreach = "unary"
    nonfinite = "logarithm"
    samples = unary_cases(low=0.2)
    fwd = ufunc("log2")

    def d_input(F, grad, input):
        return grad / F.mul_number(input, LN2)


@op
class Log10(Elementwise):
    """log10(input) -> Tensor: the logarithm to base ten of each element.

    >>> log10(tensor([1.0, 100.0]))
    tensor([0., 2.])
    """

    autocast = Autocast(gpu=SINGLE)
    inplace_functions = ("log10_",)
    foreach = "unary"
    nonfinite = "logarithm"
    samples = unary_cases(low=0.2)

    def fwd(xp, input):
        if input.dtype == xp.float32:  # NumPy's own single precision misses the powers of ten
            return xp.log10(input.astype(xp.float64)).astype(xp.float32)
        return xp.log10(input)

    def d_input(F, grad, input):
        return grad / F.mul_number(input, LN10)


@op
class Log1p(Elementwise):
    """log1p(input) -> Tensor: `log(1 + input)`, exact near zero.

    >>> log1p(tensor([0.0, 1.0]))
    tensor([0.0000, 0.6931])
    """

    node = "Log1PBackward0"
    autocast = Autocast(gpu=SINGLE)
    inplace_functions = ("log1p_",)
    aliases = ("special.log1p",)
    foreach = "unary"
    nonfinite = "logarithm"
    samples = unary_cases(low=-0.7)
    fwd = ufunc("log1p")

    def d_input(F, grad, input):
        return grad / (input + 1)


class TwoTensors(Elementwise):
    """Two tensors; PyTorch takes no number here."""

    tensors = ("input", "other")


def log_sum_of_two(xp: Any, a: Any, b: Any) -> Any:
    """Of complex numbers: the larger real part is taken out of the exponentials."""
    swap = a.real < b.real
    large, small = xp.where(swap, b, a), xp.where(swap, a, b)
    return large + xp.log1p(xp.exp(small - large))


@op
class Logaddexp(TwoTensors):
    """logaddexp(input, other) -> Tensor: `log(exp(input) + exp(other))` without overflow.

    >>> logaddexp(tensor([0.0]), tensor([0.0]))
    tensor([0.6931])
    """

    dtype = PROMOTE
    inplace = False
    guard = not_for("logaddexp_cpu", BOOL, INTEGRAL)
    samples = binary_cases()[:-1]

    def fwd(xp, input, other):
        if input.dtype.kind == "c":
            return log_sum_of_two(xp, input, other)
        return xp.logaddexp(input, other)

    def call(input, other, *, run=None):
        only_tensors("logaddexp", run, input=input, other=other)
        return (run or apply)(Logaddexp, (input, other))

    def d_input(F, grad, input, other):
        return grad / (1 + F.exp(other - input))

    def d_other(F, grad, input, other):
        return grad / (1 + F.exp(input - other))


# ---------------------------------------------------------------------- angles


@op
class Sin(Elementwise):
    """sin(input) -> Tensor: the sine of each element, in radians.

    >>> sin(tensor([0.0, 1.0]))
    tensor([0.0000, 0.8415])
    """

    inplace_functions = ("sin_",)
    keeps_finite = True
    foreach = "unary"
    onnx = "Sin"
    fwd = ufunc("sin")

    def d_input(F, grad, input):
        return grad * F.cos(input)


@op
class Cos(Elementwise):
    """cos(input) -> Tensor: the cosine of each element, in radians.

    >>> cos(tensor([0.0, 1.0]))
    tensor([1.0000, 0.5403])
    """

    inplace_functions = ("cos_",)
    keeps_finite = True
    foreach = "unary"
    onnx = "Cos"
    fwd = ufunc("cos")

    def d_input(F, grad, input):
        return grad * -F.sin(input)


@op
class Tan(Elementwise):
    """tan(input) -> Tensor: the tangent of each element, in radians.

    >>> tan(tensor([0.0, 1.0]))
    tensor([0.0000, 1.5574])
    """

    autocast = Autocast(gpu=SINGLE)
    inplace_functions = ("tan_",)
    foreach = "unary"
    onnx = "Tan"
    samples = unary_cases(low=-1.2, high=1.2)
    fwd = ufunc("tan")

    def d_input(F, grad, out):
        return grad * (1 + out**2)


@op
class Asin(Elementwise):
    """asin(input) -> Tensor: the angles with these sines.

    >>> asin(tensor([0.0, 1.0]))
    tensor([0.0000, 1.5708])
    """

    aliases = ("arcsin",)
    autocast = Autocast(gpu=SINGLE)
    inplace_functions = ("asin_", "arcsin_")
    foreach = "unary"
    onnx = "Asin"
    nonfinite = "inverse_sine"
    samples = unary_cases(low=-0.9, high=0.9)
    fwd = ufunc("arcsin")

    def d_input(F, grad, input):
        return grad * F.rsqrt(-input * input + 1)


@op
class Acos(Elementwise):
    """acos(input) -> Tensor: the angles with these cosines.

    >>> acos(tensor([0.0, 1.0]))
    tensor([1.5708, 0.0000])
    """

    aliases = ("arccos",)
    autocast = Autocast(gpu=SINGLE)
    inplace_functions = ("acos_", "arccos_")
    foreach = "unary"
    onnx = "Acos"
    nonfinite = "inverse_sine"
    samples = unary_cases(low=-0.9, high=0.9)
    fwd = ufunc("arccos")

    def d_input(F, grad, input):
        return grad * -F.rsqrt(-input * input + 1)


@op
class Atan(Elementwise):
    """atan(input) -> Tensor: the angles with these tangents.

    >>> atan(tensor([0.0, 1.0]))
    tensor([0.0000, 0.7854])
    """

    aliases = ("arctan",)
    inplace_functions = ("atan_", "arctan_")
    foreach = "unary"
    onnx = "Atan"
    fwd = ufunc("arctan")

    def d_input(F, grad, input):
        return grad / (input * input + 1)


def by_square(F: Any, x: Any, y: Any) -> Any:
    """1 / (x² + y²), but zero at the origin, where the angle has no slope."""
    square = x * x + y * y
    return F.where(square == 0, 0, F.reciprocal(square))


@op
class Atan2(TwoTensors):
    """atan2(input, other) -> Tensor: the angles of the points (other, input).

    >>> atan2(tensor([1.0]), tensor([-1.0]))
    tensor([2.3562])
    """

    aliases = ("arctan2",)
    guard = not_for("atan2_cpu", COMPLEX)
    autocast = Autocast(gpu=WIDEST)
    vmap_write = None
    samples = binary_cases(low=0.3)[:-1]
    fwd = ufunc("arctan2")

    def call(input, other, *, run=None):
        only_tensors("atan2", run, input=input, other=other)
        return (run or apply)(Atan2, (input, other))

    def d_input(F, grad, input, other):
        return grad * other * by_square(F, input, other)

    def d_other(F, grad, input, other):
        return grad * -input * by_square(F, input, other)


@op
class Sinh(Elementwise):
    """sinh(input) -> Tensor: the hyperbolic sine of each element.

    >>> sinh(tensor([0.0, 1.0]))
    tensor([0.0000, 1.1752])
    """

    autocast = Autocast(gpu=SINGLE)
    inplace_functions = ("sinh_",)
    foreach = "unary"
    onnx = "Sinh"
    nonfinite = "exponential"
    fwd = ufunc("sinh")

    def d_input(F, grad, input):
        return grad * F.cosh(input)


@op
class Cosh(Elementwise):
    """cosh(input) -> Tensor: the hyperbolic cosine of each element.

    >>> cosh(tensor([0.0, 1.0]))
    tensor([1.0000, 1.5431])
    """

    autocast = Autocast(gpu=SINGLE)
    inplace_functions = ("cosh_",)
    foreach = "unary"
    onnx = "Cosh"
    nonfinite = "exponential"
    fwd = ufunc("cosh")

    def d_input(F, grad, input):
        return grad * F.sinh(input)


@op
class Tanh(Elementwise):
    """tanh(input) -> Tensor: the hyperbolic tangent of each element.

    >>> tanh(tensor([0.0, 1.0]))
    tensor([0.0000, 0.7616])
    """

    inplace_functions = ("tanh_",)
    keeps_finite = True
    foreach = "unary"
    onnx = "Tanh"
    fwd = ufunc("tanh")

    def d_input(F, grad, out):
        return F.tanh_backward(grad, out)


@op
class TanhBackward(Elementwise):
    """tanh_backward(grad_output, output) -> Tensor: the gradient of `tanh`, in one kernel."""

    node = "TanhBackwardBackward0"
    aten = "tanh_backward"
    tensors = ("grad_output", "output")
    dtype = PROMOTE
    public = False
    formula = "grad_output * (1 - output ** 2)"

    def fwd(xp, grad_output, output):
        wide = half_as_single(output)
        if wide is not output:  # rounded once
            slope = half_as_single(grad_output) * (1 - wide * wide)
            return cast_value(slope, output.dtype)
        slope = output * output
        if slope.ndim:
            xp.subtract(1, slope, slope)
            if grad_output.shape == slope.shape:
                return xp.multiply(grad_output, slope, slope)
            return grad_output * slope
        return grad_output * (1 - slope)

    def d_grad_output(F, grad, output):
        return F.tanh_backward(grad, output)

    def d_output(F, grad, grad_output, output):
        return grad * grad_output * output * -2


@op
class Asinh(Elementwise):
    """asinh(input) -> Tensor: the inverse of `sinh`.

    >>> asinh(tensor([0.0, 1.0]))
    tensor([0.0000, 0.8814])
    """

    written_name = "AsinhBackward1"
    aliases = ("arcsinh",)
    inplace_functions = ("asinh_", "arcsinh_")
    onnx = "Asinh"
    fwd = ufunc("arcsinh")

    def d_input(F, grad, input):
        return grad * F.rsqrt(input**2 + 1)


@op
class Acosh(Elementwise):
    """acosh(input) -> Tensor: the inverse of `cosh`.

    >>> acosh(tensor([1.0, 2.0]))
    tensor([0.0000, 1.3170])
    """

    written_name = "AcoshBackward1"
    aliases = ("arccosh",)
    inplace_functions = ("acosh_", "arccosh_")
    onnx = "Acosh"
    nonfinite = "inverse_cosine_h"
    samples = unary_cases(low=1.2, high=3.0)
    fwd = ufunc("arccosh")

    def d_input(F, grad, input):
        return grad * F.rsqrt(input**2 - 1)


@op
class Atanh(Elementwise):
    """atanh(input) -> Tensor: the inverse of `tanh`.

    >>> atanh(tensor([0.0, 0.5]))
    tensor([0.0000, 0.5493])
    """

    written_name = "AtanhBackward1"
    aliases = ("arctanh",)
    inplace_functions = ("atanh_", "arctanh_")
    onnx = "Atanh"
    nonfinite = "inverse_sine"
    samples = unary_cases(low=-0.8, high=0.8)
    fwd = ufunc("arctanh")

    def d_input(F, grad, input):
        return grad * (1 / (1 - input**2))


# ---------------------------------------------------------------------- sigmoid, error function


@op
class Sigmoid(Elementwise):
    """sigmoid(input) -> Tensor: `1 / (1 + exp(-input))`.

    >>> sigmoid(tensor([0.0, 2.0]))
    tensor([0.5000, 0.8808])
    """

    inplace_functions = ("sigmoid_",)
    keeps_finite = True
    aliases = ("special.expit",)
    foreach = "unary"
    onnx = "Sigmoid"

    def fwd(xp, input):
        if input.ndim and (input.dtype is F32 or input.dtype is F64):
            out = xp.negative(input)
            xp.exp(out, out)
            xp.add(out, 1, out)
            return xp.reciprocal(out, out)
        return cast_value(1 / (1 + xp.exp(-half_as_single(input))), input.dtype)

    def d_input(F, grad, out):
        return F.sigmoid_backward(grad, out)


@op
class SigmoidBackward(Elementwise):
    """sigmoid_backward(grad_output, output) -> Tensor: the gradient of `sigmoid`, in one kernel."""

    node = "SigmoidBackwardBackward0"
    aten = "sigmoid_backward"
    tensors = ("grad_output", "output")
    dtype = PROMOTE
    public = False
    formula = "grad_output * output * (1 - output)"

    def fwd(xp, grad_output, output):
        if output.dtype.itemsize == 2:  # PyTorch rounds bfloat16 once, float16 in each step
            if output.dtype.kind == "f":
                return grad_output * (1 - output) * output
            wide = half_as_single(output)
            return cast_value(half_as_single(grad_output) * (1 - wide) * wide, output.dtype)
        slope = 1 - output
        if slope.ndim:
            if grad_output.shape == slope.shape:
                xp.multiply(grad_output, slope, slope)
                return xp.multiply(slope, output, slope)
        return grad_output * slope * output

    def d_grad_output(F, grad, output):
        return F.sigmoid_backward(grad, output)

    def d_output(F, grad, grad_output, output):
        return grad * grad_output * (1 - 2 * output)


@op
class Erf(Elementwise):
    """erf(input) -> Tensor: the error function of each element.

    >>> erf(tensor([0.0, 1.0]))
    tensor([0.0000, 0.8427])
    """

    guard = not_for("erf_vml_cpu", COMPLEX)
    inplace_functions = ("erf_",)
    aliases = ("special.erf",)
    foreach = "unary"
    onnx = "Erf"

    def fwd(xp, input):
        if input.dtype is F32:
            return pointwise(xp, erf_single, input, double=False)
        return pointwise(xp, erf, input)

    def d_input(F, grad, input):
        return F.mul_number(F.exp(-(input**2)), 2 / math.sqrt(math.pi)) * grad


@op
class Erfc(Elementwise):
    """erfc(input) -> Tensor: one minus the error function.

    >>> erfc(tensor([0.0, 1.0]))
    tensor([1.0000, 0.1573])
    """

    guard = not_for("erfc_vml_cpu", COMPLEX)
    inplace_functions = ("erfc_",)
    aliases = ("special.erfc",)
    foreach = "unary"

    def fwd(xp, input):
        return pointwise(xp, erfc, input)

    def d_input(F, grad, input):
        return F.mul_number(F.exp(-(input**2)), -2 / math.sqrt(math.pi)) * grad
