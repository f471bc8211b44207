"""The two kinds of node: an op's, which computes gradients, and a leaf's, which fills `.grad`."""

from __future__ import annotations

import weakref
from typing import Any

from ..errors import (
    check_broadcast,
    freed_graph,
    inference_written,
    modified_in_place,
    saved_detached,
    swapped_data,
)
from .base import (
    INTERPRETED,
    ON_DEVICE,
    ORDINARY,
    STATE,
    Node,
    TensorBase,
    Version,
    cell_of,
    ndarray,
    own_maker,
    wrap,
)
from .gradient_memory import HOST, first_gradient, memory_of
from .late_bound import DISPATCHED, FORWARD_MODE, GPU, HOST_KERNELS, INSPECTION, RECORDING
from .lazy_conj import plain
from .locks import new_rlock
from .modes import MODES
from .mypyc import mypyc_attr
from .op import Op
from .rule_functions import RAW, RECORDED
from .swapped_data import SWAPS, newest

# Passes of several threads write to the same leaves; NumPy lets other threads run while it adds.
ADDING = new_rlock()  # a collected object may start a pass while one is adding


class Packed:
    """A saved value that saved_tensors_hooks packed: `unpack(value)` gives the tensor back."""

    def __init__(self, value: Any, unpack: Any) -> None:
        self.value = value
        self.unpack = unpack


@mypyc_attr(allow_interpreted_subclasses=True)
class OpNode(Node):
    """A node made from an Op record; `_kept` is laid out as inputs, outputs, attributes, metas."""

    mixed: bool = False  # inputs were promoted to the output's dtype; they are kept as they are
    # Complex output and rules written for the real case: they get and give conjugates.
    conjugates: bool = False

    def name(self) -> str:
        op: Op = self._op
        return op.node_name

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """PyTorch's next_functions: arguments without derivative (masks, indices) have no edge."""
        edges = super().next_functions
        rules = self._op.rules
        if None not in rules or len(rules) != len(edges):
            return edges
        return tuple([e for e, rule in zip(edges, rules, strict=True) if rule is not None])

    def _pull(self, grad: Any, record: bool) -> Any:
        kept = self._kept
        if kept is None:
            raise freed_graph(self, grad)
        op: Op = self._op
        own = True  # whether the values are those that the op saw
        if self._cells:
            self.check_versions()
            if SWAPS:
                current = self.with_newest(kept)
                own = current is kept
                kept = current
        if self._packed:
            kept = self.unpacked(kept, record)
        elif record:
            kept = self.tensors(kept)
        F: Any = RECORDED if record else RAW
        kind = kind_of_parts(grad) if type(grad) is list else type(grad)
        if kind is STATE.device_type and not record:
            F = GPU.raw
            if op.device.pull is not None and own:
                at_once = op.device.pull(self, grad, op.named(kept))
                if at_once is not None:
                    return at_once
        elif (
            op.gradients is not None
            and not record
            and not self.conjugates
            and not self.mixed
            and own  # kernels rely on the sizes
        ):
            found = op.gradients(grad, kept, self._edges)
            if found is not None:
                if self._fixes is not None:
                    for i, g in enumerate(found):
                        found[i] = self.finish(F, i, g)
                return found
        if self.mixed:
            kept = self.promoted(F, kept, grad._array.dtype if record else grad.dtype)
        if self.conjugates:
            grad = conjugate(F, grad)
        edges = self._edges
        fixes = self._fixes
        joint = op.joint
        if joint is not None:
            needs = tuple([e is not None for e in edges])
            found = list(joint.function(F, grad, needs, *[kept[i] for i in joint.places]))
            changed = fixes is not None or self.conjugates
            for i, g in enumerate(found):
                if g is None or edges[i] is None:
                    found[i] = None
                elif changed:
                    found[i] = self.finish(F, i, g)
            return found
        result: list[Any] = []
        rules = op.rules
        changed = fixes is not None or self.conjugates
        for i, edge in enumerate(edges):
            g = None
            rule = rules[i]
            if edge is not None and rule is not None:
                # The two common shapes of a rule, without a call in between.
                if rule.count == 1:
                    g = rule.function(F, grad, kept[rule.first])
                elif rule.count == 0:
                    g = rule.function(F, grad)
                else:
                    g = rule.function(F, grad, *[kept[k] for k in rule.places])
                if changed:
                    g = self.finish(F, i, g)
            result.append(g)
        return result

    def finish(self, F: Any, i: int, g: Any) -> Any:
        """Undo conjugation, broadcasting and promotion for edge `i`."""
        if g is None:
            return None
        if self.conjugates:
            g = conjugate(F, g)
        if self._fixes is not None:
            fix = self._fixes[i]
            if fix is not None:
                if type(g) is STATE.device_type and g.dtype is fix[1] and g.shape == fix[0]:
                    return g
                g = fit(F, g, fix[0], wanted_dtype(self._edges[i], g, fix[1]))
        return g

    def promoted(self, F: Any, kept: tuple[Any, ...], dtype: Any) -> tuple[Any, ...]:
        """A copy of `kept` with the saved inputs in the dtype in which the kernel computed."""
        made = list(kept)
        for i in range(self._op.width):
            x = made[i]
            array = x._array if isinstance(x, TensorBase) else x
            is_array = type(array) is ndarray or type(array) is STATE.device_type
            if is_array and array.dtype is not dtype:
                made[i] = F.cast(x, dtype)
        return tuple(made)

    def check_versions(self) -> None:
        cells = self._cells
        for k in range(0, len(cells), 3):
            cell: Version = cells[k + 1]
            if cell.n != cells[k + 2]:
                self.complain()
        if STATE.detached:
            self.check_detached()

    def with_newest(self, kept: tuple[Any, ...]) -> tuple[Any, ...]:
        """`kept` with the new arrays of inputs whose `.data` was set; `kept` itself if none."""
        op: Op = self._op
        cells = self._cells
        made: list[Any] | None = None
        for k in range(0, len(cells), 3):
            place = cells[k]
            if type(place) is not int or place >= op.width:
                continue
            edge = self._edges[place] if place < len(self._edges) else None
            slot = 0 if edge is None or self._edge_slots is None else self._edge_slots[place]
            old = kept[place]
            array = newest(old, cells[k + 1], edge, slot)
            if array is not old:
                if array.shape != old.shape:
                    check_broadcast([old, array])
                if op.joint is not None and (array.shape != old.shape or array.dtype != old.dtype):
                    raise swapped_data(self.name(), op.tensors[place], old, array)
                if made is None:
                    made = list(kept)
                made[place] = array
        return kept if made is None else tuple(made)

    def check_detached(self) -> None:
        """Raise if a saved input was detached in place since: PyTorch reads its history there."""
        for place in self._cells[::3]:
            if type(place) is int and place < len(self._edges):
                edge = self._edges[place]
                if edge is not None and edge._detached is not None:
                    slot = 0 if self._edge_slots is None else self._edge_slots[place]
                    if slot in edge._detached:
                        raise saved_detached()

    def complain(self) -> None:
        """E01, for the first overwritten value in the order of PyTorch's names."""
        op: Op = self._op
        cells = self._cells
        first = -1
        least = ""
        for k in range(0, len(cells), 3):
            if cells[k + 1].n != cells[k + 2]:
                name = "index"
                if type(cells[k]) is int:
                    name = op.tensors[cells[k]] if cells[k] < op.width else "result"
                    if name == "input":
                        name = "self"
                if first < 0 or name < least:
                    first = k
                    least = name
        place: Any = cells[first]
        cell: Version = cells[first + 1]
        expected: int = cells[first + 2]
        array: Any = place  # of an index
        made_by = ""
        slot = 0
        role = "its index"
        if type(place) is int:
            array = self._kept[place]  # type: ignore[index]
            if isinstance(array, Packed):
                array = array.value._array
            if place >= op.width:
                role = "its own output"
                made_by = self.name()
                slot = place - op.width
            else:
                role = f"its input `{op.tensors[place]}`"
                made_by = history_now(self._edges[place], cell, array)
                if made_by and self._edge_slots is not None and not cell.rebased:
                    slot = self._edge_slots[place]
        raise modified_in_place(self, array, made_by, slot, role, op.name, cell, expected)

    def tensors(self, kept: tuple[Any, ...]) -> tuple[Any, ...]:
        """`_kept` with the saved arrays as tensors that know their history."""
        made = list(kept)
        cells = self._cells
        for k in range(0, len(cells), 3):
            place = cells[k]
            if type(place) is int and not isinstance(kept[place], Packed):
                made[place] = self.saved_tensor(place, kept[place], cells[k + 1])
        return tuple(made)

    def saved_tensor(self, place: int, array: Any, cell: Version) -> TensorBase:
        """A tensor for the saved array at `place`, with the edge that it had."""
        op: Op = self._op
        t: TensorBase
        count = op.width
        if place >= count:  # an output: its history is this node
            t = wrap(array)
            if place - count not in op.plain_outs:
                t._wants_grad = True
                t._node = self
                t._slot = place - count
        else:
            edge = self._edges[place]
            if edge is None:
                t = wrap(array)
            elif edge._is_leaf:
                leaf: Any = edge
                t = leaf.saved_alias(array)
            else:
                t = wrap(array)
                t._wants_grad = True
                t._node = edge
                t._slot = 0 if self._edge_slots is None else self._edge_slots[place]
        t._cell = cell
        if self._duals is not None:
            FORWARD_MODE.with_tangent(t, self._duals.get(place))
        return t

    def unpacked(self, kept: tuple[Any, ...], record: bool) -> tuple[Any, ...]:
        """`_kept` after the user's unpack hooks, and with plain arrays for conjugate views."""
        if record:
            kept = self.tensors(kept)
        made = list(kept)
        for i in INSPECTION.unpacking_order(self):
            value = kept[i]
            if isinstance(value, Packed):
                t = unpack_checked(value)
                if record and self._on_tensors and t._special:
                    made[i] = DISPATCHED.saved(self, i, t)
                elif record:
                    made[i] = self.saved_tensor(i, t._array, t._version_cell())
                else:
                    made[i] = plain(t._array)
            elif not record:
                made[i] = plain(value)
        return tuple(made)


def kind_of_parts(grads: list[Any]) -> Any:
    """The array class of the gradients of several outputs; some of them may be None."""
    for g in grads:
        if g is not None:
            return type(g)
    return type(None)


def pull_recorded(node: Node, total: Any, maker: Any) -> Any:
    """`node._pull` on tensors, with the line of `maker` for the nodes that the rule makes.

    Where functions of the user's may run inside, nodes get the lines of those.
    """
    simple = maker is not None and STATE.modes_on == STATE.only_casting and not STATE.anomaly
    if not simple or not computes_alone(node, total):
        return node._pull(total, True)
    before = own_maker()
    STATE.maker = maker
    try:
        return node._pull(total, True)
    finally:
        STATE.maker = before


def computes_alone(node: Node, total: Any) -> bool:
    """Whether a node is of an op, and neither it nor its gradient calls functions of the user's."""
    if node._op is None or node._packed or node._on_tensors or not isinstance(total, TensorBase):
        return False
    return total._special == ORDINARY or total._special == ON_DEVICE


def pull_nothing(node: Node, record: bool) -> Any:
    """Run a node that no gradient reached: Functions may make zeros of that."""
    if isinstance(node, OpNode):
        # What a rule would notice about saved values before it computes anything.
        if node._kept is None:
            raise freed_graph(node, None)
        if node._cells:
            node.check_versions()
    elif node._outputs is not None:
        return node._pull([None] * len(node._outputs), record)
    return None


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


def unpack_checked(packed: Packed) -> TensorBase:
    """The tensor that the user's unpack hook gives back."""
    t = packed.unpack(packed.value)
    if not isinstance(t, TensorBase):
        raise TypeError(
            "Output of saved tensor unpack_hook expected to be a Tensor but got result of "
            f"type {type(t).__name__}"
        )
    return t


@mypyc_attr(allow_interpreted_subclasses=True)
class AccumulateGrad(Node):
    """The end of the line: adds what arrives to the `.grad` of a leaf.

    The leaf owns this node, not the other way round, so that no cycle keeps either alive.
    """

    leaf: Any = None  # weak reference to the tensor
    revived: TensorBase | None = None  # takes the place of a leaf that died before its graph
    # Of a view made under no_grad, which requires grad as its base does: nothing gets there, and
    # PyTorch has no node.
    follows: bool = False
    grad_dtype: Any = None  # where `_converts`: NumPy's dtype for the gradient; None: any

    def name(self) -> str:
        return "torch::autograd::AccumulateGrad"

    def tensor(self) -> TensorBase:
        t: TensorBase | None = self.leaf()
        if t is None:
            t = self.revived
            if t is None:
                t = wrap(self._kept[0] if self._kept is not None else None)
                t._wants_grad = True
                t._node = self
                self.revived = t
        return t

    def _accumulate(self, g: Any, record: bool, owned: int, caller: Any) -> None:
        """Add `g` to the leaf's `.grad`; take it over when it belongs to this pass (`owned`)."""
        if self.follows:
            return
        t: TensorBase | None = self.leaf()
        if t is None:
            t = self.tensor()
        if not t._wants_grad:
            return  # switched off since the forward pass
        if t._node is not None and not t._node._is_leaf:
            raise RuntimeError("leaf variable has been moved into the graph interior")
        if (record and not MODES.grad) or (not record and isinstance(g, TensorBase)):
            # On tensors, but no history is wanted; or a Function returned a sparse one.
            if DISPATCHED.accumulate(t, g, owned):
                if self._hooks is not None:
                    self._hooks.accumulated(t, False)
                return
            g = plain(g._array)  # of a dual: a leaf keeps no tangent
            record = False
            owned = 1 if type(g) is STATE.meta_type else 0
        grad = t._gradient
        if record:
            t._gradient = (
                RECORDING.copy_of_gradient(g, t) if grad is None else DISPATCHED.sum_of(grad, g)
            )
        else:
            with ADDING:
                grad = t._gradient
                if grad is not None:
                    if grad._special != INTERPRETED or not DISPATCHED.accumulate(t, wrap(g), 0):
                        add_to(grad, g, caller)
                else:
                    layout = t._array
                    if type(g) is not ndarray:
                        fits = type(g) is STATE.device_type and g._c_contiguous
                    elif HOST_KERNELS.lies_as is not None:
                        fits = HOST_KERNELS.lies_as(g, layout)
                    else:
                        fits = g.strides == layout.strides and g.flags.carray
                    if owned and fits:  # as most do
                        t._gradient = made = wrap(g)
                        if owned != 1:
                            cell_of(made).n = owned - 1
                    else:
                        t._gradient = first_gradient(g, layout, owned)
        if STATE.modes_on and MODES.inference and grad is None:
            first: Any = t._gradient
            cell_of(first).inference = True
        if STATE.captured is not None:
            STATE.captured.append(t)
        if self._hooks is not None:
            self._hooks.accumulated(t, record)

    def saved_alias(self, array: Any) -> TensorBase:
        """The leaf itself if it still looks at `array`, else a tensor with the same history."""
        t = self.tensor()
        if t._array is array:
            return t
        t = wrap(array)
        t._wants_grad = True
        t._node = self
        return t

    @property
    def variable(self) -> TensorBase:
        return self.tensor()

    def _release(self) -> None:
        pass


def add_to(grad: TensorBase, g: Any, caller: Any) -> None:
    """Add a gradient to an existing `.grad` in place: a write, noted with the pass's line."""
    cell = cell_of(grad)
    if cell.inference and not cell.counts and not MODES.inference:
        raise inference_written()
    memory_of(grad._array).accumulate(grad._array, g)
    cell.n += 1
    if caller is not None:
        cell.note("accumulate_grad", caller[0], caller[1], None)


def only_follows(t: TensorBase) -> bool:
    """Whether a view without history, made under no_grad, only says that its base requires grad."""
    view = t._view_of
    if view is None or view.asked or not view.base._wants_grad:
        return False
    return t._node is None or t._node._is_leaf


def accumulate_node(t: TensorBase) -> AccumulateGrad:
    """The AccumulateGrad of a leaf, made on first use."""
    node = AccumulateGrad()
    node._is_leaf = True
    node.leaf = weakref.ref(t)
    node._kept = (t._array,)
    view = t._view_of
    if view is not None and not view.asked and view.base._wants_grad:
        node.follows = True  # and the tensor goes without: it may still be asked
    else:
        t._node = node
    return node


def history_now(edge: Node | None, cell: Version, array: Any) -> str:
    """The name of the node that made a saved tensor that has been written since ("" for leaves).

    PyTorch names the history that the tensor has at that time: a view's has been re-made.
    """
    if edge is None:
        return cell.rebased if id(array) == cell.rebased_array else ""
    if edge._op is not None and edge._op.view:
        name: str = edge._op.node_name if edge._op.replays else "AsStridedBackward0"
        return name
    if cell.rebased:
        return cell.rebased
    return "" if edge._is_leaf else edge.name()


def conjugate(F: Any, grad: Any) -> Any:
    if type(grad) is list:
        return [None if g is None else F.conj(g) for g in grad]
    return F.conj(grad)


def wanted_dtype(edge: Node | None, g: Any, dtype: Any) -> Any:
    """The dtype for a gradient: that of the tensor, unless the leaf sets a `grad_dtype`."""
    if edge is not None and edge._converts:
        return g._array.dtype if isinstance(g, TensorBase) else g.dtype
    return dtype


def fit(F: Any, g: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """`g` summed down to `shape` and cast to `dtype`: broadcasting and promotion undone."""
    if g.shape != shape:
        g = unbroadcast(F, g, shape)
    if isinstance(g, TensorBase):
        if g._array.dtype != dtype:
            g = F.cast(g, dtype)
    elif g.dtype != dtype:
        g = F.cast(g, dtype)
    return g


def unbroadcast(F: Any, g: Any, shape: tuple[int, ...]) -> Any:
    """Sum over the dimensions that broadcasting added or stretched."""
    if HOST_KERNELS.sum_to is not None and type(g) is ndarray:
        summed = HOST_KERNELS.sum_to(g, shape)
        if summed is not None:
            return summed
    found = g.shape
    extra = len(found) - len(shape)
    if extra < 0:
        return F.expand(g, shape)
    dims = list(range(extra))
    for i in range(len(shape)):
        if shape[i] == 1 and found[extra + i] != 1:
            dims.append(extra + i)
    if dims:
        g = F.sum(g, tuple(dims), True, None)
    if g.shape != shape:
        g = F.view(g, shape)
    return g


def same_plain(t: Any) -> Any:
    """Another tensor, of no class of its own, with the memory and the history of `t`."""
    p = wrap(t._array)
    share_history(p, t)
    return p


def share_history(p: Any, t: Any) -> None:
    """Give a tensor the node, the version and the view of another one with the same memory."""
    p._wants_grad = t._wants_grad
    p._node = accumulate_node(t) if t._wants_grad and t._node is None else t._node
    p._slot = t._slot
    p._cell = t._version_cell()
    p._view_of = None if t._view_of is None else t._view_of.twin()
    p._cut = t._cut
