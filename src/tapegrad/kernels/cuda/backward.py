"""A backward pass that starts on a GPU: fewer launches, and fewer steps of the host between them.

Where nobody watches (no hook, capture or observer) it takes three short cuts, none of which changes
a gradient or the order in which gradients are added up:

- casts to the dtypes of leaves wait, and are done many in one launch (late_casts.py);
- views, and leaves that wait for nothing else, are run at once instead of through the queue: the
  host must not be slower than the GPU;
- the nodes of a linear layer are run as one (layers.py).
"""

from __future__ import annotations

from typing import Any

from ...autograd.engine import Pass, Pending
from ...core.base import STATE, Node
from ...core.devices import DEVICE
from ...core.gradient_memory import aliases, in_grad_dtype
from ...core.node import OpNode
from ...core.op import Op
from ...errors import explain_backward
from .late_casts import LateCasts
from .layers import Passing, linear_gradients


class DevicePass(Pass):
    """A pass on bare arrays whose roots are on a GPU; starts.py chooses it."""

    def __init__(
        self,
        keep: bool,
        record: bool,
        captures: dict[Node, list[tuple[int, int]]] | None,
        caller: Any,
        observer: Any = None,
    ) -> None:
        super().__init__(keep, record, captures, caller, observer)
        self.late = LateCasts()

    def visit_all(self, starts: list[tuple[Node, int, Any, int]]) -> None:
        try:
            super().visit_all(starts)
        finally:
            self.cast_late()

    def visit(self, pending: Pending) -> None:
        node = pending.node
        if self.late.waiting and may_look_at_leaves(node):
            self.cast_late()
        total = pending.total
        if total is None or self.watched or node._hooks is not None or node._op is None:
            super().visit(pending)
            return
        self.at = node
        try:
            taken = node._chain is not None and self.run_linear(node, total)
            taken = taken or self.casts_later(node, total)
        except RuntimeError as error:
            explain_backward(error, node)
            raise
        if taken:
            pending.total = None
        else:
            super().visit(pending)

    def hand_on(self, node: Node, total: Any, owned: int, grads: Any) -> None:
        """Give each edge its gradient; views and leaves that wait for nothing else run at once."""
        if self.watched or grads is None:
            super().hand_on(node, total, owned, grads)
            return
        trusted = (node._op is not None or node._gives_away) and node._hooks is None
        edges = node._edges
        inherits = owned if len(edges) == 1 else 0
        slots = node._edge_slots
        if type(total) is list and trusted:
            parts = [part for part in total if part is not None]
            if len(parts) == 1:
                total = parts[0]
        for i, edge in enumerate(edges):
            if edge is not None:
                g = grads[i]
                own = 0
                if trusted and g is not None:
                    own = inherits if aliases(g, total) else 1
                self.hand_past_views(edge, 0 if slots is None else slots[i], g, own)

    def hand_past_views(self, edge: Node, slot: int, g: Any, owned: int) -> None:
        """Add a gradient to an edge, or to the first node below it that is not a view."""
        if g is not None and edge._op is not None and edge._op.view:
            passed = self.past_views(Passing(edge, slot, g, owned))
            self.hand_one(passed.edge, passed.slot, passed.g, passed.owned)
        else:
            self.hand_one(edge, slot, g, owned)

    def past_views(self, passing: Passing) -> Passing:
        """Run the views at the edge of `passing` that wait for nothing else.

        Stops where gradients are added up, so that the order of those sums stays what it is.
        """
        node: Any = passing.edge
        while node._op is not None and node._op.view and node._chain is None:
            if node._hooks is not None or node._packed or node._outputs is not None:
                break
            pending = self.pending[node]
            if pending.waiting != 1 or pending.total is not None or node._kept is None:
                break
            below: Node | None = node._edges[0]
            if below is None or below._is_leaf:
                break
            beyond = self.pending[below]
            if below._outputs is None and (beyond.waiting != 1 or beyond.total is not None):
                break
            g = pull_view(node, passing.g)
            if not aliases(g, passing.g):
                passing.owned = 1
            slots = node._edge_slots
            passing.slot = 0 if slots is None else slots[0]
            passing.g = g
            passing.edge = node = below
        return passing

    def hand_one(self, edge: Node, slot: int, g: Any, owned: int) -> None:
        """Give a gradient to an edge; a leaf that would be visited next anyway takes it at once."""
        pending = self.pending[edge]
        if g is not None and pending.useful:
            if edge._converts:
                g = in_grad_dtype(edge, g, False)
            if edge._is_leaf and pending.waiting == 1 and pending.total is None:
                if not self.leaves and edge._hooks is None and not edge._packed:
                    pending.waiting = 0
                    edge._accumulate(g, False, owned, self.caller)
                    return
            self.add_up(pending, slot, g, owned)
        pending.waiting -= 1
        if pending.waiting == 0:
            self.is_complete(pending)

    def casts_later(self, node: Node, total: Any) -> bool:
        """Whether a node is a cast to a leaf's dtype that can wait; it waits then."""
        op: Op = node._op
        if not op.casts or not self.late.can_wait(node, total):
            return False
        leaf = node._edges[0]
        if leaf is None:
            return False
        pending = self.pending[leaf]
        if pending.waiting != 1 or pending.total is not None:
            return False  # more is to be added
        pending.waiting = 0  # the leaf need not be visited: `cast_late` gives it its gradient
        if self.late.wait(leaf, total):
            self.cast_late()
        return True

    def cast_late(self) -> None:
        """Cast the gradients that wait, and give them to their leaves."""
        for leaf, g in self.late.cast():
            leaf._accumulate(g, False, 1, self.caller)

    def run_linear(self, last: Node, total: Any) -> bool:
        """Run all nodes of the layer whose last one is `last`; False: they have to run one by one.

        What arrives at the inputs is what the nodes one by one would have handed on, in the same
        order: a bias that is a leaf first, the input, the weight, a bias that was cast (which
        autocast does before it casts the weight).
        """
        found = linear_gradients(self.pending, last, total)
        if found is None:
            return False
        for node in found.nodes:
            if node._frees and not self.keep:
                node._release()
                node._freed_by = self.caller
        bias = found.bias
        if bias is not None and bias.edge._is_leaf:
            self.hand_to_cast(bias)
        for passing in (found.input, found.weight):
            if passing is not None:
                self.hand_to_cast(passing)
        if bias is not None and not bias.edge._is_leaf:
            self.hand_to_cast(bias)
        return True

    def hand_to_cast(self, passing: Passing) -> None:
        """Pass on a gradient in new memory; a cast that waits for nothing else runs at once."""
        edge = passing.edge
        slot = passing.slot
        g = passing.g
        pending = self.pending[edge]
        op: Op | None = edge._op
        if op is not None and op.casts and edge._hooks is None and not edge._packed:
            ready = pending.waiting == 1 and pending.total is None and edge._kept is not None
            # Leaves come before it, and their hooks must not see what it makes.
            if ready and not any_hooks(self.leaves):
                if self.casts_later(edge, g):
                    return
                slots = edge._edge_slots
                g = edge._pull(g, False)[0]
                source: Any = edge._edges[0]
                edge = source
                slot = 0 if slots is None else slots[0]
        self.hand_past_views(edge, slot, g, 1)


def may_look_at_leaves(node: Node) -> bool:
    """Whether a node calls functions of the user's, who may look at the `.grad` of leaves."""
    return node._hooks is not None or node._packed or (node._op is None and not node._is_leaf)


def any_hooks(leaves: list[Pending]) -> bool:
    return any([leaf.node._hooks is not None for leaf in leaves])


def pull_view(node: Any, total: Any) -> Any:
    """The gradient of a view's one input, mostly by a direct call of its rule."""
    own: OpNode = node
    op: Op = own._op
    rule = op.rules[0] if op.rules else None
    kept = own._kept
    if rule is None or kept is None or own._cells or own._fixes is not None or own.conjugates:
        return own._pull(total, False)[0]
    if op.device.pull is not None or type(total) is not STATE.device_type:
        return own._pull(total, False)[0]
    return rule.call(DEVICE.space, total, kept)
