"""E17: `.grad` was None where the program needed a gradient.

`w -= lr * w.grad` fails in Python's own words, in a line that is not ours. When nobody has caught
the exception, the line is read for tensors whose gradient is None, and `diagnose.why` says why.
"""

from __future__ import annotations

import ast
import linecache
import textwrap
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from ..core.base import TensorBase
from ..core.late_bound import ON_DEMAND
from . import evidence
from .report import attach
from .tracebacks import is_own

WIDTH = 84
FIXES = {
    "never used": "use it in the computation of the loss, and call backward() before this line",
    "no backward yet": "call backward() on the loss before this line",
    "graph is gone": "call backward() on the loss before this line",
    "set to None": "read it between backward() and zero_grad()",
    "requires_grad is False": "make it with requires_grad=True before it is used",
    "frozen": "unfreeze it before the forward pass: .requires_grad_(True)",
    "lost leaf": "update it in place: with torch.no_grad(): w -= lr * w.grad",
    "not a leaf": "read the gradient of a leaf, or call .retain_grad() before backward()",
    "autograd.grad": "use what autograd.grad returned, or call backward()",
}
OTHERWISE = "where it may be missing: if w.grad is not None: ..."


def explain(error: BaseException) -> None:
    """Add why to an exception that came of a `.grad` which is None, if it is one."""
    if not isinstance(error, (TypeError, AttributeError)) or hasattr(error, "diagnosis"):
        return
    if not error.args or "NoneType" not in str(error.args[0]):
        return
    trace = last_outside(error.__traceback__)
    if trace is None:
        return
    frames = []
    step = error.__traceback__
    while step is not None:
        frames.insert(0, step.tb_frame)
        step = step.tb_next
    evidence.FAILED[:] = [f for f in frames if not is_own(f)]
    try:
        for spelled, t in without_gradient(trace):
            put(error, spelled, t, evidence.place(trace.tb_frame.f_code, trace.tb_lasti))
            return
    finally:
        evidence.FAILED.clear()


def last_outside(trace: TracebackType | None) -> TracebackType | None:
    """The user's frame in which it happened."""
    found = None
    while trace is not None:
        if not is_own(trace.tb_frame):
            found = trace
        trace = trace.tb_next
    return found


def without_gradient(trace: TracebackType) -> Iterator[tuple[str, Any]]:
    """(what is written, tensor) for every `x.grad` of the failing lines that is None."""
    frame = trace.tb_frame
    code = frame.f_code
    first, last, _, _ = list(code.co_positions())[trace.tb_lasti // 2]
    source = "".join(linecache.getlines(code.co_filename, frame.f_globals))
    if first is None or last is None or not source:
        return
    names = {**frame.f_globals, **frame.f_locals}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr == "grad" and first <= node.lineno <= last:
            t = looked_up(node.value, names)
            if isinstance(t, TensorBase) and t._gradient is None:
                yield ast.unparse(node.value), t


def looked_up(node: ast.expr, names: dict[str, Any]) -> Any:
    """The value of `a`, `a.b` or `a[0]`; nothing is called."""
    try:
        if isinstance(node, ast.Name):
            return names.get(node.id)
        if isinstance(node, ast.Attribute):
            return getattr(looked_up(node.value, names), node.attr, None)
        if isinstance(node, ast.Subscript):
            key = node.slice
            at = key.value if isinstance(key, ast.Constant) else looked_up(key, names)
            return looked_up(node.value, names)[at]
    except Exception:  # what it is, is not known then
        return None
    return None


def put(error: Any, spelled: str, t: Any, where: evidence.Place | None) -> None:
    reason = ON_DEMAND.why(t)
    known = [name for name, value in evidence.held(evidence.user_frames()) if value is t]
    path = max(known, key=len, default=spelled)  # `p` says less than `model.fc2.weight`
    fixes = [FIXES.get(reason.cause, FIXES["no backward yet"]), OTHERWISE]
    attach(
        error,
        "E17",
        what=f"`{spelled}.grad` is None",
        details=[("why", textwrap.fill(reason.text, WIDTH, break_long_words=False))],
        causes=[("noticed", "at", where)],
        tensor=evidence.describe(t._array, path),
        fixes=[text.replace("w.", f"{spelled}.").replace("w -", f"{spelled} -") for text in fixes],
        cause=reason.cause,
    )
