"""The backward pass: pop a ready node, ask it for its inputs' gradients, add them up, go on.

Values are bare arrays, or tensors when the pass itself is being recorded (`create_graph=True`). The
loop knows no op and no feature; hooks, captures and observers are one guarded call each.
"""

from __future__ import annotations

import heapq
from typing import Any, Final

import numpy as np

from ..core.base import (
    CLASSES,
    IGNORED,
    NUMPY_ERRORS,
    STATE,
    Node,
    TensorBase,
    cell_of,
    ndarray,
    wrap,
)
from ..core.modes import MODES
from ..core.op import Op
from ..errors import explain_backward
from .anomaly_mode import guarded
from .node import AccumulateGrad, OpNode

# Called as observer(node, grad, grads) after each node; anomaly mode and diagnose put theirs here.
observers: Final[list[Any]] = []
MOST_UNCAST: Final = 1 << 26  # bytes of gradients that may wait to be cast


class Run:
    """One backward pass.

    `captures` maps nodes to (output, index) pairs that `autograd.grad` asks for; None fills leaves.
    """

    def __init__(
        self,
        keep: bool,
        record: bool,
        captures: dict[Node, list[tuple[int, int]]] | None,
        caller: Any,
    ) -> None:
        self.keep = keep
        self.record = record
        self.captures = captures
        self.caller = caller  # who asked for it, as Node.freed_by keeps it
        self.found: dict[int, Any] = {}
        self.waiting: dict[Node, int] = {}
        self.sums: dict[Node, Any] = {}
        self.mine: dict[Node, int] = {}  # sums that belong to this pass alone: 1 + writes so far
        self.useful: set[Node] | None = None
        self.watched: bool = captures is not None or STATE.anomaly or len(observers) != 0
        self.uncast: list[tuple[Node, Any]] | None = None  # leaves and gradients, of one GPU
        self.uncast_size = 0

    def go(self, roots: list[tuple[Node, int, Any, int]]) -> None:
        """The whole pass, from (node, output, gradient, 1 if the gradient may be taken over)."""
        token = NUMPY_ERRORS.set(IGNORED)  # no floating point warnings
        if STATE.device_type is not None and not (self.record or self.watched or STATE.several):
            self.uncast = []
        try:
            try:
                self.loop(roots)
            finally:
                if self.uncast:
                    self.cast_late()
        finally:
            NUMPY_ERRORS.reset(token)

    def loop(self, roots: list[tuple[Node, int, Any, int]]) -> None:
        count_uses(roots, self.waiting)
        if self.captures is not None:
            self.useful = lead_to(self.captures, self.waiting)
        waiting = self.waiting
        ready: list[tuple[int, Node]] = []
        started: set[Node] = set()
        for node, slot, grad, owned in roots:
            self.add(node, slot, grad, owned)
            started.add(node)
        for node in started:
            if waiting[node] == 0 and not node.is_leaf:
                heapq.heappush(ready, (-node.seq, node))
        for node in started:
            if waiting[node] == 0 and node.is_leaf:
                self.visit(node)
        # Of the ready nodes the one recorded last goes first, leaves at once: PyTorch's order,
        # which decides in what order gradients are added up and hooks are called.
        following: Node | None = None
        while True:
            if following is None:
                if not ready:
                    break
                node = heapq.heappop(ready)[1]
            else:
                node = following
                following = None
                if ready:
                    node = heapq.heappushpop(ready, (-node.seq, node))[1]
            self.visit(node)
            for edge in node.edges:
                if edge is not None:
                    left = waiting[edge] - 1
                    waiting[edge] = left
                    if left == 0:
                        if edge.is_leaf:
                            self.visit(edge)
                        elif following is None:
                            following = edge
                        else:
                            heapq.heappush(ready, (-edge.seq, edge))

    def visit(self, node: Node) -> None:
        """Run one node on what has arrived, and hand its gradients to the edges."""
        if self.uncast and calls_out(node):
            self.cast_late()
        if node.hooks is not None or self.watched:
            self.visit_watched(node)
            return
        total = self.sums.pop(node, None)
        mine = self.mine.pop(node, 0)
        if node.is_leaf:
            if total is not None:
                accumulate(node, total, self.record, mine, self.caller)
            return
        grads: Any = None
        if total is not None:
            if type(total) is list:
                fill_in(node, total, self.record)
            try:
                if self.uncast is not None and self.put_off(node, total):
                    pass
                elif node.op is not None:
                    grads = pull_op(node, total, self.record)
                else:
                    grads = node.pull(total, self.record)
            except RuntimeError as error:
                explain_backward(error, node)
                raise
        if node.frees and not self.keep:
            node.release()
            node.freed_by = self.caller
        if grads is not None:
            self.hand_on(node, total, mine, grads)

    def visit_watched(self, node: Node) -> None:
        """The same for a node with hooks, or in a pass that captures gradients or is observed."""
        total = self.sums.pop(node, None)
        mine = self.mine.pop(node, 0)
        record = self.record
        hooks = node.hooks
        useful = self.useful
        goes_on = useful is None or leads_on(node, useful)
        if self.watched or (hooks is not None and hooks.sees_gradients()):
            mine = 0  # somebody may keep what passes by
        if goes_on:
            # PyTorch: before the tensor hooks here, after them at the end.
            self.capture(node, total)
        if hooks is not None and total is not None:
            total = hooks.on_tensors(node, total, record)
        if not goes_on:
            self.capture(node, total)
            return
        if total is None:
            if node.frees and not self.keep:
                node.release()
                node.freed_by = self.caller
            return
        if hooks is not None:
            total = hooks.before(node, total, record)
        if node.is_leaf:
            accumulate(node, total, record, mine, self.caller)
            if hooks is not None:
                hooks.after(node, (), total, record)
            return
        if type(total) is list:
            fill_in(node, total, record)
        if STATE.timing:
            CLASSES.start_timer(node.name(), None)
        try:
            grads = guarded(node, total, record) if STATE.anomaly else node.pull(total, record)
        except RuntimeError as error:
            explain_backward(error, node)
            raise
        if node.frees and not self.keep:
            node.release()
            node.freed_by = self.caller
        if hooks is not None:
            grads = hooks.after(node, grads, total, record)
        for observer in observers:
            observer(node, total, grads)
        self.hand_on(node, total, 0, grads)

    def put_off(self, node: Node, total: Any) -> bool:
        """On a GPU, whether a cast to a leaf's dtype can wait: many are done in one launch."""
        op: Op | None = node.op
        if op is None or not op.casts or type(total) is not STATE.device_type:
            return False
        leaf = node.edges[0]
        if leaf is None or not leaf.is_leaf or leaf.hooks is not None or node.kept is None:
            return False
        if self.waiting[leaf] != 1 or leaf in self.sums:
            return False  # more is to be added
        if not total.flags.c_contiguous or not total.size:
            return False
        late = self.uncast
        if late is None:
            return False
        late.append((leaf, total))
        self.uncast_size += total.nbytes
        if self.uncast_size > MOST_UNCAST:
            self.cast_late()
        return True

    def cast_late(self) -> None:
        """Cast the gradients that were put off, and give them to their leaves."""
        late = self.uncast
        if late is None:
            return
        self.uncast = []
        self.uncast_size = 0
        alike: dict[Any, list[int]] = {}
        for i, (node, total) in enumerate(late):
            leaf: Any = node
            alike.setdefault((total.dtype, leaf.tensor().array.dtype), []).append(i)
        made: list[Any] = [None] * len(late)
        for (_, dtype), places in alike.items():
            totals = [late[i][1] for i in places]
            arrays = CLASSES.cast_on_device(totals, dtype, True)
            if arrays is None:
                arrays = [CLASSES.raw_space(g).cast(g, dtype) for g in totals]
            for i, array in zip(places, arrays, strict=True):
                made[i] = array
        for i, (node, _) in enumerate(late):
            accumulate(node, made[i], False, 1, self.caller)

    def hand_on(self, node: Node, total: Any, mine: int, grads: Any) -> None:
        """Add what a node returned to the sums of its edges."""
        # Who owns the memory of `grads`? Rules never return a saved value, so what is not the
        # incoming gradient, or a view of it, was made by the rule; hooks and Functions may return
        # anything.
        trusted = node.op is not None and node.hooks is None and not self.record
        inherits = mine if len(node.edges) == 1 else 0
        slots = node.edge_slots
        useful = self.useful
        sums = self.sums
        for i, edge in enumerate(node.edges):
            if edge is not None and (useful is None or edge in useful):
                g = grads[i]
                if g is not None:
                    owned = 0
                    if trusted:
                        owned = inherits if aliases(g, total) else 1
                    if edge.outputs is None and edge not in sums:
                        sums[edge] = g
                        if owned:
                            self.mine[edge] = owned
                    else:
                        self.add(edge, 0 if slots is None else slots[i], g, owned)

    def add(self, node: Node, slot: int, g: Any, owned: int) -> None:
        """Add a partial gradient for output `slot` of `node`."""
        sums = self.sums
        if node.outputs is not None:
            parts: list[Any] | None = sums.get(node)
            if parts is None:
                parts = sums[node] = [None] * len(node.outputs)
            before = parts[slot]
            parts[slot] = g if before is None else before + g
            return
        before = sums.get(node)
        if before is None:
            sums[node] = g
            if owned:
                self.mine[node] = owned
            return
        mine = self.mine.get(node, 0)
        if mine and writable(before, g):
            add_to(before, g)
            self.mine[node] = mine + 1
        elif owned and writable(g, before):
            add_to(g, before)
            sums[node] = g
            self.mine[node] = 1  # PyTorch makes a new tensor, which has no writes
        else:
            sums[node] = before + g
            if not self.record:
                # NumPy's 0-d values cannot be written to; PyTorch's are, and count it.
                self.mine[node] = mine + 1 if mine and type(before) is not ndarray else 1

    def will_visit(self, node: Node) -> bool:
        """Whether this pass gets to `node`; for register_multi_grad_hook."""
        return node in self.waiting and (self.useful is None or node in self.useful)

    def capture(self, node: Node, total: Any) -> None:
        if total is not None and self.captures is not None:
            for slot, index in self.captures.get(node, ()):
                value = total[slot] if type(total) is list else total
                if value is not None:
                    self.found[index] = value


def pull_op(node: Any, total: Any, record: bool) -> Any:
    """`node.pull` where the class is known: the compiled build calls it without a look-up."""
    own: OpNode = node
    return own.pull(total, record)


def calls_out(node: Node) -> bool:
    """Whether a node calls functions of the user's, who may look at the leaves."""
    return node.hooks is not None or node.packed or (node.op is None and not node.is_leaf)


def writable(target: Any, other: Any) -> bool:
    """Whether a sum may be formed inside `target`, which nobody else looks at; not in views."""
    if type(target) is ndarray:
        fresh: bool = target.base is None and target.dtype is other.dtype
        return fresh and bool(target.flags.carray)
    return (
        type(target) is STATE.device_type
        and target.base is None
        and target.dtype is other.dtype
        and target.shape == other.shape
        and bool(target.flags.c_contiguous)
    )


def add_to(target: Any, other: Any) -> None:
    if type(target) is ndarray:
        np.add(target, other, target)
    else:
        CLASSES.add_on_device(target, other)


def aliases(g: Any, total: Any) -> bool:
    """Whether `g` may be (a view of) the incoming gradient."""
    if type(total) is list:
        return any([part is not None and aliases(g, part) for part in total])
    if g is total:
        return True
    base = g.base
    if base is not None and (base is total or base is total.base):
        return True
    if type(g) is not STATE.device_type or type(total) is not STATE.device_type:
        return False
    return g.data.mem is total.data.mem


def leads_on(node: Node, useful: set[Node]) -> bool:
    return any([edge is not None and edge in useful for edge in node.edges])


def count_uses(roots: list[tuple[Node, int, Any, int]], waiting: dict[Node, int]) -> None:
    """How many edges lead to each node that the roots reach."""
    stack: list[Node] = []
    for node, _, _, _ in roots:
        if node not in waiting:
            waiting[node] = 0
            stack.append(node)
    while stack:
        for edge in stack.pop().edges:
            if edge is not None:
                seen = waiting.get(edge)
                if seen is None:
                    waiting[edge] = 1
                    stack.append(edge)
                else:
                    waiting[edge] = seen + 1


def lead_to(targets: dict[Node, list[tuple[int, int]]], reached: dict[Node, int]) -> set[Node]:
    """The nodes among `reached` from which a target can be reached, targets included."""
    users: dict[Node, list[Node]] = {}
    for node in reached:
        for edge in node.edges:
            if edge is not None:
                users.setdefault(edge, []).append(node)
    stack = [node for node in targets if node in reached]
    useful = set(stack)
    while stack:
        for user in users.get(stack.pop(), ()):
            if user not in useful:
                useful.add(user)
                stack.append(user)
    return useful


def fill_in(node: Node, parts: list[Any], record: bool) -> None:
    """Zeros for the outputs of a several-output node that received nothing."""
    if node.op is None or node.op.partial:
        return  # a Function decides for itself (set_materialize_grads), and so do some ops
    for i, (shape, dtype) in enumerate(node.outputs or ()):
        if parts[i] is None and i not in node.op.plain_outs:
            zeros = zeros_beside(parts, shape, dtype)
            parts[i] = wrap(zeros) if record else zeros


def zeros_beside(parts: list[Any], shape: Any, dtype: Any) -> Any:
    """Zeros where the other gradients are."""
    if STATE.device_type is not None:
        for part in parts:
            array = part.array if isinstance(part, TensorBase) else part
            if type(array) is STATE.device_type:
                return np.zeros(shape, dtype, like=array)
    return np.zeros(shape, dtype)


def accumulate(leaf: Any, g: Any, record: bool, mine: int, caller: Any) -> None:
    """Add `g` to the leaf's `.grad`; take it over when it belongs to this pass."""
    node: AccumulateGrad = leaf
    t = node.tensor()
    if not t.wants_grad:
        return  # switched off since the forward pass
    if t.node is not None and not t.node.is_leaf:
        raise RuntimeError("leaf variable has been moved into the graph interior")
    if only_follows(t):
        return
    grad = t.gradient
    if record and not MODES.grad:  # on tensors for the sake of tangents: a leaf keeps none
        g = g.array
        record = False
        mine = 0
    if record:
        if grad is None:
            t.gradient = CLASSES.tensor._recorded_copy(g, t)
        else:
            t.gradient = g_sum(grad, g)
    elif grad is None:
        layout = t.array
        if type(g) is not ndarray and type(g) is not STATE.device_type:
            g = np.asarray(g)
        if mine and fits_layout(g, layout):
            if g.strides != layout.strides and type(g) is ndarray:
                # Of dimensions of size 1, where any stride fits.
                g = np.ndarray(g.shape, g.dtype, g)
            t.gradient = wrap(g)
            writes = mine - 1
        else:
            t.gradient = wrap(copy_like(g, layout))
            writes = 1
        if writes:
            cell_of(t.gradient).n = writes
    else:
        kept = grad.array
        if type(kept) is not ndarray and writable(kept, g):
            CLASSES.add_on_device(kept, g)
        else:
            np.add(kept, g, kept, casting="unsafe")
        cell = cell_of(grad)
        cell.n += 1
        if caller is not None:
            cell.note("accumulate_grad", caller[0], caller[1], None)
    if STATE.captured is not None:
        STATE.captured.append(t)
    if node.hooks is not None:
        node.hooks.accumulated(t, record)


def only_follows(t: TensorBase) -> bool:
    """Whether a view without history, made under no_grad, only says that its base requires grad."""
    view = t.view_of
    if view is None or view.asked or not view.base.wants_grad:
        return False
    return t.node is None or t.node.is_leaf


def fits_layout(g: Any, layout: Any) -> bool:
    """Whether `g` lies in memory as the gradient of a leaf with this layout should."""
    if type(g) is not ndarray:
        return bool(g.flags.c_contiguous)
    if not g.flags.behaved:
        return False
    if layout.flags.c_contiguous or not layout.flags.forc:
        contiguous: bool = g.flags.c_contiguous
        return contiguous
    same: bool = g.strides == layout.strides
    return same


def g_sum(a: Any, b: Any) -> Any:
    return a + b


def copy_like(g: Any, layout: Any) -> Any:
    """A copy of `g`, with the memory order of `layout` where that is dense, else contiguous."""
    if layout.flags.c_contiguous or not layout.flags.forc:
        if type(g) is STATE.device_type:
            return CLASSES.copy_on_device(g)
        return np.array(g, order="C", subok=False, copy=True)
    out = np.empty_like(layout)
    out[...] = g
    return out
