"""The nodes of a linear layer run as one, in a backward pass that nobody watches.

core/layers.py records them. What arrives at the inputs is what the nodes one by one would have
handed on, in the same order: a bias that is a leaf first, the input, the weight, a bias that was
cast (which autocast does before it casts the weight).
"""

from __future__ import annotations

from typing import Any

from ...autograd.engine import Passing
from ...core.base import STATE, Node
from ...core.devices import DEVICE
from ...core.layers import Chain
from ...core.node import OpNode
from ...core.op import Op


def run_linear(run: Any, order: Any, node: Node, total: Any) -> bool:
    """All gradients of the layer whose last node is `node`; False if its nodes have to run."""
    chain: Chain = node._chain
    last: Any = node
    product: OpNode = last if chain.product is None else chain.product
    kept = product._kept
    if kept is None or STATE.detached or type(total) is not STATE.device_type:
        return False
    if total.dtype is not kept_dtype(kept):
        return False
    for inner in (chain.product, chain.flat, chain.turned):
        if inner is not None:
            waiting = order.pending[inner]
            if inner._hooks is not None or inner._packed or waiting.total is not None:
                return False
            if waiting.waiting != 1:
                return False
    cells = product._cells
    for k in range(0, len(cells), 3):
        if cells[k + 1].n != cells[k + 2]:
            return False  # the node says what was written
    to_bias, to_input, turned = product._edges
    x, right = kept[1], kept[2]
    grad = total
    if chain.product is not None:
        last_kept: Any = last._kept
        grad = DEVICE.space.reshape(total, last_kept[3])
    wants = (to_bias is not None, to_input is not None, turned is not None)
    found = DEVICE.backend.linear_gradients(grad, x, right, wants)
    if not run.keep:
        if last._frees:
            run.release(last)
        if product._frees:
            run.release(product)
    slots = product._edge_slots
    first = 0 if slots is None else slots[0]
    if to_bias is not None and to_bias._is_leaf:
        give(run, order, to_bias, first, found[0])
    if to_input is not None:
        flat = chain.flat
        if flat is None:
            give(run, order, to_input, 0 if slots is None else slots[1], found[1])
        else:
            flat_kept: Any = flat._kept
            below = flat._edge_slots
            place = 0 if below is None else below[0]
            give(run, order, flat._edges[0], place, found[1].reshape(flat_kept[3]))
    if turned is not None:
        below = turned._edge_slots
        give(run, order, turned._edges[0], 0 if below is None else below[0], found[2])
    if to_bias is not None and not to_bias._is_leaf:
        give(run, order, to_bias, first, found[0])
    return True


def hooked(leaves: list[Any]) -> bool:
    return any([leaf.node._hooks is not None for leaf in leaves])


def kept_dtype(kept: tuple[Any, ...]) -> Any:
    """The dtype of the matrices that a product saved."""
    x = kept[2] if kept[1] is None else kept[1]
    return None if x is None else x.dtype


def give(run: Any, order: Any, edge: Any, slot: int, g: Any) -> None:
    """Hand a gradient in new memory on; a cast that only waits for it runs at once."""
    pending = order.pending[edge]
    op: Op | None = edge._op
    if op is not None and op.casts and edge._hooks is None and not edge._packed:
        ready = pending.waiting == 1 and pending.total is None and edge._kept is not None
        # Leaves come before it, and their hooks must not see what it makes.
        if ready and not (order.leaves and hooked(order.leaves)):
            if run.late.takes(edge, g):
                return
            below = edge._edge_slots
            g = edge._pull(g, False)[0]
            edge = edge._edges[0]
            slot = 0 if below is None else below[0]
    if g is not None and edge._op is not None and edge._op.view:
        passed = run.past_views(order, Passing(edge, slot, g, 1))
        run.hand_one(order, passed.edge, passed.slot, passed.g, passed.owned)
        return
    run.hand_one(order, edge, slot, g, 1)
