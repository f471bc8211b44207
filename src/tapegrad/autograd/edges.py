"""A place in the graph, as users name it."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..core.base import Node


class GradientEdge(NamedTuple):
    """Output `output_nr` of `node`: stands for a tensor without keeping it."""

    node: Node
    output_nr: int
    ownership_token: Any = None
