"""Ops that `__torch_dispatch__` runs: what autograd does above it.

The class or the mode is asked below autograd (core/python_dispatch.py). Its results get a node as
all results do; what the node saves are tensors, of whatever class, and a backward pass that gets
there runs on tensors too, so that the ops of the rules are seen as well.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import devices
from ..core.base import INTERPRETED, STATE, Node, TensorBase, node_of, wrap
from ..core.dispatch import apply
from ..core.gradient_memory import HOST, memory_of
from ..core.late_bound import DISPATCHED, GPU, ON_DEMAND, VIEWS
from ..core.modes import MODES
from ..core.node import OpNode, Packed
from ..core.op import Op
from ..core.python_dispatch import (
    ACTIVE,
    Call,
    OpCall,
    ask,
    ask_about,
    ask_anyone,
    below_autograd,
    cannot_be_repeated,
    dispatches,
    is_asked,
    leaves_of,
    modes_set_to,
    read_values,
)
from ..core.record import FLOATS, lay_out, link_views, record, save_outputs
from ..core.strides import is_dense
from ..core.subclass import same_class
from ..device import CPU, contiguous_format


class Seen:
    """Whether a node was ever recorded whose values are more than arrays."""

    nodes: bool = False


def run(op: Op, tensors: Any, attrs: Any, watch: Any, mode: Any = None) -> Any:
    """`apply` where a mode or the class of a tensor is asked."""
    tensors = tuple(tensors)
    mask = wanting(tensors)
    answer = ask(call_of(op, tensors, attrs, watch, apply), mode)
    if op.single:
        if isinstance(answer, TensorBase):
            above(op, tensors, attrs, watch, mask, [answer])
        return answer
    if not isinstance(answer, (tuple, list)):
        return answer
    results = tuple(answer)
    if all([isinstance(r, TensorBase) for r in results]):
        above(op, tensors, attrs, watch, mask, list(results))
    return results if op.result is None else op.result(results)


def wanting(tensors: tuple[Any, ...]) -> int:
    """The mask of the operands that need a gradient: bit i for tensor i."""
    mask = 0
    for i, t in enumerate(tensors):
        if isinstance(t, TensorBase):
            if t._view_of is not None:
                VIEWS.refresh(t)
            if t._wants_grad:
                mask |= 1 << i
    return mask


def call_of(op: Op, tensors: Any, attrs: Any, watch: Any, execute: Any) -> Call:
    """The call of an op with the arguments of its schema; it can be run with other tensors."""
    from .inplace import write_values

    present = ON_DEMAND.schema_calls().present
    overload, args, kwargs = present(op, tensors, attrs, watch, execute is write_values)
    leaves = leaves_of((args, kwargs))
    places: list[int] = []
    for t in tensors:
        free = [i for i, leaf in enumerate(leaves) if leaf is t and i not in places]
        places.append(free[0] if free else -1)

    def again(args: Any, kwargs: Any) -> Any:
        now = leaves_of((args, kwargs))
        operands = [t if i < 0 else now[i] for t, i in zip(tensors, places, strict=True)]
        return execute(op, tuple(operands), attrs, watch)

    if execute is apply:
        return OpCall(overload, args, kwargs, again)
    call = Call(overload, args, kwargs, again)
    call.written = (op, tensors, attrs)
    return call


def above(op: Op, tensors: Any, attrs: Any, watch: Any, mask: int, results: list[Any]) -> None:
    """Record a node for results that `__torch_dispatch__` returned."""
    recorded = mask and MODES.records and op.differentiable
    if op.view and not any([r is tensors[0] for r in results]):
        look_into(op, tensors[0], attrs, results)
        link_views(op, tensors[0], attrs, results)
    for r in results:
        if not recorded and r._wants_grad and not op.view and not any(r is t for t in tensors):
            r._wants_grad = False
    if recorded and results and results[0]._array.dtype.kind in FLOATS:
        hooks, MODES.saved_hooks = MODES.saved_hooks, ()
        try:
            arrays = tuple([r._array for r in results])
            node = record(op, tensors, attrs, watch, mask, arrays, results)
        finally:
            MODES.saved_hooks = hooks
        keep_tensors(node, tensors, results)


def look_into(op: Op, source: Any, attrs: Any, results: list[Any]) -> None:
    """Set the storage offset of views whose tensors have no memory that would tell it."""
    if source._array.dtype.hasobject or not dispatches(source):
        return
    made = op.kernel(source._array, *attrs)
    for r, array in zip(results, (made,) if op.single else made, strict=True):
        if dispatches(r) and not has_memory(r) and r._array.shape == array.shape:
            r._array = array


def has_memory(t: Any) -> bool:
    from ..core.wrappers import Nowhere

    return not isinstance(t._array, Nowhere)


def keep_tensors(node: OpNode, tensors: Any, results: list[Any]) -> None:
    """Save tensors in the place of their arrays, where a class or hooks want them."""
    op: Op = node._op
    if not any([dispatches(t) for t in (*tensors, *results)]) and not MODES.saved_hooks:
        return
    Seen.nodes = node._on_tensors = True
    kept = list(node._kept)  # type: ignore[arg-type]
    for k in range(0, len(node._cells), 3):
        place = node._cells[k]
        if type(place) is not int or isinstance(kept[place], Packed):
            continue
        is_input = place < op.width
        t: Any = tensors[place] if is_input else results[place - op.width]
        if is_input and t._array is not kept[place]:
            continue  # overwritten: `keep_overwritten` has what it was
        if MODES.saved_hooks:
            pack, unpack = MODES.saved_hooks[-1]
            kept[place] = Packed(pack(detached(t)), unpack)
        elif dispatches(t):
            kept[place] = Packed(t, itself) if is_input else Packed(detached(t), detached)
    node._kept = tuple(kept)
    node._packed = node._packed or any([isinstance(value, Packed) for value in kept])


def note(node: Any, values: Any) -> None:
    """Note that the values of a Function are seen by `__torch_dispatch__` of a class."""
    if any([dispatches(v) for v in values]):
        Seen.nodes = node._on_tensors = True


def noted_sparse(out: Any, sparse: bool) -> Any:
    """A result whose gradient comes back as a sparse tensor, which has no array."""
    if sparse and out._node is not None and not out._node._is_leaf:
        Seen.nodes = out._node._on_tensors = True
    return out


def itself(t: Any) -> Any:
    return t


def detached(t: Any) -> Any:
    """The tensor without its history, by the `detach` of its class, called below autograd."""
    with below_autograd():
        return t.detach()


def saved(node: Any, place: int, t: Any) -> Any:
    """A saved tensor with the history that it had when it was saved."""
    width = node._op.width
    edge: Node | None
    if place < width:
        edge = node._edges[place]
        slot = 0 if node._edge_slots is None else node._edge_slots[place]
    else:
        edge = None if place - width in node._op.plain_outs else node
        slot = place - width
    if edge is not None and (t._node is not edge or t._slot != slot):
        t = same_class(t) if place < width else t
        t._wants_grad = True
        t._node = edge
        t._slot = slot
    return t


NUMBERS = (bool, int, float, complex)


def tell_origin(data: Any) -> None:
    """Tell modes that a replay cannot repeat a tensor made of more than Python's own numbers."""
    for value in leaves_of(data):
        if isinstance(value, TensorBase):
            read_values(value)
        elif not isinstance(value, NUMBERS) or isinstance(value, np.generic):
            cannot_be_repeated(f"it makes a tensor of what is in a {type(value).__name__}")


def created(api: Any, make: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Ask a mode, or the class of the tensor that it is like, to make a new tensor."""
    wants_grad = kwargs.pop("requires_grad", False)
    if is_placed_by_default(api, args, kwargs):
        place = devices.default_device()
        if place != CPU:
            kwargs = {**kwargs, "device": place}
    found = ON_DEMAND.schema_calls().factory_call(api.name, make, args, kwargs)

    def function(*given: Any, **options: Any) -> Any:
        if STATE.elsewhere or "device" in options:
            return GPU.created(api, make, given, options)
        return make(*given, **options)

    if found is None:  # from data of all kinds: PyTorch shows the tensor that it made
        data = args[0] if args else kwargs.get("data", kwargs.get("obj"))
        if isinstance(data, TensorBase) and api.name in ("as_tensor", "asarray"):
            made = function(*args, **kwargs)  # by ops, if it is another tensor
            return made.requires_grad_() if wants_grad else made
        tell_origin(data)
        with modes_set_to(()):
            made = function(*args, **kwargs)
        if not isinstance(made, TensorBase) or not ACTIVE.modes or any([made is a for a in args]):
            return made.requires_grad_() if wants_grad else made
        made = ask_about("lift_fresh", (made,), itself)
    else:
        overload, shown, named = found

        def again(now: Any, options: Any) -> Any:
            model = isinstance(shown[0], TensorBase) and args
            return function(*((now[0], *args[1:]) if model else args), **kwargs)

        made = ask_anyone(Call(overload, shown, named, again))
    return made.requires_grad_() if wants_grad else made


def is_placed_by_default(api: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a new tensor goes where `set_default_device` says."""
    if not STATE.elsewhere or kwargs.get("device") is not None or kwargs.get("out") is not None:
        return False
    if api.name.startswith("new_") or api.name.endswith("_like"):
        return False
    return not any([isinstance(a, TensorBase) for a in args])


# ---------------------------------------------------------------------- writes


def write(op: Op, tensors: Any, attrs: Any, watch: Any) -> Any:
    """`inplace.write` where a mode or a class is asked."""
    from . import inplace

    tensors = tuple(tensors)
    target = tensors[0]
    if not op.silent:
        inplace.refuse(target, False)
    mask = wanting(tensors)
    records = mask != 0 and not op.silent and MODES.records
    recording = records and target._array.dtype.kind in FLOATS
    if recording:
        inplace.refuse(target, True)
    node = None
    inputs = tensors
    call = call_of(op, tensors, attrs, watch, inplace.write_values)
    if recording:
        op = inplace.written(op, tensors)
        copy: Any = None
        if op.plan(mask).first:
            with below_autograd():
                copy = target.clone()
            inputs = (copy, *tensors[1:])
        overwritten = None if copy is None else copy._array
        node = lay_out(op, tensors, attrs, watch, mask, (target._array,), overwritten)
    finish_write(op, inputs, target, call, f"{op.name}_", node, mask)
    return target


def finish_write(
    op: Op, inputs: Any, target: Any, call: Call, name: str, node: Any, mask: int
) -> None:
    """Ask for the write, count it if that did not happen below, and record its node."""
    from . import inplace, view_history

    cell = target._version_cell()
    before = cell.n
    ask_anyone(call)
    if cell.n == before:
        inplace.bump(target, name, node is not None)
    if node is not None:
        view_history.rebase(target, node)
        save_outputs(node, op.plan(mask), [target])
        keep_tensors(node, inputs, [target])


def overwrite(op: Op, target: Any, value: Any, name: str, shown: dict[str, Any]) -> Any:
    """`inplace.overwrite` for tensors whose ops `__torch_dispatch__` sees."""
    from . import inplace

    inplace.refuse(target, False)
    if target._view_of is not None:
        VIEWS.refresh(target)
    node = lay_out(op, (target,), (), (), 1, (target._array,)) if is_recorded(target) else None
    overload, args, kwargs = ON_DEMAND.schema_calls().written_call(name, target, shown)

    def again(args: Any, kwargs: Any) -> Any:
        return inplace.overwrite(op, args[0], value, name, shown)

    finish_write(op, (target,), target, Call(overload, args, kwargs, again), name, node, 1)
    return target


def is_recorded(target: Any) -> bool:
    return bool(target._wants_grad and MODES.records)


# ---------------------------------------------------------------------- backward


def on_tensors(roots: Any) -> bool:
    """Whether a backward pass from these roots has to run on tensors."""
    if ACTIVE.modes:
        return True
    if not Seen.nodes:
        return False
    # Roots of the wrong kind are refused later.
    nodes = [node_of(r) for r in roots]
    stack = [node for node in nodes if node is not None]
    seen = set(stack)
    while stack:
        node = stack.pop()
        if node._on_tensors:
            return True
        for edge in node._edges:
            if edge is not None and edge not in seen:
                seen.add(edge)
                stack.append(edge)
    return False


def ones_like(root: Any) -> Any:
    """Ones like a scalar, of its own class: the gradient that a pass starts with."""
    from ..device import preserve_format

    with below_autograd():
        return ON_DEMAND.ones_like(root, memory_format=preserve_format)


def accumulate(leaf: Any, g: Any, owned: int) -> bool:
    """Add a gradient to that of a leaf, as tensors; False where arrays will do.

    `owned`: 1 + the writes into it, if it belongs to this pass alone.
    """
    if has_sparse(g, leaf._gradient):
        ON_DEMAND.add_sparse_gradient(leaf, g)
        return True
    if not is_asked(leaf, g, leaf._gradient):
        return False
    is_first = leaf._gradient is None
    with below_autograd():
        if not is_first:
            leaf._gradient.add_(g)
        elif may_take(leaf, g):
            leaf._gradient = g.detach()
        else:
            memory = memory_of(g._array)
            turned = (
                memory is HOST
                and leaf._array.flags.c_contiguous
                and not g._array.flags.c_contiguous
            )
            made = g.clone(memory_format=contiguous_format) if turned else g.clone()
            if memory is HOST and memory.fits(made._array, leaf._array):
                made._array = memory.settled(made._array, leaf._array)
            leaf._gradient = made
        if is_first and any([mode.records_steps for mode in ACTIVE.modes]):
            count_first(leaf, g._array, owned)
    return True


def count_first(leaf: Any, array: Any, owned: int) -> None:
    """Count the writes into a first `.grad` as a pass on arrays does: what is recorded is that."""
    if type(array) is not np.ndarray or type(leaf._array) is not np.ndarray:
        return
    writes = 1 if is_dense(leaf._array) else 0
    if owned and memory_of(array).fits(array, leaf._array):
        writes = owned - 1
    if writes:
        leaf._gradient._version_cell().n = writes


def has_sparse(*values: Any) -> bool:
    found = [v for v in values if isinstance(v, TensorBase) and v._special == INTERPRETED]
    return any([v.is_sparse for v in found])  # type: ignore[attr-defined]


def on_entries(roots: Any, seeds: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Roots and their first gradients; in the place of sparse ones, those of their values."""
    pairs = [
        ON_DEMAND.sparse_root(root, g, i) if hasattr(root, "_entries") else (root, g)
        for i, (root, g) in enumerate(zip(roots, seeds, strict=True))
    ]
    return tuple([root for root, _ in pairs]), tuple([g for _, g in pairs])


def sum_of(a: Any, b: Any) -> Any:
    """The sum of two gradients; a sparse first one is added to the other, as PyTorch does."""
    a, b = (g if isinstance(g, TensorBase) else wrap(g) for g in (a, b))
    return b + a if has_sparse(a) else a + b


def may_take(leaf: Any, g: Any) -> bool:
    """Whether a leaf may take a gradient over: their layouts agree and no other leaf has it."""
    if not is_asked(g) or g._array.strides != leaf._array.strides:
        return False
    run = MODES.run
    if run is None:  # trace_backward, which goes step by step
        return False
    first = id(g) not in run.taken
    run.taken[id(g)] = g
    return first


DISPATCHED.run = run
DISPATCHED.created = created
DISPATCHED.saved = saved
DISPATCHED.accumulate = accumulate
DISPATCHED.sum_of = sum_of
