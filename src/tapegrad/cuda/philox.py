"""PyTorch's random numbers of a GPU: Philox 4x32-10, and how its words become numbers, on any `xp`.

A block of four words of 32 bits is a function of the seed (the key) and of a counter: no state is
carried from one number to the next. PyTorch's kernels run up to as many threads as the GPU has room
for. A thread's own number is the upper half of the counter; the lower half grows from round to
round, and from draw to draw. A thread makes `each` numbers of a block: four, or two of 64 bits. So
number i of a draw is made in round `i // (threads * each)`, by thread `i % threads`. With that the
numbers depend on the size of a draw only where a GPU has fewer threads than there are numbers.

The formulas here are the reference. A backend may bring fused kernels for the functions below
that `fused` asks for, under the same names and with the same arguments; they have to give the
same numbers. (The last bits of logarithms, sines and cosines are the GPU's own.)
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
BLOCK = 256  # threads of a block
F32 = np.dtype(np.float32)
F64 = np.dtype(np.float64)


class Start(NamedTuple):
    """Where a draw starts: the seed, the first round, and the number of threads.

    In a recorded CUDA graph seed and round are read from `cell` when it runs: two words of 64 bits
    in the memory of the GPU; `round` is counted from that one.
    """

    seed: int
    round: int
    threads: int
    cell: Any = None
    side_by_side: int = 1  # numbers that a thread of dropout's takes at once


def shared_out(count: int, each: int, most: int) -> tuple[int, int]:
    """How many threads draw `count` numbers, `each` from a block, and in how many rounds.

    `most`: blocks of threads that the GPU has room for.
    """
    if not count:
        return BLOCK, 0
    threads = BLOCK * min(-(-count // BLOCK), most)
    return threads, (count - 1) // (threads * each) + 1


def fused(name: str) -> Any:
    """The backend's own kernel for a function of this module; None without one."""
    return devices.DEVICE.backend.draws.get(name)


def working(dtype: Any) -> Any:
    """The dtype that numbers of another are computed in."""
    return F64 if dtype == F64 else F32


def each_of(dtype: Any) -> int:
    """How many floats of a dtype are made of a block."""
    return 2 if dtype == F64 else 4


def fill_cell(cell: Any, seed: int, round: int) -> None:
    """Write where a graph's numbers start, in the order of the stream and without waiting."""
    kernel = fused("fill_cell")
    if kernel is not None:
        kernel(cell, seed, round)
        return
    cell[0:1].fill(np.uint64(seed & MASK))
    cell[1:2].fill(np.uint64(round & MASK))


# ---------------------------------------------------------------------- words


def blocks(xp: Any, count: int, each: int, start: Start) -> tuple[list[Any], Any]:
    """For every number the four words of its block, in 64 bits, and which part of it is its own."""
    number = xp.arange(count, dtype=xp.uint64)
    threads = xp.uint64(start.threads)
    turn, rest = number // (threads * xp.uint64(each)), number % (threads * xp.uint64(each))
    return block_of(xp, start, turn, rest % threads), rest // threads


def block_of(xp: Any, start: Start, turn: Any, thread: Any) -> list[Any]:
    """The blocks of threads in rounds that are counted from the start."""
    counter = turn + xp.uint64(start.round & MASK)
    if start.cell is None:
        return philox(xp, xp.uint64(start.seed & MASK), counter, thread)
    return philox(xp, start.cell[0:1], counter + start.cell[1:2], thread)


def philox(xp: Any, key: Any, counter: Any, thread: Any) -> list[Any]:
    low = xp.uint64(LOW)
    shift = xp.uint64(32)
    c0, c1, c2, c3 = counter & low, counter >> shift, thread & low, thread >> shift
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
    return [c0, c1, c2, c3]


def philox_words(xp: Any, count: int, start: Start, long: bool) -> Any:
    """Words of 32 bits, four from a block; or of 64 bits, two from a block."""
    kernel = fused("philox_words")
    if kernel is not None:
        return kernel(xp, count, start, long)
    words, part = blocks(xp, count, 2 if long else 4, start)
    if long:
        high, low = halves(xp, words, part)
        return high << xp.uint64(32) | low
    return quarter(xp, words, part).astype(xp.uint32)


def quarter(xp: Any, words: list[Any], part: Any) -> Any:
    """The word of a block that `part` says."""
    first = xp.where(part == 0, words[0], words[1])
    return xp.where(part < 2, first, xp.where(part == 2, words[2], words[3]))


def halves(xp: Any, words: list[Any], part: Any) -> tuple[Any, Any]:
    """The two words of the first half of a block where `part` is zero, else of the second."""
    return xp.where(part == 0, words[0], words[2]), xp.where(part == 0, words[1], words[3])


# ---------------------------------------------------------------------- floats


def unit_float32(xp: Any, word: Any) -> Any:
    """A word in (0, 1], in single precision."""
    return word.astype(xp.float32) * xp.float32(2.0**-32) + xp.float32(2.0**-33)


def double(xp: Any, low: Any, high: Any) -> Any:
    """53 bits in (0, 1], from two words."""
    bits = low ^ high << xp.uint64(21)
    return bits.astype(xp.float64) * 2.0**-53 + 2.0**-54


def philox_uniform(xp: Any, shape: Shape, dtype: Any, start: Start) -> Any:
    """Floats in (0, 1], of float32 or float64."""
    kernel = fused("philox_uniform")
    if kernel is not None:
        return kernel(xp, shape, dtype, start)
    words, part = blocks(xp, math.prod(shape), each_of(dtype), start)
    if dtype == F64:
        return double(xp, *halves(xp, words, part)).reshape(shape)
    return unit_float32(xp, quarter(xp, words, part)).reshape(shape)


def philox_between(xp: Any, shape: Shape, dtype: Any, low: float, high: float, start: Start) -> Any:
    """Floats in [low, high): the open end becomes the closed one."""
    kernel = fused("philox_between")
    if kernel is not None:
        return kernel(xp, shape, dtype, low, high, start)
    work = working(dtype)
    first, end = work.type(dtype.type(low)), work.type(dtype.type(high))
    unit = philox_uniform(xp, shape, work, start)
    scaled = fused_product(unit, end - first, first).astype(dtype, copy=False)
    return xp.where(scaled == dtype.type(high), dtype.type(low), scaled)


def fused_product(x: Any, factor: Any, shift: Any) -> Any:
    """`x * factor + shift`, of single precision as a GPU computes it: rounded once."""
    if x.dtype == F64:
        return x * factor + shift
    return (x.astype(F64) * F64.type(factor) + F64.type(shift)).astype(F32)


def philox_normal(xp: Any, shape: Shape, dtype: Any, mean: float, std: float, start: Start) -> Any:
    """Normals by Box and Muller: two from each pair of uniforms, sine first."""
    kernel = fused("philox_normal")
    if kernel is not None:
        return kernel(xp, shape, dtype, mean, std, start)
    work = working(dtype)
    words, part = blocks(xp, math.prod(shape), each_of(dtype), start)
    if dtype == F64:
        radius, angle = double(xp, words[0], words[1]), double(xp, words[2], words[3])
        angle = angle * (2.0 * math.pi)
    else:
        first, second = halves(xp, words, part // xp.uint64(2))
        radius = unit_float32(xp, first)
        angle = unit_float32(xp, second) * xp.float32(2.0 * math.pi)
        part = part % xp.uint64(2)
    length = xp.sqrt(work.type(-2) * xp.log(radius))
    made = length * xp.where(part == 0, xp.sin(angle), xp.cos(angle))
    if (mean, std) != (0.0, 1.0):
        made = fused_product(made, work.type(std), work.type(mean))
    return made.astype(dtype, copy=False).reshape(shape)


# ---------------------------------------------------------------------- coins


def philox_bernoulli(xp: Any, shape: Shape, dtype: Any, p: float, start: Start) -> Any:
    """Ones with the chance `p`, zeros else."""
    kernel = fused("philox_bernoulli")
    if kernel is not None:
        return kernel(xp, shape, dtype, p, start)
    work = working(dtype)
    return (philox_uniform(xp, shape, work, start) < work.type(p)).astype(dtype)


def philox_fours(xp: Any, count: int, start: Start) -> Any:
    """Uniforms of single precision, four neighbours from a thread: for tensors of chances."""
    kernel = fused("philox_fours")
    if kernel is not None:
        return kernel(xp, count, start)
    number = xp.arange(count, dtype=xp.uint64)
    four = xp.uint64(4)
    words = block_of(xp, start, xp.zeros_like(number), number // four)
    return unit_float32(xp, quarter(xp, words, number % four))


def side_by_side(x: Any) -> int:
    """How many neighbours a thread of PyTorch's dropout takes: 16 bytes, or what divides them."""
    vector = 16 // x.dtype.itemsize
    while vector > 1 and (x.size % vector or x.data.ptr % (vector * x.dtype.itemsize)):
        vector //= 2
    return vector


def philox_kept(xp: Any, count: int, keep: float, work: Any, start: Start) -> Any:
    """The elements that dropout keeps; uniforms have single precision whatever the dtype."""
    vector = start.side_by_side
    if vector == 1:
        unit = philox_uniform(xp, (count,), F32, start)
    else:
        number = xp.arange(count, dtype=xp.uint64)
        group, place = number // xp.uint64(vector), number % xp.uint64(vector)
        turn, thread = group // xp.uint64(start.threads), group % xp.uint64(start.threads)
        blocks_each = xp.uint64(max(vector // 4, 1))
        words = block_of(xp, start, turn * blocks_each + place // xp.uint64(4), thread)
        unit = unit_float32(xp, quarter(xp, words, place % xp.uint64(4)))
    return unit < work.type(keep)


# ---------------------------------------------------------------------- other distributions


def philox_map(xp: Any, start: Start, name: str, shape: Shape, dtype: Any, *numbers: float) -> Any:
    """Numbers of the distributions below, computed in float32 or float64."""
    kernel = fused("philox_map")
    if kernel is not None:
        return kernel(xp, start, name, shape, dtype, *numbers)
    work = working(dtype)
    given = [work.type(v) for v in numbers]
    if name == "log_normal":
        made = xp.exp(philox_normal(xp, shape, work, *numbers, start))
    else:
        unit = philox_uniform(xp, shape, work, start)
        made = DISTRIBUTIONS[name](xp, unit, work.type(np.finfo(work).eps), *given)
    return made.astype(dtype, copy=False)


def exponential(xp: Any, unit: Any, eps: Any, rate: Any) -> Any:
    # Zero would be infinite as a divisor.
    log = xp.where(unit >= 1 - eps / 2, -eps / 2, xp.log(unit))
    return log * (-1 / rate)


def cauchy(xp: Any, unit: Any, eps: Any, median: Any, sigma: Any) -> Any:
    if unit.dtype == F32:
        unit = xp.clip(unit, eps, 1 - eps)
    return sigma * xp.tan(unit.dtype.type(math.pi) * (unit - unit.dtype.type(0.5))) + median


def geometric(xp: Any, unit: Any, eps: Any, p: Any) -> Any:
    return xp.ceil(xp.log(unit) / unit.dtype.type(math.log1p(-p)))


DISTRIBUTIONS = {"exponential": exponential, "cauchy": cauchy, "geometric": geometric}


def philox_untied(xp: Any, order: Any, keys: Any, start: Start) -> Any:
    """A permutation by keys, with those places shuffled whose keys are equal.

    The thread of the first of them does that, with one word for each swap. Here the host does it,
    as this is not for speed.
    """
    kernel = fused("philox_untied")
    if kernel is not None:
        return kernel(xp, order, keys, start)
    found = devices.to_host(order)
    keys = devices.to_host(keys)[found]
    seed = start.seed & MASK
    first = 0
    while first < len(keys):
        end = first + 1
        while end < len(keys) and keys[end] == keys[first]:
            end += 1
        for k, i in enumerate(range(end - first - 1, 0, -1)):
            counter = np.array([start.round + k // 4], np.uint64)
            block = philox(np, np.uint64(seed), counter, np.array([first], np.uint64))
            place = int(block[k % 4][0]) % (i + 1)
            found[[first + i, first + place]] = found[[first + place, first + i]]
        first = end
    return devices.uploaded(found)
