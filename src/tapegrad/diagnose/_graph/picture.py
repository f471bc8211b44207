"""`diagnose.graph(loss)`: the recorded graph as text, page, SVG, DOT, JSON.

>>> import tapegrad as torch
>>> w = torch.tensor([1.0, 2.0], requires_grad=True)
>>> loss = (w * 3).sum()
>>> for line in torch.diagnose.graph(loss).text().splitlines():
...     print(line.partition("  ")[0])
loss: 3 nodes, 1 leaf
● loss: SumBackward0 () = 9
● MulBackward0 (2,)
○ w (2,) leaf

In a notebook the object shows itself; `save("graph.html")` writes one page that needs nothing else.
Given an exception, it shows the graph up to where something went wrong: `graph(err)`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from typing import Any

from ...autograd.edges import GradientEdge
from ...autograd.starts import edge_of
from ...core.base import Node, TensorBase
from ..words import behind
from . import dot as graph_dot
from . import svg as graph_svg
from . import text as graph_text
from .data import Collector, Root
from .names import Names

SUFFIXES = (".html", ".svg", ".dot", ".json", ".txt")


class Graph:
    """The result of `graph`, as data; pictures and texts are made from it when asked for."""

    def __init__(self, data: dict[str, Any], ids: dict[Node, int] | None = None) -> None:
        self.data = data
        self.ids = ids or {}  # the recorded nodes, by which trace_backward finds its way

    @property
    def nodes(self) -> list[dict[str, Any]]:
        """The nodes, outputs first: op, name, shape, dtype, line, module, saved values …"""
        found: list[dict[str, Any]] = self.data["nodes"]
        return found

    def text(
        self,
        depth: int | None = None,
        width: int = 100,
        limit: int | None = 200,
        fold: bool = True,
        collapse: bool = True,
        ascii: bool = False,
    ) -> str:
        """A tree for the terminal.

        depth: modules at this level are one row each (1: the outermost); None: what fits
        width, limit: columns and rows at the most
        fold, collapse: show repeated blocks once, and large modules as one row
        ascii: no box drawing characters
        """
        return graph_text.text(self.data, depth, width, limit, fold, ascii, collapse)

    def json(self, indent: int | None = None) -> str:
        """The data as JSON; docs describe its fields."""
        return json.dumps(self.data, indent=indent, allow_nan=False)

    def dot(self) -> str:
        """The graph in DOT, for Graphviz."""
        return graph_dot.dot(self.data)

    def svg(self, depth: int | None = None, fold: bool = True, collapse: bool = True) -> str:
        """A picture; the options are those of `text`."""
        return graph_svg.svg(self.data, depth, fold, collapse)

    def html(self) -> str:
        """One page with everything in it: zoom, search, modules that open and close."""
        from .page import render

        return render(self.data)

    def save(self, path: str | os.PathLike[str]) -> str:
        """Write a file; its suffix says what: .html .svg .dot .json .txt."""
        name = os.fspath(path)
        suffix = os.path.splitext(name)[1].lower()
        makers: dict[str, Callable[[], str]] = {
            ".html": self.html,
            ".svg": self.svg,
            ".dot": self.dot,
            ".gv": self.dot,
            ".json": self.json,
            ".txt": lambda: self.text(limit=None) + "\n",
        }
        if suffix not in makers:
            known = ", ".join(SUFFIXES)
            raise ValueError(f"cannot save a graph as {name!r}: the suffix must be one of {known}")
        with open(name, "w", encoding="utf-8") as file:
            file.write(makers[suffix]())
        return name

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        failed = "" if self.data["failed"] is None else ", failed"
        return f"<Graph {self.data['title']}: {graph_text.node_count(self.data)} nodes{failed}>"

    def _repr_svg_(self) -> str:
        return self.svg()

    def _repr_html_(self) -> str:
        """The page in a frame of its own, so that its style and scripts stay inside."""
        from html import escape

        page = escape(self.html(), quote=True)
        return (
            f'<iframe srcdoc="{page}" style="width:100%;height:560px;border:1px solid #ccd">'
            "</iframe>"
        )


def graph(
    *outputs: Any,
    title: str | None = None,
    model: Any = None,
    values: bool = True,
    grads: bool = True,
    inputs: Any = None,
) -> Graph:
    """The graph behind some tensors, or what there was of it when an exception was raised.

    outputs: tensors, lists of tensors, nodes (`loss.grad_fn`), or one exception
    model: the module whose paths to use, where no variable of a running function holds it
    values, grads: whether to compute statistics of values and of gradients
    inputs: tensors without history that are to be shown too; a dict gives them names
    """
    if len(outputs) == 1 and isinstance(outputs[0], BaseException):
        from .error import graph_of_error

        options = {"values": values, "grads": grads, "inputs": named(inputs)}
        return Graph(graph_of_error(outputs[0], title, model, options))
    given = flat(outputs)
    roots = [root_of(value) for value in given]
    if not roots:
        raise TypeError("graph() needs a tensor, a grad_fn or an exception")
    names = Names(model)
    collector = Collector(roots, names, values=values, grads=grads, inputs=named(inputs))
    return Graph(collector.data(title or title_of(given, names)), collector.ids)


def flat(values: Iterable[Any]) -> list[Any]:
    """Tensors and nodes from nested lists, tuples and dicts."""
    found: list[Any] = []
    stack = list(values)[::-1]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            stack += list(value.values())[::-1]
        elif isinstance(value, (list, tuple)) and not isinstance(value, GradientEdge):
            stack += list(value)[::-1]
        else:
            found.append(value)
    return found


def root_of(value: Any) -> Root:
    """Node, output and tensor of what a user hands in."""
    if isinstance(value, Node):
        return value, 0, None
    if isinstance(value, GradientEdge):
        return value.node, value.output_nr, None
    if not isinstance(value, TensorBase):
        kind = type(value).__name__
        raise TypeError(f"graph() draws tensors, grad_fns and exceptions, not {kind}")
    value = behind(value)
    edge = edge_of(value)
    return (None, 0, value) if edge is None else (edge[0], edge[1], value)


def named(inputs: Any) -> dict[str, Any]:
    """`inputs=` as a dict."""
    if inputs is None:
        return {}
    if isinstance(inputs, TensorBase):
        inputs = [inputs]
    if isinstance(inputs, dict):
        return inputs
    names = Names()
    return {names.of_tensor(t) or f"input {i}": t for i, t in enumerate(inputs)}


def title_of(given: list[Any], names: Names) -> str:
    found = [names.of_tensor(t) for t in given if isinstance(t, TensorBase)]
    return ", ".join([name for name in found if name]) or "graph"
