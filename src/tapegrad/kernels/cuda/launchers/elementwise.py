"""Elementwise kernels of the GPU: one launch each for activations, arithmetic and losses.

What they compute comes from the blocks (../formulas.py): every elementwise op of up to three arrays
has such a kernel, and so have its gradients, unless its formula asks for more than elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....core.devices import DEVICE
from ....core.op import REGISTRY, Op
from ....expressions.cuda import TRACED
from ..cublas import NAMES
from ..formulas import (
    ARRAY,
    Formula,
    Formulas,
    OfArrays,
    of_forward,
    of_rule,
    of_shared_rule,
)
from ..programs import compiled, formula_file
from . import gates as cupy_gates
from .kernels import BLOCK, I32, I64, NOTHING, Gpu, accumulator, contiguous_floats, real
from .moves import MANY, U32, Plans, contiguous, plan_order

FORMS = ("", "unary", "binary", "ternary")
ALONE = 1 << 15  # elements of a loss up to which one block adds it up by itself
THREADS = (1024,)
NUMBERS = (int, float)
F32 = np.dtype(np.float32)
HALVES = ("float16", "bfloat16")
# The dtypes of two arrays that give float32.
MIXED = {pair for half in HALVES for pair in (("float32", half), (half, "float32"))}
ARITHMETIC = ("add", "sub", "mul", "div")
COUNTERS = {np.dtype(np.int64): "index64", np.dtype(np.int32): "index32"}
MOST_COUNTED = 1 << 31
# The results of these are contiguous, whatever the strides of the input.
IN_ORDER = (
    "rrelu_on_average",
    "rrelu_on_average_write",
    "rrelu_with_noise",
    "rrelu_with_noise_write",
)
# Ops that compare with their numbers as the array's dtype has them, not as single precision does.
ROUNDS_NUMBERS = frozenset(
    """
    clamp_max_scalar clamp_min_scalar clamp_scalar hardshrink hardtanh shrink_backward softshrink
    softshrink_backward threshold threshold_backward threshold_write
    """.split()
)
SLOPE_ROUNDS_NUMBERS = ROUNDS_NUMBERS - {"hardtanh"}  # PyTorch's backward kernel of it does not
# Losses of an input and a target, which are elementwise up to their reductions.
LOSSES = """
mse_loss mse_loss_mixed smooth_l1_loss huber_loss soft_margin_loss binary_cross_entropy
binary_cross_entropy_with_logits
""".split()


def register(backend: Any, gpu: Gpu, reference: Any) -> None:
    each = Each(gpu)
    backend.elementwise = Elementwise(backend, each)
    for name in LOSSES:
        backend.override(name)(loss_kernel(each, name, reference(name)))
        backend.pulls[name] = loss_gradients(each)
    # A helper of relu's rule.
    backend.override("masked_by")(binary_kernel(each, Formulas(masked), zero_where))
    cupy_gates.register(backend, gpu, reference)


class Elementwise:
    """Gives elementwise ops their kernels, and the gradients of each input a kernel."""

    def __init__(self, backend: Any, each: Each) -> None:
        self.backend = backend
        self.each = each

    @staticmethod
    def takes(op: Op) -> bool:
        return op.elementwise and op.single and not op.variadic and not op.view and op.width < 4

    def kernel(self, op: Op, other: Any) -> Any:
        """A kernel that runs `other` where the arrays are not such that a formula takes them."""
        if not self.takes(op):
            return other
        formulas = of_forward(op)
        if op.attrs or op.width > 2:
            made = kernel_with_numbers(self.each, formulas, op.width, other)
        else:
            if op.width == 1:
                made = unary_kernel(self.each, formulas, other)
            else:
                made = binary_kernel(self.each, formulas, other, op.name == "add")
        if op.name in ARITHMETIC:
            self.backend.mixed[op.name] = mixed_kernel(self.each, formulas, made)
        if op.name in ROUNDS_NUMBERS:
            made = rounding(made, op.width)
        if op.name in IN_ORDER:
            made = same_order_first(self.backend, made)
        return made

    def pull(self, op: Op) -> Any:
        """All gradients of an op, a launch each; None if it has no rule per input."""
        if not self.takes(op) or not op.rules or op.joint is not None:
            return None
        return gradients(self.each, op)


class Each:
    """Elementwise kernels for arrays of any strides."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.array: Any = gpu.xp.ndarray
        self.orders = Plans(plan_order)
        self.totals = Plans(self.plan_total)

    def one(self, formula: Formula, x: Any, *numbers: float) -> Any:
        """A formula of one array; None if it has gaps, or is not of floats."""
        if contiguous_floats(x):
            return self.gpu.unary(formula, x, *numbers)
        return self.of(formula, (x,), numbers)

    def of(
        self,
        formula: Formula,
        arrays: Sequence[Any],
        numbers: tuple[float, ...] = (),
        once: Any = None,
    ) -> Any:
        """A formula of floats of one shape, dtype and memory order; None if they differ.

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
            out = self.gpu.combined(FORMS[len(arrays)], formula, arrays, numbers)
        else:
            form = FORMS[len(arrays) + 1] + "_once"
            out = self.gpu.combined(form, formula, (once, *arrays), numbers)
        return out if back is None else out.transpose(back)

    def pull(
        self, formula: Formula, grad: Any, arrays: Sequence[Any], numbers: tuple[float, ...] = ()
    ) -> Any:
        """A formula of a gradient and arrays; None for what it was not written for.

        The gradient may be one value for all, as that of a sum is; one array may be broadcast.
        """
        if not arrays:
            return self.scaled(formula, grad, numbers)
        first = arrays[0]
        if len(arrays) == 1 and type(first) is self.array and contiguous_floats(grad, first):
            return self.gpu.binary(formula, grad, first, *numbers)
        if type(first) is not self.array or first.dtype is not grad.dtype:
            return None
        if grad.shape == first.shape:
            out = self.of(formula, (grad, *arrays), numbers)
            if out is not None or any(grad.strides):
                return out
        if grad.ndim == 0 or not any(grad.strides):
            if grad.ndim and grad.shape != first.shape:
                return None
            return self.of(formula, arrays, numbers, once=grad)
        if len(arrays) == 1 and contiguous_floats(grad) and contiguous(first):
            out = self.gpu.binary_broadcast(formula, grad, first, *numbers)
            return out if out is not None and out.shape == grad.shape else None
        return None

    def scaled(self, formula: Formula, grad: Any, numbers: tuple[float, ...]) -> Any:
        """A formula of a gradient and numbers; one value for all stays one."""
        if contiguous(grad) or any(grad.strides):
            return self.one(formula, grad, *numbers)
        out = self.one(formula, grad[(0,) * grad.ndim], *numbers)
        return None if out is None else self.gpu.xp.broadcast_to(out, grad.shape)

    def total(
        self,
        formula: Formula,
        arrays: tuple[Any, ...],
        numbers: tuple[float, ...],
        mean: bool,
    ) -> Any:
        """The sum or mean of a formula of contiguous floats of one shape and dtype.

        A third array are weights, and then their `repeats`.
        """
        x = arrays[0]
        dtype = x.dtype
        run, end, count, sizes = self.totals.get((formula, x.size, mean))
        ndarray = self.gpu.xp.ndarray
        out = ndarray((), dtype)
        given = [real(dtype, s) for s in numbers]
        if end is None:
            run((1,), THREADS, (*arrays, NOTHING, out, *sizes, *given))
        else:
            parts = ndarray((count,), accumulator(dtype))
            run((count,), THREADS, (*arrays, parts, NOTHING, *sizes, *given))
            end((1,), THREADS, (parts, out, sizes[0], I32(count)))
        return out

    def weighted(self, formula: Formula, arrays: Sequence[Any], numbers: tuple[float, ...]) -> Any:
        """A formula of two arrays and weights, with their `repeats`."""
        x = arrays[0]
        run = formula.kernels.get("weighted") or self.gpu.elementwise("weighted", formula)
        out = self.gpu.xp.ndarray(x.shape, x.dtype)
        given = [real(x.dtype, s) for s in numbers]
        run(self.gpu.grid(x.size), BLOCK, (*arrays, out, U32(x.size), *given))
        return out

    def weighed(
        self, formula: Formula, grad: Any, arrays: Sequence[Any], numbers: tuple[float, ...]
    ) -> Any:
        """The gradient of a weighted loss, from one value for all elements or one for each."""
        x = arrays[0]
        dtype = x.dtype
        run = formula.kernels.get("weighed") or self.gpu.elementwise("weighed", formula)
        out = self.gpu.xp.ndarray(x.shape, dtype)
        given = [real(dtype, s) for s in numbers]
        sizes = (U32(x.size), U32(grad.ndim != 0 and any(grad.strides)))
        run(self.gpu.grid(x.size), BLOCK, (grad, *arrays, out, *sizes, *given))
        return out

    def plan_total(self, formula: Formula, n: int, mean: bool) -> Any:
        """Kernels, number of blocks, and sizes."""
        dtype = formula.dtype
        form = "total" if len(formula.arrays) == 2 else "weights"
        run = self.gpu.elementwise(form, formula)
        count = 1 if n <= ALONE else min(-(-n // 8192), 512)
        chunk = -(-n // count)
        count = -(-n // chunk)
        end = self.gpu.kernel("sums.cu", NAMES[dtype], "long_rows_end") if count > 1 else None
        return run, end, count, (real(dtype, n if mean else 1), I64(n), I64(chunk))


# ---------------------------------------------------------------------- kernels


def masked(values: Sequence[Any]) -> Any:
    """The formula of `masked_by`, a function of (grad, out)."""
    grad, out = values
    return TRACED.where(out <= 0, 0, grad)


def zero_where(grad: Any, out: Any) -> Any:
    """`masked_by` for any arrays."""
    return DEVICE.xp.where(out <= 0, grad.dtype.type(0), grad)


def unary_kernel(each: Each, formulas: Formulas, other: Any) -> Any:
    gpu, device_array = each.gpu, each.array
    by_dtype = OfArrays(formulas, 1)

    def run(x: Any) -> Any:
        formula = by_dtype[x.dtype] if type(x) is device_array else None
        if formula is not None:
            if contiguous(x):
                return gpu.unary(formula, x)
            out = each.of(formula, (x,))
            if out is not None:
                return out
        return other(x)

    return run


def same_order_first(backend: Any, kernel: Any) -> Any:
    def run(x: Any, y: Any) -> Any:
        return kernel(x if contiguous(x) else backend.copied(x), y)

    return run


def binary_kernel(each: Each, formulas: Formulas, other: Any, counts: bool = False) -> Any:
    """One operand may be a number; adding a number to integers counts them up in place."""
    gpu, device_array = each.gpu, each.array
    both = OfArrays(formulas, 2)

    def run(x: Any, y: Any) -> Any:
        out = None
        if type(x) is device_array:
            if type(y) is device_array:
                dtype = x.dtype
                formula = both[dtype] if y.dtype is dtype else None
                if formula is not None:
                    if contiguous(x) and contiguous(y):
                        if x.shape == y.shape:
                            return gpu.binary(formula, x, y)
                        out = gpu.binary_broadcast(formula, x, y)
                    else:
                        out = each.pull(formula, x, (y,))
            elif isinstance(y, NUMBERS):
                out = with_one(each, formulas, x, (ARRAY, y))
        elif isinstance(x, NUMBERS) and type(y) is device_array:
            out = with_one(each, formulas, y, (x, ARRAY))
        return other(x, y) if out is None else out

    def into(out: Any, x: Any, y: Any) -> bool:
        """Write the result to `out`, which may be `x`; False if there is no kernel for that."""
        dtype = x.dtype
        if not contiguous(x):
            return False
        if type(y) is device_array:
            formula = both[dtype] if y.dtype is dtype else None
            if formula is None or y.shape != x.shape or not contiguous(y):
                return False
            if y is not x and y.data.mem is out.data.mem:
                return False
            gpu.combined("binary", formula, (x, y), (), out)
            return True
        formula, numbers = formulas.of(dtype, (ARRAY, y))
        if formula is None:
            return counts and count_on(gpu, out, x, y)
        gpu.combined("unary", formula, (x,), numbers, out)
        return True

    run.into = into  # type: ignore[attr-defined]
    return run


def count_on(gpu: Gpu, out: Any, x: Any, y: Any) -> bool:
    """Add an integer to integers in their place, as counters do."""
    kind = COUNTERS.get(x.dtype)
    if kind is None or type(y) is not int or x is not out:
        return False
    if not -MOST_COUNTED < y < MOST_COUNTED:
        return False
    n = x.size
    if n:
        gpu.kernel("integers.cu", kind, "count_on")(gpu.grid(n), BLOCK, (x, n, y))
    return True


def with_one(each: Each, formulas: Formulas, x: Any, values: tuple[Any, ...]) -> Any:
    """The result of one array among numbers; None if there is no formula for it."""
    formula, numbers = formulas.of(x.dtype, values)
    return None if formula is None else each.one(formula, x, *numbers)


def kernel_with_numbers(each: Each, formulas: Formulas, count: int, other: Any) -> Any:
    """Of `count` arrays and attributes. The first array may be one value for all elements."""
    device_array = each.array
    arrays = (ARRAY,) * count

    def run(*args: Any) -> Any:
        first = args[0]
        if type(first) is not device_array:
            return other(*args)
        formula, numbers = formulas.of(first.dtype, arrays + args[count:])
        if formula is not None:
            if count == 1:
                out = each.one(formula, first, *numbers)
            else:
                out = each.pull(formula, first, args[1:count], numbers)
            if out is not None:
                return out
        return other(*args)

    return run


def rounding(kernel: Any, first: int) -> Any:
    """A kernel whose numbers, from argument `first` on, are rounded to the dtype of its array."""

    def run(*args: Any) -> Any:
        return kernel(*args[:first], *rounded(args[0].dtype, args[first:]))

    return run


def rounded(dtype: Any, numbers: tuple[Any, ...]) -> tuple[Any, ...]:
    """Numbers as a dtype has them, if that is half precision."""
    if dtype.itemsize != 2 or dtype not in NAMES:
        return numbers
    with np.errstate(over="ignore"):
        return tuple([float(dtype.type(v)) if isinstance(v, NUMBERS) else v for v in numbers])


def mixed_kernel(each: Each, formulas: Formulas, kernel: Any) -> Any:
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
        formula = formulas.of(F32, (ARRAY, ARRAY))[0]
        assert formula is not None
        run = formula.kernels.get(kinds)
        if run is None:
            words = dict(zip(("X_DTYPE", "Y_DTYPE"), kinds, strict=True))
            made, words["MIXED"] = formula_file(formula.text), "1"
            run = compiled(gpu.xp, "elementwise.cu", "float32", "mixed", words, made)
            formula.kernels[kinds] = run
        out = gpu.xp.ndarray(x.shape, F32)
        run(gpu.fours(x.size), BLOCK, (x, y, out, x.size))
        return out

    return run


# ---------------------------------------------------------------------- gradients


def gradients(each: Each, op: Op) -> Callable[..., Any]:
    """All gradients of an op, a launch each; None where its rules have to do it."""
    rules = [rule and of_rule(op, i) for i, rule in enumerate(op.rules)]
    count = op.width + len(op.outs)
    end = count + len(op.attrs)
    arrays = (ARRAY,) * (1 + count)
    rounds = op.name in SLOPE_ROUNDS_NUMBERS
    device_array = each.array

    def pulled(formulas: Formulas, grad: Any, kept: Any) -> Any:
        dtype = grad.dtype
        attrs = kept[count:end]
        if rounds:
            attrs = rounded(dtype, attrs)
        formula, numbers = formulas.of(dtype, arrays + attrs)
        if formula is None or formula.given:
            return None if formula is None else grad
        others = [kept[i - 1] for i in formula.arrays[1:]]
        if any([type(x) is not device_array for x in others]):
            # Operands may be numbers in the place of tensors.
            tensors = [x if isinstance(x, NUMBERS) else ARRAY for x in kept[:count]]
            formula, numbers = formulas.of(dtype, (ARRAY, *tensors, *attrs))
            if formula is None:
                return None
            others = [kept[i - 1] for i in formula.arrays[1:]]
        return each.pull(formula, grad, others, numbers)

    def run(node: Any, grad: Any, kept: Any) -> Any:
        joins = each.gpu.joins
        if joins is None:
            return all_of(node, grad, kept)
        joins.versions = node._cells[2::3]
        try:
            return all_of(node, grad, kept)
        finally:
            joins.versions = ()

    def all_of(node: Any, grad: Any, kept: Any) -> Any:
        found: list[Any] = []
        for i, edge in enumerate(node._edges):
            g = None
            if edge is not None:
                formulas = rules[i]
                g = None if formulas is None else pulled(formulas, grad, kept)
                if g is None:
                    return None
                if node._fixes is not None:
                    g = node.finish(DEVICE.space, i, g)
            found.append(g)
        return found

    return run


# ---------------------------------------------------------------------- losses


def loss_kernel(each: Each, name: str, other: Any) -> Any:
    """Attributes are the reduction and numbers; what is between the tensors and it are weights."""
    formulas = Formulas(lambda values: REGISTRY[name].forward(TRACED.xp, *values))

    def run(x: Any, y: Any, *rest: Any) -> Any:
        place = [type(v) for v in rest].index(str)
        reduction, *attrs = rest[place:]
        weights = [w for w in rest[:place] if w is not None]
        again = repeats(x, weights) if weights else ()
        fits = again is not None
        if name == "huber_loss":
            fits = attrs[-1] == x.dtype  # the dtype of the result
            attrs[-1] = accumulator(x.dtype)
        formula = None
        if fits and contiguous_floats(x, y) and x.size:
            given = [None if w is None else ARRAY for w in rest[:place]]
            values = (ARRAY, ARRAY, *given, "none", *attrs)
            formula, numbers = formulas.of(x.dtype, values)
        if formula is None:
            return other(x, y, *rest)
        if reduction == "none":
            if again:
                return each.weighted(formula, (x, y, *weights, *again), numbers)
            return each.gpu.binary(formula, x, y, *numbers)
        return each.total(formula, (x, y, *weights, *again), numbers, reduction == "mean")

    return run


def repeats(x: Any, weights: Sequence[Any]) -> tuple[Any, Any] | None:
    """For how many elements of `x` each of the weights stays, and how many there are.

    None for two kinds of weights, and for those that are not broadcast in such a simple way.
    """
    w = weights[0]
    if len(weights) != 1 or type(w) is not type(x) or w.dtype is not x.dtype or w.ndim > x.ndim:
        return None
    gap = x.ndim - w.ndim
    own = [d for d in range(w.ndim) if w.shape[d] != 1 and w.strides[d]]
    if not 0 < x.size < MANY:
        return None
    if not own:
        return U32(1), U32(1)
    step = w.dtype.itemsize
    for d in range(own[-1], own[0] - 1, -1):
        if w.shape[d] != x.shape[gap + d] or (w.shape[d] != 1 and w.strides[d] != step):
            return None
        step *= w.shape[d]
    stays = math.prod(x.shape[gap + own[-1] + 1 :])
    return U32(stays), U32(math.prod(w.shape[own[0] : own[-1] + 1]))


def loss_gradients(each: Each) -> Callable[..., Any]:
    rules: list[Formulas | None] = []

    def run(node: Any, grad: Any, kept: Any) -> Any:
        op = node._op
        width, end = op.width, op.width + 1 + len(op.attrs)
        x, y, *given_weights = kept[:width]
        weights = [w for w in given_weights if w is not None]
        again = None
        if weights:
            if x is None or y is None or not contiguous_floats(x, y):
                return None
            again = repeats(x, weights)
            every = contiguous(grad) and grad.shape == x.shape
            if again is None or not (every or not any(grad.strides)):
                return None
        if not rules:
            rules.extend([rule and of_shared_rule(op, i) for i, rule in enumerate(op.rules)])
        reduction, *attrs = [
            v if isinstance(v, (*NUMBERS, str)) else None for v in kept[width + 1 : end]
        ]
        found: list[Any] = [None] * width
        for i, formulas in enumerate(rules):
            if node._edges[i] is None or formulas is None:
                continue
            share = 1.0
            if reduction == "mean" and x is not None:
                share = 1.0 / max(math.prod(x.shape), 1)
            # The gradient and its share, input and target, weights, the result, attributes.
            given = [None if w is None else ARRAY for w in given_weights]
            values = (ARRAY, share, ARRAY, ARRAY, *given, ARRAY, "none", *attrs)
            formula, numbers = formulas.of(grad.dtype, values)
            if formula is None:
                return None
            arrays = [kept[place - 2] for place in formula.arrays[1:]]
            if again is not None:
                same = [a is b for a, b in zip(arrays, (x, y, *weights), strict=False)]
                if len(arrays) != 3 or not all(same) or grad.dtype is not x.dtype:
                    return None
                g = each.weighed(formula, grad, (*arrays, *again), numbers)
            elif len(arrays) > 2:
                return None
            else:
                g = each.pull(formula, grad, arrays, numbers)
            if g is None:
                return None
            found[i] = g if node._fixes is None else node.finish(DEVICE.space, i, g)
        return found

    return run
