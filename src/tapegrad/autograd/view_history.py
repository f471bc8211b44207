"""The histories of views and of their bases, after writes.

A write through a view makes a `CopySlices` node the history of the base, around the node of the
write itself. The other views of that base re-make their histories from their geometry when they
notice the newer version. docs/notes/in-place-and-views.md has a drawing.
"""

from __future__ import annotations

import weakref
from typing import Any

from .. import errors
from ..core import devices, lazy_conj
from ..core.base import STATE, Node, View, ndarray, next_seq
from ..core.dispatch import apply
from ..core.late_bound import GPU, INSPECTION, VIEWS
from ..core.modes import MODES, grad_set_to
from ..core.node import accumulate_node
from ..core.op import REGISTRY, Op
from ..core.python_dispatch import ACTIVE, modes_set_to
from ..core.rule_functions import RAW, RECORDED
from ..core.strides import address
from ..core.transforms import batched, batched_widen, dual
from ..core.transforms.levels import BATCHES, TANGENTS
from .hooks import hooks_of


def rebase(target: Any, node: Node) -> None:
    """Make `node` the history of `target` and, for a view, of its base."""
    view = target._view_of
    if view is None:
        if target._retained:
            move_retained(target, node, 0)
        target._node = node
        target._slot = 0
        target._wants_grad = True
        target._cut = None
        cell = target._version_cell()
        cell.rebased = node.name()
        cell.rebased_array = id(target._array)
        return
    base = view.base
    slices = CopySlices()
    slices.inner = node
    slices.way = way_to(target, base._array)
    edge: Node | None = None
    if base._wants_grad:
        edge = base._node or accumulate_node(base)
    slices._edges = (edge, *node._edges[1:])
    slots = (0,) * len(node._edges) if node._edge_slots is None else node._edge_slots
    slices._edge_slots = (base._slot, *slots[1:])
    slices._frees = True  # PyTorch drops the node of the write
    slices._seq = next_seq()
    slices._code = node._code
    slices._lasti = node._lasti
    if base._retained:
        move_retained(base, slices, 0)
    base._node = slices
    cell = base._version_cell()
    cell.rebased = slices.name()
    cell.rebased_array = id(base._array)
    base._slot = 0
    base._wants_grad = True
    base._cut = None
    regenerate(target, view)


def move_retained(target: Any, node: Node, slot: int) -> None:
    """Make retain_grad of a tensor follow its new history: it shows the new value's gradient."""
    if target._node is not None and target._node._hooks is not None:
        target._node._hooks.retained.pop(target._slot, None)
    hooks_of(node).retained[slot] = weakref.ref(target)


class CopySlices(Node):
    """The history of a base after a write through a view: `inner` wrote, `way` says where."""

    inner: Any = None
    released: Any = None  # the op of the write, once `inner` is gone: what traces show
    way: Any = ()

    def __call__(self, *grads: Any) -> Any:
        return INSPECTION.call(self, *grads)

    def name(self) -> str:
        return "torch::autograd::CopySlices"

    def _pull(self, grad: Any, record: bool) -> Any:
        F: Any = RECORDED if record else RAW if type(grad) is ndarray else GPU.space(grad)
        inner = self.inner
        if inner is None:
            raise errors.freed_graph(self, grad)
        region = F.region_of(grad, self.way)
        grads = list(inner._pull(region if inner._outputs is None else [region], record))
        if self._edges[0] is None:
            grads[0] = None
        elif grads[0] is None:
            grads[0] = F.region_zeroed(grad, self.way)
        else:
            grads[0] = F.copy_slices(grad, grads[0], self.way)
        return grads

    def _release(self) -> None:
        # It keeps its values: a recorded pass may have made it the history of the written value.
        if self.inner is not None:
            self.released = self.inner._op
            self.inner = None


def refresh(target: Any) -> None:
    """Bring a view's history up to date if its memory was written since it was last right."""
    view = target._view_of
    cell = target._cell
    if cell.n == view.seen:
        return
    if TANGENTS:
        dual.adopt(target)
    base = view.base
    if BATCHES and batched.is_batched(base):
        batched_widen.follow(target)
        return
    if not base._wants_grad:
        view.seen = cell.n
        return
    if STATE.modes_on and not MODES.records:
        return
    if view.kind:
        raise errors.view_written(target, view, indirect=True)
    regenerate(target, view)


def look_again(target: Any) -> None:
    """`refresh` whatever the grad mode: for reading `grad_fn`, which no_grad does not change."""
    with grad_set_to(True):
        refresh(target)


def regenerate(target: Any, view: View) -> None:
    """Re-make the history of a view from its base's: by one as_strided, or by its recipe."""
    if ACTIVE.modes:
        with modes_set_to(()):  # the op ran long ago
            made = replay(target, view)
    else:
        made = replay(target, view)
    if target._retained:
        move_retained(target, made._node, made._slot)
    target._node = made._node
    target._slot = made._slot
    target._wants_grad = made._wants_grad
    target._cut = None
    view.seen = target._cell.n


def replay(target: Any, view: View) -> Any:
    """A tensor like `target`, made from its base as the base is now."""
    made: Any = view.base
    for op, attrs in way_to(target, made._array)[2]:
        made = apply(op, (made,), attrs)
    return made


def seen_from(target: Any, whole: Any, base: Any = None) -> Any:
    """The part of `whole`, a tensor laid out as the base of a view, that the view looks at."""
    for op, attrs in way_to(target, target._view_of.base._array if base is None else base)[2]:
        whole = apply(op, (whole,), attrs)
    return whole


def way_to(target: Any, base: Any) -> tuple[Any, ...]:
    """Shape and strides of `base`, and the view ops that lead from there to `target`."""
    as_strided = REGISTRY["as_strided"]
    steps: list[tuple[Op, tuple[Any, ...]]] = []
    array = base
    for source, op, attrs in target._view_of.steps:
        if layout(source) != layout(array):
            steps.append((as_strided, within(source, array)))
        array = looked(op, source, attrs)
        steps.append((op, attrs) if op.replays else (as_strided, within(array, source)))
    if not steps or layout(target._array) != layout(array):
        steps.append((as_strided, within(target._array, array)))
    return base.shape, base.strides, tuple(steps)


def layout(array: Any) -> tuple[Any, ...]:
    return array.shape, array.strides, address(array)


def within(array: Any, start: Any) -> tuple[Any, ...]:
    """Size, stride and offset of `array`, in elements from the start of `start`."""
    item = array.itemsize
    offset = address(array) - address(start)
    return array.shape, tuple([s // item for s in array.strides]), offset // item


def looked(op: Op, array: Any, attrs: tuple[Any, ...]) -> Any:
    """Run the kernel of a view op on an array of any device."""
    if type(array) is STATE.device_type:
        return devices.kernel_of(op)(array, *attrs)
    if type(array) is STATE.meta_type:
        return op.kernel(array.view(ndarray), *attrs).view(STATE.meta_type)
    if type(array) is STATE.bits_type:
        return lazy_conj.looked(op, array, attrs)
    return op.kernel(array, *attrs)


VIEWS.refresh = refresh
VIEWS.seen_from = seen_from
