"""An optimizer's update, read as formulas: what each row of numbers becomes.

`update(p, grad, state, group)` in optim/ says one step of one parameter with tensors. Here it runs
on symbols: a `Row` stands for the elements of a tensor, a `Factor` for a number that all elements
share (the learning rate, an option, a step count). Where the update decides by such a number, both
ways are followed. What is left is a tree of decisions with the new rows at its leaves, from which
the C kernels (tools/optimizers.py prints them) and the CUDA kernels
(kernels/cuda/update_sources.py) are made: the arithmetic of an optimizer is written once.

How tensors round is part of it: `addcmul` multiplies from left to right on a CPU and takes the
product of the two tensors first on a GPU, as PyTorch's kernels do (`OnDevice`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .expressions import Expression, Maker

GRADIENT = "grad"
PARAMETER = "p"


@dataclass(frozen=True)
class Leaf:
    """The rows that an update writes and the numbers that it leaves in the state, by name."""

    rows: dict[str, Expression]
    scalars: dict[str, Expression]


@dataclass(frozen=True)
class Branch:
    """A decision by a number, and what follows from either answer."""

    test: Expression
    yes: Branch | Leaf
    no: Branch | Leaf


Tree = Branch | Leaf


class Reading:
    """Runs an update once for each sequence of answers to its `if`s on unknown numbers."""

    def __init__(self, arithmetic: type[Row] | None = None) -> None:
        self.maker = Maker()
        self.row_type = Row if arithmetic is None else arithmetic
        self.inputs: dict[str, Expression] = {}
        self.values: dict[str, float] = {}  # of numbers that are known, by name
        self.given: list[bool] = []
        self.asked: list[tuple[Expression, bool]] = []

    def input(self, name: str) -> Expression:
        """The symbol of a row or a number; its name is its text in the printed program."""
        if name not in self.inputs:
            self.inputs[name] = self.maker.input(len(self.inputs))
        return self.inputs[name]

    def factor(self, name: str) -> Factor:
        return Factor(self, self.input(name))

    def decide(self, test: Expression) -> bool:
        known = value_of(test, self.known())
        if known is not None:
            return bool(known)
        for before, answer in self.asked:
            if before is test:
                return answer
        place = len(self.asked)
        answer = self.given[place] if place < len(self.given) else True
        self.asked.append((test, answer))
        return answer

    def known(self) -> dict[int, float]:
        return {id(self.inputs[n]): v for n, v in self.values.items() if n in self.inputs}

    def tree(self, run: Callable[[], Leaf]) -> Tree:
        """`run` for all decisions; those that make no difference are left out."""
        return self.follow(run, [])

    def follow(self, run: Callable[[], Leaf], given: list[bool]) -> Tree:
        self.given, self.asked = given, []
        leaf = run()
        asked = self.asked[len(given) :]
        tree: Tree = leaf
        for i in range(len(asked) - 1, -1, -1):
            answers = given + [answer for _, answer in asked[:i]]
            tree = Branch(asked[i][0], tree, self.follow(run, [*answers, False]))
        return tree


def pruned(tree: Tree, part: str) -> Tree:
    """A tree without the decisions that one part of its leaves, rows or scalars, does not need."""
    if isinstance(tree, Leaf):
        return tree
    yes, no = pruned(tree.yes, part), pruned(tree.no, part)
    return yes if same(yes, no, part) else Branch(tree.test, yes, no)


def same(a: Tree, b: Tree, part: str) -> bool:
    if isinstance(a, Branch) and isinstance(b, Branch):
        return a.test is b.test and same(a.yes, b.yes, part) and same(a.no, b.no, part)
    if isinstance(a, Leaf) and isinstance(b, Leaf):
        mine, others = getattr(a, part), getattr(b, part)
        return mine.keys() == others.keys() and all([mine[n] is others[n] for n in mine])
    return False


def leaves(tree: Tree) -> list[Leaf]:
    return [tree] if isinstance(tree, Leaf) else leaves(tree.yes) + leaves(tree.no)


def tests(tree: Tree) -> list[Expression]:
    return [] if isinstance(tree, Leaf) else [tree.test, *tests(tree.yes), *tests(tree.no)]


COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "gt": lambda a, b: a > b,
}


def value_of(e: Expression, known: dict[int, float]) -> Any:
    """The answer to a question about known numbers; None if one of them is not known."""
    if e.name == "number":
        return e.value
    if id(e) in known:
        return known[id(e)]
    if e.name in COMPARED:
        values = [value_of(a, known) for a in e.args]
        return None if None in values else COMPARED[e.name](*values)
    return None


# ---------------------------------------------------------------------- numbers


class Factor:
    """A number that all elements share, computed in double precision."""

    def __init__(self, reading: Reading, expression: Expression) -> None:
        self.reading = reading
        self.expression = expression

    def made(self, name: str, *args: Any) -> Factor:
        return Factor(self.reading, self.reading.maker.apply(name, *[self.read(x) for x in args]))

    def read(self, x: Any) -> Expression:
        return x.expression if isinstance(x, Factor) else self.reading.maker.number(x)

    def __neg__(self) -> Factor:
        return self.made("neg", self)

    def __abs__(self) -> Factor:
        return self.made("abs", self)

    def __bool__(self) -> bool:
        test = self.expression
        if not test.is_truth:
            test = self.made("ne", self, 0.0).expression
        return self.reading.decide(test)

    __hash__ = object.__hash__


def infix(name: str, swapped: bool = False) -> Any:
    def run(self: Any, other: Any) -> Any:
        if isinstance(other, Row):
            return NotImplemented
        return self.made(name, other, self) if swapped else self.made(name, self, other)

    return run


for sign, name in {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "truediv": "div",
    "pow": "pow",
}.items():
    setattr(Factor, f"__{sign}__", infix(name))
    setattr(Factor, f"__r{sign}__", infix(name, swapped=True))
for name in ("eq", "ne", "lt", "gt"):
    setattr(Factor, f"__{name}__", infix(name))


class Scalar:
    """An entry of the state that is one number: a tensor, rounded to single precision if `narrow`.

    `item()` is what the tensor holds. Adding one to a step count needs no rounding.
    """

    def __init__(self, value: Factor, narrow: Factor) -> None:
        self.value = value
        self.narrow = narrow

    def item(self) -> Factor:
        return self.value

    def __iadd__(self, other: Any) -> Scalar:
        self.value = self.value + other
        return self

    def __imul__(self, other: Any) -> Scalar:
        rounded = self.value.made("round32", self.value * other.made("round32", other))
        self.value = self.value.made("select", self.narrow != 0, rounded, self.value * other)
        return self

    def fill_(self, value: Any) -> Scalar:
        self.value = value
        return self

    def is_complex(self) -> bool:
        return False


# ---------------------------------------------------------------------- rows


class Row:
    """A symbol for any element of a tensor, with a tensor's methods.

    A method that ends in `_` changes what the row is, as it does with a tensor.
    """

    is_sparse = requires_grad = False

    def __init__(self, reading: Reading, expression: Expression) -> None:
        self.reading = reading
        self.expression = expression

    def read(self, x: Any) -> Expression:
        return x.expression if isinstance(x, (Row, Factor)) else self.reading.maker.number(x)

    def apply(self, name: str, *args: Any) -> Expression:
        given = [x if isinstance(x, Expression) else self.read(x) for x in args]
        return self.reading.maker.apply(name, *given)

    def made(self, expression: Expression) -> Any:
        return type(self)(self.reading, expression)

    def is_complex(self) -> bool:
        return False

    def detach(self) -> Any:
        return self

    def clone(self) -> Any:
        return self.made(self.expression)

    # What each method of a tensor is, in primitives.

    def scaled(self, other: Any, by: Any) -> Expression:
        return self.read(other) if is_one(by) else self.apply("mul", other, by)

    def of_add(self, other: Any, alpha: Any = 1) -> Expression:
        if type(alpha) is float and alpha == -1:
            return self.apply("sub", self, other)
        return self.apply("add", self, self.scaled(other, alpha))

    def of_mul(self, other: Any) -> Expression:
        return self.apply("mul", self, other)

    def of_addcmul(self, first: Any, second: Any, value: Any = 1) -> Expression:
        return self.apply("add", self, self.apply("mul", self.scaled(first, value), second))

    def of_addcdiv(self, first: Any, second: Any, value: Any = 1) -> Expression:
        return self.apply("add", self, self.apply("div", self.scaled(first, value), second))

    def of_lerp(self, end: Any, weight: Any) -> Expression:
        """lerp, computed from the nearer end, so that a weight of 1 gives `end` exactly."""
        step = self.apply("sub", end, self)
        far = self.apply("sub", end, self.apply("mul", step, 1 - weight))
        near = self.apply("add", self, self.apply("mul", weight, step))
        return self.apply("select", abs(weight) < 0.5, near, far)

    def of_sign(self) -> Expression:
        """sign: 0 for zeros and NaN, as in PyTorch."""
        below = self.apply("select", self.apply("lt", self, 0.0), -1.0, 0.0)
        return self.apply("select", self.apply("gt", self, 0.0), 1.0, below)

    def of_masked_fill(self, mask: Any, value: Any) -> Expression:
        return self.apply("select", mask, value, self)

    def of_clamp(self, low: Any, high: Any) -> Expression:
        above = self.apply("select", self.apply("lt", self, low), low, self)
        return self.apply("select", self.apply("gt", above, high), high, above)

    def of_maximum(self, other: Any) -> Expression:
        return self.apply("maximum", self, other)

    def of_copy(self, other: Any) -> Expression:
        return self.read(other)

    def of_sub(self, other: Any) -> Expression:
        return self.apply("sub", self, other)

    def of_div(self, other: Any) -> Expression:
        return self.apply("div", self, other)

    def of_sqrt(self) -> Expression:
        return self.apply("sqrt", self)

    def of_abs(self) -> Expression:
        return self.apply("abs", self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        find = getattr(type(self), f"of_{name.removesuffix('_')}", None)
        if find is None:
            raise AttributeError(f"no formula for Tensor.{name} in an optimizer's update")

        def run(*args: Any, **kwargs: Any) -> Any:
            found = find(self, *args, **kwargs)
            if not name.endswith("_"):
                return self.made(found)
            self.expression = found
            return self

        return run

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """The functions of the library that an update calls: those of its methods."""
        return getattr(args[0], function.__name__)(*args[1:], **(kwargs or {}))

    def __neg__(self) -> Any:
        return self.made(self.apply("neg", self))

    def __truediv__(self, other: Any) -> Any:
        return self.div(other)

    def __rtruediv__(self, other: Any) -> Any:
        return self.made(self.apply("div", other, self))

    def __mul__(self, other: Any) -> Any:
        return self.mul(other)

    def __lt__(self, other: Any) -> Any:
        return self.made(self.apply("lt", self, other))

    def __gt__(self, other: Any) -> Any:
        return self.made(self.apply("gt", self, other))

    def __eq__(self, other: Any) -> Any:
        return self.made(self.apply("eq", self, other))

    __hash__ = object.__hash__


class OnDevice(Row):
    """The arithmetic of PyTorch's CUDA kernels, whose products may be fused with what they are
    added to unless a `product` says that they are rounded by themselves."""

    def of_mul(self, other: Any) -> Expression:
        own = isinstance(other, Factor) and self.expression is self.reading.input(PARAMETER)
        return self.apply("product" if own else "mul", self, other)

    def of_addcmul(self, first: Any, second: Any, value: Any = 1) -> Expression:
        if type(value) is int and value == -1:
            return self.apply("sub", self, self.apply("product", first, second))
        return self.apply(
            "add", self, self.scaled(self.made(self.apply("mul", first, second)), value)
        )

    def of_addcdiv(self, first: Any, second: Any, value: Any = 1) -> Expression:
        return self.apply(
            "add", self, self.scaled(self.made(self.apply("div", first, second)), value)
        )

    def of_lerp(self, end: Any, weight: Any) -> Expression:
        return self.apply("toward", self, end, weight)

    def of_sign(self) -> Expression:
        e = self.expression
        return self.apply("sign_of_product", *e.args) if e.name == "mul" else super().of_sign()


def is_one(by: Any) -> bool:
    return type(by) in (int, float) and by == 1


# ---------------------------------------------------------------------- updates


class States(dict[str, Any]):
    """A state whose row `fresh` is missing before the first step."""

    def __init__(self, entries: dict[str, Any], fresh: str, is_fresh: Factor | None) -> None:
        super().__init__(entries)
        self.fresh = fresh
        self.is_fresh = is_fresh

    def get(self, name: str, default: Any = None) -> Any:
        if name == self.fresh and self.is_fresh is not None and self.is_fresh:
            return default
        return super().get(name, default)


@dataclass(frozen=True)
class Names:
    """The arguments of an update by name, each with its text in the printed program.

    `rows` are those of the state, `scalars` its numbers; `options` are those of the group, a list
    for those of several numbers. `others` are options that no kernel is for, with their values.
    """

    rows: dict[str, str]
    scalars: dict[str, str]
    options: dict[str, str | Sequence[str]]
    others: dict[str, Any]
    lr: str
    narrow: str
    fresh: str = ""  # the row that may be missing
    is_fresh: str = ""


def read(reading: Reading, update: Any, names: Names, gradient: Any = None) -> Tree:
    """The tree of an update; `gradient` is what it is given for it (the row itself, if None)."""

    def run() -> Leaf:
        row = reading.row_type
        numbers = {
            name: reading.factor(text)
            if isinstance(text, str)
            else tuple([reading.factor(each) for each in text])
            for name, text in names.options.items()
        }
        group = {**names.others, "lr": reading.factor(names.lr), **numbers}
        p = row(reading, reading.input(PARAMETER))
        grad = row(reading, reading.input(GRADIENT))
        kept: dict[str, Any] = {n: row(reading, reading.input(t)) for n, t in names.rows.items()}
        narrow = reading.factor(names.narrow)
        scalars = {n: Scalar(reading.factor(t), narrow) for n, t in names.scalars.items()}
        is_fresh = reading.factor(names.is_fresh) if names.is_fresh else None
        state = States({**kept, **scalars}, names.fresh, is_fresh)
        update(p, grad if gradient is None else gradient(grad), state, group)
        rows = {PARAMETER: p.expression, **{n: state[n].expression for n in kept}}
        begun = {PARAMETER: PARAMETER, **names.rows}
        rows = {n: e for n, e in rows.items() if e is not reading.input(begun[n])}
        return Leaf(rows, {n: narrow.read(scalars[n].value) for n in scalars})

    return reading.tree(run)
