"""One HTML page about two runs: side by side, the first difference marked, its growth as a plot.

No network and nothing beside it. Colours and embedding are those of the graph's page.
"""

from __future__ import annotations

import functools
import html
import importlib.resources
import re
from typing import Any

from .._graph import page as graph_page
from .compare import Comparison
from .differ import agree, difference, spelled
from .reader import Op, Value
from .report import about, as_data

MOST_ROWS = 4000  # pairs of ops on the page, from the step of the cause outwards
PLACE = re.compile(r"\{\{(title|shared|css|data|js)\}\}")


def render(found: Comparison) -> str:
    """The page, as text."""
    title = f"{found.a.name} against {found.b.name}"
    parts = {
        "title": html.escape(title),
        "shared": graph_page.read("page.css"),
        "css": read("page.css"),
        "data": graph_page.embed(data(found, title)),
        "js": read("page.js"),
    }
    # One pass: what stands in the data is never taken for a placeholder.
    return PLACE.sub(lambda place: parts[place[1]], read("page.html"))


def data(found: Comparison, title: str) -> dict[str, Any]:
    told = as_data(found)
    told.pop("one_side_only")
    cause = found.cause or found.drift
    around = 0 if cause is None else cause.step
    told["title"] = title
    told["about"] = [about(found.a), about(found.b)]
    told["steps"] = {}
    rows = 0
    for step in sorted(range(len(found.pairs)), key=lambda s: (abs(s - around), s)):
        if rows and rows + len(found.pairs[step]) > MOST_ROWS:
            break
        told["steps"][str(step)] = step_rows(found, step)
        rows += len(found.pairs[step])
    if cause is not None:
        told["cause"]["difference"] = "" if cause.found is None else spelled(cause.found)
    return told


def step_rows(found: Comparison, step: int) -> list[dict[str, Any]]:
    ours, theirs = found.a.steps[step], found.b.steps[step]
    cause = found.cause or found.drift
    rows = []
    for i, j in found.pairs[step]:
        a = None if i is None else ours[i]
        b = None if j is None else theirs[j]
        row: dict[str, Any] = {"a": op_data(a), "b": op_data(b), "state": "alone"}
        if a is not None and b is not None:
            pairs = found.zipped(a.made, b.made)
            equal = all([agree(x, y, found.tolerance) for x, y in pairs])
            row["state"] = "same" if equal else "differs"
            gaps = [difference(x, y) for x, y in pairs if x is not None and y is not None]
            if gaps and not equal:
                row["gap"] = spelled(max(gaps, key=lambda g: g.relative))
        elif not found.counts("ab"[a is None], a or b):  # type: ignore[arg-type]
            row["state"] = "harmless"
        if cause is not None and (a is not None or b is not None):
            if (a is not None and a is cause.a) or (b is not None and b is cause.b):
                row["cause"] = True
        rows.append(row)
    return rows


def op_data(op: Op | None) -> dict[str, Any] | None:
    if op is None:
        return None
    line = op.line
    return {
        "op": op.name,
        "phase": op.phase,
        "module": op.module,
        "arguments": op.arguments,
        "at": "" if line is None else str(line),
        "text": "" if line is None else line.text,
        "read": [value_data(v) for v in op.read],
        "made": [value_data(v) for v in op.made],
    }


def value_data(v: Value | None) -> list[Any] | None:
    if v is None:
        return None
    shape = "x".join(map(str, v.shape)) or "scalar"
    return [v.dtype, shape, v.name, v.low, v.high, v.mean, v.norm, v.nans, v.infinities,
            f"{v.hash:016x}"]  # fmt: skip


@functools.cache
def read(name: str) -> str:
    """The text of a file of the page."""
    return importlib.resources.files(__package__).joinpath("page_files", name).read_text("utf-8")
