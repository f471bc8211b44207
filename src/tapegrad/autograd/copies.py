"""Tensors made of tensors without an op: `.data =`, copies, and pickles."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from .. import dtypes
from ..core import devices
from ..core.base import (
    INTERPRETED,
    ORDINARY,
    STATE,
    WITH_BITS,
    TensorBase,
    Version,
    blank,
)
from ..core.late_bound import ON_DEMAND
from ..core.lazy_conj import memory_behind, plain, with_bits_of
from ..core.modes import MODES
from ..core.strides import address, in_memory_order, strided
from ..core.subclass import overrides, put_slots, slot_names, slots_of, stays_special
from ..core.swapped_data import note_swap
from ..core.transforms.batched import is_batched
from ..core.warned import warn
from ..errors import slips
from .starts import is_valueless


def assign_data(t: Any, value: Any) -> None:
    """`t.data = value`: look at other memory; identity, flags and version stay."""
    if is_batched(t):
        raise RuntimeError("mutating directly with `.data` under vmap transform is not allowed.")
    if not isinstance(value, TensorBase):
        raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
    if is_valueless(t) != is_valueless(value) or t.layout is not value.layout:  # type: ignore[attr-defined]
        raise RuntimeError(
            "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have "
            "incompatible tensor type."
        )
    if t._wants_grad and value._array.dtype.kind not in "fcV":
        raise RuntimeError(
            "data set to a tensor that requires gradients must be floating point or complex dtype"
        )
    if t._cell is not None:  # a graph may have saved what it looked at
        note_swap(t._cell, t._node, t._slot, t._array, value._array)
    if t._node is not None and t._node._is_leaf:
        t._node._kept = (value._array,)
    inference = value._cell is not None and value._cell.inference
    if t.is_inference() is not inference:
        before = 0 if t._cell is None else t._cell.n
        t._cell = Version()
        t._cell.inference = t._cell.counts = inference
        t._cell.n = before if inference else 0
    moves = type(t._array) is not type(value._array)
    t._array = value._array
    if moves:  # between the CPU and a GPU
        own = overrides(type(t)) or "_dual" in t.__dict__
        t._special = INTERPRETED if own else stays_special(t)


def warn_of_hooks(t: Any) -> None:
    """Warn that a copy or pickle has no hooks, unless a hook says that this is fine."""
    for hook in list((t._backward_hooks or {}).values()):
        if not hasattr(hook, "__torch_unserializable__"):
            warn(
                f"backward hook {hook!r} on tensor will not be serialized.  If this is expected, "
                "you can decorate the function with @torch.utils.hooks.unserializable_hook to "
                "suppress this warning",
            )


def shallow_copy(t: Any) -> Any:
    """copy.copy: the same memory as a new leaf."""
    check_storage(t)
    warn_of_hooks(t)
    attributes = {k: v for k, v in t.__dict__.items() if k != "_dual"}  # the tangent stays here
    special = stays_special(t) if t._special else 0
    made = rebuild(type(t), t._array, t.requires_grad, attributes, special)
    put_slots(made, slots_of(t))
    return made


def deep_copy(t: Any, memo: dict[int, Any]) -> Any:
    """copy.deepcopy: tensors that share memory share the copied memory."""
    check_storage(t)
    if not t.is_leaf:
        sentence = (
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
            "protocol at the moment.  If you were attempting to deepcopy a module, this may be "
            "because of a torch.nn.utils.weight_norm usage, see "
            "https://github.com/pytorch/pytorch/pull/103001"
        )
        raise slips.copied_result(sentence, t)
    if id(t) in memo:
        return memo[id(t)]
    made = rebuild(type(t), copy_memory(t._array, memo), t.requires_grad, {}, t._special)
    if t._special == WITH_BITS:
        made._special = ORDINARY
        made._cell.n = 0  # it was cloned
    memo[id(t)] = made
    if t._gradient is not None:
        made._gradient = deep_copy(t._gradient, memo)
    made.__dict__.update(copy.deepcopy(t.__dict__, memo))
    put_slots(made, copy.deepcopy(slots_of(t), memo))
    return made


def copy_memory(array: Any, memo: dict[int, Any]) -> Any:
    """Copy the whole memory of a view, once per memo, and take the same view of the copy."""
    if type(array) is STATE.meta_type:
        return devices.xp_of(array).like(array)
    if type(array) is STATE.bits_type:
        return plain(array)  # no longer a view
    whole = array
    while type(whole.base) is type(array):
        whole = whole.base
    copied = memo.get(id(whole))
    if copied is None:
        copied = memo[id(whole)] = whole.copy(order="K")
    if whole is array:
        return copied
    if not array.size and type(array) is np.ndarray:
        return strided(np, copied.reshape(-1)[:0], array.shape, array.strides)
    start = address(array) - address(whole)
    flat = in_memory_order(copied)
    if start < 0 or not flat.flags.c_contiguous:
        return array.copy(order="K")
    if type(array) is STATE.device_type:
        return devices.DEVICE.xp.ndarray(array.shape, array.dtype, flat.data + start, array.strides)
    return np.ndarray(array.shape, array.dtype, flat.reshape(-1).data, start, array.strides)


def check_storage(t: Any) -> None:
    """Refuse to copy a batched tensor of vmap: it has no memory of its own."""
    if is_batched(t):
        raise NotImplementedError("Cannot access storage of BatchedTensorImpl")


def reduce(t: Any) -> Any:
    check_storage(t)
    attributes = t.__dict__ | slots_of(t)
    if devices.is_device(t):
        host = devices.to_host(t._array)
        return rebuild_on_device, (
            *(type(t), host, t.requires_grad, attributes),
            int(t._array.device.id),
        )
    if is_valueless(t):
        facts = t._array.shape, t.stride(), t._array.dtype
        return rebuild_on_meta, (type(t), *facts, t.requires_grad, dict(t.__dict__))
    return rebuild_of_values, (
        type(t),
        with_bits_of(t._array, np.array(memory_behind(t._array), copy=True)),
        t.requires_grad,
        attributes,
        t._special,
    )


def rebuild_on_device(
    cls: type, array: Any, wants_grad: bool, attributes: dict[str, Any], place: int
) -> Any:
    """`rebuild` of a tensor that was on a GPU; PyTorch's error where there is none."""
    ON_DEMAND.validate_cuda_device(f"cuda:{place}")
    ON_DEMAND.cuda_runtime().start()
    made = rebuild(cls, devices.placed(array, place), wants_grad, attributes, 0)
    made._special = stays_special(made)
    return made


def rebuild_on_meta(
    cls: type,
    shape: Any,
    strides: Any,
    dtype: Any,
    wants_grad: bool,
    attributes: dict[str, Any],
) -> Any:
    """`rebuild` of a tensor without values."""
    from ..core import meta

    array = meta.with_layout(shape, strides, dtype)
    made = rebuild(cls, array, wants_grad, attributes, 0)
    made._special = stays_special(made)
    return made


def rebuild_of_values(
    cls: type, array: Any, wants_grad: bool, attributes: dict[str, Any], special: int
) -> Any:
    """`rebuild` with NumPy's own dtype object: unpickling makes an equal one, `is` would fail."""
    if type(array) is np.ndarray:
        known = dtypes.of(array.dtype).np
        array = array if array.dtype is known else array.view(known)
    return rebuild(cls, array, wants_grad, attributes, special)


def rebuild(
    cls: type, array: Any, wants_grad: bool, attributes: dict[str, Any], special: int
) -> Any:
    t: Any = blank(cls)
    t._array = array
    t._wants_grad = wants_grad
    t._special = special
    slots = slot_names(cls)
    put_slots(t, {name: v for name, v in attributes.items() if name in slots})
    t.__dict__.update({name: v for name, v in attributes.items() if name not in slots})
    cell = t._version_cell()
    # PyTorch points an empty tensor at the memory, if there is any, and counts that as a write.
    cell.n = 0 if is_valueless(t) else 1
    cell.inference = MODES.inference
    return t
