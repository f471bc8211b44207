"""One HTML page that shows a graph: no network, nothing beside it, opens from a file.

`render` takes the JSON of `diagnose.graph(loss).data` and gives the whole document; where the
data holds a trace, the page plays it. Styles and script lie in `page_files`.
"""

from __future__ import annotations

import functools
import html
import importlib.resources
import json
import math
import re
from typing import Any

from ...errors.evidence import cell_or_file

# In this order they are one script; each file only uses what stands in an earlier one
# or what is called after all have loaded.
SCRIPTS = ("model.js", "layout.js", "draw.js", "panel.js", "player.js", "main.js")

PLACE = re.compile(r"\{\{(title|css|data|js)\}\}")


def render(data: dict[str, Any]) -> str:
    """The page for the graph `data`, as text.

    >>> page = render({"version": 1, "title": "loss", "root": [], "nodes": [], "edges": []})
    >>> page.startswith("<!doctype html>")
    True
    """
    parts = {
        "title": html.escape(str(data.get("title") or "graph")),
        "css": read("page.css"),
        "data": embed(with_cells(data)),
        "js": "".join(read(name) for name in SCRIPTS),
    }
    # One pass: what stands in the data is never taken for a placeholder.
    return PLACE.sub(lambda place: parts[place[1]], read("page.html"))


def with_cells(data: Any) -> Any:
    """`data` in which the files of a notebook's cells are called `In [4]`.

    >>> with_cells({"nodes": [{"file": "train.py", "line": 3}]})
    {'nodes': [{'file': 'train.py', 'line': 3}]}
    """
    if isinstance(data, list):
        return [with_cells(each) for each in data]
    if not isinstance(data, dict):
        return data
    return {
        key: cell_or_file(value) if key == "file" and value else with_cells(value)
        for key, value in data.items()
    }


def embed(data: Any) -> str:
    """`data` as JSON that may stand inside a script element.

    NaN and the infinities, which JSON has not, become the strings "NaN", "Infinity" and
    "-Infinity"; "<" is written as an escape, so that no text can close the element.

    >>> embed({"norm": float("nan"), "text": "</script>"})
    '{"norm":"NaN","text":"\\\\u003c/script>"}'
    """
    try:
        text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError):
        text = json.dumps(for_json(data), allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def for_json(value: Any) -> Any:
    """`value` with everything in it that JSON cannot hold written in another way."""
    if isinstance(value, dict):
        return {str(key): for_json(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [for_json(entry) for entry in value]
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if hasattr(value, "tolist"):  # NumPy's numbers and arrays
        return for_json(value.tolist())
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return str(value)


@functools.cache
def read(name: str) -> str:
    """The text of a file of the page."""
    return importlib.resources.files(__package__).joinpath("page_files", name).read_text("utf-8")
