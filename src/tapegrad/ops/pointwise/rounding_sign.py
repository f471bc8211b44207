"""Parts of a number: size, sign, angle, conjugate, the integers nearby, what is finite of it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import dtypes
from ...core.arguments import cast_value
from ...core.base import STATE, TensorBase, wrap
from ...core.devices import xp_of
from ...core.host_arrays import host
from ...core.late_bound import ON_DEMAND
from ...core.modes import MODES
from ...core.python_dispatch import same_always
from ...core.rounding import half_as_single
from ...core.rule_functions import RAW
from ...core.transforms.batched import physical_array
from ...core.wrappers import Nowhere
from ..block import APIS, PROMOTE, Case, Elementwise, api, apply, helper, op, ufunc
from ..block.checks import (
    BOOL,
    COMPLEX,
    INTEGRAL,
    OUT_FOUND,
    invalid_call,
    is_complex,
    is_number,
    not_for,
    not_implemented,
    only_tensors,
    refuse_too_big,
)
from ..block.samples import Draw, binary_cases, unary_cases
from ..shape.bit_views import conjugate_view

# Rules are written for the real case; for complex tensors the engine conjugates around them, except
# where `wirtinger` says that the rule spells it out.
# ruff: noqa: N805


class Same(Elementwise):
    """The result has the dtype of the input."""

    dtype = PROMOTE


class Flat(Same):
    """Piecewise constant: the derivative is zero wherever there is one."""

    def d_input(F, grad):
        return F.zeros_like(grad)


# ---------------------------------------------------------------------- size, sign, angle


@op
class Abs(Same):
    """abs(input) -> Tensor: absolute values; for complex numbers their lengths.

    >>> abs(tensor([-1.0, 2.0]))
    tensor([1., 2.])
    """

    aliases = ("absolute",)
    wirtinger = True
    guard = not_for("abs_cpu", BOOL)
    inplace_functions = ("abs_",)
    out_dtype = OUT_FOUND
    keeps_finite = True
    foreach = "unary"
    onnx = "Abs"
    fwd = ufunc("absolute")

    def call(input, *, run=None):
        if run is not None and input._array.dtype.kind == "c":
            raise RuntimeError("In-place abs is not supported for complex tensors.")
        return (run or apply)(Abs, (input,))

    def d_input(F, grad, input):
        return grad * F.sgn(input)

    def jvp(F, input, t_input):
        return F.real_part(t_input * F.conj(F.sgn(input)))


def sign_of(xp: Any, x: Any) -> Any:
    """-1, 0 or 1; the sign of nan is 0."""
    if x.dtype.kind in "bu":
        return (x > 0).astype(x.dtype)
    return (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype)


def no_complex_sign(input: Any) -> None:
    if input.dtype.kind == "c":
        raise NotImplementedError(
            "Unlike NumPy, torch.sign is not intended to support complex numbers. Please use "
            "torch.sgn instead."
        )


@op
class Sign(Flat):
    """sign(input) -> Tensor: -1 for negative elements, 0 for zeros, 1 for positive ones.

    >>> sign(tensor([-2.0, 0.0, 3.0]))
    tensor([-1.,  0.,  1.])
    """

    guard = no_complex_sign
    out_dtype = OUT_FOUND
    keeps_finite = True
    foreach = "unary"
    onnx = "Sign"

    def fwd(xp, input):
        return sign_of(xp, input)


@op
class Sgn(Same):
    """sgn(input) -> Tensor: `sign`; complex numbers divided by their lengths.

    >>> sgn(tensor([3 + 4j, 0]))
    tensor([0.6000+0.8000j, 0.0000+0.0000j])
    """

    wirtinger = True
    out_dtype = OUT_FOUND

    def fwd(xp, input):
        if input.dtype.kind != "c":
            return sign_of(xp, input)
        size = xp.abs(input)
        return xp.where(size == 0, 0, input / size).astype(input.dtype)

    def d_input(F, grad, input, out):
        return turn(F, grad, input, out)

    def jvp(F, input, t_input, out):
        return turn(F, t_input, input, out)


def turn(F: Any, change: Any, input: Any, out: Any) -> Any:
    """How the direction of `input` changes with it: zero for reals. Self-adjoint."""
    if is_complex(input):
        along = F.real_part(change * F.conj(out)) * out
        return F.where(input == 0, 0, (change - along) / F.abs(input))
    return F.zeros_like(change)


@op
class Angle(Elementwise):
    """angle(input) -> Tensor: the angles of complex numbers; 0 or pi for real ones.

    >>> angle(tensor([1j, -1.0]))
    tensor([1.5708, 3.1416])
    """

    inplace = False
    wirtinger = True

    def fwd(xp, input):
        if input.dtype.kind == "c":
            # Unlike that of other elementwise ops, the result is laid out row by row.
            return xp.asarray(xp.arctan2(input.imag, input.real), order="C")
        side = xp.where(input < 0, math.pi, 0.0).astype(input.dtype)
        return xp.where(xp.isnan(input), input, side)

    def d_input(F, grad, input):
        if is_complex(input):
            return F.where(input == 0, 0, grad * (input * 1j) / F.abs(input) ** 2)
        return F.zeros_like(grad)

    def jvp(F, input, t_input):
        if is_complex(input):
            turned = F.real_part(t_input * F.conj(input * 1j))
            return F.where(input == 0, 0, turned / F.abs(input) ** 2)
        return F.zeros_like(t_input)


@op
class Conj(Same):
    """conj(input) -> Tensor: complex conjugates, as a view; a real tensor itself.

    >>> conj(tensor([1 + 2j]))
    tensor([1.-2.j])
    """

    aten = "_conj"
    inplace = False
    wirtinger = True
    fwd = ufunc("conjugate")

    def call(input):
        return input if input._array.dtype.kind != "c" else conjugate_view(input)

    def d_input(F, grad):
        return F.conj(grad)

    def jvp(F, t_input):
        return F.conj(t_input)


@op
class ConjPhysical(Same):
    """conj_physical(input) -> Tensor: complex conjugates; a real tensor itself.

    >>> conj_physical(tensor([1 + 2j]))
    tensor([1.-2.j])
    """

    aten = "_conj_physical"
    wirtinger = True
    inplace_functions = ("conj_physical_",)
    out_dtype = OUT_FOUND
    fwd = ufunc("conjugate")

    def call(input, *, run=None):
        if run is not None:
            return run(ConjPhysicalWrite, (input,))
        return input if input._array.dtype.kind != "c" else apply(ConjPhysical, (input,))

    def d_input(F, grad):
        return F.conj(grad)

    def jvp(F, t_input):
        return F.conj(t_input)


@op
class ConjPhysicalWrite(Same):
    """conj_physical_write(input) -> Tensor: the in-place form, with a node of its own."""

    node = "ConjPhysicalBackward1"
    aten = "conj_physical_"
    public = False
    wirtinger = True

    def fwd(xp, input):
        return xp.conjugate(input) if input.dtype.kind == "c" else xp.copy(input)

    def d_input(F, grad):
        return F.conj(grad)

    def jvp(F, t_input):
        return F.conj(t_input)


def real_part(input: Any) -> Any:
    return APIS["real"].call(input) if input._array.dtype.kind == "c" else input


helper("conj", np.conjugate, lambda x: x if x._array.dtype.kind != "c" else apply(Conj, (x,)))
helper("real_part", lambda x: x.real, real_part)


def filled_like(x: Any, value: Any) -> Any:
    """A constant tensor; one for all entries of a batch."""
    array = x._array
    if isinstance(array, Nowhere):  # its class makes the tensor
        return ON_DEMAND.ones_like(x.detach()) * value
    if isinstance(array, np.ndarray):
        return same_always(wrap(np.full_like(array, value)))
    if type(array) is STATE.device_type:
        return wrap(xp_of(array).full_like(array, value))
    return wrap(xp_of(physical_array(x)).full(array.shape, value, array.dtype))


helper("zeros_like", np.zeros_like, lambda x: filled_like(x, 0))
helper("ones_like", np.ones_like, lambda x: filled_like(x, 1))
helper("full_like", np.full_like, filled_like)


@op
class Copysign(Elementwise):
    """copysign(input, other) -> Tensor: the sizes of one tensor with the signs of another."""

    aten = "copysign.Tensor"
    tensors = ("input", "other")
    public = False
    guard = not_for("copysign_cpu", COMPLEX)
    vmap_write = None
    fwd = ufunc("copysign")

    def d_input(F, grad, input, out):
        return grad * F.where(input == 0, 0, out / input)

    def d_other(F, grad):
        return F.zeros_like(grad)


@op
class CopysignScalar(Elementwise):
    """copysign_scalar(input, number) -> Tensor: `copysign` with a number."""

    node = "CopysignBackward1"
    aten = "copysign.Scalar"
    public = False

    def fwd(xp, input, number):
        not_for("copysign_cpu", COMPLEX)(input, number)
        return xp.copysign(input, input.dtype.type(number))

    def d_input(F, grad, input, out):
        return grad * F.where(input == 0, 0, out / input)


@api(inplace=True, samples=binary_cases())
def copysign(input: Any, other: Any, *, run: Any = None) -> Any:
    """copysign(input, other) -> Tensor: the sizes of `input` with the signs of `other`.

    >>> copysign(tensor([1.0, -2.0]), -1)
    tensor([-1., -2.])
    """
    if not hasattr(input, "_array"):
        raise invalid_call("copysign", input, other)
    if hasattr(other, "_array"):
        return (run or apply)(Copysign, (input, other))
    if not is_number(other):
        raise invalid_call("copysign", input, other)
    refuse_too_big(other)
    return (run or apply)(CopysignScalar, (input,), (other,))


@op
class Hypot(Elementwise):
    """hypot(input, other) -> Tensor: the hypotenuse of a right triangle.

    >>> hypot(tensor([3.0]), tensor([4.0]))
    tensor([5.])
    """

    tensors = ("input", "other")
    dtype = PROMOTE
    guard = not_for("hypot_cpu", BOOL, INTEGRAL, COMPLEX)
    samples = binary_cases()[:-1]
    fwd = ufunc("hypot")

    def call(input, other, *, run=None):
        only_tensors("hypot", run, input=input, other=other)
        return (run or apply)(Hypot, (input, other))

    def d_input(F, grad, input, out):
        return grad * input / out

    def d_other(F, grad, other, out):
        return grad * other / out


# ---------------------------------------------------------------------- integers nearby


def whole(name: str) -> Any:
    """A guard for floor, ceil and trunc."""

    def guard(input: Any) -> None:
        if input.dtype.kind == "c":
            raise NotImplementedError(f"{name} is not supported for complex inputs")
        if input.dtype.kind == "b":
            raise not_implemented(f"{name}_vml_cpu", dtypes.bool_)

    return guard


def rounding(ufunc: str) -> Any:
    """A forward that leaves integers as they are."""

    def fwd(xp: Any, input: Any) -> Any:
        return xp.copy(input) if input.dtype.kind in "iu" else getattr(xp, ufunc)(input)

    return fwd


class Rounding(Flat):
    """To an integer in one direction."""

    out_dtype = OUT_FOUND
    foreach = "unary"


@op
class Floor(Rounding):
    """floor(input) -> Tensor: each element rounded down to an integer.

    >>> floor(tensor([-1.5, 2.5]))
    tensor([-2.,  2.])
    """

    guard = whole("floor")
    inplace_functions = ("floor_",)
    onnx = "Floor"
    fwd = rounding("floor")


@op
class Ceil(Rounding):
    """ceil(input) -> Tensor: each element rounded up to an integer.

    >>> ceil(tensor([-1.5, 2.5]))
    tensor([-1.,  3.])
    """

    guard = whole("ceil")
    inplace_functions = ("ceil_",)
    onnx = "Ceil"
    fwd = rounding("ceil")


@op
class Trunc(Rounding):
    """trunc(input) -> Tensor: the next integer towards zero.

    >>> trunc(tensor([-1.5, 2.5]))
    tensor([-1.,  2.])
    """

    aliases = ("fix",)
    guard = whole("trunc")
    inplace_functions = ("trunc_", "fix_")
    fwd = rounding("trunc")


@op
class Round(Flat):
    """round(input) -> Tensor: the nearest integer; halves go to the even one."""

    aten = "round"
    public = False
    guard = not_for("round_vml_cpu", BOOL, COMPLEX)
    onnx = "Round"
    fwd = rounding("rint")


@op
class RoundDecimals(Flat):
    """round_decimals(input, decimals) -> Tensor: the nearest number with so many decimals."""

    node = "RoundBackward1"
    aten = "round.decimals"
    public = False

    def fwd(xp, input, decimals):
        not_for("round_cpu" if decimals else "round_vml_cpu", BOOL, INTEGRAL, COMPLEX)(input)
        x = half_as_single(input)
        places = abs_int(decimals)
        unit = x.dtype.type(10.0**places if places < 309 else math.inf)
        out = xp.rint(x * unit) / unit if decimals > 0 else xp.rint(x / unit) * unit
        return cast_value(out, input.dtype)


def abs_int(n: int) -> int:
    return -n if n < 0 else n


@api(
    inplace=True,
    samples=[*unary_cases(), Case(Draw(3), decimals=1)],
    out_dtype=OUT_FOUND,
    inplace_functions=("round_",),
    foreach="unary",
)
def round(input: Any, *, decimals: Any = None, run: Any = None) -> Any:
    """round(input, *, decimals=0) -> Tensor: the nearest integer (or decimal), the even one of two.

    >>> round(tensor([0.5, 1.5, 2.25]))
    tensor([0., 2., 2.])
    """
    if decimals is None:
        return (run or apply)(Round, (input,))
    if not isinstance(decimals, int):
        raise TypeError(f"round(): argument 'decimals' must be int, not {type(decimals).__name__}")
    return (run or apply)(RoundDecimals, (input,), (decimals,))


@op
class Frac(Same):
    """frac(input) -> Tensor: the fractional part of each element: `input - trunc(input)`.

    >>> frac(tensor([1.5, -2.25]))
    tensor([ 0.5000, -0.2500])
    """

    guard = not_for("frac_cpu", BOOL, INTEGRAL, COMPLEX)
    inplace_functions = ("frac_",)
    out_dtype = OUT_FOUND
    foreach = "unary"

    def fwd(xp, input):
        return input - xp.trunc(input)

    def d_input(F, grad):
        return grad


# ---------------------------------------------------------------------- relu, nan_to_num


def relu_domain(input: Any) -> None:
    if input.dtype.kind == "b":
        raise RuntimeError("Boolean inputs not supported for relu")
    if input.dtype.kind == "c":
        raise NotImplementedError("clamp is not supported for complex types")


@op
class Relu(Same):
    """relu(input) -> Tensor: `max(input, 0)`.

    >>> relu(tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    guard = relu_domain
    inplace_functions = ("relu_",)
    keeps_finite = True
    onnx = "Relu"

    def fwd(xp, input):
        # A scalar of the same dtype spares NumPy the conversion of a Python number.
        return xp.maximum(input.dtype.type(0), input)

    def d_input(F, grad, out):
        return F.masked_by(grad, out)


def masked_by(F: Any) -> Any:
    """A function of rules: the gradient where the output is positive; a NaN lets it pass."""

    def run(grad: Any, out: Any) -> Any:
        return F.where(out <= 0, 0, grad)

    return run


def threshold_at_zero(grad: Any, out: Any) -> Any:
    """ReLU's gradient recorded as PyTorch does: it depends on `out`, with slope zero."""
    from ..nn.piecewise_linear import ThresholdBackward

    return apply(ThresholdBackward, (grad, out), (0,))


# A helper, so that a GPU can do it in one kernel.
helper("masked_by", masked_by(RAW), threshold_at_zero, "where(out <= 0, 0, grad)")


@op
class NanToNum(Same):
    """nan_to_num(input, nan=0.0, posinf=None, neginf=None) -> Tensor: numbers for nan and inf.

    >>> nan_to_num(tensor([float("nan"), 1.0]), nan=5.0)
    tensor([5., 1.])
    """

    inplace_functions = ("nan_to_num_",)
    out_dtype = "nan_to_num: dtype of out: {got} should be same as input: {want}"
    samples = [*unary_cases(), Case(Draw(3), nan=1.0, posinf=2.0, neginf=-2.0)]

    def fwd(xp, input, nan, posinf, neginf):
        if input.dtype.kind not in "fcV":
            return xp.copy(input)
        if input.dtype.kind == "c":
            if xp is host and np.isfinite(input).all():
                return np.copy(input)
            out = xp.empty_like(input)
            out.real = finite(xp, input.real, nan, posinf, neginf)
            out.imag = finite(xp, input.imag, nan, posinf, neginf)
            return out
        return finite(xp, input, nan, posinf, neginf)

    def call(input, nan=None, posinf=None, neginf=None, *, run=None):
        nan, posinf, neginf = map(plain_number, (nan, posinf, neginf))
        for name, value in (("nan", nan), ("posinf", posinf), ("neginf", neginf)):
            if value is not None and not isinstance(value, (int, float)):
                raise TypeError(
                    f"nan_to_num(): argument '{name}' must be float, not {type(value).__name__}"
                )
        if run is None and input._array.dtype.kind == "c" and input._wants_grad and MODES.grad:
            raise RuntimeError(
                "nan_to_num does not support automatic differentiation for outputs "
                "with complex dtype."
            )
        return (run or apply)(NanToNum, (input,), (nan, posinf, neginf))

    def d_input(F, grad, input):
        return grad * F.isfinite(input)


def plain_number(value: Any) -> Any:
    """The number in a 0-d tensor without history; all else as it is."""
    if isinstance(value, TensorBase) and not value._array.ndim and not value._wants_grad:
        return value.item()  # type: ignore[attr-defined]
    return value


def finite(xp: Any, x: Any, nan: Any, posinf: Any, neginf: Any) -> Any:
    """`x` with nan and the infinities replaced, by the extreme values unless told otherwise."""
    most = dtypes.finfo(dtypes.of(x.dtype)).max
    kind = x.dtype.type
    out = xp.where(xp.isnan(x), kind(0.0 if nan is None else nan), x)
    out = xp.where(x == math.inf, kind(most if posinf is None else posinf), out)
    return xp.where(x == -math.inf, kind(-most if neginf is None else neginf), out)
