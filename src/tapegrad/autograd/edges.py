"""GradientEdge: an output of a node, by which users name a place in the graph."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..core.base import Node
from ..core.node import AccumulateGrad


class GradientEdge(NamedTuple):
    """Output `output_nr` of `node`: refers to a tensor without keeping it alive.

    >>> x = tensor([3.0], requires_grad=True)
    >>> y = x * 2
    >>> edge = autograd.graph.get_gradient_edge(y)
    >>> isinstance(edge, autograd.graph.GradientEdge), autograd.grad((y * y).sum(), edge)
    (True, (tensor([12.]),))
    """

    node: Node
    output_nr: int
    ownership_token: Any = None


def output_facts(node: Node) -> tuple[Any, ...] | None:
    """(shape, dtype) of each output of a node; None where no user ever had its tensor."""
    if isinstance(node, AccumulateGrad):
        array = node.tensor()._array
        return ((array.shape, node.grad_dtype if node._converts else array.dtype),)
    if node._outputs is not None:
        return node._outputs
    return None if node._made is None else (node._made,)
