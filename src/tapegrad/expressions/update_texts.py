"""The tree of an optimizer's update (updates.py) as text: statements of C, which CUDA reads too.

A number that all elements share is computed once, in double precision, and kept as a factor in the
type of the elements; the loops over elements see factors and rows alone.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping

from .cuda import SPELLED, bare, literal
from .expressions import Expression, in_order
from .updates import Leaf, Tree, leaves

# What only updates have: functions of sources/optim.cu, and how a state rounds.
MORE = {
    "product": "product({0}, {1})",
    "toward": "toward({0}, {1}, {2})",
    "sign_of_product": "sign_of_product({0}, {1})",
    "round32": "(A)(float)({0})",
}
Spell = Callable[[Expression, list[str]], str]


def spelled(e: Expression, args: list[str]) -> str:
    if e.name == "number":
        return literal(e.value)
    form = MORE.get(e.name) or SPELLED[e.name]
    if form.endswith(")"):
        return form.format(*[bare(text) for text in args])
    return f"({form.format(*args)})"


class Factors:
    """The numbers that the rows of a tree are computed with, each with a name."""

    def __init__(self, tree: Tree, rows: set[int]) -> None:
        self.rows = rows  # ids of the inputs that are rows
        self.uniform: dict[int, bool] = {}
        self.names: dict[int, str] = {}
        self.listed: list[Expression] = []
        for leaf in leaves(tree):
            for e in in_order(list(leaf.rows.values())):
                self.is_uniform(e)
                if e.args and not self.uniform[id(e)]:
                    for a in e.args:
                        self.take(a)
            for e in leaf.rows.values():
                self.take(e)

    def is_uniform(self, e: Expression) -> bool:
        if id(e) not in self.uniform:
            self.uniform[id(e)] = id(e) not in self.rows and all(
                [self.is_uniform(a) for a in e.args]
            )
        return self.uniform[id(e)]

    def take(self, e: Expression) -> None:
        if self.is_uniform(e) and e.name != "number" and id(e) not in self.names:
            self.names[id(e)] = f"f{len(self.listed)}"
            self.listed.append(e)

    def needed(self, leaf: Leaf) -> list[Expression]:
        found = list(in_order(list(leaf.rows.values()), self.names))
        return [e for e in self.listed if any([e is x for x in found])]

    def declared(self, truth: str) -> str:
        """The members of the structure that holds them."""
        numbers = [self.names[id(e)] for e in self.listed if not e.is_truth]
        truths = [self.names[id(e)] for e in self.listed if e.is_truth]
        parts = [f"A {', '.join(numbers)};"] if numbers else []
        return " ".join([*parts, *([f"{truth} {', '.join(truths)};"] if truths else [])])


def statements(
    results: Mapping[str, Expression],
    texts: Mapping[int, str],
    kind: str,
    temporary: str,
    spell: Spell = spelled,
) -> list[str]:
    """Lines that declare a constant of a type for each result; `texts` are those that have names.

    What is used more than once has a name too.
    """
    known = dict(texts)
    order = [e for e in in_order(list(results.values()), known) if id(e) not in known]
    uses: Counter[int] = Counter([id(e) for e in results.values()])
    for e in order:
        form = MORE.get(e.name) or SPELLED.get(e.name, "")
        for i, a in enumerate(e.args):
            uses[id(a)] += form.count(f"{{{i}}}")
    lines: list[str] = []
    for e in order:
        text = spell(e, [known[id(a)] for a in e.args])
        if e.args and uses[id(e)] > 1:
            name = f"{temporary}{len(lines)}"
            lines.append(f"const {'bool' if e.is_truth else 'A'} {name} = {bare(text)};")
            text = name
        known[id(e)] = text
    for name, e in results.items():
        type_name = "bool" if e.is_truth else "A"
        lines.append(f"const {type_name} {name} = {bare(known[id(e)])};")
    return [re.sub(r"\bA\b", kind, line) for line in lines]


def branches(
    tree: Tree, texts: Mapping[int, str], leaf_text: Callable[[Leaf], list[str]], kind: str
) -> list[str]:
    """Nested decisions, with the lines of `leaf_text` where they end."""
    if isinstance(tree, Leaf):
        return leaf_text(tree)
    *head, line = statements({"test": tree.test}, texts, kind, "t")
    yes = branches(tree.yes, texts, leaf_text, kind)
    no = branches(tree.no, texts, leaf_text, kind)
    condition = line.partition(" = ")[2].rstrip(";")
    made = [f"if ({condition}) {{", *indented(yes), "} else {", *indented(no), "}"]
    return ["{", *indented([*head, *made]), "}"] if head else made


def indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]
