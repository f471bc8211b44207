"""Tensor subclasses: ops on them give the subclass back, or ask its `__torch_function__`."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from ..errors import evidence
from . import devices
from .base import INTERPRETED, STATE, TensorBase, blank, special_by, wrap
from .dispatch import apply, run_on_arrays
from .modes import MODES
from .op import REGISTRY
from .transforms import batched, dual
from .upward import INTERPRETERS, TENSOR


class DisableTorchFunctionSubclass:
    """Inside, tensors of subclasses are treated as plain tensors."""

    def __enter__(self) -> None:
        self.before = MODES.subclasses_off
        MODES.subclasses_off = True

    def __exit__(self, *error: object) -> None:
        MODES.subclasses_off = self.before


def overridden(op: Any, tensors: Any, attrs: Any, watch: Any) -> Any:
    """An op with a tensor of a subclass, or a batched or dual one, among its arguments."""
    # Also outside of every vmap, where one may have escaped to.
    if any([batched.is_batched(t) for t in tensors]):
        return batched.run(op, tensors, attrs, watch)
    if dual.has_dual(tensors):
        return dual.push(op, tensors, attrs, watch)
    if STATE.device_type is not None and only_on_device(tensors):
        return run_on_arrays(op, tensors, attrs, watch, True)
    if STATE.meta_type is not None and only_on_meta(tensors):
        return below(op, tensors, attrs, watch)
    if MODES.subclasses_off:
        return below(op, tuple(map(plain, tensors)), attrs, watch)
    types = tuple({type(t): None for t in tensors if isinstance(t, TensorBase) and t.special})
    # The most derived class answers first.
    cls = min(types, key=lambda c: -len(c.__mro__))
    if not overrides(cls):
        return convert(below(op, tuple(map(plain, tensors)), attrs, watch), cls)
    arguments = (tuple(tensors), *attrs) if op.variadic else (*tensors, *attrs)
    return cls.__torch_function__(function_of(op), types, arguments, {})  # type: ignore[attr-defined]


# What public functions call the attributes of their ops, where the names differ.
SPOKEN = {"low": "min", "high": "max", "offset": "storage_offset", "dims": "dim"}


@functools.cache
def function_of(op: Any) -> Any:
    """What `__torch_function__` is told to call with the arguments of an op.

    That is the public function, if it takes them as they are; else one that runs the op.
    """
    names = [SPOKEN.get(name, name) for name in (*op.tensors, *op.attrs)]
    taken: list[str] = []
    if op.public is not None:
        found = inspect.signature(op.public).parameters.values()
        taken = [p.name for p in found if p.kind is p.POSITIONAL_OR_KEYWORD]
    # `reduction` is a word for an op and a number for its function.
    if taken[: len(names)] == names and "reduction" not in names:
        return op.public

    def function(*arguments: Any) -> Any:
        width = len(arguments) - len(op.attrs)
        tensors = arguments[0] if op.variadic else arguments[:width]
        return below(op, tuple(map(plain, tensors)), arguments[width:], ())

    function.__name__ = function.__qualname__ = evidence.public_name(op.name)
    function.runs = op.name  # type: ignore[attr-defined]
    return function


def op_name(function: Any) -> str:
    """Which op `__torch_function__` is asked about: for the classes of our own that answer it."""
    found: str = getattr(function, "runs", function.__name__)
    return found


def only_on_device(tensors: Any) -> bool:
    """Whether what makes these tensors special is that they are on a GPU."""
    found = False
    for t in tensors:
        if isinstance(t, TensorBase) and t.special:
            if type(t.array) is not STATE.device_type or takes_part(type(t)):
                return False
            found = True
    return found


def only_on_meta(tensors: Any) -> bool:
    """Whether what makes these tensors special is that they have no values."""
    found = [t for t in tensors if isinstance(t, TensorBase) and t.special]
    return all([type(t.array) is STATE.meta_type and not takes_part(type(t)) for t in found])


def below(op: Any, tensors: Any, attrs: Any, watch: Any) -> Any:
    """`apply` on tensors that are no subclass any more, wherever they are."""
    if STATE.device_type is not None and devices.has_device(tensors):
        return run_on_arrays(op, tensors, attrs, watch, True)
    if STATE.meta_type is not None:
        from . import meta

        if meta.has_meta(tensors):
            return meta.run(op, tensors, attrs, watch)
    return apply(op, tensors, attrs, watch)


def stays_special(t: Any) -> int:
    """What `special` is for a tensor without its tangent."""
    return 1 if "_batch" in t.__dict__ or takes_part(type(t)) else special_by(t.array)


def overrides(cls: type) -> bool:
    """Whether a class has a `__torch_function__` of its own."""
    own: Any = getattr(cls.__torch_function__, "__func__", cls.__torch_function__)  # type: ignore[attr-defined]
    return own is not TENSOR.cls.__torch_function__.__func__


def default_torch_function(cls: type, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """Run `func` on plain tensors and give the results the class."""
    if not all(issubclass(cls, t) for t in types):
        return NotImplemented
    with DisableTorchFunctionSubclass():
        result = func(*args, **(kwargs or {}))
    return convert(result, cls)


def plain(t: Any) -> Any:
    """A plain tensor with the memory and the history of `t`."""
    return same_plain(t) if isinstance(t, TensorBase) and t.special else t


def same_plain(t: Any) -> Any:
    """Another tensor, of no class of its own, with the memory and the history of `t`."""
    from ..autograd.node import accumulate_node

    p = wrap(t.array)
    p.wants_grad = t.wants_grad
    p.node = accumulate_node(t) if t.wants_grad and t.node is None else t.node
    p.slot = t.slot
    p.cell = t.version_cell()
    p.view_of = None if t.view_of is None else t.view_of.twin()
    p.cut = t.cut
    return p


def convert(result: Any, cls: type) -> Any:
    """`result` with every plain tensor in it as a tensor of `cls`."""
    if cls is TENSOR.cls:
        return result
    if isinstance(result, TensorBase):
        return result if isinstance(result, cls) else as_subclass(result, cls)
    if isinstance(result, (tuple, list)):
        make = getattr(result, "_make", type(result))  # a namedtuple takes its fields one by one
        return make([convert(r, cls) for r in result])
    return result


def takes_part(cls: Any) -> bool:
    """Whether ops on tensors of this class give that class (or ask it)."""
    return cls is not TENSOR.cls and bool(cls._takes_part)


def as_subclass(t: Any, cls: type) -> Any:
    """The same memory as a tensor of `cls`, with one more step of history where there is one."""
    if t.wants_grad and MODES.records:
        t = apply(REGISTRY["alias"], (plain(t),))
    made = blank(cls)
    made.array = t.array
    made.special = INTERPRETED if takes_part(cls) else special_by(t.array)
    made.wants_grad = t.wants_grad
    made.node = t.node
    made.slot = t.slot
    made.cell = t.version_cell()
    made.view_of = t.view_of
    made.cut = t.cut
    return made


INTERPRETERS.run = overridden
