"""Late casts: a pass collects gradients and casts many to their leaves' dtypes in one launch.

Under autocast every parameter was cast on the way into its op, so that its gradient arrives in half
precision. They are cast together: at the end of the pass, or before anybody may look at a leaf.
"""

from __future__ import annotations

from typing import Any, Final

from ...core.base import STATE, Node
from ...core.devices import DEVICE

MOST_WAITING: Final = 1 << 26  # bytes


class LateCasts:
    """Leaves and the gradients that are still to be cast for them."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Node, Any]] = []
        self.size = 0

    def can_wait(self, node: Node, total: Any) -> bool:
        """Whether the gradient of a cast can be cast later: it goes to one leaf only.

        The pass knows whether more is added to it first.
        """
        if type(total) is not STATE.device_type or STATE.several or node._kept is None:
            return False
        leaf = node._edges[0]
        if leaf is None or not leaf._is_leaf or leaf._hooks is not None or leaf._converts:
            return False
        return bool(total._c_contiguous) and total.size != 0

    def wait(self, leaf: Node, total: Any) -> bool:
        """Keep a gradient to be cast later; True: so much is waiting that it should be cast now."""
        self.waiting.append((leaf, total))
        self.size += total.nbytes
        return self.size > MOST_WAITING

    def cast(self) -> list[tuple[Node, Any]]:
        """Cast all waiting gradients; returns them with their leaves."""
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
        return [(late[i][0], made[i]) for i in range(len(late))]
