"""Elementwise kernels of the GPU that are more than an expression: masks, glu, prelu."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..cublas import NAMES
from ..formulas import functions
from ..programs import compiled, formula_file
from .kernels import BLOCK, I32, NOTHING, Gpu, accumulator, contiguous_floats, real
from .launcher import Launcher
from .moves import MANY, U32, Plans, contiguous, plan_order

NUMBERS = (int, float)


def register(backend: Any, gpu: Gpu, reference: Any) -> None:
    register_masks(backend, gpu, reference)
    register_gates(backend, gpu, reference)


def register_masks(backend: Any, gpu: Gpu, reference: Any) -> None:
    device_array = gpu.xp.ndarray
    other_where, other_fill = reference("where"), reference("masked_fill")
    boolean = np.dtype(np.bool_)
    orders = Plans(plan_order)

    def choice(expression: str, mask: Any, x: Any, y: Any, number: float = 0) -> Any:
        """By a mask that is as large as the arrays or is broadcast to them; else None."""
        dtype = x.dtype
        if type(mask) is not device_array or mask.dtype is not boolean:
            return None
        if not contiguous(x) and x.shape == mask.shape and x.strides == y.strides:
            plan = orders.get((x.shape, x.strides, dtype.itemsize))
            if plan is None:
                return None
            out = choice(expression, *[v.transpose(plan[0]) for v in (mask, x, y)], number)
            return None if out is None else out.transpose(plan[1])
        if not contiguous(mask) or not contiguous_floats(x, y):
            return None
        plan = gpu.spreads.get((x.shape, mask.shape))
        if plan is None or plan[0] != x.shape:
            return None
        n, _, _, run, size = plan[1]
        out = gpu.xp.ndarray(x.shape, dtype)
        words = {"CHOICE": 1, "DOES(m, a, b, s)": f"({expression})"}
        kernel = gpu.kernel("moves.cu", NAMES[dtype], "choice", **words)
        args = (mask, x, y, out, n, run, size, real(dtype, number))
        kernel(gpu.grid(x.size), BLOCK, args)
        return out

    @backend.override("where")
    def where(condition: Any, input: Any, other: Any) -> Any:
        out = None
        if type(input) is device_array:
            if type(other) is device_array:
                out = choice("m ? a : b", condition, input, other)
                if out is None and input.dtype is other.dtype and input.dtype in NAMES:
                    out = gpu.xp.where(condition, input, other)
            elif isinstance(other, NUMBERS):
                out = choice("m ? a : s", condition, input, input, other)
        elif isinstance(input, NUMBERS) and type(other) is device_array:
            out = choice("m ? s : a", condition, other, other, input)
        return other_where(condition, input, other) if out is None else out

    @backend.override("masked_fill")
    def masked_fill(input: Any, mask: Any, value: Any) -> Any:
        out = None
        if input.dtype in NAMES and isinstance(value, (*NUMBERS, np.generic)):
            out = choice("m ? s : a", mask, input, input, float(value))
        return other_fill(input, mask, value) if out is None else out


def gpu_kernels(gpu: Gpu) -> Callable[[str, str], Any]:
    """A function of a dtype's name and a kernel's, in a file that is made of the blocks."""

    @functools.cache
    def kernel(kind: str, name: str) -> Any:
        from ....ops.nn.leaky_activations import PreluKernelBackward
        from ....ops.nn.piecewise_linear import gate_slopes, gated

        text = functions(gated, ["gated"]) + functions(gate_slopes, ["glu_first", "glu_second"])
        text += functions(PreluKernelBackward.forward, ["prelu_input", "prelu_weight"])
        return compiled(gpu.xp, "gates.cu", kind, name, made=formula_file(text))

    return kernel


def half_of(shape: tuple[int, ...], dim: int) -> int:
    """Elements of one half of a dimension, with the dimensions inside it."""
    return shape[dim] // 2 * math.prod(shape[dim + 1 :])


class GateLauncher(Launcher):
    """A launcher of the kernels in sources/gates.cu."""

    def __init__(self, backend: Any, gpu: Gpu, kernel: Any, reference: Any) -> None:
        super().__init__(reference)
        self.backend = backend
        self.gpu = gpu
        self.kernel = kernel
        self.ndarray = gpu.xp.ndarray


class Glu(GateLauncher):
    """One half of a dimension times a gate, the sigmoid of the other half."""

    op = "glu"

    def fits(self, input: Any, dim: int) -> bool:
        return contiguous_floats(input) and 0 < input.size < MANY

    def plan(self, input: Any, dim: int) -> Any:
        return self.kernel(NAMES[input.dtype], "glu")

    def run(self, plan: Any, input: Any, dim: int) -> Any:
        shape = input.shape
        made = (*shape[:dim], shape[dim] // 2, *shape[dim + 1 :])
        out = self.ndarray(made, input.dtype)
        sizes = (U32(out.size), U32(half_of(shape, dim)))
        plan(self.gpu.grid(out.size), BLOCK, (input, out, *sizes))
        return out


class GluBackward(GateLauncher):
    """The gradient of the input."""

    op = "glu_backward"

    def fits(self, grad: Any, input: Any, dim: int) -> bool:
        return contiguous_floats(input) and 0 < input.size < MANY and grad.dtype is input.dtype

    def plan(self, grad: Any, input: Any, dim: int) -> Any:
        return self.kernel(NAMES[input.dtype], "glu_back")

    def run(self, plan: Any, grad: Any, input: Any, dim: int) -> Any:
        if not contiguous(grad):
            grad = self.backend.copied(grad)
        out = self.ndarray(input.shape, input.dtype)
        sizes = (U32(grad.size), U32(half_of(input.shape, dim)))
        plan(self.gpu.grid(grad.size), BLOCK, (grad, input, out, *sizes))
        return out


def register_gates(backend: Any, gpu: Gpu, reference: Any) -> None:
    ndarray = gpu.xp.ndarray
    other = reference("prelu_kernel_backward")
    kernel = gpu_kernels(gpu)
    Glu(backend, gpu, kernel, reference).register(backend)
    GluBackward(backend, gpu, kernel, reference).register(backend)

    def straight(x: Any) -> Any:
        return x if contiguous(x) else backend.copied(x)

    def slopes_fit(grad: Any, input: Any, weight: Any) -> Any:
        """How the weights are spread over the input; None if the kernels do not take them."""
        if (
            not contiguous_floats(input)
            or grad.dtype is not input.dtype
            or grad.shape != input.shape
        ):
            return None
        if weight.dtype is not input.dtype or not contiguous(weight):
            return None
        plan = gpu.spreads.get((input.shape, weight.shape))
        return None if plan is None or plan[0] != input.shape else plan[1]

    @backend.override("prelu_kernel_backward")
    def prelu_backward(grad_output: Any, input: Any, weight: Any) -> Any:
        sizes = slopes_fit(grad_output, input, weight)
        if sizes is None:
            return other(grad_output, input, weight)
        n, _, _, stays, count = sizes
        shape, dtype = input.shape, input.dtype
        to_input, to_weight = ndarray(shape, dtype), ndarray(shape, dtype)
        run = kernel(NAMES[dtype], "prelu_slopes")
        args = (straight(grad_output), input, weight, to_input, to_weight, n, stays, count)
        run(gpu.grid(int(n)), BLOCK, args)
        return to_input, to_weight

    def prelu_pull(node: Any, grad: Any, kept: Any) -> Any:
        """Both gradients, the weights' added up, where neighbours have the same weight."""
        input, weight = kept.input, kept.weight
        sizes = slopes_fit(grad, input, weight)
        if sizes is None:
            return None
        n, stays, count = int(sizes[0]), int(sizes[3]), int(sizes[4])
        if count == 1:
            stays = n
        elif stays < 32:
            return None
        dtype = input.dtype
        own = n // count
        chunks = max(1, min(-(-own // 4096), gpu.blocks // 2 // count))
        chunk = -(-own // chunks)
        chunks = -(-own // chunk)
        to_input = None if node._edges[0] is None else ndarray(input.shape, dtype)
        to_weight = ndarray(weight.shape, dtype)
        parts = NOTHING if chunks == 1 else ndarray((count, chunks), accumulator(dtype))
        outs = (NOTHING if to_input is None else to_input, parts, to_weight)
        run = kernel(NAMES[dtype], "prelu_back")
        sizes = (U32(own), U32(stays), U32(chunk))
        run((count, chunks), BLOCK, (straight(grad), input, weight, *outs, *sizes))
        if chunks > 1:
            end = gpu.kernel("sums.cu", NAMES[dtype], "long_rows_end")
            end((count,), BLOCK, (parts, to_weight, real(dtype, 1), I32(chunks)))
        return [to_input, None if node._edges[1] is None else to_weight]

    backend.pulls["prelu_kernel"] = prelu_pull
