"""Saved values are read by name: a new attribute in a block must not shift what others read."""

from __future__ import annotations

import ast
import pathlib
from typing import Any

import pytest

import table  # noqa: F401  all ops
import tapegrad as torch
from tapegrad.core.op import REGISTRY

ROOT = pathlib.Path(torch.__file__).parent
# Whose `kept` is the `_kept` of a node.
READERS = [ROOT / "backends", ROOT / "kernels", ROOT / "diagnose", ROOT / "errors"]
# The array of a leaf, which has no op and no names; a list of arguments, which is no node's.
ALLOWED = {("alive.py", "node._kept[0]"), ("_program.py", "kept[-1]")}


def numbered(path: pathlib.Path) -> list[tuple[str, str]]:
    """Where a file reads a saved value by a number, or a slice between numbers."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith("kept"):
            index = node.slice
            parts = [index.lower, index.upper] if isinstance(index, ast.Slice) else [index]
            if any(isinstance(p, (ast.Constant, ast.UnaryOp)) for p in parts if p is not None):
                found.append((path.name, ast.unparse(node)))
    return found


def test_nobody_reads_a_saved_value_by_its_number() -> None:
    paths = [path for folder in READERS if folder.exists() for path in folder.rglob("*.py")]
    assert len(paths) > 100
    assert set(sum(map(numbered, paths), [])) <= ALLOWED


# Registered under names that are put together.
POOLS = {"pull": "max_pool2d", "pull_both": "max_pool2d_with_indices"}


def read_by_pulls(path: pathlib.Path) -> list[tuple[str, set[str]]]:
    """(op, names of saved values that are read) for the gradients that a launcher registers."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    owners = dict(POOLS) if path.name == "pool.py" else {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, (ast.Name, ast.Attribute)):
            target = node.targets[0]
            if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
                if ast.unparse(target.value) == "backend.pulls":
                    name = node.value
                    key = name.id if isinstance(name, ast.Name) else name.attr
                    owners[key] = target.slice.value
    found = []
    for scope in (node for node in ast.walk(tree) if hasattr(node, "body")):
        # A launcher that is a class may say which op it is for.
        parts = scope.body if isinstance(scope, (ast.ClassDef, ast.Module, ast.FunctionDef)) else []
        own = dict(owners)
        for part in parts:
            if isinstance(scope, ast.ClassDef) and ast.unparse(part).startswith("op = '"):
                own["pull"] = ast.literal_eval(part.value)
        for part in parts:
            if isinstance(part, ast.FunctionDef) and part.name in own:
                if [a.arg for a in part.args.args if a.arg != "self"] == ["node", "grad", "kept"]:
                    inside = [n for n in ast.walk(part) if isinstance(n, ast.Attribute)]
                    names = {n.attr for n in inside if ast.unparse(n.value) == "kept"}
                    found.append((own[part.name], names))
    return found


def test_launchers_read_names_that_their_ops_have() -> None:
    """Also where there is no GPU to run them."""
    paths = [path for folder in READERS[:2] if folder.exists() for path in folder.rglob("*.py")]
    found = sum(map(read_by_pulls, paths), [])
    assert len(found) >= 11
    for op, names in found:
        assert names
        assert names <= set(REGISTRY[op].layout), op


def nodes_of(t: Any) -> list[Any]:
    found, stack = [], [t._node]
    while stack:
        node = stack.pop()
        if node is not None and node not in found:
            found.append(node)
            stack.extend(node._edges)
    return [node for node in found if node._op is not None]


@pytest.mark.parametrize(
    ("make", "name", "saved"),
    [
        (lambda x: x**1.5, "pow_scalar", {"input": (2, 3), "exponent": 1.5}),
        (lambda x: x.expand(4, 2, 3), "expand", {"shape": (4, 2, 3), "input_shape": (2, 3)}),
        (lambda x: x.exp(), "exp", {"input": None, "out": (2, 3)}),
        (lambda x: torch.nn.functional.layer_norm(x, (3,)), "native_layer_norm", {"eps": 1e-5}),
    ],
)
def test_the_values_of_a_node_have_the_names_of_its_block(
    make: Any, name: str, saved: dict[str, Any]
) -> None:
    node = next(n for n in nodes_of(make(torch.ones(2, 3, requires_grad=True))) if n.name())
    assert node._op.name == name
    kept = node._op.named(node._kept)
    for key, value in saved.items():
        found = getattr(kept, key)
        assert getattr(found, "shape", found) == value


def test_the_names_of_saved_values_are_the_places_that_rules_read() -> None:
    for op in REGISTRY.values():
        assert len(set(op.layout)) == len(op.layout)
        for rule in (*op.rules, op.joint):
            if rule is not None:
                code = getattr(rule.function, "__wrapped__", rule.function).__code__
                skip = 3 if rule is op.joint else 2
                asked = code.co_varnames[skip : code.co_argcount + code.co_kwonlyargcount]
                assert tuple(op.layout[i] for i in rule.places) == asked
