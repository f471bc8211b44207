"""Gamma and Dirichlet numbers from a stream, and how they move with their parameters.

A sample x of a distribution with the cumulative function F(x; a) has the derivative
-(dF/da) / (dF/dx) with respect to `a`: where x has to go so that F stays what it is. For both
distributions here that is an integral of a positive function, or a series of positive terms: hardly
anything cancels, and nearly all digits are right.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...kernels.cpu.gamma_functions import by_c, provide
from ...kernels.portable.functions import FUNCTIONS, NUMBERS
from ..draws.rejection import Doubles, by_kernel
from ..draws.twister import Array, Stream
from ..special.kernels import by_parts
from ..special.kernels_gamma import digamma

THIRD = np.float32(1.0) / np.float32(3.0)  # PyTorch has this constant in single precision
LEAST = float(np.finfo(np.float64).tiny)


class Normals:
    """Standard normals, one at a time, from pairs of uniforms; the stream keeps the odd one."""

    def __init__(self, stream: Stream, draw: Doubles) -> None:
        self.stream = stream
        self.draw = draw

    def __call__(self) -> float:
        waiting = self.stream.next_normal
        if waiting is not None:
            self.stream.next_normal = None
            return waiting
        angle = 2.0 * math.pi * self.draw()
        radius = math.sqrt(-2.0 * NUMBERS.log1p(-self.draw()))
        self.stream.next_normal = radius * NUMBERS.sin(angle)
        return radius * NUMBERS.cos(angle)


def gamma_numbers(stream: Stream, shapes: Array) -> Array:
    """A standard gamma number for each shape, by rejection (Marsaglia and Tsang 2000), in float64.

    The constants that depend on the shape are rounded to its dtype, as PyTorch's are.
    """
    kind = shapes.dtype.type
    with np.errstate(all="ignore"):
        small = shapes < 1
        exponents = np.where(small, kind(1) / shapes, kind(0))
        d = np.where(small, shapes + kind(1), shapes) - kind(THIRD)
    found = by_kernel("gamma", stream, 4, shapes, exponents, d)
    if found is not None:
        return found.reshape(shapes.shape)
    draw = Doubles(stream)
    normal = Normals(stream, draw)
    rows = zip(shapes.ravel().tolist(), exponents.ravel().tolist(), d.ravel().tolist(), strict=True)
    made = [gamma_number(*row, draw, normal) for row in rows]
    draw.settle()
    return np.array(made, np.float64).reshape(shapes.shape)


def gamma_number(shape: float, exponent: float, d: float, draw: Doubles, normal: Normals) -> float:
    if not 0.0 < shape < math.inf:
        return shape if shape >= 0.0 else math.nan
    scale = NUMBERS.power(1.0 - draw(), exponent) if shape < 1.0 else 1.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = normal()
        y = 1.0 + c * x
        if y <= 0.0:
            continue
        v = y * y * y
        u = 1.0 - draw()
        square = x * x
        if u < 1.0 - 0.0331 * square * square:
            return scale * d * v
        if NUMBERS.log(u) < 0.5 * square + d * (1.0 - v + NUMBERS.log(v)):
            return scale * d * v


def dirichlet_numbers(stream: Stream, shapes: Array) -> Array:
    """Gamma numbers in float64 over their sum along the last dimension, in float64."""
    drawn = np.fmax(gamma_numbers(stream, shapes.astype(np.float64)), LEAST)
    axis = -1 if shapes.ndim else None
    out: Array = drawn / drawn.sum(axis, keepdims=True)
    return out


# Derivatives. Kernels of flat float64 arrays, as `pointwise` calls them.

# u = exp(s - exp(-s)) at equally spaced s: the trapezoidal rule in s converges faster than any
# power of the spacing for integrands that fade like exp(-u) or exp(-u²).
SPACING = 0.09
STEPS = np.arange(-3.6, 4.2, SPACING)
NODES = FUNCTIONS["exp"](STEPS - FUNCTIONS["exp"](-STEPS))
WEIGHTS = SPACING * NODES * (1 + FUNCTIONS["exp"](-STEPS))

provide(nodes=NODES, weights=WEIGHTS)

SERIES_BELOW = 12.0  # parameters up to which the series are shorter than the integrals


def half_line(integrand: Callable[[Any], Any], scale: Any) -> Any:
    """The integral of `integrand(u)` over u > 0, which fades over a few times `scale`."""
    total = 0.0
    for node, weight in zip(NODES.tolist(), WEIGHTS.tolist(), strict=True):
        total = total + weight * integrand(scale * node)
    return scale * total


def summed(xp: Any, first: Any, ratio: Callable[[int], Any], weight: Callable[[int], Any]) -> Any:
    """Σ c_n w_n with c_0 = `first` and c_(n+1) = c_n r_n, until the terms are nothing."""
    coefficient = first
    total = coefficient * weight(0)
    for n in range(1000):
        coefficient = coefficient * ratio(n)
        total = total + coefficient * weight(n + 1)
        if not (coefficient > 1e-18 * xp.abs(total)).any():
            break
    return total


@by_c("gamma_derivative")
def gamma_derivative(xp: Any, a: Any, x: Any) -> Any:
    """How a standard gamma number x moves with its shape a."""
    with np.errstate(all="ignore"):
        known = (a > 0) & (x >= 0) & (a < math.inf)
        series = known & ((x < 1) | ((a <= SERIES_BELOW) & (x < a + 1)))
        below = known & ~series & (xp.log(x) < digamma(xp, a))
        above = known & ~series & ~below
        out = by_parts(
            xp,
            math.nan,
            [
                (series, lambda a, x: gamma_series(xp, a, x)),
                (below, lambda a, x: gamma_integral(xp, a, x, -1.0)),
                (above, lambda a, x: gamma_integral(xp, a, x, 1.0)),
            ],
            a,
            x,
        )
        return xp.where(x <= 0, 0.0, out)


def gamma_series(xp: Any, a: Any, x: Any) -> Any:
    """x Σ x^n / (a (a+1) … (a+n)) (ψ(a+n+1) - log x)."""
    gap = digamma(xp, a) - xp.log(x)

    def weight(n: int) -> Any:
        nonlocal gap
        gap = gap + 1 / (a + n)
        return gap

    return summed(xp, x / a, lambda n: x / (a + n + 1), weight)


def gamma_integral(xp: Any, a: Any, x: Any, side: float) -> Any:
    """x ∫ (t/x)^a exp(x-t) |log t - ψ(a)| du with t = x exp(±u): from x away from the mode."""
    gap = xp.abs(xp.log(x) - digamma(xp, a))
    slope = side * (a - x)

    def integrand(u: Any) -> Any:
        bend = xp.expm1(side * u) - side * u
        return xp.exp(slope * u - x * bend) * (gap + u)

    return x * half_line(integrand, 1 / (xp.abs(a - x) + xp.sqrt(x)))


@by_c("dirichlet_derivative")
def dirichlet_derivative(xp: Any, x: Any, a: Any, total: Any) -> Any:
    """How a component x moves with its parameter a, over 1 - x: x is beta(a, total - a)."""
    with np.errstate(all="ignore"):
        b = total - a
        y = 1 - x
        known = (a > 0) & (b > 0) & (x >= 0) & (y >= 0) & (total < math.inf)
        few = total <= 2 * SERIES_BELOW
        from_0 = few & (x <= 0.5) | ~few & (a <= SERIES_BELOW) & (x * total <= a + 1.5)
        from_1 = few & (x > 0.5) | ~few & (b <= SERIES_BELOW) & (y * total <= b + 1.5)
        from_0, from_1 = known & from_0, known & from_1
        rest = known & (x > 0) & ~from_0 & ~from_1
        below = rest & (xp.log(x) < digamma(xp, a) - digamma(xp, total))
        return by_parts(
            xp,
            math.nan,
            [
                ((x == 0) | (b == 0), lambda x, y, a, b: 0.0 * x),  # nowhere to go
                (from_0 & (x > 0), lambda x, y, a, b: beta_series(xp, x, a, b)),
                (from_1, lambda x, y, a, b: beta_series_from_1(xp, x, y, a, b)),
                (below, lambda x, y, a, b: beta_integral(xp, x, y, a, b)),
                (rest & ~below, lambda x, y, a, b: beta_integral_to_1(xp, x, y, a, b)),
            ],
            x,
            y,
            a,
            b,
        )


def beta_series(xp: Any, x: Any, a: Any, b: Any) -> Any:
    """x Σ x^n (a+b)…(a+b+n-1) / (a…(a+n)) (ψ(a+n+1) - ψ(a+b+n) - log x)."""
    gap = digamma(xp, a) + 1 / a - digamma(xp, a + b) - xp.log(x)

    def weight(n: int) -> Any:
        nonlocal gap
        if n:
            gap = gap + 1 / (a + n) - 1 / (a + b + n - 1)
        return gap

    return summed(xp, x / a, lambda n: x * (a + b + n) / (a + n + 1), weight)


def beta_series_from_1(xp: Any, x: Any, y: Any, a: Any, b: Any) -> Any:
    """x Σ y^n (a+b)…(a+b+n-1) / (b…(b+n)) (log x - ψ(a) + ψ(a+b+n)), y = 1 - x."""
    gap = xp.log(x) - digamma(xp, a) + digamma(xp, a + b)

    def weight(n: int) -> Any:
        nonlocal gap
        if n:
            gap = gap + 1 / (a + b + n - 1)
        return gap

    return summed(xp, x / b, lambda n: y * (a + b + n) / (b + n + 1), weight)


def beta_integral(xp: Any, x: Any, y: Any, a: Any, b: Any) -> Any:
    """x/y ∫ (t/x)^a ((1-t)/y)^(b-1) (ψ(a) - ψ(a+b) - log t) du with t = x exp(-u)."""
    gap = digamma(xp, a) - digamma(xp, a + b) - xp.log(x)
    odds = x / y

    def integrand(u: Any) -> Any:
        grown = xp.log1p(-odds * xp.expm1(-u))  # log((1-t)/y)
        return xp.exp((b - 1) * grown - a * u) * (gap + u)

    slope = xp.abs(a - (b - 1) * odds)
    return odds * half_line(integrand, 1 / (slope + xp.sqrt(b * odds / y)))


def beta_integral_to_1(xp: Any, x: Any, y: Any, a: Any, b: Any) -> Any:
    """∫ (t/x)^(a-1) ((1-t)/y)^b (log t - ψ(a) + ψ(a+b)) dv with 1-t = y exp(-v)."""
    gap = xp.log(x) - digamma(xp, a) + digamma(xp, a + b)
    odds = y / x

    def integrand(v: Any) -> Any:
        grown = xp.log1p(-odds * xp.expm1(-v))  # log(t/x)
        return xp.exp((a - 1) * grown - b * v) * (gap + grown)

    slope = xp.abs(b - (a - 1) * odds)
    return half_line(integrand, 1 / (slope + xp.sqrt(a * odds / x)))
