"""What may only fall: places outside ops/ and kernels that know an op by name, and steps of a call.

An op is known by its block and its kernels. Everybody else asks the block for a fact instead of
keeping a list of names. When a number here is smaller than what is allowed, lower it.
"""

from __future__ import annotations

import ast
import os
import pathlib
import subprocess
import sys

import pytest

import tapegrad
from tapegrad.api.publish import load_everything
from tapegrad.core.op import REGISTRY

PACKAGE = pathlib.Path(tapegrad.__file__).parent
PAIRS = 248  # (file, op) pairs: strings in a file that are the name of an op
# ops/ and kernels/ are where ops live. The words of expressions/ are the primitives of the vector
# machine (PRIMITIVES, which a test compares with the C source): some are called as ops are.
# The recorder for PyTorch is one file that imports nothing of ours. The printers of C files are
# named after those primitives and the kernels in C.
HOMES = ("ops/", "kernels/", "expressions/", "export/to_c/", "recorder_for_torch.py")


def names_in(path: pathlib.Path) -> set[str]:
    """The ops whose names a file has as strings, except in `__all__`: that exports functions."""
    found: set[str] = set()
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        if not ast.unparse(statement).startswith("__all__ ="):
            found |= {node.value for node in ast.walk(statement) if is_name(node)}
    return found


def is_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in REGISTRY


def pairs() -> dict[str, set[str]]:
    load_everything()
    paths = {path.relative_to(PACKAGE): path for path in sorted(PACKAGE.rglob("*.py"))}
    found = {
        name.as_posix(): names_in(paths[name])
        for name in paths
        if not name.as_posix().startswith(HOMES)
    }
    return {file: names for file, names in found.items() if names}


@pytest.mark.slow
def test_ops_are_named_in_few_places():
    assert sum([len(names) for names in pairs().values()]) <= PAIRS


# What Python runs for a call: functions of ours, the files they are in, and how often two calls in
# a row are in different files. Without kernels and compiled modules, since those have no frames.
WALK = """
import sys
import tapegrad as torch

def walk(call, before=lambda: None):
    seen = []
    def look(frame, event, value):
        if event == "call":
            file = frame.f_code.co_filename
            if "tapegrad" in file or "numpy" in file:
                seen.append(file)
    for _ in range(3):
        before()
        call()
    before()
    sys.setprofile(look)
    call()
    sys.setprofile(None)
    switches = sum([a != b for a, b in zip(seen, seen[1:])])
    return len(seen), len(set(seen)), switches

x = torch.ones(2, 2, requires_grad=True)
w = torch.ones(2, 2, requires_grad=True)
y = x * w

def prepare():
    global loss
    x.grad = w.grad = None
    loss = (x * w).sum()

print(*walk(lambda: x * w))
print(*walk(lambda: y.sum()))
print(*walk(lambda: loss.backward(), prepare))
"""
WALKS = {"x * w": (9, 4, 4), "sum": (12, 5, 7), "backward": (40, 8, 20)}


def test_a_call_takes_few_steps():
    pure = {"TAPEGRAD_PURE": "1", "TAPEGRAD_NATIVE": "0"}
    source = str(PACKAGE.parent)
    done = subprocess.run(
        [sys.executable, "-c", WALK],
        env={**os.environ, **pure, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=True,
    )
    for line, (name, allowed) in zip(done.stdout.splitlines(), WALKS.items(), strict=True):
        found = tuple([int(n) for n in line.split()])
        assert all([n <= most for n, most in zip(found, allowed, strict=True)]), (name, found)
