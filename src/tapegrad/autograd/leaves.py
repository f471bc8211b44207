"""The end of a backward pass: what arrives at a leaf becomes its `.grad`, or is added to it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.base import INTERPRETED, STATE, TensorBase, cell_of, ndarray, wrap
from ..core.gradient_memory import NOWHERE, memory_of
from ..core.late_bound import DISPATCHED, GPU, HOST_KERNELS, RECORDING
from ..core.lazy_conj import plain
from ..core.locks import new_rlock
from ..core.modes import MODES
from ..core.node import AccumulateGrad
from ..core.rule_functions import RAW, RECORDED
from ..core.strides import is_dense
from ..errors import inference_written

DIFFERENTIABLE = "fcV"  # NumPy's kinds

# Passes of several threads write to the same leaves; NumPy lets other threads run while it adds.
ADDING = new_rlock()  # a collected object may start a pass while one is adding


def accumulate(leaf: Any, g: Any, record: bool, owned: int, caller: Any) -> None:
    """Add `g` to the leaf's `.grad`; take it over when it belongs to this pass (`owned`)."""
    node: AccumulateGrad = leaf
    if node.follows:
        return
    t: TensorBase | None = node.leaf()
    if t is None:
        t = node.tensor()
    if not t._wants_grad:
        return  # switched off since the forward pass
    if t._node is not None and not t._node._is_leaf:
        raise RuntimeError("leaf variable has been moved into the graph interior")
    if (record and not MODES.grad) or (not record and isinstance(g, TensorBase)):
        # On tensors, but no history is wanted; or a Function returned a sparse one.
        if DISPATCHED.accumulate(t, g, owned):
            if node._hooks is not None:
                node._hooks.accumulated(t, False)
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
            if grad is None:
                t._gradient = first_gradient(g, t._array, owned)
            elif grad._special != INTERPRETED or not DISPATCHED.accumulate(t, wrap(g), 0):
                add_to(grad, g, caller)
    if STATE.modes_on and MODES.inference and grad is None:
        made: Any = t._gradient
        cell_of(made).inference = True
    if STATE.captured is not None:
        STATE.captured.append(t)
    if node._hooks is not None:
        node._hooks.accumulated(t, record)


def add_to(grad: TensorBase, g: Any, caller: Any) -> None:
    """Add a gradient to an existing `.grad` in place: a write, noted with the pass's line."""
    cell = cell_of(grad)
    if cell.inference and not cell.counts and not MODES.inference:
        raise inference_written()
    memory_of(grad._array).accumulate(grad._array, g)
    cell.n += 1
    if caller is not None:
        cell.note("accumulate_grad", caller[0], caller[1], None)


def in_grad_dtype(leaf: Any, g: Any, record: bool) -> Any:
    """A gradient in the `grad_dtype` of its leaf."""
    node: AccumulateGrad = leaf
    dtype = node.grad_dtype
    array = g._array if record else g
    if dtype is None or array.dtype == dtype:
        return g
    if dtype.kind not in DIFFERENTIABLE:
        raise RuntimeError("isDifferentiableType(grad.scalar_type()) INTERNAL ASSERT FAILED")
    F: Any = RECORDED if record else GPU.raw if type(g) is STATE.device_type else RAW
    return F.cast(g, dtype)


def first_gradient(g: Any, layout: Any, owned: int) -> TensorBase:
    """The `.grad` of a leaf that had none: `g` itself if the pass owns it and its strides fit."""
    if owned and type(g) is STATE.device_type and g._c_contiguous:  # as most of a GPU's do
        made = wrap(g)
        if owned != 1:
            cell_of(made).n = owned - 1
        return made
    if owned and type(g) is ndarray:
        if HOST_KERNELS.lies_as is not None:
            alike = HOST_KERNELS.lies_as(g, layout)
        else:
            alike = g.strides == layout.strides and g.flags.carray
        if alike:  # as most are
            made = wrap(g)
            if owned != 1:
                cell_of(made).n = owned - 1
            return made
    memory = memory_of(g)
    if memory is NOWHERE:
        g = np.asarray(g)
        memory = memory_of(g)
    if owned and memory.fits(g, layout):
        made = wrap(memory.settled(g, layout))
        writes = owned - 1
    else:
        made = wrap(memory.copy(g, layout))
        # PyTorch writes into memory with the strides of the leaf, or makes a plain copy.
        writes = 1 if is_dense(layout) else 0
    if writes:
        cell_of(made).n = writes
    return made


def owned_by_sum(before: Any, g: Any, owned: int) -> int:
    """1 + the writes into a sum in new memory, as PyTorch counts them.

    Tensors are never written into, but it does so where it could with their arrays. NumPy's 0-d
    values cannot be written to; PyTorch's are, and count it.
    """
    if not isinstance(before, TensorBase):
        return 1 if type(before) is ndarray else owned + 1
    a: Any = before._array
    if type(a) is not ndarray or not owned:
        return 1
    # What was broadcast is summed by an op that keeps the dimensions, and looked at without them:
    # on arrays a kernel gives new memory.
    base: Any = a.base
    if base is not None and base.ndim > a.ndim and HOST_KERNELS.sum_to is not None:
        if base.shape[base.ndim - a.ndim :] == a.shape:
            a = base
    return owned + 1 if a.ndim == 0 or memory_of(a).may_add_into(a, g._array) else 1


def only_follows(t: TensorBase) -> bool:
    """Whether a view without history, made under no_grad, only says that its base requires grad."""
    view = t._view_of
    if view is None or view.asked or not view.base._wants_grad:
        return False
    return t._node is None or t._node._is_leaf
