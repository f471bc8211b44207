"""Integrals by the trapezoid rule."""

from __future__ import annotations

import operator
from typing import Any

from ...core.arguments import wrap_dim
from ...core.base import TensorBase
from ...errors import must_be_tensor
from ..block import Case, api
from ..block.checks import invalid_call, is_number
from ..block.samples import Draw, Index
from ..pointwise.with_number import div_number, mul_number

POINTS = Index([0.0, 0.5, 2.0, 3.5])
CASES = [
    Case(Draw(4)),
    Case(Draw(3, 4), dx=0.5),
    Case(Draw(4, 3), dim=0),
    Case(Draw(3, 4), POINTS),
    Case(Draw(4, 2), POINTS, dim=0),
    Case(Draw(2, 3, 4), Draw(3, 4)),
    Case(Draw(2, 4), Draw(2, 4)),
]


def checked_dim(function: str, y: Any, x: Any, dx: Any, dim: Any) -> int:
    """The dimension, of arguments that fit one of the two signatures."""
    if not isinstance(y, TensorBase):
        raise must_be_tensor(function, "y", 1, y)
    if x is not None and (dx is not None or not isinstance(x, TensorBase)):
        raise invalid_call(function, y, x, *([] if dx is None else [dx]))
    if not hasattr(dim, "__index__") or not (dx is None or is_number(dx)):
        raise invalid_call(function, y, *[v for v in (dx, dim) if v is not None])
    return operator.index(dim)


def check_kinds(function: str, y: Any, x: Any, dx: Any) -> None:
    which = "`y`" if x is None else "`x` or `y`"
    if y._array.dtype.kind == "b" or (x is not None and x._array.dtype.kind == "b"):
        raise RuntimeError(
            f"{function}: received a bool input for {which}, but bool is not supported"
        )
    if isinstance(dx, (bool, complex)):
        raise RuntimeError(f"{function}: Currently, we only support dx as a real number.")


def sides(t: Any, dim: int) -> tuple[Any, Any]:
    """All but the last and all but the first along a dimension."""
    if not t._array.ndim:
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    count = max(t._array.shape[dim] - 1, 0)
    return t.narrow(dim, 0, count), t.narrow(dim, t._array.shape[dim] - count, count)


def steps(function: str, y: Any, x: Any, dim: int) -> Any:
    """The distances between the points `x`, in a shape that broadcasts against `y`."""
    shape = x._array.shape
    ndim = y._array.ndim
    if len(shape) == 1:
        if shape[0] != y._array.shape[dim]:
            raise RuntimeError(f"{function}: There must be one `x` value for each sample point")
        x = x.view([shape[0] if d == dim else 1 for d in range(ndim)])
    elif len(shape) < ndim:
        x = x.view((*(1,) * (ndim - len(shape)), *shape))
    left, right = sides(x, dim)
    return right - left


def integral(y: Any, x: Any, dx: Any, dim: Any) -> Any:
    function = "trapezoid"
    shape = y._array.shape
    if not shape:
        place = dim if x is None else 0
        raise IndexError(f"Dimension specified as {place} but tensor has no dimensions")
    d = wrap_dim(dim, len(shape))
    if not shape[d]:
        return y.new_zeros((*shape[:d], *shape[d + 1 :]))
    check_kinds(function, y, x, dx)
    if x is None:
        ends = y.select(d, 0) + y.select(d, -1)
        middle = y.sum(d) - mul_number(ends, 0.5)
        return mul_number(middle, float(1 if dx is None else dx))
    left, right = sides(y, d)
    return div_number(((left + right) * steps(function, y, x, d)).sum(d), 2.0)


@api(method=False, samples=CASES)
def trapezoid(y: Any, x: Any = None, *, dx: Any = None, dim: Any = -1) -> Any:
    """trapezoid(y, x=None, *, dx=1, dim=-1) -> Tensor: the integral of `y`, at `x` or `dx` apart.

    >>> trapezoid(tensor([1.0, 5.0, 10.0])), trapezoid(tensor([1.0, 3.0]), tensor([0.0, 2.0]))
    (tensor(10.5000), tensor(4.))
    """
    return integral(y, x, dx, checked_dim("trapezoid", y, x, dx, dim))


@api(method=False, samples=CASES)
def trapz(y: Any, x: Any = None, *, dx: Any = None, dim: Any = -1) -> Any:
    """trapz(y, x=None, *, dx=1, dim=-1) -> Tensor: the older name of `trapezoid`.

    >>> trapz(tensor([1.0, 5.0, 10.0]))
    tensor(10.5000)
    """
    return integral(y, x, dx, checked_dim("trapz", y, x, dx, dim))


@api(method=False, samples=CASES)
def cumulative_trapezoid(y: Any, x: Any = None, *, dx: Any = None, dim: Any = -1) -> Any:
    """cumulative_trapezoid(y, x=None, *, dx=1, dim=-1) -> Tensor: the integral up to each point.

    >>> cumulative_trapezoid(tensor([1.0, 5.0, 10.0]))
    tensor([ 3.0000, 10.5000])
    """
    function = "cumulative_trapezoid"
    d = wrap_dim(checked_dim(function, y, x, dx, dim), y._array.ndim)
    check_kinds(function, y, x, dx)
    left, right = sides(y, d)
    if x is None:
        return mul_number(left + right, float(1 if dx is None else dx) / 2.0).cumsum(d)
    return div_number(((left + right) * steps(function, y, x, d)).cumsum(d), 2.0)
