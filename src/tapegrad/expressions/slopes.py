"""First and second derivatives of elementwise ops as expressions, from their gradient rules.

The rule of an op gives the slope; the slope's expression is differentiated once more. What has
branches is refused: the branch that is not taken might be infinite.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .expressions import Expression, Maker, in_order
from .symbols import Symbol, Untraceable
from .trace import TRACED, Unknown


class Bends:
    """In place of an op, a formula with three results: its value, slope and second derivative.

    They are those with respect to the op's tensor number `place`.
    """

    def __init__(self, op: Any, place: int) -> None:
        self.op = op
        self.width = op.width
        self.place = place

    def forward(self, xp: Any, *args: Any) -> Any:
        op, x = self.op, args[self.place]
        out = op.forward(xp, *args)
        if not isinstance(x, Symbol) or not isinstance(out, Symbol):
            raise Untraceable("an op of numbers")
        maker = x.maker
        one = Symbol(maker, maker.number(1.0), x.dtype)
        kept = (*args[: op.width], out, *args[op.width :], *[Unknown()] * len(op.metas))
        slope = op.rules[self.place].call(TRACED, one, kept)
        if not isinstance(slope, Symbol) or not x.dtype == out.dtype == slope.dtype:
            raise Untraceable("a slope of another dtype")
        names = {e.name for e in in_order([slope.expression])}
        if names & GROWING and names & SATURATED:
            raise Untraceable("a product that may be one of infinity and zero")
        bend = derivative(maker, slope.expression, x.expression)
        if bend is None:
            raise Untraceable("an op whose slope is constant")
        results = (out.expression, slope.expression, bend)
        return tuple([Symbol(maker, computed(maker, e), x.dtype) for e in results])


def computed(maker: Maker, e: Expression) -> Expression:
    """An expression that a program may have as a result."""
    return e if e.args else maker.copy(e)


def derivative(maker: Maker, e: Expression, x: Expression) -> Expression | None:
    """The derivative of an expression with respect to an input; None: it is zero."""
    known: dict[int, Expression | None] = {}
    for each in in_order([e]):
        if each is x:
            known[id(each)] = maker.number(1.0)
            continue
        moved = [known[id(a)] for a in each.args]
        known[id(each)] = None if moved == [None] * len(moved) else pushed(maker, each, moved)
    return known[id(e)]


def pushed(maker: Maker, e: Expression, moved: list[Expression | None]) -> Expression | None:
    """The derivative of a primitive, from those of its arguments."""
    apply = maker.apply
    if e.name in CONSTANT:
        return None
    if e.name in ("add", "sub"):
        a, b = moved
        if b is None or a is None:
            return a if b is None else b if e.name == "add" else apply("neg", b)
        return apply(e.name, a, b)
    rules = RULES.get(e.name)
    if e.name in ("div", "reciprocal") and any([a.name in GROWING for a in in_order([e.args[-1]])]):
        raise Untraceable("a quotient that may be one of infinities far from zero")
    if rules is None:
        raise Untraceable(f"the derivative of {e.name}")
    total: Expression | None = None
    for rule, d in zip(rules, moved, strict=True):
        if d is not None:
            part = apply("mul", rule(Terms(maker), *e.args, e), d)
            total = part if total is None else apply("add", total, part)
    return total


class Terms:
    """Primitives as methods, for the rules."""

    def __init__(self, maker: Maker) -> None:
        self.maker = maker

    def __getattr__(self, name: str) -> Callable[..., Expression]:
        number = self.maker.number

        def call(*args: Any) -> Expression:
            read = [a if isinstance(a, Expression) else number(float(a)) for a in args]
            return self.maker.apply(name, *read)

        return call


CONSTANT = frozenset("floor ceil rint trunc sign isnan isinf isfinite not_ signbit".split()) | (
    frozenset("lt le gt ge eq ne and_ or_ xor_".split())
)
GROWING = frozenset("exp exp2 expm1 sinh cosh".split())
SATURATED = frozenset("tanh sigmoid log1p".split())
# Per argument, its factor: (terms, arguments, value).
RULES: dict[str, tuple[Callable[..., Expression], ...]] = {
    "neg": (lambda F, a, y: F.maker.number(-1.0),),
    "abs": (lambda F, a, y: F.sign(a),),
    "square": (lambda F, a, y: F.mul(a, 2),),
    "reciprocal": (lambda F, a, y: F.neg(F.square(y)),),
    "exp": (lambda F, a, y: y,),
    "exp2": (lambda F, a, y: F.mul(y, math.log(2.0)),),
    "expm1": (lambda F, a, y: F.add(y, 1),),
    "log": (lambda F, a, y: F.reciprocal(a),),
    "log1p": (lambda F, a, y: F.reciprocal(F.add(a, 1)),),
    "sin": (lambda F, a, y: F.cos(a),),
    "cos": (lambda F, a, y: F.neg(F.sin(a)),),
    "sinh": (lambda F, a, y: F.cosh(a),),
    "cosh": (lambda F, a, y: F.sinh(a),),
    "tanh": (lambda F, a, y: F.sub(1, F.square(y)),),
    "sigmoid": (lambda F, a, y: F.mul(y, F.sub(1, y)),),
    "erf": (lambda F, a, y: F.mul(F.exp(F.neg(F.square(a))), 2 / math.sqrt(math.pi)),),
    "mul": (lambda F, a, b, y: b, lambda F, a, b, y: a),
    "div": (lambda F, a, b, y: F.reciprocal(b), lambda F, a, b, y: F.neg(F.div(y, b))),
}
