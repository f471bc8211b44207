"""Convolutions of float32 in TF32 (sources/implicit.cu has the kernels): nothing is gathered
in memory."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from ..programs import compiled
from .conv_hopper import Geometry, WeightsPlan, WidePlan
from .kernels import I32, NOTHING, Gpu
from .moves import U32
from .pool import windows as windows_of
from .rms import is_aligned

F32 = np.dtype(np.float32)
THREADS = (256,)
DEPTH = 32  # of a piece, as in the source
TURNED = 4096  # elements that a block reorders
STAGES = 3
FEW_CHANNELS = 16  # below, most of a piece would be empty
SHARES = 64  # into which the images are split at the most, for the gradient of the weights
MOST_CHANNELS = 64  # that a block reorders
GRID = 65535  # blocks along y
ROUNDS = 3  # blocks for each multiprocessor


class Tile(NamedTuple):
    """The part of the result that one thread block computes; `taps` is for gradients of weights."""

    rows: int
    columns: int
    down: int  # warps among which the rows go
    taps: int = 1


FEW_ROWS, MANY_ROWS = Tile(64, 128, 2), Tile(128, 128, 2)


def widened(shape: Any) -> Any:
    """A shape whose last dimension is so long that channels begin at multiples of 16 bytes."""
    *lead, width = shape
    height = math.prod(lead[2:])
    while height * width % 4:
        width += 1
    return (*lead, width)


class Implicit:
    """The kernels for one geometry: y from x, x from y, and the weights' gradient."""

    def __init__(self, gpu: Gpu, x: Any, w: Any, y: Any, windows: Any, how: Any) -> None:
        self.gpu = gpu
        self.geometry = Geometry(x, w, y, *how)
        self.wide: dict[bool, WidePlan | None] = {}
        self.images, self.channels = x[:2]
        self.features = w[0]
        self.windows = windows
        self.taps, self.length, self.whole = (math.prod(v[2:]) for v in (w, y, x))
        self.shapes = x, w, y
        # With zeros at the ends of lines, which change nothing, Hopper's kernels do it.
        self.inner: Implicit | None = None
        shapes = widened(x), w, widened(y)
        if shapes != self.shapes and gpu.hopper.there and pays(self.geometry):
            table = windows_of(shapes[2][2:], shapes[0][2:], how[0], w[2:], how[1], how[2])
            self.inner = Implicit(gpu, *shapes, table, how)

    @staticmethod
    def takes(groups: int, x: Any, w: Any) -> bool:
        """Whether the kernels take a convolution: weights are read 16 bytes at a time."""
        enough = min(w[:2]) >= FEW_CHANNELS and not (w[0] % 4 or w[1] % 4)
        return groups == 1 and enough

    def kernel(self, name: str, tile: Tile, back: bool, full: bool) -> tuple[Any, int]:
        """A kernel and the shared memory that it needs."""
        key = ("implicit", name, tile, back, full)
        found = self.gpu.compiled.get(key)
        if found is None:
            given = {"BM": tile.rows, "BN": tile.columns, "DOWN": tile.down, "STAGES": STAGES}
            given |= {"AT_ONCE": tile.taps, "BACK": int(back), "FULL": int(full)}
            run = compiled(self.gpu.xp, "implicit.cu", "float32", name, given)
            wide = tile.columns
            second = wide * (DEPTH + 4) if name == "to_weights" else DEPTH * (wide + 8)
            shared = STAGES * (tile.rows * (DEPTH + 4) + second) * 4
            run.max_dynamic_shared_size_bytes = shared
            found = self.gpu.compiled[key] = (run, shared)
        return found  # type: ignore[no-any-return]

    def chunks(self, size: int) -> tuple[int, Any]:
        """How many channels a block reorders, and how many blocks there are."""
        # So few that there are blocks for all multiprocessors.
        few = self.features * self.channels // (self.gpu.blocks // 2) & -8
        few = max(8, min(few, MOST_CHANNELS))
        chunk = min(self.channels, few, TURNED // self.taps) if self.taps > 1 else 0
        grid = (self.features, -(-self.channels // max(chunk, 1)))
        return (chunk, grid) if chunk and grid[1] <= GRID else (0, self.gpu.grid(size))

    def by_taps(self, w: Any, back: bool) -> Any:
        """The weights as (rows, taps, channels)."""
        if self.taps == 1 and not back:
            return w
        out = self.gpu.xp.ndarray(w.shape, F32)
        run, _ = self.kernel("by_taps", FEW_ROWS, False, False)
        sizes = (I32(self.features), I32(self.channels), I32(self.taps), I32(back))
        run(self.gpu.grid(w.size), THREADS, (w, out, *sizes, U32(w.size)))
        return out

    def as_long(self, given: Any, shape: Any) -> Any:
        """An array with lines of another length: cut off, or with zeros at their ends."""
        if given.shape == shape:
            return given
        out = self.gpu.xp.ndarray(shape, F32)
        run, _ = self.kernel("as_long", FEW_ROWS, False, False)
        sizes = (U32(given.shape[-1]), U32(shape[-1]), U32(out.size))
        run(self.gpu.grid(out.size), THREADS, (given, out, *sizes))
        return out

    def wide_plan(self, back: bool) -> WidePlan | None:
        """A launch of the kernels for Hopper GPUs; None if there is none, or it would not pay."""
        if back in self.wide:
            return self.wide[back]
        hopper = self.gpu.hopper
        self.wide[back] = None
        if hopper.there and pays(self.geometry):
            plan = WidePlan(hopper, self.geometry, self.windows, back)
            self.wide[back] = None if plan.run is None else plan
        return self.wide[back]

    @functools.cached_property
    def wide_weights(self) -> WeightsPlan | None:
        hopper = self.gpu.hopper
        if not hopper.there or not pays(self.geometry):
            return None
        plan = WeightsPlan(hopper, self.geometry, self.windows)
        return None if plan.run is None else plan

    def made(self, given: Any, w: Any, bias: Any, back: bool) -> Any:
        """y from x, or x from y."""
        shape = self.shapes[0 if back else 2]
        if self.inner is not None and self.inner.wide_plan(back) is not None:
            given = self.as_long(given, self.inner.shapes[2 if back else 0])
            return self.as_long(self.inner.made(given, w, bias, back), shape)
        rows, channels = self.features, self.channels
        if back:
            rows, channels = channels, rows
        plan = self.wide_plan(back)
        if plan is not None and is_aligned(given):
            return plan.made(given, self.by_taps(w, back), bias, shape)
        tile = FEW_ROWS if rows <= 64 else MANY_ROWS
        full = rows % tile.rows == 0 and channels % DEPTH == 0
        run, shared = self.kernel("convolve", tile, back, full)
        columns = self.images * (self.whole if back else self.length)
        out = self.gpu.xp.ndarray(shape, F32)
        grid = (-(-columns // tile.columns), -(-rows // tile.rows))
        sizes = (self.windows, I32(rows), I32(channels), U32(columns))
        args = (given, self.by_taps(w, back), NOTHING if bias is None else bias, out, *sizes)
        run(grid, THREADS, args, shared_mem=shared)
        return out

    def to_weights(self, x: Any, y: Any) -> Any:
        size = math.prod(self.shapes[1])
        if self.inner is not None and self.inner.wide_weights is not None:
            shapes = self.inner.shapes
            return self.inner.to_weights(self.as_long(x, shapes[0]), self.as_long(y, shapes[2]))
        wide = self.wide_weights
        if wide is not None and is_aligned(x, y):
            return self.added(wide.made(x, y, size))
        rows = 64 if self.features <= 64 else 128
        tile = Tile(rows, 128, 2, 2 if self.channels <= 64 else 1)
        wide = tile.columns // tile.taps
        full = not (self.features % tile.rows or self.channels % wide or self.length % DEPTH)
        run, shared = self.kernel("to_weights", tile, False, full and is_aligned(y))
        across = -(-self.taps // tile.taps) * -(-self.channels // wide)
        down = -(-self.features // tile.rows)
        room = self.gpu.blocks // 16 * ROUNDS
        count = max(1, min(SHARES, self.images, room // (across * down)))
        share = -(-self.images // count)
        count = -(-self.images // share)
        parts = self.gpu.xp.ndarray((count, size), F32)
        sizes = (I32(self.features), I32(self.channels), I32(self.images), I32(share))
        args = (y, x, parts, self.windows, *sizes)
        run((across, down, count), THREADS, args, shared_mem=shared)
        return self.added(parts)

    def added(self, parts: Any) -> Any:
        """The sum of parts of the weights' gradient."""
        count, size = parts.shape
        out = self.gpu.xp.ndarray(self.shapes[1], F32)
        run, _ = self.kernel("weights_end", FEW_ROWS, False, False)
        chunk, grid = self.chunks(size)
        sizes = (count, self.taps, self.channels, chunk)
        run(grid, THREADS, (parts, out, *[I32(n) for n in sizes], U32(size)))
        return out


def pays(g: Geometry) -> bool:
    """Whether the kernels for Hopper GPUs are faster, as measured on an H200."""
    return g.taps > 1
