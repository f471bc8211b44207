"""Kernels of the GPU that go row by row: layer norm, softmax, losses of classes, embeddings."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import cublaslt
from ..cublas import NAMES
from .kernels import (
    I32,
    I64,
    NOTHING,
    SQUARE,
    WARPS,
    Gpu,
    accumulator,
    contiguous_floats,
    is_float,
    real,
)
from .launcher import Launcher
from .moves import Plans, contiguous

TARGETS = 1 << 14  # above, they are counted before, not by every block
NO_TARGET = -(1 << 62)  # an index that no target has


def register(backend: Any, gpu: Gpu, reference: Any) -> None:
    back = LayerNormBackward(backend, gpu, reference)
    backend.pulls["native_layer_norm"] = back.pull
    for launcher in (
        LayerNorm(backend, gpu, reference),
        back,
        Softmax(backend, gpu, reference),
        LogSoftmax(backend, gpu, reference),
        SoftmaxBackward(backend, gpu, reference),
        LogSoftmaxBackward(backend, gpu, reference),
        NllLoss(backend, gpu, reference),
        NllLossBackward(backend, gpu, reference),
        Embedding(backend, gpu, reference),
        EmbeddingBackward(backend, gpu, reference),
    ):
        launcher.register(backend)


class RowLauncher(Launcher):
    """A launcher of kernels that go row by row."""

    def __init__(self, backend: Any, gpu: Gpu, reference: Any) -> None:
        super().__init__(reference)
        self.backend = backend
        self.gpu = gpu
        self.ndarray = gpu.xp.ndarray


def dense(backend: Any, x: Any) -> Any:
    """A contiguous float array: gradients may have any strides."""
    return x if contiguous(x) or x.dtype not in NAMES else backend.copied(x)


def pointer(x: Any) -> Any:
    return NOTHING if x is None else x


# ---------------------------------------------------------------------- layer norm


def like_input(x: Any, *parameters: Any) -> bool:
    """Whether the kernels take an input with these parameters, each of which may be None."""
    for p in parameters:
        if p is not None and (p.dtype is not x.dtype or not contiguous(p)):
            return False
    return bool(x.dtype in NAMES and x.size)


class LayerNorm(RowLauncher):
    """Standardizes rows; the statistics of each are a result too."""

    op = "native_layer_norm"

    def __init__(self, backend: Any, gpu: Gpu, reference: Any) -> None:
        super().__init__(backend, gpu, reference)
        self.plans = Plans(self.plan_of)

    def plan_of(self, shape: tuple[int, ...], nd: int, dtype: Any, eps: float) -> Any:
        """Kernel, grid, shape and dtype of the statistics, and sizes."""
        lead = shape[: len(shape) - nd]
        rows, n = math.prod(lead), math.prod(shape[len(lead) :])
        run = self.gpu.kernel("rows.cu", NAMES[dtype], "layer_norm")
        stats = (2, *lead, *(1,) * nd), accumulator(dtype)
        return run, ((rows + 7) // 8,), *stats, (real(dtype, eps), I64(rows), I32(n))

    def fits(self, input: Any, weight: Any, bias: Any, nd: int, eps: float) -> bool:
        return like_input(input, weight, bias)

    def plan(self, input: Any, weight: Any, bias: Any, nd: int, eps: float) -> Any:
        return self.plans.get((input.shape, nd, input.dtype, eps))

    def run(self, plan: Any, input: Any, weight: Any, bias: Any, nd: int, eps: float) -> Any:
        run, grid, stats_shape, wide, sizes = plan
        x = dense(self.backend, input)
        out, stats = self.ndarray(x.shape, x.dtype), self.ndarray(stats_shape, wide)
        run(grid, WARPS, (x, pointer(weight), pointer(bias), out, stats, *sizes))
        return out, stats


class LayerNormBackward(RowLauncher):
    """The gradients of input, weight and bias, with empty arrays where nobody asks for one."""

    op = "native_layer_norm_backward"

    def __init__(self, backend: Any, gpu: Gpu, reference: Any) -> None:
        super().__init__(backend, gpu, reference)
        self.plans = Plans(self.plan_of)

    def plan_of(self, shape: tuple[int, ...], nd: int, dtype: Any, columns: bool) -> Any:
        """Kernels, grids, sizes, and the shapes of the parts of the sums and of the sums."""
        inside = shape[len(shape) - nd :]
        n = math.prod(inside)
        rows = math.prod(shape) // n
        chunk = max(8, -(-rows // 512))
        count = -(-rows // chunk)
        kernel = self.gpu.kernel
        run = kernel("rows.cu", NAMES[dtype], "layer_norm_back")
        end = kernel("sums.cu", NAMES[dtype], "columns_end") if columns else None
        first = (count,), (I64(rows), I32(n), I32(chunk))
        second = ((n + 31) // 32, 2), (real(dtype, 1), I32(count), I32(n))
        return run, end, first, second, (2, count, n), inside

    def fits(
        self, grad: Any, input: Any, stats: Any, weight: Any, nd: int, eps: float, biased: bool
    ) -> bool:
        dtype = input.dtype
        if grad.dtype is not dtype or not like_input(input, weight):
            return False
        return bool(stats.dtype == accumulator(dtype))

    def plan(
        self, grad: Any, input: Any, stats: Any, weight: Any, nd: int, eps: float, biased: bool
    ) -> Any:
        columns = biased or weight is not None
        return self.plans.get((input.shape, nd, input.dtype, columns))

    def run(
        self,
        plan: Any,
        grad: Any,
        input: Any,
        stats: Any,
        weight: Any,
        nd: int,
        eps: float,
        biased: bool,
    ) -> Any:
        run, end, first, second, parts_shape, inside = plan
        ndarray, shape, dtype = self.ndarray, input.shape, input.dtype
        input, grad = dense(self.backend, input), dense(self.backend, grad)
        out = ndarray(shape, dtype)
        parts = NOTHING if end is None else ndarray(parts_shape, stats.dtype)
        args = (grad, input, stats, pointer(weight), out, parts)
        run(first[0], WARPS, (*args, *first[1]))
        to_bias = ndarray(inside, dtype) if biased else None
        to_weight = None if weight is None else ndarray(inside, dtype)
        if end is not None:
            end(second[0], SQUARE, (parts, pointer(to_bias), pointer(to_weight), *second[1]))
        if to_bias is None:
            to_bias = ndarray((0,), dtype)
        return out, ndarray((0,), dtype) if to_weight is None else to_weight, to_bias

    def pull(self, node: Any, grad: Any, kept: Any) -> Any:
        """All gradients of `native_layer_norm` at once."""
        edges = node._edges
        if grad[0] is None or node._fixes is not None:
            return None
        saved = kept.input, kept.stats, kept.weight
        found = self(grad[0], *saved, kept.nd, kept.eps, edges[2] is not None)
        return [None if e is None else g for e, g in zip(edges, found, strict=True)]


# ---------------------------------------------------------------------- softmax


class Softmax(RowLauncher):
    """Along the last dimension."""

    op = "softmax"
    logs = 0

    def fits(self, input: Any, dim: int) -> bool:
        return bool(input.size and dim == input.ndim - 1)

    def plan(self, input: Any, dim: int) -> Any:
        x = dense(self.backend, input)
        return x if contiguous_floats(x) else None

    def run(self, plan: Any, input: Any, dim: int) -> Any:
        x, gpu = plan, self.gpu
        out = gpu.empty(x.shape, x.dtype)
        n = x.shape[-1]
        rows = x.size // n
        gpu.rows("softmax", NAMES[x.dtype], rows, (x, out, I32(self.logs), I64(rows), I32(n)))
        return out


class LogSoftmax(Softmax):
    op = "log_softmax"
    logs = 1


class SoftmaxBackward(RowLauncher):
    """The gradient of the input along the last dimension."""

    op = "softmax_backward_data"
    logs = 0

    def fits(self, input: Any, output: Any, dim: int) -> bool:
        return bool(input.size and dim == input.ndim - 1)

    def plan(self, input: Any, output: Any, dim: int) -> Any:
        x, y = dense(self.backend, input), dense(self.backend, output)
        return (x, y) if contiguous_floats(x, y) else None

    def run(self, plan: Any, input: Any, output: Any, dim: int) -> Any:
        (x, y), gpu = plan, self.gpu
        out = gpu.empty(x.shape, x.dtype)
        n = x.shape[-1]
        rows = x.size // n
        args = (x, y, out, I32(self.logs), I64(rows), I32(n))
        gpu.rows("softmax_back", NAMES[x.dtype], rows, args)
        return out


class LogSoftmaxBackward(SoftmaxBackward):
    op = "log_softmax_backward_data"
    logs = 1


# ---------------------------------------------------------------------- losses


def are_classes(x: Any, target: Any, weight: Any, shape: Any) -> bool:
    """Whether the kernels take a matrix of classes, one target a row, and weights (or None)."""
    if weight is not None and (weight.dtype is not x.dtype or not contiguous(weight)):
        return False
    return bool(
        len(shape) == 2
        and target.ndim == 1
        and target.dtype == np.int64
        and contiguous(target)
        and is_float(x)
        and contiguous(x)
        and target.size
    )


def skipped(ignore_index: Any) -> Any:
    """The target that is left out, as the kernels take it."""
    return I64(NO_TARGET if ignore_index is None else ignore_index)


class NllLoss(RowLauncher):
    """Sum or mean of the losses, which one block adds up."""

    op = "nll_loss"

    def fits(self, input: Any, target: Any, weight: Any, reduction: str, ignore_index: Any) -> bool:
        return reduction != "none" and are_classes(input, target, weight, input.shape)

    def plan(self, input: Any, target: Any, weight: Any, reduction: str, ignore_index: Any) -> Any:
        return self.gpu.kernel("rows.cu", NAMES[input.dtype], "chosen")

    def run(
        self, plan: Any, input: Any, target: Any, weight: Any, reduction: str, ignore_index: Any
    ) -> Any:
        rows, n = input.shape
        out = self.gpu.empty((), input.dtype)
        sizes = (I32(reduction == "mean"), skipped(ignore_index), I64(rows), I32(n))
        plan((1,), (1024,), (input, target, pointer(weight), out, NOTHING, *sizes))
        return out


class NllLossBackward(RowLauncher):
    """The gradient of the input."""

    op = "nll_loss_backward"

    def fits(
        self, grad: Any, target: Any, weight: Any, shape: Any, reduction: str, ignore_index: Any
    ) -> bool:
        return are_classes(grad, target, weight, shape)

    def plan(
        self, grad: Any, target: Any, weight: Any, shape: Any, reduction: str, ignore_index: Any
    ) -> Any:
        """The kernel, and the one that counts targets before it, where those are many."""
        kind = NAMES[grad.dtype]
        kernel = self.gpu.kernel
        many = reduction == "mean" and shape[0] > TARGETS
        count = kernel("rows.cu", kind, "chosen") if many else None
        return kernel("rows.cu", kind, "chosen_back"), count

    def run(
        self,
        plan: Any,
        grad: Any,
        target: Any,
        weight: Any,
        shape: Any,
        reduction: str,
        ignore_index: Any,
    ) -> Any:
        run, counts = plan
        gpu, (rows, n) = self.gpu, shape
        sizes = (skipped(ignore_index), I64(rows), I32(n))
        count: Any = NOTHING
        if counts is not None:
            count = gpu.empty((), accumulator(grad.dtype))
            given = (NOTHING, target, pointer(weight), NOTHING, count, I32(1), *sizes)
            counts((1,), (1024,), given)
        out = gpu.empty(tuple(shape), grad.dtype)
        kinds = (I32(reduction == "mean"), I32(reduction == "none"))
        args = (grad, target, pointer(weight), count, out, *kinds, *sizes)
        run(gpu.grid(rows * n), (256,), args)
        return out


# ---------------------------------------------------------------------- embedding


def are_rows(x: Any, indices: Any) -> bool:
    """Whether the kernels take rows of floats and the indices of some of them."""
    return bool(
        is_float(x)
        and contiguous(x)
        and indices.dtype == np.int64
        and contiguous(indices)
        and indices.size
        and x.size
    )


class Embedding(RowLauncher):
    """The rows of a weight that the indices name."""

    op = "embedding"

    def fits(self, weight: Any, indices: Any, *rest: Any) -> bool:
        return are_rows(weight, indices)

    def plan(self, weight: Any, indices: Any, *rest: Any) -> Any:
        return self.gpu.kernel("gather.cu", NAMES[weight.dtype], "take_rows")

    def run(self, plan: Any, weight: Any, indices: Any, *rest: Any) -> Any:
        rows, n = weight.shape
        out = self.gpu.empty((*indices.shape, n), weight.dtype)
        args = (weight, indices, out, I64(indices.size), I32(n), I64(rows))
        plan(self.gpu.grid(out.size), (256,), args)
        return out


class EmbeddingBackward(RowLauncher):
    """Gradients of rows, added up by the row that each index names."""

    op = "embedding_dense_backward"

    def fits(
        self, grad: Any, indices: Any, rows: int, padding_idx: Any, scale: bool, entries: int
    ) -> bool:
        if scale or entries != 1 or not are_rows(grad, indices):
            return False
        return NAMES[grad.dtype] != "float64"

    def plan(
        self, grad: Any, indices: Any, rows: int, padding_idx: Any, scale: bool, entries: int
    ) -> Any:
        """Whether it is a product with one 1 per row, which adds up without collisions."""
        return "product" if rows <= 1024 and indices.size * rows <= 1 << 28 else "atomic sums"

    def run(
        self,
        plan: Any,
        grad: Any,
        indices: Any,
        rows: int,
        padding_idx: Any,
        scale: bool,
        entries: int,
    ) -> Any:
        gpu, kind = self.gpu, NAMES[grad.dtype]
        n = grad.shape[-1]
        count = indices.size
        skip = I64(-1 if padding_idx is None else padding_idx)
        lines = grad.reshape(count, n)
        if plan == "product":
            hot = gpu.empty((count, rows), grad.dtype)
            run = gpu.kernel("gather.cu", kind, "one_hot")
            run(gpu.grid(hot.size), (256,), (indices, hot, skip, I64(count), I32(rows)))
            return cublaslt.product(gpu.lt, hot.T, lines)
        total = gpu.xp.zeros((rows, n), np.float32)
        run = gpu.kernel("gather.cu", kind, "add_rows")
        run(gpu.grid(lines.size), (256,), (lines, indices, total, skip, I64(count), I32(n)))
        return total if kind == "float32" else total.astype(grad.dtype)
