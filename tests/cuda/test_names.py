"""Every `xp.<name>` of the blocks is a name that CuPy has, or that the backend adds."""

from __future__ import annotations

import ast
import pathlib

import pytest
import stand_in
from signatures import ACCUMULATE, AT, REDUCE, REDUCEAT, SIGNATURES, UFUNC_OPTIONS

import tapegrad
from tapegrad.kernels.cuda.library import UFUNCS

OPS = sorted((pathlib.Path(tapegrad.__file__).parent / "ops").glob("*.py"))
METHODS = {"reduce": REDUCE, "accumulate": ACCUMULATE, "reduceat": REDUCEAT, "at": AT}
# Behind `if xp is np`.
NUMPY_ONLY = frozenset(["lib.stride_tricks.sliding_window_view"])


def path_of(node: ast.Attribute) -> str | None:
    """`xp.add.at` -> "add.at"; None for what does not start at xp."""
    parts: list[str] = []
    at: ast.expr = node
    while isinstance(at, ast.Attribute):
        parts.append(at.attr)
        at = at.value
    if isinstance(at, ast.Name) and at.id == "xp":
        return ".".join(reversed(parts))
    return None


def known(path: str) -> bool:
    name, _, rest = path.partition(".")
    if rest in METHODS:
        return name in METHODS[rest] or hasattr(UFUNCS.get(name), rest)
    found = stand_in
    for part in path.split("."):
        if not hasattr(found, part):
            return False
        found = getattr(found, part)
    return True


@pytest.mark.parametrize("file", OPS, ids=lambda f: f.stem)
def test_names(file: pathlib.Path) -> None:
    tree = ast.parse(file.read_text())
    wrong = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            path = path_of(node)
            if path is not None and path not in NUMPY_ONLY and not known(path):
                wrong.append(f"{file.name}:{node.lineno}: xp.{path}")
    assert not wrong


@pytest.mark.parametrize("file", OPS, ids=lambda f: f.stem)
def test_keywords(file: pathlib.Path) -> None:
    """CuPy's functions take fewer options."""
    wrong = []
    for node in ast.walk(ast.parse(file.read_text())):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        path = path_of(node.func)
        if path is None:
            continue
        space, _, name = path.rpartition(".")
        signature = SIGNATURES.get(space, {}).get(name)
        given = {k.arg for k in node.keywords if k.arg}
        if signature is not None:
            spare = set() if signature.open else given - signature.keywords
            if not any(isinstance(a, ast.Starred) for a in node.args):
                spare |= {"positional"} if len(node.args) > signature.most else set()
        elif not space and isinstance(getattr(stand_in, path, None), stand_in.ufunc_like):
            spare = given - UFUNC_OPTIONS - ({"order"} if path in UFUNCS else set())
        else:
            continue
        if spare:
            wrong.append(f"{file.name}:{node.lineno}: xp.{path} takes no {sorted(spare)}")
    assert not wrong
