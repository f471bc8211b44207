"""The gamma function and its relatives on arrays: see kernels.py."""

from __future__ import annotations

import math
from typing import Any

from ...kernels.cpu.gamma_functions import by_c, provide, provide_ratios
from .kernels import by_parts, horner, ratio

# fmt: off
# log Γ(x) / ((x - 1) (x - 2)) in x - 1/2 up to 1.5 and in x - 3/2 up to 3; log Γ(x) in x - 3 up to
# 8; from there what Stirling's formula lacks, times x, in 1 / x².
LOG_GAMMA_LOW = ((
    6.322465084206917e-05, 0.018886106447397574, 0.41407126013852186, 2.9159366240220783,
    9.084916114908062, 14.248322798334971, 11.686279486171978, 4.770777607496598,
    0.7631532572329335,
), (
    0.005324681809183941, 0.19664781212084098, 2.107488298120385, 9.707874878760087,
    22.590160503453053, 28.517064248802132, 19.731174295603584, 7.015256204652373, 1.0,
))
LOG_GAMMA_HIGH = ((
    1.313877388268077e-07, 7.682915338211904e-05, 0.0031476170157195105, 0.041720817170137224,
    0.2432449041397965, 0.6904053197309443, 0.9350194623022131, 0.4831289505409809,
), (
    1.8826493755333392e-05, 0.0012271243587491615, 0.023890426297828955, 0.2033414953619993,
    0.8735357499793064, 1.9747784485047721, 2.2374551494090733, 1.0,
))
LOG_GAMMA_MIDDLE = ((
    2.365125538789178e-07, 2.8508459020662262e-05, 0.0010458701204505798, 0.01685269163832814,
    0.1379627215440057, 0.6068836793693172, 1.423619925531502, 1.6320110548537723,
    0.6931471805599453,
), (
    -2.3917808078553147e-11, 4.5488765527882823e-08, 8.126501478174251e-06,
    0.00039402655260299425, 0.00800020978813803, 0.0795596899625723, 0.40678507037003614,
    1.0231978714569236, 1.0,
))
STIRLING = (
    0.005065905360081594, -0.0018903829938839239, 0.0008414700852502405, -0.0005952365845057042,
    0.0007936507897524059, -0.002777777777773988, 0.08333333333333333,
)
# ψ(x) over the distance from its root in x - 1 up to 3; then (log x - 1 / 2x - ψ(x)) x² in 1 / x².
DIGAMMA_NEAR = ((
    4.097361930526724e-08, 3.9117651665683125e-05, 0.002235289521967761, 0.04049350826567144,
    0.31649933632550714, 1.1741604116033721, 2.0079983521060054, 1.2503801375034054,
), (
    7.3778476243478865e-06, 0.0006000004112100302, 0.014396602345897333, 0.14810832904594673,
    0.7470495002328587, 1.9022022748824643, 2.2894571233542136, 1.0,
))
DIGAMMA_FAR = ((
    1.0782229366921343, 21.017305413156418, 57.65651456222292, 48.8472462451131,
    15.850824112917111, 2.023481407595907, 0.08333333333333333,
), (
    25.927999699959187, 305.5239721733764, 744.2665009098803, 604.315962745864,
    192.60044799650285, 24.38177689115088, 1.0,
))
# ψ'(x) in x - 1 up to 3; then (ψ'(x) - 1 / x - 1 / 2x²) x³ in 1 / x².
TRIGAMMA_NEAR = ((
    -3.192457697023973e-11, 0.020094063679181092, 0.24106557752646035, 1.2290744644967948,
    3.3936573918493607, 5.340394657528947, 4.54497130105292, 1.6449340668482264,
), (
    0.02009406271425232, 0.2511126234895311, 1.3512816176601687, 4.027447231302065,
    7.129567471987924, 7.446920419880142, 4.224537169861705, 1.0,
))
TRIGAMMA_FAR = ((
    4.518175182077018, 77.57861329387258, 183.5232546191159, 135.75020692342005,
    39.01007791597304, 4.465799037862561, 0.16666666666666666,
), (
    72.133526136511, 628.6381918373979, 1243.6374913703771, 858.70815620214, 239.31656919842857,
    26.99479422717534, 1.0,
))
# fmt: on
DIGAMMA_ROOT = 1.4616321449683622  # of which the next digits are
DIGAMMA_ROOT_REST = 9.549995429965698e-17
HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)
provide_ratios(
    log_low=LOG_GAMMA_LOW,
    log_high=LOG_GAMMA_HIGH,
    log_middle=LOG_GAMMA_MIDDLE,
    digamma_near=DIGAMMA_NEAR,
    digamma_far=DIGAMMA_FAR,
)
provide(stirling=STIRLING, root=(DIGAMMA_ROOT, DIGAMMA_ROOT_REST))


def sine_of_half_turns(xp: Any, x: Any) -> Any:
    """|sin πx|, zero at the integers."""
    part = xp.abs(x - xp.rint(x))
    return xp.sin(math.pi * part)


# ---------------------------------------------------------------------- logarithm of gamma


def log_gamma_near(x: Any) -> Any:
    """For 1/2 ≤ x < 3/2."""
    return (1 - x) * (2 - x) * ratio(LOG_GAMMA_LOW, x - 0.5)


def log_gamma_stirling(xp: Any, x: Any) -> Any:
    """For x ≥ 8."""
    return (x - 0.5) * (xp.log(x) - 1) + (HALF_LOG_TWO_PI - 0.5 + stirling_rest(x))


def stirling_rest(x: Any) -> Any:
    inverse = 1 / x
    return inverse * horner(STIRLING, inverse * inverse)


def log_gamma_positive(xp: Any, x: Any) -> Any:
    return by_parts(
        xp,
        math.nan,
        [
            (x < 0.5, lambda x: log_gamma_1p(x) - xp.log(x)),
            ((x >= 0.5) & (x < 1.5), log_gamma_near),
            (
                (x >= 1.5) & (x < 3),
                lambda x: (x - 1) * (x - 2) * ratio(LOG_GAMMA_HIGH, x - 1.5),
            ),
            ((x >= 3) & (x < 8), lambda x: ratio(LOG_GAMMA_MIDDLE, x - 3)),
            (x >= 8, lambda x: log_gamma_stirling(xp, x)),
        ],
        x,
    )


def log_gamma_1p(x: Any) -> Any:
    """log Γ(1 + x) for 0 ≤ x ≤ 1/2, exact near zero."""
    return x * (x - 1) * ratio(LOG_GAMMA_LOW, x + 0.5)


@by_c("log_gamma")
def log_gamma(xp: Any, x: Any) -> Any:
    """log |Γ(x)|: infinite at zero and the negative integers."""

    def reflected(x: Any) -> Any:
        # A tiny x has no digits to spare for x sin πx.
        sine = sine_of_half_turns(xp, x)
        rest = xp.log(sine / math.pi) + xp.log(-x) + log_gamma_positive(xp, -x)
        return xp.where((sine == 0) | xp.isinf(x), math.inf, -rest)

    return by_parts(
        xp,
        math.nan,
        [
            (x > 0, lambda x: log_gamma_positive(xp, x)),
            (x < 0, reflected),
            (x == 0, lambda x: xp.full(x.shape, math.inf)),
        ],
        x,
    )


# ---------------------------------------------------------------------- its derivatives


def digamma_near(x: Any) -> Any:
    """For 1 ≤ x < 3."""
    return ((x - DIGAMMA_ROOT) - DIGAMMA_ROOT_REST) * ratio(DIGAMMA_NEAR, x - 1)


def digamma_far(xp: Any, x: Any) -> Any:
    inverse = 1 / x
    square = inverse * inverse
    return xp.log(x) - 0.5 * inverse - square * ratio(DIGAMMA_FAR, square)


def digamma_positive(xp: Any, x: Any) -> Any:
    return by_parts(
        xp,
        math.nan,
        [
            (x < 1, lambda x: digamma_near(x + 1) - 1 / x),
            ((x >= 1) & (x < 3), digamma_near),
            (x >= 3, lambda x: digamma_far(xp, x)),
        ],
        x,
    )


def digamma(xp: Any, x: Any) -> Any:
    """ψ(x): NaN at the negative integers, infinite at zero with the sign of where it came from."""

    def reflected(x: Any) -> Any:
        part = x - xp.rint(x)
        value = digamma_positive(xp, 1 - x) - math.pi / xp.tan(math.pi * part)
        return xp.where(part == 0, math.nan, value)

    return by_parts(
        xp,
        math.nan,
        [
            (x > 0, lambda x: digamma_positive(xp, x)),
            (x < 0, reflected),
            (x == 0, lambda x: xp.copysign(math.inf, -x)),
        ],
        x,
    )


def trigamma_far(x: Any) -> Any:
    inverse = 1 / x
    square = inverse * inverse
    return inverse + 0.5 * square + inverse * square * ratio(TRIGAMMA_FAR, square)


def trigamma(xp: Any, x: Any) -> Any:
    """ψ'(x) for x ≥ 1/2."""
    return by_parts(
        xp,
        math.nan,
        [
            (x < 1, lambda x: 1 / (x * x) + ratio(TRIGAMMA_NEAR, x)),
            ((x >= 1) & (x < 3), lambda x: ratio(TRIGAMMA_NEAR, x - 1)),
            (x >= 3, trigamma_far),
        ],
        x,
    )


# ---------------------------------------------------------------------- Hurwitz's zeta function

# The Bernoulli numbers B₂, B₄ … over (2j)!, for the sum formula of Euler and Maclaurin.
BERNOULLI = (
    1 / 12,
    -1 / 720,
    1 / 30240,
    -1 / 1209600,
    1 / 47900160,
    -691 / 1307674368000,
    1 / 74724249600,
    -3617 / 10670622842880000,
    43867 / 5109094217170944000,
    -174611 / 802857662698291200000,
)
DIRECT = 10  # terms that are summed one by one
provide(zeta=BERNOULLI, direct=DIRECT)


def zeta_positive(xp: Any, s: Any, q: Any) -> Any:
    """Σ (q + k)^-s for s > 1 and q > 0."""
    total = xp.power(q, -s)
    for k in range(1, DIRECT):
        last = xp.power(q + k, -s)
        total += last
    w = q + DIRECT
    power = xp.power(w, -s)
    rest = xp.power(w, 1 - s) / (s - 1) + 0.5 * power
    rising = s * power / w
    inverse = 1 / (w * w)
    for j, b in enumerate(BERNOULLI):
        rest += b * rising
        rising = rising * ((s + 2 * j + 1) * (s + 2 * j + 2)) * inverse
    return xp.where(last < 1e-16 * total, total, total + rest)


def zeta_left(xp: Any, s: Any, q: Any) -> Any:
    """For an integer s and a negative q that is none: the terms left of zero, mirrored."""
    first = q - xp.floor(q)  # of the terms right of zero
    sign = xp.where(s % 2 == 0, 1.0, -1.0)
    near = zeta_positive(xp, s, first) + sign * zeta_positive(xp, s, 1 - first)
    return near - sign * zeta_positive(xp, s, 1 - q)


@by_c("zeta")
def zeta(xp: Any, s: Any, q: Any) -> Any:
    whole = q == xp.floor(q)
    poles = (s == 1) | (~(s < 1) & (q <= 0) & whole)
    return by_parts(
        xp,
        math.nan,
        [
            (poles, lambda s, q: xp.full(s.shape, math.inf)),
            ((s > 1) & (q > 0) & ~xp.isinf(q), lambda s, q: zeta_positive(xp, s, q)),
            ((s > 1) & (q < 0) & ~whole & (s == xp.floor(s)), lambda s, q: zeta_left(xp, s, q)),
        ],
        s,
        q,
    )
