"""A name that one module takes from another is there, also when its owner moved to a new file."""

from __future__ import annotations

import ast
import importlib
import pathlib
import types

import pytest

import tapegrad
from tapegrad.kernels.cpu import KERNELS

ROOT = pathlib.Path(tapegrad.__file__).parent


def of_the_package() -> list[pathlib.Path]:
    """All files that can be imported; those beside the kernels only where there are kernels."""
    found = [path for path in sorted(ROOT.rglob("*.py")) if path.stem != "__main__"]
    return [path for path in found if KERNELS is not None or path.parent.name != "overrides"]


def modules_of(tree: ast.Module, package: str) -> dict[str, types.ModuleType]:
    """The names that this file binds to modules of the package, wherever it imports them."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            for alias in node.names:
                try:
                    found[alias.asname or alias.name] = importlib.import_module(
                        f"{base}.{alias.name}"
                    )
                except ImportError:
                    pass  # a function, a class, or an extra that is not here
    return found


def bound_again(tree: ast.Module) -> set[str]:
    """Names that some function or statement of this file gives to something else."""
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and is_store(node)}
    return names | {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}


def is_store(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


@pytest.mark.parametrize("path", of_the_package(), ids=lambda path: str(path.relative_to(ROOT)))
def test_attributes_of_modules_exist(path: pathlib.Path) -> None:
    tree = ast.parse(path.read_text())
    # What is in names/ has the name that it would have one folder further up.
    folder = ROOT / "names" if ROOT / "names" in path.parents else ROOT
    parts = ("tapegrad", *path.relative_to(folder).with_suffix("").parts)
    modules = modules_of(tree, ".".join(parts[:-1]))
    for name in bound_again(tree):
        modules.pop(name, None)
    missing = [
        f"{path.name}:{node.lineno}: {node.value.id}.{node.attr}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        if node.value.id in modules and isinstance(node.ctx, ast.Load)
        if not hasattr(modules[node.value.id], node.attr)
    ]
    assert not missing
