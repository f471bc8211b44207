"""Batch, group and instance norm on the GPU (sources/norm_*.cu have the kernels).

One launch where a block can have all that is standardized together, else two: parts first. What a
launch needs besides its arrays is worked out once for arrays that lie alike.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ....core.devices import DEVICE
from ....core.strides import empty
from ..cublas import NAMES
from ..programs import compiled
from . import rms as cupy_rms
from .kernels import I32, NOTHING, Gpu, accumulator, real
from .moves import MANY, U32, Plans, contiguous, opaque
from .rms import is_aligned, team
from .rows import dense, pointer

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
    """How something is standardized, or its gradient found: `parts` first if there are any."""

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
        """The same of the columns of a matrix."""

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
        """`x` as `laid_out` has found another array of the same shape."""
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
    """The strides of an image whose channels (dimension 1) lie next to each other."""
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


def register(backend: Any, gpu: Gpu, reference: Any) -> None:
    norms = Norms(backend, gpu)
    register_batch(backend, norms, reference)
    register_group(backend, norms, reference)
    cupy_rms.register(backend, gpu, reference)


def register_batch(backend: Any, norms: Norms, reference: Any) -> None:
    ndarray = norms.gpu.xp.ndarray
    other, other_fixed = reference("native_batch_norm"), reference("native_batch_norm_fixed")
    other_pull = reference("native_batch_norm_backward")

    def standardized(input: Any, weight: Any, bias: Any, eps: float, running: Any) -> Any:
        """Result and statistics; None for what does not fit."""
        dtype = input.dtype
        parameter = parameter_dtype(input, weight, bias) if dtype in NAMES else None
        if parameter is None:
            return None
        x, last = norms.laid_out(input)
        dtypes = (dtype, parameter, accumulator(dtype))
        plan = norms.batch.get(("norm", x.shape, last, dtypes, eps, is_aligned(x)))
        if plan is None:
            return None
        shape = x.shape
        out, stats = norms.room(shape, dtype, plan.strides), ndarray((3, shape[1]), plan.wide)
        results = (out, stats, *plan.more)
        made = plan.standardize(ndarray, x, (pointer(weight), pointer(bias), *results), running)
        if norms.gpu.joins is not None:
            norms.gpu.joins.normalized(plan.apply, made, out, (x, stats))
        return out, stats

    @backend.override("native_batch_norm")
    def batch_norm(input: Any, weight: Any, bias: Any, eps: float, kept: Any) -> Any:
        found = standardized(input, weight, bias, eps, None)
        return other(input, weight, bias, eps, kept) if found is None else found

    @backend.override("batch_norm_step")
    def step(
        input: Any, weight: Any, bias: Any, running: tuple[Any, ...], eps: float, momentum: float
    ) -> Any:
        """The same, with running means and variances that follow, and a count of batches.

        None, and nothing is done, if they do not fit.
        """
        mean, var, count = running
        wide = accumulator(input.dtype)
        n = input.size // input.shape[1]
        if mean.dtype != wide or var.dtype != wide or count.dtype != np.int64 or n < 2:
            return None
        if not contiguous(mean) or not contiguous(var):
            return None
        numbers = real(wide, momentum), real(wide, n / (n - 1))
        return standardized(input, weight, bias, eps, (mean, var, count, *numbers))

    @backend.override("native_batch_norm_fixed")
    def fixed(input: Any, weight: Any, bias: Any, mean: Any, var: Any, eps: float) -> Any:
        dtype = input.dtype
        parameter = None
        if dtype in NAMES:
            parameter = parameter_dtype(input, weight, bias, mean, var)
        plan = None
        if parameter is not None:
            x, last = norms.laid_out(input)
            dtypes = (dtype, parameter, parameter)
            plan = norms.batch.get((FIXED, x.shape, last, dtypes, eps, is_aligned(x)))
        if plan is None:
            return other_fixed(input, weight, bias, mean, var, eps)
        out = norms.room(x.shape, dtype, plan.strides)
        apply = plan.apply
        arrays = (x, pointer(weight), pointer(bias), out, mean, var)
        args = (*arrays, plan.number, apply.sizes)
        apply.run(apply.grid, apply.block, args)
        if norms.gpu.joins is not None:
            norms.gpu.joins.normalized(apply, args, out)
        return out

    def pulled(
        grad: Any,
        x: Any,
        weight: Any,
        stats: Any,
        more: Any,
        number: float,
        training: bool,
        biased: bool,
    ) -> Any:
        """The gradients of input, weight (None without) and bias; None for what does not fit."""
        dtype = x.dtype
        if dtype not in NAMES or grad.dtype != dtype or stats.dtype not in NAMES:
            return None
        parameter = parameter_dtype(x, weight)
        if parameter is None or accumulator(stats.dtype) != accumulator(dtype):
            return None
        if not contiguous(stats) or (more is not None and more.dtype != stats.dtype):
            return None
        x, last = norms.laid_out(x)
        grad = norms.laid_like(grad, last)
        dtypes = (dtype, parameter, stats.dtype)
        shape = x.shape
        plan = norms.batch.get(("back", shape, last, dtypes, number, is_aligned(x, grad)))
        if plan is None:
            return None
        out = norms.room(shape, dtype, plan.strides)
        to_weight = None if weight is None else ndarray((shape[1],), parameter)
        to_bias = ndarray((shape[1],), parameter) if biased else None
        first, apply = plan.parts, plan.apply
        args: tuple[Any, ...] = (
            *(stats, pointer(more), plan.number, pointer(weight), out),
            *(pointer(to_weight), pointer(to_bias), I32(training), apply.sizes),
        )
        launches: list[tuple[Launch, tuple[Any, ...]]] = []
        if first is not None:
            parts: Any = NOTHING
            if training or biased or weight is not None:
                parts = ndarray(plan.parts_shape, plan.wide)
                launches.append((first, (x, stats, parts, first.sizes)))
            args = (parts, *args)
        launches.append((apply, (x, *args)))
        joins = norms.gpu.joins
        if joins is None or not joins.pulls(grad, (x, stats), launches):
            for launch, given in launches:
                launch.run(launch.grid, launch.block, (grad, *given))
        return out, to_weight, to_bias

    @backend.override("native_batch_norm_backward")
    def batch_norm_backward(
        grad_output: Any,
        input: Any,
        weight: Any,
        stats: Any,
        training: bool,
        eps: float,
        biased: bool,
    ) -> Any:
        found = pulled(grad_output, input, weight, stats, None, -1.0, training, biased)
        if found is None:
            return other_pull(grad_output, input, weight, stats, training, eps, biased)
        return with_placeholders(ndarray, found)

    def pull(node: Any, grad: Any, kept: Any) -> Any:
        """All gradients of `native_batch_norm` at once."""
        edges = node._edges
        if grad[0] is None or node.mixed:
            return None
        given = grad[0], kept.input, kept.weight, kept.stats
        found = pulled(*given, None, -1.0, True, edges[2] is not None)
        if found is None:
            return None
        grads = [None if edge is None else g for edge, g in zip(edges, found, strict=True)]
        if node._fixes is not None:
            grads = [node.finish(DEVICE.space, i, g) for i, g in enumerate(grads)]
        return grads

    backend.pulls["native_batch_norm"] = pull

    def fixed_pull(node: Any, grad: Any, kept: Any) -> Any:
        """By given statistics, without a launch for reciprocal deviations."""
        to_input, to_weight, to_bias = node._edges[:3]
        if kept.eps < 0 or not contiguous(kept.var):
            return None
        given = grad, kept.input, kept.weight, kept.mean, kept.var
        found = pulled(*given, kept.eps, False, to_bias is not None)
        if found is None:
            return None
        grads = [
            None if edge is None else g
            for edge, g in zip((to_input, to_weight, to_bias), found, strict=True)
        ]
        if grads[2] is not None and node._fixes is not None and node._fixes[2] is not None:
            if node._fixes[2][1] != grads[2].dtype:
                return None
        return [*grads, None, None]

    backend.pulls["native_batch_norm_fixed"] = fixed_pull

    @backend.override("follow_statistics")
    def follow(mean: Any, var: Any, stats: Any, momentum: float, unbiased: float) -> bool:
        """Move running statistics towards those of a batch, as `native_batch_norm` has them."""
        dtype, n = mean.dtype, mean.size
        wide = stats.dtype
        fits = dtype in NAMES and var.dtype == dtype and contiguous(mean) and contiguous(var)
        if not fits or wide != accumulator(dtype) or stats.size != 3 * n or not n:
            return False
        run = norms.kernel("follow", "follow", wide, dtype, wide)
        numbers = (real(wide, momentum), real(wide, unbiased), I32(n))
        run(norms.gpu.grid(n), (256,), (mean, var, stats, *numbers))
        return True


def with_placeholders(ndarray: Any, found: Any) -> Any:
    """Gradients, with empty arrays where nobody asks for one."""
    out, to_weight, to_bias = found
    if to_weight is None:
        to_weight = ndarray((0,), out.dtype)
    return out, to_weight, ndarray((0,), out.dtype) if to_bias is None else to_bias


def register_group(backend: Any, norms: Norms, reference: Any) -> None:
    ndarray = norms.gpu.xp.ndarray
    other, other_pull = reference("native_group_norm"), reference("native_group_norm_backward")

    @backend.override("native_group_norm")
    def group_norm(input: Any, weight: Any, bias: Any, groups: int, eps: float) -> Any:
        dtype = input.dtype
        parameter = parameter_dtype(input, weight, bias) if dtype in NAMES else None
        plan = None
        if parameter is not None:
            x = dense(backend, input)
            dtypes = (dtype, parameter, parameter)
            plan = norms.group.get(("norm", x.shape, groups, dtypes, eps, is_aligned(x)))
        if plan is None:
            return other(input, weight, bias, groups, eps)
        out = ndarray(x.shape, dtype)
        kept = (x.shape[0], groups)
        mean, rstd = ndarray(kept, parameter), ndarray(kept, parameter)
        plan.standardize(ndarray, x, (pointer(weight), pointer(bias), out, mean, rstd))
        return out, mean, rstd

    @backend.override("native_group_norm_backward")
    def group_norm_backward(
        grad_output: Any,
        input: Any,
        mean: Any,
        rstd: Any,
        weight: Any,
        groups: int,
        eps: float,
        biased: bool,
    ) -> Any:
        dtype = input.dtype
        fits = dtype in NAMES and grad_output.dtype == dtype and mean.dtype in NAMES
        fits = fits and rstd.dtype == mean.dtype and contiguous(mean) and contiguous(rstd)
        parameter = parameter_dtype(input, weight) if fits else None
        plan = None
        if parameter is not None and accumulator(mean.dtype) == accumulator(dtype):
            x, grad = dense(backend, input), dense(backend, grad_output)
            dtypes = (dtype, parameter, mean.dtype)
            shape, aligned = x.shape, is_aligned(x, grad)
            plain = weight is None and not biased
            if plain:
                plan = norms.group.get(("back", shape, groups, dtypes, -1.0, aligned))
            else:
                plan = norms.group_back.get((shape, groups, dtypes, aligned))
        if plan is None:
            return other_pull(grad_output, input, mean, rstd, weight, groups, eps, biased)
        out = ndarray(shape, dtype)
        to_weight = None if weight is None else ndarray((shape[1],), parameter)
        to_bias = ndarray((shape[1],), parameter) if biased else None
        first, apply = plan.parts, plan.apply
        args: tuple[Any, ...] = (mean, rstd)
        if first is not None:
            parts = ndarray(plan.parts_shape, plan.wide)
            first.run(first.grid, first.block, (grad, x, mean, parts, first.sizes))
            args = (parts, *args)
        if plain:
            args += (plan.number, NOTHING, out, NOTHING, NOTHING, I32(1))
        else:
            args += (pointer(weight), out, pointer(to_weight), pointer(to_bias))
            args += (U32(shape[0]), U32(plan.parts_shape[1]))
        apply.run(apply.grid, apply.block, (grad, x, *args, apply.sizes))
        return with_placeholders(ndarray, (out, to_weight, to_bias))
