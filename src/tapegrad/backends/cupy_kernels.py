"""Fused kernels for the GPU: overrides of the ops that training spends its time in.

An override looks at dtypes and memory first; what it was not written for goes to the block's own
forward, which CuPy runs. Kernels are compiled on first use, and CuPy keeps them on disk.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.op import REGISTRY
from . import cublas, cublaslt, cuda_source
from .cublas import NAMES

NOTHING = np.uint64(0)  # a null pointer
I32, I64 = np.int32, np.int64
BLOCK = (256,)
WARPS = (32, 8)
FEW_ROWS = 512  # below, one block adds up a column by itself


class Gpu:
    """Compiled kernels and cuBLAS, for one array module."""

    def __init__(self, xp: Any) -> None:
        self.xp = xp
        self.compiled: dict[tuple[str, ...], Any] = {}
        self.quick: dict[Any, Any] = {}  # elementwise kernels by expression and dtype
        properties = xp.cuda.runtime.getDeviceProperties(0)
        self.blocks = int(properties["multiProcessorCount"]) * 16

    @functools.cached_property
    def blas(self) -> cublas.Library:
        return cublas.Library(self.xp)

    @functools.cached_property
    def lt(self) -> cublaslt.Lt:
        return cublaslt.Lt(self.blas)

    def kernel(self, source: str, kind: str, name: str, **parts: Any) -> Any:
        """A kernel by the name of its source in cuda_source.py, its dtype and its own name."""
        key = (source, kind, name, *parts.values()) if parts else (source, kind, name)
        found = self.compiled.get(key)
        if found is None:
            text = getattr(cuda_source, source)
            code = "".join(
                [
                    cuda_source.PRELUDE,
                    cuda_source.MEANINGS[kind],
                    cuda_source.EACH,
                    text % parts if parts else text.replace("%%", "%"),
                ]
            )
            found = self.compiled[key] = self.xp.RawKernel(code, name, ("--std=c++14",))
        return found

    def empty(self, shape: Any, dtype: Any) -> Any:
        return self.xp.ndarray(shape, dtype)

    def grid(self, count: int) -> tuple[int]:
        return (min((count + 255) // 256, self.blocks) or 1,)

    def unary(self, expression: str, x: Any, number: float = 0.0) -> Any:
        dtype = x.dtype
        out = self.xp.ndarray(x.shape, dtype)
        n = x.size
        if n:
            found = self.quick.get((expression, dtype))
            if found is None:
                kind = NAMES[dtype]
                run = self.kernel("ELEMENTWISE", kind, "unary", unary=expression, binary="a")
                found = self.quick[(expression, dtype)] = (run, real_type(kind))
            run, real = found
            run(self.grid(n), BLOCK, (x, out, real(number), n))
        return out

    def binary(self, expression: str, x: Any, y: Any, number: float = 0.0) -> Any:
        dtype = x.dtype
        out = self.xp.ndarray(x.shape, dtype)
        n = x.size
        if n:
            found = self.quick.get((expression, dtype))
            if found is None:
                kind = NAMES[dtype]
                run = self.kernel("ELEMENTWISE", kind, "binary", unary="a", binary=expression)
                found = self.quick[(expression, dtype)] = (run, real_type(kind))
            run, real = found
            run(self.grid(n), BLOCK, (x, y, out, real(number), n))
        return out

    def rows(self, name: str, kind: str, rows: int, args: tuple[Any, ...]) -> None:
        """Run a kernel that gives each row of a matrix a warp."""
        if rows:
            self.kernel("ROWS", kind, name)(((rows + 7) // 8,), (32, 8), args)

    def column_sums(
        self, g: Any, rows: int, n: int, x: Any = None, stats: Any = None, scaled: bool = False
    ) -> tuple[Any, Any]:
        """Sums down the columns of a matrix; of it times the standardized `x` too, if given."""
        kind = NAMES[g.dtype]
        many = 2 if scaled else 1
        out = self.xp.ndarray((many, n), g.dtype)
        chunk = rows if rows <= FEW_ROWS else max(64, (rows + 127) // 128)
        count = (rows + chunk - 1) // chunk or 1
        given = (g, NOTHING if x is None else x, NOTHING if stats is None else stats)
        size = (I64(rows), I32(n), I32(chunk))
        run = self.kernel("ROWS", kind, "columns")
        grid = ((n + 31) // 32, count)
        first = out.data.ptr
        second = np.uint64(first + n * g.dtype.itemsize if scaled else 0)
        if count == 1:
            run(grid, WARPS, (*given, NOTHING, NOTHING, out, second, *size))
        else:
            real = np.dtype(accumulator(kind))
            parts = self.xp.ndarray((many, count, n), real)
            rest = np.uint64(parts.data.ptr + count * n * real.itemsize if scaled else 0)
            run(grid, WARPS, (*given, parts, rest, NOTHING, NOTHING, *size))
            end = self.kernel("ROWS", kind, "columns_end")
            end(((n + 31) // 32, many), WARPS, (parts, out, I32(count), I32(n)))
        return out[0], out[1] if scaled else None


def real_type(kind: str) -> Any:
    return np.float64 if kind == "float64" else np.float32


def accumulator(kind: str) -> type:
    return np.float64 if kind == "float64" else np.float32


def wide(kind: str, value: float) -> Any:
    return np.float64(value) if kind == "float64" else np.float32(value)


def is_float(x: Any) -> bool:
    return x.dtype in NAMES


def plain(*arrays: Any) -> bool:
    """Whether these are contiguous float arrays of one shape and dtype."""
    first = arrays[0]
    for x in arrays:
        if x.dtype is not first.dtype or x.shape != first.shape or not x.flags.c_contiguous:
            return False
    return first.dtype in NAMES


UNARY = {
    "relu": "a < 0 ? (A)0 : a",
    "neg": "-a",
    "exp": "exp(a)",
    "log": "log(a)",
    "sqrt": "sqrt(a)",
    "tanh": "tanh(a)",
    "sigmoid": "1 / (1 + exp(-a))",
    "silu": "a / (1 + exp(-a))",
}
WITH_NUMBER = {"mul_number": "a * s", "add_number": "a + s", "div_number": "a / s"}
BINARY = {
    "add": ("a + b", "a + s"),
    "sub": ("a - b", "a - s"),
    "mul": ("a * b", "a * s"),
    "div": ("a / b", "a / s"),
}
PULLS = {
    "tanh_backward": "a * (1 - b * b)",
    "sigmoid_backward": "a * (1 - b) * b",
    "silu_backward": "a * (1 + b * (1 - 1 / (1 + exp(-b)))) / (1 + exp(-b))",
}
ROOT = "(A)0.70710678118654752440"
SLOPE = "(A)0.79788456080286535588"  # the root of 2 / pi
CUBE = "(A)0.044715"
INNER = f"({SLOPE} * (b + {CUBE} * b * b * b))"
GELU = {
    "none": f"(A)0.5 * a * (1 + erf(a * {ROOT}))",
    "tanh": f"(A)0.5 * a * (1 + tanh({SLOPE} * (a + {CUBE} * a * a * a)))",
}
GELU_PULL = {
    "none": f"a * ((A)0.5 * (1 + erf(b * {ROOT})) "
    "+ b * exp(-(A)0.5 * b * b) * (A)0.39894228040143267794)",
    "tanh": f"a * ((A)0.5 * (1 + tanh{INNER}) + (A)0.5 * b * (1 - tanh{INNER} * tanh{INNER}) "
    f"* {SLOPE} * (1 + 3 * {CUBE} * b * b))",
}


def register(backend: Any) -> None:
    """Give a backend the kernels of this file."""
    gpu = Gpu(backend.xp)
    backend.gpu = gpu

    def reference(name: str) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            return REGISTRY[name].forward(backend.xp, *args)

        return run

    register_elementwise(backend, gpu, reference)
    register_products(backend, gpu, reference)
    register_rows(backend, gpu, reference)
    register_losses(backend, gpu, reference)
    register_embedding(backend, gpu, reference)
    from . import cupy_attention, cupy_optim

    cupy_attention.register(backend, gpu, reference)
    cupy_optim.register(backend, gpu)


# ---------------------------------------------------------------------- elementwise


def register_elementwise(backend: Any, gpu: Gpu, reference: Any) -> None:
    for name, expression in UNARY.items():
        backend.override(name)(unary_kernel(gpu, expression, reference(name)))
    for name, expression in WITH_NUMBER.items():
        backend.override(name)(number_kernel(gpu, expression, reference(name)))
    for name, (both, number) in BINARY.items():
        backend.override(name)(binary_kernel(gpu, both, number, reference(name)))
    for name, expression in PULLS.items():
        backend.override(name)(pull_kernel(gpu, expression, reference(name)))
    shared = reference("gelu"), reference("gelu_backward"), reference("threshold_backward")

    @backend.override("gelu")
    def gelu(input: Any, approximate: str) -> Any:
        if plain(input):
            return gpu.unary(GELU[approximate], input)
        return shared[0](input, approximate)

    @backend.override("gelu_backward")
    def gelu_backward(grad_output: Any, input: Any, approximate: str) -> Any:
        if plain(grad_output, input):
            return gpu.binary(GELU_PULL[approximate], grad_output, input)
        return shared[1](grad_output, input, approximate)

    @backend.override("masked_by")
    def masked_by(grad: Any, out: Any) -> Any:
        if plain(grad, out):
            return gpu.binary("b <= 0 ? (A)0 : a", grad, out)
        return gpu.xp.where(out <= 0, grad.dtype.type(0), grad)

    @backend.override("threshold_backward")
    def threshold_backward(grad_output: Any, input: Any, threshold: Any) -> Any:
        if plain(grad_output, input):
            # A NaN lets its gradient pass.
            return gpu.binary("b <= s ? (A)0 : a", grad_output, input, float(threshold))
        return shared[2](grad_output, input, threshold)


def unary_kernel(gpu: Gpu, expression: str, other: Any) -> Any:
    def run(x: Any) -> Any:
        return gpu.unary(expression, x) if plain(x) else other(x)

    return run


def number_kernel(gpu: Gpu, expression: str, other: Any) -> Any:
    def run(x: Any, number: Any) -> Any:
        if plain(x) and isinstance(number, (int, float)):
            return gpu.unary(expression, x, number)
        return other(x, number)

    return run


def binary_kernel(gpu: Gpu, both: str, number: str, other: Any) -> Any:
    def run(x: Any, y: Any) -> Any:
        if type(x) is gpu.xp.ndarray:
            if type(y) is gpu.xp.ndarray:
                if plain(x, y):
                    return gpu.binary(both, x, y)
            elif isinstance(y, (int, float)) and plain(x):
                return gpu.unary(number, x, y)
        return other(x, y)

    return run


def pull_kernel(gpu: Gpu, expression: str, other: Any) -> Any:
    def run(grad: Any, y: Any) -> Any:
        return gpu.binary(expression, grad, y) if plain(grad, y) else other(grad, y)

    return run


# ---------------------------------------------------------------------- products


def register_products(backend: Any, gpu: Gpu, reference: Any) -> None:
    plain_mm, plain_bmm, plain_addmm = reference("mm"), reference("bmm"), reference("addmm")

    @backend.override("mm")
    def mm(input: Any, mat2: Any) -> Any:
        if is_float(input) and input.dtype == mat2.dtype and input.size and mat2.size:
            return cublaslt.product(gpu.lt, input, mat2)
        return plain_mm(input, mat2)

    @backend.override("bmm")
    def bmm(input: Any, mat2: Any) -> Any:
        if is_float(input) and input.dtype == mat2.dtype:
            return cublas.stack_product(gpu.blas, input, mat2)
        return plain_bmm(input, mat2)

    @backend.override("addmm")
    def addmm(input: Any, mat1: Any, mat2: Any, beta: Any, alpha: Any) -> Any:
        simple = beta == 1 and alpha == 1 and input.shape == (mat2.shape[1],)
        same = is_float(mat1) and input.dtype == mat1.dtype == mat2.dtype
        if not simple or not same or not input.flags.c_contiguous or not (mat1.size and mat2.size):
            return plain_addmm(input, mat1, mat2, beta, alpha)
        return cublaslt.product(gpu.lt, mat1, mat2, input)

    def by_columns(rows: int, strides: Any) -> bool:
        return strides[0] != 0 and strides[1] == strides[0] * rows

    @backend.override("left_grad")
    def left_grad(grad: Any, right: Any, strides: Any) -> Any:
        if by_columns(grad.shape[0], strides):
            return mm(right, grad.T).T
        return mm(grad, right.T)

    @backend.override("right_grad")
    def right_grad(grad: Any, left: Any, strides: Any) -> Any:
        if by_columns(left.shape[1], strides):
            return mm(grad.T, left).T
        return mm(left.T, grad)

    plain_sum = reference("sum")

    @backend.override("sum")
    def sums(input: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
        count = len(dim) if isinstance(dim, tuple) else 0
        leading = count and count < input.ndim and tuple(dim) == tuple(range(count))
        if not leading or dtype is not None or not plain(input) or not input.size:
            return plain_sum(input, dim, keepdim, dtype)
        rows = math.prod(input.shape[:count])
        rest = input.shape[count:]
        out, _ = gpu.column_sums(input, rows, math.prod(rest))
        return out.reshape((*(1,) * count, *rest) if keepdim else rest)


# ---------------------------------------------------------------------- rows


def register_rows(backend: Any, gpu: Gpu, reference: Any) -> None:
    other_norm, other_pull = reference("native_layer_norm"), reference("native_layer_norm_backward")

    def fits(x: Any, *parameters: Any) -> bool:
        for p in parameters:
            if p is not None and (p.dtype is not x.dtype or not p.flags.c_contiguous):
                return False
        return bool(is_float(x) and x.flags.c_contiguous and x.size)

    @backend.override("native_layer_norm")
    def layer_norm(input: Any, weight: Any, bias: Any, nd: int, eps: float) -> Any:
        if not fits(input, weight, bias):
            return other_norm(input, weight, bias, nd, eps)
        kind = NAMES.get(input.dtype, "")
        lead = input.shape[: input.ndim - nd]
        n = math.prod(input.shape[len(lead) :])
        rows = math.prod(lead)
        out = gpu.empty(input.shape, input.dtype)
        stats = gpu.empty((2, *lead, *(1,) * nd), np.dtype(accumulator(kind)))
        args = (
            *(input, pointer(weight), pointer(bias), out, stats),
            *(wide(kind, eps), I64(rows), I32(n)),
        )
        gpu.rows("layer_norm", kind, rows, args)
        return out, stats

    @backend.override("native_layer_norm_backward")
    def layer_norm_backward(
        grad_output: Any, input: Any, stats: Any, weight: Any, nd: int, eps: float, biased: bool
    ) -> Any:
        kind = NAMES.get(input.dtype, "")
        wanted = np.dtype(accumulator(kind)) if kind else None
        if not fits(input, weight, grad_output) or stats.dtype != wanted:
            return other_pull(grad_output, input, stats, weight, nd, eps, biased)
        shape = input.shape[input.ndim - nd :]
        n = math.prod(shape)
        rows = input.size // n
        out = gpu.empty(input.shape, input.dtype)
        args = (grad_output, input, stats, pointer(weight), out, I64(rows), I32(n))
        gpu.rows("layer_norm_input", kind, rows, args)
        nothing = gpu.empty((0,), input.dtype)
        to_weight = to_bias = nothing
        if weight is not None or biased:
            scaled = weight is not None
            sums, products = gpu.column_sums(grad_output, rows, n, input, stats, scaled)
            if scaled:
                to_weight = products.reshape(weight.shape)
            if biased:
                to_bias = sums.reshape(shape)
        return out, to_weight, to_bias

    for name, logs in (("softmax", 0), ("log_softmax", 1)):
        backend.override(name)(softmax_kernel(gpu, logs, reference(name)))
        pull = f"{name}_backward_data"
        backend.override(pull)(softmax_pull(gpu, logs, reference(pull)))


def pointer(x: Any) -> Any:
    return NOTHING if x is None else x


def softmax_kernel(gpu: Gpu, logs: int, other: Any) -> Any:
    def run(input: Any, dim: int) -> Any:
        if not plain(input) or not input.ndim or dim != input.ndim - 1 or not input.size:
            return other(input, dim)
        out = gpu.empty(input.shape, input.dtype)
        n = input.shape[-1]
        rows = input.size // n
        args = (input, out, I32(logs), I64(rows), I32(n))
        gpu.rows("softmax", NAMES[input.dtype], rows, args)
        return out

    return run


def softmax_pull(gpu: Gpu, logs: int, other: Any) -> Any:
    def run(input: Any, output: Any, dim: int) -> Any:
        if not plain(input, output) or dim != input.ndim - 1 or not input.size:
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
        return bool(
            weight is None
            and len(shape) == 2
            and target.ndim == 1
            and target.dtype == np.int64
            and target.flags.c_contiguous
            and is_float(x)
            and target.size
        )

    @backend.override("nll_loss")
    def nll_loss(input: Any, target: Any, weight: Any, reduction: str, ignore_index: Any) -> Any:
        if (
            not fits(input, target, weight, input.shape)
            or reduction == "none"
            or not input.flags.c_contiguous
        ):
            return other(input, target, weight, reduction, ignore_index)
        kind = NAMES.get(input.dtype, "")
        rows, n = input.shape
        out = gpu.empty((), input.dtype)
        skip = none if ignore_index is None else ignore_index
        gpu.kernel("ROWS", kind, "chosen")(
            (1,),
            (1024,),
            (input, target, out, NOTHING, I32(reduction == "mean"), I64(skip), I64(rows), I32(n)),
        )
        return out

    @backend.override("nll_loss_backward")
    def nll_loss_backward(
        grad_output: Any, target: Any, weight: Any, shape: Any, reduction: str, ignore_index: Any
    ) -> Any:
        if not fits(grad_output, target, weight, shape) or not grad_output.flags.c_contiguous:
            return other_pull(grad_output, target, weight, shape, reduction, ignore_index)
        kind = NAMES[grad_output.dtype]
        rows, n = shape
        skip = I64(none if ignore_index is None else ignore_index)
        mean = reduction == "mean"
        count: Any = NOTHING
        if mean:
            count = gpu.empty((), np.dtype(accumulator(kind)))
            gpu.kernel("ROWS", kind, "chosen")(
                (1,),
                (1024,),
                (NOTHING, target, NOTHING, count, I32(1), skip, I64(rows), I32(n)),
            )
        out = gpu.empty(tuple(shape), grad_output.dtype)
        each = I32(reduction == "none")
        gpu.kernel("ROWS", kind, "chosen_back")(
            gpu.grid(rows * n),
            (256,),
            (grad_output, target, count, out, I32(mean), each, skip, I64(rows), I32(n)),
        )
        return out


# ---------------------------------------------------------------------- embedding


def register_embedding(backend: Any, gpu: Gpu, reference: Any) -> None:
    other, other_pull = reference("embedding"), reference("embedding_dense_backward")

    def fits(x: Any, indices: Any) -> bool:
        return bool(
            is_float(x)
            and x.flags.c_contiguous
            and indices.dtype == np.int64
            and indices.flags.c_contiguous
            and indices.size
            and x.size
        )

    @backend.override("embedding")
    def embedding(weight: Any, indices: Any, *rest: Any) -> Any:
        if not fits(weight, indices):
            return other(weight, indices, *rest)
        rows, n = weight.shape
        out = gpu.empty((*indices.shape, n), weight.dtype)
        run = gpu.kernel("GATHER", NAMES[weight.dtype], "take_rows")
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
            run = gpu.kernel("GATHER", kind, "one_hot")
            run(gpu.grid(hot.size), (256,), (indices, hot, skip, I64(count), I32(rows)))
            return cublaslt.product(gpu.lt, hot.T, lines)
        total = gpu.xp.zeros((rows, n), np.float32)
        run = gpu.kernel("GATHER", kind, "add_rows")
        run(gpu.grid(lines.size), (256,), (lines, indices, total, skip, I64(count), I32(n)))
        return total if kind == "float32" else total.astype(grad_output.dtype)
