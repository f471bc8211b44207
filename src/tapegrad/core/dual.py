"""Forward mode: the dual interpreter. A dual tensor carries a tangent while its level is open.

Dispatch sends every op with a dual among its tensors here (they are `special`): the op runs on the
plain tensors, and its forward-mode rule gives the tangents of the results. Rules run on tensors
(`RECORDED`), so that a tape that is being recorded sees the tangents too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import CLASSES, TensorBase, wrap
from .dispatch import apply
from .layout import address
from .op import Op
from .record import FLOATS
from .spaces import RECORDED


class Level:
    """One `dual_level`; its duals are plain tensors again once it is closed."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.open = True


class Dual:
    """What a dual tensor has more than a plain one."""

    __slots__ = ("level", "tangent")

    def __init__(self, tangent: Any, level: Level) -> None:
        self.tangent = tangent
        self.level = level


LEVELS: list[Level] = []


def tangent_of(t: Any) -> Any:
    """The tangent of a tensor at an open level, or None."""
    if not isinstance(t, TensorBase) or not t.special:
        return None
    found = t.__dict__.get("_dual")
    if found is None:
        return None
    if found.level.open:
        return found.tangent
    from .subclass import takes_part

    del t.__dict__["_dual"]
    t.special = takes_part(type(t))
    return None


def attach(t: Any, tangent: Any) -> None:
    t.__dict__["_dual"] = Dual(tangent, LEVELS[-1])
    t.special = True


def bare(t: Any) -> Any:
    """The tensor without its tangent: the same memory and history."""
    if not isinstance(t, TensorBase) or tangent_of(t) is None:
        return t
    from ..autograd.node import accumulate_node
    from .subclass import as_subclass, takes_part

    p = wrap(t.array)
    p.wants_grad = t.wants_grad
    p.node = accumulate_node(t) if t.wants_grad and t.node is None else t.node
    p.slot = t.slot
    p.cell = t.version_cell()
    p.view_of = t.view_of
    p.cut = t.cut
    return as_subclass(p, type(t)) if takes_part(type(t)) else p


def has_dual(tensors: tuple[Any, ...]) -> bool:
    return bool(LEVELS) and any([tangent_of(t) is not None for t in tensors])


def push(op: Op, tensors: Any, attrs: Any, watch: Any) -> Any:
    """`apply` with duals among the tensors."""
    plain = tuple([bare(t) for t in tensors])
    result = apply(op, plain, attrs, watch)
    if not op.differentiable:
        return result
    tangents = [tangent_of(t) for t in tensors]
    outs = (result,) if op.single else tuple(result)
    tangents_out = pushed_forward(op, plain, tangents, outs, attrs)
    for i, (out, pushed) in enumerate(zip(outs, tangents_out, strict=True)):
        if i not in op.plain_outs and pushed is not None and out.array.dtype.kind in FLOATS:
            fresh = pushed if op.view or op.multi_view else unshared(pushed, tangents)
            attach(out, fitted(fresh, out))
    remember_tangents(op, outs, tangents)
    return result


def remember_tangents(op: Op, outs: Any, tangents: list[Any]) -> None:
    """Keep with the node what its saved values move along: a recorded backward reads it."""
    node = next((out.node for out in outs if out.node is not None), None)
    if node is None or node.is_leaf:
        return
    level = LEVELS[-1]
    kept = [*tangents, *[tangent_of(out) for out in outs]]
    node.duals = {i: Dual(t, level) for i, t in enumerate(kept) if t is not None}


def with_tangent(t: Any, dual: Dual | None) -> None:
    if dual is not None and dual.level.open:
        t.__dict__["_dual"] = dual
        t.special = True


CLASSES.with_tangent = with_tangent


def pushed_forward(op: Op, tensors: Any, tangents: Any, outs: Any, attrs: Any) -> tuple[Any, ...]:
    """The tangents of the outputs."""
    if op.jvp is None:
        raise NotImplementedError(
            f"Trying to use forward AD with {op.name} that does not support it because it has not "
            "been implemented yet."
        )
    pushed = op.jvp(RECORDED, tensors, tangents, outs, attrs)
    return (pushed,) if op.single else tuple(pushed)


def unshared(tangent: Any, others: list[Any]) -> Any:
    """A tangent that may be written to: a rule may hand on the very tensor that it was given."""
    array = getattr(tangent, "array", None)
    for t in others:
        if array is not None and t is not None and np.may_share_memory(array, t.array):
            return tangent.clone()
    return tangent


def fitted(tangent: Any, out: Any) -> Any:
    """A tangent in the shape and dtype of the value that it belongs to."""
    if not isinstance(tangent, TensorBase):
        tangent = RECORDED.full_like(out.detach(), tangent)
    if tangent.array.dtype != out.array.dtype:
        if tangent.array.dtype.kind == "c" and out.array.dtype.kind != "c":
            tangent = RECORDED.real_part(tangent)
        tangent = RECORDED.cast(tangent, out.array.dtype)
    if tangent.array.shape != out.array.shape:
        tangent = RECORDED.expand(tangent, out.array.shape).clone()
    return tangent


def before_write(op: Op, tensors: Any, attrs: Any) -> Any:
    """The tangent that the target of an in-place op will have."""
    target = tensors[0]
    plain = (bare(target).clone(), *[bare(t) for t in tensors[1:]])
    out = apply(op, plain, attrs)
    if not op.differentiable:
        return None
    tangents = [tangent_of(t) for t in tensors]
    pushed = pushed_forward(op, plain, tangents, (out,), attrs)[0]
    return fitted(unshared(pushed, tangents), target) if pushed is not None else None


def after_write(target: Any, tangent: Any) -> None:
    """Store a tangent where the views of the target see it too."""
    own = tangent_of(target)
    if own is None:
        if tangent is None:
            return
        own = zero_tangent(target)
    if tangent is None:
        own.zero_()
    else:
        own.copy_(tangent)


def zero_tangent(target: Any) -> Any:
    """Make a tensor dual, with a tangent of zero; the base of a view becomes dual with it."""
    view = target.view_of
    if view is None:
        attach(target, wrap(np.zeros_like(target.array)))
        return tangent_of(target)
    base = view.base
    whole = tangent_of(base)
    if whole is None:
        whole = wrap(np.zeros_like(base.array))
        attach(base, whole)
    item = target.array.itemsize
    offset = (address(target.array) - address(base.array)) // item
    strides = tuple(s // item for s in target.array.strides)
    attach(target, whole.as_strided(target.array.shape, strides, offset))
    return tangent_of(target)
