"""The incomplete gamma functions on arrays: see kernels.py."""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import Any

from ...kernels.cpu.gamma_functions import by_c, provide, provide_ratios
from .kernels import by_parts
from .kernels_error import ERFCX_FAR, ERFCX_MIDDLE, ERFCX_NEAR, erfcx_positive
from .kernels_gamma import log_gamma_1p, log_gamma_positive, stirling_rest

PRECISION = 1.2e-16
ROUNDS = 2000  # of a series or continued fraction, at most
ORDERS = 16  # powers of 1 / a in Temme's expansion
TERMS = 26  # powers of η
# B₂, B₄ …
BERNOULLI = [
    Fraction(*pair)
    for pair in (
        (1, 6),
        (-1, 30),
        (1, 42),
        (-1, 30),
        (5, 66),
        (-691, 2730),
        (7, 6),
        (-3617, 510),
    )
]


def stirling_numbers(count: int) -> list[Fraction]:
    """g_k of Γ(a) = √(2π / a) (a / e)^a Σ g_k a^-k: the exponential of the series of log Γ."""
    slopes = [Fraction(0)] * count
    for j, b in enumerate(BERNOULLI):
        if 2 * j + 1 < count:
            slopes[2 * j + 1] = b / (2 * j + 2)
    numbers = [Fraction(1)]
    for k in range(1, count):
        total = sum([slopes[i] * numbers[k - i] for i in range(1, k + 1)], Fraction(0))
        numbers.append(total / k)
    return numbers


@functools.cache
def temme_table() -> tuple[tuple[float, ...], ...]:
    """The coefficients of Temme's uniform expansion: powers of η down, of 1 / a across.

    DLMF 8.12.10: c_k = c'_{k-1} / η + (-1)^k g_k / μ, where μ(η) = x / a - 1 and c_0 = 1/μ - 1/η.
    """
    count = TERMS + 2 * ORDERS + 2
    mu = [Fraction(0), Fraction(1)]  # the power series of μ
    for n in range(2, count):
        products = sum([j * mu[j] * mu[n - j + 1] for j in range(2, n)], Fraction(0))
        mu.append((mu[n - 1] - products) / (n + 1))
    row = [-Fraction(1, 3), *[n * mu[n] for n in range(3, count)]]
    rows = [row]
    for k, g in enumerate(stirling_numbers(ORDERS)):
        if k:
            signed = -g if k % 2 else g
            row = [signed * rows[0][n] + (n + 2) * row[n + 2] for n in range(len(row) - 2)]
            rows.append(row)
    return tuple(tuple(float(row[n]) for row in rows) for n in range(TERMS))


provide(temme=temme_table, orders=ORDERS)
provide_ratios(erfcx_near=ERFCX_NEAR, erfcx_middle=ERFCX_MIDDLE, erfcx_far=ERFCX_FAR)


def log1p_less(d: Any) -> Any:
    """log(1 + d) - d for |d| ≤ 1/2, which two roundings of its parts would spoil."""
    r = d / (2 + d)
    square = r * r
    total = square * (1 / 35)
    for n in range(33, 3, -2):
        total += 1 / n
        total *= square
    total += 1 / 3
    return 2 * r * square * total - d * r


def prefactor(xp: Any, a: Any, x: Any) -> Any:
    """x^a e^-x / Γ(a + 1)."""

    def direct(a: Any, x: Any) -> Any:
        return xp.exp(a * xp.log(x) - x - log_gamma_positive(xp, a + 1))

    def stirling(a: Any, less: Any) -> Any:
        return xp.exp(a * less - stirling_rest(a)) / xp.sqrt(2 * math.pi * a)

    def near(a: Any, x: Any) -> Any:
        return stirling(a, log1p_less((x - a) / a))

    def apart(a: Any, x: Any) -> Any:
        return stirling(a, xp.log(x / a) - (x - a) / a)

    large = a >= 8
    close = large & (xp.abs(x - a) <= 0.4 * a)
    return by_parts(xp, 0.0, [(~large, direct), (close, near), (large & ~close, apart)], a, x)


def lower_series(xp: Any, a: Any, x: Any) -> Any:
    """P = x^a e^-x / Γ(a + 1) Σ x^n / ((a + 1) … (a + n)); best for x < a."""
    term = xp.ones_like(a)
    total = xp.ones_like(a)
    n = a.copy()
    for _ in range(ROUNDS):
        n += 1
        term *= x / n
        total += term
        if not (term > PRECISION * total).any():
            break
    return total * prefactor(xp, a, x)


def upper_series(xp: Any, a: Any, x: Any) -> Any:
    """Q for small x and a: 1 - x^a / Γ(a + 1) (1 + a Σ (-x)^n / ((a + n) n!))."""
    term = xp.ones_like(a)
    total = xp.zeros_like(a)
    for n in range(1, ROUNDS):
        term *= -x / n
        part = term / (a + n)
        total += part
        if not (xp.abs(part) > PRECISION * xp.abs(total)).any():
            break
    small = [
        (a <= 0.5, log_gamma_1p),
        (a > 0.5, lambda a: log_gamma_positive(xp, a + 1)),
    ]
    power = a * xp.log(x) - by_parts(xp, 0.0, small, a)
    return -xp.expm1(power) - xp.exp(power) * a * total


def upper_fraction(xp: Any, a: Any, x: Any) -> Any:
    """Q for x > 1 and x ≥ a: the even part of Legendre's continued fraction, as a sum."""
    first = x + 1 - a
    sums = xp.ones_like(a)
    place = xp.arange(a.size)  # of the elements that are still being summed
    top, top_step = xp.zeros_like(a), 1 - a
    below, below_step = (first - 2) * first, 4 * first
    share, term, total = xp.zeros_like(a), xp.ones_like(a), xp.ones_like(a)
    for n in range(1, ROUNDS):
        top = top + top_step
        below = below + below_step
        top_step = top_step + 2
        below_step = below_step + 8
        weight = top * (1 + share)
        share = weight / (below - weight)
        term = term * share
        total = total + term
        if n % 8 == 0:
            # Few need many rounds: those that x = a = 1 is near to.
            open_ = xp.abs(term) > PRECISION * xp.abs(total)
            sums[place] = total
            place = place[open_]
            if not place.size:
                break
            state = (top, top_step, below, below_step, share, term, total)
            top, top_step, below, below_step, share, term, total = [v[open_] for v in state]
    return sums * (a / first) * prefactor(xp, a, x)


def powers(xp: Any, x: Any, count: int) -> Any:
    """1, x, x² … in rows."""
    rows = xp.empty((count, x.size))
    rows[0] = 1
    for k in range(1, count):
        xp.multiply(rows[k - 1], x, rows[k])
    return rows


def temme_tail(xp: Any, a: Any, x: Any) -> Any:
    """For large a and x nearby, the smaller of P and Q: P for x < a."""
    fall = log1p_less((x - a) / a)
    size = xp.sqrt(-2 * fall)
    right = x >= a
    eta = xp.where(right, size, -size)
    table = xp.asarray(temme_table())
    sums = (table.T @ powers(xp, eta, TERMS) * powers(xp, 1 / a, ORDERS)).sum(axis=0)
    sums /= xp.sqrt(2 * math.pi * a)
    middle = 0.5 * erfcx_positive(xp, size * xp.sqrt(0.5 * a))
    return xp.exp(a * fall) * xp.where(right, middle + sums, middle - sums)


def gamma_fractions(xp: Any, a: Any, x: Any, upper: bool) -> Any:
    """P(a, x), or Q(a, x) = 1 - P if `upper`; NaN for negative arguments."""
    at_zero, at_infinity = (1.0, 0.0) if upper else (0.0, 1.0)

    def constant(value: float) -> Any:
        return lambda a, x: xp.full(a.shape, value)

    def from_lower(function: Any) -> Any:
        return lambda a, x: 1 - function(xp, a, x) if upper else function(xp, a, x)

    def from_upper(function: Any) -> Any:
        return lambda a, x: function(xp, a, x) if upper else 1 - function(xp, a, x)

    def temme(a: Any, x: Any) -> Any:
        tail = temme_tail(xp, a, x)
        return xp.where((x >= a) == upper, tail, 1 - tail)

    inside = (a > 0) & (x > 0) & ~xp.isinf(a) & ~xp.isinf(x)
    uniform = inside & (a > 20) & (xp.abs(x - a) < 0.3 * a)
    fraction = inside & ~uniform & (x > 1.1) & (x >= a)
    rest = inside & ~uniform & ~fraction
    edge = xp.where(x <= 0.5, -0.4 / xp.log(x), 1.1 * x)
    small = rest & (x <= 1.1) & (a <= edge)
    return by_parts(
        xp,
        math.nan,
        [
            (uniform, temme),
            (fraction, from_upper(upper_fraction)),
            (small, (lambda a, x: upper_series(xp, a, x)) if upper else from_lower(lower_series)),
            (rest & ~small, from_lower(lower_series)),
            ((x == 0) & ~(a <= 0), constant(at_zero)),
            ((x > 0) & (a == 0), constant(at_infinity)),
            (~(x < 0) & ~xp.isinf(x) & (a == math.inf), constant(at_zero)),
            ((x == math.inf) & ~(a <= 0) & ~xp.isinf(a), constant(at_infinity)),
        ],
        a,
        x,
    )


@by_c("lower_fraction")
def lower_fraction(xp: Any, a: Any, x: Any) -> Any:
    return gamma_fractions(xp, a, x, False)


@by_c("upper_fraction")
def upper_fraction_of(xp: Any, a: Any, x: Any) -> Any:
    return gamma_fractions(xp, a, x, True)
