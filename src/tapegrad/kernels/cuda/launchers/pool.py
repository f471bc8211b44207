"""Pooling on the GPU, one launch each; and windows as kernels take them (sources/windows.cu)."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ...geometry import disjoint, laid_out_like
from ..cublas import NAMES
from .kernels import BLOCK, I32, Gpu, real
from .launcher import Launcher
from .moves import MANY, U32, Plans, contiguous, opaque
from .rows import dense, pointer

Ints = tuple[int, ...]
SMALL = 16  # elements of a window whose maximum is found again for each of them
CUT = np.dtype([("by", np.uint32), ("times", np.uint32), ("shift", np.uint32)])
WINDOWS = np.dtype(
    [
        *[(name, CUT, (3,)) for name in ("out", "size", "stride")],
        *[(name, np.int32, (3,)) for name in ("kernel", "low", "dilation")],
    ]
)


def cut(by: int) -> Any:
    """A divisor of numbers below 2**31, as kernels take it."""
    return opaque(divisor(by))


def divisor(by: int) -> Any:
    shift = (by - 1).bit_length()
    times = ((1 << 32) * ((1 << shift) - by)) // by + 1
    return np.array((by, times, shift), CUT)


def windows(out: Ints, size: Ints, stride: Ints, kernel: Ints, low: Ints, dilation: Ints) -> Any:
    """The Windows of a kernel: of three dimensions, the first ones of size 1 if there are fewer."""
    table = np.zeros((), WINDOWS)
    more = 3 - len(size)
    for name, values in (("out", out), ("size", size), ("stride", stride)):
        for d, value in enumerate((*(1,) * more, *values)):
            table[name][d] = divisor(value)
    table["kernel"] = (*(1,) * more, *kernel)
    table["low"] = (*(0,) * more, *low)
    table["dilation"] = (*(1,) * more, *dilation)
    return opaque(table)


def compiled(gpu: Gpu, kind: str, name: str, source: str, **words: int) -> Any:
    """A kernel of convolutions or poolings, with the words that its file wants to be defined."""
    return gpu.kernel(f"{source}.cu", kind, name, **words)


class Pool:
    """The windows of a pooling, or those of an adaptive one if it has no kernel size."""

    def __init__(self, gpu: Gpu, x_shape: Ints, out: Ints, geometry: Any, dtype: Any) -> None:
        lead = len(x_shape) - len(out)
        size = x_shape[lead:]
        self.gpu = gpu
        self.kind = NAMES[dtype]
        self.dtype = dtype
        self.x_shape, self.y_shape = x_shape, (*x_shape[:lead], *out)
        self.count, self.made = math.prod(x_shape), math.prod(self.y_shape)
        self.adaptive = geometry is None
        ones, zeros = (1,) * len(out), (0,) * len(out)
        kernel, stride, low, dilation = geometry or (ones, ones, zeros, ones)
        self.windows = windows(out, size, stride, kernel, low, dilation)
        self.small = disjoint(kernel, stride, dilation) and math.prod(kernel) <= SMALL

    def run(self, name: str, count: int, args: tuple[Any, ...]) -> None:
        kernel = compiled(self.gpu, self.kind, name, "pools", ADAPTIVE=int(self.adaptive))
        kernel(self.gpu.grid(count), BLOCK, args)

    def maxima(self, x: Any, values: bool, indices: bool) -> tuple[Any, Any]:
        ndarray = self.gpu.xp.ndarray
        found = ndarray(self.y_shape, self.dtype) if values else None
        where = ndarray(self.y_shape, np.int64) if indices else None
        args = (x, pointer(found), pointer(where), U32(self.made), self.windows)
        self.run("max_pool", self.made, args)
        return found, where

    def back_to_maxima(self, grad: Any, indices: Any) -> Any:
        out = self.gpu.xp.ndarray(self.x_shape, self.dtype)
        args = (grad, indices, out, U32(self.count), self.windows)
        self.run("max_pool_back", self.count, args)
        return out

    def pulled(self, grad: Any, x: Any) -> Any:
        """The gradient of x: that of y, added at the maxima."""
        if not self.small:
            return self.back_to_maxima(grad, self.maxima(x, False, True)[1])
        out = self.gpu.xp.ndarray(self.x_shape, self.dtype)
        self.run("max_pool_pull", self.count, (grad, x, out, U32(self.count), self.windows))
        return out

    def means(self, x: Any, padded: bool, divisor: int | None) -> Any:
        out = self.gpu.xp.ndarray(self.y_shape, self.dtype)
        by = (I32(padded), real(self.dtype, divisor or 0))
        self.run("avg_pool", self.made, (x, out, U32(self.made), self.windows, *by))
        return out

    def back_from_means(self, grad: Any, padded: bool, divisor: int | None) -> Any:
        out = self.gpu.xp.ndarray(self.x_shape, self.dtype)
        by = (I32(padded), real(self.dtype, divisor or 0))
        self.run("avg_pool_back", self.count, (grad, out, U32(self.count), self.windows, *by))
        return out


def make_pool(gpu: Gpu, x_shape: Ints, out: Ints, geometry: Any, dtype: Any) -> Pool | None:
    """None if the kernels do not take these sizes or this dtype."""
    lead = len(x_shape) - len(out)
    counts = (math.prod(x_shape), math.prod((*x_shape[:lead], *out)))
    if dtype not in NAMES or min((*counts, *out)) <= 0 or max(counts) >= MANY:
        return None
    # Adaptive windows are found by products of sizes.
    most = max([(n + 1) * (o + 1) for n, o in zip(x_shape[lead:], out, strict=True)])
    if geometry is None and most >= MANY:
        return None
    return Pool(gpu, x_shape, out, geometry, dtype)


def register(backend: Any, gpu: Gpu, reference: Any) -> None:
    pools = Plans(functools.partial(make_pool, gpu))
    MaxIndices("max_pool_indices", backend, pools, reference).register(backend)
    for n in (2, 3):
        maxima = MaxValues(f"max_pool{n}d", backend, pools, reference)
        both = MaxBoth(f"max_pool{n}d_with_indices", backend, pools, reference)
        for launcher in (
            maxima,
            both,
            Means(f"avg_pool{n}d", backend, pools, reference),
            MeansBackward(f"avg_pool{n}d_backward", backend, pools, reference),
            AdaptiveMeans(f"adaptive_avg_pool{n}d", backend, pools, reference),
            AdaptiveMeansBackward(f"adaptive_avg_pool{n}d_backward", backend, pools, reference),
            AdaptiveMaxima(f"adaptive_max_pool{n}d", backend, pools, reference),
            AdaptiveMaximaBackward(f"adaptive_max_pool{n}d_backward", backend, pools, reference),
        ):
            launcher.register(backend)
        backend.pulls[maxima.op] = maxima.pull
        backend.pulls[both.op] = both.pull_both


class PoolLauncher(Launcher):
    """A launcher of poolings, for one number of dimensions. Its plan is a Pool."""

    def __init__(self, op: str, backend: Any, pools: Plans, reference: Any) -> None:
        self.op = op
        super().__init__(reference)
        self.backend = backend
        self.pools = pools

    def fits(self, *args: Any) -> bool:
        return True  # the plan looks at everything

    def dense(self, x: Any) -> Any:
        return dense(self.backend, x)

    def like(self, input: Any, out: Any, dims: int) -> Any:
        return laid_out_like(self.backend.xp, input, out, dims)


# ---------------------------------------------------------------------- maxima


class MaxIndices(PoolLauncher):
    """Where the maxima are."""

    def planned(self, shape: Ints, dtype: Any, geometry: tuple[Ints, ...]) -> Pool | None:
        found: Pool | None = self.pools.get((shape, geometry[4], geometry[:4], dtype))
        return found

    def plan(self, input: Any, *geometry: Any) -> Pool | None:
        return self.planned(input.shape, input.dtype, geometry)

    def run(self, plan: Pool, input: Any, *geometry: Any) -> Any:
        return plan.maxima(self.dense(input), False, True)[1]


class MaxValues(MaxIndices):
    """The maxima alone."""

    def run(self, plan: Pool, input: Any, *geometry: Any) -> Any:
        out = plan.maxima(self.dense(input), True, False)[0]
        return self.like(input, out, len(geometry[0]))

    def pull(self, node: Any, grad: Any, kept: Any) -> Any:
        """Every element collects from its windows; the rules do not tell which they are."""
        input = kept.input
        geometry = (kept.kernel, kept.stride, kept.padding, kept.dilation, kept.out_sizes)
        pool = self.planned(input.shape, input.dtype, geometry)
        if pool is None or grad.dtype is not input.dtype:
            return None
        return [pool.pulled(self.dense(grad), self.dense(input))]


class MaxBoth(MaxIndices):
    """The maxima, and where they are."""

    def run(self, plan: Pool, input: Any, *geometry: Any) -> Any:
        found = plan.maxima(self.dense(input), True, True)
        return tuple([self.like(input, x, len(geometry[0])) for x in found])

    def pull_both(self, node: Any, grad: Any, kept: Any) -> Any:
        indices = kept.indices
        to_values = grad[0]
        if to_values is None:
            return None
        geometry = (kept.kernel, kept.stride, kept.padding, kept.dilation, kept.out_sizes)
        pool = self.planned(tuple(kept.input_shape), to_values.dtype, geometry)
        if pool is None:
            return None
        if not contiguous(indices):
            indices = self.backend.copied(indices)
        return [pool.back_to_maxima(self.dense(to_values), indices)]


# ---------------------------------------------------------------------- means


class Means(PoolLauncher):
    """Arguments: input, kernel, stride, padding, out_sizes, count_padding, divisor."""

    def planned(self, shape: Ints, dtype: Any, geometry: tuple[Any, ...]) -> Pool | None:
        kernel, stride, padding, out_sizes = geometry[:4]
        found: Pool | None = self.pools.get(
            (shape, out_sizes, (kernel, stride, padding, (1,) * len(kernel)), dtype)
        )
        return found

    def plan(self, input: Any, *geometry: Any) -> Pool | None:
        return self.planned(input.shape, input.dtype, geometry)

    def run(self, plan: Pool, input: Any, *geometry: Any) -> Any:
        return self.like(input, plan.means(self.dense(input), *geometry[4:]), 2)


class MeansBackward(Means):
    """Arguments: gradient, sizes of the input, and those of Means."""

    def plan(self, grad: Any, sizes: Any, *geometry: Any) -> Pool | None:
        shape = (*grad.shape[: grad.ndim - len(sizes)], *sizes)
        return self.planned(shape, grad.dtype, geometry)

    def run(self, plan: Pool, grad: Any, sizes: Any, *geometry: Any) -> Any:
        return plan.back_from_means(self.dense(grad), *geometry[4:])


# ---------------------------------------------------------------------- adaptive


class AdaptiveMeans(PoolLauncher):
    def plan(self, input: Any, out_sizes: Ints) -> Any:
        return self.pools.get((input.shape, out_sizes, None, input.dtype))

    def run(self, plan: Pool, input: Any, out_sizes: Ints) -> Any:
        return self.like(input, plan.means(self.dense(input), False, None), 2)


class AdaptiveMaxima(AdaptiveMeans):
    """The maxima, and where they are."""

    def run(self, plan: Pool, input: Any, out_sizes: Ints) -> Any:
        found = plan.maxima(self.dense(input), True, True)
        return tuple([self.like(input, x, 2) for x in found])


class AdaptiveMeansBackward(PoolLauncher):
    def plan(self, grad: Any, sizes: Ints) -> Any:
        return self.pools.get(adaptive_key(grad, sizes))

    def run(self, plan: Pool, grad: Any, sizes: Ints) -> Any:
        return plan.back_from_means(self.dense(grad), False, None)


class AdaptiveMaximaBackward(PoolLauncher):
    def plan(self, grad: Any, indices: Any, sizes: Ints) -> Any:
        return self.pools.get(adaptive_key(grad, sizes))

    def run(self, plan: Pool, grad: Any, indices: Any, sizes: Ints) -> Any:
        if not contiguous(indices):
            indices = self.backend.copied(indices)
        return plan.back_to_maxima(self.dense(grad), indices)


def adaptive_key(grad: Any, sizes: Ints) -> tuple[Any, ...]:
    """The key of the pooling that a gradient goes back through to an input of these sizes."""
    lead = grad.ndim - len(sizes)
    return (*grad.shape[:lead], *sizes), grad.shape[lead:], None, grad.dtype
