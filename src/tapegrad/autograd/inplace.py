"""Writing into tensors: refuse, record, write, count, rebase.

The order matters: nothing is written before every refusal has been considered, and the node is
recorded on the values as they were. view_history.py has the last step, and how views follow their
base. docs/notes/in-place-and-views.md has a drawing.
"""

from __future__ import annotations

import copy
import functools
import re
from typing import Any

import numpy as np

from .. import dtypes, errors
from ..core import devices, lazy_conj
from ..core.base import (
    INTERPRETED,
    STATE,
    Node,
    TensorBase,
    as_array,
    ndarray,
    quiet,
)
from ..core.dispatch import apply, common_dtype, overwrite_plain, run_kernel, write_plain
from ..core.late_bound import ANOMALY_MODE, ON_DEMAND, PROFILER
from ..core.modes import MODES
from ..core.op import REGISTRY, Op, Rule
from ..core.python_dispatch import asked_about, is_asked
from ..core.record import FLOATS, lay_out, save_outputs
from ..core.rounding import before_rounding_to
from ..core.strides import address, is_dense, meet, memory, overlaps_itself, shares_itself
from ..core.transforms import batched, dual
from ..core.transforms.levels import BATCHES, TANGENTS
from ..core.warned import warn
from . import dispatched
from .view_history import layout, looked, rebase, refresh

DISCARDS = "Casting complex values to real discards the imaginary part"


def write(
    op: Op, tensors: tuple[Any, ...], attrs: tuple[Any, ...] = (), watch: tuple[Any, ...] = ()
) -> Any:
    """Run `op` with its result written into its first tensor: the in-place form of any op."""
    target = tensors[0]
    if len(tensors) == 2 and type(tensors[1]) is int and not -LARGE <= tensors[1] < LARGE:
        dtypes.scalar_dtype(tensors[1])  # refuses what no integer dtype holds
    if not (STATE.modes_on or BATCHES or TANGENTS or (watch and any_special(watch))):
        if write_plain(op, target, tensors, attrs, True):
            return target
    if not isinstance(target, TensorBase):
        raise errors.must_be_tensor(op.name + "_", "input", 1, target)
    if STATE.modes_on and MODES.budget is not None:
        MODES.budget.before_write(target)
    if BATCHES and batched.has_batched(tensors):
        return batched.write(op, tensors, attrs, watch)
    if TANGENTS:
        for t in tensors:
            if isinstance(t, TensorBase) and t._view_of is not None:
                dual.adopt(t)  # another view may have given the base a tangent
    if TANGENTS and dual.has_dual(tensors):
        value = dual.before_write(op, tensors, attrs)
        write_values(op, tensors, attrs, watch)
        dual.after_write(target, value)
        return target
    special = any_special(tensors)
    if (STATE.modes_on or special) and is_asked(*tensors):
        return dispatched.write(op, tensors, attrs, watch)
    if special == INTERPRETED and dispatched.has_sparse(*tensors):
        return ON_DEMAND.write_sparse(op, tensors, attrs)
    if STATE.modes_on and not (watch and any_special(watch)):
        if write_plain(op, target, tensors, attrs, MODES.records):
            return target
    return write_values(op, tensors, attrs, watch)


def any_special(tensors: tuple[Any, ...]) -> int:
    """Whether one of the tensors is more than an array with a history (subclass, meta, …)."""
    special = 0
    for t in tensors:
        if isinstance(t, TensorBase):
            special |= t._special
    return special


def write_values(
    op: Op, tensors: tuple[Any, ...], attrs: tuple[Any, ...], watch: tuple[Any, ...]
) -> Any:
    """`write` without forward mode: the value, the version and the history."""
    target = tensors[0]
    if not op.silent:
        refuse(target, False)
    arrays: list[Any] = []
    mask = 0
    for i, t in enumerate(tensors):
        if isinstance(t, TensorBase):
            if t._view_of is not None:
                refresh(t)
            if t._wants_grad:
                mask |= 1 << i
            arrays.append(t._array)
        else:
            arrays.append(t)
    execute = run_kernel
    if STATE.device_type is not None and devices.has_device(tensors):
        execute = devices.run_kernel
        tensors, attrs = devices.on_one_device(op, tensors, attrs, written=True)
        arrays = [t._array if isinstance(t, TensorBase) else t for t in tensors]
    if STATE.meta_type is not None and any([type(x) is STATE.meta_type for x in arrays]):
        from ..core import meta

        execute = meta.execute
        meta.check_written(op, tensors)
    has_bits = STATE.bits_type is not None and lazy_conj.has_bits(tensors)
    recording = (
        mask != 0
        and not op.silent
        and (not STATE.modes_on or MODES.records)
        and target._array.dtype.kind in FLOATS
    )
    if recording:
        refuse(target, True)
    name = op.name + "_"
    destination = target._array
    check_overlap(destination, arrays, op.name)
    if op.apart and type(destination) is not STATE.meta_type:
        refuse_shared(op, destination, arrays, attrs)
    at_once = (
        op.into is not None
        and execute is run_kernel
        and type(destination) is ndarray
        and not has_bits
        and not STATE.anomaly
        and not (recording and op.plan(mask).first)
        and (destination.flags.forc or not overlaps_itself(destination))
        and not (op.broadcasts and widens(destination, arrays[:2]))  # a mask, a source
        and not (op.name == "copy" and discards(arrays[1], destination))
    )
    if at_once:
        return write_at_once(op, tensors, attrs, watch, arrays, mask if recording else 0)
    if has_bits:
        arrays = [lazy_conj.plain(x) for x in arrays]
    if STATE.timing:
        PROFILER.start(op.aten_name() + "_", tensors)
    try:
        out = as_array(execute(op, list(arrays), attrs))
    except RuntimeError as error:
        if KERNEL_REFUSED.search(str(error)):
            prefer_misfit(op, arrays, destination)
        raise
    check_fits(op, out, destination)
    if op.name in ("copy", "fill_tensor") and discards(arrays[1], destination):
        from ..core.warned import warn_once

        warn_once(DISCARDS)
    if STATE.anomaly:
        ANOMALY_MODE.check_forward(op, tensors, attrs, (out,))
    node = None
    if recording:
        op = written(op, tensors)
        overwritten = destination.copy() if op.plan(mask).first else None
        node = lay_out(op, tensors, attrs, watch, mask, (destination,), overwritten)
        if op.dtype_rule and out.dtype != destination.dtype:
            # The rules ran in another dtype than the target's.
            pairs = zip(tensors, node._edges, strict=True)
            node._fixes = tuple([fix_for(t, edge) for t, edge in pairs])
    if not destination.flags.forc and not has_bits and overlaps_itself(destination):
        store_in_turn(destination, out, op, arrays, attrs)
    else:
        store(destination, out)
    bump(target, name, node is not None)
    if node is not None:
        rebase(target, node)
        save_outputs(node, op.plan(mask), [target])
        if has_bits:
            lazy_conj.settle(node)
    if STATE.timing:
        PROFILER.stop(op.aten_name() + "_")
    return target


def write_at_once(
    op: Op,
    tensors: tuple[Any, ...],
    attrs: tuple[Any, ...],
    watch: tuple[Any, ...],
    arrays: list[Any],
    mask: int,
) -> Any:
    """The rest of `write_values` for an op whose kernel can change the target directly.

    `mask`: the tensors that need a gradient, if the write is recorded.
    """
    target = tensors[0]
    if STATE.timing:
        PROFILER.start(op.aten_name() + "_", tensors)
    node = None
    if mask:
        op = written(op, tensors)
        node = lay_out(op, tensors, attrs, watch, mask, (target._array,))
    quiet(op.into, *arrays, *attrs)
    bump(target, op.name + "_", node is not None)
    if node is not None:
        rebase(target, node)
        save_outputs(node, op.plan(mask), [target])
    if STATE.timing:
        PROFILER.stop(op.aten_name() + "_")
    return target


def widens(destination: Any, arrays: list[Any]) -> bool:
    """Whether the arguments broadcast to another shape than the destination's, or to none."""
    shape = destination.shape
    if all([not isinstance(x, ndarray) or x.shape == shape for x in arrays]):
        return False
    try:
        shapes = [x.shape for x in arrays if isinstance(x, ndarray)]
        return bool(np.broadcast_shapes(*shapes) != shape)
    except ValueError:
        return True


def refuse_shared(op: Op, destination: Any, arrays: list[Any], attrs: tuple[Any, ...]) -> None:
    """Refuse arguments in the memory that is written, where PyTorch allows none."""
    for name in op.apart:
        if name in op.attrs:
            value = attrs[op.attrs.index(name)]
        else:
            value = arrays[op.tensors.index(name)]
        for x in value if type(value) is tuple else (value,):
            if getattr(x, "dtype", None) is not None and x.dtype.kind != "b":
                check_apart(destination, x)


def discards(source: Any, destination: Any) -> bool:
    """Whether a copy loses imaginary parts."""
    lost: bool = source.dtype.kind == "c" and destination.dtype.kind not in "cb"
    return lost and bool(destination.size)


def store(destination: Any, value: Any) -> None:
    """Assign values to an array without NumPy's warnings about those that its dtype cannot hold."""
    if type(destination) is STATE.device_type:
        devices.DEVICE.backend.assign(destination, devices.storable(destination, value))
    elif isinstance(value, ndarray) and value.dtype is destination.dtype:
        destination[...] = value
    elif isinstance(value, ndarray) and discards(value, destination):
        quiet(destination.__setitem__, ..., value.real)
    elif isinstance(value, ndarray):
        quiet(destination.__setitem__, ..., before_rounding_to(destination.dtype, value))
    else:
        quiet(destination.__setitem__, ..., value)


def store_in_turn(destination: Any, out: Any, op: Op, arrays: list[Any], attrs: Any) -> None:
    """Write elements that share memory one after the other, each seeing what came before.

    In PyTorch's order: the dimension with the smallest step varies fastest.
    """
    if op.name == "index_put" and type(destination) is ndarray:
        if attrs[1]:
            np.add.at(destination, attrs[0], arrays[1])
        else:
            destination[attrs[0]] = arrays[1]
        return
    if op.name in EXPANDED:
        changed = out != destination
        destination[changed] = out[changed]
        return
    if op.name in ONLY_ZEROS and type(destination) is ndarray:
        kept = run_kernel(op, [np.ones(destination.shape, bool)], attrs)
        destination[~kept] = np.zeros((), destination.dtype)
        return
    inner_last = sorted(range(destination.ndim), key=lambda i: (-destination.strides[i], i))
    shape = destination.shape
    if op.elementwise:
        arrays = [np.broadcast_to(x, shape) if isinstance(x, ndarray) else x for x in arrays]
    for place in np.ndindex(*[shape[i] for i in inner_last]):
        index = [0] * len(shape)
        for i, at in zip(inner_last, place, strict=True):
            index[i] = at
        here: Any = (*index, ...)  # a 0-d array, not a number
        if op.elementwise:
            parts: list[Any] = [x[here] if isinstance(x, ndarray) else x for x in arrays]
            store(destination[here], as_array(run_kernel(op, parts, attrs)))
        else:
            store(destination[here], out[here])


def fix_for(t: Any, edge: Node | None) -> Any:
    """The shape and dtype that the gradient for a tensor is brought to; None without an edge."""
    return None if edge is None else (t._array.shape, t._array.dtype)


WRITTEN: dict[str, Op] = {}


def written(op: Op, tensors: tuple[Any, ...]) -> Op:
    """The op that an in-place write records: mostly the op itself."""
    renamed = op.written_name != "" and isinstance(tensors[-1], TensorBase)
    if op.differentiable and not renamed:
        return op
    name = op.written_name if renamed else op.node_name
    found = WRITTEN.get(name)
    if found is None:
        found = WRITTEN[name] = copy.copy(op)
        found.node_name = name
        found.gradients = None  # the kernel for the gradients of `op` knows other rules
        if op.differentiable:
            # PyTorch has these under their own names because it cannot differentiate them.
            found.rules = (Rule(functools.partial(no_derivative, op.name), ()),)
        else:
            # A result without slope: zeros go back to every tensor.
            found.differentiable = True
            found.rules = REGISTRY["zero"].rules * len(op.tensors)
        found.needed_by = ((),) * len(op.tensors)
        found.plan_cache = {}
        found.make_plans()
    return found


def no_derivative(name: str, F: Any, grad: Any) -> Any:
    raise NotImplementedError(f"the derivative for 'inplace version of {name}' is not implemented.")


def overwrite(
    op: Op, target: Any, value: Any, name: str, shown: dict[str, Any] | None = None
) -> Any:
    """Write values that do not depend on any tensor (`zero_`, `fill_`, `normal_` …).

    They may come from a function that writes them where it is told to, or returns them. `shown` are
    the other arguments of the function, for who looks on.
    """
    if not (STATE.modes_on or BATCHES or TANGENTS) and overwrite_plain(target, value, name):
        return target
    if STATE.modes_on and MODES.budget is not None:
        MODES.budget.before_write(target)
    if BATCHES and batched.is_batched(target):
        overwrite(op, batched.batch_of(target).physical, value, name, shown)
        return target
    if (STATE.modes_on or target._special) and is_asked(target):
        value = value() if callable(value) else value
        return dispatched.overwrite(op, target, value, name, shown or {})
    refuse(target, False)
    if lazy_conj.has(target._array):
        check_overlap(target._array, ())
    if target._view_of is not None:
        refresh(target)
    recording = target._wants_grad and (not STATE.modes_on or MODES.records)
    node = lay_out(op, (target,), (), (), 1, (target._array,)) if recording else None
    if callable(value):
        value = value(target._array)
    if value is not None:
        store(target._array, value)
    bump(target, name, node is not None)
    if node is not None:
        rebase(target, node)
    if TANGENTS:
        dual.after_write(target, None)
    return target


def repoint(op: Op, target: Any, attrs: tuple[Any, ...]) -> Any:
    """Turn a tensor into a view of its memory in place (`t_`, `squeeze_` …): counts as a write."""
    if BATCHES and batched.is_batched(target):
        batched.replace(target, apply(op, (target,), attrs))
        return target
    refuse(target, False)
    if target._view_of is not None:
        refresh(target)
    array = looked(op, target._array, attrs)
    recording = target._wants_grad and (not STATE.modes_on or MODES.records)
    if not recording and target._view_of is None and target._node is not None:
        # A history has to follow the new shape even under no_grad, else gradients would not fit.
        old = target._array
        changes = array.shape != old.shape or array.strides != old.strides
        recording = changes and not target._node._is_leaf
    node = lay_out(op, (target,), attrs, (), 1, (array,)) if recording else None
    target._array = array
    if TANGENTS:
        dual.transform(target, op, attrs)
    bump(target, op.name, node is not None)
    if node is not None:
        # No memory changed: for a view, the base keeps its history.
        target._node = node
        target._slot = 0
        if target._view_of is not None:
            target._view_of.seen = target._cell.n
    return target


def bump(target: TensorBase, name: str, recorded: bool = False) -> None:
    """Count a write, with what E01 wants to know: recorded?, the view's shape and line, a cut."""
    cell = target._version_cell()
    if cell.counts and MODES.inference:
        return
    view = target._view_of
    if view is None:
        cell.bump(name, (recorded, None, None, -1, target._cut))
    else:
        cell.bump(name, (recorded, target._array.shape, view._code, view._lasti, target._cut))


def check_fits(op: Op, out: Any, destination: Any) -> None:
    """The result must have the target's shape and, where dtypes matter, one that can be stored."""
    if out.shape != destination.shape:
        if type(destination) is STATE.meta_type:
            raise RuntimeError(
                f"output with shape torch.Size({list(destination.shape)}) doesn't match the "
                f"broadcast shape {tuple(out.shape)}"
            )
        raise RuntimeError(
            f"output with shape {list(destination.shape)} doesn't match the broadcast shape "
            f"{list(out.shape)}"
        )
    if op.dtype_rule and out.dtype != destination.dtype:
        have, want = dtypes.of(out.dtype), dtypes.of(destination.dtype)
        if have.category > want.category:
            raise RuntimeError(
                f"result type {have.scalar_type} can't be cast to the desired output type "
                f"{want.scalar_type}"
            )


# What kernels complain about: PyTorch comes there last.
KERNEL_REFUSED = re.compile("not implemented for '|^ZeroDivisionError")
ORDERS = ("<", "<=", ">", ">=")  # their results fit into any dtype


def prefer_misfit(op: Op, arrays: list[Any], destination: Any) -> None:
    """After a kernel refused its arguments: raise PyTorch's error about the shape first, if any."""
    shapes = [x.shape for x in arrays if hasattr(x, "shape")]
    if not op.elementwise or not op.dtype_rule or len(shapes) < 2:
        return
    dtype = destination.dtype if op.sign in ORDERS else common_dtype(op, arrays)
    check_fits(op, np.broadcast_to(np.empty((), dtype), np.broadcast_shapes(*shapes)), destination)


LARGE = 1 << 63
EXPANDED = {
    name: f"Use of {name}_ on expanded tensors is deprecated. Please clone() the tensor before "
    f"performing this operation. This also applies to advanced indexing e.g. tensor[{what}"
    for name, what in (("index_put", "indices] = tensor"), ("masked_fill", "mask] = scalar"))
}


ONLY_ZEROS: set[str] = set()  # ops that write nothing else in place, in any order; they add theirs


def overlapping() -> RuntimeError:
    """For writing to a tensor several elements of which are one place in memory."""
    return RuntimeError(
        "unsupported operation: more than one element of the written-to tensor refers to a "
        "single memory location. Please clone() the tensor before performing the operation."
    )


def check_overlap(destination: Any, sources: Any, name: str = "") -> None:
    """Refuse to write where the order of writing would show in the result."""
    if shares_itself(destination):
        if name == "copy" and layout(sources[1]) == layout(destination):
            return  # everything is in its place already
        if name in EXPANDED and not lazy_conj.has(destination):
            warn(EXPANDED[name], UserWarning)
            return
        if name in ONLY_ZEROS and type(destination) is ndarray:
            if destination.ndim <= 3 or not shares_itself(destination[0]):
                return
        raise overlapping()
    if name.endswith("fill_tensor"):
        return  # the value is read before anything is written
    if STATE.bits_type is not None and name == "copy":  # other ops read copies of such values
        destination, sources = (
            lazy_conj.memory_behind(destination),
            map(lazy_conj.memory_behind, sources),
        )
    for x in sources:
        if x is not destination and type(x) is type(destination):
            if meets(x, destination) and not matches(x, destination) and not lazy_conj.has(x):
                raise shared_memory()


def check_apart(destination: Any, source: Any) -> None:
    """`check_overlap` for ops that move elements to other places."""
    if type(source) is type(destination) and meets(source, destination):
        raise shared_memory()


def shared_memory() -> Exception:
    return RuntimeError(
        "unsupported operation: some elements of the input tensor and the written-to tensor refer "
        "to a single memory location. Please clone() the tensor before performing the operation."
    )


def matches(x: Any, destination: Any) -> bool:
    """Whether two arrays are the same memory, element for element."""
    same_strides: bool = x.strides == destination.strides
    return same_strides and x.nbytes == destination.nbytes and address(x) == address(destination)


def meets(x: Any, destination: Any) -> bool:
    """Whether two dense arrays overlap in memory."""
    if x is destination:
        return True
    if type(x) is ndarray and not meet(x, destination):
        return False
    if x.base is None and destination.base is None or not x.size or not destination.size:
        if type(x) is not STATE.device_type or memory(x) is not memory(destination):
            return False
    start, other = address(x), address(destination)
    if start >= other + destination.nbytes or other >= start + x.nbytes:
        return False
    return is_dense(x) and is_dense(destination)


def refuse(target: Any, recording: bool) -> None:
    """Raise for every target that autograd cannot follow a write to, before anything is written."""
    cell = target._cell
    if cell is not None and cell.inference and not cell.counts and not MODES.inference:
        raise errors.inference_written()  # PyTorch notices after the write
    if STATE.modes_on:
        if not MODES.records:
            return
        target = asked_about(target, "history")
    view = target._view_of
    if view is not None:
        base = asked_about(view.base, "history") if STATE.modes_on else view.base
        wants = target._wants_grad or base._wants_grad
        if view.kind and (wants or recording):
            raise errors.view_written(target, view, indirect=False)
        if wants and (base._node is None or base._node._is_leaf):
            raise errors.leaf_written(target, view)
    elif target._wants_grad and (target._node is None or target._node._is_leaf):
        raise errors.leaf_written(target, None)


def prefer_refusal(target: Any, error: Exception) -> None:
    """After an error about arguments: raise autograd's own refusal first, if there is one."""
    if not isinstance(target, TensorBase):
        return
    try:
        refuse(target, False)
    except RuntimeError as refusal:
        if str(refusal) != str(error):
            raise refusal from None
