"""Finds what is alive: nodes of a graph, tensors of the process, the memory of arrays."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from typing import Any

from ..autograd.view_history import CopySlices
from ..core.base import Node, TensorBase
from ..core.is_array import is_array
from ..core.node import AccumulateGrad
from ..errors import evidence


def nodes_from(roots: Iterable[Node | None]) -> dict[Node, None]:
    """Every node that can be reached, the ones inside a CopySlices too; no limit, no recursion."""
    stack = [node for node in roots if node is not None]
    seen: dict[Node, None] = dict.fromkeys(stack)
    while stack:
        node = stack.pop()
        further = (*node._edges, node.inner) if isinstance(node, CopySlices) else node._edges
        for edge in further:
            if edge is not None and edge not in seen:
                seen[edge] = None
                stack.append(edge)
    return seen


def tensors() -> Iterator[Any]:
    """All tensors of the process that are complete."""
    for frame in evidence.user_frames():
        frame.f_locals  # noqa: B018  # before Python 3.13 a copy, which keeps what was deleted since
    for value in gc.get_objects():
        # By type(): isinstance would ask objects of other people, which may raise.
        if issubclass(type(value), TensorBase) and is_array(getattr(value, "_array", None)):
            yield value


def nodes() -> Iterator[Node]:
    """All nodes of the process."""
    for value in gc.get_objects():
        if issubclass(type(value), Node):
            yield value


def without_history(t: Any) -> bool:
    return t._node is None or t._node._is_leaf


def leaf_array(node: AccumulateGrad) -> Any:
    """The memory of the leaf behind an AccumulateGrad, without reviving a dead leaf."""
    leaf = node.leaf()
    if leaf is not None:
        return leaf._array
    return node._kept[0] if node._kept else None


class Places:
    """Lines by code and offset, each looked up once: graphs repeat the same lines."""

    def __init__(self) -> None:
        self.known: dict[tuple[Any, int], evidence.Place | None] = {}

    def of(self, node: Any) -> evidence.Place | None:
        key = node._code, node._lasti
        if key not in self.known:
            self.known[key] = evidence.place(*key)
        return self.known[key]
