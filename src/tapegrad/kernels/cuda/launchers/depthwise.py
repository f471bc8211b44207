"""Convolutions with one channel to a group, tile by tile (sources/depthwise.cu)."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..cublas import NAMES
from .kernels import Gpu, accumulator
from .moves import U32, opaque
from .pool import CUT, compiled, cut, divisor
from .rows import pointer

Ints = tuple[int, ...]
TILES = np.dtype(
    [
        *[(name, CUT) for name in ("width", "groups", "met_across", "met_down", "across")],
        ("planes", np.uint32),
        ("tiles", np.uint32),
    ]
)
THREADS = 256
MOST_TAPS = 49
MOST_STRIDE = 4
MOST_SHARED = 44 << 10  # bytes: what every block may have, besides some for sums
MOST_PLANES = 16  # of a block
GRID = 65535  # blocks along y
BLOCKS = 8  # for each multiprocessor, where weights' gradients are shared out


class Tiling(NamedTuple):
    """How the places of planes are divided into tiles."""

    table: Any
    planes: int  # that a block has
    tiles: int  # of a plane
    shared: int  # elements that the tiles of a block read


def tiling(
    count: int, size: Ints, steps: Ints, more: Ints, down: int, taps: int, most: int
) -> Tiling | None:
    """For `count` planes of a size: n places read `step` * (n - 1) + `more` others each way.

    None if that and the taps are more than `most` elements.
    """
    (step_y, step_x), (more_y, more_x) = steps, more
    height, width = size
    for wide in (64, 32, 16):
        across = -(-width // wide)
        wide = -(-width // across)
        groups = max(1, min(-(-height // down), THREADS // wide))
        below = -(-height // (groups * down))
        planes = 1
        if across * below == 1:
            planes = max(1, min(count, THREADS // (groups * wide), MOST_PLANES))
        met_across = (wide - 1) * step_x + more_x
        met_down = (groups * down - 1) * step_y + more_y
        shared = planes * met_across * met_down
        if shared + planes * taps <= most and across * below <= GRID:
            break
    else:
        return None
    table = np.zeros((), TILES)
    for name, value in (
        *(("width", wide), ("groups", groups), ("across", across)),
        *(("met_across", met_across), ("met_down", met_down)),
    ):
        table[name] = divisor(value)
    table["planes"], table["tiles"] = planes, across * below
    return Tiling(opaque(table), planes, across * below, shared)


class Depthwise:
    """The kernels for one geometry: y from x, x from y, and the weights' gradient."""

    def __init__(
        self, gpu: Gpu, x: Ints, w: Ints, y: Ints, windows: Any, how: Any, dtype: Any
    ) -> None:
        more = 4 - len(x)
        self.gpu = gpu
        self.dtype = dtype
        self.wide = accumulator(dtype)
        self.shapes = x, w, y
        self.images, self.channels = x[:2]
        self.features = w[0]
        self.windows = windows
        size, kernel, out = [(*(1,) * more, *v[2:]) for v in (x, w, y)]
        self.kernel = kernel
        self.stride = (*(1,) * more, *how[0])
        low = (*(0,) * more, *how[1])
        self.down = 1 if size[0] == 1 else 2 if self.stride[0] > 1 else 4
        self.taps = math.prod(kernel)
        limits = self.down, self.taps, MOST_SHARED // self.wide.itemsize
        self.forth = tiling(self.images * self.features, out, self.stride, kernel, *limits)
        self.weights = tiling(self.images, out, self.stride, kernel, *limits)
        # Each window has a place of x for every step of its stride.
        ways = list(zip(size, kernel, low, self.stride, strict=True))
        reach = tuple([(n - 1 + before) // s - before // s + 1 for n, _, before, s in ways])
        behind = tuple([(k - 1) // s + 1 for _, k, _, s in ways])
        self.back = tiling(self.images * self.channels, reach, (1, 1), behind, *limits)

    @staticmethod
    def takes(x: Ints, w: Ints, how: Any) -> bool:
        stride, _, dilation = how[:3]
        still = all([k == 1 or step == 1 for k, step in zip(w[2:], dilation, strict=True)])
        small = math.prod(w[2:]) <= MOST_TAPS and max(stride) <= MOST_STRIDE
        return len(x) <= 4 and still and small

    def run(self, name: str, grid: Ints, tiles: Tiling, args: tuple[Any, ...]) -> None:
        words = ("KY", "KX", "SY", "SX", "DOWN")
        given = zip(words, (*self.kernel, *self.stride, self.down), strict=True)
        kernel = compiled(self.gpu, NAMES[self.dtype], name, "depthwise", **dict(given))
        taps = 0 if name == "depthwise_weight" else tiles.planes * self.taps
        kernel(grid, (THREADS,), args, shared_mem=(tiles.shared + taps) * self.wide.itemsize)

    def y_of(self, x: Any, w: Any, bias: Any) -> Any:
        tiles = self.forth
        if tiles is None:
            return None
        y = self.gpu.xp.ndarray(self.shapes[2], self.dtype)
        count = self.images * self.features
        by = cut(self.features), cut(self.features // self.channels)
        args = (x, w, pointer(bias), y, U32(count), self.windows, tiles.table, *by)
        self.run("depthwise", (-(-count // tiles.planes), tiles.tiles), tiles, args)
        return y

    def x_of(self, y: Any, w: Any, bias: Any) -> Any:
        tiles = self.back
        if tiles is None:
            return None
        x = self.gpu.xp.ndarray(self.shapes[0], self.dtype)
        count = self.images * self.channels
        by = cut(self.channels), U32(self.features // self.channels)
        args = (y, w, pointer(bias), x, U32(count), self.windows, tiles.table, *by)
        self.run("depthwise_back", (-(-count // tiles.planes), tiles.tiles), tiles, args)
        return x

    def parts_of_w(self, x: Any, y: Any) -> Any:
        """Parts of the weights' gradient, which are to be added up."""
        tiles = self.weights
        if tiles is None:
            return None
        runs = -(-self.images // tiles.planes) * tiles.tiles
        processors = max(1, self.gpu.blocks // 16)
        shares = max(1, min(runs, BLOCKS * processors // self.features, GRID))
        share = -(-runs // shares)
        shares = -(-runs // share)
        parts = self.gpu.xp.ndarray((shares, self.features * self.taps), self.wide)
        sizes = (U32(self.images), U32(share), self.windows, tiles.table)
        args = (x, y, parts, *sizes, cut(self.features // self.channels))
        self.run("depthwise_weight", (self.features, shares), tiles, args)
        return parts
