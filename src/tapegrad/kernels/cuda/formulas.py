"""The bodies of elementwise kernels, printed as CUDA C from the blocks when first needed.

The forward of an op, and each of its gradient rules, runs on symbols (expressions/) and leaves an
expression; expressions/cuda.py spells it. The numbers that an op is called with stay arguments of
the kernel, so that new numbers need no new kernel, unless the formula decides by them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import dtypes
from ...core.op import Op
from ...expressions.cuda import TRACED, XP, function_text
from ...expressions.expressions import FOLDED, Expression, Maker, in_order
from ...expressions.symbols import Number, Symbol, Untraceable
from ...expressions.trace import Unknown
from .cublas import NAMES

ARRAYS, NUMBERS = "abcd", "stuvw"  # what arguments are called, in the order of their places
MOST_ARRAYS = 3  # that elementwise kernels take; losses with weights have one more
BY_VALUE = (str, bool, type(None), np.dtype, dtypes.dtype)
F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
MOST_FOUND = 1024
BEFORE = FOLDED.keys() - {"sqrt"}  # which has an error of its own for negative numbers


class Mark:
    """A placeholder in a cache key for an argument that is an array, or any number."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


ARRAY, ANY_NUMBER = Mark("an array"), Mark("any number")


class Formula:
    """The function `formula` of a kernel, and what its arguments are."""

    __slots__ = ("arrays", "as_given", "dtype", "kernels", "numbers", "text")

    def __init__(
        self, text: str, dtype: Any, arrays: tuple[int, ...], numbers: tuple[Expression, ...]
    ) -> None:
        self.text = text
        self.dtype = dtype
        self.arrays = arrays  # their places in a call
        self.numbers = numbers  # expressions of the numbers of a call
        self.as_given = all([e.name == "input" for e in numbers])
        self.kernels: dict[Any, Any] = {}  # by form, as Gpu.elementwise compiled them

    @property
    def given(self) -> bool:
        """Whether the formula returns its first array unchanged."""
        return not self.text

    def numbers_of(self, values: tuple[Any, ...]) -> tuple[float, ...]:
        if self.as_given:
            return tuple([float(values[e.value[0]]) for e in self.numbers])
        with np.errstate(all="ignore"):
            return tuple([float(value_of(e, values)) for e in self.numbers])


Found = tuple[Formula | None, tuple[float, ...]]
NONE: Found = None, ()


class Formulas:
    """A cache of the formulas of one function, by dtype and by the arguments that decide them."""

    def __init__(
        self,
        run: Callable[[Sequence[Any]], Any],
        reads_all: bool = True,
        most: int = MOST_ARRAYS,
    ) -> None:
        self.run = run
        self.most = most  # arrays
        self.reads_all = reads_all  # arrays that the formula does not need are arguments too
        self.found: dict[Any, tuple[Formula | None, tuple[float, ...] | None]] = {}
        self.formulas: dict[Any, Formula | None] = {}

    def of(self, dtype: Any, values: tuple[Any, ...]) -> Found:
        """The formula for a call, and its numbers; None if the block has to run."""
        key = (dtype, *values)
        try:
            formula, numbers = self.found[key]
            if numbers is None:
                assert formula is not None
                numbers = formula.numbers_of(values)
            return formula, numbers
        except KeyError:
            pass
        except TypeError:  # something that no formula depends on
            return NONE
        formula = self.formula(dtype, values)
        try:
            numbers = () if formula is None else formula.numbers_of(values)
        except OverflowError:  # an integer that no float holds
            return NONE
        if len(self.found) > MOST_FOUND:
            self.found.clear()
        # 0.0 and -0.0 are the same key but not the same number.
        zeros = formula is not None and any([is_number(v) and v == 0 for v in values])
        self.found[key] = formula, None if zeros else numbers
        return formula, numbers

    def formula(self, dtype: Any, values: tuple[Any, ...]) -> Formula | None:
        """The formula for all numbers, or for these if it has a branch that depends on them."""
        every = (dtype, *[ANY_NUMBER if is_number(v) else v for v in values])
        for key in (every, (dtype, *values)):
            if key in self.formulas:
                return self.formulas[key]
        made, decided = self.derived(dtype, values)
        if len(self.formulas) > MOST_FOUND:
            self.formulas.clear()
        self.formulas[(dtype, *values) if decided else every] = made
        return made

    def derived(self, dtype: Any, values: tuple[Any, ...]) -> tuple[Formula | None, bool]:
        """A formula, and whether it is one for just these numbers."""
        maker = Maker()
        if dtype not in NAMES:
            return None, False
        inner = F64 if dtype.itemsize == 8 else F32
        try:
            given = [as_symbol(maker, i, v, inner) for i, v in enumerate(values)]
            result = self.run(given)
            if not isinstance(result, Symbol) or result.expression.is_truth:
                return None, maker.decided
            made = self.written(maker, result.expression, dtype, values)
        except Exception:  # whatever a formula cannot do with symbols, it may do with arrays
            return None, maker.decided
        return made, maker.decided

    def written(self, maker: Maker, result: Expression, dtype: Any, values: Any) -> Formula | None:
        if maker.wide and dtype.itemsize != 8:
            if result.name != "round32":
                return None  # only some of it is computed in double
            result = result.args[0]
        arrays = [i for i, v in enumerate(values) if v is ARRAY]
        used = {e.value[0] for e in in_order([result]) if e.name == "input"}
        if not self.reads_all:
            arrays = [i for i in arrays if i == arrays[0] or i in used]
        elif result.name == "input":
            return None  # an input returned unchanged must stay a view
        numbers = of_numbers(result, used.difference(arrays))
        if not used & set(arrays) or len(arrays) > self.most or len(numbers) > len(NUMBERS):
            return None
        text = ""
        if result.name != "input":
            inputs = [(ARRAYS[k], maker.input(i)) for k, i in enumerate(arrays)]
            inputs += zip(NUMBERS, numbers, strict=False)
            text = function_text("formula", result, inputs, maker.wide)
        return Formula(text, dtype, tuple(arrays), tuple(numbers))


def of_numbers(result: Expression, places: set[int]) -> list[Expression]:
    """The largest sub-expressions made of numbers alone: the host computes them once, in double."""
    before: dict[int, Expression] = {}
    needed: dict[int, Expression] = {}
    for e in in_order([result]):
        if e.name == "input":
            if e.value[0] in places:
                before[id(e)] = e
            continue
        some = [a for a in e.args if id(a) in before]
        rest = [a for a in e.args if id(a) not in before and a.name != "number"]
        if some and not rest and e.name in BEFORE:
            before[id(e)] = e
        else:
            needed |= {id(a): a for a in some}
    return list(needed.values())


def value_of(e: Expression, values: tuple[Any, ...]) -> Any:
    """The value of an expression of the numbers of a call."""
    if e.name == "input":
        return np.float64(values[e.value[0]])
    if e.name == "number":
        return np.float64(e.value)
    return FOLDED[e.name](*[value_of(a, values) for a in e.args])


class OfArrays(dict[Any, Formula | None]):
    """The formula by dtype, for a call of `count` arrays and nothing else."""

    def __init__(self, formulas: Formulas, count: int) -> None:
        self.formulas = formulas
        self.arrays = (ARRAY,) * count

    def __missing__(self, dtype: Any) -> Formula | None:
        formula = self[dtype] = self.formulas.of(dtype, self.arrays)[0]
        return formula


def as_symbol(maker: Maker, place: int, value: Any, dtype: Any) -> Any:
    if value is ARRAY:
        return Symbol(maker, maker.input(place), dtype)
    if is_number(value):
        return Number(maker, maker.input(place), dtype, float(value))
    if isinstance(value, BY_VALUE):
        return value
    raise Untraceable(f"a {type(value).__name__}")


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def of_forward(op: Op) -> Formulas:
    """Formulas of the forward of an op: of arrays, or numbers in their places, and attributes."""
    return Formulas(lambda values: op.forward(XP, *values))


def functions(run: Callable[..., Any], names: Sequence[str]) -> str:
    """The results of `run(xp, array, …)` as functions in CUDA C, one for each name."""
    maker = Maker()
    count = run.__code__.co_argcount - 1
    given = [Symbol(maker, maker.input(i), F32) for i in range(count)]
    found = run(XP, *given)
    results = found if isinstance(found, tuple) else (found,)
    inputs = [(ARRAYS[i], maker.input(i)) for i in range(count)]
    return "".join(
        [
            function_text(name, result.expression, inputs, False)
            for name, result in zip(names, results, strict=True)
        ]
    )


def of_rule(op: Op, index: int) -> Formulas:
    """Formulas of one gradient rule of an op: of (gradient, tensors, results, attributes)."""
    rule = op.rules[index]
    unknown = [Unknown()] * len(op.metas)
    assert rule is not None
    return Formulas(
        lambda values: rule.call(TRACED, values[0], (*values[1:], *unknown)), reads_all=False
    )


def of_shared_rule(op: Op, index: int) -> Formulas:
    """`of_rule` with the gradient as a product: that of a mean, times the share of an element."""
    rule = op.rules[index]
    assert rule is not None
    return Formulas(
        lambda values: rule.call(TRACED, values[0] * values[1], tuple(values[2:])),
        reads_all=False,
        most=len(ARRAYS),
    )
