"""Formulas of ops and of their gradients, as text.

A gradient rule is a short Python function (`def d_input(F, grad, other): return grad * other`), so
its text is read off its own source: local variables are put in place, `F.exp(x)` becomes `exp(x)`,
and a call of an op or helper that has a `formula` becomes that. The few rules that are loops or
kernels are written out in their blocks (`gradient_text`).

>>> from tapegrad.core.op import REGISTRY
>>> rule_text(REGISTRY["mul"], 0)
'd/d input = grad * other'
>>> rule_text(REGISTRY["mm"], 1)
'd/d mat2 = input.T @ grad'
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from typing import Any

from ..core.op import REGISTRY
from ..core.rule_functions import RECORDED
from ..ops.block.definition import parameter_names
from ..ops.block.rule_source import rule_tree

LIMIT = 160  # a longer rule is named, not shown

# The names of the arguments of a function, and the formulas of which one may be written for it.
Known = tuple[tuple[str, ...], tuple[str, ...]]
# A function of the engine that rules call.
ENGINE: dict[str, Known] = {"unbroadcast": (("g", "shape"), ("sum_to(g, shape)",))}


class Unreadable(Exception):
    """A rule whose text says less than its name."""


@functools.cache
def formula(op: Any) -> str:
    """The first paragraph of an op's documentation, on one line; empty if it has none."""
    first = inspect.cleandoc(op.doc or "").partition("\n\n")[0]
    return " ".join(first.split())


@functools.cache
def rule_text(op: Any, index: int) -> str:
    """The gradient rule for input `index`: `d/d input = grad * other`; empty if there is none."""
    name = input_name(op, index)
    written = (op.gradient_text or {}).get
    text = written(op.tensors[0]) if op.variadic else written(name)
    if text is None:
        rule = op.joint or (op.rules[index] if index < len(op.rules) else None)
        if rule is None:
            return ""
        try:
            text = read_rule(rule.function, index if op.joint is not None else None)
        except Unreadable:
            text = f"{op.name}_backward({', '.join(['grad', *op.needed_by[index]])})"
    return "" if text == "None" else f"d/d {name} = {text}"


def input_name(op: Any, index: int) -> str:
    """The name of input `index` in formulas."""
    if op.variadic:
        return f"{op.tensors[0]}[{index}]"
    return op.tensors[index] if index < len(op.tensors) else f"input {index}"


def read_rule(function: Any, index: int | None) -> str:
    """The result of a rule as one expression; `index` picks from a rule for all inputs."""
    definition = rule_tree(function)
    if definition is None:
        raise Unreadable
    result = value_of(definition.body, {})
    if result is None:
        return "not implemented"
    if index is not None:
        result = pick(result, index)
    spell = Spell(function.__globals__)
    text = ast.unparse(ast.fix_missing_locations(spell.visit(result)))
    if len(text) > LIMIT:
        raise Unreadable
    return text


# ---------------------------------------------------------------------- from statements to a value


def value_of(body: list[ast.stmt], known: dict[str, ast.expr]) -> ast.expr | None:
    """The expression that a list of statements returns, with local variables replaced; None if
    nothing.
    """
    for i, statement in enumerate(body):
        if isinstance(statement, ast.Return) and statement.value is not None:
            return put(statement.value, known)
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            assign(statement, known)
        elif isinstance(statement, ast.If):
            rest = body[i + 1 :]
            test = put(statement.test, known)
            if is_mode(test):  # the other way to compute the same, for create_graph
                return value_of(statement.orelse + rest, dict(known))
            yes = value_of(statement.body + rest, dict(known))
            no = value_of(statement.orelse + rest, dict(known))
            if yes is None or no is None:
                return yes or no
            return yes if asks_for(test) else ast.IfExp(test, yes, no)
        elif isinstance(statement, ast.Raise):
            return None
        elif not isinstance(statement, ast.Expr):  # a check is no part of the formula
            raise Unreadable
    return None


def assign(statement: ast.Assign | ast.AnnAssign, known: dict[str, ast.expr]) -> None:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    if len(targets) != 1 or statement.value is None:
        raise Unreadable
    target, value = targets[0], put(statement.value, known)
    if isinstance(target, ast.Name):
        known[target.id] = value
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for name, part in zip(target.elts, value.elts, strict=True):
            if not isinstance(name, ast.Name):
                raise Unreadable
            known[name.id] = part
    elif isinstance(target, ast.Tuple):
        for i, name in enumerate(target.elts):
            if not isinstance(name, ast.Name):
                raise Unreadable
            known[name.id] = ast.Subscript(value, ast.Constant(i), ast.Load())
    else:
        raise Unreadable


class Put(ast.NodeTransformer):
    """Names exchanged for expressions."""

    def __init__(self, known: dict[str, ast.expr]) -> None:
        self.known = known

    def visit_Name(self, node: ast.Name) -> ast.expr:  # noqa: N802
        return self.known.get(node.id, node)


def put(expression: ast.expr, known: dict[str, ast.expr]) -> ast.expr:
    copied = ast.parse(ast.unparse(expression), mode="eval").body
    made = Put(known).visit(copied) if known else copied
    assert isinstance(made, ast.expr)
    return made


def is_mode(test: ast.expr) -> bool:
    return "F.recorded" in ast.unparse(test) or "F.is_final" in ast.unparse(test)


def asks_for(test: ast.expr) -> bool:
    """Whether a condition is only about which gradients are wanted."""
    return ast.unparse(test).startswith("needs[")


def pick(result: ast.expr, index: int) -> ast.expr:
    """The part of a tuple for one input."""
    if not isinstance(result, ast.Tuple) or index >= len(result.elts):
        raise Unreadable
    part = result.elts[index]
    if any(isinstance(each, ast.Starred) for each in result.elts):
        raise Unreadable
    if isinstance(part, ast.IfExp) and asks_for(part.test):
        part = part.body
    return part


class Spell(ast.NodeTransformer):
    """Calls as mathematics: without the F in front, known ones as formulas."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.names = names  # those of the module in which the rule is

    def visit_Call(self, node: ast.Call) -> ast.expr:  # noqa: N802
        self.generic_visit(node)
        known: Known | None = None
        if isinstance(node.func, ast.Attribute) and is_space(node.func.value):
            name = node.func.attr
            node.func = ast.Name(name, ast.Load())
            known = of_space(name)
        elif isinstance(node.func, ast.Name):
            node.args = [a for a in node.args if not is_space(a)]
            called = node.func.id
            known = ENGINE.get(called) or of_function(self.names.get(called))
        return node if known is None else formula_of(*known, node.args) or node

    def visit_Name(self, node: ast.Name) -> ast.expr:  # noqa: N802
        if not isinstance(self.names.get(node.id), float):
            return node
        return written_constant(self.names["__name__"], node.id) or node


def of_space(name: str) -> Known | None:
    """The object that `F.<name>` stands for: an op, or a helper of rules."""
    op = REGISTRY.get(name)
    if op is not None and op.formula:
        return (*op.tensors, *op.attrs), (op.formula,)
    return of_function(getattr(RECORDED, name, None))


def of_function(function: Any) -> Known | None:
    formulas = getattr(function, "formulas", None)
    if formulas is None:
        return None
    return tuple([n for n in parameter_names(function) if n != "F"]), formulas


def formula_of(
    names: tuple[str, ...], formulas: tuple[str, ...], args: list[ast.expr]
) -> ast.expr | None:
    """The first formula whose names are all given, with the arguments in their places."""
    given = dict(zip(names, args, strict=False))
    for formula in formulas:
        tree = ast.parse(formula, mode="eval").body
        used = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
        if not (used & set(names)) - set(given):
            tidy_calls(tree, given)
            return put(tree, given)
    return None


def tidy_calls(tree: ast.expr, given: dict[str, ast.expr]) -> None:
    """Leave out arguments that are None; one that is text may be the name of a function."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            node.args = [a for a in node.args if constant(a, given, ...) is not None]
            name = constant(node.func, given, None)
            node.func = node.func if name is None else ast.Name(name, ast.Load())


def constant(node: ast.expr, given: dict[str, ast.expr], otherwise: Any) -> Any:
    """The value of an argument that is one."""
    found = given.get(node.id) if isinstance(node, ast.Name) else None
    return found.value if isinstance(found, ast.Constant) else otherwise


@functools.cache
def written_constant(module: str, name: str) -> ast.expr | None:
    """How a module writes a number, without `math.`: `log(2)` for LN2."""
    for statement in ast.parse(inspect.getsource(sys.modules[module])).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == name:
            return ast.parse(ast.unparse(statement.value).replace("math.", ""), mode="eval").body
    return None


def is_space(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "F"
