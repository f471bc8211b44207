"""Batch, group and instance norm on the GPU (sources/norm_*.cu have the kernels).

One launch where a block can have all that is standardized together, else two: parts first. What a
launch needs besides its arrays is worked out once per shapes and strides.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ....core.strides import empty
from ..cublas import NAMES
from ..programs import compiled
from .kernels import I32, NOTHING, Gpu, accumulator, real
from .moves import MANY, Plans, contiguous, opaque
from .rms import team
from .rows import dense

Shape = tuple[int, ...]
SETS = np.dtype(
    [
        ("sizes", np.uint32, (4,)),  # count, size, length, part
        ("channels", np.uint32, (4,)),  # groups, set_channels, piece_channels, per_statistic
        ("steps", np.int64, (2,)),  # set_step, piece_step
    ]
)
MATRIX = np.dtype([("rows", np.uint32), ("columns", np.uint32), ("part", np.uint32)])
OWNED = 16384  # elements that one block may have all of
TALL = 512  # rows that one block may have all of
PIECE = 4096  # elements that are worth a block
ACROSS = 32  # columns of a block
FIXED = "norm_fixed"  # has no sums to wait for: one launch of small parts


class Launch:
    """A kernel with its grid, block and last argument."""

    __slots__ = ("again", "block", "channels", "grid", "run", "sizes")

    def __init__(self, run: Any, grid: tuple[int, ...], block: tuple[int, int], sizes: Any) -> None:
        self.run = run
        self.grid = grid
        self.block = block
        self.sizes = sizes
        self.again: Any = None  # makes the kernel that does ops of join_sources.py too
        self.channels = 0


class Norm:
    """The plan of a norm or of its gradient: the launch `parts` first, if there is one."""

    __slots__ = ("apply", "idle", "more", "number", "parts", "parts_shape", "strides", "wide")

    def __init__(self, dtype: Any, number: float) -> None:
        self.parts: Launch | None = None
        self.parts_shape: Shape = ()
        self.apply: Any = None
        self.more: tuple[Any, ...] = ()  # an argument that only kernels of sets have
        self.number = real(dtype, number)  # eps, or -1 where it is of no use
        self.wide = accumulator(dtype)
        # In the place of running statistics, a count of batches, momentum and correction.
        self.idle = (NOTHING, NOTHING, NOTHING, real(dtype, 0), real(dtype, 0))
        self.strides: Shape | None = None  # of the result, if it is not contiguous

    def set_launches(
        self, kernels: Any, way: str, grid: Any, block: Any, table: Any, channels: int
    ) -> None:
        """One launch, or two for a grid with several parts; `kernels(name)` compiles."""

        def launch(name: str) -> Launch:
            made = Launch(kernels(name), grid, block, table)
            made.again, made.channels = functools.partial(kernels, name), channels
            return made

        name = way
        if way != FIXED:
            name = f"{way}_whole"
            if grid[1] > 1:
                self.parts = launch(f"{way}_parts")
                name = f"{way}_apply"
        self.apply = launch(name)

    def standardize(self, array: Any, x: Any, args: tuple[Any, ...], running: Any = None) -> Any:
        """Run `norm`: with parameters and results, and `array` to make arrays with.

        What the last kernel was started with is returned.
        """
        if running is None:
            running = self.idle
        first, apply = self.parts, self.apply
        if first is not None:
            parts = array(self.parts_shape, self.wide)
            first.run(first.grid, first.block, (x, parts, first.sizes))
            args = (parts, *args)
        args = (x, *args, self.number, *running, apply.sizes)
        apply.run(apply.grid, apply.block, args)
        return args


class Norms:
    """Kernels and plans of one array module."""

    def __init__(self, backend: Any, gpu: Gpu) -> None:
        self.backend = backend
        self.gpu = gpu
        self.processors = max(1, gpu.blocks // 16)
        self.compiled: dict[tuple[Any, ...], Any] = {}
        self.batch = Plans(self.plan_batch)
        self.group = Plans(self.plan_group)
        self.group_back = Plans(self.plan_group_back)

    def kernel(
        self,
        source: str,
        name: str,
        dtype: Any,
        parameter: Any,
        kept: Any,
        wide: int = 1,
        joined: str = "",
    ) -> Any:
        """A kernel of sources/norm_*.cu for dtypes of the input, of parameters and of statistics.

        `joined` is what it does besides, as join_sources.py says it.
        """
        key = (source, name, dtype, parameter, kept, wide, joined)
        found = self.compiled.get(key)
        if found is None:
            words = {"WIDE": wide, "P_DTYPE": NAMES[parameter], "S_DTYPE": NAMES[kept]}
            file, made = f"norm_{source}.cu", {"joined.cu": joined}
            found = compiled(self.gpu.xp, file, NAMES[dtype], name, words, made)
            self.compiled[key] = found
        return found

    def follow(self, mean: Any, var: Any, stats: Any, momentum: float, unbiased: float) -> bool:
        """Move running statistics towards those of a batch, as `native_batch_norm` has them.

        False, and nothing is done, if they do not fit.
        """
        dtype, n = mean.dtype, mean.size
        wide = stats.dtype
        fits = dtype in NAMES and var.dtype == dtype and contiguous(mean) and contiguous(var)
        if not fits or wide != accumulator(dtype) or stats.size != 3 * n or not n:
            return False
        run = self.kernel("follow", "follow", wide, dtype, wide)
        numbers = (real(wide, momentum), real(wide, unbiased), I32(n))
        run(self.gpu.grid(n), (256,), (mean, var, stats, *numbers))
        return True

    # ------------------------------------------------------------------ sets and matrices

    def plan_sets(
        self, way: str, dtypes: Any, number: float, sizes: Any, channels: Any, steps: Any, wide: int
    ) -> Norm:
        """`norm`, `back` or FIXED of sets, as sources/norm_sets.cu describes them."""

        def kernels(name: str, joined: str = "") -> Any:
            return self.kernel("sets", name, *dtypes, wide, joined)

        plan = Norm(dtypes[0], number)
        plan.more = (NOTHING,)
        count, size, _ = sizes
        parts = 1
        if way == FIXED:
            parts = min(-(-size // PIECE), 1024)
        elif size > OWNED and 2 * count < 3 * self.processors:
            parts = min(-(-4 * self.processors // count), -(-size // PIECE))
        part = -(-size // (parts * wide)) * wide
        parts = -(-size // part)
        table = np.zeros((), SETS)
        table["sizes"] = (*sizes, part)
        table["channels"], table["steps"] = channels, steps
        block = team(part // wide) if way == FIXED or parts == 1 else (256, 1)
        grid = (-(-count // block[1]), parts)
        plan.set_launches(kernels, way, grid, block, opaque(table), count)
        plan.parts_shape = (count, parts, 2)
        return plan

    def plan_matrix(
        self, way: str, dtypes: Any, number: float, rows: int, n: int, wide: int
    ) -> Norm:
        """`plan_sets` for the columns of a matrix (channels-last images)."""

        def kernels(name: str, joined: str = "") -> Any:
            return self.kernel("columns", name, *dtypes, wide, joined)

        plan = Norm(dtypes[0], number)
        across = -(-n // ACROSS)
        parts = 1
        if way == FIXED:
            parts = min(-(-rows // 64), 1024)
        elif rows > TALL:
            parts = min(-(-4 * self.processors // across), -(-rows // 128), 256)
        part = -(-rows // parts)
        parts = -(-rows // part)
        table = np.zeros((), MATRIX)
        table["rows"], table["columns"], table["part"] = rows, n, part
        block = (8, 32) if wide == 4 else (32, 16)
        plan.set_launches(kernels, way, (across, parts), block, opaque(table), n)
        plan.parts_shape = (parts, 2, n)
        return plan

    # ------------------------------------------------------------------ batch norm

    def plan_batch(
        self, way: str, shape: Shape, last: bool, dtypes: Any, number: float, aligned: bool
    ) -> Norm | None:
        """For an array that is contiguous or has channels last."""
        samples, channels = shape[:2]
        length = math.prod(shape[2:])
        if not 0 < samples * channels * length < MANY:
            return None
        if last or length == 1:
            wide = 4 if aligned and channels % 4 == 0 else 1
            plan = self.plan_matrix(way, dtypes, number, samples * length, channels, wide)
            plan.strides = channels_last(shape, dtypes[0].itemsize) if last else None
            return plan
        wide = 4 if aligned and length % 4 == 0 else 1
        sizes = (channels, samples * length, length)
        steps = (length, channels * length)
        return self.plan_sets(way, dtypes, number, sizes, (channels, 1, 0, 1), steps, wide)

    def laid_out(self, x: Any) -> tuple[Any, bool]:
        """An array that is contiguous or has channels last, and which of the two."""
        if contiguous(x):
            return x, False
        if has_channels_last(x):
            return x, True
        return self.backend.copied(x), False

    def laid_like(self, x: Any, last: bool) -> Any:
        """`x` in the memory order that `laid_out` chose for another array of its shape."""
        if not last:
            return dense(self.backend, x)
        if has_channels_last(x):
            return x
        return self.backend.copied(x.transpose(0, *range(2, x.ndim), 1))

    def room(self, shape: Shape, dtype: Any, strides: Any) -> Any:
        if strides is None:
            return self.gpu.xp.ndarray(shape, dtype)
        return empty(self.gpu.xp, shape, strides, dtype)

    # ------------------------------------------------------------------ group norm

    def plan_group(
        self, way: str, shape: Shape, groups: int, dtypes: Any, number: float, aligned: bool
    ) -> Norm | None:
        samples, channels = shape[:2]
        length = math.prod(shape[2:])
        if not 0 < samples * channels * length < MANY:
            return None
        own = channels // groups
        wide = 4 if aligned and length % 4 == 0 else 1
        sizes = (samples * groups, own * length, length)
        steps = (own * length, length)
        return self.plan_sets(way, dtypes, number, sizes, (groups, own, 1, 1), steps, wide)

    def plan_group_back(self, shape: Shape, groups: int, dtypes: Any, aligned: bool) -> Norm | None:
        """With weight or bias: sums over the channels of every sample, and then the rest."""
        samples, channels = shape[:2]
        length = math.prod(shape[2:])
        if not 0 < samples * channels * length < MANY:
            return None
        own, size = channels // groups, channels // groups * length
        rows, sets = samples * channels, samples * groups
        wide = 4 if aligned and length % 4 == 0 else 1
        plan = Norm(dtypes[0], -1)

        def launch(name: str, sizes: Any, table: Any, most: int, extra: int) -> Launch:
            filled = np.zeros((), SETS)
            filled["channels"], filled["steps"] = table
            count, size, _ = sizes
            parts = max(1, min(-(-4 * self.processors // count), most))
            part = -(-size // (parts * wide)) * wide
            parts = -(-size // part)
            filled["sizes"] = (*sizes, part)
            block = team(part // wide)
            if extra or parts > 1:
                block = (max(block[0], 32), 1)
            run = self.kernel("sets", name, *dtypes, wide)
            return Launch(run, (-(-count // block[1]) + extra, parts), block, opaque(filled))

        plan.parts = launch(
            "back_parts",
            (rows, length, length),
            ((rows, 1, 0, own), (length, 0)),
            -(-length // PIECE),
            0,
        )
        plan.parts_shape = (rows, plan.parts.grid[1], 2)
        plan.apply = launch(
            "group_back",
            (sets, size, length),
            ((groups, own, 1, 1), (size, length)),
            -(-size // PIECE),
            channels,
        )
        return plan


def channels_last(shape: Shape, item: int) -> Shape:
    """The strides of a channels-last image."""
    strides = [item] * len(shape)
    for d in (1, *range(len(shape) - 1, 1, -1), 0):
        strides[d] = item
        item *= shape[d]
    return tuple(strides)


def has_channels_last(x: Any) -> bool:
    shape, strides = x.shape, x.strides
    if len(shape) not in (4, 5):
        return False
    wanted = channels_last(shape, x.dtype.itemsize)
    if strides == wanted:
        return True
    pairs = zip(shape, strides, wanted, strict=True)
    return all([size == 1 or stride == other for size, stride, other in pairs])


def parameter_dtype(x: Any, *parameters: Any) -> Any:
    """The one dtype of contiguous parameters (of `x`, if there are none); None if they do not fit.

    It is the input's own, or single precision beside half.
    """
    found = None
    for p in parameters:
        if p is not None:
            if found is not None and p.dtype != found or not contiguous(p):
                return None
            found = p.dtype
    dtype = x.dtype
    if found is None or found == dtype:
        return dtype
    return found if dtype.itemsize == 2 and found == accumulator(dtype) else None
