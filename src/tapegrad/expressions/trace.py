"""From an op's block to programs: its forward and its rules, run on symbols."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .. import dtypes
from ..core.op import REGISTRY, Op
from ..core.rule_functions import RAW
from ..core.settings import Settings
from .expressions import Expression, Maker, in_order
from .program import BFLOAT16_KIND, DOUBLE_KIND, FLOAT16_KIND, FLOAT_KIND, program
from .symbols import PORTABLE_XP, XP, Symbol, TracedNumPy, Untraceable

DTYPES = {
    FLOAT_KIND: np.dtype(np.float32),
    DOUBLE_KIND: np.dtype(np.float64),
    FLOAT16_KIND: np.dtype(np.float16),
}
HALVES = (BFLOAT16_KIND, FLOAT16_KIND)
BY_VALUE = True  # the answer to a question without numbers: ask again with them


class Tracer:
    """The questions that kernels/cpu/c/machine/elementwise.c asks about one op."""

    def __init__(self, op: Op, codes: dict[str, Any]) -> None:
        self.op = op
        self.codes = codes

    def forward(
        self, kind: int, attrs: tuple[Any, ...], by_value: int, of_truths: bool = False
    ) -> Any:
        """The program of the kernel; numbers among the attributes are inputs, unless by value."""
        op = self.op
        if kind in HALVES and not by_value and has_numbers(attrs):
            return BY_VALUE  # which of them are rounded, the formula says
        symbols = Symbols(kind)
        tensors = [symbols.input(of_truths) for _ in range(op.width)]
        given = attrs if by_value else symbols.for_numbers(attrs)
        try:
            xp = PORTABLE_XP if Settings.portable else XP
            results = results_of(op.forward(xp, *tensors, *given))
            sources = list(range(symbols.count))
            if symbols.rounds_less(kind):
                return None
            if any([e is None or e.name == "input" for e in results]):
                return None  # an input that is returned unchanged must stay a view
            return program(kind, results, sources, self.codes, symbols.maker)
        except Exception:  # whatever a formula cannot do with symbols, it may do with arrays
            return None if by_value or not has_numbers(attrs) else BY_VALUE

    def gradients(self, kind: int, mask: int, kept: tuple[Any, ...], by_value: int) -> Any:
        """The program of the rules for the inputs whose bits are set in `mask`."""
        op = self.op
        symbols = Symbols(kind)
        grad = symbols.input()
        first = op.width + len(op.outs)
        attrs = kept[first : first + len(op.attrs)]
        if kind in HALVES and not by_value and has_numbers(attrs):
            return BY_VALUE
        values: list[Any] = []
        for i, value in enumerate(kept[:first]):
            truth = isinstance(value, np.ndarray) and value.dtype == bool
            values.append(symbols.input(truth, source=i))
        if by_value:
            values += attrs
        else:
            values += symbols.for_numbers(attrs, source=first)
        values += [Unknown()] * len(op.metas)
        try:
            results: list[Expression | None] = []
            space = PORTABLE_TRACED if Settings.portable else TRACED
            for i, rule in enumerate(op.rules):
                if mask >> i & 1 and rule is not None:
                    results += results_of(rule.call(space, grad, tuple(values)))
                else:
                    results.append(None)
            if symbols.rounds_less(kind):
                return None
            sources, results = symbols.used(results)
            return program(kind, results, sources, self.codes, symbols.maker)
        except Exception:
            return None if by_value or not has_numbers(attrs) else BY_VALUE


class TracedSpace:
    """`F` for symbols: the forwards of the ops, with NumPy as symbols want it."""

    recorded = False

    def __init__(self, xp: TracedNumPy) -> None:
        self.xp = xp

    def __getattr__(self, name: str) -> Any:
        op = REGISTRY.get(name)
        return getattr(RAW, name) if op is None else functools.partial(op.forward, self.xp)


TRACED, PORTABLE_TRACED = TracedSpace(XP), TracedSpace(PORTABLE_XP)


class Unknown:
    """A fact about arrays (their shape, say) that a program cannot depend on."""

    def __getattribute__(self, name: str) -> Any:
        raise Untraceable("shapes and dtypes")


class Symbols:
    """The inputs of one trace, and where they come from."""

    def __init__(self, kind: int) -> None:
        self.maker = Maker()
        self.maker.portable = Settings.portable
        self.dtype = dtypes.bfloat16.np if kind == BFLOAT16_KIND else DTYPES[kind]
        self.count = 0
        self.sources: list[int] = []

    def input(self, truth: bool = False, source: int = -1) -> Symbol:
        made = self.maker.input(self.count, truth)
        self.count += 1
        self.sources.append(source)
        return Symbol(self.maker, made, np.dtype(bool) if truth else self.dtype)

    def for_numbers(self, attrs: tuple[Any, ...], source: int = -1) -> list[Any]:
        """The attributes of a call, its numbers replaced by symbols."""
        made: list[Any] = []
        for i, value in enumerate(attrs):
            if is_number(value):
                value = self.input(source=source + i)
                value.is_number = True
            made.append(value)
        return made

    def rounds_less(self, kind: int) -> bool:
        """Whether a program would compute in double what the portable mode rounds on the way."""
        return self.maker.portable and self.maker.wide and kind != DOUBLE_KIND

    def used(self, results: list[Expression | None]) -> tuple[list[int], list[Expression | None]]:
        """The inputs that results need, the gradient first, and results that count only those."""
        needed = {0}
        for e in in_order([e for e in results if e is not None]):
            if e.name == "input":
                needed.add(e.value[0])
        places = sorted(needed)
        for e in self.maker.made.values():
            if e.name == "input" and e.value[0] in needed:
                e.value = (places.index(e.value[0]), e.value[1])
        return [self.sources[place] for place in places], results


def is_number(value: Any) -> bool:
    return type(value) is float or type(value) is int


def has_numbers(attrs: tuple[Any, ...]) -> bool:
    return any([is_number(value) for value in attrs])


def results_of(found: Any) -> list[Expression | None]:
    if found is None:
        return [None]
    if isinstance(found, tuple):
        return [e for part in found for e in results_of(part)]
    if not isinstance(found, Symbol):
        raise Untraceable("a result that does not depend on the inputs")
    return [found.expression]
