"""The backward pass: take the next node, ask it for its inputs' gradients, add them up, go on.

Values are bare arrays, or tensors when the pass itself is being recorded (`create_graph=True`). The
loop knows no op, no kind of memory and no feature: hooks, captures, observers and anomaly mode are
one guarded call each. order.py decides which node is next; node.py computes; leaves.py fills
`.grad`. A pass that can be run in a better way where its arrays are is a subclass of `Pass`, which
starts.py chooses once. docs/notes/backward-pass.md walks through it.
"""

from __future__ import annotations

from threading import get_ident
from typing import Any, Final

from ..core.base import (
    ORDINARY,
    STATE,
    Node,
    TensorBase,
    begin_kernels,
    end_kernels,
)
from ..core.gradient_memory import aliases, memory_of
from ..core.late_bound import DISPATCHED, PROFILER
from ..core.node import fill_in, pull_nothing, pull_recorded
from ..errors import explain_backward
from .anomaly_mode import guarded
from .leaves import accumulate, in_grad_dtype, owned_by_sum
from .order import Order, Pending

# Called as observer(node, grad, grads) after each node; anomaly mode and diagnose put theirs here.
observers: Final[list[Any]] = []


class Pass:
    """One backward pass.

    `captures` maps nodes to (output, place) pairs that `autograd.grad` asks for; None fills leaves.
    `observer` is called as those in `observers` are, for leaves too.
    """

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
        # The caller as State.maker has it, for the nodes that a recorded pass makes.
        self.maker: Any = None
        if record and caller is not None:
            self.maker = (get_ident(), caller[0], caller[1])
        self.observer = observer
        # Whether somebody may keep gradients that pass by; `observer` copies what it wants to keep.
        self.shared: bool = captures is not None or STATE.anomaly or len(observers) != 0
        self.watched: bool = self.shared or observer is not None
        # Whether a node without hooks is watched for nothing but what `captures` asks for.
        self.only_captures: bool = (
            captures is not None
            and observer is None
            and not (STATE.anomaly or STATE.timing or observers)
        )
        self.found: dict[int, Any] = {}
        # The nodes that backward(inputs=...) is for: where the pass ends.
        self.only_for: dict[Node, list[tuple[int, int]]] | None = None
        self.only_root: Node | None = None
        self.taken: dict[int, Any] = {}  # on tensors: the gradients that leaves took, by id
        self.order: Any = None  # an Order, once the pass has begun
        self.at: Node | None = None  # the node that is being visited
        self.callbacks: list[Any] = []  # to be called when all is done
        self.number: int = -1  # for those who ask, counted from 0
        self.depth: int = 0  # how many passes this one is inside of

    def go(self, roots: list[tuple[Node, int, Any, int]]) -> None:
        """The whole pass, from (node, output, gradient, 1 if the gradient may be taken over)."""
        token = begin_kernels()
        try:
            order = self.start(roots)
            pending = order.next()
            while pending is not None:
                self.visit(order, pending)
                pending = order.next()
        finally:
            end_kernels(token)

    def start(self, roots: list[tuple[Node, int, Any, int]]) -> Order:
        """Find the nodes that the roots reach, and store the first gradients at the roots."""
        if len(roots) == 1:
            self.only_root = roots[0][0]
            order = self.order = Order([roots[0][0]])
        else:
            order = self.order = Order([root[0] for root in roots])
        if self.captures is not None:
            order.keep_useful(self.captures)
        elif self.only_for is not None:
            order.keep_useful(self.only_for)
            self.watched = True
        for node, slot, grad, owned in roots:
            if node._converts:
                grad = in_grad_dtype(node, grad, self.record)
            self.add_up(order.pending[node], slot, grad, owned)
        return order

    def step(self) -> Node | None:
        """Visit one more node and return it; None: there is none left. For trace_backward."""
        order: Order = self.order
        pending = order.next()
        if pending is None:
            return None
        self.visit(order, pending)
        return pending.node

    def visit(self, order: Order, pending: Pending) -> None:
        """Run one node on the gradients that have arrived, and pass its own on to its edges."""
        node = self.at = pending.node
        total, pending.total = pending.total, None
        if node._hooks is not None or self.watched:
            if node._hooks is None and self.only_captures:
                self.visit_captured(order, pending, node, total)
            else:
                self.visit_watched(order, node, total, pending.owned)
        elif not node._is_leaf:
            grads = self.pull(node, total)
            if pending.node._hooks is not None:  # made by an unpack hook of the node's values
                grads = pending.node._hooks.after(node, grads, total, self.record)
            self.hand_on(order, node, total, pending.owned, grads)
        elif total is not None:
            accumulate(node, total, self.record, pending.owned, self.caller)

    def visit_captured(self, order: Order, pending: Pending, node: Node, total: Any) -> None:
        """Fast path of `visit_watched` for autograd.grad() without hooks or observers."""
        grads: Any = None
        if pending.useful or node is self.only_root:
            self.capture(node, total)
            if pending.leads_on:
                grads = self.pull(node, total)
        self.hand_on(order, node, total, 0, grads)

    def visit_watched(self, order: Order, node: Node, total: Any, owned: int) -> None:
        """Visit a node with hooks, or one of a pass that captures gradients or is observed."""
        record = self.record
        hooks = node._hooks
        if not (self.is_whole() or order.pending[node].useful or node is self.only_root):
            self.hand_on(order, node, None, 0, None)
            return
        goes_on = self.runs(order, node)
        if self.shared or (hooks is not None and hooks.sees_gradients()):
            owned = 0
        if goes_on:
            # PyTorch: before the tensor hooks here, after them at the end.
            self.capture(node, total)
        if hooks is not None:
            total = hooks.on_tensors(node, total, record)
        if not goes_on:
            self.capture(node, total)
            self.hand_on(order, node, None, 0, None)
            return
        grads: Any = ()
        if hooks is not None:
            total = hooks.before(node, total, record)
        if not node._is_leaf:
            if STATE.timing and total is not None:
                PROFILER.start(node.name(), None)
            # A copy of several gradients: hooks see None where nothing arrived.
            grads = self.pull(node, list(total) if type(total) is list else total)
            hooks = node._hooks  # an unpack hook may have made some
            if grads is not None and not self.is_whole():
                grads = order.wanted(node, grads)
        elif total is not None:
            accumulate(node, total, record, owned, self.caller)
        if hooks is not None:
            grads = hooks.after(node, grads, total, record)
        if total is not None:
            if not node._is_leaf:
                for observer in observers:
                    observer(node, total, grads)
            if self.observer is not None:
                self.observer(node, total, grads)
        self.hand_on(order, node, total, owned, grads)

    def is_whole(self) -> bool:
        """Whether the pass visits the whole graph, not only the paths to the inputs asked for."""
        return self.captures is None and self.only_for is None

    def runs(self, order: Order, node: Node) -> bool:
        """Whether a node has to run: grad() may only want what arrives there, or not even that."""
        if self.captures is not None:
            return order.pending[node].leads_on
        return self.only_for is None or node in self.only_for or order.pending[node].leads_on

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

    def hand_on(self, order: Order, node: Node, total: Any, owned: int, grads: Any) -> None:
        """Add the gradients that a node returned to its edges; each now waits for one less."""
        # Who owns the memory of `grads`? Rules never return a saved value, so what is not the
        # incoming gradient, or a view of it, was made by the rule; hooks and Functions may return
        # anything.
        trusted = (node._op is not None or node._gives_away) and node._hooks is None
        edges = node._edges
        inherits = owned if len(edges) == 1 else 0
        slots = node._edge_slots
        all_pending = order.pending
        if type(total) is list and trusted:
            parts = [part for part in total if part is not None]
            if len(parts) == 1:
                total = parts[0]
        for i, edge in enumerate(edges):
            if edge is not None:
                pending = all_pending[edge]
                g = None if grads is None else grads[i]
                if g is not None and pending.useful:
                    own = 0
                    if trusted:
                        own = inherits if aliases(g, total) else 1
                    if edge._converts:
                        g = in_grad_dtype(edge, g, self.record)
                    if pending.total is None and edge._outputs is None:
                        pending.total = g
                        pending.owned = own
                    else:
                        self.add_up(pending, 0 if slots is None else slots[i], g, own)
                pending.waiting -= 1
                if pending.waiting == 0:
                    order.is_complete(pending)

    def add_up(self, pending: Pending, slot: int, g: Any, owned: int) -> None:
        """Add a partial gradient for output `slot` of a node."""
        outputs = pending.node._outputs
        if outputs is not None:
            parts: list[Any] | None = pending.total
            if parts is None:
                parts = pending.total = [None] * len(outputs)
            part = parts[slot]
            parts[slot] = g if part is None else self.sum_of(part, g)
            return
        before = pending.total
        if not self.record and isinstance(g, TensorBase) and before is not None:  # a sparse one
            pending.total = self.sum_of(before, g)
            pending.owned = 0
        elif before is None:
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
            pending.total = self.sum_of(before, g)
            pending.owned = owned_by_sum(before, g, pending.owned)

    def sum_of(self, before: Any, g: Any) -> Any:
        if not self.record:
            if isinstance(before, TensorBase) or isinstance(g, TensorBase):
                return DISPATCHED.sum_of(before, g)
            return memory_of(before).sum_of(before, g)
        first: TensorBase = before
        return before + g if first._special == ORDINARY else DISPATCHED.sum_of(before, g)

    def will_visit(self, node: Node) -> bool:
        """Whether this pass gets to `node`; for register_multi_grad_hook."""
        order: Order = self.order
        pending = order.pending.get(node)
        return pending is not None and pending.useful

    def capture(self, node: Node, total: Any) -> None:
        captures = self.captures
        if total is not None and captures is not None and node in captures:
            for slot, place in captures[node]:
                value = total[slot] if type(total) is list else total
                if value is not None:
                    self.found[place] = value
