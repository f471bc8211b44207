"""float32 matrix products on tensor cores, as accurate as float32: plans and launches.

The kernels are in sources/product.cu. A result is always the same for the same factors and tile.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .programs import compiled

NOTHING = np.uint64(0)  # a null pointer
DEPTH = 32  # of k, that one step takes
MOST = 2**31 - 1  # positions in a factor are counted in 32 bits
GRID = 65535  # blocks along y and z
START = 64  # what a block takes before and after its products, in terms of k
ADDING = 107  # what storing a part of a tile and adding it up takes, likewise
SHORTEST = 128  # of k: sums of fewer numbers are rounded so seldom that a split shows
FEW = 256  # of k, below which a block is not worth starting
PARTS = 32
KERNEL = "tensor core product"


class Tile(NamedTuple):
    """The part of the result that a block makes, blocks per multiprocessor, and read-ahead."""

    rows: int
    columns: int
    blocks: int
    stages: int

    def memory(self, turn_a: bool, turn_b: bool) -> int:
        """Bytes of shared memory: rows along k have no padding, others have 4 numbers between."""
        across = self.rows + (4 if turn_a else 0) + self.columns + (0 if turn_b else 4)
        return across * DEPTH * self.stages * 4


TILES = (Tile(128, 128, 1, 4), Tile(64, 128, 3, 3))


class Plan:
    """A product of given shapes, by one tile, with k cut into equal shares."""

    def __init__(
        self, gpu: Any, tile: Tile, m: int, n: int, k: int, layout: tuple[bool, bool, int, int]
    ) -> None:
        turn_a, turn_b, step_a, step_b = layout
        self.gpu = gpu
        self.turns = turn_a, turn_b
        self.tile = tile
        self.cost, self.shares = best_shares(tile, m, n, k, gpu.blocks // 16)
        share = share_of(k, self.shares)
        self.kernel: Any = None
        self.sum: Any = None
        self.grid = (-(-n // tile.columns), -(-m // tile.rows), self.shares)
        self.block = (tile.rows * tile.columns // 64,)
        self.memory = tile.memory(turn_a, turn_b)
        self.numbers = tuple(np.int32(x) for x in (step_a, step_b, m, n, k, share))
        self.parts = (self.shares, m, n)
        self.sum_grid = (-(-m * n // 256),)
        self.sum_numbers = (np.int64(m * n), np.int32(n), np.int32(self.shares))

    def run(self, a: int, b: int, out: int, bias: int = 0) -> None:
        """Start the product of the matrices at these addresses."""
        if self.kernel is None:  # compiled when first used: a plan may never be
            self.kernel = product_kernel(self.gpu, self.tile, *self.turns)
            self.sum = sum_kernel(self.gpu)
        factors = np.uint64(a), np.uint64(b)
        target, more = np.uint64(out), np.uint64(bias)
        if self.shares == 1:
            args = (*factors, more, target, *self.numbers)
            self.kernel(self.grid, self.block, args, shared_mem=self.memory)
            return
        parts = self.gpu.xp.ndarray(self.parts, np.float32)
        args = (*factors, NOTHING, parts, *self.numbers)
        self.kernel(self.grid, self.block, args, shared_mem=self.memory)
        self.sum(self.sum_grid, (256,), (parts, more, target, *self.sum_numbers))


def share_of(k: int, shares: int) -> int:
    """How much of k each share takes: whole steps."""
    return -(-k // (shares * DEPTH)) * DEPTH


def best_shares(tile: Tile, m: int, n: int, k: int, processors: int) -> tuple[float, int]:
    """The time this takes, in some unit, and into how many shares to cut k."""
    tiles = -(-m // tile.rows) * -(-n // tile.columns)
    room = processors * tile.blocks
    found = []
    for parts in range(1, min(PARTS, max(k // FEW, 1)) + 1):
        share = share_of(k, parts)
        if -(-k // share) != parts:
            continue
        taken = float(-(-tiles * parts // room) * (share + START))
        if parts > 1:
            taken += parts * tiles / room * ADDING
        found.append((taken * tile.rows * tile.columns * tile.blocks, parts))
    return min(found)


def product_kernel(gpu: Any, tile: Tile, turn_a: bool, turn_b: bool) -> Any:
    key = (KERNEL, tile, turn_a, turn_b)
    found = gpu.compiled.get(key)
    if found is None:
        given = {
            "BM": tile.rows,
            "BN": tile.columns,
            "MIN_BLOCKS": tile.blocks,
            "STAGES": tile.stages,
            "TOGETHER": 2 if tile.blocks == 1 else 1,
            "A_ALONG_K": int(not turn_a),
            "B_ALONG_K": int(turn_b),
        }
        found = compiled(gpu.xp, "product.cu", "float32", "product", given)
        gpu.compiled[key] = found
        found.max_dynamic_shared_size_bytes = tile.memory(turn_a, turn_b)
        found.preferred_shared_memory_carveout = 100
    return found


def sum_kernel(gpu: Any) -> Any:
    key = (KERNEL, "sum")
    found = gpu.compiled.get(key)
    if found is None:
        found = compiled(gpu.xp, "sums.cu", "float32", "add_shares")
        gpu.compiled[key] = found
    return found


def plans(
    gpu: Any, m: int, n: int, k: int, turn_a: bool, turn_b: bool, step_a: int, step_b: int
) -> list[Plan]:
    """Plans for a product, the fastest by estimate first; none where the kernels do not fit.

    The steps are from row to row (of a matrix stored turned: from column to column), in numbers.
    """
    if not fits(m, n, k, turn_a, turn_b, step_a, step_b):
        return []
    layout = (turn_a, turn_b, step_a, step_b)
    made = [Plan(gpu, tile, m, n, k, layout) for tile in TILES]
    return sorted(made, key=lambda plan: plan.cost)


def fits(m: int, n: int, k: int, turn_a: bool, turn_b: bool, step_a: int, step_b: int) -> bool:
    """Whether the kernels can read such matrices; their addresses must be `aligned` too."""
    if not (m and n) or k < SHORTEST or step_a % 4 or step_b % 4:
        return False
    lines_a, lines_b = k if turn_a else m, n if turn_b else k
    # Positions past the last line are computed as well, though nothing is read there.
    most = max((lines_a + 256) * step_a, (lines_b + 256) * step_b)
    return most <= MOST and m <= GRID * 64


def aligned(*addresses: int) -> bool:
    """Whether these are multiples of 16 bytes; a bias need not be."""
    joined = 0
    for address in addresses:
        joined |= address
    return joined % 16 == 0
