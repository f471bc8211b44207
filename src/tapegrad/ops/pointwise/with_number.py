"""A tensor and a number, as PyTorch writes it in C++: nodes of their own (AddBackward1 …)."""

from __future__ import annotations

from typing import Any

from ... import dtypes
from ...core.arguments import cast_value
from ...core.rounding import half_as_single
from ..block import PROMOTE, Elementwise, apply, op

# ruff: noqa: N805


class WithNumber(Elementwise):
    dtype = PROMOTE
    public = False


def apply_with_number(ufunc: Any, x: Any, number: Any) -> Any:
    """`ufunc` of an array and a number; integers give way to a number that is none."""
    if x.dtype.kind in "biu" and isinstance(number, float):
        x = x.astype(dtypes.default_np())
    out = ufunc(half_as_single(x), number)  # a complex number beside floats gives complex ones
    return out if isinstance(number, complex) else cast_value(out, x.dtype)


@op
class AddNumber(WithNumber):
    """add_number(input, number) -> Tensor: `input + number`."""

    node = "AddBackward1"
    formula = "input + number"
    aten = "add.Scalar"
    onnx = "Add"
    nonfinite = "difference"

    def fwd(xp, input, number):
        return apply_with_number(xp.add, input, number)

    def d_input(F, grad):
        return grad


@op
class SubNumber(WithNumber):
    """sub_number(input, number) -> Tensor: `input - number`."""

    node = "SubBackward1"
    formula = "input - number"
    aten = "sub.Scalar"
    onnx = "Sub"
    nonfinite = "difference"

    def fwd(xp, input, number):
        return apply_with_number(xp.subtract, input, number)

    def d_input(F, grad):
        return grad


@op
class MulNumber(WithNumber):
    """mul_number(input, number) -> Tensor: `input * number`."""

    node = "MulBackward1"
    formula = "input * number"
    aten = "mul.Scalar"
    onnx = "Mul"
    nonfinite = "product"

    def fwd(xp, input, number):
        return apply_with_number(xp.multiply, input, number)

    def d_input(F, grad, number):
        return F.mul_number(grad, number)


@op
class DivNumber(WithNumber):
    """div_number(input, number) -> Tensor: `input / number`."""

    node = "DivBackward1"
    formula = "input / number"
    aten = "div.Scalar"
    onnx = "Div"
    nonfinite = "division"

    def fwd(xp, input, number):
        return apply_with_number(xp.true_divide, input, float(number))

    def d_input(F, grad, number):
        return F.div_number(grad, number)


def add_number(t: Any, number: float) -> Any:
    return apply(AddNumber, (t,), (number,))


def sub_number(t: Any, number: float) -> Any:
    return apply(SubNumber, (t,), (number,))


def mul_number(t: Any, number: float) -> Any:
    return apply(MulNumber, (t,), (number,))


def div_number(t: Any, number: float) -> Any:
    return apply(DivNumber, (t,), (number,))
