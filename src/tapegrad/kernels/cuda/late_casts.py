"""Gradients of a pass that wait to be cast to the dtypes of their leaves: many in one launch.

Under autocast every parameter was cast on the way into its op, so that its gradient arrives in half
precision. They are cast together: at the end of the pass, or before anybody may look at a leaf.
"""

from __future__ import annotations

from typing import Any, Final

from ...autograd.leaves import accumulate
from ...core.base import STATE, Node
from ...core.devices import DEVICE
from ...core.op import Op

MOST_WAITING: Final = 1 << 26  # bytes


class LateCasts:
    def __init__(self, run: Any) -> None:
        self.run = run
        self.waiting: list[tuple[Node, Any]] = []  # leaves and gradients
        self.size = 0

    def before(self, node: Node) -> None:
        """A node is about to run: does it call functions of the user's, who may look at leaves?"""
        if node._hooks is not None or node._packed or (node._op is None and not node._is_leaf):
            self.cast()

    def takes(self, node: Node, total: Any) -> bool:
        """Whether a node is a cast to a leaf's dtype that can wait: nothing is to be done then."""
        op: Op | None = node._op
        if op is None or not op.casts or type(total) is not STATE.device_type or STATE.several:
            return False
        leaf = node._edges[0]
        if leaf is None or not leaf._is_leaf or leaf._hooks is not None or leaf._converts:
            return False
        if node._kept is None:
            return False
        pending = self.run.order.pending[leaf]
        if pending.waiting != 1 or pending.total is not None:
            return False  # more is to be added
        if not total._c_contiguous or not total.size:
            return False
        pending.waiting = 0  # the leaf need not be visited: it gets its gradient from here
        self.waiting.append((leaf, total))
        self.size += total.nbytes
        if self.size > MOST_WAITING:
            self.cast()
        return True

    def cast(self) -> None:
        """Cast what waits, and give it to the leaves."""
        late = self.waiting
        self.waiting = []
        self.size = 0
        alike: dict[Any, list[int]] = {}
        for i, (node, total) in enumerate(late):
            leaf: Any = node
            alike.setdefault((total.dtype, leaf.tensor()._array.dtype), []).append(i)
        made: list[Any] = [None] * len(late)
        for (_, dtype), places in alike.items():
            totals = [late[i][1] for i in places]
            arrays = DEVICE.backend.casts(totals, dtype, True)
            if arrays is None:
                arrays = [DEVICE.space.cast(g, dtype) for g in totals]
            for i, array in zip(places, arrays, strict=True):
                made[i] = array
        for i, (node, _) in enumerate(late):
            accumulate(node, made[i], False, 1, self.run.caller)
