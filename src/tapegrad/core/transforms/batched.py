"""vmap: tensors with a batch dimension that the function they are passed to does not see.

A batched tensor has a level, and a *physical* tensor with the batch in front; its `_array` knows
shape, dtype and strides of one entry, but has no values. Dispatch sends every op with such a tensor
here (they are `_special`): the op's batching rule runs on the physical tensors, of which the tape
records what it needs. So `vmap(grad(f))` differentiates one graph, not one per entry.

Levels nest: the physical tensor may be batched at an outer level, or have tangents (dual.py).
"""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np

from ..array_kind import out_of_sight
from ..base import INTERPRETED, STATE, TensorBase, wrap
from ..dispatch import common_dtype
from ..late_bound import GPU
from ..modes import MODES
from ..op import Op
from ..record import FLOATS
from ..rule_functions import RECORDED
from .entry import Entry, escaped
from .entry import no_values as no_values
from .entry import refusal as refusal
from .levels import BATCHES, STACK, Level

CONTROL_FLOW = (
    "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We "
    "don't support that yet, please file an issue at "
    "https://github.com/pytorch/pytorch/issues ."
)


def entry_of(physical: Any) -> Entry:
    array = physical._array
    return Entry(array.dtype, array.shape[1:], array.strides[1:])


class Batch:
    """The data of a batched tensor: the physical tensor and its level."""

    __slots__ = ("before", "level", "physical")

    def __init__(self, level: Level, physical: Any) -> None:
        self.level = level
        self.physical = physical
        self.before: Any = None  # the array that the tensor had before (batched_widen.py)


def batched(physical: Any, level: Level) -> Any:
    """A tensor whose dimension 0 is the batch of a level, seen as one entry."""
    t = wrap(entry_of(physical))
    t._special = INTERPRETED
    t.__dict__["_batch"] = Batch(level, physical)
    return t


def is_batched(t: Any) -> bool:
    return isinstance(t, TensorBase) and t._special == 1 and "_batch" in t.__dict__


def batch_of(t: Any) -> Batch:
    """Level and physical tensor of a batched tensor."""
    found: Batch = t.__dict__["_batch"]
    if not found.level.open:
        raise escaped()
    return found


def requires_grad(t: Any) -> bool:
    """Whether a `grad` inside of the vmap has its tensors on the tape."""
    batch = t.__dict__["_batch"]
    inside = [v for v in STACK.levels if v.kind == "grad" and v.number > batch.level.number]
    return bool(inside) and batch.physical.requires_grad


def is_leaf(t: Any) -> bool:
    return not requires_grad(t) or batch_of(t).physical.is_leaf


def grad_fn(t: Any) -> Any:
    return batch_of(t).physical.grad_fn if requires_grad(t) else None


def register_hook(t: Any, hook: Any) -> Any:
    """Call `hook` with gradients that are batched as the tensor is."""
    batch = batch_of(t)

    def below_level(grad: Any) -> Any:
        found = hook(batched(grad, batch.level))
        return None if found is None else lift(found, batch.level)

    return batch.physical.register_hook(below_level)


def spell(t: Any) -> str:
    """The `repr` of a batched tensor: the physical tensor, indented."""
    batch = t.__dict__["_batch"]
    value = textwrap.indent(repr(batch.physical), "    ")
    return f"BatchedTensor(lvl={batch.level.number}, bdim=0, value=\n{value}\n)"


def mirrored(physical: Any, batch: Batch) -> Any:
    """A batched tensor around another physical tensor, at the level of `batch`."""
    return batched(physical, batch.level)


def has_batched(tensors: Any) -> bool:
    return bool(BATCHES) and any([is_batched(t) for t in tensors])


def innermost(tensors: Any) -> Level:
    """The innermost level at which one of the tensors is batched."""
    level: Any = None
    for t in tensors:
        if is_batched(t):
            found = batch_of(t).level
            if level is None or found.number > level.number:
                level = found
    return level  # type: ignore[no-any-return]


def physical_array(t: Any) -> Any:
    """The array that really holds the values, the batches in front: for checks of values."""
    if not t._special:
        return t._array
    while is_batched(t):
        t = batch_of(t).physical
    return t._array


def known_values(t: Any) -> Any:
    """The values for a check, none on a GPU (to look at them would be to wait for it) and on meta.

    PyTorch checks those while it computes with them, and says so later.
    """
    array = physical_array(t)
    return np.empty(0, array.dtype) if out_of_sight(array) else array


def left_to_device(t: Any, low: int, high: int, ignored: int | None = None) -> bool:
    """Whether indices cannot be read now; on a GPU the range is then checked by a kernel."""
    array = physical_array(t)
    if type(array) is STATE.device_type and GPU.watch_range is not None:
        GPU.watch_range(array, low, high, ignored)
    return out_of_sight(array)


# ---------------------------------------------------------------------- in and out of a level


def physical_at(t: Any, level: Level) -> tuple[Any, bool]:
    """The tensor that a level's function does not see, and whether dimension 0 is the batch."""
    if is_batched(t):
        batch = batch_of(t)
        if batch.level is level:
            return batch.physical, True
        # Batched further in than the level, or further out, with a tangent that is batched there.
        physical, found = physical_at(batch.physical, level)
        return (mirrored(swapped(physical), batch), True) if found else (t, False)
    if isinstance(t, TensorBase) and t._special == 1 and "_dual" in t.__dict__:
        return lifted_dual(t, level)
    return t, False


def lifted_dual(t: Any, level: Level) -> tuple[Any, bool]:
    """A dual tensor whose tangents are batched at a level: all of it with the batch in front."""
    from .dual import alive, attach, dual_of, same_tensor

    chain: list[tuple[Level, Any, bool]] = []
    found = dual_of(t)
    while found is not None:
        tangent, in_front = physical_at(found.tangent, level)
        chain.append((found.level, tangent, in_front))
        found = alive(found.below)
    if not any([in_front for _, _, in_front in chain]):
        return t, False
    whole = repeated(same_tensor(t), level.size)
    for at, tangent, in_front in chain[::-1]:
        attach(whole, tangent if in_front else repeated(tangent, level.size), at)
    return whole, True


def repeated(t: Any, size: int) -> Any:
    """A tensor with a batch in front, all entries the same memory."""
    return RECORDED.expand(RECORDED.unsqueeze(t, 0), (size, *t._array.shape))


def lift(t: Any, level: Level) -> Any:
    """`physical_at`, with the batch in front in any case: repeated where there was none."""
    physical, found = physical_at(t, level)
    return physical if found else repeated(physical, level.size)


def swapped(t: Any) -> Any:
    return RECORDED.transpose(t, 0, 1)


def below(t: Any, levels: list[Level]) -> Any:
    """A tensor as the outermost of some levels were entered: their batches in front, in order."""
    for level in reversed(levels):
        t = lift(t, level)
    return t


def above(t: Any, levels: Any) -> Any:
    """Undo `below` or `grounded`: dimensions in front become batches again."""
    for level in levels:
        t = entered(t, level)
    return t


def grounded(t: Any) -> tuple[Any, list[Level]]:
    """The tensor below all batches, and the levels at which `t` is batched, outermost first."""
    levels: list[Level] = []
    while is_batched(t):
        batch = batch_of(t)
        levels.insert(0, batch.level)
        t = batch.physical
    return t, levels


def entered(t: Any, level: Level) -> Any:
    """Dimension 0 as the batch of a level; batches of levels further in stay around it."""
    if is_batched(t):
        batch = batch_of(t)
        if batch.level.number > level.number:
            return batched(entered(swapped(batch.physical), level), batch.level)
    return batched(t, level)


# ---------------------------------------------------------------------- ops


def run(op: Op, tensors: Any, attrs: Any, watch: Any) -> Any:
    """`apply` with batched tensors among the arguments: the op's batching rule, one level down."""
    level = innermost(tensors)
    rule = op.batch
    if rule is None:
        raise unruly(op)
    if op.dtype_rule:
        tensors = promoted(op, tensors)
    pairs = [physical_at(t, level) for t in tensors]
    out = rule(
        RECORDED, level.size, tuple([p for p, _ in pairs]), tuple([b for _, b in pairs]), attrs
    )
    if op.single:
        return batched(out, level)
    outs = tuple([batched(each, level) for each in out])
    return outs if op.result is None else op.result(outs)


def promoted(op: Op, tensors: Any) -> Any:
    """The tensors in their common dtype, as it follows from the shapes of entries.

    A number is weaker than a tensor without dimensions, and that than one with; below the level all
    of them have one more.
    """
    if len(tensors) == 1:
        return tensors
    kinds = {t._array.dtype for t in tensors if isinstance(t, TensorBase)}
    if len(kinds) == 1 and next(iter(kinds)).kind in FLOATS:
        return tensors
    dtype = common_dtype(op, [stand_in(t) for t in tensors])
    return tuple(
        [
            RECORDED.cast(t, dtype) if isinstance(t, TensorBase) and t._array.dtype != dtype else t
            for t in tensors
        ]
    )


def stand_in(t: Any) -> Any:
    """An empty array that takes part in type promotion as one entry does (dtype, 0-d or not)."""
    if not isinstance(t, TensorBase):
        return t
    return np.empty((1,) if t._array.ndim else (), t._array.dtype)


def unruly(op: Op) -> Exception:
    """The error for an op without a batching rule."""
    name = op.aten_name()
    return dynamic_shape(name) if op.dynamic_shape else no_rule(name)


def dynamic_shape(name: str) -> Exception:
    return refusal(
        "vmap: We do not support batching operators that can output dynamic shape. Attempted to "
        f"vmap over aten::{name}. Please file an issue at "
        "https://github.com/pytorch/pytorch/issues if you need this feature."
    )


def no_rule(name: str) -> Exception:
    return refusal(
        f"Batching rule not implemented for aten::{name}. We could not generate a fallback."
    )


def write(op: Op, tensors: Any, attrs: Any, watch: Any) -> Any:
    """The in-place form of an op, with batched tensors among its arguments."""
    target = tensors[0]
    level = innermost(tensors)
    physical, found = physical_at(target, level)
    if not found:
        from .batched_widen import widen

        if not widen(target, level):
            raise narrow_target(op, target, level)
        physical = batch_of(target).physical
    if MODES.records and any([on_tape(t) for t in tensors]):
        # A rule may save what is overwritten now.
        tensors = (target.clone(), *tensors[1:])
    value = run(op, tensors, attrs, watch)
    have, want = target._array.shape, value._array.shape
    if want != have:
        ones = (1,) * (len(want) - len(have))
        raise wrong_shape((level.size, *ones, *have), (level.size, *want))
    physical.copy_(batch_of(value).physical)
    return target


def narrow_target(op: Op, target: Any, level: Level) -> Exception:
    """The error for writing a batched value into a tensor without that batch dimension."""
    shape = target._array.shape
    if op.vmap_write is None:
        return wrong_shape(shape, (level.size, *shape))
    if op.vmap_write:
        return narrow(op.vmap_write)
    return narrow(f"aten::{op.aten_name()}_", f"at level {level.number}")


def narrow(function: str, where: str = "in a vmap") -> Exception:
    return RuntimeError(
        f"vmap: {function}(self, *extra_args) is not possible because there exists a Tensor "
        "`other` in extra_args that has more elements than `self`. This happened due to `other` "
        f"being vmapped over but `self` not being vmapped over {where}. Please try to use "
        f"out-of-place operators instead of {function}. If said operator is being called inside "
        "the PyTorch framework, please file a bug report instead."
    )


def wrong_shape(have: Any, want: Any) -> Exception:
    return RuntimeError(
        f"output with shape {list(have)} doesn't match the broadcast shape {list(want)}"
    )


def on_tape(t: Any) -> bool:
    while is_batched(t):
        t = batch_of(t).physical
    return isinstance(t, TensorBase) and bool(t.requires_grad)  # type: ignore[attr-defined]


def through(function: Any, t: Any) -> Any:
    """`function(t)` for one that keeps the shape: it is applied to the physical tensor."""
    batch = batch_of(t)
    return batched(function(batch.physical), batch.level)


def replace(t: Any, other: Any) -> None:
    """Make a batched tensor refer to the data of another one, in place."""
    t._array = other._array
    t.__dict__["_batch"] = other.__dict__["_batch"]
