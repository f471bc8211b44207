"""Elementary functions of doubles in one order of + - * / and square roots: one result everywhere.

Each function gets `m`, the few primitives that operators do not spell (`where`, `sqrt`, `rint`, and
`bits` and `floats`, which read a double as a whole number and back), and operands. They are arrays
where NumPy computes, and symbols when tools/portable_functions.py prints the C loops; no other text
of the formulas exists. Every operation is rounded on its own: no product is fused with a sum.

The errors are below 1 ulp for most functions and below 2 for all (tests/test_portable_bits.py).
`SINGLE` has shorter formulas, for results that are rounded to single floats.
Coefficients are those of Taylor series, or of polynomials through the Chebyshev nodes of intervals
worked out with sixty digits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

INF, NAN = math.inf, math.nan
MAGIC = 6755399441055744.0  # 1.5 * 2**52: a double plus this is rounded to a whole number
SIGN = 1 << 63
ALL = (1 << 64) - 1
SPLIT = 134217729.0  # 2**27 + 1
TINY = 2.2250738585072014e-308  # the smallest normal double

# The first part has 32 bits, so that its products with whole numbers are exact.
LN2_HIGH, LN2_LOW = float.fromhex("0x1.62e42fee00000p-1"), float.fromhex("0x1.a39ef35793c76p-33")
LN2, LN2_REST = float.fromhex("0x1.62e42fefa39efp-1"), float.fromhex("0x1.abc9e3b39803fp-56")
PER_LN2, PER_LN2_REST = (
    float.fromhex("0x1.71547652b82fep+0"),
    float.fromhex("0x1.777d0ffda0d24p-56"),
)
PER_LN10, PER_LN10_REST = (
    float.fromhex("0x1.bcb7b1526e50ep-2"),
    float.fromhex("0x1.95355baaafad3p-57"),
)
HALF_PI, HALF_PI_REST = (
    float.fromhex("0x1.921fb54442d18p+0"),
    float.fromhex("0x1.1a62633145c07p-54"),
)
# Half of pi in parts of 33 bits, and what is left.
HALF_PI_PARTS = (
    float.fromhex("0x1.921fb54400000p+0"),
    float.fromhex("0x1.0b4611a600000p-34"),
    float.fromhex("0x1.3198a2e000000p-69"),
    float.fromhex("0x1.b839a252049c1p-104"),
)
FAR_ANGLE = 1e6  # beyond it quarter turns are counted with whole numbers of any length

EXP = [1 / math.factorial(n) for n in range(13, 1, -1)]  # (exp(r) - 1 - r) / r²
LOG = [2 / (2 * n + 1) for n in range(11, 0, -1)]  # (2 artanh(s) - 2s) / s³, in s²
LOG_LATE = [2 / (2 * n + 1) for n in range(12, 2, -1)]  # from s⁷ on
THIRD, THIRD_REST = 2 / 3, float.fromhex("0x1.5555555555555p-55")
SINE = [(-1) ** n / math.factorial(2 * n + 1) for n in range(9, 0, -1)]  # (sin(y) - y) / y³
COSINE = [(-1) ** n / math.factorial(2 * n) for n in range(9, 1, -1)]  # (cos(y) - 1 + y²/2) / y⁴
# (asin(s) - s) / s³ in s² up to 1/4, and (atan(t) - t) / t³ in t² up to (7/16)².
ASIN = [
    0.0287578719503479, -0.01485191657576524, 0.017400897906395946, 0.005457500096744011,
    0.010322815852320064, 0.01147917719077423, 0.01397121299584485, 0.017352392719417624,
    0.022372172942209625, 0.030381944138529803, 0.04464285714635545, 0.07499999999998433,
    0.16666666666666669,
]  # fmt: skip
ATAN = [
    0.014766871594831716, -0.033121776641729314, 0.04491983392875039, -0.052166122327185115,
    0.05876936226535485, -0.06666240930258646, 0.07692285493171186, -0.09090908353219823,
    0.11111111096591583, -0.14285714285566195, 0.19999999999999407, -0.3333333333333333,
]  # fmt: skip
# Up to where, the number whose arctangent is taken off, and that in two parts.
ATAN_STEPS = (
    (11 / 16, 0.5, float.fromhex("0x1.dac670561bb4fp-2"), float.fromhex("0x1.a2b7f222f65e2p-56")),
    (19 / 16, 1.0, float.fromhex("0x1.921fb54442d18p-1"), float.fromhex("0x1.1a62633145c07p-55")),
    (39 / 16, 1.5, float.fromhex("0x1.f730bd281f69bp-1"), float.fromhex("0x1.007887af0cbbdp-56")),
)


# (exp(r) - 1 - r) / r² and (2 artanh(s) - 2s) / s³ in s², to the precision of a single float.
EXP_SINGLE = [
    2.4859589834589056e-05, 0.00019899285575896282, 0.001388885403566671, 0.00833329846980059,
    0.04166666671901226, 0.16666666719028936, 0.5,
]  # fmt: skip
LOG_SINGLE = [0.23331614471843498, 0.28550778633191964, 0.4000012221181065, 0.6666666655404201]
# erf(x) / x - 1 in x² up to 1/4; erf(x) / x in x² / ERF_HALF - 1, for single floats.
ERF = [
    1.3213778399713015e-08, -1.6273067498640665e-07, 1.6459030738902206e-06,
    -1.4925586460369781e-05, 0.00012055332129506839, -0.000854832701614194, 0.005223977625403085,
    -0.02686617064513003, 0.11283791670955123, -0.37612638903183754, 0.1283791670955126,
]  # fmt: skip
ERF_SINGLE = [
    -2.180278112779901e-05, 6.158932596279584e-05, -5.8087416626031303e-05,
    0.00012712371826806125, -0.0004823339849286614, 0.0010775467729827132,
    -0.00202586672540688, 0.0039218594849343555, -0.00731097187108812, 0.012594371219592445,
    -0.020279959924963103, 0.03068069709182654, -0.04357862602250856, 0.058302269428984546,
    -0.07406855088319778, 0.09060275723359104, -0.10909064620681731, 0.13393196233481827,
    -0.17988420631685728, 0.3602779383301558,
]  # fmt: skip
ERF_HALF = 3.925 * 3.925 * 0.5  # of the range of x²
# (1 + 2x) exp(x²) erfc(x) in (x - 3) / (x + 3) from 1/2 to 28, and the rest of the last one.
ERFC = [
    -1.541055292474667e-08, 2.292393009921899e-08, 1.1177528463195771e-07, -1.2169240627639653e-07,
    -6.299129103282541e-07, 3.4482536968247793e-07, 3.481686983452046e-06, -7.270603109882931e-07,
    -2.0104454851557477e-05, 4.9484535339192485e-06, 0.00012510037313823361,
    -0.0001051596522473519, -0.0007798324398793133, 0.0018886903466049378, 0.002529391832675186,
    -0.023770514918036445, 0.06830802734307077, -0.11927366341532432, 0.1296451587027835,
    -0.04756229435345058, -0.13562110612458134, 1.2530080582697296,
]  # fmt: skip
ERFC_REST = float.fromhex("0x1.a19969d5cf11fp-55")
# lgamma(2 + d) / d for |d| up to 1/2; then what Stirling's series adds, x times, in 1 / x².
LGAMMA = [
    6.379047507619774e-08, -1.3412819758517287e-07, 2.0304806751615227e-07,
    -4.303558760359961e-07, 9.578663334114758e-07, -2.0449201467015115e-06,
    4.374374916915131e-06, -9.438458716242811e-06, 2.050726741605779e-05,
    -4.4926351103833334e-05, 9.945750909889392e-05, -0.00022315475074520367,
    0.0005096695248853096, -0.0011927539120010226, 0.002890510330738737,
    -0.0073855510286681535, 0.02058080842778457, -0.06735230105319814, 0.3224670334241132,
    0.42278433509846713,
]  # fmt: skip
STIRLING = [
    -0.029550653594771242, 0.00641025641025641, -0.0019175269175269176, 0.0008417508417508417,
    -0.0005952380952380953, 0.0007936507936507937, -0.002777777777777778, 0.08333333333333333,
]  # fmt: skip
HALF_LOG_TAU = float.fromhex("0x1.d67f1c864beb5p-1")


def polynomial(coefficients: Sequence[float], x: Any) -> Any:
    """Highest power first."""
    total = x * coefficients[0] + coefficients[1]
    for c in coefficients[2:]:
        total = total * x + c
    return total


def size(m: Any, x: Any) -> Any:
    return m.floats(m.bits(x) & (ALL ^ SIGN))


def with_sign(m: Any, x: Any, other: Any) -> Any:
    """A number that is not negative, with the sign of another one."""
    return m.floats(m.bits(x) | (m.bits(other) & SIGN))


# ---------------------------------------------------------------------- sums of two doubles


def two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """a + b, and what rounding lost."""
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


def ordered_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """`two_sum` where |a| >= |b|."""
    total = a + b
    return total, b - (total - a)


def two_product(a: Any, b: Any) -> tuple[Any, Any]:
    """a * b, and what rounding lost."""
    scaled = a * SPLIT
    a_high = scaled - (scaled - a)
    a_low = a - a_high
    scaled = b * SPLIT
    b_high = scaled - (scaled - b)
    b_low = b - b_high
    product = a * b
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


# ---------------------------------------------------------------------- exponentials


def power_of_two(m: Any, rounded: Any, less: int = 0) -> Any:
    """2 ** (k - less) for `rounded` = k + MAGIC; k from -1022 to 1023."""
    return m.floats((m.bits(rounded) + (1023 - less)) << 52)


def scaled(m: Any, x: Any, rounded: Any) -> Any:
    """x * 2**k in two steps, of which only the second one may round."""
    k = rounded - MAGIC
    half = k * 0.5 + MAGIC
    other = (k - (half - MAGIC)) + MAGIC
    return (x * power_of_two(m, half)) * power_of_two(m, other)


def whole_ln2(x: Any) -> tuple[Any, Any, Any]:
    """k + MAGIC, and x - k ln 2 in two parts."""
    rounded = x * PER_LN2 + MAGIC
    k = rounded - MAGIC
    high, low = x - k * LN2_HIGH, k * LN2_LOW
    r = high - low
    return rounded, r, (high - r) - low


def exp_of_sum(m: Any, x: Any, rest: Any) -> Any:
    """exp(x + rest) for a small rest."""
    rounded, r, low = whole_ln2(x)
    low = low + rest
    late = r * r * polynomial(EXP, r)
    near = (r + late) + 1.0
    out = scaled(m, (r + (late + low * near)) + 1.0, rounded)
    return m.where(x > 710.0, INF, m.where(x < -746.0, 0.0, out))


def exp(m: Any, x: Any) -> Any:
    rounded, r, low = whole_ln2(x)
    out = scaled(m, (r + (r * r * polynomial(EXP, r) + low)) + 1.0, rounded)
    return m.where(x > 710.0, INF, m.where(x < -746.0, 0.0, out))


def exp_single(m: Any, x: Any) -> Any:
    """For single floats: their exponents need one factor, and fewer terms are exact enough."""
    limited = m.where(x > 130.0, 130.0, m.where(x < -150.0, -150.0, x))
    rounded = limited * PER_LN2 + MAGIC
    r = limited - (rounded - MAGIC) * LN2
    out = (r + r * r * polynomial(EXP_SINGLE, r)) + 1.0
    return out * power_of_two(m, rounded)


def expm1_single(m: Any, x: Any) -> Any:
    limited = m.where(x > 130.0, 130.0, m.where(x < -150.0, -150.0, x))
    rounded = limited * PER_LN2 + MAGIC
    r = limited - (rounded - MAGIC) * LN2
    factor = power_of_two(m, rounded)
    out = factor * (r + r * r * polynomial(EXP_SINGLE, r)) + (factor - 1.0)
    return m.where(x == 0.0, x, out)


def tanh_single(m: Any, x: Any) -> Any:
    e = expm1_single(m, x * 2.0)
    return m.where(x == 0.0, x, m.where(x > 20.0, 1.0, e / (e + 2.0)))


def half_exp(m: Any, x: Any) -> Any:
    """exp(x) / 2, which is finite where the exponential is not any more."""
    rounded, r, low = whole_ln2(x)
    out = scaled(m, (r + (r * r * polynomial(EXP, r) + low)) + 1.0, rounded - 1.0)
    return m.where(x > 711.0, INF, out)


def exp2(m: Any, x: Any) -> Any:
    rounded = x + MAGIC
    r, low = two_product(x - (rounded - MAGIC), LN2)
    low = low + (x - (rounded - MAGIC)) * LN2_REST
    out = scaled(m, (r + (r * r * polynomial(EXP, r) + low)) + 1.0, rounded)
    return m.where(x > 1025.0, INF, m.where(x < -1080.0, 0.0, out))


def expm1(m: Any, x: Any) -> Any:
    rounded, r, low = whole_ln2(x)
    late = r * r * polynomial(EXP, r) + low
    y, y_rest = ordered_sum(r, late)
    half = power_of_two(m, rounded, 1)
    total, lost = two_sum(half - 0.5, half * y)
    out = (total + (lost + half * y_rest)) * 2.0
    out = m.where(x > 710.0, INF, m.where(x < -40.0, -1.0, out))
    return m.where(size(m, x) < 1e-17, x, out)


def sinh(m: Any, x: Any) -> Any:
    a = size(m, x)
    e = expm1(m, a)
    out = m.where(a > 40.0, half_exp(m, a), (e + e / (e + 1.0)) * 0.5)
    return with_sign(m, out, x)


def cosh(m: Any, x: Any) -> Any:
    a = size(m, x)
    half = half_exp(m, a)
    return m.where(a > 40.0, half, half + 0.25 / half)


def tanh(m: Any, x: Any) -> Any:
    a = size(m, x)
    e = expm1(m, a * 2.0)
    return with_sign(m, m.where(a > 22.0, 1.0, e / (e + 2.0)), x)


# ---------------------------------------------------------------------- logarithms


def taken_apart(m: Any, x: Any) -> tuple[Any, Any]:
    """k and a number from √½ to √2 with x = 2**k times it, for positive x."""
    subnormal = x < TINY
    u = m.bits(m.where(subnormal, x * 18014398509481984.0, x))
    exponent = (u + (0x4000000000000000 - 0x3FE6A09E00000000)) >> 52  # k + 1024
    number = m.floats((u + 0x4000000000000000) - (exponent << 52))
    k = m.floats(exponent | 0x4330000000000000) - (4503599627370496.0 + 1024.0)
    return m.where(subnormal, k - 54.0, k), number


def of_positive(m: Any, x: Any, out: Any) -> Any:
    """A logarithm, with its values at 0, at infinity and where there is none."""
    return m.where(x > 0.0, m.where(x == INF, INF, out), m.where(x == 0.0, -INF, NAN))


def log_near_one(k: Any, f: Any, rest: Any) -> Any:
    """k ln 2 + log(1 + f) + rest."""
    s = f / (f + 2.0)
    z = s * s
    half = f * f * 0.5
    late = s * (half + z * polynomial(LOG, z)) + (k * LN2_LOW + rest)
    return k * LN2_HIGH - ((half - late) - f)


def log(m: Any, x: Any) -> Any:
    k, number = taken_apart(m, x)
    return of_positive(m, x, log_near_one(k, number - 1.0, 0.0))


def log_single(m: Any, x: Any) -> Any:
    """For single floats, which are normal numbers as doubles."""
    u = m.bits(x)
    exponent = (u + (0x4000000000000000 - 0x3FE6A09E00000000)) >> 52  # k + 1024
    f = m.floats((u + 0x4000000000000000) - (exponent << 52)) - 1.0
    k = m.floats(exponent | 0x4330000000000000) - (4503599627370496.0 + 1024.0)
    s = f / (f + 2.0)
    z = s * s
    return of_positive(m, x, k * LN2 + (s * 2.0 + s * z * polynomial(LOG_SINGLE, z)))


def log1p(m: Any, x: Any) -> Any:
    total = x + 1.0
    k, number = taken_apart(m, total)
    lost = m.where(x > 1.0, 1.0 - (total - x), x - (total - 1.0)) / total
    near = size(m, x) < 0.25
    k, lost = m.where(near, 0.0, k), m.where(near, 0.0, lost)
    out = log_near_one(k, m.where(near, x, number - 1.0), lost)
    return m.where(size(m, x) < 1e-17, x, of_positive(m, total, out))


def exact_log(m: Any, x: Any) -> tuple[Any, Any, Any]:
    """k and log(number) in two parts, with 65 bits, for positive x = 2**k times the number."""
    k, number = taken_apart(m, x)
    f = number - 1.0
    g = f + 2.0
    g_rest = f - (g - 2.0)
    s = f / g
    product, lost = two_product(s, g)
    s_rest = (((f - product) - lost) - s * g_rest) / g
    z, z_rest = two_product(s, s)
    z_rest = z_rest + s * s_rest * 2.0
    third, third_rest = ordered_sum(THIRD, z * (z * polynomial(LOG_LATE, z) + 0.4))
    third_rest = third_rest + THIRD_REST
    t, t_rest = two_product(z, third)
    t_rest = t_rest + (z * third_rest + z_rest * third)
    u, u_rest = two_product(s, t)
    u_rest = u_rest + (s * t_rest + s_rest * t)
    high, low = ordered_sum(s * 2.0, u)
    return k, high, low + (u_rest + s_rest * 2.0)


def whole_log(m: Any, x: Any) -> tuple[Any, Any]:
    """log(x) in two parts."""
    k, high, low = exact_log(m, x)
    total, lost = two_sum(k * LN2_HIGH, high)
    return ordered_sum(total, lost + (k * LN2_LOW + low))


def log2(m: Any, x: Any) -> Any:
    k, high, low = exact_log(m, x)
    out, lost = two_product(high, PER_LN2)
    lost = lost + (high * PER_LN2_REST + low * PER_LN2)
    total, rest = two_sum(k, out)
    return of_positive(m, x, total + (rest + lost))


def log10(m: Any, x: Any) -> Any:
    high, low = whole_log(m, x)
    out, lost = two_product(high, PER_LN10)
    return of_positive(m, x, out + (lost + (high * PER_LN10_REST + low * PER_LN10)))


def log_of_two(m: Any, a: Any, b: Any) -> Any:
    """log(exp(a) + exp(b))"""
    more = m.where(a > b, a, b)
    out = more + log1p(m, exp(m, -size(m, a - b)))
    return m.where(a == b, a + LN2, out)


def log2_of_two(m: Any, a: Any, b: Any) -> Any:
    """log2(2**a + 2**b)"""
    more = m.where(a > b, a, b)
    out = more + log1p(m, exp2(m, -size(m, a - b))) * PER_LN2
    return m.where(a == b, a + 1.0, out)


def asinh(m: Any, x: Any) -> Any:
    a = size(m, x)
    far = a > 268435456.0
    square = a * a
    near = log1p(m, a + square / (m.sqrt(square + 1.0) + 1.0))
    return with_sign(m, m.where(far, log(m, a) + LN2, near), x)


def acosh(m: Any, x: Any) -> Any:
    t = x - 1.0
    near = log1p(m, t + m.sqrt(t * 2.0 + t * t))
    return m.where(x > 268435456.0, log(m, x) + LN2, near)


def atanh(m: Any, x: Any) -> Any:
    a = size(m, x)
    out = log1p(m, (a + a) / (1.0 - a)) * 0.5
    return with_sign(m, m.where(a < 1e-17, a, out), x)


# ---------------------------------------------------------------------- powers


def power(m: Any, x: Any, y: Any) -> Any:
    a = size(m, x)
    limited = m.where(y > 1e22, 1e22, m.where(y < -1e22, -1e22, y))
    high, low = whole_log(m, a)
    product, lost = two_product(high, limited)
    out = exp_of_sum(m, product, lost + limited * low)
    large = (a == INF) & (y > 0.0) | (a == 0.0) & (y < 0.0)
    small = (a == INF) & (y < 0.0) | (a == 0.0) & (y > 0.0)
    out = m.where(large, INF, m.where(small, 0.0, out))
    whole = m.rint(y) == y
    odd = whole & (m.rint(y * 0.5) != y * 0.5) & (size(m, y) < 9007199254740992.0)
    out = m.where(odd, with_sign(m, out, x), out)
    out = m.where((x < 0.0) & (x > -INF) & (whole == 0), NAN, out)
    out = m.where((x != x) | (y != y), NAN, out)
    out = m.where(y == 2.0, x * x, m.where(y == -1.0, 1.0 / x, out))  # as NumPy's `**`
    return m.where((x == 1.0) | (y == 0.0), 1.0, out)


def hypot(m: Any, x: Any, y: Any) -> Any:
    a, b = size(m, x), size(m, y)
    first = a > b
    more, less = m.where(first, a, b), m.where(first, b, a)
    part = less / more
    out = more * m.sqrt(part * part + 1.0)
    out = m.where(less == 0.0, more, out)
    out = m.where((x != x) | (y != y), NAN, out)
    return m.where((a == INF) | (b == INF), INF, out)


# ---------------------------------------------------------------------- angles


def quarter_turns(m: Any, x: Any) -> tuple[Any, Any, Any]:
    """Count quarter turns, as bits, and find the rest in two parts; for |x| <= FAR_ANGLE."""
    rounded = x * (1 / HALF_PI) + MAGIC
    n = rounded - MAGIC
    first, second, third, fourth = HALF_PI_PARTS
    a = x - n * first
    b, lost = two_sum(a, -(n * second))
    c, more = two_sum(b, -(n * third))
    y, rest = ordered_sum(c, (lost + more) - n * fourth)
    return m.bits(rounded), y, rest


def sine_and_cosine(y: Any, rest: Any) -> tuple[Any, Any]:
    """For |y| up to a quarter of pi."""
    z = y * y
    cubic = z * y
    late = polynomial(SINE[:-1], z)
    sine = y - ((z * (rest * 0.5 - cubic * late) - rest) - cubic * SINE[-1])
    half = z * 0.5
    near = 1.0 - half
    cosine = near + (((1.0 - near) - half) + (z * z * polynomial(COSINE, z) - y * rest))
    return sine, cosine


def sine_after(m: Any, turns: Any, y: Any, rest: Any) -> Any:
    sine, cosine = sine_and_cosine(y, rest)
    out = m.where((turns & 1) != 0, cosine, sine)
    return m.where((turns & 2) != 0, -out, out)


def cosine_after(m: Any, turns: Any, y: Any, rest: Any) -> Any:
    return sine_after(m, turns + 1, y, rest)


def tangent_after(m: Any, turns: Any, y: Any, rest: Any) -> Any:
    sine, cosine = sine_and_cosine(y, rest)
    odd = (turns & 1) != 0
    return m.where(odd, -cosine, sine) / m.where(odd, sine, cosine)


def sin(m: Any, x: Any) -> Any:
    return m.where(x == 0.0, x, sine_after(m, *quarter_turns(m, x)))


def cos(m: Any, x: Any) -> Any:
    return cosine_after(m, *quarter_turns(m, x))


def tan(m: Any, x: Any) -> Any:
    return m.where(x == 0.0, x, tangent_after(m, *quarter_turns(m, x)))


AFTER_TURNS = {"sin": sine_after, "cos": cosine_after, "tan": tangent_after}


def half_arcs(m: Any, x: Any) -> tuple[Any, Any, Any]:
    """Whether |x| < ½; asin of it, or of √((1 - |x|) / 2); that as the number and what is added."""
    a = size(m, x)
    near = a < 0.5
    z = m.where(near, a * a, (1.0 - a) * 0.5)
    s = m.where(near, a, m.sqrt(z))
    return near, s, s * (z * polynomial(ASIN, z))


def asin(m: Any, x: Any) -> Any:
    near, s, late = half_arcs(m, x)
    far = HALF_PI - ((s * 2.0 - HALF_PI_REST) + late * 2.0)
    return with_sign(m, m.where(near, s + late, far), x)


def acos(m: Any, x: Any) -> Any:
    near, s, late = half_arcs(m, x)
    positive = x > 0.0
    middle = m.where(
        positive, HALF_PI - (s - (HALF_PI_REST - late)), HALF_PI + (s + (HALF_PI_REST + late))
    )
    left = HALF_PI * 2.0 - ((s * 2.0 - HALF_PI_REST * 2.0) + late * 2.0)
    return m.where(near, middle, m.where(positive, (s + late) * 2.0, left))


def atan_of_size(m: Any, a: Any) -> Any:
    """For a number that is not negative."""
    t = -1.0 / a
    base, base_rest = HALF_PI, HALF_PI_REST
    for limit, c, high, low in reversed(ATAN_STEPS):
        under = a < limit
        t = m.where(under, (a - c) / (a * c + 1.0), t)
        base, base_rest = m.where(under, high, base), m.where(under, low, base_rest)
    near = a < 7 / 16
    t = m.where(near, a, t)
    z = t * t
    arc = t + ((t * z) * polynomial(ATAN, z) + m.where(near, 0.0, base_rest))
    out = m.where(near, arc, base + arc)
    return m.where(a == INF, HALF_PI, m.where(a < 1e-17, a, out))


def atan(m: Any, x: Any) -> Any:
    return with_sign(m, atan_of_size(m, size(m, x)), x)


def atan2(m: Any, y: Any, x: Any) -> Any:
    a, b = size(m, y), size(m, x)
    quotient = m.where(a == 0.0, 0.0, a / b)
    quotient = m.where((a == INF) & (b == INF), 1.0, quotient)
    out = atan_of_size(m, quotient)
    left = (m.bits(x) & SIGN) != 0
    out = m.where(left, HALF_PI * 2.0 - (out - HALF_PI_REST * 2.0), out)
    return m.where((x != x) | (y != y), NAN, with_sign(m, out, y))


# ---------------------------------------------------------------------- errors and factorials


def erfc_of_size(m: Any, a: Any) -> Any:
    """For numbers from 1/2 on."""
    t = (a - 3.0) / (a + 3.0)
    top, top_rest = ordered_sum(ERFC[-1], t * polynomial(ERFC[:-1], t))
    bottom, bottom_rest = two_sum(a * 2.0, 1.0)
    share = top / bottom
    product, lost = two_product(share, bottom)
    share_rest = (((top - product) - lost) + (top_rest + ERFC_REST - share * bottom_rest)) / bottom
    square, square_rest = two_product(a, a)
    rounded, r, low = whole_ln2(-square)
    low = low - square_rest
    late = r * r * polynomial(EXP, r)
    near = (r + late) + 1.0
    high, rest = ordered_sum(1.0, r + (late + low * near))
    out = scaled(m, high * share + (rest * share + high * share_rest), rounded)
    return m.where(a > 28.0, 0.0, out)


def erf(m: Any, x: Any) -> Any:
    a = size(m, x)
    far = with_sign(m, 1.0 - erfc_of_size(m, m.where(a < 6.0, a, 6.0)), x)
    out = m.where(a < 0.5, x + x * polynomial(ERF, x * x), far)
    return m.where(x != x, x, out)


def erf_single(m: Any, x: Any) -> Any:
    limited = m.where(x > 3.925, 3.925, m.where(x < -3.925, -3.925, x))
    z = limited * limited * (1 / ERF_HALF) - 1.0
    out = limited * polynomial(ERF_SINGLE, z)
    return m.where(out > 1.0, 1.0, m.where(out < -1.0, -1.0, out))


def erfc(m: Any, x: Any) -> Any:
    a = size(m, x)
    one, rest = ordered_sum(1.0, -x)
    near = one + (rest - x * polynomial(ERF, x * x))
    tail = erfc_of_size(m, m.where(a > 30.0, 30.0, a))
    return m.where(a < 0.5, near, m.where(x < 0.0, 2.0 - tail, m.where(x != x, x, tail)))


def log_gamma_of_size(m: Any, x: Any) -> Any:
    """For positive numbers: the logarithm of a product of two parts, and a polynomial around 2."""
    product, rest = m.where(x < 1.5, x, 1.0), 0.0
    d = x - 2.0
    for n in range(1, 7):  # (x - 1) (x - 2) … down to a factor from 1/2 to 3/2
        above = x >= n + 1.5
        factor = m.where(above, x - float(n), 1.0)
        product, lost = two_product(product, factor)
        rest = rest * factor + lost
        d = m.where(above, x - (n + 2.0), d)
    small, middle = x < 0.5, (x >= 0.5) & (x < 1.5)
    square, square_rest = two_product(x, x)
    low_product, low_rest = ordered_sum(x, square)  # x (x + 1)
    product = m.where(small, low_product, product)
    rest = m.where(small, low_rest + square_rest, rest)
    d = m.where(small, x, m.where(middle, x - 1.0, d))
    large = x >= 8.5
    rest = m.where(large, 0.0, rest)
    high, low = whole_log(m, m.where(large, x, product))
    low = low + rest / product
    down = x < 1.5
    high_near, low_near = m.where(down, -high, high), m.where(down, -low, low)
    top, top_rest = ordered_sum(LGAMMA[-1], d * polynomial(LGAMMA[:-1], d))
    q, q_rest = two_product(d, top)
    q_rest = q_rest + d * top_rest
    total, lost = two_sum(high_near, q)
    near = total + (lost + (low_near + q_rest))
    inverse = 1.0 / x
    late = inverse * polynomial(STIRLING, inverse * inverse) + HALF_LOG_TAU
    limited = m.where(x > 1e30, 1e30, x)
    a, a_rest = two_product(limited - 0.5, high)
    total, lost = two_sum(a, -limited)
    far = total + (lost + ((a_rest + (limited - 0.5) * low) + late))
    far = m.where(x > 1e30, x * (high - 1.0), far)
    return m.where(x == INF, INF, m.where(large, far, near))


def log_gamma(m: Any, x: Any) -> Any:
    a = size(m, x)
    right = log_gamma_of_size(m, a)
    # For negative numbers: log(pi / (|x| |sin(pi x)|)) - lgamma(|x|).
    t = a - m.rint(a)
    t = size(m, t)
    near = t <= 0.25
    y, y_rest = two_product(m.where(near, t, 0.5 - t), HALF_PI * 2.0)
    y_rest = y_rest + m.where(near, t, 0.5 - t) * (HALF_PI_REST * 2.0)
    sine, cosine = sine_and_cosine(y, y_rest)
    sine = m.where(near, sine, cosine)
    high, low = whole_log(m, m.where(sine == 0.0, 1.0, a * sine) * (0.5 / HALF_PI))
    total, lost = two_sum(-high, -right)
    left = m.where(a < 1e-300, right, m.where(sine == 0.0, INF, total + (lost - low)))
    out = m.where(x < 0.0, left, right)
    return m.where(a == 0.0, INF, m.where(a == INF, INF, m.where(x != x, x, out)))


UNARY = {
    "exp": exp,
    "exp2": exp2,
    "expm1": expm1,
    "log": log,
    "log2": log2,
    "log10": log10,
    "log1p": log1p,
    "sin": sin,
    "cos": cos,
    "tan": tan,
    "sinh": sinh,
    "cosh": cosh,
    "tanh": tanh,
    "arcsin": asin,
    "arccos": acos,
    "arctan": atan,
    "arcsinh": asinh,
    "arccosh": acosh,
    "arctanh": atanh,
    "erf": erf,
    "erfc": erfc,
    "lgamma": log_gamma,
}
# Shorter ones for results that are rounded to single floats.
SINGLE = {
    "exp": exp_single,
    "expm1": expm1_single,
    "tanh": tanh_single,
    "log": log_single,
    "erf": erf_single,
}
BINARY = {
    "power": power,
    "hypot": hypot,
    "arctan2": atan2,
    "logaddexp": log_of_two,
    "logaddexp2": log2_of_two,
}
