"""The gradients of a linear layer on a GPU by one call, instead of one call per node.

ops/products/linear_layer.py records the nodes; backward.py passes the gradients on to their inputs.
"""

from __future__ import annotations

from typing import Any

from ...autograd.engine import Pending
from ...core.base import STATE, Node
from ...core.devices import DEVICE
from ...core.node import OpNode


class Passing:
    """A gradient on its way to an output of a node."""

    def __init__(self, edge: Node, slot: int, g: Any, owned: int) -> None:
        self.edge = edge
        self.slot = slot
        self.g = g
        self.owned = owned


class LinearGradients:
    """The gradients of a linear layer, each with the node that it goes to."""

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes  # nodes of the layer that may have saved values
        self.bias: Passing | None = None
        self.input: Passing | None = None
        self.weight: Passing | None = None


def linear_gradients(
    all_pending: dict[Node, Pending], node: Node, total: Any
) -> LinearGradients | None:
    """All gradients of the layer whose last node is `node`; None: its nodes have to run."""
    product_node, flat, turned_node = node._chain
    last: Any = node
    product: OpNode = last if product_node is None else product_node
    kept = product._kept
    if kept is None or STATE.detached or type(total) is not STATE.device_type:
        return None
    saved = product._op.named(kept)
    matrix = saved.mat2 if saved.mat1 is None else saved.mat1
    if matrix is None or total.dtype is not matrix.dtype:
        return None
    for inner in (product_node, flat, turned_node):
        if inner is not None:
            waiting = all_pending[inner]
            if inner._hooks is not None or inner._packed or waiting.total is not None:
                return None
            if waiting.waiting != 1:
                return None
    cells = product._cells
    for k in range(0, len(cells), 3):
        if cells[k + 1].n != cells[k + 2]:
            return None  # the node says what was written
    to_bias, to_input, turned = product._edges
    grad = total
    if product_node is not None:
        grad = DEVICE.space.reshape(total, last._op.named(last._kept).input_shape)
    wants = (to_bias is not None, to_input is not None, turned is not None)
    found = DEVICE.backend.linear_gradients(grad, saved.mat1, saved.mat2, wants)
    made = LinearGradients([last] if last is product else [last, product])
    slots = product._edge_slots
    if to_bias is not None:
        made.bias = Passing(to_bias, 0 if slots is None else slots[0], found[0], 1)
    if to_input is not None:
        if flat is None:
            made.input = Passing(to_input, 0 if slots is None else slots[1], found[1], 1)
        else:
            shape = flat._op.named(flat._kept).input_shape
            made.input = below(flat, found[1].reshape(shape))
    if turned is not None:
        made.weight = below(turned, found[2])
    return made


def below(view: Node, g: Any) -> Passing:
    """The gradient of the tensor that a view was made of."""
    edge: Any = view._edges[0]
    slots = view._edge_slots
    return Passing(edge, 0 if slots is None else slots[0], g, 1)
