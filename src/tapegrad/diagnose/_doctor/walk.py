"""One walk through the graph behind a loss, for all the checks that look at it."""

from __future__ import annotations

from typing import Any

from ...core.base import Node
from ...core.is_array import is_array
from ...errors.evidence import MAX_NODES
from ...ops.shape.copying import Cast, Clone
from ...ops.shape.views import UnsafeView

MAX_HOPS = 8


class Walk:
    """The nodes behind some roots, who uses whom, and the leaves at the end."""

    def __init__(self, roots: tuple[Any, ...]) -> None:
        starts = [t._node for t in roots if t._node is not None]
        self.users: dict[Any, list[tuple[Any, int]]] = {}  # node -> (user, place among its edges)
        self.nodes: list[Any] = []  # without the leaves
        self.leaves: list[Any] = []
        seen: set[Node] = set(starts)
        stack = list(starts)
        while stack and len(seen) < MAX_NODES:
            node = stack.pop()
            if node._is_leaf:
                self.leaves.append(node)
                continue
            self.nodes.append(node)
            for i, edge in enumerate(node._edges):
                if edge is not None:
                    self.users.setdefault(edge, []).append((node, i))
                    if edge not in seen:
                        seen.add(edge)
                        stack.append(edge)
        self.leaf_ids = {id(leaf.tensor()) for leaf in self.leaves}

    def depths(self) -> dict[int, Any]:
        """The parameters by id in the order of their use, each with the node that used it first."""
        first = {
            id(leaf.tensor()): min((user for user, _ in self.users[leaf]), key=lambda n: n._seq)
            for leaf in self.leaves
            if leaf in self.users
        }
        return dict(sorted(first.items(), key=lambda pair: pair[1]._seq))


def op_of(node: Any) -> Any:
    """The op of a node; None for leaves and custom Functions."""
    return None if node is None else node._op


def op_name(node: Any) -> str:
    return "" if node is None or node._op is None else node._op.name


def through_views(node: Any) -> Any:
    """The first node below that is more than another look at the same values."""
    for _ in range(MAX_HOPS):
        if node is None or node._op is None or node._is_leaf:
            return node
        if not (node._op.view or node._op in (UnsafeView, Clone, Cast)):
            return node
        node = node._edges[0] if node._edges else None
    return node


def saved_inputs(node: Any) -> dict[int, Any]:
    """The input values that an op has saved, by place."""
    if node._op is None or node._kept is None:
        return {}
    return {i: value for i, value in enumerate(node._kept[: node._op.width]) if is_array(value)}


def saved_outputs(node: Any) -> list[Any]:
    if node._op is None or node._kept is None:
        return []
    start = node._op.width
    return [v for v in node._kept[start : start + len(node._op.outs)] if is_array(v)]
