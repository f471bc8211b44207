"""The order of a backward pass: which node comes next, and the gradients added up so far.

PyTorch's order, which decides in what order gradients are added up and hooks are called: a node
comes when all gradients for it have arrived; of several such nodes leaves come first, then the one
that was recorded last. (The whole pass: docs/notes/backward-pass.md.)
"""

from __future__ import annotations

import heapq
from typing import Any

from ..core.base import Node


class Pending:
    """The state of one node in a pass: how many edges still lead to it, and the sum so far."""

    waiting: int = 0
    total: Any = None  # an array or tensor; a list of them for a node with several outputs
    owned: int = 0  # 1 + writes so far, if the sum belongs to this pass alone
    useful: bool = True  # whether it leads to something that `autograd.grad` asks for
    leads_on: bool = True  # whether one of its edges does
    users: list[Pending] | None = None  # whose edges lead here; only `keep_useful` has them

    node: Node


class Order:
    """The nodes that the roots reach, handed out one by one."""

    def __init__(self, roots: list[Node]) -> None:
        self.pending: dict[Node, Pending] = reached_from(roots)
        self.leaves: list[Pending] = []  # complete, in the order in which they became so
        self.following: Pending | None = None  # one complete node; most often there is no other
        self.complete: list[tuple[int, Pending]] = []  # the other ones, a heap
        for node in dict.fromkeys(roots):
            pending = self.pending[node]
            if pending.waiting == 0:
                self.is_complete(pending)

    def is_complete(self, pending: Pending) -> None:
        """Queue a node for which all gradients have arrived."""
        node = pending.node
        if node._is_leaf:
            self.leaves.append(pending)
        elif self.following is None:
            self.following = pending
        else:
            heapq.heappush(self.complete, (-node._seq, pending))

    def next(self) -> Pending | None:
        """The node to visit now; None: the pass is over."""
        if self.leaves:
            return self.leaves.pop(0)
        following = self.following
        complete = self.complete
        if following is None:
            return heapq.heappop(complete)[1] if complete else None
        self.following = None
        if complete:
            return heapq.heappushpop(complete, (-following.node._seq, following))[1]
        return following

    def keep_useful(self, targets: Any) -> None:
        """Mark the nodes from which no target can be reached; targets themselves are useful."""
        all_of_them = self.pending
        for pending in all_of_them.values():
            pending.useful = pending.leads_on = False
            for edge in pending.node._edges:
                if edge is not None:
                    below = all_of_them[edge]
                    if below.users is None:
                        below.users = [pending]
                    else:
                        below.users.append(pending)
        stack: list[Pending] = [all_of_them[node] for node in targets if node in all_of_them]
        while stack:
            pending = stack.pop()
            if not pending.useful:
                pending.useful = True
                users = pending.users
                if users is not None:
                    pending.users = None
                    for user in users:
                        user.leads_on = True
                        if not user.useful:
                            stack.append(user)

    def wanted(self, node: Node, grads: Any) -> list[Any]:
        """`grads` with None for the edges that lead to nothing useful."""
        pairs = zip(node._edges, grads, strict=True)
        return [g if e is not None and self.pending[e].useful else None for e, g in pairs]


def reached_from(roots: list[Node]) -> dict[Node, Pending]:
    """Every node that the roots reach, with the number of edges that lead to it."""
    found: dict[Node, Pending] = {}
    stack: list[Node] = []
    for node in roots:
        if node not in found:
            start = found[node] = Pending()
            start.node = node
            stack.append(node)
    while stack:
        for edge in stack.pop()._edges:
            if edge is not None:
                pending = found.get(edge)
                if pending is None:
                    pending = found[edge] = Pending()
                    pending.node = edge
                    pending.waiting = 1
                    if not edge._is_leaf:
                        stack.append(edge)
                else:
                    pending.waiting += 1
    return found
