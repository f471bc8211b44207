"""Philox 4x32-10, the counter-based generator of the GPU's random numbers, against any `xp`.

A block of four words of 32 bits is a function of the seed (the key) and of the number of the block
(the counter): no state is carried from one number to the next, so every number can be computed by
a thread of its own. Draws take whole blocks; `offset` is the number of the first one.

The formulas here are the reference. A backend may bring fused kernels for the functions below
that `fused` asks for, under the same names and with the same arguments; they have to give the
same numbers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core import devices

Shape = tuple[int, ...]

ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)  # what the two halves of the key grow by each round
LOW = 0xFFFF_FFFF
F32 = np.dtype(np.float32)
F64 = np.dtype(np.float64)
DIGITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}


def fused(name: str) -> Any:
    """The backend's own kernel for a function of this module; None without one."""
    return devices.DEVICE.backend.draws.get(name)


def blocks(count: int) -> int:
    """How many blocks a draw of `count` words takes."""
    return (count + 3) // 4


def words_of(shape: Shape, dtype: Any) -> int:
    """How many words the numbers of a shape and dtype are made of."""
    return math.prod(shape) * (2 if dtype == F64 else 1)


def philox_words(xp: Any, count: int, seed: int, offset: int) -> Any:
    """`count` words of 32 bits, as uint32: word `i` is in block `offset + i // 4`."""
    kernel = fused("philox_words")
    if kernel is not None:
        return kernel(xp, count, seed, offset)
    low = xp.uint64(LOW)
    shift = xp.uint64(32)
    counter = xp.arange(blocks(count), dtype=xp.uint64) + xp.uint64(offset & (1 << 64) - 1)
    c0, c1 = counter & low, counter >> shift
    c2 = c3 = xp.zeros_like(counter)
    k0, k1 = seed & LOW, seed >> 32 & LOW
    for _ in range(ROUNDS):
        first = c0 * xp.uint64(MULTIPLIERS[0])
        second = c2 * xp.uint64(MULTIPLIERS[1])
        c0, c1, c2, c3 = (
            (second >> shift) ^ c1 ^ xp.uint64(k0),
            second & low,
            (first >> shift) ^ c3 ^ xp.uint64(k1),
            first & low,
        )
        k0, k1 = k0 + WEYL[0] & LOW, k1 + WEYL[1] & LOW
    out = xp.empty((len(counter), 4), xp.uint32)
    for i, c in enumerate((c0, c1, c2, c3)):
        out[:, i] = c
    return out.reshape(-1)[:count]


def philox_uniform(xp: Any, shape: Shape, dtype: Any, seed: int, offset: int) -> Any:
    """Floats in [0, 1) with as many random bits as the dtype has digits: the high ones."""
    kernel = fused("philox_uniform")
    if kernel is not None:
        return kernel(xp, shape, dtype, seed, offset)
    words = philox_words(xp, words_of(shape, dtype), seed, offset)
    digits = DIGITS[dtype.name]
    if dtype == F64:
        bits = wide(xp, words) >> xp.uint64(11)
        return (bits.astype(xp.float64) * 2.0**-53).reshape(shape)
    bits = words >> xp.uint32(32 - digits)
    return (bits.astype(xp.float32) * xp.float32(2.0**-digits)).astype(dtype).reshape(shape)


def wide(xp: Any, words: Any) -> Any:
    """Words of 64 bits, from two each, the high one first."""
    pairs = words.reshape(-1, 2).astype(xp.uint64)
    return (pairs[:, 0] << xp.uint64(32)) | pairs[:, 1]


def philox_normal(xp: Any, shape: Shape, dtype: Any, seed: int, offset: int) -> Any:
    """Standard normals by Box and Muller: two from each pair of uniforms, cosine first."""
    kernel = fused("philox_normal")
    if kernel is not None:
        return kernel(xp, shape, dtype, seed, offset)
    work = F64 if dtype == F64 else F32
    count = math.prod(shape)
    even = count + count % 2
    unit = philox_uniform(xp, (even,), work, seed, offset).reshape(-1, 2)
    # One minus the uniform lies in (0, 1], where the logarithm is finite.
    radius = xp.sqrt(work.type(-2) * xp.log(work.type(1) - unit[:, 0]))
    angle = work.type(2 * math.pi) * unit[:, 1]
    out = xp.empty((even // 2, 2), work)
    out[:, 0] = radius * xp.cos(angle)
    out[:, 1] = radius * xp.sin(angle)
    return out.reshape(-1)[:count].astype(dtype, copy=False).reshape(shape)


def philox_bernoulli(xp: Any, shape: Shape, dtype: Any, p: float, seed: int, offset: int) -> Any:
    """Ones with the chance `p`, zeros else: what dropout draws."""
    kernel = fused("philox_bernoulli")
    if kernel is not None:
        return kernel(xp, shape, dtype, p, seed, offset)
    return (philox_uniform(xp, shape, F32, seed, offset) < p).astype(dtype)
