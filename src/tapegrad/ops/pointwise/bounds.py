"""Values kept within bounds: clamp and its kin."""

from __future__ import annotations

from typing import Any

from ... import dtypes
from ...core.base import TensorBase
from ...dtypes import cpp_name
from ..block import PROMOTE, Case, Elementwise, api, apply, op, ufunc
from ..block.checks import (
    BOOL,
    COMPLEX,
    OUT_FOUND,
    as_stored,
    cast_value,
    category,
    common,
    invalid_call,
    is_complex,
    is_number,
    is_wide_float,
    not_for,
    not_implemented,
)
from ..block.samples import Draw

# ruff: noqa: N805


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
    have, want = common(input.array, low, high), input.dtype
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
            number = input.dtype.type  # NumPy's scalars are faster beside arrays than Python's
            low = None if low is None else number(low)
            return bounded(xp, input, low, None if high is None else number(high))
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
        return (run or apply)(ClampScalar, (input,), (min, max))
    if all([isinstance(b, TensorBase) for b in (min, max) if b is not None]):
        return (run or apply)(Clamp, (input, min, max))
    if isinstance(min, TensorBase) and is_number(max) and min.array.ndim == 0:
        return (run or apply)(ClampScalar, (input,), (min.array.item(), max))
    raise invalid_call("clamp", *[b for b in (min, max) if b is not None])


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
    return (run or apply)(ClampMaxScalar, (input,), (None, max))
