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
BOOL = np.dtype(np.bool_)


def register(backend: Any, gpu: Gpu, reference: Any) -> None:
    choices = Choices(gpu)
    for masked in (Where, MaskedFill):
        masked(choices, reference).register(backend)
    kernel = gpu_kernels(gpu)
    for gate in (Glu, GluBackward, PreluBackward):
        gate(backend, gpu, kernel, reference).register(backend)
    backend.pulls[PreluGradients.op] = PreluGradients(backend, gpu, kernel).pull


class Choices:
    """One of two values for each element, by a mask."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.array = gpu.xp.ndarray
        self.orders = Plans(plan_order)

    def made(self, expression: str, mask: Any, x: Any, y: Any, number: float = 0) -> Any:
        """The choice by a mask of the arrays' shape, or one broadcast to them; None for others."""
        dtype = x.dtype
        if type(mask) is not self.array or mask.dtype is not BOOL:
            return None
        if not contiguous(x) and x.shape == mask.shape and x.strides == y.strides:
            plan = self.orders.get((x.shape, x.strides, dtype.itemsize))
            if plan is None:
                return None
            out = self.made(expression, *[v.transpose(plan[0]) for v in (mask, x, y)], number)
            return None if out is None else out.transpose(plan[1])
        if not contiguous(mask) or not contiguous_floats(x, y):
            return None
        plan = self.gpu.spreads.get((x.shape, mask.shape))
        if plan is None or plan[0] != x.shape:
            return None
        n, _, _, run, size = plan[1]
        out = self.array(x.shape, dtype)
        words = {"CHOICE": 1, "DOES(m, a, b, s)": f"({expression})"}
        kernel = self.gpu.kernel("moves.cu", NAMES[dtype], "choice", **words)
        args = (mask, x, y, out, n, run, size, real(dtype, number))
        kernel(self.gpu.grid(x.size), BLOCK, args)
        return out


class MaskLauncher(Launcher):
    """A launcher of choices. Its plan is (expression, a, b, s), the expression being one of the
    mask `m`, the arrays `a` and `b` and the number `s`."""

    def __init__(self, choices: Choices, reference: Any) -> None:
        super().__init__(reference)
        self.choices = choices
        self.array = choices.array


class Where(MaskLauncher):
    """Elements of one array or another, either of which may be a number."""

    op = "where"

    def fits(self, condition: Any, input: Any, other: Any) -> bool:
        if type(input) is self.array:
            return type(other) is self.array or isinstance(other, NUMBERS)
        return isinstance(input, NUMBERS) and type(other) is self.array

    def plan(self, condition: Any, input: Any, other: Any) -> Any:
        if type(input) is not self.array:
            return "m ? s : a", other, other, input
        if type(other) is not self.array:
            return "m ? a : s", input, input, other
        return "m ? a : b", input, other, 0

    def run(self, plan: Any, condition: Any, input: Any, other: Any) -> Any:
        expression, x, y, number = plan
        out = self.choices.made(expression, condition, x, y, number)
        two = type(input) is type(other)
        if out is None and two and input.dtype is other.dtype and input.dtype in NAMES:
            out = self.choices.gpu.xp.where(condition, input, other)
        return out


class MaskedFill(MaskLauncher):
    """A number where the mask says so."""

    op = "masked_fill"

    def fits(self, input: Any, mask: Any, value: Any) -> bool:
        return input.dtype in NAMES and isinstance(value, (*NUMBERS, np.generic))

    def plan(self, input: Any, mask: Any, value: Any) -> Any:
        return "m ? s : a", input, input, float(value)

    def run(self, plan: Any, input: Any, mask: Any, value: Any) -> Any:
        expression, x, y, number = plan
        return self.choices.made(expression, mask, x, y, number)


def gpu_kernels(gpu: Gpu) -> Callable[[str, str], Any]:
    """A function (dtype's name, kernel's name) that compiles gates.cu with the blocks' formulas."""

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


class PreluBackward(GateLauncher):
    """The gradient of each element, and what each element adds to that of its weight."""

    op = "prelu_kernel_backward"

    def fits(self, grad_output: Any, input: Any, weight: Any) -> bool:
        return slopes_fit(grad_output, input, weight)

    def plan(self, grad_output: Any, input: Any, weight: Any) -> Any:
        return spread(self.gpu, input, weight)

    def run(self, plan: Any, grad_output: Any, input: Any, weight: Any) -> Any:
        n, _, _, stays, count = plan
        shape, dtype = input.shape, input.dtype
        to_input, to_weight = self.ndarray(shape, dtype), self.ndarray(shape, dtype)
        grad = straight(self.backend, grad_output)
        args = (grad, input, weight, to_input, to_weight, n, stays, count)
        self.kernel(NAMES[dtype], "prelu_slopes")(self.gpu.grid(int(n)), BLOCK, args)
        return to_input, to_weight


class PreluGradients:
    """Both gradients, the weights' added up, where neighbours have the same weight."""

    op = "prelu_kernel"

    def __init__(self, backend: Any, gpu: Gpu, kernel: Any) -> None:
        self.backend = backend
        self.gpu = gpu
        self.kernel = kernel

    def pull(self, node: Any, grad: Any, kept: Any) -> Any:
        input, weight = kept.input, kept.weight
        sizes = spread(self.gpu, input, weight) if slopes_fit(grad, input, weight) else None
        if sizes is None:
            return None
        n, stays, count = int(sizes[0]), int(sizes[3]), int(sizes[4])
        if count == 1:
            stays = n
        elif stays < 32:
            return None
        ndarray, dtype = self.gpu.xp.ndarray, input.dtype
        own = n // count
        chunks = max(1, min(-(-own // 4096), self.gpu.blocks // 2 // count))
        chunk = -(-own // chunks)
        chunks = -(-own // chunk)
        to_input = None if node._edges[0] is None else ndarray(input.shape, dtype)
        to_weight = ndarray(weight.shape, dtype)
        parts = NOTHING if chunks == 1 else ndarray((count, chunks), accumulator(dtype))
        outs = (NOTHING if to_input is None else to_input, parts, to_weight)
        run = self.kernel(NAMES[dtype], "prelu_back")
        sizes = (U32(own), U32(stays), U32(chunk))
        args = (straight(self.backend, grad), input, weight, *outs, *sizes)
        run((count, chunks), BLOCK, args)
        if chunks > 1:
            end = self.gpu.kernel("sums.cu", NAMES[dtype], "long_rows_end")
            end((count,), BLOCK, (parts, to_weight, real(dtype, 1), I32(chunks)))
        return [to_input, None if node._edges[1] is None else to_weight]


def straight(backend: Any, x: Any) -> Any:
    """The array in C order, copied if it is not."""
    return x if contiguous(x) else backend.copied(x)


def slopes_fit(grad: Any, input: Any, weight: Any) -> bool:
    """Whether the kernels of prelu take a gradient, an input and weights."""
    if not contiguous_floats(input) or grad.dtype is not input.dtype or grad.shape != input.shape:
        return False
    return weight.dtype is input.dtype and contiguous(weight)


def spread(gpu: Gpu, input: Any, weight: Any) -> Any:
    """How weights are spread over the elements of an input; None where they are not."""
    plan = gpu.spreads.get((input.shape, weight.shape))
    return None if plan is None or plan[0] != input.shape else plan[1]
