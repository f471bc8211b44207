"""Philox 4x32-10, the counter-based generator of the GPU's random numbers, against any `xp`.

A block of four words of 32 bits is a function of the seed (the key) and of the number of the block
(the counter): no state is carried from one number to the next, so every number can be computed by
a thread of its own. Draws take whole blocks; `Start` says which is the first one.

The formulas here are the reference. A backend may bring fused kernels for the functions below
that `fused` asks for, under the same names and with the same arguments; they have to give the
same numbers.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..core import devices

Shape = tuple[int, ...]

ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)  # what the two halves of the key grow by each round
LOW = 0xFFFF_FFFF
MASK = 0xFFFF_FFFF_FFFF_FFFF
F32 = np.dtype(np.float32)
F64 = np.dtype(np.float64)
DIGITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}


class Start(NamedTuple):
    """Where a draw starts: the seed, and the number of the first block.

    In a recorded CUDA graph both are read from `cell` when it runs: two words of 64 bits in the
    memory of the GPU, the seed and a block; `block` is counted from that one.
    """

    seed: int
    block: int
    cell: Any = None


def fused(name: str) -> Any:
    """The backend's own kernel for a function of this module; None without one."""
    return devices.DEVICE.backend.draws.get(name)


def blocks(count: int) -> int:
    """How many blocks a draw of `count` words takes."""
    return (count + 3) // 4


def working(dtype: Any) -> Any:
    """The dtype that numbers of another are computed in."""
    return F64 if dtype == F64 else F32


def words_of(shape: Shape, dtype: Any) -> int:
    """How many words the numbers of a shape and dtype are made of."""
    return math.prod(shape) * (2 if dtype == F64 else 1)


def fill_cell(cell: Any, seed: int, block: int) -> None:
    """Write where a graph's numbers start, in the order of the stream and without waiting."""
    kernel = fused("fill_cell")
    if kernel is not None:
        kernel(cell, seed, block)
        return
    cell[0:1].fill(np.uint64(seed & MASK))
    cell[1:2].fill(np.uint64(block & MASK))


def philox_words(xp: Any, count: int, start: Start) -> Any:
    """`count` words of 32 bits, as uint32: word `i` is in block `i // 4` from the start."""
    kernel = fused("philox_words")
    if kernel is not None:
        return kernel(xp, count, start)
    low = xp.uint64(LOW)
    shift = xp.uint64(32)
    counter = xp.arange(blocks(count), dtype=xp.uint64) + xp.uint64(start.block & MASK)
    if start.cell is None:
        key = xp.uint64(start.seed & MASK)
    else:
        key = start.cell[0:1]
        counter += start.cell[1:2]
    c0, c1 = counter & low, counter >> shift
    c2 = c3 = xp.zeros_like(counter)
    k0, k1 = key & low, key >> shift
    for _ in range(ROUNDS):
        first = c0 * xp.uint64(MULTIPLIERS[0])
        second = c2 * xp.uint64(MULTIPLIERS[1])
        c0, c1, c2, c3 = (
            (second >> shift) ^ c1 ^ k0,
            second & low,
            (first >> shift) ^ c3 ^ k1,
            first & low,
        )
        k0, k1 = k0 + xp.uint64(WEYL[0]) & low, k1 + xp.uint64(WEYL[1]) & low
    out = xp.empty((len(counter), 4), xp.uint32)
    for i, c in enumerate((c0, c1, c2, c3)):
        out[:, i] = c
    return out.reshape(-1)[:count]


def philox_uniform(xp: Any, shape: Shape, dtype: Any, start: Start) -> Any:
    """Floats in [0, 1) with as many random bits as the dtype has digits: the high ones."""
    kernel = fused("philox_uniform")
    if kernel is not None:
        return kernel(xp, shape, dtype, start)
    words = philox_words(xp, words_of(shape, dtype), start)
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


def philox_between(xp: Any, shape: Shape, dtype: Any, low: float, high: float, start: Start) -> Any:
    """Floats in [low, high), of uniforms in float32 or float64."""
    kernel = fused("philox_between")
    if kernel is not None:
        return kernel(xp, shape, dtype, low, high, start)
    work = working(dtype)
    first, end = work.type(low), work.type(high)
    unit = philox_uniform(xp, shape, work, start)
    scaled = (unit * (end - first) + first).astype(dtype, copy=False)
    # What rounds up to the open end becomes the closed one.
    return xp.where(scaled == dtype.type(high), dtype.type(low), scaled)


def philox_normal(xp: Any, shape: Shape, dtype: Any, mean: float, std: float, start: Start) -> Any:
    """Normals by Box and Muller: two from each pair of uniforms, cosine first."""
    kernel = fused("philox_normal")
    if kernel is not None:
        return kernel(xp, shape, dtype, mean, std, start)
    work = working(dtype)
    count = math.prod(shape)
    even = count + count % 2
    unit = philox_uniform(xp, (even,), work, start).reshape(-1, 2)
    # One minus the uniform lies in (0, 1], where the logarithm is finite.
    radius = xp.sqrt(work.type(-2) * xp.log(work.type(1) - unit[:, 0]))
    angle = work.type(2 * math.pi) * unit[:, 1]
    out = xp.empty((even // 2, 2), work)
    out[:, 0] = radius * xp.cos(angle)
    out[:, 1] = radius * xp.sin(angle)
    if std != 1.0:
        out *= work.type(std)
    if mean != 0.0:
        out += work.type(mean)
    return out.reshape(-1)[:count].astype(dtype, copy=False).reshape(shape)


def philox_bernoulli(xp: Any, shape: Shape, dtype: Any, p: float, start: Start) -> Any:
    """Ones with the chance `p`, zeros else: what dropout draws."""
    kernel = fused("philox_bernoulli")
    if kernel is not None:
        return kernel(xp, shape, dtype, p, start)
    return (philox_uniform(xp, shape, F32, start) < p).astype(dtype)
