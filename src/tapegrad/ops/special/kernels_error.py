"""Relatives of the error function on arrays: see kernels.py."""

from __future__ import annotations

import math
from typing import Any

from .kernels import by_parts, ratio

# fmt: off
# erf(x) / x in x² up to 1; then exp(x²) erfc(x) in x - 1 up to 6.
ERF_NEAR = ((
    8.625602445726376e-08, 0.00019709588069752516, 0.0018829155471563983, 0.0455033341653278,
    0.14365581715028763, 1.1283791670955126,
), (
    2.0866484101019162e-05, 0.0006937362332349159, 0.010705251871973175, 0.0938746087651241,
    0.46064498648983654, 1.0,
))
ERF_TAIL = ((
    -7.600877146198776e-16, 1.621667483806877e-05, 0.0003847431698571875, 0.004227026860023122,
    0.027966437668274405, 0.12157558116083766, 0.35535032786474086, 0.6827834755456982,
    0.7915047714148826, 0.427583576155807,
), (
    2.8743307664876658e-05, 0.0007106828243570266, 0.008188521119571482, 0.05738802970070147,
    0.26846144348010964, 0.866396617363195, 1.9236473577262367, 2.8268891038387993,
    2.490078771900279, 1.0,
))
# erf(x) / x in x² up to 3.92, to the precision of a single float.
ERF_SINGLE = ((
    -1.4986023864796218e-08, 5.051744773552552e-06, 0.0003918728026236124, 0.00382398323287719,
    0.054416713587951165, 0.18359681156407145, 1.1283791910546426,
), (
    6.65764719617305e-05, 0.0013187295414998446, 0.015454809761642235, 0.11357112975179505,
    0.4960422000444414, 1.0,
))
# erf⁻¹(y) / y in 0.5625 - y² up to |y| = 0.75; then in √-log(1 - y), less 1.125 or 3.
ERFINV_NEAR = ((
    0.004629517836199464, 0.31730417194039606, 3.408658782601145, 12.832151510619875,
    21.727106021614006, 18.039487150473597, 7.160921199707379, 1.0845597967968248,
), (
    0.030108495873496597, 0.8535064285470091, 6.247619308964538, 18.607684554381887,
    26.78300806716227, 19.70783200731746, 7.121354241112377, 1.0,
))
ERFINV_FAR = ((
    0.0013852665354042524, 0.03650721820382258, 0.3442083123755687, 1.6591917633268352,
    4.781072381742724, 8.838908128786484, 10.699625604293024, 8.284869691640182,
    3.753437247606441, 0.7606323869674759,
), (
    2.897101103712771e-09, 0.0013850150815410743, 0.03496678805870257, 0.30802772405358514,
    1.3655853912661742, 3.571002585140538, 5.8511543406465325, 6.014925995837901,
    3.615870065160106, 1.0,
))
ERFINV_LAST = ((
    0.00014893278056030265, 0.006207626075199615, 0.09398831999916062, 0.6976960692568794,
    2.8005732054497567, 6.123095638062207, 6.69329379261044, 2.714760997939285,
), (
    1.1495795712511368e-10, 0.00014891926692480955, 0.005762179062309909, 0.07707019442587908,
    0.4760271528117625, 1.4586313932704147, 2.0817822178972194, 1.0,
))
# Φ⁻¹(1/2 + q) / q in 0.180625 - q² up to |q| = 0.425; then -Φ⁻¹(p) in r = √-log p, less 1.6 or 5.
NDTRI_NEAR = ((
    9337.31868254127, 222542.29888923568, 823211.500234892, 1070696.0909198807,
    642549.1592490167, 201853.53648477246, 35097.59362354282, 3383.9305070235127,
    168.7695859059428, 3.387132872796367,
), (
    24659.993400567433, 237397.53921448093, 586386.2572520972, 592776.8233874465,
    297827.2025479828, 81857.5377525994, 12818.244715578627, 1135.7701222515911, 52.831937249429,
    1.0,
))
NDTRI_FAR = ((
    7.021355815515727e-05, 0.0028477028904769918, 0.04265573683356803, 0.3281996025557107,
    1.4607583582995678, 3.867306448959962, 5.895441930593747, 4.658671152911319,
    1.4234371107496835,
), (
    3.604856526953905e-11, 4.964417089088834e-05, 0.0019346295319642268, 0.02720737081022722,
    0.19254621603461666, 0.7681616354872175, 1.7409835549495896, 2.073096479855932, 1.0,
))
NDTRI_LAST = ((
    1.4242944788070118e-11, 4.349905439081561e-09, 4.6170918021579426e-07, 2.362229270151063e-05,
    0.0006710288561928353, 0.011406019672499533, 0.1203931378616747, 0.7942299315134551,
    3.180622404321089, 7.061691528262425, 6.657904643501103,
), (
    1.4291091203859e-20, 1.0071269342026425e-11, 3.0255021669872414e-09, 3.113891733549929e-07,
    1.5155975856719416e-05, 0.000399524912400835, 0.006100931803634923, 0.055346847899077234,
    0.293579096442148, 0.8398336338304655, 1.0,
))
# exp(x²) erfc(x) in x up to 2 and in x - 2 up to 6; then x exp(x²) erfc(x) in 1 / x².
ERFCX_NEAR = ((
    2.254611793717582e-10, 0.0002480469222991685, 0.00441690642543306, 0.03638047200530128,
    0.17932794544725128, 0.5722531503003931, 1.193899339204215, 1.531117116853581, 1.0,
), (
    0.0004396664021287759, 0.00782849520395026, 0.06470576348279468, 0.3217360033306853,
    1.0465171446720831, 2.269977457086685, 3.1948195409803097, 2.6594962839490934, 1.0,
))
ERFCX_MIDDLE = ((
    -5.2589018694237324e-14, 6.326517202919197e-05, 0.0013561295592428853, 0.012673258763372278,
    0.06596059185575794, 0.20154875983363507, 0.3431888588562247, 0.25539567631050575,
), (
    0.00011213459250985312, 0.0026279463928602287, 0.02732618525383256, 0.16292737445362523,
    0.6000556434730557, 1.362247930935002, 1.761914403604194, 1.0,
))
ERFCX_FAR = ((
    8.391193048053324, 49.006418865989644, 39.128176663558634, 8.87556229736367,
    0.5641895835477563,
), (
    38.66678117661007, 114.92229720933082, 76.71864969281485, 16.231524572913912, 1.0,
))
# fmt: on


def exp_square(xp: Any, x: Any, sign: int = 1) -> Any:
    """exp(±x²) in two factors: x² alone would lose the digits that the exponential magnifies."""
    short = xp.rint(x * 16) / 16
    return xp.exp(sign * short * short) * xp.exp(sign * (x - short) * (x + short))


def erf(xp: Any, x: Any) -> Any:
    def far(x: Any) -> Any:
        size = xp.minimum(xp.abs(x), 6.0)
        return xp.copysign(1 - xp.exp(-size * size) * ratio(ERF_TAIL, size - 1), x)

    near = xp.abs(x) < 1
    return by_parts(xp, math.nan, [(near, erf_near), (~near, far)], x)


def erf_near(x: Any) -> Any:
    return x * ratio(ERF_NEAR, x * x)


def erf_single(xp: Any, x: Any) -> Any:
    """For single precision, in single precision."""
    x = xp.clip(x, -3.925, 3.925)
    return xp.clip(x * ratio(ERF_SINGLE, x * x), -1, 1)


def erfc(xp: Any, x: Any) -> Any:
    def right(x: Any) -> Any:
        return erfcx_positive(xp, x) * exp_square(xp, x, -1)

    return by_parts(
        xp,
        math.nan,
        [
            (xp.abs(x) < 0.5, lambda x: 1 - erf_near(x)),
            ((x >= 0.5) & (x < 28), right),
            (x >= 28, xp.zeros_like),
            (x <= -0.5, lambda x: 2 - right(xp.minimum(-x, 6.0))),
        ],
        x,
    )


def erfcx_positive(xp: Any, x: Any) -> Any:
    def far(x: Any) -> Any:
        inverse = 1 / x
        return inverse * ratio(ERFCX_FAR, inverse * inverse)

    return by_parts(
        xp,
        math.nan,
        [
            (x < 2, lambda x: ratio(ERFCX_NEAR, x)),
            ((x >= 2) & (x < 6), lambda x: ratio(ERFCX_MIDDLE, x - 2)),
            (x >= 6, far),
        ],
        x,
    )


def erfcx(xp: Any, x: Any) -> Any:
    """exp(x²) erfc(x)."""

    def left(x: Any) -> Any:
        return 2 * exp_square(xp, x) - erfcx_positive(xp, -x)

    parts = [
        (x >= 0, lambda x: erfcx_positive(xp, x)),
        ((x < 0) & (x >= -27), left),
        (x < -27, lambda x: xp.full(x.shape, math.inf)),
    ]
    return by_parts(xp, math.nan, parts, x)


def log_ndtr(xp: Any, x: Any) -> Any:
    """The logarithm of the normal distribution function."""
    t = x * math.sqrt(0.5)

    def left(t: Any) -> Any:
        return xp.log(0.5 * erfcx_positive(xp, -t)) - t * t

    def middle(t: Any) -> Any:
        return xp.log1p(-0.5 * erfcx(xp, t) * exp_square(xp, t, -1))

    def right(t: Any) -> Any:
        return -0.5 * erfcx_positive(xp, t) * exp_square(xp, t, -1)

    parts = [
        (x < -1, left),
        ((x >= -1) & (t < 6), middle),
        ((t >= 6) & (t < 30), right),
        (t >= 30, lambda t: xp.full(t.shape, -0.0)),
    ]
    return by_parts(xp, math.nan, parts, t)


def erfinv(xp: Any, y: Any) -> Any:
    """The x with erf(x) = y: infinite at ±1, NaN beyond."""
    size = xp.abs(y)

    def far(y: Any) -> Any:
        w = xp.sqrt(-xp.log1p(-xp.abs(y)))
        first = w < 3
        parts = [
            (first, lambda w: ratio(ERFINV_FAR, w - 1.125)),
            (~first, lambda w: ratio(ERFINV_LAST, w - 3)),
        ]
        return xp.copysign(by_parts(xp, math.nan, parts, w), y)

    parts = [
        (size <= 0.75, lambda y: y * ratio(ERFINV_NEAR, 0.5625 - y * y)),
        ((size > 0.75) & (size < 1), far),
        (size == 1, lambda y: xp.copysign(math.inf, y)),
    ]
    return by_parts(xp, math.nan, parts, y)


def ndtri(xp: Any, p: Any) -> Any:
    """The quantiles of the normal distribution: infinite at 0 and 1, NaN beyond."""
    q = p - 0.5

    def near(p: Any) -> Any:
        q = p - 0.5
        return q * ratio(NDTRI_NEAR, 0.180625 - q * q)

    def far(p: Any) -> Any:
        left = p < 0.5
        r = xp.sqrt(-xp.log(xp.where(left, p, 1 - p)))
        first = r < 5
        parts = [
            (first, lambda r: ratio(NDTRI_FAR, r - 1.6)),
            (~first, lambda r: ratio(NDTRI_LAST, r - 5)),
        ]
        size = by_parts(xp, math.nan, parts, r)
        return xp.where(left, -size, size)

    parts = [
        (xp.abs(q) <= 0.425, near),
        ((xp.abs(q) > 0.425) & (p > 0) & (p < 1), far),
        ((p == 0) | (p == 1), lambda p: xp.copysign(math.inf, p - 0.5)),
    ]
    return by_parts(xp, math.nan, parts, p)
