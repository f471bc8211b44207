"""The source of a rule, for those who show it: docs/operators.md and `diagnose`."""

from __future__ import annotations

import ast
import inspect
import textwrap
from typing import Any


def rule_tree(function: Any) -> ast.FunctionDef | None:
    """A rule as a syntax tree; None if its source is not at hand.

    In a rule that a function made, the words and numbers which it was made with are filled in:
    `getattr(F, name)(grad)` reads `F.exp(grad)`.
    """
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError, TypeError, ValueError):
        return None
    definition = tree.body[0]
    if not isinstance(definition, ast.FunctionDef):
        return None
    held = inspect.getclosurevars(function).nonlocals
    known = {name: value for name, value in held.items() if isinstance(value, (str, int, float))}
    if known:
        definition.body = [FillIn(known).visit(statement) for statement in definition.body]
    return definition


class FillIn(ast.NodeTransformer):
    """Puts values in the place of names, and `F.exp` in that of `getattr(F, "exp")`."""

    def __init__(self, known: dict[str, Any]) -> None:
        self.known = known

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(self.known[node.id]) if node.id in self.known else node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if ast.unparse(node.func) == "getattr" and isinstance(node.args[1], ast.Constant):
            return ast.Attribute(node.args[0], node.args[1].value, ast.Load())
        return node
