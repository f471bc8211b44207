"""Sobol sequences: points that fill a cube more evenly than random ones."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import tapegrad as tg

__all__ = ["SobolEngine"]

# Primitive polynomials and first direction numbers of dimensions 2 to 128, as polynomial:m1,m2,…
# (S. Joe and F. Kuo, new-joe-kuo-6). Further dimensions are read from SciPy where it is installed.
DIRECTIONS = """
    3:1 7:1,3 11:1,3,1 13:1,1,1 19:1,1,3,3 25:1,3,5,13 37:1,1,5,5,17 41:1,1,5,5,5 47:1,1,7,11,19
    55:1,1,5,1,1 59:1,1,1,3,11 61:1,3,5,5,31 67:1,3,3,9,7,49 91:1,1,1,15,21,21 97:1,3,1,13,27,49
    103:1,1,1,15,7,5 109:1,3,1,15,13,25 115:1,1,5,5,19,61 131:1,3,7,11,23,15,103
    137:1,3,7,13,13,15,69 143:1,1,3,13,7,35,63 145:1,3,5,9,1,25,53 157:1,3,1,13,9,35,107
    167:1,3,1,5,27,61,31 171:1,1,5,11,19,41,61 185:1,3,5,3,3,13,69 191:1,1,7,13,1,19,1
    193:1,3,7,5,13,19,59 203:1,1,3,9,25,29,41 211:1,3,5,13,23,1,55 213:1,3,7,3,13,59,17
    229:1,3,1,3,5,53,69 239:1,1,5,5,23,33,13 241:1,1,7,7,1,61,123 247:1,1,7,9,13,61,49
    253:1,3,3,5,3,55,33 285:1,3,1,15,31,13,49,245 299:1,3,5,15,31,59,63,97
    301:1,3,1,11,11,11,77,249 333:1,3,1,11,27,43,71,9 351:1,1,7,15,21,11,81,45
    355:1,3,7,3,25,31,65,79 357:1,3,1,1,19,11,3,205 361:1,1,5,9,19,21,29,157
    369:1,3,7,11,1,33,89,185 391:1,3,3,3,15,9,79,71 397:1,3,7,11,15,39,119,27
    425:1,1,3,1,11,31,97,225 451:1,1,1,3,23,43,57,177 463:1,3,7,7,17,17,37,71
    487:1,3,1,5,27,63,123,213 501:1,1,3,5,11,43,53,133 529:1,3,5,5,29,17,47,173,479
    539:1,3,3,11,3,1,109,9,69 545:1,1,1,5,17,39,23,5,343 557:1,3,1,5,25,15,31,103,499
    563:1,1,1,11,11,17,63,105,183 601:1,1,5,11,9,29,97,231,363 607:1,1,5,15,19,45,41,7,383
    617:1,3,7,7,31,19,83,137,221 623:1,1,1,3,23,15,111,223,83 631:1,1,5,13,31,15,55,25,161
    637:1,1,3,13,25,47,39,87,257 647:1,1,1,11,21,53,125,249,293 661:1,1,7,11,11,7,57,79,323
    675:1,1,5,5,17,13,81,3,131 677:1,1,7,13,23,7,65,251,475 687:1,3,5,1,9,43,3,149,11
    695:1,1,3,13,31,13,13,255,487 701:1,3,3,1,5,63,89,91,127 719:1,1,3,3,1,19,123,127,237
    721:1,1,5,7,23,31,37,243,289 731:1,1,5,11,17,53,117,183,491 757:1,1,1,5,1,13,13,209,345
    761:1,1,3,15,1,57,115,7,33 787:1,3,1,11,7,43,81,207,175 789:1,3,1,1,15,27,63,255,49
    799:1,3,5,3,27,61,105,171,305 803:1,1,5,3,1,3,57,249,149 817:1,1,3,5,5,57,15,13,159
    827:1,1,1,11,7,11,105,141,225 847:1,3,3,5,27,59,121,101,271 859:1,3,5,9,11,49,51,59,115
    865:1,1,7,1,23,45,125,71,419 875:1,1,3,5,23,5,105,109,75 877:1,1,7,15,7,11,67,121,453
    883:1,3,7,3,9,13,31,27,449 895:1,3,1,15,19,39,39,89,15 901:1,1,1,1,1,33,73,145,379
    911:1,3,1,15,15,43,29,13,483 949:1,1,7,3,19,27,85,131,431 953:1,3,3,3,5,35,23,195,349
    967:1,3,3,7,9,27,39,59,297 971:1,1,3,9,11,17,13,241,157 973:1,3,7,15,25,57,33,189,213
    981:1,1,7,1,9,55,73,83,217 985:1,3,3,13,19,27,23,113,249 995:1,3,5,3,23,43,3,253,479
    1001:1,1,5,5,11,5,45,117,217 1019:1,3,3,7,29,37,33,123,147 1033:1,3,1,15,5,5,37,227,223,459
    1051:1,1,7,5,5,39,63,255,135,487 1063:1,3,1,7,9,7,87,249,217,599
    1069:1,1,3,13,9,47,7,225,363,247 1125:1,3,7,13,19,13,9,67,9,737
    1135:1,3,5,5,19,59,7,41,319,677 1153:1,1,5,3,31,63,15,43,207,789
    1163:1,1,7,9,13,39,3,47,497,169 1221:1,3,1,7,21,17,97,19,415,905
    1239:1,3,7,1,3,31,71,111,165,127 1255:1,1,5,11,1,61,83,119,203,847
    1267:1,3,3,13,9,61,19,97,47,35 1279:1,1,7,7,15,29,63,95,417,469
    1293:1,3,1,9,25,9,71,57,213,385 1305:1,3,5,13,31,47,101,57,39,341
    1315:1,1,3,3,31,57,125,173,365,551 1329:1,3,7,1,13,57,67,157,451,707
    1341:1,1,1,7,21,13,105,89,429,965 1347:1,1,5,9,17,51,45,119,157,141
    1367:1,3,7,7,13,45,91,9,129,741 1387:1,3,7,1,23,57,67,141,151,571
    1413:1,1,3,11,17,47,93,107,375,157 1423:1,3,3,5,11,21,43,51,169,915
    1431:1,1,5,3,15,55,101,67,455,625 1441:1,3,5,9,1,23,29,47,345,595
    1479:1,3,7,7,5,49,29,155,323,589 1509:1,3,3,7,5,41,127,61,261,717
"""


@functools.cache
def first_directions(dimension: int) -> list[tuple[int, list[int]]]:
    """The polynomial and the first numbers of each dimension after the first."""
    known = [
        (int(polynomial), [int(m) for m in numbers.split(",")])
        for polynomial, _, numbers in (text.partition(":") for text in DIRECTIONS.split())
    ]
    if dimension - 1 > len(known):
        known += further(len(known) + 1, dimension)
    return known[: dimension - 1]


def further(start: int, stop: int) -> list[tuple[int, list[int]]]:
    try:
        import scipy.stats
    except ImportError:
        raise RuntimeError(
            f"SobolEngine has {start} dimensions of its own; {stop} need SciPy: pip install scipy"
        ) from None
    from pathlib import Path

    assert scipy.stats.__file__ is not None
    table = np.load(Path(scipy.stats.__file__).parent / "_sobol_direction_numbers.npz")
    made = []
    for polynomial, numbers in zip(
        table["poly"][start:stop], table["vinit"][start:stop], strict=True
    ):
        degree = int(polynomial).bit_length() - 1
        made.append((int(polynomial), [int(m) for m in numbers[:degree]]))
    return made


def direction_numbers(dimension: int, bits: int) -> np.ndarray[Any, Any]:
    """The numbers that are combined by exclusive or, as integers of `bits` bits."""
    found = np.ones((dimension, bits), np.int64)
    for d, (polynomial, first) in enumerate(first_directions(dimension), start=1):
        degree = len(first)
        numbers = list(first)
        for i in range(degree, bits):
            new = numbers[i - degree] ^ (numbers[i - degree] << degree)
            for k in range(1, degree):
                if polynomial >> (degree - k) & 1:
                    new ^= numbers[i - k] << k
            numbers.append(new)
        found[d] = numbers[:bits]
    return found << np.arange(bits - 1, -1, -1)


class SobolEngine:
    """Draws the points of a Sobol sequence one after the other.

    >>> torch.quasirandom.SobolEngine(dimension=2).draw(3)
    tensor([[0.0000, 0.0000],
            [0.5000, 0.5000],
            [0.7500, 0.2500]])
    """

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if dimension > self.MAXDIM or dimension < 1:
            raise ValueError(
                f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]"
            )
        self.seed, self.scramble, self.dimension = seed, scramble, dimension
        self.directions = direction_numbers(dimension, self.MAXBIT)
        self.shift = np.zeros(dimension, np.int64)
        if scramble:
            self._scramble()
        self.quasi = self.shift.copy()
        self.num_generated = 0

    def _scramble(self) -> None:
        """Owen's scrambling: random lower triangular matrices of bits, and a random shift."""
        generator = None
        if self.seed is not None:
            generator = tg.Generator()
            generator.manual_seed(self.seed)
        bits = self.MAXBIT
        shift = tg.randint(2, (self.dimension, bits), generator=generator).numpy()
        self.shift = shift @ (1 << np.arange(bits))
        matrices = tg.randint(2, (self.dimension, bits, bits), generator=generator).tril().numpy()
        matrices[:, np.arange(bits), np.arange(bits)] = 1
        # Row i of a matrix gives the bit i, from the top, of a scrambled number.
        powers = 1 << np.arange(bits - 1, -1, -1)
        bits_of = (self.directions[:, None, :] >> np.arange(bits - 1, -1, -1)[None, :, None]) & 1
        self.directions = (((matrices @ bits_of) & 1) * powers[None, :, None]).sum(1)

    def draw(self, n: int = 1, out: Any = None, dtype: Any = None) -> Any:
        """The next `n` points, one in each row."""
        dtype = tg.get_default_dtype() if dtype is None else dtype
        points = np.empty((n, self.dimension), np.int64)
        for i in range(n):
            points[i] = self.quasi
            self._step()
        made = tg.tensor(points / float(1 << self.MAXBIT), dtype=dtype)
        if out is None:
            return made
        return out.resize_as_(made).copy_(made)

    def draw_base2(self, m: int, out: Any = None, dtype: Any = None) -> Any:
        """The next 2**m points; all points so far have to be a power of two."""
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1) != 0:
            raise ValueError(
                "The balance properties of Sobol' points require n to be a power of 2. "
                f"{self.num_generated} points have been previously generated, then: "
                f"n={self.num_generated}+2**{m}={total}. If you still want to do this, please use "
                "'SobolEngine.draw()' instead."
            )
        return self.draw(n, out, dtype)

    def _step(self) -> None:
        """One point further: the direction of the lowest zero bit of the counter."""
        bit = (~self.num_generated & (self.num_generated + 1)).bit_length() - 1
        self.quasi = self.quasi ^ self.directions[:, bit]
        self.num_generated += 1

    def reset(self) -> SobolEngine:
        """Begin again."""
        self.quasi, self.num_generated = self.shift.copy(), 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Skip `n` points."""
        for _ in range(n):
            self._step()
        return self

    def __repr__(self) -> str:
        text = [f"dimension={self.dimension}"]
        if self.scramble:
            text.append("scramble=True")
        if self.seed is not None:
            text.append(f"seed={self.seed}")
        return f"{type(self).__name__}({', '.join(text)})"
