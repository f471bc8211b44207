"""Powers: three nodes, by which side is a tensor, and what is made of them."""

from __future__ import annotations

import cmath
import math
from typing import Any

import numpy as np

from ... import dtypes
from ...core import promote
from ...core.arguments import cast_value, number_beside
from ...core.base import STATE, TensorBase
from ...core.rounding import half_as_single
from ..block import PROMOTE, SINGLE, Autocast, Case, Elementwise, api, apply, op
from ..block.checks import (
    BOOL,
    COMPLEX,
    category,
    invalid_call,
    is_complex,
    is_number,
    is_wide_float,
    not_for,
    not_implemented,
    refuse_overflow,
    refuse_too_big,
)
from ..block.samples import Draw, unary_cases

# ruff: noqa: N805


def power(xp: Any, input: Any, exponent: Any) -> Any:
    """`input ** exponent` for a number; the common exponents without the general function."""
    if is_wide_float(input, exponent) and exponent == 2:
        return input * input
    dtype = promote.scalar_result(input, exponent)
    if dtype.kind in "biu":
        if exponent < 0:
            raise RuntimeError("Integers to negative integer powers are not allowed.")
        return cast_value(
            xp.power(
                cast_value(input, dtype).astype(np.int8 if dtype.kind == "b" else dtype),
                cast_value(exponent, np.dtype(np.int64)),
            ),
            dtype,
        )
    x = half_as_single(cast_value(input, dtype))
    if dtype.kind == "V" and exponent in (3, -2):  # PyTorch rounds bfloat16's squares
        square = half_as_single(cast_value(x * x, dtype))
        out = square * x if exponent == 3 else 1 / square
    elif exponent == 0:
        out = xp.ones_like(x)
    elif exponent == 1:
        out = xp.copy(x)
    elif exponent == 2:
        out = x * x
    elif exponent == 3:
        out = x * x * x
    elif exponent == 0.5:
        out = xp.sqrt(x)
    elif exponent == -0.5:
        out = 1 / xp.sqrt(x)
    elif exponent == -1:
        out = 1 / x
    elif exponent == -2:
        out = 1 / (x * x)
    else:
        if is_complex(x):
            exponent = x.dtype.type(exponent)
        elif x.dtype != dtype:
            exponent = number_beside(exponent, dtype, x)
        out = general_power(xp, x, exponent)
    return cast_value(out, dtype)


def general_power(xp: Any, base: Any, exponent: Any) -> Any:
    """Of floating point numbers.

    C has all complex powers by logarithms, whence 0 ** 0 is no number. NumPy asks C unless the base
    is zero or the exponent an integer.
    """
    out = xp.power(base, exponent)
    if is_complex(base):
        apart = (base == 0) | ((exponent.imag == 0) & (exponent.real == xp.rint(exponent.real)))
        out = xp.where(apart, xp.exp(exponent * xp.log(base)), out)
    return out


@op
class PowScalar(Elementwise):
    """pow_scalar(input, exponent) -> Tensor: a tensor to the power of a number."""

    node = "PowBackward0"
    aten = "pow.Tensor_Scalar"
    dtype = PROMOTE
    public = False
    formula = "input ** exponent"
    onnx = "Pow"
    nonfinite = "power"

    def fwd(xp, input, exponent):
        return power(xp, input, exponent)

    def d_input(F, grad, input, exponent):
        if exponent == 0:
            return F.zeros_like(grad)
        return grad * (exponent * F.pow_scalar(input, exponent - 1))


def integer_power(xp: Any, base: Any, exponent: Any) -> Any:
    """Of integers; 1 and -1 are the only ones whose negative powers are not zero."""
    if type(exponent) is not STATE.device_type and not np.any(exponent < 0):
        return xp.power(base, exponent)
    positive = xp.power(base, xp.where(exponent < 0, exponent & 1, exponent))
    return xp.where((exponent < 0) & (base != 1) & (base != -1), 0, positive).astype(positive.dtype)


def not_negative(F: Any, x: Any) -> Any:
    """Where `x` is a real number and at least zero."""
    if is_complex(x):
        real = F.real_part(x)
        return (x == real) & (real >= 0)
    return x >= 0


@op
class Pow(Elementwise):
    """pow(input, exponent) -> Tensor: a tensor to the power of a tensor."""

    tensors = ("input", "exponent")
    node = "PowBackward1"
    aten = "pow.Tensor_Tensor"
    dtype = PROMOTE
    public = False
    guard = not_for("pow", BOOL)
    autocast = Autocast(gpu=SINGLE)
    sign = "**"
    onnx = "Pow"
    nonfinite = "power"

    def fwd(xp, input, exponent):
        if input.dtype.kind in "iu":
            return integer_power(xp, input, exponent)
        return general_power(xp, input, exponent)

    def d_input(F, grad, input, exponent):
        return F.where(exponent == 0, 0, grad * (exponent * F.pow(input, exponent - 1)))

    def d_exponent(F, grad, input, exponent, out):
        # The limit at a base of zero is zero, where it exists.
        return grad * F.where((input == 0) & not_negative(F, exponent), 0, out * F.log(input))


@op
class PowOf(Elementwise):
    """pow_of(exponent, base) -> Tensor: a number to the power of a tensor."""

    tensors = ("exponent",)
    node = "PowBackward2"
    aten = "pow.Scalar"
    dtype = PROMOTE
    public = False
    nonfinite = "power"

    def fwd(xp, exponent, base):
        dtype = promote.scalar_result(exponent, base)
        if dtype.kind == "b":
            raise not_implemented("pow", dtypes.bool_)
        x = half_as_single(cast_value(exponent, dtype))
        if dtype.kind in "iu":
            return integer_power(xp, cast_value(base, dtype), x)
        if base == 1:
            return xp.ones_like(x, dtype=dtype)
        return cast_value(general_power(xp, x.dtype.type(number_beside(base, dtype, x)), x), dtype)

    def d_exponent(F, grad, exponent, out, base):
        if base == 0:
            return grad * F.where(not_negative(F, exponent), 0, out * -math.inf)
        if isinstance(base, complex) or is_complex(exponent):
            return grad * (out * cmath.log(base))
        return grad * F.mul_number(out, math.log(base) if base > 0 else math.nan)


POW_CASES = [
    Case(Draw(3, low=0.3), Draw(2, 3)),
    Case(Draw(3, 2, low=0.3, layout="T"), 2.5),
    Case(Draw(2), 3),
    Case(1.5, Draw(2, 2)),
    Case(Draw(), 2),
    Case(Draw(0, 2), 0.5),
]


@api(inplace=True, samples=POW_CASES, autocast=Autocast(gpu=SINGLE), foreach="power")
def pow(input: Any, exponent: Any, *, run: Any = None) -> Any:
    """pow(input, exponent) -> Tensor: powers; either side may be a number.

    >>> tensor([1.0, 2.0, 3.0]) ** 2
    tensor([1., 4., 9.])
    """
    if isinstance(input, TensorBase):
        if isinstance(exponent, TensorBase):
            return (run or apply)(Pow, (input, exponent))
        if is_number(exponent):
            if input._array.dtype.kind in "iu" or input._array.dtype.itemsize == 2:
                refuse_overflow((exponent,), input, exponent)
            return (run or apply)(PowScalar, (input,), (exponent,))
    elif isinstance(exponent, TensorBase) and is_number(input):
        return apply(PowOf, (exponent,), (input,))
    raise invalid_call("pow", input, exponent)


@api(inplace=True, samples=POW_CASES)
def float_power(input: Any, exponent: Any, *, run: Any = None) -> Any:
    """float_power(input, exponent) -> Tensor: `pow` in double precision.

    >>> float_power(tensor([2]), -1)
    tensor([0.5000], dtype=torch.float64)
    """
    tensors = [t for t in (input, exponent) if isinstance(t, TensorBase)]
    if not tensors or len(tensors) + is_number(input) + is_number(exponent) < 2:
        raise invalid_call("float_power", input, exponent)
    refuse_too_big(exponent)
    top = max([category(t._array if isinstance(t, TensorBase) else t) for t in (input, exponent)])
    dtype = dtypes.complex128 if top == COMPLEX else dtypes.float64
    if run is not None and input.dtype is not dtype:
        raise RuntimeError(
            f"the base given to float_power_ has dtype {input.dtype.scalar_type} but the "
            f"operation's result requires dtype {dtype.scalar_type}"
        )
    base, power_ = [
        t.to(dtype) if isinstance(t, TensorBase) else dtype.np.type(t).item()
        for t in (input, exponent)
    ]
    return pow(base, power_) if run is None else pow(base, power_, run=run)


@api(inplace=True, samples=unary_cases(), inplace_functions=("square_",))
def square(input: Any, *, run: Any = None) -> Any:
    """square(input) -> Tensor: the elements times themselves.

    >>> square(tensor([1.0, -2.0]))
    tensor([1., 4.])
    """
    return (run or apply)(PowScalar, (input,), (2,))


@api(function=False, method=False)
def rpow(input: Any, other: Any) -> Any:
    """rpow(input, other) -> Tensor: `other ** input`."""
    return pow(other, input)
