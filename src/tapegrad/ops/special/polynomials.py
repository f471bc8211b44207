"""Orthogonal polynomials by degree, elementwise. PyTorch does not differentiate them.

The degree is a tensor too; what it has behind the point is dropped, and below zero the polynomial
is zero. Between -1 and 1 and beyond a few degrees, Chebyshev polynomials are cosines. All is in the
precision of the tensors, because the recurrences amplify what is rounded away in PyTorch too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...core.base import TensorBase
from ...core.op import Op
from ..block import Case, Elementwise, apply, op
from ..block.checks import invalid_call, is_number, only_wide
from ..block.samples import Draw, Index
from .kernels import by_parts, pointwise

# ruff: noqa: N805

Step = Callable[[int, Any, Any, Any], Any]


def fused(a: Any, q: Any, c: Any) -> Any:
    """a q - c rounded once, as the processor does it for PyTorch, where that is cheap to say."""
    if q.dtype.itemsize == 8:
        return a * q - c
    return (a.astype("float64") * q - c).astype(q.dtype)


def climb(xp: Any, x: Any, n: Any, first: Any, step: Step) -> Any:
    """From the degrees 0 and 1 up to `n`, where step(k, x, p, q) is the degree k + 1 ≥ 2."""
    before = xp.ones_like(x)
    value = first
    for k in range(1, int(n.max())):
        going = n > k
        following = step(k, x, before, value)
        before = xp.where(going, value, before)
        value = xp.where(going, following, value)
        if not (going & ~xp.isnan(value)).any():
            break
    return xp.where(n == 0, 1.0, value)


def whole_degrees(xp: Any, n: Any) -> Any:
    """Integers; what is no number counts as negative."""
    return xp.where(xp.abs(n) < 2.0**63, xp.trunc(n), -1.0)


def polynomial(xp: Any, x: Any, n: Any, first: Any, step: Step) -> Any:
    def inside(x: Any, n: Any) -> Any:
        return climb(xp, x, n, first(x), step)

    n = whole_degrees(xp, n)
    return by_parts(xp, 0.0, [(n >= 0, inside)], x, n)


def chebyshev(xp: Any, x: Any, n: Any, kind: str, cosines_from: int) -> Any:
    """The four kinds differ in where they start, in their ends, and in the waves they are."""
    n = whole_degrees(xp, n)
    size = xp.abs(x)
    waving = (n >= cosines_from) & (size < 1)
    ends = (n >= 0) & (size == 1)

    def climbing(x: Any, n: Any) -> Any:
        start = {"t": x, "u": 2 * x, "v": 2 * x - 1, "w": 2 * x + 1}[kind]
        return climb(xp, x, n, start, lambda k, x, p, q: fused(2 * x, q, p))

    def waves(x: Any, n: Any) -> Any:
        angle = xp.arccos(x)
        if kind == "t":
            return xp.cos(n * angle)
        if kind == "u":
            return xp.sin((n + 1) * angle) / xp.sin(angle)
        if kind == "v":
            return xp.cos((n + 0.5) * angle) / xp.cos(0.5 * angle)
        return xp.sin((n + 0.5) * angle) / xp.sin(0.5 * angle)

    def at_ends(x: Any, n: Any) -> Any:
        sign = xp.where((x < 0) & (n % 2 == 1), -1.0, 1.0)
        if kind == "t":
            return sign
        if kind == "u":
            return sign * (n + 1)
        grows = x < 0 if kind == "v" else x > 0
        return xp.where(grows, 2 * n + 1, 1.0) * sign

    parts = [(ends, at_ends), (waving & ~ends, waves), ((n >= 0) & ~ends & ~waving, climbing)]
    return by_parts(xp, 0.0, parts, x, n)


# ---------------------------------------------------------------------- the functions

DEGREES = Index([[0], [1], [2], [5], [12]])
CASES = [
    Case(Draw(5, 4, low=-0.9, high=0.9), DEGREES),
    Case(Draw(5, 2, low=1.1), DEGREES),
    Case(Draw(4), 3),
    Case(0.4, Index([0, 1, 6, 10])),
    Case(Draw(3, 2, layout="T"), Index(4)),
    Case(Draw(0, 2), 2),
    Case(Index([-1.0, 1.0]), Index([[3], [4], [-1]])),
]


class Polynomial(Elementwise):
    tensors = ("x", "n")
    inplace = False
    undifferentiable = "PyTorch has no derivative for it"
    samples = CASES


def polynomial_op(values: Any) -> Op:
    """The op of a polynomial: `values` computes it, and has its name and its documentation."""
    short = values.__name__

    class Made(Polynomial):
        __doc__ = values.__doc__
        name = f"special.{short}"
        node = f"Special{short.title().replace('_', '')}Backward0"
        guard = only_wide(f"{short}_cpu")

        def fwd(xp, x, n):
            return pointwise(xp, values, x, n, double=False)

        def call(x, n):
            return checked(made, x, n)

    made = op(Made)
    return made


def checked(record: Any, x: Any, n: Any) -> Any:
    """At least one tensor, the other perhaps a number."""
    values = (x, n)
    if not all([isinstance(v, TensorBase) or is_number(v) for v in values]) or not any(
        [isinstance(v, TensorBase) for v in values]
    ):
        raise invalid_call(record.name, x, n)
    return apply(record, values)


@polynomial_op
def chebyshev_polynomial_t(xp: Any, x: Any, n: Any) -> Any:
    """special.chebyshev_polynomial_t(x, n) -> Tensor: Chebyshev's polynomials of the first kind.

    >>> torch.special.chebyshev_polynomial_t(tensor([0.0, 2.0]), 3)
    tensor([-0., 26.])
    """
    return chebyshev(xp, x, n, "t", 7)


@polynomial_op
def chebyshev_polynomial_u(xp: Any, x: Any, n: Any) -> Any:
    """special.chebyshev_polynomial_u(x, n) -> Tensor: Chebyshev's polynomials of the second kind.

    >>> torch.special.chebyshev_polynomial_u(tensor([0.0, 2.0]), 3)
    tensor([-0., 56.])
    """
    return chebyshev(xp, x, n, "u", 9)


@polynomial_op
def chebyshev_polynomial_v(xp: Any, x: Any, n: Any) -> Any:
    """special.chebyshev_polynomial_v(x, n) -> Tensor: Chebyshev's polynomials of the third kind.

    >>> torch.special.chebyshev_polynomial_v(tensor([0.0, 2.0]), 3)
    tensor([ 1., 41.])
    """
    return chebyshev(xp, x, n, "v", 9)


@polynomial_op
def chebyshev_polynomial_w(xp: Any, x: Any, n: Any) -> Any:
    """special.chebyshev_polynomial_w(x, n) -> Tensor: Chebyshev's polynomials of the fourth kind.

    >>> torch.special.chebyshev_polynomial_w(tensor([0.0, 2.0]), 3)
    tensor([-1., 71.])
    """
    return chebyshev(xp, x, n, "w", 9)


@polynomial_op
def shifted_chebyshev_polynomial_t(xp: Any, x: Any, n: Any) -> Any:
    """special.shifted_chebyshev_polynomial_t(x, n) -> Tensor: `chebyshev_polynomial_t` of 2x - 1.

    >>> torch.special.shifted_chebyshev_polynomial_t(tensor([0.0, 2.0]), 3)
    tensor([-1., 99.])
    """
    return chebyshev(xp, 2 * x - 1, n, "t", 7)


@polynomial_op
def shifted_chebyshev_polynomial_u(xp: Any, x: Any, n: Any) -> Any:
    """special.shifted_chebyshev_polynomial_u(x, n) -> Tensor: `chebyshev_polynomial_u` of 2x - 1.

    >>> torch.special.shifted_chebyshev_polynomial_u(tensor([0.0, 2.0]), 3)
    tensor([ -4., 204.])
    """
    return chebyshev(xp, 2 * x - 1, n, "u", 7)


@polynomial_op
def shifted_chebyshev_polynomial_v(xp: Any, x: Any, n: Any) -> Any:
    """special.shifted_chebyshev_polynomial_v(x, n) -> Tensor: `chebyshev_polynomial_v` of 2x - 1.

    >>> torch.special.shifted_chebyshev_polynomial_v(tensor([0.0, 2.0]), 3)
    tensor([ -7., 169.])
    """
    return chebyshev(xp, 2 * x - 1, n, "v", 7)


@polynomial_op
def shifted_chebyshev_polynomial_w(xp: Any, x: Any, n: Any) -> Any:
    """special.shifted_chebyshev_polynomial_w(x, n) -> Tensor: `chebyshev_polynomial_w` of 2x - 1.

    >>> torch.special.shifted_chebyshev_polynomial_w(tensor([0.0, 2.0]), 3)
    tensor([ -1., 239.])
    """
    return chebyshev(xp, 2 * x - 1, n, "w", 5)


# Beyond these degrees PyTorch gives up on Hermite's polynomials, which overflow.
HERMITE_LIMIT = {8: 512, 4: 128}


def hermite(xp: Any, x: Any, n: Any, factor: int) -> Any:
    """H for a factor of 2, He for 1."""

    def step(k: int, x: Any, p: Any, q: Any) -> Any:
        return fused(factor * x, q, factor * k * p)

    limit = HERMITE_LIMIT[x.dtype.itemsize]
    known = xp.where(n > limit, -1.0, n)
    found = polynomial(xp, x, known, lambda x: factor * x, step)
    return xp.where((n > limit) & (n < 2.0**63), math.nan, found)


@polynomial_op
def hermite_polynomial_h(xp: Any, x: Any, n: Any) -> Any:
    """special.hermite_polynomial_h(x, n) -> Tensor: Hermite's polynomials of the physicists.

    >>> torch.special.hermite_polynomial_h(tensor([0.0, 2.0]), 3)
    tensor([-0., 40.])
    """
    return hermite(xp, x, n, 2)


@polynomial_op
def hermite_polynomial_he(xp: Any, x: Any, n: Any) -> Any:
    """special.hermite_polynomial_he(x, n) -> Tensor: Hermite's polynomials of the probabilists.

    >>> torch.special.hermite_polynomial_he(tensor([0.0, 2.0]), 3)
    tensor([-0., 2.])
    """
    return hermite(xp, x, n, 1)


def laguerre_step(k: int, x: Any, p: Any, q: Any) -> Any:
    return fused(2 * k + (1 - x), q, k * p) / (k + 1)


@polynomial_op
def laguerre_polynomial_l(xp: Any, x: Any, n: Any) -> Any:
    """special.laguerre_polynomial_l(x, n) -> Tensor: Laguerre's polynomials.

    >>> torch.special.laguerre_polynomial_l(tensor([0.0, 2.0]), 3)
    tensor([ 1.0000, -0.3333])
    """
    return polynomial(xp, x, n, lambda x: 1 - x, laguerre_step)


def legendre_step(k: int, x: Any, p: Any, q: Any) -> Any:
    return fused((2 * k + 1) * x, q, k * p) / (k + 1)


@polynomial_op
def legendre_polynomial_p(xp: Any, x: Any, n: Any) -> Any:
    """special.legendre_polynomial_p(x, n) -> Tensor: Legendre's polynomials.

    >>> torch.special.legendre_polynomial_p(tensor([0.0, 2.0]), 3)
    tensor([-0., 17.])
    """
    return polynomial(xp, x, n, lambda x: x, legendre_step)
