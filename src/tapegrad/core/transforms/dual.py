"""Forward mode: the dual interpreter. A dual tensor carries a tangent while its level is open.

Dispatch sends every op with a dual among its tensors here (they are `_special`): the op runs on the
plain tensors, and its forward-mode rule gives the tangents of the results. Rules run on tensors
(`RECORDED`), so that a tape that is being recorded sees the tangents too.

Levels nest: a tensor has a chain of tangents, the innermost level's first, and a tangent may have
tangents of the outer levels. A tangent may also be batched where its tensor is not (`jacfwd` pushes
all directions at once); a batched tensor is never dual itself, what lies under it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base import INTERPRETED, ORDINARY, TensorBase, wrap
from ..devices import xp_of
from ..dispatch import apply
from ..host_arrays import host
from ..late_bound import FORWARD_MODE, INTERPRETERS, TENSOR, VIEWS
from ..modes import MODES
from ..node import same_plain
from ..op import Op
from ..python_dispatch import dispatches
from ..record import FLOATS
from ..rule_functions import RECORDED
from .batched import above, batch_of, entered, grounded, is_batched, lift, mirrored, physical_array
from .levels import STACK, TANGENTS, Level


class Dual:
    """The tangent of a dual tensor at a level; `below`: its Dual of an outer level.

    `source`: for a view, the tangent of its base that its own looks into.
    """

    __slots__ = ("below", "level", "source", "tangent")

    def __init__(
        self, tangent: Any, level: Level, below: Dual | None = None, source: Any = None
    ) -> None:
        self.tangent = tangent
        self.level = level
        self.below = below
        self.source = source

    def __reduce__(self) -> Any:  # compiled, a class is made with all of its arguments
        return Dual, (self.tangent, self.level, self.below, self.source)


def current() -> Level | None:
    """The innermost open level with tangents."""
    return next((v for v in reversed(STACK.levels) if v.kind in ("jvp", "dual")), None)


def alive(found: Dual | None) -> Dual | None:
    """The tangents of a chain from its innermost open level on; closed levels are skipped."""
    while found is not None and not found.level.open:
        found = found.below
    return found


def dual_of(t: Any) -> Dual | None:
    """The tangents of a tensor at open levels, innermost first."""
    if not isinstance(t, TensorBase) or t._special != 1:
        return None
    found = t.__dict__.get("_dual")
    if found is None:
        return None
    if not found.level.open:
        found = alive(found)
        set_dual(t, found)
    return found


def set_dual(t: Any, found: Dual | None) -> None:
    if found is None:
        fields = t.__dict__
        fields.pop("_dual", None)
        if type(t) is TENSOR.cls and type(t._array) is np.ndarray and "_batch" not in fields:
            t._special = ORDINARY
        else:
            t._special = INTERPRETERS.special_without_tangent(t)
    else:
        t.__dict__["_dual"] = found
        t._special = INTERPRETED


def tangent_of(t: Any, level: Level | None = None) -> Any:
    """The tangent of a tensor at a level (the innermost that is open), or None."""
    if not STACK.forward:
        return None
    level = level or current()
    batch = batch_of(t) if is_batched(t) else None
    if batch is not None:
        found = tangent_of(batch.physical, level)
        return None if found is None else entered(found, batch.level)
    if t._view_of is not None and TANGENTS:
        adopt(t)
    dual = dual_of(t)
    while dual is not None and dual.level is not level:
        dual = alive(dual.below)
    return None if dual is None else dual.tangent


def attach(t: Any, tangent: Any, level: Level | None = None, source: Any = None) -> None:
    """Give a tensor a tangent at a level; it may have some at other levels already."""
    level = level or current()
    assert level is not None
    set_dual(t, inserted(dual_of(t), Dual(tangent, level, None, source)))


def inserted(found: Dual | None, new: Dual) -> Dual:
    """A chain of tangents with `new` inserted or replaced at its level; innermost first."""
    if found is not None and found.level.number > new.level.number:
        rest = inserted(alive(found.below), new)
        return Dual(found.tangent, found.level, rest, found.source)
    if found is not None and found.level is new.level:
        found = alive(found.below)
    return Dual(new.tangent, new.level, found, new.source)


def made_dual(t: Any, tangent: Any, level: Level) -> Any:
    """A view of a tensor that carries a tangent."""
    if is_batched(t):
        batch = batch_of(t)
        return mirrored(made_dual(batch.physical, lift(tangent, batch.level), level), batch)
    made = t.view_as(t)
    array = grounded(tangent)[0]._array
    if array.shape == t._array.shape and not lies_alike(t, tangent, array):
        tangent = laid_out_as(t._array, (), array.dtype).copy_(tangent)
    attach(made, tangent, level)
    return made


def forget(t: Any) -> None:
    """Take the tangents at all open levels off a tensor."""
    if dual_of(t) is not None:
        set_dual(t, None)


def lies_alike(t: Any, tangent: Any, array: Any) -> bool:
    """Whether a tangent can be taken as it is: what a view of `t` sees, a view of it sees too."""
    if t.is_conj() != tangent.is_conj() or t.is_neg() != tangent.is_neg():
        return False
    return bool(array.strides == t._array.strides)


def bare(t: Any, level: Level | None = None) -> Any:
    """The tensor without its tangent at a level: the same memory and history."""
    if is_batched(t):
        batch = batch_of(t)
        return mirrored(bare(batch.physical, level), batch)
    found = dual_of(t)
    if found is None or found.level is not (level or current()):
        return t
    p = same_tensor(t)
    set_dual(p, alive(found.below))
    return p


class stripped:
    """For a block, tensors without their tangents at a level: the very same tensors."""

    def __init__(self, tensors: Any, level: Level | None) -> None:
        self.tensors = () if level is None else tensors
        self.level = level

    def __enter__(self) -> None:
        self.taken: list[tuple[Any, Any]] = []
        for t in self.tensors:
            if isinstance(t, TensorBase):
                if t._special == INTERPRETED:
                    t, _ = grounded(t)
                    self.take(t)
                if t._view_of is not None:
                    self.take(t._view_of.base)  # a view would ask it

    def take(self, t: Any) -> None:
        found = dual_of(t)
        if found is not None and found.level is self.level:
            set_dual(t, alive(found.below))
            self.taken.append((t, found))

    def __exit__(self, *error: object) -> None:
        for t, found in self.taken:
            below = dual_of(t)
            if below is found.below:
                set_dual(t, found)
            else:
                attach(t, found.tangent, self.level, found.source)


def same_tensor(t: Any) -> Any:
    """Another tensor with the memory and the history of `t`, and no tangents."""
    if type(t) is TENSOR.cls and not dispatches(t):
        return same_plain(t)
    from ..subclass import as_subclass, same_class, takes_part

    if dispatches(t):
        p = same_class(t)
        set_dual(p, None)
        return p
    p = same_plain(t)
    return as_subclass(p, type(t)) if takes_part(type(t)) else p


def has_dual(tensors: tuple[Any, ...]) -> bool:
    if not TANGENTS or not STACK.forward or MODES.inference:
        return False
    return any([dual_of(t) is not None for t in tensors])


def innermost(tensors: tuple[Any, ...]) -> Level:
    """The innermost level at which one of the tensors is dual."""
    level: Any = None
    for t in tensors:
        found = dual_of(t)
        if found is not None and (level is None or found.level.number > level.number):
            level = found.level
    return level  # type: ignore[no-any-return]


def push(op: Op, tensors: Any, attrs: Any, watch: Any) -> Any:
    """`apply` with duals among the tensors."""
    level = innermost(tensors)
    if level.expansion is not None:
        return level.expansion.push(op, tensors, attrs, watch)
    tangents = [tangent_of(t, level) if isinstance(t, TensorBase) else None for t in tensors]
    with stripped(tensors, level):
        result = apply(op, tensors, attrs, watch)
        if not op.differentiable:
            return result
        outs = (result,) if op.single else tuple(result)
        tangents_out = pushed_forward(op, tensors, tangents, outs, attrs)
    for i, (out, pushed) in enumerate(zip(outs, tangents_out, strict=True)):
        if i not in op.plain_outs and pushed is not None and out._array.dtype.kind in FLOATS:
            fresh = pushed if op.view or op.multi_view else unshared(pushed, tangents)
            attach(out, fitted(fresh, out), level, source_of(out, level))
    remember_tangents(outs, tangents, level)
    return result


def source_of(out: Any, level: Level) -> Any:
    """For a view, the tangent of its base at a level."""
    return None if out._view_of is None else tangent_of(out._view_of.base, level)


def remember_tangents(outs: Any, tangents: list[Any], level: Level) -> None:
    """Keep the tangents of a node's saved values, for a backward pass that is recorded."""
    node = next((out._node for out in outs if out._node is not None), None)
    if node is None or node._is_leaf:
        return
    below = node._duals or {}
    kept = [*tangents, *[tangent_of(out, level) for out in outs]]
    node._duals = {
        i: below.get(i) if t is None else Dual(t, level, below.get(i))
        for i, t in enumerate(kept)
        if t is not None or i in below
    }


def with_tangent(t: Any, dual: Dual | None) -> None:
    found = alive(dual)
    if found is not None:
        set_dual(t, found)


FORWARD_MODE.with_tangent = with_tangent


def pushed_forward(op: Op, tensors: Any, tangents: Any, outs: Any, attrs: Any) -> tuple[Any, ...]:
    """The tangents of an op's outputs, by its forward-mode rule."""
    if op.jvp is None:
        raise NotImplementedError(
            f"Trying to use forward AD with {op.name} that does not support it because it has not "
            "been implemented yet."
        )
    pushed = op.jvp(RECORDED, tensors, tangents, outs, attrs)
    return (pushed,) if op.single else tuple(pushed)


def unshared(tangent: Any, others: list[Any]) -> Any:
    """A tangent that may be written to: a rule may return the very tensor that it was given."""
    if isinstance(tangent, TensorBase):
        array = physical_array(tangent)
        owns = getattr(array, "base", array) is None  # then nothing older is a part of it
        for t in others:
            if t is not None:
                other = physical_array(t)
                if other is array or (not owns and np.may_share_memory(array, other)):
                    return tangent.clone()  # type: ignore[attr-defined]
    return tangent


def fitted(tangent: Any, out: Any) -> Any:
    """A tangent broadcast and cast to the shape and dtype of its value."""
    if not isinstance(tangent, TensorBase):
        tangent = RECORDED.full_like(out.detach(), tangent)
    if tangent._array.dtype != out._array.dtype:
        if tangent._array.dtype.kind == "c" and out._array.dtype.kind != "c":
            tangent = RECORDED.real_part(tangent)
        tangent = RECORDED.cast(tangent, out._array.dtype)
    if tangent._array.shape != out._array.shape:
        tangent = RECORDED.expand(tangent, out._array.shape).clone()
    return tangent


def before_write(op: Op, tensors: Any, attrs: Any) -> Any:
    """The value, with its tangents, that the target of an in-place op will have."""
    return apply(op, (tensors[0].clone(), *tensors[1:]), attrs)


def after_write(target: Any, value: Any) -> None:
    """Store the tangents of a new value where the views of the target see them too."""
    if value is not None and value._node is not None and value._node._duals is not None:
        # What the node of the write saved moves along too, for a recorded backward.
        view = target._view_of
        written = target._node if view is None else view.base._node.inner
        written._duals = value._node._duals
    moved = dual_of(value)
    levels = set()
    while moved is not None:
        levels.add(moved.level)
        store(target, moved.level, moved.tangent)
        moved = alive(moved.below)
    own = dual_of(target)
    while own is not None:
        if own.level not in levels:
            unborrowed(target, own.level, own.tangent).zero_()
        own = alive(own.below)


def store(target: Any, level: Level, tangent: Any) -> None:
    own = tangent_of(target, level)
    tangent = fitted(tangent, target)
    if own is None:
        begin(target, level, tangent)
        return
    wanted = grounded(tangent)[1]
    if not set(wanted) <= set(grounded(own)[1]):
        own = batch_tangent(target, level, wanted)
    unborrowed(target, level, own).copy_(tangent)


def unborrowed(target: Any, level: Level, own: Any) -> Any:
    """The tangent of a tensor that is about to be written, after a copy if others have it too."""
    view = target._view_of
    owner = target if view is None else view.base
    found = at_level(dual_of(owner), level)
    if found is None or "_borrowed" not in found.tangent.__dict__:
        return own
    attach(owner, found.tangent.clone(), level)
    return tangent_of(target, level)


def begin(target: Any, level: Level, tangent: Any) -> None:
    """Give a tensor a first tangent; the base of a view becomes dual with it."""
    owner = target if target._view_of is None else target._view_of.base
    physical, batches = grounded(tangent)
    array = owner._array
    front = len(batches)
    shape, strides = physical._array.shape[front:], physical._array.strides[front:]
    whole = target._array.shape == array.shape and target._array.strides == array.strides
    if whole and shape == array.shape and strides == array.strides:
        attach(owner, tangent, level)
    else:
        batch_tangent(target, level, batches).copy_(tangent)


def batch_tangent(target: Any, level: Level, batches: list[Level]) -> Any:
    """Give a tensor a tangent of its own that is batched at some levels, with the values so far.

    It is zero where there was none. Where a base is dual, or nothing was, a view shows that of its
    base, which has to be written with it.
    """
    view = target._view_of
    owner = target
    if view is not None and (
        tangent_of(target, level) is None or has_level(dual_of(view.base), level)
    ):
        owner = view.base
    before = tangent_of(owner, level)
    levels = sorted({*batches, *grounded(before)[1]}, key=lambda v: v.number)
    made = above(laid_out_as(owner._array, tuple([v.size for v in levels])), levels)
    if before is not None:
        made.copy_(before)
    attach(owner, made, level)
    return tangent_of(target, level)


def laid_out_as(array: Any, front: tuple[int, ...], dtype: Any = None) -> Any:
    """Zeros, each entry of which has the memory order of an array."""
    if dtype is not None and dtype != array.dtype:
        array = np.empty_like(array, dtype)
    steps = zip(array.shape, array.strides, strict=True)
    reach = (sum([(n - 1) * s for n, s in steps]) if array.size else 0) + array.itemsize
    xp = xp_of(array)
    memory = xp.zeros((*front, reach), np.uint8)
    shape, strides = (*front, *array.shape), (*memory.strides[: len(front)], *array.strides)
    if 0 in shape:
        return wrap(xp.zeros(shape, array.dtype))
    if xp is not host:
        return wrap(xp.ndarray(shape, array.dtype, memory.data, strides))
    return wrap(np.ndarray(shape, array.dtype, memory, 0, strides))


def adopt(target: Any) -> None:
    """Give a view the tangents that its base got since, by a write to it or to another view."""
    found = dual_of(target._view_of.base)
    while found is not None:
        own = at_level(dual_of(target), found.level)
        if own is None or (own.source is not None and own.source is not found.tangent):
            whole = matching(target._view_of.base, found)
            seen = VIEWS.seen_from(target, whole)
            attach(target, seen, found.level, whole)
        found = alive(found.below)


def matching(base: Any, found: Dual) -> Any:
    """The tangent of a base, laid out in memory as the base is."""
    physical, batches = grounded(found.tangent)
    if physical._array.strides[physical._array.ndim - base._array.ndim :] == base._array.strides:
        return found.tangent
    made = above(laid_out_as(base._array, tuple([v.size for v in batches])), batches)
    found.tangent = made.copy_(found.tangent)
    return found.tangent


def at_level(found: Dual | None, level: Level) -> Dual | None:
    while found is not None and found.level is not level:
        found = alive(found.below)
    return found


def has_level(found: Dual | None, level: Level) -> bool:
    return at_level(found, level) is not None


def transform(target: Any, op: Op, attrs: Any) -> None:
    """Apply a view op to the tangents of a tensor that became a view of itself."""
    found = dual_of(target)
    while found is not None:
        tangent = unborrowed(target, found.level, found.tangent)
        found = at_level(dual_of(target), found.level)
        assert found is not None
        found.tangent = apply(op, (tangent,), attrs)
        found = alive(found.below)
