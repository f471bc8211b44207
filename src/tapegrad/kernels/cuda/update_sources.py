"""`rule.cu`: the CUDA C of an optimizer's step, made from its update (expressions/updates.py).

Decisions by options are taken before, so that there is a kernel for each way that options go; those
by numbers that change from step to step are taken on the GPU, since a captured step is replayed
with other numbers. sources/optim.cu runs what is made here over many tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...expressions.expressions import Expression, in_order
from ...expressions.update_texts import Factors, branches, indented, spelled, statements
from ...expressions.updates import (
    GRADIENT,
    PARAMETER,
    Leaf,
    Names,
    OnDevice,
    Reading,
    Tree,
    leaves,
    pruned,
    read,
    tests,
)

HALF = 0.5
OTHERS = dict.fromkeys(["capturable", "differentiable", "foreach", "fused"], False)


def switches(options: Sequence[float]) -> tuple[int, ...]:
    """The sign of each option; a kernel is specialised on signs, not on values."""
    return tuple([(x > 0) - (x < 0) for x in options])


def in_double(e: Expression, args: list[str]) -> str:
    """A number that all elements share. CUDA's `pow` is less exact than its `sqrt`."""
    if e.name == "pow" and e.args[1].name == "number" and e.args[1].value == HALF:
        return f"sqrt({args[0]})"
    return spelled(e, args)


class Update:
    """The text of `rule.cu` for an optimizer (`Fused` in optim/_on_device.py) and its options.

    `counts` says whether the step depends on numbers that change, besides the learning rate.
    """

    def __init__(self, rule: Any, present: tuple[str, ...], options: Sequence[float]) -> None:
        texts: dict[str, Any] = {}
        listed: list[str] = []
        for option in rule.options:
            name, _, count = option.partition("[")
            own = [f"o.{name}[{i}]" for i in range(int(count[:-1]))] if count else [f"o.{name}"]
            texts[name] = own if count else own[0]
            listed += own
        names = Names(
            rows={name: f"a[{2 + i}]" for i, name in enumerate(present)},
            scalars={name: f"now.{name}" for name in rule.scalars},
            options=texts,
            others=OTHERS,
            lr="now.lr",
            narrow="narrow",
            fresh=rule.fresh,
            is_fresh="now.fresh" if rule.fresh else "",
        )
        self.reading = Reading(OnDevice)
        self.reading.values = dict(zip(listed, options, strict=True))
        tree = read(self.reading, rule.update, names)
        places = {PARAMETER: "a[0]", GRADIENT: "a[1]", **{t: t for t in names.rows.values()}}
        self.rows = {id(self.reading.input(name)): text for name, text in places.items()}
        self.numbers = {
            id(e): text for text, e in self.reading.inputs.items() if text not in places
        }
        self.targets = {PARAMETER: "a[0]", **names.rows}
        rows = pruned(tree, "rows")
        changing = {
            id(e)
            for text, e in self.reading.inputs.items()
            if text in (*names.scalars.values(), names.is_fresh)
        }
        read_by_rows = [*tests(rows), *[e for leaf in leaves(rows) for e in leaf.rows.values()]]
        self.counts = any([id(e) in changing for e in in_order(read_by_rows)])
        self.text = self.step(rows) + self.advance(rule, pruned(tree, "scalars"))

    def step(self, tree: Tree) -> str:
        """The factors that all elements share, and the step of one element."""
        factors = Factors(tree, set(self.rows))
        ways = leaves(tree)
        texts = self.rows | {k: f"f.{name}" for k, name in factors.names.items()}

        def set_up(leaf: Leaf) -> list[str]:
            needed = {factors.names[id(e)]: e for e in factors.needed(leaf)}
            lines = statements(needed, self.numbers, "double", "y", in_double)
            place = next(i for i, way in enumerate(ways) if way is leaf)
            return [*lines, *[f"f.{name} = {name};" for name in needed], f"f.way = {place};"]

        def elements(leaf: Leaf) -> list[str]:
            made = {f"new{i}": e for i, e in enumerate(leaf.rows.values())}
            lines = statements(made, texts, "A", "v")
            return [*lines, *[f"{self.targets[row]} = new{i};" for i, row in enumerate(leaf.rows)]]

        body = elements(ways[0])
        if len(ways) > 1:
            cases = [
                [f"case {i}: {{", *indented(elements(way)), "} break;"]
                for i, way in enumerate(ways)
            ]
            body = ["switch (f.way) {", *[line for case in cases for line in case], "}"]
        return "\n".join(
            [
                f"struct Factors {{ {factors.declared('bool')} int way; }};",
                "__device__ __forceinline__ Factors factors(const Numbers& now, const Options& o,",
                "        int narrow) {",
                "    Factors f;",
                *indented(branches(tree, self.numbers, set_up, "double")),
                "    return f;",
                "}",
                "__device__ __forceinline__ void element(const Factors& f, A (&a)[ROWS]) {",
                *indented(body),
                "}",
                "",
            ]
        )

    def advance(self, rule: Any, tree: Tree) -> str:
        """CUDA statements that bring the numbers of the state (step count, …) to the next step."""

        def after(leaf: Leaf) -> list[str]:
            made = {f"next_{name}": e for name, e in leaf.scalars.items()}
            lines = statements(made, self.numbers, "double", "y", in_double)
            return [*lines, *[f"now.{n} = kept(next_{n}, narrow);" for n in leaf.scalars]]

        lines = ["now.fresh = 0;"] if rule.fresh else branches(tree, self.numbers, after, "double")
        head = (
            "__device__ __forceinline__ void advance(Numbers& now, const Options& o, int narrow) {"
        )
        return "\n".join([head, *indented(lines), "}", ""])
