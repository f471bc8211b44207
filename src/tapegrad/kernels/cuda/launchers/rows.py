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
from .moves import Plans, contiguous

TARGETS = 1 << 14  # above, they are counted before, not by every block


def register(backend: Any, gpu: Gpu, reference: Any) -> None:
    register_rows(backend, gpu, reference)
    register_losses(backend, gpu, reference)
    register_embedding(backend, gpu, reference)


# ---------------------------------------------------------------------- rows


def register_rows(backend: Any, gpu: Gpu, reference: Any) -> None:
    other_norm, other_pull = reference("native_layer_norm"), reference("native_layer_norm_backward")
    ndarray = gpu.xp.ndarray

    def fits(x: Any, *others: Any) -> bool:
        for p in others:
            if p is not None and (p.dtype is not x.dtype or not contiguous(p)):
                return False
        return bool(x.dtype in NAMES and contiguous(x) and x.size)

    def plan_norm(shape: tuple[int, ...], nd: int, dtype: Any, eps: float) -> Any:
        """Kernel, grid, shape and dtype of the statistics, and sizes."""
        lead = shape[: len(shape) - nd]
        rows, n = math.prod(lead), math.prod(shape[len(lead) :])
        run = gpu.kernel("rows.cu", NAMES[dtype], "layer_norm")
        stats = (2, *lead, *(1,) * nd), accumulator(dtype)
        return run, ((rows + 7) // 8,), *stats, (real(dtype, eps), I64(rows), I32(n))

    norms = Plans(plan_norm)

    @backend.override("native_layer_norm")
    def layer_norm(input: Any, weight: Any, bias: Any, nd: int, eps: float) -> Any:
        input = dense(backend, input)
        if not fits(input, weight, bias):
            return other_norm(input, weight, bias, nd, eps)
        shape, dtype = input.shape, input.dtype
        run, grid, stats_shape, wide, sizes = norms.get((shape, nd, dtype, eps))
        out, stats = ndarray(shape, dtype), ndarray(stats_shape, wide)
        run(grid, WARPS, (input, pointer(weight), pointer(bias), out, stats, *sizes))
        return out, stats

    def plan_pull(shape: tuple[int, ...], nd: int, dtype: Any, columns: bool) -> Any:
        """Kernels, grids, sizes, and the shapes of the parts of the sums and of the sums."""
        inside = shape[len(shape) - nd :]
        n = math.prod(inside)
        rows = math.prod(shape) // n
        chunk = max(8, -(-rows // 512))
        count = -(-rows // chunk)
        run = gpu.kernel("rows.cu", NAMES[dtype], "layer_norm_back")
        end = gpu.kernel("sums.cu", NAMES[dtype], "columns_end") if columns else None
        first = (count,), (I64(rows), I32(n), I32(chunk))
        second = ((n + 31) // 32, 2), (real(dtype, 1), I32(count), I32(n))
        return run, end, first, second, (2, count, n), inside

    pulls = Plans(plan_pull)

    @backend.override("native_layer_norm_backward")
    def layer_norm_backward(
        grad_output: Any, input: Any, stats: Any, weight: Any, nd: int, eps: float, biased: bool
    ) -> Any:
        shape, dtype = input.shape, input.dtype
        input, grad_output = dense(backend, input), dense(backend, grad_output)
        if not fits(input, weight, grad_output) or stats.dtype != accumulator(dtype):
            return other_pull(grad_output, input, stats, weight, nd, eps, biased)
        columns = biased or weight is not None
        run, end, first, second, parts_shape, inside = pulls.get((shape, nd, dtype, columns))
        out = ndarray(shape, dtype)
        parts = ndarray(parts_shape, stats.dtype) if columns else NOTHING
        args = (grad_output, input, stats, pointer(weight), out, parts)
        run(first[0], WARPS, (*args, *first[1]))
        to_bias = ndarray(inside, dtype) if biased else None
        to_weight = None if weight is None else ndarray(inside, dtype)
        if columns:
            end(second[0], SQUARE, (parts, pointer(to_bias), pointer(to_weight), *second[1]))
        if to_bias is None:
            to_bias = ndarray((0,), dtype)
        return out, ndarray((0,), dtype) if to_weight is None else to_weight, to_bias

    def pull(node: Any, grad: Any, kept: Any) -> Any:
        """All gradients of `native_layer_norm` at once."""
        edges = node._edges
        if grad[0] is None or node._fixes is not None:
            return None
        saved = kept.input, kept.stats, kept.weight
        biased = edges[2] is not None
        found = layer_norm_backward(grad[0], *saved, kept.nd, kept.eps, biased)
        return [None if e is None else g for e, g in zip(edges, found, strict=True)]

    backend.pulls["native_layer_norm"] = pull

    for name, logs in (("softmax", 0), ("log_softmax", 1)):
        backend.override(name)(softmax_kernel(backend, gpu, logs, reference(name)))
        pull = f"{name}_backward_data"
        backend.override(pull)(softmax_pull(backend, gpu, logs, reference(pull)))


def dense(backend: Any, x: Any) -> Any:
    """A contiguous float array: gradients may have any strides."""
    return x if contiguous(x) or x.dtype not in NAMES else backend.copied(x)


def pointer(x: Any) -> Any:
    return NOTHING if x is None else x


def softmax_kernel(backend: Any, gpu: Gpu, logs: int, other: Any) -> Any:
    def run(input: Any, dim: int) -> Any:
        if not input.size or dim != input.ndim - 1:
            return other(input, dim)
        input = dense(backend, input)
        if not contiguous_floats(input):
            return other(input, dim)
        out = gpu.empty(input.shape, input.dtype)
        n = input.shape[-1]
        rows = input.size // n
        args = (input, out, I32(logs), I64(rows), I32(n))
        gpu.rows("softmax", NAMES[input.dtype], rows, args)
        return out

    return run


def softmax_pull(backend: Any, gpu: Gpu, logs: int, other: Any) -> Any:
    def run(input: Any, output: Any, dim: int) -> Any:
        if not input.size or dim != input.ndim - 1:
            return other(input, output, dim)
        input, output = dense(backend, input), dense(backend, output)
        if not contiguous_floats(input, output):
            return other(input, output, dim)
        out = gpu.empty(input.shape, input.dtype)
        n = input.shape[-1]
        rows = input.size // n
        args = (input, output, out, I32(logs), I64(rows), I32(n))
        gpu.rows("softmax_back", NAMES[input.dtype], rows, args)
        return out

    return run


# ---------------------------------------------------------------------- losses


def register_losses(backend: Any, gpu: Gpu, reference: Any) -> None:
    other, other_pull = reference("nll_loss"), reference("nll_loss_backward")
    none = -(1 << 62)  # an index that no target has

    def fits(x: Any, target: Any, weight: Any, shape: Any) -> bool:
        if weight is not None and (weight.dtype is not x.dtype or not contiguous(weight)):
            return False
        return bool(
            len(shape) == 2
            and target.ndim == 1
            and target.dtype == np.int64
            and contiguous(target)
            and is_float(x)
            and target.size
        )

    @backend.override("nll_loss")
    def nll_loss(input: Any, target: Any, weight: Any, reduction: str, ignore_index: Any) -> Any:
        if (
            not fits(input, target, weight, input.shape)
            or reduction == "none"
            or not contiguous(input)
        ):
            return other(input, target, weight, reduction, ignore_index)
        kind = NAMES.get(input.dtype, "")
        rows, n = input.shape
        out = gpu.empty((), input.dtype)
        skip = none if ignore_index is None else ignore_index
        gpu.kernel("rows.cu", kind, "chosen")(
            (1,),
            (1024,),
            (
                *(input, target, pointer(weight), out, NOTHING),
                *(I32(reduction == "mean"), I64(skip), I64(rows), I32(n)),
            ),
        )
        return out

    @backend.override("nll_loss_backward")
    def nll_loss_backward(
        grad_output: Any, target: Any, weight: Any, shape: Any, reduction: str, ignore_index: Any
    ) -> Any:
        if not fits(grad_output, target, weight, shape) or not contiguous(grad_output):
            return other_pull(grad_output, target, weight, shape, reduction, ignore_index)
        kind = NAMES[grad_output.dtype]
        rows, n = shape
        skip = I64(none if ignore_index is None else ignore_index)
        mean = reduction == "mean"
        count: Any = NOTHING
        if mean and rows > TARGETS:
            count = gpu.empty((), accumulator(grad_output.dtype))
            gpu.kernel("rows.cu", kind, "chosen")(
                (1,),
                (1024,),
                (
                    *(NOTHING, target, pointer(weight), NOTHING, count),
                    *(I32(1), skip, I64(rows), I32(n)),
                ),
            )
        out = gpu.empty(tuple(shape), grad_output.dtype)
        each = I32(reduction == "none")
        gpu.kernel("rows.cu", kind, "chosen_back")(
            gpu.grid(rows * n),
            (256,),
            (
                *(grad_output, target, pointer(weight), count, out),
                *(I32(mean), each, skip, I64(rows), I32(n)),
            ),
        )
        return out


# ---------------------------------------------------------------------- embedding


def register_embedding(backend: Any, gpu: Gpu, reference: Any) -> None:
    other, other_pull = reference("embedding"), reference("embedding_dense_backward")

    def fits(x: Any, indices: Any) -> bool:
        return bool(
            is_float(x)
            and contiguous(x)
            and indices.dtype == np.int64
            and contiguous(indices)
            and indices.size
            and x.size
        )

    @backend.override("embedding")
    def embedding(weight: Any, indices: Any, *rest: Any) -> Any:
        if not fits(weight, indices):
            return other(weight, indices, *rest)
        rows, n = weight.shape
        out = gpu.empty((*indices.shape, n), weight.dtype)
        run = gpu.kernel("gather.cu", NAMES[weight.dtype], "take_rows")
        run(
            gpu.grid(out.size),
            (256,),
            (weight, indices, out, I64(indices.size), I32(n), I64(rows)),
        )
        return out

    @backend.override("embedding_dense_backward")
    def embedding_backward(
        grad_output: Any, indices: Any, rows: int, padding_idx: Any, scale: bool, entries: int
    ) -> Any:
        kind = NAMES[grad_output.dtype]
        if not fits(grad_output, indices) or scale or entries != 1 or kind == "float64":
            return other_pull(grad_output, indices, rows, padding_idx, scale, entries)
        n = grad_output.shape[-1]
        count = indices.size
        skip = I64(-1 if padding_idx is None else padding_idx)
        lines = grad_output.reshape(count, n)
        if rows <= 1024 and count * rows <= 1 << 28:
            # A product with one 1 per row adds up without collisions.
            hot = gpu.empty((count, rows), grad_output.dtype)
            run = gpu.kernel("gather.cu", kind, "one_hot")
            run(gpu.grid(hot.size), (256,), (indices, hot, skip, I64(count), I32(rows)))
            return cublaslt.product(gpu.lt, hot.T, lines)
        total = gpu.xp.zeros((rows, n), np.float32)
        run = gpu.kernel("gather.cu", kind, "add_rows")
        run(gpu.grid(lines.size), (256,), (lines, indices, total, skip, I64(count), I32(n)))
        return total if kind == "float32" else total.astype(grad_output.dtype)
