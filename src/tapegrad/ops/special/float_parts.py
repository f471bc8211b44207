"""Elementwise functions beside the everyday ones: angles, divisors, the parts of a float."""

from __future__ import annotations

import math
from typing import Any

from ...core.arguments import cast_value
from ...core.named_results import return_type
from ...core.rounding import half_as_single
from ..block import APIS, PROMOTE, Block, Case, Elementwise, api, apply, op, ufunc
from ..block.checks import BOOL, COMPLEX, FLOATING, INTEGRAL, not_for, only_tensors
from ..block.samples import Draw, Index, binary_cases
from ..pointwise.arithmetic import no_derivative

# ruff: noqa: N805


class TwoTensors(Elementwise):
    """Two tensors; PyTorch takes no number here."""

    tensors = ("input", "other")
    dtype = PROMOTE


@op
class Logaddexp2(TwoTensors):
    """logaddexp2(input, other) -> Tensor: `log2(2 ** input + 2 ** other)` without overflow.

    >>> logaddexp2(tensor([0.0]), tensor([0.0]))
    tensor([1.])
    """

    inplace = False
    guard = not_for("logaddexp2_cpu", BOOL, INTEGRAL, COMPLEX)
    samples = binary_cases()[:-1]

    def fwd(xp, input, other):
        return cast_value(xp.logaddexp2(half_as_single(input), half_as_single(other)), input.dtype)

    def call(input, other, *, run=None):
        only_tensors("logaddexp2", run, input=input, other=other)
        return (run or apply)(Logaddexp2, (input, other))

    def d_input(F, grad, input, other):
        return grad / (1 + F.exp2(other - input))

    def d_other(F, grad, input, other):
        return grad / (1 + F.exp2(input - other))


def same_real_dtypes(input: Any, values: Any) -> None:
    if input.dtype.kind == "c" or values.dtype.kind == "c":
        raise RuntimeError("heaviside is not yet implemented for complex tensors.")
    if input.dtype != values.dtype:
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")


@op
class Heaviside(Elementwise):
    """heaviside(input, values) -> Tensor: 0 below zero, 1 above, and `values` at zero.

    >>> heaviside(tensor([-1.0, 0.0, 2.0]), tensor([0.5]))
    tensor([0.0000, 0.5000, 1.0000])
    """

    tensors = ("input", "values")
    node = "torch::autograd::NotImplemented"
    dtype = PROMOTE
    guard = same_real_dtypes
    nearest = "torch.sigmoid(k * x), a smooth step"
    # Integers: floats would ask for the derivative that there is none of.
    samples = [
        Case(Index([[-1, 0, 2]]), Index([[5], [6]])),
        Case(Index([[-1, 2], [0, 0]]), Index(3)),
        Case(Index(0), Index([4, 5])),
    ]

    def fwd(xp, input, values):
        above = (input > 0).astype(input.dtype)
        return xp.where(input == 0, values, above)

    def call(input, values, *, run=None):
        only_tensors("heaviside", run, input=input, values=values)
        return (run or apply)(Heaviside, (input, values))

    def d_input(F, grad):
        raise no_derivative("heaviside")

    def d_values(F, grad):
        raise no_derivative("heaviside")


def next_bfloat(xp: Any, x: Any, y: Any) -> Any:
    """`nextafter` on bfloat16, which NumPy does not have: one step of the bits."""
    a, b = x.astype(xp.float32), y.astype(xp.float32)
    bits = x.copy().view(xp.int16)
    away = (b > a) == (a > 0)  # from zero
    step = xp.where(away, bits + 1, bits - 1).astype(xp.int16)
    tiny = xp.where(b > 0, 1, -32767).astype(xp.int16)
    moved = xp.where(a == 0, tiny, step).view(x.dtype)
    out = xp.where(a == b, y, moved)
    return xp.where(xp.isnan(a), x, xp.where(xp.isnan(b), y, out))


@op
class Nextafter(TwoTensors):
    """nextafter(input, other) -> Tensor: the next number after `input` on the way to `other`.

    >>> nextafter(tensor([1.0]), tensor([2.0])) > 1
    tensor([True])
    """

    guard = not_for("nextafter_cpu", BOOL, INTEGRAL, COMPLEX)
    nearest = "x itself: it differs by the last bit only"
    samples = binary_cases()[:-1]

    def fwd(xp, input, other):
        if input.dtype.kind == "f":
            return xp.nextafter(input, other)
        return next_bfloat(xp, *xp.broadcast_arrays(input, other))

    def call(input, other, *, run=None):
        only_tensors("nextafter", run, input=input, other=other)
        return (run or apply)(Nextafter, (input, other))

    def d_input(F, grad, input, other):
        return F.where(input == other, 0.0, grad)

    def d_other(F, grad):
        return F.zeros_like(grad)


@op
class Ldexp(Elementwise):
    """ldexp(input, other) -> Tensor: `input * 2 ** other`.

    >>> ldexp(tensor([1.5]), tensor([3]))
    tensor([12.])
    """

    aten = "ldexp.Tensor"
    tensors = ("input", "other")
    inplace_functions = ("ldexp_",)
    samples = [*binary_cases()[:-1], Case(Draw(3), Index([1, 0, 3]))]

    def fwd(xp, input, other):
        x, y = half_as_single(input), half_as_single(other)
        power = xp.exp(y * math.log(2)) if y.dtype.kind == "c" else xp.exp2(y)
        power = half_as_single(cast_value(power, input.dtype)) if x is not input else power
        return cast_value(x * power, input.dtype)

    def call(input, other, *, run=None):
        only_tensors("ldexp", run, input=input, other=other)
        if run and input._array.dtype.kind in "biu":
            name = input.dtype.scalar_type
            raise RuntimeError(f"ldexp can't be cast to the desired output type {name}")
        if input._array.dtype.kind in "fV" and other._array.dtype.kind == "b":
            raise NotImplementedError("\"ldexp_cpu_exp\" not implemented for 'Bool'")
        return (run or apply)(Ldexp, (input, other))

    def d_input(F, grad, other):
        return grad * F.exp2(other)

    def d_other(F, grad, out):
        return F.mul_number(grad * out, math.log(2))


@op
class Frexp(Block):
    """frexp(input) -> (Tensor, Tensor): mantissas from 1/2 to 1, and the exponents of two.

    >>> frexp(tensor([6.0])).mantissa
    tensor([0.7500])
    >>> frexp(tensor([6.0])).exponent
    tensor([3], dtype=torch.int32)
    """

    aten = "frexp.Tensor"
    elementwise = True
    outs = ("mantissa", "exponent")
    result = return_type("frexp", ("mantissa", "exponent"))
    plain_outs = (1,)
    samples = [
        Case(Draw(3, 4)),
        Case(Draw()),
        Case(Draw(0, 2)),
        Case(Draw(3, 2, layout="T")),
    ]

    def fwd(xp, input):
        mantissa, exponent = xp.frexp(half_as_single(input))
        # The C library leaves the exponents of what is not finite open.
        exponent = xp.where(xp.isfinite(mantissa), exponent, 0).astype(xp.int32)
        return cast_value(mantissa, input.dtype), exponent

    def call(input, *, run=None):
        only_tensors("frexp", run, input=input)
        if not input.dtype.is_floating_point:
            raise RuntimeError("torch.frexp() only supports floating-point dtypes")
        return apply(Frexp, (input,))

    def d_input(F, grad, exponent, input_dtype):
        return grad[0] / F.exp2(F.cast(exponent, input_dtype))

    def jvp(F, t_input, exponent):
        return t_input / F.exp2(exponent + F.zeros_like(t_input)), None


# ---------------------------------------------------------------------- divisors


class Divisors(TwoTensors):
    undifferentiable = "it works on integers"
    samples = [
        Case(Index([[4, -6, 0]]), Index([[6], [9]])),
        Case(Index(12), Index([8, 9])),
        Case(Index([[12, 10], [7, 14]]), Index([4, 7])),
    ]


@op
class Gcd(Divisors):
    """gcd(input, other) -> Tensor: the greatest common divisor of each pair of elements.

    >>> gcd(tensor([12, 10]), tensor([8, 15]))
    tensor([4, 5])
    """

    guard = not_for("gcd_cpu", BOOL, FLOATING, COMPLEX)
    inplace_functions = ("gcd_",)
    fwd = ufunc("gcd")

    def call(input, other, *, run=None):
        only_tensors("gcd", run, input=input, other=other)
        return (run or apply)(Gcd, (input, other))


@op
class Lcm(Divisors):
    """lcm(input, other) -> Tensor: the least common multiple of each pair of elements.

    >>> lcm(tensor([12, 10]), tensor([8, 15]))
    tensor([24, 30])
    """

    guard = not_for("lcm_cpu", BOOL, FLOATING, COMPLEX)
    inplace_functions = ("lcm_",)
    fwd = ufunc("lcm")

    def call(input, other, *, run=None):
        only_tensors("lcm", run, input=input, other=other)
        return (run or apply)(Lcm, (input, other))


# ---------------------------------------------------------------------- angles


def not_complex(name: str) -> Any:
    def guard(input: Any) -> None:
        if input.dtype.kind == "c":
            raise RuntimeError(f"{name} is not supported for complex tensors.")

    return guard


@op
class Deg2Rad(Elementwise):
    """deg2rad(input) -> Tensor: each element converted from degrees to radians.

    >>> deg2rad(tensor([180.0]))
    tensor([3.1416])
    """

    name = "deg2rad"
    guard = not_complex("deg2rad")
    inplace_functions = ("deg2rad_",)

    def fwd(xp, input):
        return cast_value(half_as_single(input) * (math.pi / 180), input.dtype)

    def d_input(F, grad):
        return grad * (math.pi / 180)


@op
class Rad2Deg(Elementwise):
    """rad2deg(input) -> Tensor: each element converted from radians to degrees.

    >>> rad2deg(tensor([3.1416]))
    tensor([180.0004])
    """

    name = "rad2deg"
    guard = not_complex("rad2deg")
    inplace_functions = ("rad2deg_",)

    def fwd(xp, input):
        return cast_value(half_as_single(input) * (180 / math.pi), input.dtype)

    def d_input(F, grad):
        return grad * (180 / math.pi)


@api(name="special.round", samples=APIS["round"].samples)
def special_round(input: Any, *, decimals: int = 0) -> Any:
    """special.round(input, *, decimals=0) -> Tensor: `round`, always with decimals.

    >>> torch.special.round(tensor([0.5, 1.26]), decimals=1)
    tensor([0.5000, 1.3000])
    """
    return APIS["round"].call(input, decimals=decimals)
