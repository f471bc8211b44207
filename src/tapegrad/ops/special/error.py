"""Relatives of the error function and of x log x: normal distributions, entropies, logits."""

from __future__ import annotations

import math
from typing import Any

from ...core.arguments import cast_value
from ...core.base import TensorBase
from ...core.rounding import half_as_single
from ..block import SINGLE, Autocast, Case, Elementwise, api, apply, op
from ..block.checks import COMPLEX, invalid_call, is_number, not_for, only_wide, refuse_too_big
from ..block.samples import Draw, Index, binary_cases, unary_cases
from ..pointwise.transcendental import Erf
from ..pointwise.with_number import add_number, mul_number
from .kernels import pointwise
from .kernels_error import erfcx, erfinv, log_ndtr, ndtri

# ruff: noqa: N805

SQRT_HALF = math.sqrt(0.5)


@op
class Erfinv(Elementwise):
    """erfinv(input) -> Tensor: the inverse of the error function.

    >>> erfinv(tensor([0.0, 0.5]))
    tensor([0.0000, 0.4769])
    """

    aliases = ("special.erfinv",)
    guard = not_for("erfinv_vml_cpu", COMPLEX)
    autocast = Autocast(gpu=SINGLE)
    samples = unary_cases(low=-0.95, high=0.95)

    def fwd(xp, input):
        return pointwise(xp, erfinv, input)

    def d_input(F, grad, out):
        return F.mul_number(F.exp(out**2), 0.5 * math.sqrt(math.pi)) * grad


class Named(Elementwise):
    """Published in `special` only."""

    inplace = False


@op
class SpecialErfcx(Named):
    """special.erfcx(input) -> Tensor: `exp(input ** 2) * erfc(input)` without underflow.

    >>> torch.special.erfcx(tensor([0.0, 1.0]))
    tensor([1.0000, 0.4276])
    """

    name = "special.erfcx"
    guard = only_wide("erfcx_cpu")
    samples = [*unary_cases(), Case(Draw(4, low=2.0, high=3.0))]

    def fwd(xp, input):
        return pointwise(xp, erfcx, input)

    def d_input(F, grad, input, out):
        return (2 * input * out - 2 / math.sqrt(math.pi)) * grad


# ---------------------------------------------------------------------- the normal distribution


@api(name="special.ndtr", samples=unary_cases())
def special_ndtr(input: Any) -> Any:
    """special.ndtr(input) -> Tensor: the distribution function of the standard normal distribution.

    >>> torch.special.ndtr(tensor([0.0, 1.0]))
    tensor([0.5000, 0.8413])
    """
    return mul_number(add_number(apply(Erf, (mul_number(input, SQRT_HALF),)), 1), 0.5)


@op
class SpecialNdtri(Named):
    """special.ndtri(input) -> Tensor: the quantiles of the standard normal distribution.

    >>> torch.special.ndtri(tensor([0.5, 0.9]))
    tensor([0.0000, 1.2816])
    """

    name = "special.ndtri"
    guard = only_wide("ndtri_cpu")
    samples = unary_cases(low=0.05, high=0.95)

    def fwd(xp, input):
        return pointwise(xp, ndtri, input)

    def d_input(F, grad, out):
        return grad * math.sqrt(2 * math.pi) * F.exp(0.5 * out**2)


@op
class SpecialLogNdtr(Named):
    """special.log_ndtr(input) -> Tensor: the logarithm of `special.ndtr`, without underflow.

    >>> torch.special.log_ndtr(tensor([-10.0, 0.0]))
    tensor([-53.2313,  -0.6931])
    """

    name = "special.log_ndtr"
    guard = only_wide("log_ndtr_cpu")
    samples = unary_cases(low=-4.0)

    def fwd(xp, input):
        return pointwise(xp, log_ndtr, input)

    def d_input(F, grad, input, out):
        return grad / math.sqrt(2 * math.pi) * F.exp(-(out + input**2 / 2))


# ---------------------------------------------------------------------- logarithms of what may be 0


@op
class SpecialEntr(Named):
    """special.entr(input) -> Tensor: `-input * log(input)`, zero at zero.

    >>> torch.special.entr(tensor([0.0, 0.5]))
    tensor([0.0000, 0.3466])
    """

    name = "special.entr"
    guard = not_for("entr_cpu", COMPLEX)
    samples = unary_cases(low=0.1)

    def fwd(xp, input):
        x = half_as_single(input)
        value = -x * half_as_single(xp.log(input))
        out = xp.where(x > 0, value, xp.where(x == 0, 0.0, -math.inf))
        return cast_value(xp.where(xp.isnan(x), x, out), input.dtype)

    def d_input(F, grad, input):
        return grad * (-F.log(input) - 1)


@op
class Logit(Elementwise):
    """logit(input, eps=None) -> Tensor: `log(input / (1 - input))`; `eps` keeps off 0 and 1.

    >>> logit(tensor([0.5, 0.9]))
    tensor([0.0000, 2.1972])
    """

    aliases = ("special.logit",)
    guard = not_for("logit_cpu", COMPLEX)
    inplace_functions = ("logit_",)
    samples = [
        *unary_cases(low=0.1, high=0.9),
        Case(Draw(4, low=0.05, high=0.95), 0.25),
        Case(Draw(2, 3, low=0.2, high=0.8), eps=0.01),
    ]

    def fwd(xp, input, eps):
        one = input.dtype.type(1)
        if eps is not None:
            low = input.dtype.type(eps)
            high = one - low
            input = xp.where(input < low, low, xp.where(input > high, high, input))
        return xp.log(input / (one - input))

    def call(input, eps=None, *, run=None):
        if eps is not None and (isinstance(eps, TensorBase) or not is_number(eps)):
            name, at = ("logit_", 1) if run else ("logit", 2)
            kind = "Tensor" if isinstance(eps, TensorBase) else type(eps).__name__
            raise TypeError(f"{name}(): argument 'eps' (position {at}) must be float, not {kind}")
        return (run or apply)(Logit, (input,), (None if eps is None else float(eps),))

    def d_input(F, grad, input, eps):
        low, high, outside = (0.0, 1.0, math.nan) if eps is None else (eps, 1 - eps, 0.0)
        inside = (input >= low) & (input <= high)
        return F.where(inside, grad / (input * (1 - input)), outside)


@op
class Sinc(Elementwise):
    """sinc(input) -> Tensor: `sin(πx) / πx`, one at zero.

    >>> sinc(tensor([0.0, 0.5]))
    tensor([1.0000, 0.6366])
    """

    aliases = ("special.sinc",)
    inplace_functions = ("sinc_",)

    def fwd(xp, input):
        x = half_as_single(input)
        turned = x * x.dtype.type(math.pi)
        safe = xp.where(x == 0, x.dtype.type(1), turned)
        return cast_value(xp.where(x == 0, x.dtype.type(1), xp.sin(safe) / safe), input.dtype)

    def d_input(F, grad, input):
        turned = F.mul_number(input, math.pi)
        below = F.mul_number(input * input, math.pi)
        slope = grad * ((turned * F.cos(turned) - F.sin(turned)) / below)
        return F.where(below == 0, 0.0, slope)


def product_with_log(xp: Any, x: Any, y: Any, log: Any) -> Any:
    """x log(y), zero where x is, unless y is no number; in the dtype of the arrays."""
    dtype = next(v.dtype for v in (x, y) if hasattr(v, "dtype"))
    x, y = cast_value(x, dtype), cast_value(y, dtype)
    value = half_as_single(x) * half_as_single(log(y))
    zero = xp.equal(x, 0) & ~xp.isnan(y)
    return cast_value(xp.where(zero, value.dtype.type(0), value), dtype)


class WithLog(Elementwise):
    public = False


def log_slope(F: Any, name: str, grad: Any, input: Any, other: Any, edge: float) -> Any:
    """The slope in the first factor: zero, not infinite, where nothing is multiplied."""
    return F.where((input == 0) & (other <= edge), 0.0, getattr(F, name)(grad, other))


@op
class Xlogy(WithLog):
    """xlogy(input, other) -> Tensor: the op behind the function, of two tensors."""

    aten = "xlogy.Tensor"
    tensors = ("input", "other")
    guard = not_for("xlogy_cpu", COMPLEX)

    def fwd(xp, input, other):
        return product_with_log(xp, input, other, xp.log)

    def d_input(F, grad, input, other):
        return log_slope(F, "xlogy", grad, input, other, 0.0)

    def d_other(F, grad, input, other):
        return grad * input / other


@op
class XlogyFrom(WithLog):
    """xlogy_from(other, number) -> Tensor: `xlogy` with a number in front."""

    node = "XlogyBackward1"
    aten = "xlogy.Scalar_Self"
    tensors = ("other",)
    guard = not_for("xlogy_cpu", COMPLEX)

    def fwd(xp, other, number):
        return product_with_log(xp, number, other, xp.log)

    def d_other(F, grad, other, number):
        return grad * number / other


@op
class XlogyOf(WithLog):
    """xlogy_of(input, number) -> Tensor: `xlogy` with a number inside the logarithm."""

    node = "XlogyBackward2"
    aten = "xlogy.Scalar_Other"
    guard = not_for("xlogy_cpu", COMPLEX)

    def fwd(xp, input, number):
        return product_with_log(xp, input, number, xp.log)

    def d_input(F, grad, input, number):
        slope = F.xlogy_of(grad, number)
        return F.where(input == 0, 0.0, slope) if number <= 0 else slope


@op
class SpecialXlog1Py(WithLog):
    """xlog1py(input, other) -> Tensor: the op behind the function, of two tensors."""

    name = "special.xlog1py"
    aten = "special_xlog1py"
    tensors = ("input", "other")
    guard = not_for("xlog1py_cpu", COMPLEX)

    def fwd(xp, input, other):
        return product_with_log(xp, input, other, xp.log1p)

    def d_input(F, grad, input, other):
        return log_slope(F, "special_xlog1py", grad, input, other, -1.0)

    def d_other(F, grad, input, other):
        return grad * input / (other + 1)


@op
class SpecialXlog1PyFrom(WithLog):
    """xlog1py_from(other, number) -> Tensor: `xlog1py` with a number in front."""

    name = "special.xlog1py_from"
    node = "SpecialXlog1PyBackward1"
    aten = "special_xlog1py.self_scalar"
    tensors = ("other",)
    guard = not_for("xlog1py_cpu", COMPLEX)

    def fwd(xp, other, number):
        return product_with_log(xp, number, other, xp.log1p)

    def d_other(F, grad, other, number):
        return grad * number / (other + 1)


@op
class SpecialXlog1PyOf(WithLog):
    """xlog1py_of(input, number) -> Tensor: `xlog1py` with a number inside the logarithm."""

    name = "special.xlog1py_of"
    node = "SpecialXlog1PyBackward2"
    aten = "special_xlog1py.other_scalar"
    guard = not_for("xlog1py_cpu", COMPLEX)

    def fwd(xp, input, number):
        return product_with_log(xp, input, number, xp.log1p)

    def d_input(F, grad, input, number):
        slope = F.special_xlog1py_of(grad, number)
        return F.where(input == 0, 0.0, slope) if number <= -1 else slope


def choose(name: str, blocks: tuple[Any, Any, Any], input: Any, other: Any, run: Any) -> Any:
    """The block for two tensors, for a number in front, or for a number behind."""
    both, front, behind = blocks
    for tensor, number in ((input, other), (other, input)):
        if isinstance(tensor, TensorBase) and isinstance(number, complex):
            both.guard(tensor._array, number)
    if isinstance(input, TensorBase):
        if isinstance(other, TensorBase):
            return run(both, (input, other))
        if is_number(other):
            refuse_too_big(other)
            return run(behind, (input,), (other,))
    elif isinstance(other, TensorBase) and is_number(input) and run is apply:
        refuse_too_big(input)
        return apply(front, (other,), (input,))
    raise invalid_call(name, input, other)


LOG_CASES = [
    *binary_cases(low=0.2)[:-1],
    Case(Draw(2, 3), 1.5),
    Case(1.5, Draw(3, low=0.2)),
    Case(Index([0, 2]), Draw(2, low=0.2)),
]


XLOGY = (Xlogy, XlogyFrom, XlogyOf)
XLOG1PY = (SpecialXlog1Py, SpecialXlog1PyFrom, SpecialXlog1PyOf)


@api(inplace=True, samples=LOG_CASES, inplace_functions=("xlogy_",))
def xlogy(input: Any, other: Any, *, run: Any = apply) -> Any:
    """xlogy(input, other) -> Tensor: `input * log(other)`, zero where `input` is zero.

    >>> xlogy(tensor([0.0, 2.0]), tensor([0.0, 3.0]))
    tensor([0.0000, 2.1972])
    """
    return choose("xlogy", XLOGY, input, other, run)


@api(name="special.xlogy", samples=LOG_CASES)
def special_xlogy(input: Any, other: Any) -> Any:
    """special.xlogy(input, other) -> Tensor: `input * log(other)`, zero where `input` is zero.

    >>> torch.special.xlogy(tensor([0.0, 2.0]), 3)
    tensor([0.0000, 2.1972])
    """
    return choose("special_xlogy", XLOGY, input, other, apply)


@api(name="special.xlog1py", samples=LOG_CASES)
def special_xlog1py(input: Any, other: Any) -> Any:
    """special.xlog1py(input, other) -> Tensor: `input * log1p(other)`, zero where `input` is zero.

    >>> torch.special.xlog1py(tensor([0.0, 2.0]), tensor([-1.0, 3.0]))
    tensor([0.0000, 2.7726])
    """
    return choose("special_xlog1py", XLOG1PY, input, other, apply)
