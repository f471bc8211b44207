"""Counts drawn by rejection: Poisson and binomial. One value at a time, since how many words of the
stream a value takes depends on the words.
"""

from __future__ import annotations

import math

import numpy as np

from ...core.host_arrays import host
from ...core.settings import Settings
from ...kernels.cpu import KERNELS
from ...kernels.portable.functions import NUMBERS
from ..special.kernels_gamma import log_gamma_positive
from .checks import round_draws
from .streams import unit53
from .twister import Array, Stream

MOST_AHEAD = 1 << 16  # uniform numbers that are made at a time


def poisson(stream: Stream, rates: Array) -> Array:
    """torch.poisson: a count for each rate. How many words it takes depends on the words drawn."""
    found = by_kernel("poisson", stream, 4, rates) if (rates >= 0).all() else None
    if found is not None:
        return round_draws(found, rates.dtype, rates.shape)
    draw = Doubles(stream)
    counts = [poisson_count(float(rate), draw) for rate in rates.ravel().tolist()]
    draw.settle()
    return round_draws(np.array(counts, np.float64), rates.dtype, rates.shape)


def binomial(stream: Stream, count: Array, prob: Array) -> Array:
    """torch.binomial: successes among `count` throws; the two arrays have one shape and dtype."""
    made = by_kernel("binomial", stream, 4, count, prob)
    if made is not None:
        return round_draws(made, count.dtype, count.shape)
    draw = Doubles(stream)
    pairs = zip(count.ravel().tolist(), prob.ravel().tolist(), strict=True)
    found = [binomial_count(float(n), float(p), draw) for n, p in pairs]
    draw.settle()
    return round_draws(np.array(found, np.float64), count.dtype, count.shape)


def by_kernel(name: str, stream: Stream, each: int, *parameters: Array) -> Array | None:
    """Draw the numbers with c/kernels/rejection.c, which consumes about `each` words per number.

    None: there are no kernels, or a tape that would replay these uniform numbers.
    """
    if KERNELS is None or Settings.portable or KERNELS.has_tape():
        return None
    given = [np.ascontiguousarray(x, np.float64).ravel() for x in parameters]
    count = given[0].size
    out, state = np.empty(count), np.zeros(2, np.int64)
    odd = np.array(np.nan if stream.next_normal is None else stream.next_normal)
    mark, used, ready = stream.mark(), 0, np.empty(0)
    try:
        while state[0] < count:
            ready = np.concatenate([ready, unit53(stream, min(count * each, MOST_AHEAD) + 64)])
            KERNELS.KERNELS[name]((*given, ready, out, state, odd), (count, ready.size))
            used += int(state[1])
            ready = ready[state[1] :]
    finally:  # back to where it was: some of the numbers were not used
        stream.go_to(mark)
    stream.words64(used)
    if name == "gamma":
        stream.next_normal = None if np.isnan(odd) else float(odd)
    return out


class Doubles:
    """Uniform float64, one at a time, drawn ahead on a copy; `settle` moves the stream itself."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.ahead = stream.copy()
        self.used = 0
        self.ready: list[float] = []

    def __call__(self) -> float:
        if not self.ready:
            self.ready = unit53(self.ahead, 1024)[::-1].tolist()
        self.used += 1
        return self.ready.pop()

    def settle(self) -> None:
        self.stream.words64(self.used)


def poisson_count(rate: float, draw: Doubles) -> float:
    if not rate >= 0.0:
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    if rate == 0.0:
        return 0.0
    if rate < 10.0:  # count factors until the product falls below exp(-rate)
        limit, product, count = NUMBERS.exp(-rate), draw(), 0.0
        while product > limit:
            product *= draw()
            count += 1.0
        return count
    log_rate = NUMBERS.log(rate)  # transformed rejection (Hörmann 1993)
    b = 0.931 + 2.53 * math.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    v_r = 0.9277 - 3.6224 / (b - 2.0)
    while True:
        u, v = draw() - 0.5, draw()
        us = 0.5 - abs(u)
        k = math.floor((2.0 * a / us + b) * u + rate + 0.43)
        if us >= 0.07 and v <= v_r:
            return float(k)
        if k < 0 or (us < 0.013 and v > us):
            continue
        bound = -rate + k * log_rate - log_gamma(k + 1)
        if NUMBERS.log(v) + NUMBERS.log(inverse_alpha) - NUMBERS.log(a / (us * us) + b) <= bound:
            return float(k)


def binomial_count(n: float, p: float, draw: Doubles) -> float:
    if n <= 0.0 or p <= 0.0:
        return 0.0
    if p >= 1.0:
        return n
    if p > 0.5:
        return n - binomial_count(n, 1.0 - p, draw)
    if n * p >= 10.0:
        return btrs(n, p, draw)
    log_miss, reached, found = NUMBERS.log1p(-p), 0.0, 0.0  # jump from success to success
    while True:
        reached += math.ceil(NUMBERS.log(draw()) / log_miss)
        if reached > n:
            return found
        found += 1.0


def btrs(n: float, p: float, draw: Doubles) -> float:
    """Transformed rejection for the binomial (Hörmann 1993)."""
    spread = math.sqrt(n * p * (1.0 - p))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    c = n * p + 0.5
    v_r = 0.92 - 4.2 / b
    odds = p / (1.0 - p)
    alpha = (2.83 + 5.1 / b) * spread
    m = math.floor((n + 1.0) * p)
    while True:
        u, v = draw() - 0.5, draw()
        us = 0.5 - abs(u)
        k = math.floor((2.0 * a / us + b) * u + c)
        if us >= 0.07 and v <= v_r:
            return float(k)
        if k < 0 or k > n:
            continue
        bound = (
            (m + 0.5) * NUMBERS.log((m + 1.0) / (odds * (n - m + 1.0)))
            + (n + 1.0) * NUMBERS.log((n - m + 1.0) / (n - k + 1.0))
            + (k + 0.5) * NUMBERS.log(odds * (n - k + 1.0) / (k + 1.0))
            + stirling(m)
            + stirling(n - m)
            - stirling(k)
            - stirling(n - k)
        )
        if NUMBERS.log(v * alpha / (a / (us * us) + b)) <= bound:
            return float(k)


def log_gamma(x: float) -> float:
    if not Settings.portable:
        return math.lgamma(x)
    return float(log_gamma_positive(host, np.array([x]))[0])


def stirling(k: float) -> float:
    """The error of Stirling's formula for log(k!)."""
    if k <= 9:
        exact = log_gamma(k + 1.0)
        return exact - (
            (k + 0.5) * NUMBERS.log(k + 1.0) - (k + 1.0) + 0.5 * NUMBERS.log(2.0 * math.pi)
        )
    square = (k + 1.0) ** 2
    return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1.0)


# What PyTorch refuses, in its words.
