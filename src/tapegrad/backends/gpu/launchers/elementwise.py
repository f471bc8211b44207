"""Elementwise kernels of the GPU: one launch each for activations, arithmetic and losses.

What they compute is in sources/expressions.py.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....core.devices import DEVICE
from ..cublas import NAMES
from ..sources.expressions import (
    ARITHMETIC,
    ELU_PULL,
    GELU,
    GELU_PULL,
    GRADIENTS,
    LOSSES,
    PAIRS,
    POWER_PULLS,
    POWERS,
    PULLS,
    ROUNDS_NUMBERS,
    SEVERAL,
    UNARY,
    WITH_NUMBERS,
    Formula,
)
from ..sources.templates import ACCESS
from . import gates as cupy_gates
from .kernels import BLOCK, I32, I64, NOTHING, Gpu, accumulator, contiguous_floats, real
from .moves import Plans, contiguous, plan_order

FORMS = ("", "unary", "binary", "ternary")
ALONE = 1 << 15  # elements of a loss up to which one block adds it up by itself
THREADS = (1024,)
NUMBERS = (int, float)
F32 = np.dtype(np.float32)
HALVES = ("float16", "bfloat16")
# The dtypes of two arrays that give float32.
MIXED = {pair for half in HALVES for pair in (("float32", half), (half, "float32"))}
# The results of these are contiguous, however the input lies.
IN_ORDER = (
    "rrelu_on_average",
    "rrelu_on_average_write",
    "rrelu_with_noise",
    "rrelu_with_noise_write",
)


def register(backend: Any, gpu: Gpu, reference: Any) -> None:
    each = Each(gpu)
    for name, expression in UNARY.items():
        backend.override(name)(unary_kernel(each, expression, reference(name)))
    for name, expression in WITH_NUMBERS.items():
        kernel = number_kernel(each, expression, reference(name))
        backend.override(name)(rounding(kernel, 1) if name in ROUNDS_NUMBERS else kernel)
    for name, expressions in ARITHMETIC.items():
        kernel = binary_kernel(each, *expressions, reference(name))
        backend.override(name)(kernel)
        backend.mixed[name] = mixed_kernel(each, expressions[0], kernel)
    for name, expression in PAIRS.items():
        backend.override(name)(pair_kernel(each, expression, reference(name)))
    for name, (count, expression) in SEVERAL.items():
        backend.override(name)(several_kernel(each, expression, count, reference(name)))
    for name, expression in PULLS.items():
        other = zero_where if name == "masked_by" else reference(name)
        kernel = pull_kernel(each, expression, other)
        backend.override(name)(rounding(kernel, 2) if name in ROUNDS_NUMBERS else kernel)
    for name, formulas in GRADIENTS.items():
        backend.pulls[name] = gradients(each, formulas)
    for name, (value, *slopes) in LOSSES.items():
        backend.override(name)(loss_kernel(each, name, value, reference(name)))
        backend.pulls[name] = loss_gradients(each, slopes)
    register_chosen(backend, each, reference)
    register_bounds(backend, each, reference)
    register_powers(backend, each, reference)
    for name in IN_ORDER:
        backend.override(name)(same_order_first(backend, backend.overrides[name]))
    cupy_gates.register(backend, gpu, reference)


class Each:
    """Elementwise kernels for arrays however they lie."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.array: Any = gpu.xp.ndarray
        self.orders = Plans(plan_order)
        self.totals = Plans(self.plan_total)

    def one(self, expression: str, x: Any, *numbers: float) -> Any:
        """An expression of one array; None if it has gaps, or is not of floats."""
        if contiguous_floats(x):
            return self.gpu.unary(expression, x, *numbers)
        return self.of(expression, (x,), numbers)

    def of(
        self,
        expression: str,
        arrays: Sequence[Any],
        numbers: tuple[float, ...] = (),
        once: Any = None,
    ) -> Any:
        """An expression of floats of one shape and dtype that lie alike; None if they do not.

        `once`, an array of one value, goes in front of the others.
        """
        first = arrays[0]
        if type(first) is not self.array or first.dtype not in NAMES:
            return None
        dtype, shape = first.dtype, first.shape
        straight = True
        for x in arrays:
            if type(x) is not self.array or x.dtype is not dtype or x.shape != shape:
                return None
            straight = straight and contiguous(x)
        back = None
        if not straight:
            strides = first.strides
            plan = self.orders.get((shape, strides, dtype.itemsize))
            if plan is None or any([x.strides != strides for x in arrays]):
                return None
            order, back = plan
            arrays = [x.transpose(order) for x in arrays]
        if once is None:
            out = self.gpu.combined(FORMS[len(arrays)], expression, arrays, numbers)
        else:
            form = FORMS[len(arrays) + 1] + "_once"
            out = self.gpu.combined(form, expression, (once, *arrays), numbers)
        return out if back is None else out.transpose(back)

    def pull(
        self, expression: str, grad: Any, arrays: Sequence[Any], numbers: tuple[float, ...] = ()
    ) -> Any:
        """An expression of a gradient and arrays; None for what it was not written for.

        The gradient may be one value for all, as that of a sum is; one array may be broadcast.
        """
        if not arrays:
            return self.scaled(expression, grad, numbers)
        first = arrays[0]
        if len(arrays) == 1 and type(first) is self.array and contiguous_floats(grad, first):
            return self.gpu.binary(expression, grad, first, *numbers)
        if type(first) is not self.array or first.dtype is not grad.dtype:
            return None
        if grad.shape == first.shape:
            out = self.of(expression, (grad, *arrays), numbers)
            if out is not None or any(grad.strides):
                return out
        if grad.ndim == 0 or not any(grad.strides):
            if grad.ndim and grad.shape != first.shape:
                return None
            return self.of(expression, arrays, numbers, once=grad)
        if len(arrays) == 1 and contiguous_floats(grad) and contiguous(first):
            out = self.gpu.binary_broadcast(expression, grad, first, *numbers)
            return out if out is not None and out.shape == grad.shape else None
        return None

    def scaled(self, expression: str, grad: Any, numbers: tuple[float, ...]) -> Any:
        """An expression of a gradient and numbers; one value for all stays one."""
        if contiguous(grad) or any(grad.strides):
            return self.one(expression, grad, *numbers)
        out = self.one(expression, grad[(0,) * grad.ndim], *numbers)
        return None if out is None else self.gpu.xp.broadcast_to(out, grad.shape)

    def total(self, expression: str, x: Any, y: Any, numbers: tuple[float, ...], mean: bool) -> Any:
        """The sum or mean of an expression of contiguous floats of one shape and dtype."""
        dtype = x.dtype
        run, end, count, sizes = self.totals.get((expression, len(numbers), x.size, dtype, mean))
        ndarray = self.gpu.xp.ndarray
        out = ndarray((), dtype)
        given = [real(dtype, s) for s in numbers]
        if end is None:
            run((1,), THREADS, (x, y, NOTHING, out, *sizes, *given))
        else:
            parts = ndarray((count,), accumulator(dtype))
            run((count,), THREADS, (x, y, parts, NOTHING, *sizes, *given))
            end((1,), THREADS, (parts, out, sizes[0], I32(count)))
        return out

    def plan_total(self, expression: str, numbers: int, n: int, dtype: Any, mean: bool) -> Any:
        """Kernels, number of blocks, and sizes."""
        run = self.gpu.elementwise("total", expression, dtype, numbers)
        count = 1 if n <= ALONE else min(-(-n // 8192), 512)
        chunk = -(-n // count)
        count = -(-n // chunk)
        end = self.gpu.kernel("SUMS", NAMES[dtype], "long_rows_end") if count > 1 else None
        return run, end, count, (real(dtype, n if mean else 1), I64(n), I64(chunk))


def zero_where(grad: Any, out: Any) -> Any:
    """`masked_by` for any arrays."""
    return DEVICE.xp.where(out <= 0, grad.dtype.type(0), grad)


# ---------------------------------------------------------------------- kernels by their tables


def unary_kernel(each: Each, expression: str, other: Any) -> Any:
    gpu = each.gpu

    def run(x: Any) -> Any:
        if contiguous_floats(x):
            return gpu.unary(expression, x)
        out = each.of(expression, (x,))
        return other(x) if out is None else out

    return run


def same_order_first(backend: Any, kernel: Any) -> Any:
    def run(x: Any, y: Any) -> Any:
        return kernel(x if contiguous(x) else backend.copied(x), y)

    return run


def number_kernel(each: Each, expression: str, other: Any) -> Any:
    gpu = each.gpu

    def run(x: Any, number: Any, *more: Any) -> Any:
        if not more and isinstance(number, NUMBERS) and contiguous_floats(x):
            return gpu.unary(expression, x, number)
        out = each.one(expression, x, number, *more) if all_real((number, *more)) else None
        return other(x, number, *more) if out is None else out

    return run


def rounding(kernel: Any, first: int) -> Any:
    """A kernel whose numbers, from argument `first` on, are rounded to the dtype of its array."""

    def run(*args: Any) -> Any:
        return kernel(*args[:first], *rounded(args[0].dtype, args[first:]))

    return run


def rounded(dtype: Any, numbers: tuple[Any, ...]) -> tuple[Any, ...]:
    """Numbers as a dtype has them, if that is half precision."""
    if dtype.itemsize != 2 or not all_real(numbers):
        return numbers
    with np.errstate(over="ignore"):
        return tuple([float(dtype.type(v)) for v in numbers])


def all_real(numbers: tuple[Any, ...]) -> bool:
    for number in numbers:  # noqa: SIM110 - once per op
        if not isinstance(number, NUMBERS):
            return False
    return True


def binary_kernel(each: Each, both: str, number: str, turned: str, other: Any) -> Any:
    gpu, device_array = each.gpu, each.array

    def run(x: Any, y: Any) -> Any:
        if type(x) is device_array:
            if type(y) is device_array:
                dtype = x.dtype
                if y.dtype is dtype and dtype in NAMES:
                    if contiguous(x) and contiguous(y):
                        if x.shape == y.shape:
                            return gpu.binary(both, x, y)
                        out = gpu.binary_broadcast(both, x, y)
                    else:
                        out = each.of(both, (x, y))
                    if out is not None:
                        return out
            elif isinstance(y, NUMBERS) and contiguous_floats(x):
                return gpu.unary(number, x, y)
        elif isinstance(x, NUMBERS) and type(y) is device_array and contiguous_floats(y):
            return gpu.unary(turned, y, x)
        return other(x, y)

    return run


def mixed_kernel(each: Each, both: str, kernel: Any) -> Any:
    """Half precision beside single, or beside a number, without a cast before."""
    gpu, device_array = each.gpu, each.array

    def run(x: Any, y: Any) -> Any:
        if type(x) is not device_array or type(y) is not device_array:
            array = x if type(x) is device_array else y
            number = y if array is x else x
            if (
                type(number) not in NUMBERS
                or array.dtype.itemsize != 2
                or not contiguous_floats(array)
            ):
                return None
            return kernel(x, y)
        kinds = NAMES.get(x.dtype), NAMES.get(y.dtype)
        if x.shape != y.shape or not contiguous(x) or not contiguous(y) or not x.size:
            return None
        if kinds not in MIXED:
            return None
        run = gpu.quick.get((both, kinds))
        if run is None:
            first, second = [ACCESS[kind] for kind in kinds]
            parts = {"does": both, "x": first[0], "read_x": first[1]}
            parts |= {"y": second[0], "read_y": second[1]}
            run = gpu.quick[(both, kinds)] = gpu.kernel("MIXED", "float32", "mixed", **parts)
        out = gpu.xp.ndarray(x.shape, F32)
        run(gpu.fours(x.size), BLOCK, (x, y, out, x.size))
        return out

    return run


def pair_kernel(each: Each, expression: str, other: Any) -> Any:
    gpu, device_array = each.gpu, each.array

    def run(x: Any, y: Any) -> Any:
        if type(x) is device_array and type(y) is device_array and x.dtype is y.dtype:
            out = each.of(expression, (x, y))
            if out is None and contiguous_floats(x) and contiguous(y):
                out = gpu.binary_broadcast(expression, x, y)
            if out is not None:
                return out
        return other(x, y)

    return run


def several_kernel(each: Each, expression: str, count: int, other: Any) -> Any:
    def run(*args: Any) -> Any:
        numbers = args[count:]
        if all_real(numbers):
            out = each.of(expression, args[:count], numbers)
            if out is not None:
                return out
        return other(*args)

    return run


def pull_kernel(each: Each, expression: str, other: Any) -> Any:
    gpu = each.gpu

    def run(grad: Any, y: Any, *numbers: Any) -> Any:
        if contiguous_floats(grad, y):
            return gpu.binary(expression, grad, y, *numbers)
        out = each.pull(expression, grad, (y,), numbers)
        return other(grad, y, *numbers) if out is None else out

    return run


class Reading:
    """A formula with the places of what it reads in `Node.kept`."""

    def __init__(self, op: Any, formula: tuple[str, str]) -> None:
        self.expression, names = formula
        places = (*op.tensors, *op.outs, *op.attrs)
        found = [places.index(name) for name in names.split()]
        first = len(op.tensors) + len(op.outs)
        self.arrays = tuple([k for k in found if k < first])
        self.numbers = tuple([k for k in found if k >= first])
        self.simple = len(self.arrays) == 1 and not self.numbers
        self.with_number = re.sub(r"\bb\b", "s", self.expression)  # for a number in its place


def gradients(each: Each, formulas: tuple[Formula, ...]) -> Callable[..., Any]:
    """All gradients of an op, a launch each; None where its rules have to do it."""
    readings: list[Reading | None] = []
    gpu, device_array = each.gpu, each.array

    def pulled(reading: Reading, grad: Any, kept: Any) -> Any:
        arrays = [kept[k] for k in reading.arrays]
        if reading.simple:
            y = arrays[0]
            if type(y) is device_array:
                if contiguous_floats(grad, y):
                    return gpu.binary(reading.expression, grad, y)
            elif isinstance(y, NUMBERS):
                return each.scaled(reading.with_number, grad, (y,))
        numbers = tuple([kept[k] for k in reading.numbers])
        return each.pull(reading.expression, grad, arrays, numbers) if all_real(numbers) else None

    def run(node: Any, grad: Any, kept: Any) -> Any:
        if not readings:
            readings.extend([None if f is None else Reading(node.op, f) for f in formulas])
        found: list[Any] = []
        for i, edge in enumerate(node.edges):
            g = None
            if edge is not None:
                reading = readings[i]
                g = grad if reading is None else pulled(reading, grad, kept)
                if g is None:
                    return None
                if node.fixes is not None:
                    g = node.finish(DEVICE.space, i, g)
            found.append(g)
        return found

    return run


# ---------------------------------------------------------------------- losses


def loss_kernel(each: Each, name: str, value: str, other: Any) -> Any:
    """Attributes are the reduction and numbers; what is between the tensors and it are weights."""

    def run(x: Any, y: Any, *rest: Any) -> Any:
        place = [type(v) for v in rest].index(str)
        reduction, *numbers = rest[place:]
        fits = not any([w is not None for w in rest[:place]])
        if name == "huber_loss":
            fits = numbers.pop() == x.dtype  # the dtype of the result
        if not fits or not contiguous_floats(x, y) or not x.size:
            return other(x, y, *rest)
        if reduction == "none":
            return each.gpu.binary(value, x, y, *numbers)
        return each.total(value, x, y, tuple(numbers), reduction == "mean")

    return run


def loss_gradients(each: Each, slopes: list[Formula]) -> Callable[..., Any]:
    def run(node: Any, grad: Any, kept: Any) -> Any:
        width = node.op.width
        if any([w is not None for w in kept[2:width]]):
            return None
        reduction = kept[width + 1]
        numbers = tuple([v for v in kept[width + 2 :] if type(v) is float])
        found: list[Any] = [None] * width
        for i, slope in enumerate(slopes):
            if node.edges[i] is None or slope is None:
                continue
            expression, names = slope
            arrays = kept[:2] if names == "input target" else kept[:1]
            share = 1.0
            if reduction == "mean" and arrays[0] is not None:
                share = 1.0 / max(math.prod(arrays[0].shape), 1)
            g = each.pull(expression, grad, arrays, (share, *numbers))
            if g is None:
                return None
            found[i] = g if node.fixes is None else node.finish(DEVICE.space, i, g)
        return found

    return run


# ---------------------------------------------------------------------- kernels of their own


def register_chosen(backend: Any, each: Each, reference: Any) -> None:
    """Ops with an attribute that chooses the expression."""
    shared = reference("gelu"), reference("gelu_backward"), reference("elu_backward")

    @backend.override("gelu")
    def gelu(input: Any, approximate: str) -> Any:
        out = each.one(GELU[approximate], input)
        return shared[0](input, approximate) if out is None else out

    @backend.override("gelu_backward")
    def gelu_backward(grad_output: Any, input: Any, approximate: str) -> Any:
        out = each.pull(GELU_PULL[approximate], grad_output, (input,))
        return shared[1](grad_output, input, approximate) if out is None else out

    @backend.override("elu_backward")
    def elu_backward(grad_output: Any, input: Any, *attrs: Any) -> Any:
        *numbers, is_result = attrs
        expression = ELU_PULL[bool(is_result)]
        out = each.pull(expression, grad_output, (input,), tuple(numbers))
        return shared[2](grad_output, input, *attrs) if out is None else out

    other = reference("rsub_scalar")

    @backend.override("rsub_scalar")
    def rsub_scalar(input: Any, number: Any, alpha: Any) -> Any:
        out = None
        if alpha == 1 and isinstance(number, NUMBERS):
            out = each.one("s - a", input, number)
        return other(input, number, alpha) if out is None else out


def bound_of(low: Any, high: Any) -> tuple[str, str, tuple[float, ...]] | None:
    """The value and its gradient between bounds, and the bounds; None if they are odd."""
    numbers = tuple([v for v in (low, high) if v is not None])
    if not all_real(numbers) or any([v != v for v in numbers]):
        return None
    if high is None:
        return "at_least(a, s)", "b >= s ? a : (A)0", numbers
    if low is None:
        return "a > s ? s : a", "b <= s ? a : (A)0", numbers
    return "bounded(a, s, t)", "b >= s && b <= t ? a : (A)0", numbers


def register_bounds(backend: Any, each: Each, reference: Any) -> None:
    def kernel(other: Any) -> Any:
        def run(input: Any, low: Any, high: Any) -> Any:
            found = bound_of(low, high)
            out = None
            if found is not None:
                out = each.one(found[0], input, *rounded(input.dtype, found[2]))
            return other(input, low, high) if out is None else out

        return run

    def pull(node: Any, grad: Any, kept: Any) -> Any:
        found = bound_of(*kept[2:4])
        if found is None or node.fixes is not None:
            return None
        g = each.pull(found[1], grad, (kept[0],), rounded(grad.dtype, found[2]))
        return None if g is None else [g]

    for name in ("clamp_scalar", "clamp_min_scalar", "clamp_max_scalar"):
        backend.override(name)(kernel(reference(name)))
        backend.pulls[name] = pull


def register_powers(backend: Any, each: Each, reference: Any) -> None:
    other = reference("pow_scalar")

    @backend.override("pow_scalar")
    def pow_scalar(input: Any, exponent: Any) -> Any:
        out = None
        if isinstance(exponent, NUMBERS) and exponent not in (0, 1):
            short = POWERS.get(exponent)
            if short is not None:
                out = each.one(short, input)
            else:
                out = each.one("pow(a, s)", input, exponent)
        return other(input, exponent) if out is None else out

    def pull(node: Any, grad: Any, kept: Any) -> Any:
        exponent = kept[2]
        if not isinstance(exponent, NUMBERS) or exponent in (0, 1) or node.fixes is not None:
            return None
        short = POWER_PULLS.get(exponent)
        if short is not None:
            g = each.pull(short, grad, (kept[0],), (exponent,))
        else:
            g = each.pull("a * (s * pow(b, t))", grad, (kept[0],), (exponent, exponent - 1))
        return None if g is None else [g]

    backend.pulls["pow_scalar"] = pull
