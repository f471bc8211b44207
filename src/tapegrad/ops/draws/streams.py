"""PyTorch's CPU random streams on NumPy: the same seed gives the same numbers.

The functions here draw from a `Stream` (twister.py) what PyTorch draws, from the same words in the
same order.
docs/random.md says which results are PyTorch's to the last bit and how that was measured.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.host_arrays import host
from ...core.rounding import fused
from ...core.settings import Settings
from ...dtypes import cpp_name
from ...kernels.cpu import KERNELS
from ...kernels.portable.functions import NUMBERS
from .checks import (
    I64,
    check_cauchy,
    check_exponential,
    check_floating,
    check_multinomial,
    check_uniform,
    integer_range,
    is_half,
    not_implemented,
    round_draws,
)
from .twister import Array, Stream, new_room

DType = np.dtype[Any]
Shape = tuple[int, ...]

F32 = np.dtype(np.float32)
F64 = np.dtype(np.float64)
BOOL = np.dtype(np.bool_)

Stream.home = sys.modules[__name__]


# Words to numbers in [0, 1).


_SHORT = {F32: "f32", F64: "f64"}


def _unit24(stream: Stream, n: int) -> Array:
    """float32 with 24 random bits."""
    if KERNELS is not None:
        return stream.fill("uniform_f32", new_room(n, F32), 0.0, 1.0)
    bits = stream.words(n)
    bits &= np.uint32(0xFF_FFFF)
    out = bits.view(np.int32).astype(np.float32)
    out *= np.float32(2.0**-24)
    return out


def unit53(stream: Stream, n: int) -> Array:
    """float64 with 53 random bits."""
    if KERNELS is not None:
        return stream.fill("uniform_f64", new_room(n, F64), 0.0, 1.0)
    bits = stream.words64(n)
    bits &= np.uint64((1 << 53) - 1)
    out = bits.view(np.int64).astype(np.float64)
    out *= 2.0**-53
    return out


# Arithmetic as PyTorch's compiled kernels round it.


def _fma(a: Array, b: float, c: float) -> Array:
    """a * b + c in float64, rounded once where that makes a difference."""
    if b == 1.0:
        return a + c
    if c == 0.0 or not math.isfinite(b) or not math.isfinite(c) or abs(b) > 1e290:
        return a * b + c
    out: Array = fused(a, b, c)
    return out


def _fma32(a: Any, b: Any, c: Any) -> Array:
    """a * b + c for float32 values (`b` already as float64): the product is exact in float64."""
    out: Array = a * b
    out += c
    return out.astype(np.float32)


def _libm(name: str, x: Array) -> Array:
    """The C library's function for each element: NumPy's own loops round a few otherwise."""
    if Settings.portable:
        return np.asarray(getattr(host, name)(x))
    if KERNELS is not None:
        out = new_room(x.size, F64)
        KERNELS.KERNELS[f"libm_{name}"]((np.ascontiguousarray(x), out), (x.size,))
        return out
    function: Callable[[float], float] = getattr(math, name)
    try:
        return np.fromiter(map(function, x.tolist()), np.float64, x.size)
    except (OverflowError, ValueError):  # where C gives an infinity
        with np.errstate(all="ignore"):
            out = getattr(np, name)(x)
        return out


def _function(name: str, exact: bool, x: Array) -> Array:
    if exact:
        return _libm(name, x)
    out: Array = getattr(host, name)(x)
    return out


# Uniform and normal.


def uniform(
    stream: Stream, shape: Shape, dtype: DType, low: float = 0.0, high: float = 1.0
) -> Array:
    """torch.rand and Tensor.uniform_; complex numbers draw their parts one after the other."""
    dtype = np.dtype(dtype)
    if dtype.kind == "c":
        return _as_complex(uniform(stream, (*shape, 2), _part(dtype), low, high), dtype, shape)
    check_floating("check_uniform_bounds", dtype)
    check_uniform(low, high, dtype)
    n = math.prod(shape)
    if KERNELS is not None and not is_half(dtype):
        room = stream.room(n, dtype)
        return stream.fill(f"uniform_{_SHORT[dtype]}", room, low, high).reshape(shape)
    scaled = (low, high) != (0.0, 1.0)
    unit = unit53(stream, n) if dtype == F64 else _unit24(stream, n)
    if scaled and dtype == F64:
        unit = _fma(unit, high - low, low)
    elif scaled:
        start, end = np.float32(low), np.float32(high)
        unit = _fma32(unit, np.float64(end - start), np.float64(start))
    out = round_draws(unit, dtype, shape)
    if scaled or is_half(dtype):  # what rounds up to the open end becomes the closed one
        out[out == dtype.type(high)] = dtype.type(low)
    return out


def normal(
    stream: Stream,
    shape: Shape,
    dtype: DType,
    mean: float = 0.0,
    std: float = 1.0,
    contiguous: bool = True,
) -> Array:
    """torch.randn and Tensor.normal_.

    Sixteen or more values of a contiguous tensor are made in blocks of sixteen; fewer, or a tensor
    that is not `contiguous`, one after the other in float64, and the second of a pair is cached.
    """
    dtype = np.dtype(dtype)
    if dtype.kind == "c":
        part = normal(stream, (*shape, 2), _part(dtype), 0.0, std / math.sqrt(2.0), contiguous)
        if mean:
            part += mean
        return _as_complex(part, dtype, shape)
    if not std >= 0.0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    n = math.prod(shape)
    if n:
        check_floating("normal_kernel_cpu", dtype)
    kind = None if KERNELS is None else _SHORT.get(dtype)
    if Settings.portable and (n < 16 or not contiguous or dtype != F32):
        kind = None  # these kernels call the C library
    if n < 16 or not contiguous:
        if kind is not None:
            return stream.fill(f"single_{kind}", stream.room(n, dtype), mean, std).reshape(shape)
        return round_draws(_fma(_pairs(stream, n, dtype == F64 or n < 16), std, mean), dtype, shape)
    if kind is not None:
        return stream.fill(f"normal_{kind}", stream.room(n, dtype), mean, std).reshape(shape)
    if dtype == F64:
        made = _blocks(stream, n, unit53, lambda u: _fma(_box_muller64(u), std, mean))
        return made.reshape(shape)
    if dtype == F32:
        scale, shift = np.float64(np.float32(std)), np.float64(np.float32(mean))
        made = _blocks(stream, n, _unit24, lambda u: _scaled32(u, scale, shift))
        return made.reshape(shape)
    return _half_blocks(stream, n, dtype, mean, std).reshape(shape)


def _part(dtype: DType) -> DType:
    return F64 if dtype.itemsize == 16 else F32


def _as_complex(parts: Array, dtype: DType, shape: Shape) -> Array:
    return parts.reshape(-1).view(dtype).reshape(shape)


def _pairs(stream: Stream, n: int, exact: bool) -> Array:
    """`n` float64 normals, two from each pair of uniforms; the odd one out waits in the stream."""
    if KERNELS is not None and not Settings.portable:
        return stream.fill("single_f64", np.empty(n), 0.0, 1.0)
    if exact and n < 16:
        return np.array(_few(stream, n))
    out = np.empty(n)
    start = 0
    if n and stream.next_normal is not None:
        out[0] = stream.next_normal
        stream.next_normal = None
        start = 1
    count = (n - start + 1) // 2
    u = unit53(stream, 2 * count)
    radius = np.sqrt(-2.0 * _function("log1p", exact, -u[1::2]))
    angle = 2.0 * math.pi * u[0::2]
    second = radius * _function("sin", exact, angle)
    out[start::2] = radius * _function("cos", exact, angle)
    out[start + 1 :: 2] = second[: (n - start) // 2]
    if (n - start) % 2:
        stream.next_normal = float(second[-1])
    return out


def _few(stream: Stream, n: int) -> list[float]:
    """`_pairs` in plain Python, which is faster than NumPy for a few."""
    made: list[float] = []
    if n and stream.next_normal is not None:
        made.append(stream.next_normal)
        stream.next_normal = None
    uniforms = iter(stream.doubles(n - len(made) + 1 & ~1))
    for first, second in zip(uniforms, uniforms, strict=True):
        radius = math.sqrt(-2.0 * NUMBERS.log1p(-second))
        angle = 2.0 * math.pi * first
        made.append(radius * NUMBERS.cos(angle))
        made.append(radius * NUMBERS.sin(angle))
    if len(made) > n:
        stream.next_normal = made.pop()
    return made


def _blocks(
    stream: Stream,
    n: int,
    unit: Callable[[Stream, int], Array],
    transform: Callable[[Array], Array],
) -> Array:
    """All uniforms, then block by block; a tail is covered by a block of sixteen new ones."""
    u = unit(stream, n)
    whole = n - n % 16
    out = np.empty(n, u.dtype)
    step = 1 << 15  # the temporaries of a chunk stay in cache
    for i in range(0, whole, step):
        out[i : min(i + step, whole)] = transform(u[i : min(i + step, whole)])
    if n % 16:
        out[-16:] = transform(unit(stream, 16))
    return out


def _box_muller64(u: Array) -> Array:
    pairs = u.reshape(-1, 2, 8)
    radius = np.sqrt(-2.0 * _libm("log", (1.0 - pairs[:, 0]).ravel()))
    angle = (2.0 * math.pi * pairs[:, 1]).ravel()
    out = np.empty_like(pairs)
    out[:, 0] = (radius * host.cos(angle)).reshape(-1, 8)
    out[:, 1] = (radius * host.sin(angle)).reshape(-1, 8)
    return out.ravel()


def _half_blocks(stream: Stream, n: int, dtype: DType, mean: float, std: float) -> Array:
    """The two-byte floats: computed in float32, and the last block draws only its own sixteen."""
    u = _unit24(stream, n + -n % 16)
    pairs = u.reshape(-1, 2, 8)
    # The C library's float functions are float64 ones rounded.
    log = host.log((np.float32(1) - pairs[:, 0]).astype(np.float64)).astype(np.float32)
    radius = np.sqrt(np.float32(-2) * log)
    angle = (np.float32(2 * math.pi) * pairs[:, 1]).astype(np.float64)
    made = np.empty_like(pairs)
    made[:, 0] = radius * host.cos(angle).astype(np.float32)
    made[:, 1] = radius * host.sin(angle).astype(np.float32)
    made = round_draws(_fma32(made.reshape(-1), _f(std), _f(mean)), dtype, (made.size,))
    if n % 16:
        made[n - 16 : n] = made[-16:].copy()  # the two may overlap
    return made[:n].copy()


# float32 normals: logarithm, sine and cosine are the polynomials of the Cephes library, with the
# multiply-adds that PyTorch's AVX2 kernel fuses.

_LOG = (
    -1.1514610310e-1,
    1.1676998740e-1,
    -1.2420140846e-1,
    1.4249322787e-1,
    -1.6668057665e-1,
    2.0000714765e-1,
    -2.4999993993e-1,
    3.3333331174e-1,
)


@functools.lru_cache(64)
def _f(value: float) -> np.float64:
    """A float32 constant, as float64."""
    return np.float64(np.float32(value))


def _scaled32(u: Array, std: np.float64, mean: np.float64) -> Array:
    pairs = u.reshape(-1, 2, 8)
    radius = np.sqrt(np.float32(-2) * _log32((np.float32(1) - pairs[:, 0]).ravel()))
    sine, cosine = _sincos32((np.float32(2 * math.pi) * pairs[:, 1]).ravel())
    out = np.empty_like(pairs)
    out[:, 0] = _scale32(radius * cosine, std, mean).reshape(-1, 8)
    out[:, 1] = _scale32(radius * sine, std, mean).reshape(-1, 8)
    return out.ravel()


def _scale32(x: Array, std: np.float64, mean: np.float64) -> Array:
    if std == 1.0:
        return x + np.float32(mean)
    return _fma32(x, std, mean)


def _log32(x: Array) -> Array:
    """log of float32 in (0, 1]: m * 2**e with m in [sqrt(1/2), sqrt(2)), a polynomial in m - 1."""
    bits = x.view(np.int32)
    exponent = (bits >> 23) - 126
    mantissa = ((bits & 0x7F_FFFF) | 0x3F00_0000).view(np.float32)
    small = mantissa < np.float32(0.707106781186547524)
    e = (exponent - small).astype(np.float32)
    m = (mantissa - np.float32(1)) + mantissa * small
    wide = m.astype(np.float64)
    square = m * m
    y: Any = _f(7.0376836292e-2)
    for c in _LOG:
        y = _fma32(y, wide, _f(c))
    y *= m
    y = _fma32(y, square.astype(np.float64), e * np.float32(-2.12194440e-4))
    y -= square * np.float32(0.5)
    return _fma32(e, _f(0.693359375), m + y)


def _sincos32(x: Array) -> tuple[Array, Array]:
    """sin and cos of float32 in [0, 2 pi): the octant, the rest in three steps, two polynomials."""
    octant = (x * np.float32(1.27323954473516)).astype(np.int32)
    octant = (octant + 1) & ~1
    count = octant.astype(np.float64)
    for c in (-0.78515625, -2.4187564849853515625e-4, -3.77489497744594108e-8):
        x = _fma32(_f(c), count, x)
    square = x * x
    wide = square.astype(np.float64)
    cosine = _fma32(_f(2.443315711809948e-5), wide, _f(-1.388731625493765e-3))
    cosine = _fma32(cosine, wide, _f(4.166664568298827e-2))
    cosine *= square
    cosine = _fma32(cosine, wide, square * np.float32(-0.5)) + np.float32(1)
    sine = _fma32(_f(-1.9515295891e-4), wide, _f(8.3321608736e-3))
    sine = _fma32(sine, wide, _f(-1.6666654611e-1))
    sine *= square
    sine = _fma32(sine, x.astype(np.float64), x)
    swap = (octant & 2) != 0
    return (
        _flip(np.where(swap, cosine, sine), octant & 4),
        _flip(np.where(swap, sine, cosine), ~(octant - 2) & 4),
    )


def _flip(x: Array, four: Array) -> Array:
    """Change the sign where `four` is 4 and not 0."""
    flipped: Array = (x.view(np.int32) ^ (four << 29)).view(np.float32)
    return flipped


# Integers and permutations.


def integers(
    stream: Stream, shape: Shape, dtype: DType, low: int | None = None, high: int | None = None
) -> Array:
    """torch.randint and Tensor.random_: [low, high), [low, largest], or everything from 0 up."""
    dtype = np.dtype(dtype)
    n = math.prod(shape)
    low, count, long = integer_range(dtype, low, high)
    if KERNELS is not None and count < 1 << 63:
        room = stream.room(n, I64)
        values = stream.fill("integers", room, sizes=(low, count, long))
        return round_draws(values, dtype, shape)
    words = stream.words64(n) if long else stream.words(n)
    if count == 1 << 64:  # every int64: the word as it is
        return words.view(np.int64).reshape(shape)
    words %= words.dtype.type(count)
    values = words.astype(np.int64)
    if low:
        values += np.int64(low)  # wraps as it does in C++
    return round_draws(values, dtype, shape)


def permutation(stream: Stream, n: int, dtype: DType = I64) -> Array:
    """torch.randperm: for i = 0, 1, ... swap i with a later place h[i], without the loop.

    Step i hands out what lies at place h[i] and puts there what lay at place i. So place p holds
    what the last earlier step j with h[j] == p brought, which in turn is what had come to place j,
    and so on back to a place where nothing had come: a forest, whose roots pointer jumping finds.
    """
    dtype = np.dtype(dtype)
    if n < 2:
        return np.arange(n).astype(dtype)
    if KERNELS is not None and n < (1 << 32) // 20:
        return round_draws(stream.fill("permutation", stream.room(n, I64)), dtype, (n,))
    steps = np.arange(n, dtype=np.uint64)
    target = steps.copy()
    if n < (1 << 32) // 20:
        target[:-1] += stream.words(n - 1) % (np.uint32(n) - np.arange(n - 1, dtype=np.uint32))
    else:
        target[:-1] += stream.words64(n - 1) % (np.uint64(n) - steps[:-1])
    key = np.sort((target << np.uint64(32)) | steps)
    place = (key >> np.uint64(32)).astype(np.int64)
    step = (key & np.uint64(0xFFFF_FFFF)).astype(np.int64)
    came = np.arange(n)
    moved = place != step
    came[place[moved]] = step[moved]  # in order of steps: the last one stays
    while True:
        further = came[came]
        if np.array_equal(further, came):
            break
        came = further
    out = np.empty(n, np.int64)
    first = np.empty(n, bool)
    first[0] = True
    np.not_equal(place[1:], place[:-1], out=first[1:])
    handed = place.copy()
    later = np.flatnonzero(~first)
    handed[later] = came[step[later - 1]]
    out[step] = handed
    return round_draws(out, dtype, (n,))


# Coin throws and the continuous distributions.


def bernoulli(stream: Stream, p: float | Array, shape: Shape, dtype: DType) -> Array:
    """Ones with probability `p`: a number (Tensor.bernoulli_(0.5)) or an array (torch.bernoulli).

    The two draw otherwise: a number is compared with 53 bits, an array with those of its dtype.
    """
    n = math.prod(shape)
    if not isinstance(p, np.ndarray):
        if not 0.0 <= p <= 1.0:
            raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")
        dtype = np.dtype(dtype)
        if KERNELS is None:
            return round_draws(unit53(stream, n) < p, dtype, shape)
        kind = _SHORT.get(dtype)
        room = stream.room(n, BOOL if kind is None else dtype)
        return round_draws(stream.fill(f"coins_{kind or 'bool'}", room, p), dtype, shape)
    if n:
        check_floating("bernoulli_tensor_cpu_p_", p.dtype)
    kind = _SHORT.get(p.dtype)
    if KERNELS is not None and kind is not None and p.flags.c_contiguous and p.shape == shape:
        room = stream.room(n, p.dtype)
        if stream.fill_by(f"coins_of_{kind}", p, room, (n,)):
            return round_draws(room, np.dtype(dtype), shape)
    if not np.all((p >= 0) & (p <= 1)):
        raise RuntimeError(
            "Expected p_in >= 0 && p_in <= 1 to be true, but got false.  (Could this error message "
            "be improved?  If so, please report an enhancement request to PyTorch.)"
        )
    unit = unit53(stream, n) if p.dtype == F64 else _unit24(stream, n)
    chance = p if p.dtype == F64 else p.astype(np.float32)
    return round_draws(unit.reshape(shape) < chance, np.dtype(dtype), shape)


def exponential(stream: Stream, shape: Shape, dtype: DType, lambd: float = 1.0) -> Array:
    """Tensor.exponential_."""
    dtype = np.dtype(dtype)
    check_exponential(dtype, lambd)
    unit = unit53(stream, math.prod(shape))
    return round_draws((-1.0 / lambd) * _function("log1p", dtype == F64, -unit), dtype, shape)


def cauchy(
    stream: Stream, shape: Shape, dtype: DType, median: float = 0.0, sigma: float = 1.0
) -> Array:
    """Tensor.cauchy_."""
    dtype = np.dtype(dtype)
    check_cauchy(dtype, sigma, cpp_name(dtype))
    angle = math.pi * (unit53(stream, math.prod(shape)) - 0.5)
    return round_draws(_fma(_function("tan", dtype == F64, angle), sigma, median), dtype, shape)


def log_normal(
    stream: Stream, shape: Shape, dtype: DType, mean: float = 1.0, std: float = 2.0
) -> Array:
    """Tensor.log_normal_: always from single pairs, with the cached normal of the stream."""
    dtype = np.dtype(dtype)
    if not std > 0.0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std:g}")
    check_floating("log_normal_cpu", dtype)
    exact = dtype == F64
    exponent = _fma(_pairs(stream, math.prod(shape), exact), std, mean)
    return round_draws(_function("exp", exact, exponent), dtype, shape)


def geometric(stream: Stream, shape: Shape, dtype: DType, p: float) -> Array:
    """Tensor.geometric_: throws up to the first success; integer dtypes too."""
    dtype = np.dtype(dtype)
    if not 0.0 < p < 1.0:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p:g}")
    if dtype.kind in "bc":
        raise not_implemented("geometric_cpu", dtype)
    with np.errstate(divide="ignore"):
        throws = np.ceil(host.log(unit53(stream, math.prod(shape))) / NUMBERS.log1p(-p))
    return round_draws(throws, dtype, shape)


# Draws from tables and counts.

FEW = 8  # of so many of a row one is wanted: not worth sorting it all


def multinomial(stream: Stream, probs: Array, n: int, replacement: bool = False) -> Array:
    """torch.multinomial on one row of weights or on a matrix of rows: int64 indices."""
    check_multinomial(probs, n, replacement)
    rows = probs.reshape(-1, probs.shape[-1])
    kind = _SHORT.get(rows.dtype)
    if n == 1 and KERNELS is not None and not Settings.portable and kind is not None:
        out = np.empty((*probs.shape[:-1], 1), I64)
        if stream.fill_by(f"picks_{kind}", np.ascontiguousarray(rows), out, rows.shape):
            return out
    if replacement and n > 1:
        out = _with_replacement(stream, rows, n)
    else:
        if not np.all((rows >= 0) & (rows < np.inf)):
            raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
        if np.any(rows.sum(axis=-1) == 0):
            raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
        with np.errstate(divide="ignore", over="ignore"):
            race = rows / exponential(stream, rows.shape, rows.dtype)
        if is_half(race.dtype):
            race = race.astype(np.float32)
        out = largest(race, n)
    return np.ascontiguousarray(out, I64).reshape(*probs.shape[:-1], n)


def largest(x: Array, n: int) -> Array:
    """Where the n largest numbers of every row are, in order; equal ones as they come."""
    if n == 1:
        return x.argmax(axis=-1, keepdims=True)
    if FEW * n < x.shape[-1]:
        some = np.sort(np.argpartition(-x, n - 1, axis=-1)[:, :n], axis=-1)
        values = np.take_along_axis(x, some, -1)
        if values.all():  # of zeros there may be more than are wanted
            order = np.argsort(-values, axis=-1, kind="stable")
            return np.take_along_axis(some, order, -1)
    return np.argsort(-x, axis=-1, kind="stable")[:, :n]


def _with_replacement(stream: Stream, rows: Array, n: int) -> Array:
    if np.any(rows < 0):
        raise RuntimeError("invalid multinomial distribution (encountering probability entry < 0)")
    if not np.all(np.isfinite(rows)):
        raise RuntimeError(
            "invalid multinomial distribution (encountering probability entry = infinity or NaN)"
        )
    table = np.add.accumulate(rows if rows.dtype == F64 else rows.astype(np.float32), axis=-1)
    if not np.all(table[:, -1] > 0):
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    table /= table[:, -1:].copy()
    unit = unit53(stream, len(rows) * n).reshape(len(rows), n)
    return np.stack([np.searchsorted(t, u) for t, u in zip(table, unit, strict=True)])
