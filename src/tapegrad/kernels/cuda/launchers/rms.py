"""Rms norm on the GPU (sources/rms.cu): one launch forward, two back if there is a weight,
whose gradient is added up over the rows."""

from __future__ import annotations

import math
from typing import Any

from ..cublas import NAMES
from .kernels import I32, NOTHING, SQUARE, Gpu, accumulator, real
from .launcher import Launcher
from .moves import MANY, U32, Plans, contiguous
from .rows import dense, pointer

Shape = tuple[int, ...]
THREADS = 512  # of a block, at most


def power_above(n: int) -> int:
    """The smallest power of two that is not below `n`."""
    return 1 << (n - 1).bit_length() if n > 1 else 1


def team(work: int, each: int = 8) -> tuple[int, int]:
    """A block whose rows are teams for so much work; if those are smaller than a warp, several."""
    threads = min(power_above(-(-work // each)), THREADS)
    return threads, max(1, 256 // threads) if threads <= 32 else 1


def is_aligned(*arrays: Any) -> bool:
    place = 0
    for x in arrays:
        place |= x.data.ptr
    return not place & 15


class Rms:
    """Kernels and plans of one array module."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.plans = Plans(self.plan)
        self.back_plans = Plans(self.plan_back)

    def kernel(self, name: str, dtype: Any, wide: int, held: int) -> Any:
        return self.gpu.kernel("rms.cu", NAMES[dtype], name, WIDE=wide, HELD=held)

    def block(self, n: int, dtype: Any, aligned: bool) -> Any:
        """A block, how many neighbours a thread moves, and how often; None for rows too long."""
        wide = 4 if aligned and n % 4 == 0 else 1
        block = team(-(-n // wide), 4 if wide == 4 else 8)
        held = power_above(-(-n // (wide * block[0])))
        if held * wide > (16 if dtype.itemsize == 8 or wide == 1 else 32):
            return None
        return block, wide, held

    def plan(self, shape: Shape, nd: int, dtype: Any, eps: float, aligned: bool) -> Any:
        """Kernel, grid, block, shape and dtype of what is kept, and numbers; None for the rest."""
        lead = shape[: len(shape) - nd]
        rows, n = math.prod(lead), math.prod(shape[len(lead) :])
        found = self.block(n, dtype, aligned) if 0 < rows * n < MANY else None
        if found is None:
            return None
        block, wide, held = found
        run = self.kernel("rms", dtype, wide, held)
        sizes = (real(dtype, eps), U32(rows), U32(n))
        kept = (*lead, *(1,) * nd)
        return run, (-(-rows // block[1]),), block, kept, accumulator(dtype), sizes

    def plan_back(self, shape: Shape, nd: int, dtype: Any, weighted: bool, aligned: bool) -> Any:
        """Kernel, grid, block, sizes, shape of the parts, and how those are added up."""
        inside = shape[len(shape) - nd :]
        n = math.prod(inside)
        rows = math.prod(shape[: len(shape) - nd])
        found = self.block(n, dtype, aligned) if 0 < rows * n < MANY else None
        if found is None:
            return None
        block, wide, held = found
        # Without a weight there is nothing to add up over rows.
        blocks = min(-(-rows // block[1]), self.gpu.blocks // 4 if weighted else rows)
        chunk = -(-rows // (blocks * block[1]))
        blocks = -(-rows // (chunk * block[1]))
        run = self.kernel("rms_back", dtype, wide, held)
        sizes = (U32(rows), U32(n), U32(chunk))
        end = None
        if weighted:
            add = self.gpu.kernel("sums.cu", NAMES[dtype], "columns_end")
            end = add, ((n + 31) // 32, 1), (NOTHING, real(dtype, 1), I32(blocks), I32(n))
        return run, (blocks,), block, sizes, (blocks, n), end, inside


def register(backend: Any, gpu: Gpu, reference: Any) -> None:
    norms = Rms(gpu)
    RmsNorm(backend, norms, reference).register(backend)
    RmsNormBackward(backend, norms, reference).register(backend)


class RmsLauncher(Launcher):
    """A launcher with the plans of rms norm."""

    def __init__(self, backend: Any, norms: Rms, reference: Any) -> None:
        super().__init__(reference)
        self.backend = backend
        self.norms = norms
        self.ndarray = norms.gpu.xp.ndarray


def is_usual(x: Any, weight: Any) -> bool:
    """Whether the kernels take an input and a weight (or None)."""
    if x.dtype not in NAMES:
        return False
    return weight is None or (weight.dtype == x.dtype and contiguous(weight))


def all_aligned(weight: Any, *arrays: Any) -> bool:
    return is_aligned(*arrays) if weight is None else is_aligned(weight, *arrays)


class RmsNorm(RmsLauncher):
    """The rows over the root of their mean square, and one over that root."""

    op = "fused_rms_norm"

    def fits(self, input: Any, weight: Any, nd: int, eps: float) -> bool:
        return is_usual(input, weight)

    def plan(self, input: Any, weight: Any, nd: int, eps: float) -> Any:
        x = dense(self.backend, input)
        plan = self.norms.plans.get((x.shape, nd, x.dtype, eps, all_aligned(weight, x)))
        return None if plan is None else (plan, x)

    def run(self, plan: Any, input: Any, weight: Any, nd: int, eps: float) -> Any:
        (run, grid, block, kept, wide, sizes), x = plan
        out, rstd = self.ndarray(x.shape, x.dtype), self.ndarray(kept, wide)
        run(grid, block, (x, pointer(weight), out, rstd, *sizes))
        return out, rstd


class RmsNormBackward(RmsLauncher):
    """The gradients of input and weight, the second empty where there is no weight."""

    op = "fused_rms_norm_backward"

    def fits(
        self, grad_output: Any, input: Any, rstd: Any, weight: Any, nd: int, eps: float
    ) -> bool:
        dtype = input.dtype
        if not is_usual(input, weight) or grad_output.dtype != dtype or not contiguous(rstd):
            return False
        return bool(rstd.dtype == accumulator(dtype))

    def plan(
        self, grad_output: Any, input: Any, rstd: Any, weight: Any, nd: int, eps: float
    ) -> Any:
        x, grad = dense(self.backend, input), dense(self.backend, grad_output)
        key = (x.shape, nd, x.dtype, weight is not None, all_aligned(weight, x, grad))
        plan = self.norms.back_plans.get(key)
        return None if plan is None else (plan, x, grad)

    def run(
        self,
        plan: Any,
        grad_output: Any,
        input: Any,
        rstd: Any,
        weight: Any,
        nd: int,
        eps: float,
    ) -> Any:
        (run, grid, block, sizes, parts_shape, end, inside), x, grad = plan
        ndarray, dtype = self.ndarray, x.dtype
        out = ndarray(x.shape, dtype)
        if end is None:
            run(grid, block, (grad, x, rstd, NOTHING, out, NOTHING, *sizes))
            return out, ndarray((0,), dtype)
        parts = ndarray(parts_shape, rstd.dtype)
        run(grid, block, (grad, x, rstd, weight, out, parts, *sizes))
        to_weight = ndarray(inside, dtype)
        add, end_grid, end_sizes = end
        add(end_grid, SQUARE, (parts, to_weight, *end_sizes))
        return out, to_weight
