"""Comparisons, logic and questions: bool results, never differentiable."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import dtypes
from ...core.array_kind import refuse_meta
from ...core.base import STATE, TensorBase
from ...core.host_arrays import host
from ...core.python_dispatch import ask_about, is_asked, read_values
from ...core.rounding import half_as_single, rounded_to
from ...core.transforms.batched import is_batched, no_rule, refusal
from ...kernels.cpu import KERNELS
from ..block import APIS, PROMOTE, Block, Case, api, apply, op, ufunc
from ..block.checks import COMPLEX, not_for, only_tensors
from ..block.samples import Draw, binary_cases

# ruff: noqa: N805

OUT_BOOLEAN = "{name} does not support non-boolean outputs."


def is_plain_scalar(value: Any) -> bool:
    return isinstance(value, TensorBase) and value._array.size == 1 and not value._wants_grad


def tensor_first(function: str, then: Any = None) -> Any:
    """A guard: a number may only stand on the right. `then` is another one, asked afterwards."""

    def guard(input: Any, other: Any) -> None:
        if not hasattr(input, "dtype"):
            raise TypeError(
                f"{function}() received an invalid combination of arguments - got "
                f"({type(input).__name__}, Tensor), but expected one of:\n * (Tensor input, Tensor "
                "other, *, Tensor out = None)\n * (Tensor input, Number other, *, Tensor out = "
                "None)\n"
            )
        if then is not None:
            then(input, other)

    return guard


class Comparison(Block):
    aten_number = "Scalar"
    tensors = ("input", "other")
    dtype = PROMOTE
    elementwise = True
    inplace = True
    undifferentiable = "the result is a bool"


@op
class Eq(Comparison):
    """eq(input, other) -> Tensor: where the two are equal.

    >>> tensor([1, 2]) == tensor([1, 3])
    tensor([ True, False])
    """

    aten = "eq.Tensor"
    guard = tensor_first("eq")
    written_name = "EqBackward1"
    sign = "=="
    onnx = "Equal"
    fwd = ufunc("equal")


@op
class Ne(Comparison):
    """ne(input, other) -> Tensor: True where `input != other`, elementwise.

    >>> tensor([1, 2]) != 1
    tensor([False,  True])
    """

    aten = "ne.Tensor"
    guard = tensor_first("ne")
    written_name = "NeBackward1"
    aliases = ("not_equal",)
    sign = "!="
    fwd = ufunc("not_equal")


@op
class Lt(Comparison):
    """lt(input, other) -> Tensor: True where `input < other`, elementwise.

    >>> tensor([1.0, 2.0]) < 2
    tensor([ True, False])
    """

    aten = "lt.Tensor"
    written_name = "LtBackward1"
    aliases = ("less",)
    guard = tensor_first("lt", not_for("lt_cpu", COMPLEX))
    sign = "<"
    onnx = "Less"
    fwd = ufunc("less")


@op
class Le(Comparison):
    """le(input, other) -> Tensor: True where `input <= other`, elementwise.

    >>> tensor([1.0, 2.0]) <= 1
    tensor([ True, False])
    """

    aten = "le.Tensor"
    written_name = "LeBackward1"
    aliases = ("less_equal",)
    guard = tensor_first("le", not_for("le_cpu", COMPLEX))
    sign = "<="
    onnx = "LessOrEqual"
    fwd = ufunc("less_equal")


@op
class Gt(Comparison):
    """gt(input, other) -> Tensor: True where `input > other`, elementwise.

    >>> tensor([1.0, 2.0]) > 1
    tensor([False,  True])
    """

    aten = "gt.Tensor"
    written_name = "GtBackward1"
    aliases = ("greater",)
    guard = tensor_first("gt", not_for("gt_cpu", COMPLEX))
    sign = ">"
    onnx = "Greater"
    fwd = ufunc("greater")


@op
class Ge(Comparison):
    """ge(input, other) -> Tensor: True where `input >= other`, elementwise.

    >>> tensor([1.0, 2.0]) >= 2
    tensor([False,  True])
    """

    aten = "ge.Tensor"
    written_name = "GeBackward1"
    aliases = ("greater_equal",)
    guard = tensor_first("ge", not_for("ge_cpu", COMPLEX))
    sign = ">="
    onnx = "GreaterOrEqual"
    fwd = ufunc("greater_equal")


# ---------------------------------------------------------------------- logic


class Logical(Block):
    """Truth: any dtype counts, nonzero is true."""

    tensors = ("input", "other")
    elementwise = True
    inplace = True
    silent = True
    vmap_write = "inplace arithmetic"
    undifferentiable = "the result is a bool"
    samples = binary_cases()[:-1]


@op
class LogicalAnd(Logical):
    """logical_and(input, other) -> Tensor: True where both are nonzero.

    >>> logical_and(tensor([1, 0]), tensor([2.0, 3.0]))
    tensor([ True, False])
    """

    onnx = "And"
    fwd = ufunc("logical_and")

    def call(input, other, *, run=None):
        only_tensors("logical_and", run, input=input, other=other)
        return (run or apply)(LogicalAnd, (input, other))


@op
class LogicalOr(Logical):
    """logical_or(input, other) -> Tensor: where at least one is nonzero.

    >>> logical_or(tensor([0, 0]), tensor([2.0, 0.0]))
    tensor([ True, False])
    """

    onnx = "Or"
    fwd = ufunc("logical_or")

    def call(input, other, *, run=None):
        only_tensors("logical_or", run, input=input, other=other)
        return (run or apply)(LogicalOr, (input, other))


@op
class LogicalXor(Logical):
    """logical_xor(input, other) -> Tensor: where exactly one is nonzero.

    >>> logical_xor(tensor([1, 1]), tensor([2.0, 0.0]))
    tensor([False,  True])
    """

    onnx = "Xor"
    fwd = ufunc("logical_xor")

    def call(input, other, *, run=None):
        only_tensors("logical_xor", run, input=input, other=other)
        return (run or apply)(LogicalXor, (input, other))


@op
class LogicalNot(Block):
    """logical_not(input) -> Tensor: True where an element is zero.

    >>> logical_not(tensor([0.0, 0.5]))
    tensor([ True, False])
    """

    elementwise = True
    inplace = True
    silent = True
    undifferentiable = "the result is a bool"
    onnx = "Not"
    fwd = ufunc("logical_not")


# ---------------------------------------------------------------------- kinds of numbers


class Question(Block):
    """A property of each element."""

    elementwise = True
    undifferentiable = "the result is a bool"


@op
class Isnan(Question):
    """isnan(input) -> Tensor: where it is not a number.

    >>> isnan(tensor([1.0, float("nan")]))
    tensor([False,  True])
    """

    fwd = ufunc("isnan")


@op
class Isinf(Question):
    """isinf(input) -> Tensor: True where an element is infinite.

    >>> isinf(tensor([1.0, float("-inf")]))
    tensor([False,  True])
    """

    fwd = ufunc("isinf")


@op
class Isfinite(Question):
    """isfinite(input) -> Tensor: where it is neither infinite nor nan.

    >>> isfinite(tensor([1.0, float("inf"), float("nan")]))
    tensor([ True, False, False])
    """

    fwd = ufunc("isfinite")


def real_only(name: str) -> Any:
    def guard(input: Any) -> None:
        if input.dtype.kind == "c":
            raise RuntimeError(f"{name} does not support complex inputs.")

    return guard


def is_infinite(xp: Any, input: Any, infinity: float) -> Any:
    if input.dtype.kind in "biu":
        return xp.zeros_like(input, dtype=bool)
    return xp.equal(input, infinity)


@op
class Isposinf(Question):
    """isposinf(input) -> Tensor: where it is plus infinity.

    >>> isposinf(tensor([float("inf"), float("-inf")]))
    tensor([ True, False])
    """

    guard = real_only("isposinf")
    out_dtype = OUT_BOOLEAN

    def fwd(xp, input):
        return is_infinite(xp, input, xp.inf)


@op
class Isneginf(Question):
    """isneginf(input) -> Tensor: where it is minus infinity.

    >>> isneginf(tensor([float("inf"), float("-inf")]))
    tensor([False,  True])
    """

    guard = real_only("isneginf")
    out_dtype = OUT_BOOLEAN

    def fwd(xp, input):
        return is_infinite(xp, input, -xp.inf)


@op
class Isreal(Question):
    """isreal(input) -> Tensor: where the imaginary part is zero.

    >>> isreal(tensor([1 + 0j, 1j]))
    tensor([ True, False])
    """

    def fwd(xp, input):
        if input.dtype.kind != "c":
            return xp.ones_like(input, dtype=bool)
        return xp.equal(input.imag, 0)


@op
class Signbit(Question):
    """signbit(input) -> Tensor: where the sign is negative, of -0.0 too.

    >>> signbit(tensor([-0.0, 1.0]))
    tensor([ True, False])
    """

    out_dtype = OUT_BOOLEAN

    def fwd(xp, input):
        if input.dtype.kind == "c":
            raise NotImplementedError("signbit is not implemented for complex tensors.")
        return xp.signbit(input) if input.dtype.kind in "fV" else xp.less(input, 0)


# ---------------------------------------------------------------------- whole tensors


def within_halves(input: Any, other: Any, rtol: float, atol: float) -> Any:
    """The tolerances of `isclose` in half precision: steps are rounded to it, numbers are not."""

    def as_half(x: Any) -> Any:
        return half_as_single(rounded_to(x, input.dtype))

    a, b = half_as_single(input), half_as_single(other)
    distance = as_half(np.abs(a - b))
    allowed = as_half(np.float32(atol) + as_half(np.abs(np.float32(rtol) * b)))
    return np.isfinite(distance) & (distance <= allowed)


@op
class Isclose(Block):
    """isclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False) -> Tensor: which elements
    agree within the tolerances.

    >>> isclose(tensor([1.0, 2.0]), tensor([1.0, 2.1]))
    tensor([ True, False])
    """

    tensors = ("input", "other")
    broadcasts = ordered = True
    undifferentiable = "the result is a bool"
    samples = [Case(Draw(3), Draw(3)), Case(Draw(3), Draw(3), rtol=0.5, atol=0.5)]
    aligns = True

    def fwd(xp, input, other, rtol, atol, equal_nan):
        close = xp.equal(input, other)
        if equal_nan and input.dtype.kind in "fcV":
            close = close | (xp.isnan(input) & xp.isnan(other))
        if rtol == 0 and atol == 0:
            return close
        if input.dtype.kind == "b":
            input = input.astype(dtypes.default_np())
        if other.dtype.kind in "biu":
            other = other.astype(dtypes.default_np())
        if input.dtype.itemsize == 2 and input.dtype.kind in "fV" and xp is host:
            return close | within_halves(input, other, rtol, atol)
        distance = xp.abs(input - other)
        return close | (xp.isfinite(distance) & (distance <= atol + xp.abs(rtol * other)))

    def call(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
        only_tensors("isclose", input=input, other=other)
        if input.dtype is not other.dtype:
            raise RuntimeError(f"{input.dtype.scalar_type} did not match {other.dtype.scalar_type}")
        rtol, atol = [v.item() if is_plain_scalar(v) else v for v in (rtol, atol)]
        for name, value in (("rtol", rtol), ("atol", atol)):
            if not value >= 0:
                raise RuntimeError(
                    f"{name} must be greater than or equal to zero, but got {value:g}"
                )
        return apply(Isclose, (input, other), (rtol, atol, equal_nan))


@api(samples=[Case(Draw(3), Draw(3)), Case(Draw(2, 1), Draw(3), atol=9.0), Case(Draw(0), Draw(0))])
def allclose(
    input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> bool:
    """allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False) -> bool: whether all elements
    agree within the tolerances.

    >>> allclose(tensor([1.0]), tensor([1.0 + 1e-7]))
    True
    """
    only_tensors("allclose", input=input, other=other)
    close = APIS["isclose"].call(input, other, rtol, atol, equal_nan)
    if is_batched(close):
        raise refusal(
            "vmap over torch.allclose isn't supported yet. Please file an issue at "
            "https://github.com/pytorch/pytorch/issues if you need this feature."
        )
    if (close._special or STATE.modes_on) and is_asked(close):
        return bool(close.all())
    return bool(read_values(close).all())


@api(samples=[Case(Draw(3), Draw(3)), Case(Draw(2, 1), Draw(3)), Case(Draw(0), Draw(0))])
def equal(input: Any, other: Any) -> bool:
    """equal(input, other) -> bool: whether shape and all elements agree.

    >>> equal(tensor([1, 2]), tensor([1, 2]))
    True
    """
    only_tensors("equal", input=input, other=other)
    if is_batched(input) or is_batched(other):
        raise no_rule("equal")
    if (STATE.modes_on or input._special or other._special) and is_asked(input, other):
        return bool(ask_about("equal", (input, other), equal))
    refuse_meta("equal", input, other)
    a, b = input._array, other._array
    return a.shape == b.shape and same_values(a, b)


FIRST_PIECE, GROWTH = 1 << 9, 8
INFINITY_BITS = {"f": 0x7C00, "V": 0x7F80}  # of float16 and bfloat16


def same_values(a: Any, b: Any) -> bool:
    """Whether two arrays of one shape are equal, piece by piece: the first difference answers."""
    if KERNELS is not None:
        found: bool | None = KERNELS.same_values(a, b)
        if found is not None:
            return found
    size = a.size
    if type(a) is not np.ndarray or type(b) is not np.ndarray or a.dtype != b.dtype:
        return bool((a == b).all())
    if size <= FIRST_PIECE or not (a.flags.c_contiguous and b.flags.c_contiguous):
        return bool((a == b).all())
    x, y = a.reshape(-1), b.reshape(-1)
    if a.dtype.kind == "c":
        x, y, size = x.view(x.real.dtype), y.view(x.real.dtype), 2 * size
    equal = equal_halves if a.dtype.itemsize == 2 and a.dtype.kind in "fV" else np.array_equal
    start, stop = 0, FIRST_PIECE
    while start < size:
        if not equal(x[start:stop], y[start:stop]):
            return False
        start, stop = stop, GROWTH * stop
    return True


def equal_halves(x: Any, y: Any) -> bool:
    """`np.array_equal` of half precision, by bits where that is right: NumPy's own is slow."""
    bits = x.view(np.uint16)
    if np.array_equal(bits, y.view(np.uint16)):
        if (bits & 0x7FFF).max() <= INFINITY_BITS[x.dtype.kind]:
            return True
    return np.array_equal(x, y)
