"""Two tensors that change places."""

from __future__ import annotations

import copyreg
import weakref
from typing import Any

from ..autograd.hooks import NodeHooks, add_hook
from ..core.base import TensorBase
from ..core.node import AccumulateGrad, accumulate_node

POISONED = (
    "Trying to execute AccumulateGrad node that was poisoned by swap_tensors this can happen when "
    "you try to run backward on a tensor that was swapped. For a module m with "
    "`torch.__future__.set_swap_module_params_on_conversion(True)` you should not change the "
    "device or dtype of the module (e.g. `m.cpu()` or `m.half()`) between running forward and "
    "backward. To resolve this, please only change the device/dtype before running forward (or "
    "after both forward and backward)."
)
# The first is what a compiled class has in place of the second.
FIELDS = TensorBase.__dict__.get("__mypyc_attrs__") or TensorBase.__slots__


def set_module(obj: Any, mod: str) -> None:
    """Say that an object comes from another module, for how it is printed."""
    if not isinstance(mod, str):
        raise TypeError("The mod argument should be a string")
    obj.__module__ = mod


def swap_tensors(t1: Any, t2: Any) -> None:
    """Let `t1` have the content, class and attributes of `t2`, and the other way round.

    >>> a, b = tensor([1.0]), tensor([2.0, 3.0])
    >>> utils.swap_tensors(a, b)
    >>> a
    tensor([2., 3.])
    """
    for name, t in (("t1", t1), ("t2", t2)):
        if has_foreign_weakref(t):
            raise RuntimeError(f"Cannot swap {name} because it has weakref associated with it")
    if set(copyreg._slotnames(type(t1))) != set(copyreg._slotnames(type(t2))):  # type: ignore[attr-defined]
        raise RuntimeError("Cannot swap t1 and t2 if they have different slots")
    t1.__class__, t2.__class__ = t2.__class__, t1.__class__
    t1.__dict__, t2.__dict__ = t2.__dict__, t1.__dict__
    for field in FIELDS:
        first, second = getattr(t1, field), getattr(t2, field)
        setattr(t1, field, second)
        setattr(t2, field, first)
    for t in (t1, t2):
        point_at(t)


def has_foreign_weakref(t: Any) -> bool:
    """Whether somebody outside holds a weak reference; the graph's own are to leaves."""
    refs = weakref.getweakrefs(t)
    return any(ref.__callback__ is not None for ref in refs) or bool(refs and not t._wants_grad)


def point_at(t: Any) -> None:
    """Let what the graph knows of a content find it in the tensor that holds it now."""
    node = t._node
    if isinstance(node, AccumulateGrad):
        # Graphs that were recorded before lead to another tensor now: they refuse to run.
        fresh = accumulate_node(t)
        fresh._hooks, fresh._converts = node._hooks, node._converts
        fresh.grad_dtype = node.grad_dtype
        node._hooks = NodeHooks()
        add_hook(node._hooks.before_node, refuse)
    elif node is not None and t._retained:
        node._hooks.retained[t._slot] = weakref.ref(t)


def refuse(grads: Any) -> None:
    raise RuntimeError(POISONED)
