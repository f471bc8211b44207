"""The backward pass: take the next node, ask it for its inputs' gradients, add them up, go on.

Values are bare arrays, or tensors when the pass itself is being recorded (`create_graph=True`). The
loop knows no op, no kind of memory and no feature: hooks, captures and observers are one guarded
call of watched.py, anomaly mode another. core/node.py computes and fills `.grad`. A pass that can
be run in a better way where its arrays are is a subclass of `Pass`, which starts.py chooses once.

The order is PyTorch's, which decides in what order gradients are added up and hooks are called: a
node comes when all gradients for it have arrived; of several such nodes leaves come first, then the
one that was recorded last. docs/notes/backward-pass.md walks through it.
"""

from __future__ import annotations

import heapq
from threading import get_ident
from typing import Any

from ..core.base import STATE, Node, begin_kernels, end_kernels, ndarray
from ..core.gradient_memory import aliases, in_grad_dtype, memory_of, owned_by_sum, sum_of
from ..core.modes import MODES, grad_set_to, set_mode
from ..core.node import fill_in, pull_nothing, pull_recorded
from ..errors import explain_backward
from .anomaly_mode import guarded
from .watched import keep_useful, observers, visit_watched


class Pending:
    """The state of one node in a pass: how many edges still lead to it, and the sum so far."""

    node: Node
    waiting: int = 0
    total: Any = None  # an array or tensor; a list of them for a node with several outputs
    owned: int = 0  # 1 + writes so far, if the sum belongs to this pass alone
    useful: bool = True  # whether it leads to something that `autograd.grad` asks for
    leads_on: bool = True  # whether one of its edges does
    users: list[Pending] | None = None  # whose edges lead here; only `keep_useful` has them


class Pass:
    """One backward pass.

    `captures` maps nodes to (output, place) pairs that `autograd.grad` asks for; None fills leaves.
    `observer` is called as those in `observers` are, for leaves too.
    """

    maker: Any = None  # the caller as State.maker has it, for the nodes that a recorded pass makes
    graph: bool = False  # whether grad mode is on while a pass on tensors runs
    # The nodes that backward(inputs=...) is for: where the pass ends.
    only_for: dict[Node, list[tuple[int, int]]] | None = None
    only_root: Node | None = None
    at: Node | None = None  # the node that is being visited
    number: int = -1  # for those who ask, counted from 0
    depth: int = 0  # how many passes this one is inside of
    following: Pending | None = None  # one complete node; most often there is no other

    def __init__(
        self,
        keep: bool,
        record: bool,
        captures: dict[Node, list[tuple[int, int]]] | None,
        caller: Any,
        observer: Any = None,
    ) -> None:
        self.keep = keep
        self.record = record
        self.captures = captures
        self.caller = caller  # who asked for it, as Node._freed_by keeps it
        if record and caller is not None:
            self.maker = (get_ident(), caller[0], caller[1])
        self.observer = observer
        # Whether somebody may keep gradients that pass by; `observer` copies what it wants to keep.
        self.shared: bool = captures is not None or STATE.anomaly or len(observers) != 0
        self.watched: bool = self.shared or observer is not None
        # Whether a node without hooks is watched for nothing but what `captures` asks for.
        self.only_captures: bool = captures is not None and not (
            observer is not None or STATE.anomaly or STATE.timing or observers
        )
        self.found: dict[int, Any] = {}  # what `captures` asked for, by place
        self.taken: dict[int, Any] = {}  # on tensors: the gradients that leaves took, by id
        self.callbacks: list[Any] = []  # to be called when all is done
        self.pending: dict[Node, Pending] = {}  # of all nodes that the roots reach
        self.leaves: list[Pending] = []  # complete, in the order in which they became so
        self.complete: list[tuple[int, Pending]] = []  # other complete nodes, a heap

    def go(self, starts: list[tuple[Node, int, Any, int]]) -> None:
        """The whole pass, from (node, output, gradient, 1 if the gradient may be taken over)."""
        outer, hooks, MODES.run = MODES.run, MODES.saved_hooks, self
        try:
            if self.record:  # hooks and Functions set the grad mode themselves
                with grad_set_to(self.graph):
                    self.visit_all(starts)
            else:
                self.visit_all(starts)
            self.at = None
            while self.callbacks:
                self.callbacks.pop(0)()
        finally:
            MODES.run = outer
            if MODES.saved_hooks is not hooks:
                set_mode("saved_hooks", hooks)  # an unpack hook entered a block and left it open

    def visit_all(self, starts: list[tuple[Node, int, Any, int]]) -> None:
        """Visit every node that the starts reach, in order."""
        token = begin_kernels()
        try:
            self.start(starts)
            pending = self.next()
            while pending is not None:
                self.visit(pending)
                pending = self.next()
        finally:
            end_kernels(token)

    def start(self, starts: list[tuple[Node, int, Any, int]]) -> None:
        """Find the nodes that the starts reach, and store the first gradients there."""
        roots = [starts[0][0]] if len(starts) == 1 else list({start[0]: None for start in starts})
        self.pending = reached_from(roots)
        if len(starts) == 1:  # no edge leads to the only one
            self.only_root = roots[0]
            self.following = self.pending[roots[0]]
        else:
            for root in roots:
                if self.pending[root].waiting == 0:
                    self.is_complete(self.pending[root])
        if self.captures is not None:
            keep_useful(self.pending, self.captures)
        elif self.only_for is not None:
            keep_useful(self.pending, self.only_for)
            self.watched = True
        for node, slot, grad, owned in starts:
            if node._converts:
                grad = in_grad_dtype(node, grad, self.record)
            pending = self.pending[node]
            if pending.total is None and node._outputs is None:
                pending.total = grad
                pending.owned = owned
            else:
                self.add_up(pending, slot, grad, owned)

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

    def is_complete(self, pending: Pending) -> None:
        """Queue a node for which all gradients have arrived."""
        node = pending.node
        if node._is_leaf:
            self.leaves.append(pending)
        elif self.following is None:
            self.following = pending
        else:
            heapq.heappush(self.complete, (-node._seq, pending))

    def step(self) -> Node | None:
        """Visit one more node and return it; None: there is none left. For trace_backward."""
        pending = self.next()
        if pending is None:
            return None
        self.visit(pending)
        return pending.node

    def visit(self, pending: Pending) -> None:
        """Run one node on the gradients that have arrived, and pass its own on to its edges."""
        node = self.at = pending.node
        total, pending.total = pending.total, None
        if node._hooks is not None or self.watched:
            visit_watched(self, pending, total)
        elif not node._is_leaf:
            grads = self.pull(node, total)
            if pending.node._hooks is not None:  # made by an unpack hook of the node's values
                grads = pending.node._hooks.after(node, grads, (), self.record)
            self.hand_on(node, total, pending.owned, grads)
        elif total is not None:
            node._accumulate(total, self.record, pending.owned, self.caller)

    def pull(self, node: Node, total: Any) -> Any:
        """The gradients for the edges of a node; its saved values are dropped unless `keep`."""
        grads: Any = None
        if total is None:
            grads = pull_nothing(node, self.record)
        else:
            if type(total) is list:
                fill_in(node, total, self.record)
            try:
                if STATE.anomaly:
                    grads = guarded(node, total, self.record)
                elif self.record:
                    grads = pull_recorded(node, total, self.maker)
                else:
                    grads = node._pull(total, False)
            except RuntimeError as error:
                explain_backward(error, node)
                raise
        if node._frees and not self.keep:
            node._release()
            node._freed_by = self.caller  # a second pass will say who did it
        return grads

    def hand_on(self, node: Node, total: Any, owned: int, grads: Any) -> None:
        """Add the gradients that a node returned to its edges; each now waits for one less."""
        # Who owns the memory of `grads`? Rules never return a saved value, so what is not the
        # incoming gradient, or a view of it, was made by the rule; hooks and Functions may return
        # anything.
        trusted = (node._op is not None or node._gives_away) and node._hooks is None
        edges = node._edges
        inherits = owned if len(edges) - edges.count(None) == 1 else 0
        slots = node._edge_slots
        if type(total) is list and trusted:
            parts = [part for part in total if part is not None]
            if len(parts) == 1:
                total = parts[0]
        several = type(total) is list
        for i, edge in enumerate(edges):
            if edge is not None:
                pending = self.pending[edge]
                g = None if grads is None else grads[i]
                if g is not None and pending.useful:
                    own = 0
                    if trusted:
                        if several or type(g) is not ndarray:
                            shares = aliases(g, total)
                        else:  # `aliases` of two arrays, without a call
                            base = g.base
                            shares = g is total
                            if base is not None and not shares:
                                shares = base is total or base is total.base
                        own = inherits if shares else 1
                    if edge._converts:
                        g = in_grad_dtype(edge, g, self.record)
                    if pending.total is None and edge._outputs is None:
                        pending.total = g
                        pending.owned = own
                    else:
                        self.add_up(pending, 0 if slots is None else slots[i], g, own)
                pending.waiting -= 1
                if pending.waiting == 0:
                    if edge._is_leaf:
                        self.leaves.append(pending)
                    else:
                        self.is_complete(pending)

    def add_up(self, pending: Pending, slot: int, g: Any, owned: int) -> None:
        """Add a partial gradient for output `slot` of a node."""
        outputs = pending.node._outputs
        if outputs is not None:
            parts: list[Any] | None = pending.total
            if parts is None:
                parts = pending.total = [None] * len(outputs)
            part = parts[slot]
            parts[slot] = g if part is None else sum_of(part, g, self.record)
            return
        before = pending.total
        if before is None:
            pending.total = g
            pending.owned = owned
        elif pending.owned and memory_of(before).may_add_into(before, g):
            memory_of(before).add_into(before, g)
            pending.owned += 1
        elif owned and memory_of(g).may_add_into(g, before):
            memory_of(g).add_into(g, before)
            pending.total = g
            pending.owned = 1  # PyTorch makes a new tensor, which has no writes
        else:
            pending.total = sum_of(before, g, self.record)
            pending.owned = owned_by_sum(before, g, pending.owned)

    def is_whole(self) -> bool:
        """Whether the pass visits the whole graph, not only the paths to the inputs asked for."""
        return self.captures is None and self.only_for is None


def reached_from(roots: list[Node]) -> dict[Node, Pending]:
    """Every node that the roots reach, with the number of edges that lead to it."""
    found: dict[Node, Pending] = {}
    to_follow: list[Node] = []
    for node in roots:
        pending = found[node] = Pending()
        pending.node = node
        to_follow.append(node)
    while to_follow:
        for edge in to_follow.pop()._edges:
            if edge is not None:
                known = found.get(edge)
                if known is None:
                    known = found[edge] = Pending()
                    known.node = edge
                    if not edge._is_leaf:
                        to_follow.append(edge)
                known.waiting += 1
    return found
