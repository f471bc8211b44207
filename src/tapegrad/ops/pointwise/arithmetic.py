"""Arithmetic: one output element per pair of (broadcast) input elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import dtypes
from ...autograd.inplace import bump, write
from ...core import promote
from ...core.arguments import cast_value, number_beside
from ...core.base import F32, F64, STATE, TensorBase
from ...core.dispatch import binary, is_written_plainly, unary
from ...core.modes import MODES
from ...core.python_dispatch import ACTIVE
from ...core.rounding import half_as_single
from ..block import (
    PROMOTE,
    PROMOTE_FLOAT,
    SINGLE,
    Autocast,
    Case,
    Elementwise,
    api,
    apply,
    helper,
    op,
    ufunc,
)
from ..block.checks import (
    BOOL,
    COMPLEX,
    INTEGRAL,
    OUT_FOUND,
    as_number,
    category,
    common,
    invalid_call,
    is_number,
    is_wide_float,
    not_implemented,
    refuse_overflow,
    refuse_too_big,
)
from ..block.samples import Draw, binary_cases, unary_cases

# Rules are written for the real case; for complex tensors the engine conjugates around them.
# ruff: noqa: N805


class Arithmetic(Elementwise):
    tensors = ("input", "other")
    dtype = PROMOTE


# ---------------------------------------------------------------------- sums and products


@op
class Mul(Arithmetic):
    """mul(input, other) -> Tensor: elementwise product; shapes broadcast.

    >>> tensor([1.0, 2.0]) * tensor([3.0, 4.0])
    tensor([3., 8.])
    """

    aten = "mul.Tensor"
    aliases = ("multiply",)
    linear = True
    vmap_write = "inplace arithmetic"
    foreach = "binary"
    sign = "*"
    wide_numbers = True
    onnx = "Mul"
    nonfinite = "product"
    fwd = ufunc("multiply")

    def d_input(F, grad, other):
        return grad * other

    def d_other(F, grad, input):
        return grad * input


@op
class Add(Arithmetic):
    """add(input, other) -> Tensor: sum without a factor."""

    aten = "add.Tensor"
    public = False
    vmap_write = None
    sign = "+"
    onnx = "Add"
    nonfinite = "difference"
    fwd = ufunc("add")

    def d_input(F, grad):
        return grad

    def d_other(F, grad):
        return grad


def scaled(xp: Any, value: Any, alpha: Any) -> Any:
    """`alpha * value` in the dtype of `value`."""
    dtype = getattr(value, "dtype", None)
    return xp.multiply(value, alpha if dtype is None else cast_value(alpha, dtype))


HALF_VECTORS = 32  # elements that PyTorch's vector loops take at once in half precision


def term(xp: Any, other: Any, alpha: Any) -> Any:
    """`alpha * other`; of half precision in single, with the factor rounded to half."""
    wide = half_as_single(other)
    if wide is other:
        return scaled(xp, other, alpha)
    made = scaled(xp, wide, float(other.dtype.type(alpha)))
    if other.size < HALF_VECTORS:  # outside of PyTorch's vector loop the product is rounded too
        made = half_as_single(made.astype(other.dtype))
    return made


@op
class AddAlpha(Arithmetic):
    """add_alpha(input, other, alpha) -> Tensor: `add` with a factor on `other`."""

    node = "AddBackward0"
    aten = "add.Tensor"
    public = False
    vmap_write = None
    onnx = "Add"
    nonfinite = "difference"

    def fwd(xp, input, other, alpha):
        if type(alpha) is float and same_floats(input, other):
            return xp.add(input, xp.multiply(other, alpha))
        out = xp.add(half_as_single(input), term(xp, other, alpha))
        return cast_value(out, getattr(input, "dtype", out.dtype))

    def d_input(F, grad):
        return grad

    def d_other(F, grad, alpha):
        return grad * alpha


def same_floats(x: Any, y: Any) -> bool:
    """Single or double precision on both sides: nothing is promoted and nothing refused."""
    dtype = getattr(x, "dtype", None)
    return (dtype is F32 or dtype is F64) and getattr(y, "dtype", None) is dtype


def add_quietly(t: Any, other: Any, alpha: float) -> bool:
    """`t.add_(other, alpha=alpha)` as optimizers call it, under no_grad; False if it is not so."""
    if MODES.records or not isinstance(t, TensorBase) or not isinstance(other, TensorBase):
        return False
    if t._special or other._special or ACTIVE.modes or not is_written_plainly(t, False):
        return False
    x, y = t._array, other._array
    if not same_floats(x, y) or x.shape != y.shape or not x.flags.c_contiguous:
        return False
    if np.may_share_memory(x, y):
        return False
    into = getattr(AddAlpha.kernel, "into", None)
    if into is None or not into(x, x, y, alpha):
        x += y * alpha
    bump(t, "add_", False)
    return True


def check_alpha(alpha: Any, *operands: Any) -> None:
    """The factor must not lift the category of the result."""
    top = max([category(t._array if isinstance(t, TensorBase) else t) for t in operands])
    if isinstance(alpha, bool):
        if top != BOOL:
            raise RuntimeError("Boolean alpha only supported for Boolean results.")
    elif isinstance(alpha, (float, complex)) and top <= INTEGRAL:
        raise RuntimeError(
            "For integral input tensors, argument alpha must not be a floating point number."
        )
    elif isinstance(alpha, complex) and top != COMPLEX:
        raise RuntimeError(
            "For non-complex input tensors, argument alpha must not be a complex number."
        )
    refuse_overflow((alpha,), *operands)


@api(
    inplace=True, samples=[*binary_cases(), Case(Draw(2, 3), Draw(3), alpha=-2.5)], foreach="alpha"
)
def add(input: Any, other: Any, *, alpha: Any = 1, run: Any = None) -> Any:
    """add(input, other, *, alpha=1) -> Tensor: `input + alpha * other`; shapes broadcast.

    >>> add(tensor([1.0, 2.0]), tensor([10.0, 20.0]), alpha=2)
    tensor([21., 42.])
    """
    if type(alpha) is int and alpha == 1:
        return binary(Add, input, other) if run is None else run(Add, (input, other))
    if run is write and type(alpha) is float and add_quietly(input, other, alpha):
        return input
    alpha = as_number("add", "alpha", alpha, run)
    check_alpha(alpha, input, other)
    return (run or apply)(AddAlpha, (input, other), (alpha,))


def refuse_bools(*values: Any) -> None:
    """Subtraction takes no bools."""
    bools = [category(v) == BOOL for v in values]
    if all(bools) and len(bools) > 1:
        raise RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
            "`logical_xor()` operator instead."
        )
    if any(bools):
        raise RuntimeError(
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying "
            "to invert a mask, use the `~` or `logical_not()` operator instead."
        )


@op
class Sub(Arithmetic):
    """sub(input, other) -> Tensor: difference without a factor."""

    aten = "sub.Tensor"
    public = False
    guard = refuse_bools
    vmap_write = "inplace arithmetic"
    sign = "-"
    onnx = "Sub"
    nonfinite = "difference"
    fwd = ufunc("subtract")

    def d_input(F, grad):
        return grad

    def d_other(F, grad):
        return -grad


@op
class SubAlpha(Arithmetic):
    """sub_alpha(input, other, alpha) -> Tensor: `sub` with a factor on `other`."""

    node = "SubBackward0"
    aten = "sub.Tensor"
    public = False
    guard = refuse_bools
    vmap_write = "inplace arithmetic"
    onnx = "Sub"
    nonfinite = "difference"

    def fwd(xp, input, other, alpha):
        out = xp.subtract(half_as_single(input), term(xp, other, alpha))
        return cast_value(out, getattr(input, "dtype", out.dtype))

    def d_input(F, grad):
        return grad

    def d_other(F, grad, alpha):
        return grad * -alpha


@api(
    inplace=True,
    aliases=("subtract",),
    samples=[*binary_cases(), Case(Draw(2, 3), Draw(3), alpha=0.5)],
    foreach="alpha",
)
def sub(input: Any, other: Any, *, alpha: Any = 1, run: Any = None) -> Any:
    """sub(input, other, *, alpha=1) -> Tensor: `input - alpha * other`; shapes broadcast.

    >>> sub(tensor([1.0, 2.0]), 1)
    tensor([0., 1.])
    """
    if type(alpha) is int and alpha == 1:
        return binary(Sub, input, other) if run is None else run(Sub, (input, other))
    refuse_bools(*[t._array if isinstance(t, TensorBase) else t for t in (input, other)])
    alpha = as_number("sub", "alpha", alpha, run)
    check_alpha(alpha, input, other)
    return (run or apply)(SubAlpha, (input, other), (alpha,))


@op
class Rsub(Arithmetic):
    """rsub(input, other, alpha) -> Tensor: `other - alpha * input` of two tensors."""

    aten = "rsub.Tensor"
    public = False
    guard = refuse_bools

    def fwd(xp, input, other, alpha):
        return cast_value(
            xp.subtract(half_as_single(other), scaled(xp, half_as_single(input), alpha)),
            input.dtype,
        )

    def d_input(F, grad, alpha):
        return grad * -alpha

    def d_other(F, grad):
        return grad


@op
class RsubScalar(Elementwise):
    """rsub_scalar(input, number, alpha) -> Tensor: `number - alpha * input`."""

    node = "RsubBackward1"
    aten = "rsub.Scalar"
    dtype = PROMOTE
    public = False

    def fwd(xp, input, number, alpha):
        if alpha == 1 and is_wide_float(input, number):
            return xp.subtract(number, input)
        refuse_bools(input, number)
        dtype = promote.scalar_result(input, number)
        x = half_as_single(cast_value(input, dtype))
        if alpha != 1:
            x = scaled(xp, x, number_beside(alpha, dtype, x))
        return cast_value(xp.subtract(number_beside(number, dtype, x), x), dtype)

    def d_input(F, grad, alpha):
        return -grad if alpha == 1 else grad * -alpha


@api(
    method=False, samples=[Case(Draw(2, 3), Draw(3)), Case(Draw(2), 1.5), Case(Draw(2), 2, alpha=3)]
)
def rsub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """rsub(input, other, *, alpha=1) -> Tensor: `other - alpha * input`.

    >>> rsub(tensor([1.0, 2.0]), 5)
    tensor([4., 3.])
    """
    if not isinstance(input, TensorBase) or not (isinstance(other, TensorBase) or is_number(other)):
        raise invalid_call("rsub", input, other)
    if type(alpha) is not int:
        refuse_bools(input._array, other._array if isinstance(other, TensorBase) else other)
        check_alpha(alpha, input, other)
    refuse_too_big(alpha)
    if isinstance(other, TensorBase):
        return apply(Rsub, (input, other), (alpha,))
    return apply(RsubScalar, (input,), (other, alpha))


def no_negation(value: Any) -> None:
    if value.dtype.kind == "b":
        raise RuntimeError(
            "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to "
            "invert a mask, use the `~` or `logical_not()` operator instead."
        )


@op
class Neg(Elementwise):
    """neg(input) -> Tensor: the elements with their signs changed.

    >>> -tensor([1.0, -2.0])
    tensor([-1.,  2.])
    """

    aliases = ("negative",)
    dtype = PROMOTE
    linear = True
    guard = no_negation
    inplace_functions = ("neg_", "negative_")
    out_dtype = OUT_FOUND
    keeps_finite = True
    foreach = "unary"
    sign = "-"
    onnx = "Neg"
    fwd = ufunc("negative")

    def d_input(F, grad):
        return -grad


@api(samples=unary_cases())
def positive(input: Any) -> Any:
    """positive(input) -> Tensor: the tensor itself, unless it is of bools.

    >>> positive(tensor([-1.0, 2.0]))
    tensor([-1.,  2.])
    """
    if input._array.dtype.kind == "b":
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


# ---------------------------------------------------------------------- quotients


@op
class Div(Arithmetic):
    """div(input, other) -> Tensor: another name of `div`: the quotient, not rounded."""

    aten = "div.Tensor"
    dtype = PROMOTE_FLOAT
    public = False
    vmap_write = "inplace arithmetic"
    sign = "/"
    wide_numbers = True
    onnx = "Div"
    nonfinite = "division"
    fwd = ufunc("true_divide")

    def d_input(F, grad, other):
        return grad / other

    def d_other(F, grad, input, other):
        return -grad * ((input / other) / other)


def number_over(number: Any, input: Any) -> Any:
    """`number / input` in one step, where `/` of tensors would make two of it."""
    return apply(Div, (number, input))


helper(
    "number_over",
    lambda number, x: cast_value(cast_value(number, x.dtype) / x, x.dtype),
    number_over,
    "number / input",
)


def dtype_of(*values: Any) -> Any:
    """The dtype of operands that have been brought to one; some of them may be numbers."""
    for v in values:
        if hasattr(v, "dtype"):
            return v.dtype
    return common(*values).np


def check_divisor(kernel: str, input: Any, other: Any) -> None:
    """Integers must not be divided by zero; bools and complex numbers have no remainders."""
    kind = dtype_of(input, other).kind
    if kind in "bc":
        raise not_implemented(kernel, dtypes.of(dtype_of(input, other)))
    if kind in "iu" and type(other) is not STATE.device_type and np.any(other == 0):
        raise RuntimeError("ZeroDivisionError")


def quotient(xp: Any, input: Any, other: Any, mode: str) -> Any:
    """The quotient rounded towards zero ("trunc") or downwards ("floor")."""
    check_divisor(f"div_{mode}_cpu", input, other)
    if mode == "floor":
        return xp.floor_divide(input, other)
    if dtype_of(input, other).kind in "iu":
        return (input - xp.fmod(input, other)) // other
    exact = xp.true_divide(half_as_single(input), half_as_single(other))
    return xp.trunc(cast_value(exact, dtype_of(input, other)))


@op
class DivMode(Arithmetic):
    """div_mode(input, other, mode) -> Tensor: the quotient rounded to an integer."""

    node = "DivBackward2"
    aten = "div.Tensor_mode"
    public = False
    wide_numbers = True
    formula = "mode(input / other)"
    nonfinite = "division"

    def fwd(xp, input, other, mode):
        return quotient(xp, input, other, mode)

    def d_input(F, grad):
        return F.zeros_like(grad)

    def d_other(F, grad):
        return F.zeros_like(grad)


DIV_CASES = [
    *binary_cases(low=0.5, high=3.0),
    Case(Draw(3, 2), Draw(2, low=0.5), rounding_mode="trunc"),
    Case(Draw(3), 0.75, rounding_mode="floor"),
]


@api(inplace=True, aliases=("divide",), samples=DIV_CASES, foreach="binary")
def div(input: Any, other: Any, *, rounding_mode: Any = None, run: Any = None) -> Any:
    """div(input, other, *, rounding_mode=None) -> Tensor: the quotient; a mode rounds it.

    >>> tensor([1, 2]) / 2
    tensor([0.5000, 1.0000])
    >>> div(tensor([-7.0, 7.0]), 2, rounding_mode="floor")
    tensor([-4.,  3.])
    """
    if rounding_mode is None:
        return binary(Div, input, other) if run is None else run(Div, (input, other))
    if rounding_mode not in ("trunc", "floor"):
        raise RuntimeError(
            "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found "
            f"'{rounding_mode}'"
        )
    return (run or apply)(DivMode, (input, other), (rounding_mode,))


@api(inplace=True, samples=binary_cases(low=0.5, high=3.0))
def true_divide(input: Any, other: Any, *, run: Any = None) -> Any:
    """true_divide(input, other) -> Tensor: another name of `div`: the quotient, not rounded.

    >>> true_divide(tensor([3]), 2)
    tensor([1.5000])
    """
    return binary(Div, input, other) if run is None else run(Div, (input, other))


@op
class Reciprocal(Elementwise):
    """reciprocal(input) -> Tensor: one divided by each element.

    >>> reciprocal(tensor([2.0, 4.0]))
    tensor([0.5000, 0.2500])
    """

    autocast = Autocast(gpu=SINGLE)
    inplace_functions = ("reciprocal_",)
    foreach = "unary"
    onnx = "Reciprocal"
    nonfinite = "division"
    samples = unary_cases(low=0.3)
    fwd = ufunc("reciprocal")

    def d_input(F, grad, out):
        return -grad * (out * out)


def no_derivative(name: str) -> RuntimeError:
    return RuntimeError(f"derivative for aten::{name} is not implemented")


@op
class FloorDivide(Arithmetic):
    """floor_divide(input, other) -> Tensor: the quotient rounded downwards.

    >>> tensor([7, -7]) // 2
    tensor([ 3, -4])
    """

    node = "torch::autograd::NotImplemented"
    wide_numbers = True
    nearest = "torch.div for the quotient itself: rounding has no slope"

    def fwd(xp, input, other):
        return quotient(xp, input, other, "floor")

    def d_input(F, grad):
        raise no_derivative("floor_divide")

    def d_other(F, grad):
        raise no_derivative("floor_divide")


def remainder_of(xp: Any, input: Any, other: Any) -> Any:
    """The remainder with the sign of the divisor; a zero keeps the sign of the dividend."""
    check_divisor("remainder_cpu", input, other)
    if dtype_of(input, other).kind in "iu":
        return xp.remainder(input, other)
    rest = xp.fmod(input, other)
    return xp.where((rest != 0) & (xp.less(other, 0) != (rest < 0)), rest + other, rest)


@op
class Remainder(Arithmetic):
    """remainder(input, other) -> Tensor: what is left of a division, signed like the divisor."""

    node = "RemainderBackward1"
    aten = "remainder.Tensor"
    public = False

    def fwd(xp, input, other):
        return remainder_of(xp, input, other)

    def d_input(F, grad):
        return grad

    def d_other(F, grad, input, other):
        return -grad * F.div_mode(input, other, "floor")


@op
class RemainderScalar(Elementwise):
    """remainder_scalar(input, number) -> Tensor: `input % number`."""

    node = "RemainderBackward0"
    aten = "remainder.Scalar"
    dtype = PROMOTE
    public = False

    def fwd(xp, input, number):
        dtype = promote.scalar_result(input, number)
        x = half_as_single(cast_value(input, dtype))
        return cast_value(remainder_of(xp, x, number_beside(number, dtype, x)), dtype)

    def d_input(F, grad):
        return grad


@op
class RemainderOf(Elementwise):
    """remainder_of(other, number) -> Tensor: `number % other`."""

    tensors = ("other",)
    node = "torch::autograd::NotImplemented"
    aten = "remainder.Scalar_Tensor"
    dtype = PROMOTE
    public = False

    def fwd(xp, other, number):
        dtype = promote.scalar_result(other, number)
        x = half_as_single(cast_value(other, dtype))
        return cast_value(remainder_of(xp, number_beside(number, dtype, x), x), dtype)

    def d_other(F, grad):
        raise no_derivative("remainder")


REST_CASES = [
    Case(Draw(3, 4), Draw(4, low=0.5)),
    Case(Draw(2, 3), 0.75),
    Case(Draw(), Draw(low=0.6)),
    Case(Draw(0, 2), 1.5),
    Case(Draw(2, 3, layout="T"), Draw(2, 1, low=1.0)),
]


@api(inplace=True, samples=REST_CASES)
def remainder(input: Any, other: Any, *, run: Any = None) -> Any:
    """remainder(input, other) -> Tensor: what is left of a division, signed like the divisor.

    >>> tensor([7, -7]) % 3
    tensor([1, 2])
    """
    if isinstance(input, TensorBase):
        if isinstance(other, TensorBase):
            return (run or apply)(Remainder, (input, other))
        if is_number(other):
            refuse_too_big(other)
            return (run or apply)(RemainderScalar, (input,), (other,))
    elif isinstance(other, TensorBase) and is_number(input) and run is None:
        refuse_too_big(input)
        return apply(RemainderOf, (other,), (input,))
    raise invalid_call("remainder", input, other)


@op
class Fmod(Arithmetic):
    """fmod(input, other) -> Tensor: what is left of a division, signed like the dividend."""

    node = "FmodBackward1"
    aten = "fmod.Tensor"
    public = False

    def fwd(xp, input, other):
        check_divisor("fmod_cpu", input, other)
        return xp.fmod(input, other)

    def d_input(F, grad):
        return grad

    def d_other(F, grad, input, other):
        return -grad * F.div_mode(input, other, "trunc")


@op
class FmodScalar(Elementwise):
    """fmod_scalar(input, number) -> Tensor: `fmod` with a number."""

    node = "FmodBackward0"
    aten = "fmod.Scalar"
    dtype = PROMOTE
    public = False

    def fwd(xp, input, number):
        dtype = promote.scalar_result(input, number)
        x = half_as_single(cast_value(input, dtype))
        divisor = number_beside(number, dtype, x)
        check_divisor("fmod_cpu", x, divisor)
        return cast_value(xp.fmod(x, divisor), dtype)

    def d_input(F, grad):
        return grad


@api(inplace=True, samples=REST_CASES)
def fmod(input: Any, other: Any, *, run: Any = None) -> Any:
    """fmod(input, other) -> Tensor: what is left of a division, signed like the dividend.

    >>> fmod(tensor([7.0, -7.0]), 3)
    tensor([ 1., -1.])
    """
    if not isinstance(input, TensorBase) or not (isinstance(other, TensorBase) or is_number(other)):
        raise invalid_call("fmod", input, other)
    if isinstance(other, TensorBase):
        return (run or apply)(Fmod, (input, other))
    return (run or apply)(FmodScalar, (input,), (other,))


# ---------------------------------------------------------------------- reflected operators


@api(function=False, method=False)
def rdiv(input: Any, other: Any) -> Any:
    """rdiv(input, other) -> Tensor: `other / input`."""
    return binary(Mul, unary(Reciprocal, input), other)


@api(function=False, method=False)
def rfloordiv(input: Any, other: Any) -> Any:
    """rfloordiv(input, other) -> Tensor: `other // input`."""
    return apply(FloorDivide, (other, input))


@api(function=False, method=False)
def rmod(input: Any, other: Any) -> Any:
    """rmod(input, other) -> Tensor: `other % input`."""
    return remainder(other, input)
