"""Expressions: primitives applied to inputs, numbers and other expressions.

An expression is made once per trace: asking for the same primitive of the same arguments gives the
same object, so that a value which a formula uses twice is computed once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator
from typing import Any

# The vector machine (kernels/cpu/c/machine/machine.h) knows exactly these, and how many arguments
# each has.
PRIMITIVES = frozenset(
    """
    neg abs square sqrt reciprocal exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan
    sinh cosh tanh asinh acosh atanh sigmoid erf erfc floor ceil rint trunc sign isnan isinf
    isfinite not_ signbit polynomial erfinv gelu_value gelu_slope round_bf16
    round_f16
    add sub mul div maximum minimum fmax fmin pow fmod atan2 hypot copysign lt le gt ge eq ne and_
    or_ xor_
    select
    """.split()
)
# What the portable mode has in the place of some (kernels/portable), and those it has none for.
PORTABLE = {
    name: f"portable_{name}"
    for name in """
    exp exp2 expm1 log log2 log10 log1p sinh cosh tanh erf erfc lgamma hypot logaddexp logaddexp2
    """.split()
} | {
    "pow": "portable_power",
    "atan2": "portable_arctan2",
    **{name: f"portable_arc{name[1:]}" for name in "asin acos atan asinh acosh atanh".split()},
}
NOT_PORTABLE = frozenset("sin cos tan sigmoid erfinv gelu_value gelu_slope".split())
NUMPYS_POWERS = {2: "square", 0.5: "sqrt", -1: "reciprocal"}  # by `**`
# Those of single precision alone.
SINGLE = frozenset("erfinv gelu_value gelu_slope round_bf16 round_f16".split())
COMMUTATIVE = frozenset(["add", "mul"])
TRUTHS = frozenset("isnan isinf isfinite not_ signbit lt le gt ge eq ne and_ or_ xor_".split())


class Expression:
    """A primitive and its arguments; `input` and `number` are the leaves."""

    __slots__ = ("args", "name", "value")

    def __init__(self, name: str, args: tuple[Expression, ...], value: Any = None) -> None:
        self.name = name
        self.args = args
        self.value = value  # of a leaf: the place of the input, or the number; or coefficients

    @property
    def is_truth(self) -> bool:
        """Whether it is a bool: 0 or 1 in the machine."""
        if self.name == "input":
            return bool(self.value[1])
        if self.name == "number":
            return isinstance(self.value, bool)
        if self.name == "copy":
            return self.args[0].is_truth
        if self.name == "select":
            return self.args[1].is_truth and self.args[2].is_truth
        return self.name in TRUTHS

    def __repr__(self) -> str:
        if not self.args:
            return f"{self.name}({self.value})"
        return f"{self.name}({', '.join(map(repr, self.args))})"


def is_number(e: Expression) -> bool:
    return e.name == "number"


class Maker:
    """Makes the expressions of one trace, each of them once."""

    def __init__(self) -> None:
        self.made: dict[Any, Expression] = {}
        self.wide = False  # computed in double, whatever it is computed of
        self.decided = False  # it depends on the values of numbers which way the formula went
        self.portable = False  # its functions have the same bits on every machine
        self.branches = False  # some of it is computed for elements that do not need it

    def input(self, place: int, is_truth: bool = False) -> Expression:
        return self._leaf("input", (place, is_truth))

    def number(self, value: Any) -> Expression:
        if not isinstance(value, (bool, int, float)):
            value = value.item()  # NumPy's numbers
        return self._leaf("number", value)

    def _leaf(self, name: str, value: Any) -> Expression:
        # -0.0 and 0.0 are equal, and so are 1, 1.0 and True; they are not the same number.
        sign = math.copysign(1.0, value) if name == "number" else 0
        key = (name, type(value), value, sign)
        if value != value:
            key = (name, "nan")  # type: ignore[assignment]
        if key not in self.made:
            self.made[key] = Expression(name, (), value)
        return self.made[key]

    def polynomial(self, x: Expression, coefficients: tuple[float, ...]) -> Expression:
        key = ("polynomial", id(x), coefficients)
        if key not in self.made:
            self.made[key] = Expression("polynomial", (x,), coefficients)
        return self.made[key]

    def apply(self, name: str, *args: Expression) -> Expression:
        if self.portable:
            if name in NOT_PORTABLE:
                raise NotImplementedError(f"no portable primitive computes {name}")
            exact = NUMPYS_POWERS.get(args[1].value) if name == "pow" and is_number(args[1]) else ""
            if exact:
                return self.apply(exact, args[0])
            name = PORTABLE.get(name, name)
        simple = simplified(self, name, args)
        if simple is not None:
            return simple
        places = map(id, args)
        key = (name, *(sorted(places) if name in COMMUTATIVE else places))
        if key not in self.made:
            self.made[key] = Expression(name, args)
        return self.made[key]

    def copy(self, x: Expression) -> Expression:
        """A value as a result of its own, where it is an input or another result already."""
        return Expression("copy", (x,))


def simplified(maker: Maker, name: str, args: tuple[Expression, ...]) -> Expression | None:
    """The simpler form of an expression with the same bits (but for the sign of NaN), if any."""
    values = [a.value for a in args if a.name == "number"]
    if len(values) == len(args) and name in FOLDED:
        try:
            return maker.number(FOLDED[name](*[float(v) for v in values]))
        except (ArithmeticError, ValueError):
            return None
    if name == "mul":
        for this, other in (args, args[::-1]):
            if this.name == "number" and this.value == 1 and not other.is_truth:
                return other
    if name == "div" and args[1].name == "number" and args[1].value == 1 and not args[0].is_truth:
        return args[0]
    if any([a.name == "neg" for a in args]):
        signed = without_signs(maker, name, args)
        if signed is not None:
            return signed
    if name == "mul" and args[0] is args[1] and not args[0].is_truth:
        return maker.apply("square", args[0])
    if name == "pow" and args[1].name == "number" and args[1].value == 2 and not args[0].is_truth:
        return maker.apply("square", args[0])  # as NumPy does
    if name == "neg" and args[0].name == "neg":
        return args[0].args[0]
    if name == "reciprocal" and args[0].name == "add":
        for one, power in (args[0].args, args[0].args[::-1]):
            if one.name == "number" and one.value == 1 and power.name == "exp":
                if power.args[0].name == "neg":
                    return maker.apply("sigmoid", power.args[0].args[0])
    if name == "not_" and args[0].name == "not_" and args[0].args[0].is_truth:
        return args[0].args[0]
    if name == "select" and args[1] is args[2]:
        return args[1]
    if name == "select" and args[0].name == "not_":
        return maker.apply("select", args[0].args[0], args[2], args[1])
    return None


def without_signs(maker: Maker, name: str, args: tuple[Expression, ...]) -> Expression | None:
    """The expression with negations moved out of the arguments; None: they cannot be.

    Rounding is the same on both sides of zero. What is left alone would change the sign of a zero.
    """
    bare = [a.args[0] if a.name == "neg" else a for a in args]
    if name in ("mul", "div"):
        made = maker.apply(name, *bare)
        return made if args[0].name == args[1].name == "neg" else maker.apply("neg", made)
    if name == "add":
        if bare[0] is bare[1] and args[0] is args[1]:
            return maker.apply("neg", maker.apply("add", *bare))
        if args[1].name == "neg":
            return maker.apply("sub", args[0], bare[1])
        return maker.apply("sub", args[1], bare[0])
    if name == "sub" and args[1].name == "neg":
        return maker.apply("add", args[0], bare[1])
    if name in ("square", "abs"):
        return maker.apply(name, bare[0])
    return None


FOLDED: dict[str, Callable[..., float]] = {
    "neg": lambda a: -a,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "square": lambda a: a * a,
    "sqrt": math.sqrt,
    "abs": abs,
}


def in_order(outputs: list[Expression], leaves: Container[int] = ()) -> Iterator[Expression]:
    """Every expression that the outputs are made of, arguments first, each once.

    What `leaves` are made of, by id, is left out.
    """
    done: set[int] = set()
    for output in outputs:
        stack: list[tuple[Expression, int]] = [(output, 0)]
        while stack:
            expression, place = stack.pop()
            if id(expression) in done:
                continue
            if place < len(expression.args) and id(expression) not in leaves:
                stack.append((expression, place + 1))
                stack.append((expression.args[place], 0))
            else:
                done.add(id(expression))
                yield expression
