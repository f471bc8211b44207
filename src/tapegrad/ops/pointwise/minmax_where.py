"""Choosing between numbers: where, the larger and the smaller, bounds, and mixtures."""

from __future__ import annotations

from typing import Any

from ... import dtypes
from ...core.arguments import cast_value
from ...core.base import F32, F64, TensorBase, ndarray
from ...core.dispatch import binary
from ...core.python_dispatch import read_values
from ...core.rounding import half_as_single
from ...core.transforms.batched import dynamic_shape, is_batched
from ...core.warned import warn
from ...dtypes import cpp_name
from ...errors import does_not_fit
from ..block import APIS, PROMOTE, WIDEST, Autocast, Block, Case, Elementwise, api, apply, op, ufunc
from ..block.checks import (
    BOOL,
    COMPLEX,
    FLOATING,
    INTEGRAL,
    OUT_FOUND,
    as_number,
    as_scalar,
    as_stored,
    category,
    common,
    invalid_call,
    is_complex,
    is_number,
    is_wide_float,
    not_for,
    not_implemented,
    only_tensors,
    refuse_overflow,
    refuse_too_big,
)
from ..block.samples import Draw, Index, binary_cases
from .branchless import SMALL, keep, pick

# ruff: noqa: N805


# ---------------------------------------------------------------------- where


def choose(xp: Any, condition: Any, input: Any, other: Any) -> Any:
    """`input` where the condition holds, else `other`, in their common dtype."""
    a = getattr(input, "dtype", None)
    b = getattr(other, "dtype", None)
    if a is b and (a is F32 or a is F64):
        return pick(xp, condition, input, other)
    # A zero beside floats, as gradient rules have it.
    if a is None and type(input) is int and input == 0 and (b is F32 or b is F64):
        if type(other) is ndarray and other.size >= SMALL and condition.dtype.kind == "b":
            return keep(xp, ~condition, other)
        return xp.where(condition, b.type(0), other)
    if b is None and type(other) is int and other == 0 and (a is F32 or a is F64):
        if type(input) is ndarray and input.size >= SMALL:
            return keep(xp, condition, input)
        return xp.where(condition, input, a.type(0))
    if a is None or b is None or a != b:
        dtype = common(input, other).np
        input, other = cast_value(input, dtype), cast_value(other, dtype)
        if a is None and b is None:
            return xp.where(condition, input, other).astype(dtype)
    elif a.kind == "V":
        return xp.where(condition, input, other).astype(a)
    return as_kind(xp, condition, input, other)


def as_kind(xp: Any, condition: Any, input: Any, other: Any) -> Any:
    """xp.where with numbers taking the dtype of the array beside them."""
    out = xp.where(condition, input, other)
    wanted = input.dtype if hasattr(input, "dtype") else other.dtype
    return out if out.dtype == wanted else out.astype(wanted)


@op
class Where(Block):
    """where(condition, input, other) -> Tensor: the op behind the function."""

    aten = "where.self"
    tensors = ("condition", "input", "other")
    plain_tensors = ("condition",)
    elementwise = True
    public = False
    keeps_finite = True
    leaves_out = True

    def fwd(xp, condition, input, other):
        return choose(xp, condition, input, other)

    def d_input(F, grad, condition):
        return F.where(condition, grad, 0)

    def d_other(F, grad, condition):
        return F.where(condition, 0, grad)


MASK = Index([True, False, True])


@api(
    method=False,
    samples=[
        Case(MASK, Draw(3), Draw(3)),
        Case(MASK, Draw(2, 3), 1.5),
        Case(MASK, 0, Draw(3)),
        Case(MASK, Draw(), Draw(2, 1)),
    ],
    out_dtype="Expected out type to be {want} but got {got}",
)
def where(condition: Any, input: Any = None, other: Any = None) -> Any:
    """where(condition, input, other) -> Tensor or tuple: `input` where it holds, else `other`.

    With the condition alone: the places where it holds, as `nonzero(condition, as_tuple=True)`.

    >>> where(tensor([True, False]), tensor([1.0, 2.0]), 0)
    tensor([1., 0.])
    """
    if not isinstance(condition, TensorBase):
        raise invalid_call("where", *[a for a in (condition, input, other) if a is not None])
    if input is None and other is None:
        if is_batched(condition):
            raise dynamic_shape("where")
        return APIS["nonzero"].call(condition, as_tuple=True)
    for value in (input, other):
        if not isinstance(value, TensorBase) and not is_number(value):
            given = (condition, input) if other is None else (condition, input, other)
            raise invalid_call("where", *given)
    kind = condition._array.dtype
    if kind.kind != "b":
        if kind.name != "uint8":
            raise RuntimeError(
                "where expected condition to be a boolean tensor, but got a tensor with dtype "
                f"{dtypes.of(kind).scalar_type}"
            )
        warn(
            "where received a uint8 condition tensor. This behavior is deprecated and will be "
            "removed in a future version of PyTorch. Use a boolean condition instead.",
            UserWarning,
        )
        condition = condition != 0
    refuse_overflow((input, other), input, other)
    return apply(Where, (condition, input, other))


def where_method(input: Any, condition: Any = None, other: Any = None, *more: Any) -> Any:
    """where(condition, other) -> Tensor: `input` where the condition holds, else `other`."""
    if other is None or more:
        given = [value for value in (condition, other, *more) if value is not None]
        raise TypeError(
            f"{invalid_call('where', *given)}\n * (Tensor condition, Tensor other)\n"
            " * (Tensor condition, Number other)\n"
        )
    return where(condition, input, other)


# The method takes its arguments in another order than the function.
METHODS = {"where": where_method}


# ---------------------------------------------------------------------- the larger, the smaller


def no_complex_order(name: str) -> Any:
    def guard(*values: Any) -> None:
        if max([category(v) for v in values]) == COMPLEX:
            raise RuntimeError(f"{name} not implemented for complex tensors.")

    return guard


class Order(Elementwise):
    """One of two tensors, by size."""

    tensors = ("input", "other")
    dtype = PROMOTE
    inplace = False
    samples = binary_cases()[:-1]


@op
class Maximum(Order):
    """maximum(input, other) -> Tensor: the larger of two; nan if either is.

    >>> maximum(tensor([1.0, 5.0]), tensor([3.0, 2.0]))
    tensor([3., 5.])
    """

    guard = no_complex_order("maximum")
    onnx = "Max"
    fwd = ufunc("maximum")

    def call(input, other):
        only_tensors("maximum", input=input, other=other)
        return binary(Maximum, input, other)

    def d_input(F, grad, input, other):
        return F.where(input < other, 0, F.where(input == other, grad / 2, grad))

    def d_other(F, grad, input, other):
        return F.where(input > other, 0, F.where(input == other, grad / 2, grad))


@op
class Minimum(Order):
    """minimum(input, other) -> Tensor: the smaller of two; nan if either is.

    >>> minimum(tensor([1.0, 5.0]), tensor([3.0, 2.0]))
    tensor([1., 2.])
    """

    guard = no_complex_order("minimum")
    onnx = "Min"
    fwd = ufunc("minimum")

    def call(input, other):
        only_tensors("minimum", input=input, other=other)
        return binary(Minimum, input, other)

    def d_input(F, grad, input, other):
        return F.where(input > other, 0, F.where(input == other, grad / 2, grad))

    def d_other(F, grad, input, other):
        return F.where(input < other, 0, F.where(input == other, grad / 2, grad))


@op
class Fmax(Order):
    """fmax(input, other) -> Tensor: the larger of two; the other one if one is nan.

    >>> fmax(tensor([1.0, float("nan")]), tensor([3.0, 2.0]))
    tensor([3., 2.])
    """

    guard = no_complex_order("fmax")
    fwd = ufunc("fmax")

    def call(input, other):
        only_tensors("fmax", input=input, other=other)
        return binary(Fmax, input, other)

    def d_input(F, grad, input, other):
        return F.where((input >= other) | F.isnan(other), grad, 0)

    def d_other(F, grad, input, other):
        return F.where((input >= other) | F.isnan(other), 0, grad)


@op
class Fmin(Order):
    """fmin(input, other) -> Tensor: the smaller of two; the other one if one is nan.

    >>> fmin(tensor([1.0, float("nan")]), tensor([3.0, 2.0]))
    tensor([1., 2.])
    """

    guard = no_complex_order("fmin")
    fwd = ufunc("fmin")

    def call(input, other):
        only_tensors("fmin", input=input, other=other)
        return binary(Fmin, input, other)

    def d_input(F, grad, input, other):
        return F.where((input <= other) | F.isnan(other), grad, 0)

    def d_other(F, grad, input, other):
        return F.where((input <= other) | F.isnan(other), 0, grad)


# ---------------------------------------------------------------------- bounds


def clamp_domain(kernel: str, *values: Any) -> None:
    top = max([category(v) for v in values if v is not None])
    if top == COMPLEX:
        raise NotImplementedError("clamp is not supported for complex types")
    if top == BOOL:
        raise not_implemented(kernel, dtypes.bool_)


def bounded(xp: Any, input: Any, low: Any, high: Any) -> Any:
    """The upper bound wins where the bounds cross; nan stays nan."""
    out = input if low is None else xp.maximum(low, input)
    return out if high is None else xp.minimum(high, out)


def inside(input: Any, low: Any, high: Any) -> Any:
    """Where `input` is not beyond a bound: there the gradient passes."""
    low, high = as_stored(input, low), as_stored(input, high)
    if low is None:
        return input <= high
    return input >= low if high is None else (input >= low) & (input <= high)


def check_stays(input: Any, low: Any, high: Any) -> None:
    """The bounds of an in-place clamp must not ask for a higher category."""
    have, want = common(input._array, low, high), input.dtype
    if have.category > want.category:
        raise RuntimeError(
            f"result type {have.scalar_type} can't be cast to the desired output type "
            f"{cpp_name(want)}"
        )


class Clamping(Elementwise):
    """Bounds that are numbers, None where there is none."""

    dtype = PROMOTE
    public = False

    def fwd(xp, input, low, high):
        if is_wide_float(input, low, high):
            # NumPy's scalars are faster beside arrays than Python's.
            bounds = [None if b is None else as_scalar(input.dtype, b) for b in (low, high)]
            return bounded(xp, input, *bounds)
        side = "" if low is not None and high is not None else "_max" if low is None else "_min"
        clamp_domain(f"clamp{side}_scalar_cpu", input, low, high)
        dtype = common(input, low, high).np
        bounds = [None if b is None else cast_value(b, dtype) for b in (low, high)]
        return cast_value(bounded(xp, cast_value(input, dtype), *bounds), dtype)

    def d_input(F, grad, input, low, high):
        return F.where(inside(input, low, high), grad, 0)


@op
class ClampScalar(Clamping):
    """clamp_scalar(input, low, high) -> Tensor: `clamp` with numbers."""

    node = "ClampBackward1"
    aten = "clamp"
    keeps_finite = True


@op
class ClampMinScalar(Clamping):
    """clamp_min_scalar(input, low, high) -> Tensor: `clamp_min` with a number."""

    node = "ClampMinBackward0"
    aten = "clamp_min"


@op
class ClampMaxScalar(Clamping):
    """clamp_max_scalar(input, low, high) -> Tensor: `clamp_max` with a number."""

    node = "ClampMaxBackward0"
    aten = "clamp_max"


def clamp_guard(input: Any, low: Any, high: Any) -> None:
    """One bound alone is a maximum or minimum, whose inner loops take other dtypes."""
    if low is not None and high is not None or is_complex(input):
        clamp_domain("clamp_cpu", input, low, high)
    else:
        not_for("minimum_cpu" if low is None else "maximum_cpu", COMPLEX)(input, low, high)


@op
class Clamp(Elementwise):
    """clamp(input, low, high) -> Tensor: `clamp` with tensors, None where there is no bound."""

    aten = "clamp.Tensor"
    tensors = ("input", "low", "high")
    dtype = PROMOTE
    public = False
    guard = clamp_guard
    keeps_finite = True

    def fwd(xp, input, low, high):
        return bounded(xp, input, low, high)

    def d_input(F, grad, input, low, high):
        return F.where(inside(input, low, high), grad, 0)

    def d_low(F, grad, input, low, high):
        below = input < low if high is None else (input < low) & (low < high)
        return F.where(below, grad, 0)

    def d_high(F, grad, input, low, high):
        above = input > high if low is None else (input > high) | (high < low)
        return F.where(above, grad, 0)


@op
class ClampMin(Elementwise):
    """clamp_min(input, low) -> Tensor: `clamp_min` with a tensor."""

    tensors = ("input", "low")
    node = "ClampMinBackward1"
    aten = "clamp_min.Tensor"
    dtype = PROMOTE
    public = False
    guard = not_for("maximum_cpu", COMPLEX)
    vmap_write = "inplace arithmetic"
    onnx = "Max"
    fwd = ufunc("maximum")

    def d_input(F, grad, input, low):
        return F.where(input >= low, grad, 0)

    def d_low(F, grad, input, low):
        return F.where(input < low, grad, 0)


@op
class ClampMax(Elementwise):
    """clamp_max(input, high) -> Tensor: `clamp_max` with a tensor."""

    tensors = ("input", "high")
    node = "ClampMaxBackward1"
    aten = "clamp_max.Tensor"
    dtype = PROMOTE
    public = False
    guard = not_for("minimum_cpu", COMPLEX)
    vmap_write = "inplace arithmetic"
    onnx = "Min"
    fwd = ufunc("minimum")

    def d_input(F, grad, input, high):
        return F.where(input <= high, grad, 0)

    def d_high(F, grad, input, high):
        return F.where(input > high, grad, 0)


CLAMP_CASES = [
    Case(Draw(3, 4), -1, 1),
    Case(Draw(3), min=-0.5),
    Case(Draw(3, 2, layout="T"), max=0.5),
    Case(Draw(2, 3), Draw(3, high=0.0), Draw(2, 1, low=0.5)),
    Case(Draw(), 0.0, 1.0),
]


@api(
    inplace=True,
    aliases=("clip",),
    samples=CLAMP_CASES,
    out_dtype=OUT_FOUND,
    inplace_functions=("clamp_", "clip_"),
)
def clamp(input: Any, min: Any = None, max: Any = None, *, run: Any = None) -> Any:
    """clamp(input, min=None, max=None) -> Tensor: the elements, or the bound that they exceed.

    >>> clamp(tensor([-2.0, 0.5, 3.0]), -1, 1)
    tensor([-1.0000,  0.5000,  1.0000])
    """
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    if (min is None or is_number(min)) and (max is None or is_number(max)):
        if run is not None:
            check_stays(input, min, max)
        refuse_overflow((min, max), input, min, max)
        return (run or apply)(ClampScalar, (input,), (min, max))
    if all([isinstance(b, TensorBase) for b in (min, max) if b is not None]):
        return (run or apply)(Clamp, (input, min, max))
    # Beside a number, a tensor of one value without a gradient is a number too.
    low, high = [read_values(b).item() if stands_for_number(b) else b for b in (min, max)]
    if is_number(low) and is_number(high):
        return clamp(input, low, high, run=run)
    raise invalid_call("clamp", *[b for b in (min, max) if b is not None])


def stands_for_number(value: Any) -> bool:
    return isinstance(value, TensorBase) and not value._array.ndim and not value._wants_grad


@api(
    inplace=True,
    samples=[Case(Draw(3, 2), 0.25), Case(Draw(3, 2), Draw(2))],
    out_dtype=OUT_FOUND,
    inplace_functions=("clamp_min_",),
    foreach="bound",
)
def clamp_min(input: Any, min: Any, *, run: Any = None) -> Any:
    """clamp_min(input, min) -> Tensor: the elements, at least `min`.

    >>> clamp_min(tensor([-2.0, 3.0]), 0)
    tensor([0., 3.])
    """
    if not isinstance(input, TensorBase):
        raise invalid_call("clamp_min", input, min)
    if isinstance(min, TensorBase):
        return (run or apply)(ClampMin, (input, min))
    if not is_number(min):
        raise invalid_call("clamp_min", min)
    refuse_overflow((min,), input, min)
    return (run or apply)(ClampMinScalar, (input,), (min, None))


@api(
    inplace=True,
    samples=[Case(Draw(3, 2), 0.25), Case(Draw(3, 2), Draw(2))],
    out_dtype=OUT_FOUND,
    inplace_functions=("clamp_max_",),
    foreach="bound",
)
def clamp_max(input: Any, max: Any, *, run: Any = None) -> Any:
    """clamp_max(input, max) -> Tensor: the elements, at most `max`.

    >>> clamp_max(tensor([-2.0, 3.0]), 0)
    tensor([-2.,  0.])
    """
    if not isinstance(input, TensorBase):
        raise invalid_call("clamp_max", input, max)
    if isinstance(max, TensorBase):
        return (run or apply)(ClampMax, (input, max))
    if not is_number(max):
        raise invalid_call("clamp_max", max)
    refuse_overflow((max,), input, max)
    return (run or apply)(ClampMaxScalar, (input,), (None, max))


# ---------------------------------------------------------------------- mixtures


def between(xp: Any, input: Any, end: Any, weight: Any) -> Any:
    """From whichever side is nearer, so that a weight of 1 gives `end` exactly."""
    dtype = input.dtype
    input, end, weight = half_as_single(input), half_as_single(end), half_as_single(weight)
    step = end - input
    size = xp.abs(weight)
    return xp.where(size < 0.5, input + weight * step, end - step * (1 - weight)).astype(dtype)


@op
class LerpScalar(Elementwise):
    """lerp_scalar(input, end, weight) -> Tensor: `lerp` with a number."""

    tensors = ("input", "end")
    node = "LerpBackward0"
    aten = "lerp.Scalar"
    public = False
    dtype = PROMOTE
    guard = not_for("lerp_kernel_scalar", BOOL, INTEGRAL)

    def fwd(xp, input, end, weight):
        return between(xp, input, end, weight)

    def d_input(F, grad, weight):
        return grad * (1 - weight)

    def d_end(F, grad, weight):
        return grad * weight


@op
class Lerp(Elementwise):
    """lerp(input, end, weight) -> Tensor: `lerp` with a tensor of weights."""

    tensors = ("input", "end", "weight")
    node = "LerpBackward1"
    aten = "lerp.Tensor"
    public = False
    dtype = PROMOTE
    guard = not_for("lerp_kernel_tensor", BOOL, INTEGRAL)

    def fwd(xp, input, end, weight):
        return between(xp, input, end, weight)

    def d_input(F, grad, weight):
        return grad * (1 - weight)

    def d_end(F, grad, weight):
        return grad * weight

    def d_weight(F, grad, input, end):
        return grad * (end - input)


def check_same_dtype(input: Any, name: str, value: Any) -> None:
    if value._array.dtype != input._array.dtype:
        want, have = [cpp_name(t.dtype) for t in (input, value)]
        raise RuntimeError(f"expected dtype {want} for `{name}` but got dtype {have}")


@api(
    inplace=True,
    samples=[
        Case(Draw(3), Draw(3), 0.3),
        Case(Draw(2, 3), Draw(3), 0.8),
        Case(Draw(2, 3), Draw(3), Draw(2, 1, low=0.1, high=0.9)),
    ],
    foreach="lerp",
)
def lerp(input: Any, end: Any, weight: Any, *, run: Any = None) -> Any:
    """lerp(input, end, weight) -> Tensor: `input + weight * (end - input)`.

    >>> lerp(tensor([0.0, 2.0]), tensor([10.0, 4.0]), 0.5)
    tensor([5., 3.])
    """
    if not isinstance(end, TensorBase) or not (isinstance(weight, TensorBase) or is_number(weight)):
        raise invalid_call("lerp", input, end, weight)
    check_same_dtype(input, "end", end)
    if isinstance(weight, TensorBase):
        if weight._array.ndim:
            check_same_dtype(input, "weight", weight)
        return (run or apply)(Lerp, (input, end, weight))
    if isinstance(weight, complex) and input._array.dtype.kind != "c":
        raise does_not_fit(input.dtype)
    refuse_too_big(weight)
    return (run or apply)(LerpScalar, (input, end), (weight,))


class ThreeTensors(Elementwise):
    """A tensor plus a multiple of something made of two others."""

    tensors = ("input", "tensor1", "tensor2")
    dtype = PROMOTE

    def d_input(F, grad):
        return grad


@op
class Addcmul(ThreeTensors):
    """addcmul(input, tensor1, tensor2, *, value=1) -> Tensor: `input + value * tensor1 * tensor2`.

    >>> addcmul(tensor([1.0]), tensor([2.0]), tensor([3.0]), value=10)
    tensor([61.])
    """

    guard = not_for("addcmul_cpu_out", BOOL)
    autocast = Autocast(gpu=WIDEST)
    foreach = "combined"
    samples = [Case(Draw(3), Draw(3), Draw(3)), Case(Draw(2, 1), Draw(3), Draw(2, 3), value=-0.5)]

    def fwd(xp, input, tensor1, tensor2, value):
        wide = half_as_single(input)
        out = wide + cast_value(value, wide.dtype) * half_as_single(tensor1) * half_as_single(
            tensor2
        )
        return cast_value(out, input.dtype)

    def call(input, tensor1, tensor2, *, value=1, run=None):
        only_tensors("addcmul", run, input=input, tensor1=tensor1, tensor2=tensor2)
        value = as_number("addcmul", "value", value, run)
        refuse_overflow((value,), input, tensor1, tensor2)
        return (run or apply)(Addcmul, (input, tensor1, tensor2), (value,))

    def d_tensor1(F, grad, tensor2, value):
        return grad * F.mul_number(tensor2, value)

    def d_tensor2(F, grad, tensor1, value):
        return grad * F.mul_number(tensor1, value)


def no_integer_division(input: Any, tensor1: Any, tensor2: Any) -> None:
    if max(category(tensor1), category(tensor2)) < FLOATING:
        raise RuntimeError(
            "Integer division with addcdiv is no longer supported, and in a future  release "
            "addcdiv will perform a true division of tensor1 and tensor2. The historic addcdiv "
            "behavior can be implemented as (input + value * torch.trunc(tensor1 / tensor2))"
            ".to(input.dtype) for integer inputs and as (input + value * tensor1 / tensor2) for "
            "float inputs. The future addcdiv behavior is just the latter implementation: (input + "
            "value * tensor1 / tensor2), for all dtypes."
        )


@op
class Addcdiv(ThreeTensors):
    """addcdiv(input, tensor1, tensor2, *, value=1) -> Tensor: `input + value * tensor1 / tensor2`.

    >>> addcdiv(tensor([1.0]), tensor([3.0]), tensor([2.0]), value=10)
    tensor([16.])
    """

    guard = no_integer_division
    autocast = Autocast(gpu=WIDEST)
    foreach = "combined"
    nonfinite = "division"
    samples = [
        Case(Draw(3), Draw(3), Draw(3, low=0.5)),
        Case(Draw(2, 1), Draw(3), Draw(2, 3, low=0.5), value=-0.5),
    ]

    def fwd(xp, input, tensor1, tensor2, value):
        wide = half_as_single(input)
        out = wide + cast_value(value, wide.dtype) * half_as_single(tensor1) / half_as_single(
            tensor2
        )
        return cast_value(out, input.dtype)

    def call(input, tensor1, tensor2, *, value=1, run=None):
        only_tensors("addcdiv", run, input=input, tensor1=tensor1, tensor2=tensor2)
        value = as_number("addcdiv", "value", value, run)
        refuse_overflow((value,), input, tensor1, tensor2)
        return (run or apply)(Addcdiv, (input, tensor1, tensor2), (value,))

    def d_tensor1(F, grad, tensor2, value):
        return grad * F.number_over(value, tensor2)

    def d_tensor2(F, grad, tensor1, tensor2, value):
        return -grad * (F.mul_number(tensor1, value) / (tensor2 * tensor2))
