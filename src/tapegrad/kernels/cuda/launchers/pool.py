"""Pooling on the GPU, one launch each; and windows as kernels take them (sources/windows.cu)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...geometry import disjoint, laid_out_like
from ..cublas import NAMES
from .kernels import BLOCK, I32, Gpu, real
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


def register(backend: Any, gpu: Gpu, reference: Any) -> None:
    def plan(x_shape: Ints, out: Ints, geometry: Any, dtype: Any) -> Pool | None:
        lead = len(x_shape) - len(out)
        counts = (math.prod(x_shape), math.prod((*x_shape[:lead], *out)))
        if dtype not in NAMES or min((*counts, *out)) <= 0 or max(counts) >= MANY:
            return None
        # Adaptive windows are found by products of sizes.
        most = max([(n + 1) * (o + 1) for n, o in zip(x_shape[lead:], out, strict=True)])
        if geometry is None and most >= MANY:
            return None
        return Pool(gpu, x_shape, out, geometry, dtype)

    pools = Plans(plan)
    register_max(backend, pools, reference)
    register_avg(backend, pools, reference)
    register_adaptive(backend, pools, reference)


def register_max(backend: Any, pools: Plans, reference: Any) -> None:
    xp = backend.xp

    def of(x_shape: Ints, dtype: Any, geometry: tuple[Ints, ...]) -> Pool | None:
        found: Pool | None = pools.get((x_shape, geometry[4], geometry[:4], dtype))
        return found

    other_indices = reference("max_pool_indices")

    @backend.override("max_pool_indices")
    def max_pool_indices(input: Any, *geometry: Any) -> Any:
        pool = of(input.shape, input.dtype, geometry)
        if pool is None:
            return other_indices(input, *geometry)
        return pool.maxima(dense(backend, input), False, True)[1]

    def values_only(other: Any) -> Any:
        def run(input: Any, *geometry: Any) -> Any:
            pool = of(input.shape, input.dtype, geometry)
            if pool is None:
                return other(input, *geometry)
            out = pool.maxima(dense(backend, input), True, False)[0]
            return laid_out_like(xp, input, out, len(geometry[0]))

        return run

    def both(other: Any) -> Any:
        def run(input: Any, *geometry: Any) -> Any:
            pool = of(input.shape, input.dtype, geometry)
            if pool is None:
                return other(input, *geometry)
            found = pool.maxima(dense(backend, input), True, True)
            n = len(geometry[0])
            return tuple([laid_out_like(xp, input, x, n) for x in found])

        return run

    def pull(node: Any, grad: Any, kept: Any) -> Any:
        """Every element collects from its windows; the rules do not tell which they are."""
        input = kept.input
        geometry = (kept.kernel, kept.stride, kept.padding, kept.dilation, kept.out_sizes)
        pool = of(input.shape, input.dtype, geometry)
        if pool is None or grad.dtype is not input.dtype:
            return None
        return [pool.pulled(dense(backend, grad), dense(backend, input))]

    def pull_both(node: Any, grad: Any, kept: Any) -> Any:
        indices = kept.indices
        geometry = (kept.kernel, kept.stride, kept.padding, kept.dilation, kept.out_sizes)
        to_values = grad[0]
        if to_values is None:
            return None
        pool = of(tuple(kept.input_shape), to_values.dtype, geometry)
        if pool is None:
            return None
        if not contiguous(indices):
            indices = backend.copied(indices)
        return [pool.back_to_maxima(dense(backend, to_values), indices)]

    for n in (2, 3):
        name = f"max_pool{n}d"
        backend.override(name)(values_only(reference(name)))
        backend.pulls[name] = pull
        name = f"max_pool{n}d_with_indices"
        backend.override(name)(both(reference(name)))
        backend.pulls[name] = pull_both


def register_avg(backend: Any, pools: Plans, reference: Any) -> None:
    xp = backend.xp

    def of(shape: Ints, out: Any, kernel: Any, stride: Any, padding: Any, dtype: Any) -> Any:
        return pools.get((shape, out, (kernel, stride, padding, (1,) * len(kernel)), dtype))

    def forward(other: Any) -> Any:
        def run(
            input: Any,
            kernel: Ints,
            stride: Ints,
            padding: Ints,
            out_sizes: Ints,
            count_padding: bool,
            override: int | None,
        ) -> Any:
            pool = of(input.shape, out_sizes, kernel, stride, padding, input.dtype)
            if pool is None:
                rest = (kernel, stride, padding, out_sizes, count_padding, override)
                return other(input, *rest)
            out = pool.means(dense(backend, input), count_padding, override)
            return laid_out_like(xp, input, out, 2)

        return run

    def backward(other: Any) -> Any:
        def run(
            grad: Any,
            sizes: Ints,
            kernel: Ints,
            stride: Ints,
            padding: Ints,
            out_sizes: Ints,
            count_padding: bool,
            override: int | None,
        ) -> Any:
            shape = (*grad.shape[: grad.ndim - len(sizes)], *sizes)
            pool = of(shape, out_sizes, kernel, stride, padding, grad.dtype)
            if pool is None:
                rest = (kernel, stride, padding, out_sizes, count_padding, override)
                return other(grad, sizes, *rest)
            return pool.back_from_means(dense(backend, grad), count_padding, override)

        return run

    for name in ("avg_pool2d", "avg_pool3d"):
        backend.override(name)(forward(reference(name)))
        back = f"{name}_backward"
        backend.override(back)(backward(reference(back)))


def register_adaptive(backend: Any, pools: Plans, reference: Any) -> None:
    xp = backend.xp

    def means(other: Any) -> Any:
        def run(input: Any, out_sizes: Ints) -> Any:
            pool = pools.get((input.shape, out_sizes, None, input.dtype))
            if pool is None:
                return other(input, out_sizes)
            out = pool.means(dense(backend, input), False, None)
            return laid_out_like(xp, input, out, 2)

        return run

    def means_back(other: Any) -> Any:
        def run(grad: Any, sizes: Ints) -> Any:
            pool = before(grad, sizes)
            if pool is None:
                return other(grad, sizes)
            return pool.back_from_means(dense(backend, grad), False, None)

        return run

    def maxima(other: Any) -> Any:
        def run(input: Any, out_sizes: Ints) -> Any:
            pool = pools.get((input.shape, out_sizes, None, input.dtype))
            if pool is None:
                return other(input, out_sizes)
            found = pool.maxima(dense(backend, input), True, True)
            return tuple([laid_out_like(xp, input, x, 2) for x in found])

        return run

    def maxima_back(other: Any) -> Any:
        def run(grad: Any, indices: Any, sizes: Ints) -> Any:
            pool = before(grad, sizes)
            if pool is None:
                return other(grad, indices, sizes)
            if not contiguous(indices):
                indices = backend.copied(indices)
            return pool.back_to_maxima(dense(backend, grad), indices)

        return run

    def before(grad: Any, sizes: Ints) -> Any:
        """The pooling that a gradient goes back through."""
        lead = grad.ndim - len(sizes)
        return pools.get(((*grad.shape[:lead], *sizes), grad.shape[lead:], None, grad.dtype))

    for n in (2, 3):
        for name, make in (
            (f"adaptive_avg_pool{n}d", means),
            (f"adaptive_avg_pool{n}d_backward", means_back),
            (f"adaptive_max_pool{n}d", maxima),
            (f"adaptive_max_pool{n}d_backward", maxima_back),
        ):
            backend.override(name)(make(reference(name)))
