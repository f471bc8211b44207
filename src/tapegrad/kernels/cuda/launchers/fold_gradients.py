"""Gradients of variances, norms and logarithms of sums on the GPU: one launch each.

The gradient of an element comes from the block: its rule runs on symbols, with numbers for the
values that a row has once (the gradient, the result, a sum over the row). The kernel forms that
sum, if the rule asks for one, and then every element (sources/fold_gradients.cu).
"""

from __future__ import annotations

from typing import Any

from ....core.devices import DEVICE
from ....core.op import REGISTRY, Op
from ....expressions.cuda import XP, function_text
from ....expressions.expressions import Expression, Maker
from ....expressions.symbols import Number, Symbol, Untraceable
from ....expressions.trace import TracedSpace
from ..cublas import NAMES
from ..formulas import F32, F64, NUMBERS, of_numbers, value_of
from ..programs import compiled, formula_file
from .folds import Folds
from .kernels import BLOCK, I32, I64, NOTHING, SQUARE, folded, real
from .moves import Plans, contiguous

# What the arguments of a formula are called, and their places: the gradient, the input, the
# result, the gradient of a second result, a sum over the row, how long that is, a correction.
LETTERS = "abcdm"
GRAD, INPUT, OUT, GRAD_2, SUM, LENGTH, CORRECTION = range(7)
REDUCED = "var std var_mean std_mean logsumexp linalg_vector_norm norm_along".split()


class RowSpace(TracedSpace):
    """`F` for the rules of reductions of one row: a sum over it is one more number."""

    def __init__(self, maker: Maker, length: Any) -> None:
        super().__init__(XP)
        self.maker = maker
        self.length = length
        self.summed: Expression | None = None

    def unsqueeze(self, x: Any, dim: int) -> Any:
        return x

    def real_part(self, x: Any) -> Any:
        return x

    def sum(self, x: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
        if self.summed is not None:
            raise Untraceable("a second sum over a row")
        self.summed = x.expression
        return Symbol(self.maker, self.maker.input(SUM), x.dtype)

    def mean(self, x: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
        return self.sum(x, dim, keepdim, dtype) / self.length


class Elements(Symbol):
    """The elements of a row, whose length is a number of the call."""

    length: Any = None

    @property
    def shape(self) -> Any:  # type: ignore[override]
        return (self.length,)


class RowRule:
    """The gradient of a reduction as CUDA C, for one dtype and one way through its rule."""

    def __init__(self, op: Op, dtype: Any, options: tuple[Any, ...], numbers: Any) -> None:
        maker = Maker()
        inner = F64 if dtype.itemsize == 8 else F32
        a, x, out, b = [Symbol(maker, maker.input(i), inner) for i in range(SUM)]
        length, correction = [
            Number(maker, maker.input(LENGTH + i), inner, float(value))
            for i, value in enumerate(numbers)
        ]
        F = RowSpace(maker, length)
        elements = Elements(maker, x.expression, inner)
        elements.length = length
        attrs = [correction if name == "correction" else v for name, v in options]
        grad = a if len(op.outs) == 1 else [a, b]
        rule = op.rules[0]
        assert rule is not None
        result = rule.call(F, grad, (elements, *[out] * len(op.outs), *attrs)).expression
        self.sums = F.summed
        self.numbers = of_numbers(result, {LENGTH, CORRECTION})
        arrays = [(LETTERS[i], maker.input(i)) for i in range(SUM + 1)]
        given = list(zip(NUMBERS, self.numbers, strict=False))
        text = function_text("formula", result, [*arrays, *given], False)
        summed = maker.number(0.0) if self.sums is None else self.sums
        text = function_text("summed", summed, arrays[:SUM], False) + text
        letters = [letter for letter, _ in given]
        self.file = formula_file(text, letters)
        self.kernels: dict[str, Any] = {}

    @property
    def of_inputs(self) -> bool:
        """Whether the sum is that of the elements themselves."""
        return self.sums is not None and self.sums.name == "input" and self.sums.value[0] == INPUT

    def values(self, dtype: Any, numbers: tuple[float, float]) -> list[Any]:
        given = (None,) * LENGTH + numbers
        return [real(dtype, float(value_of(e, given))) for e in self.numbers]


class FoldGradients:
    """Gradients of reductions: one kernel per op, made from the rule of its block."""

    def __init__(self, folds: Folds) -> None:
        self.folds = folds
        self.gpu = folds.gpu
        self.shapes = Plans(folded_shape)
        self.rules: dict[Any, RowRule | None] = {}

    def rule(self, op: Op, dtype: Any, options: Any, numbers: Any, free: bool) -> RowRule | None:
        """The kernel's rule; None if the block's own has to run.

        It depends on the order of a norm, and on whether there are degrees of freedom at all.
        """
        key = (op.name, dtype, free, options)
        if key not in self.rules:
            try:
                self.rules[key] = RowRule(op, dtype, options, numbers)
            except Exception:  # whatever a rule cannot do with symbols, it may do with arrays
                self.rules[key] = None
        return self.rules[key]

    def kernel(self, rule: RowRule, dtype: Any, name: str) -> Any:
        found = rule.kernels.get(name)
        if found is None:
            words = {"SUMS": int(rule.sums is not None)}
            found = rule.kernels[name] = compiled(
                self.gpu.xp, "fold_gradients.cu", NAMES[dtype], name, words, rule.file
            )
        return found

    def pull(self, node: Any, grad: Any, kept: Any) -> Any:
        """The gradients of a node of one of these ops; None where its own rules have to run."""
        if node.mixed or node._edges[0] is None:
            return None
        g = self.run(node._op, grad, kept)
        return None if g is None else [node.finish(DEVICE.space, 0, g)]

    def run(self, op: Op, grad: Any, kept: Any) -> Any:
        """The gradient of the input; None where the block's rule has to find it."""
        x, device_array = kept.input, self.gpu.xp.ndarray
        dtype = x.dtype
        if dtype not in NAMES or not contiguous(x) or not x.size:
            return None
        grads = [*grad] if len(op.outs) == 2 else [grad]
        if not all([type(g) is device_array and g.dtype is dtype for g in grads]):
            return None
        attrs = {name: getattr(kept, name) for name in op.attrs}
        dim, correction = attrs["dim"], attrs.get("correction", 0)
        shape = self.shapes.get((x.shape, dim)) if type(dim) is not list else None
        if shape is None or type(correction) not in (int, float):
            return None
        down, rows, n = shape
        length = rows if down else n
        free = length > correction
        if not free and "correction" in attrs:
            return None
        numbers = (float(length), float(correction))
        attrs.update(dim=(0,), keepdim=True, correction=0)
        options = tuple([(name, attrs[name]) for name in op.attrs])
        rule = self.rule(op, dtype, options, numbers, free)
        if rule is None:
            return None
        # One value for all rows, as the gradient of a sum is, needs no copy.
        copied = self.folds.backend.copied
        grads = [g if contiguous(g) or not any(g.strides) else copied(g) for g in grads]
        second = grads[-1] if len(grads) == 2 else NOTHING
        apart = [I64(contiguous(g) and g.size > 1) for g in (grads[0], grads[-1])]
        first_out = getattr(kept, op.outs[0])
        out = NOTHING if first_out is None else first_out
        given = rule.values(dtype, numbers)
        made = device_array(x.shape, dtype)
        arrays = (grads[0], second, out, x, made)
        whole = self.folds.plans.get((x.shape, dim, True, dtype, "norm1"))
        if rule.sums is None or whole is None:
            total = NOTHING
            if rule.sums is not None:
                total = self.total(rule, x, dim)
                if total is None:
                    return None
            kernel = self.kernel(rule, dtype, "back_each")
            sizes = (I64(x.size), I64(n), I32(down), *apart)
            kernel(self.gpu.grid(x.size), BLOCK, (*arrays, total, *sizes, *given))
        elif down:
            kernel = self.kernel(rule, dtype, "back_columns")
            kernel(whole.grid, SQUARE, (*arrays, I64(rows), I64(n), *apart, *given))
        else:
            kernel = self.kernel(rule, dtype, "back_rows")
            kernel(whole.grid, whole.block, (*arrays, I64(n), *apart, *given))
        return made

    def total(self, rule: RowRule, x: Any, dim: Any) -> Any:
        """The sums of few and very long rows, for which there are several blocks; or None."""
        if not rule.of_inputs or x.dtype.itemsize < 4:
            return None
        return self.gpu.summed(x, dim, False, False)


def folded_shape(shape: tuple[int, ...], dim: Any) -> Any:
    return folded(shape, dim)


def register(backend: Any, folds: Folds) -> None:
    gradients = FoldGradients(folds)
    for name in REDUCED:
        assert name in REGISTRY
        backend.pulls[name] = gradients.pull
