"""The backward pass: take the next node, ask it for its inputs' gradients, add them up, go on.

Values are bare arrays, or tensors when the pass itself is being recorded (`create_graph=True`). The
loop knows no op, no kind of memory and no feature: hooks, captures, observers and late casts are
one guarded call each. Which node is next is said by order.py; leaves.py fills `.grad`.
docs/notes/backward-pass.md walks through it.
"""

from __future__ import annotations

from threading import get_ident
from typing import Any, Final

from ..core.base import (
    COMPILED,
    IGNORED,
    NUMPY_ERRORS,
    ON_DEVICE,
    ORDINARY,
    STATE,
    Node,
    TensorBase,
    ndarray,
    own_maker,
    wrap,
)
from ..core.gradient_memory import HOST, aliases, memory_of
from ..core.late_bound import DISPATCHED, GPU, PROFILER
from ..core.node import OpNode
from ..core.op import Op
from ..errors import explain_backward, freed_graph
from .anomaly_mode import guarded
from .leaves import accumulate, converted
from .order import Order, Pending

# Called as observer(node, grad, grads) after each node; anomaly mode and diagnose put theirs here.
observers: Final[list[Any]] = []


class Passing:
    """A gradient on its way to an output of a node."""

    def __init__(self, edge: Node, slot: int, g: Any, owned: int) -> None:
        self.edge = edge
        self.slot = slot
        self.g = g
        self.owned = owned


class Run:
    """One backward pass.

    `captures` maps nodes to (output, index) pairs that `autograd.grad` asks for; None fills leaves.
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
        # The same as State.maker has it, for the nodes that a recorded pass makes.
        self.maker: Any = None
        if record and caller is not None:
            self.maker = (get_ident(), caller[0], caller[1])
        self.observer = observer
        # Whether somebody may keep what passes by; an observer of this pass alone copies it.
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
        self.late: Any = None  # casts to the dtypes of leaves, done together at the end
        self.order: Any = None  # an Order, once the pass has begun
        self.at: Node | None = None  # the node that is being visited
        self.callbacks: list[Any] = []  # to be called when all is done
        self.number: int = -1  # for those who ask, counted from 0
        self.depth: int = 0  # how many passes this one is inside of

    def go(self, roots: list[tuple[Node, int, Any, int]]) -> None:
        """The whole pass, from (node, output, gradient, 1 if the gradient may be taken over)."""
        token = NUMPY_ERRORS.set(IGNORED)  # no floating point warnings
        memory = None if STATE.allocator is None else STATE.allocator.set(STATE.allocates)
        if GPU.late_casts is not None and not (self.record or self.watched):
            self.late = GPU.late_casts(self)
        try:
            try:
                order = self.start(roots)
                pending = order.next()
                while pending is not None:
                    self.visit(order, pending)
                    pending = order.next()
            finally:
                if self.late is not None:
                    self.late.cast()
                    self.late = None
        finally:
            NUMPY_ERRORS.reset(token)
            if memory is not None:
                STATE.allocator.reset(memory)

    def start(self, roots: list[tuple[Node, int, Any, int]]) -> Order:
        order = self.order = Order([root[0] for root in roots])
        if len(roots) == 1:
            self.only_root = roots[0][0]
        if self.captures is not None:
            order.keep_useful(self.captures)
        elif self.only_for is not None:
            order.keep_useful(self.only_for)
            self.watched = True
        for node, slot, grad, owned in roots:
            if node._converts:
                grad = converted(node, grad, self.record)
            self.add(order.pending[node], slot, grad, owned)
        return order

    def step(self) -> Node | None:
        """One node further, which is returned; None: there is none left. For trace_backward."""
        order: Order = self.order
        pending = order.next()
        if pending is None:
            return None
        self.visit(order, pending)
        return pending.node

    def visit(self, order: Order, pending: Pending) -> None:
        """Run one node on what has arrived, and hand its gradients to the edges."""
        node = self.at = pending.node
        total = pending.total
        pending.total = None
        late = self.late
        if late is not None and late.waiting:
            if node._op is None or node._hooks is not None or node._packed:
                late.before(node)
        if node._hooks is not None or self.watched:
            if node._hooks is None and self.only_captures:
                self.visit_captured(order, pending, node, total)
            else:
                self.visit_watched(order, node, total, pending.owned)
            return
        if node._is_leaf:
            if total is not None:
                accumulate(node, total, self.record, pending.owned, self.caller)
            return
        grads: Any = None
        if total is not None:
            if type(total) is list:
                fill_in(node, total, self.record)
            try:
                if node._chain is not None and late is not None:
                    if GPU.run_linear(self, order, node, total):
                        return
                if node._op is not None:
                    if late is not None and node._op.casts and late.takes(node, total):
                        return
                    own: Any = node
                    if self.record:
                        grads = self.pull_recorded(own, total)
                    else:
                        grads = pull_op(own, total, False)
                else:
                    grads = node._pull(total, self.record)
            except RuntimeError as error:
                explain_backward(error, node)
                raise
        else:
            grads = self.pull_nothing(node)
        if node._frees and not self.keep:
            self.release(node)
        self.hand_on(order, node, total, pending.owned, grads)

    def visit_captured(self, order: Order, pending: Pending, node: Node, total: Any) -> None:
        """The same in a pass that captures gradients, and where nobody looks on besides."""
        grads: Any = None
        if pending.useful or node is self.only_root:
            self.capture(node, total)
            if pending.leads_on:
                grads = self.pull_nothing(node) if total is None else self.pulled(node, total)
                if node._frees and not self.keep:
                    self.release(node)
        self.hand_on(order, node, total, 0, grads)

    def pulled(self, node: Node, total: Any) -> Any:
        """The gradients that a node makes of the one that has arrived."""
        if type(total) is list:
            fill_in(node, total, self.record)
        try:
            if node._op is not None:
                own: Any = node
                if self.record:
                    return self.pull_recorded(own, total)
                return pull_op(own, total, False)
            return node._pull(total, self.record)
        except RuntimeError as error:
            explain_backward(error, node)
            raise

    def pull_recorded(self, node: Any, total: Any) -> Any:
        """`pull_op` on tensors: its nodes belong to the line that asked for this pass.

        Unless something of the user's may run inside, which has lines of its own.
        """
        simple = STATE.modes_on == STATE.only_casting and not STATE.anomaly
        if not simple or self.maker is None or not is_plain(node, total):
            return pull_op(node, total, True)
        before = own_maker()
        STATE.maker = self.maker
        try:
            return pull_op(node, total, True)
        finally:
            STATE.maker = before

    def visit_watched(self, order: Order, node: Node, total: Any, owned: int) -> None:
        """The same for a node with hooks, or in a pass that captures gradients or is observed."""
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
        grads: Any = None
        if hooks is not None:
            total = hooks.before(node, total, record)
        if node._is_leaf:
            if total is not None:
                accumulate(node, total, record, owned, self.caller)
            grads = ()
        else:
            grads = self.pull_nothing(node) if total is None else self.pull_watched(node, total)
            if node._frees and not self.keep:
                self.release(node)
            if grads is not None and not self.is_whole():
                grads = order.wanted(node, grads)
        if hooks is not None:
            grads = hooks.after(node, grads, total, record)
        if total is not None:
            if not node._is_leaf:
                for observer in observers:
                    observer(node, total, grads)
            if self.observer is not None:
                self.observer(node, total, grads)
        self.hand_on(order, node, total, owned, grads)

    def pull_nothing(self, node: Node) -> Any:
        """Run a node that no gradient reached: Functions may make zeros of that."""
        if node._op is not None:
            own: Any = node
            check_kept(own)
        elif node._outputs is not None:
            return node._pull([None] * len(node._outputs), self.record)
        return None

    def is_whole(self) -> bool:
        """Whether the pass goes everywhere, and not only to the inputs that were named."""
        return self.captures is None and self.only_for is None

    def runs(self, order: Order, node: Node) -> bool:
        """Whether a node has to run: grad() may only want what arrives there, or not even that."""
        if self.captures is not None:
            return order.pending[node].leads_on
        return self.only_for is None or node in self.only_for or order.pending[node].leads_on

    def pull_watched(self, node: Node, total: Any) -> Any:
        if type(total) is list:
            total = list(total)  # hooks see None where nothing arrived
            fill_in(node, total, self.record)
        if STATE.timing:
            PROFILER.start(node.name(), None)
        try:
            if STATE.anomaly:
                return guarded(node, total, self.record)
            return node._pull(total, self.record)
        except RuntimeError as error:
            explain_backward(error, node)
            raise

    def release(self, node: Node) -> None:
        """Drop what a node kept; a second pass will say who did."""
        node._release()
        node._freed_by = self.caller

    def hand_on(self, order: Order, node: Node, total: Any, owned: int, grads: Any) -> None:
        """Add what a node returned to the sums of its edges; each of them waits for one less."""
        # Who owns the memory of `grads`? Rules never return a saved value, so what is not the
        # incoming gradient, or a view of it, was made by the rule; hooks and Functions may return
        # anything.
        trusted = (node._op is not None or node._gives_away) and node._hooks is None
        trusted = trusted and not self.record
        edges = node._edges
        inherits = owned if len(edges) == 1 else 0
        slots = node._edge_slots
        late = self.late
        device_type = STATE.device_type
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
                        if type(g) is device_type and type(total) is device_type:
                            own = inherits if g.data.mem is total.data.mem else 1
                        else:
                            own = inherits if aliases(g, total) else 1
                    slot = 0 if slots is None else slots[i]
                    if edge._is_leaf:
                        if edge._converts:
                            g = converted(edge, g, self.record)
                        if pending.waiting == 1 and pending.total is None:
                            if late is not None and self.is_quiet(order, edge):
                                pending.waiting = 0
                                accumulate(edge, g, False, own, self.caller)
                                continue
                    elif late is not None and edge._op is not None and edge._op.view:
                        passed = self.past_views(order, Passing(edge, slot, g, own))
                        edge = passed.edge
                        slot = passed.slot
                        g = passed.g
                        own = passed.owned
                        pending = all_pending[edge]
                    if pending.total is None and edge._outputs is None:
                        pending.total = g
                        pending.owned = own
                    else:
                        self.add(pending, slot, g, own)
                pending.waiting -= 1
                if pending.waiting == 0:
                    order.is_complete(pending)

    def is_quiet(self, order: Order, leaf: Node) -> bool:
        """Whether a leaf would be visited next anyway, on a GPU and where nobody watches."""
        if self.late is None or self.watched or order.leaves:
            return False
        return leaf._hooks is None and not leaf._packed

    def past_views(self, order: Order, passing: Passing) -> Passing:
        """Run views at once that wait for nothing else, on a GPU and where nobody watches.

        As far as no sum is: the order in which gradients are added up stays what it is.
        """
        node: Any = passing.edge
        while node._op is not None and node._op.view and node._chain is None:
            if node._hooks is not None or node._packed or node._outputs is not None:
                break
            pending = order.pending[node]
            if pending.waiting != 1 or pending.total is not None or node._kept is None:
                break
            below: Node | None = node._edges[0]
            if below is None or below._is_leaf:
                break
            beyond = order.pending[below]
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

    def hand_one(self, order: Order, edge: Node, slot: int, g: Any, owned: int) -> None:
        """The same for one edge."""
        pending = order.pending[edge]
        if g is not None and pending.useful:
            if edge._converts:
                g = converted(edge, g, self.record)
            if edge._is_leaf and pending.waiting == 1 and pending.total is None:
                if self.is_quiet(order, edge):
                    pending.waiting = 0
                    accumulate(edge, g, False, owned, self.caller)
                    return
            self.add(pending, slot, g, owned)
        pending.waiting -= 1
        if pending.waiting == 0:
            order.is_complete(pending)

    def add(self, pending: Pending, slot: int, g: Any, owned: int) -> None:
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
            pending.total = self.sum_of(before, g)
            if not self.record:
                # NumPy's 0-d values cannot be written to; PyTorch's are, and count it.
                writes = pending.owned if type(before) is not ndarray else 0
                pending.owned = writes + 1

    def sum_of(self, before: Any, g: Any) -> Any:
        if not self.record:
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
            for slot, index in captures[node]:
                value = total[slot] if type(total) is list else total
                if value is not None:
                    self.found[index] = value


def pull_op(node: Any, total: Any, record: bool) -> Any:
    """`node._pull` where the class is known: the compiled build calls it without a look-up."""
    own: OpNode = node
    return own._pull(total, record)


if not COMPILED:
    globals()["pull_op"] = OpNode._pull  # the same without a frame


def is_plain(node: Any, total: Any) -> bool:
    """Whether a node and its gradient are nothing but arrays with a history."""
    own: OpNode = node
    if own._packed or own._on_tensors or not isinstance(total, TensorBase):
        return False
    return total._special == ORDINARY or total._special == ON_DEVICE


def pull_view(node: Any, total: Any) -> Any:
    """The same for the one input of a view: mostly its rule is all that there is to it."""
    own: OpNode = node
    op: Op = own._op
    rule = op.rules[0] if op.rules else None
    kept = own._kept
    if rule is None or kept is None or own._cells or own._fixes is not None or own.conjugates:
        return own._pull(total, False)[0]
    if op.device.pull is not None or type(total) is not STATE.device_type:
        return own._pull(total, False)[0]
    return rule.call(GPU.raw, total, kept)


def check_kept(node: Any) -> None:
    """What a rule would notice about saved values before it computes anything."""
    own: OpNode = node
    if own._kept is None:
        raise freed_graph(own, None)
    if own._cells:
        own.check_versions()


def fill_in(node: Node, parts: list[Any], record: bool) -> None:
    """Zeros for the outputs of a several-output node that received nothing."""
    if node._op is None or node._op.partial:
        return  # a Function decides for itself (set_materialize_grads), and so do some ops
    for i, (shape, dtype) in enumerate(node._outputs or ()):
        if parts[i] is None and i not in node._op.plain_outs:
            zeros = zeros_beside(parts, shape, dtype)
            parts[i] = wrap(zeros) if record else zeros


def zeros_beside(parts: list[Any], shape: Any, dtype: Any) -> Any:
    """Zeros where the other gradients are."""
    for part in parts:
        if part is not None:
            array = part._array if isinstance(part, TensorBase) else part
            return memory_of(array).zeros(array, shape, dtype)
    return HOST.zeros(None, shape, dtype)
