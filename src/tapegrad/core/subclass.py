"""Tensor subclasses: ops on them give the subclass back, or ask its `__torch_function__`."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Final

from ..errors import evidence
from . import devices, lazy_conj
from .base import INTERPRETED, STATE, WITH_BITS, TensorBase, blank, special_by
from .dispatch import apply, run_on_arrays
from .function_modes import watch_class
from .late_bound import DISPATCHED, INTERPRETERS, TENSOR
from .modes import MODES
from .node import same_plain, share_history
from .op import REGISTRY
from .python_dispatch import ACTIVE, ask_about, class_dispatches, dispatches
from .transforms import batched, dual


class DisableTorchFunctionSubclass:
    """Inside, tensors of subclasses are treated as plain tensors.

    >>> class Loud(Tensor):
    ...     @classmethod
    ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
    ...         print("called:", func.__name__)
    ...         return super().__torch_function__(func, types, args, kwargs or {})
    >>> x = ones(2).as_subclass(Loud)
    >>> y = x.add(1)
    called: add
    >>> with torch.DisableTorchFunctionSubclass():
    ...     y = x.add(1)
    """

    def __enter__(self) -> None:
        self.before = MODES.subclasses_off
        MODES.subclasses_off = True

    def __exit__(self, *error: object) -> None:
        MODES.subclasses_off = self.before


# The class of tensors that consist of others, which may be batched or dual (sparse tensors): an op
# asks it first, or the batches and tangents of the parts would be lost.
COMPOSED: Final[list[Any]] = []


def overridden(op: Any, tensors: Any, attrs: Any, watch: Any) -> Any:
    """An op with a tensor of a subclass, or a batched or dual one, among its arguments."""
    if COMPOSED and not MODES.subclasses_off:
        if any([isinstance(t, COMPOSED[0]) for t in tensors]):
            return asked(op, tensors, attrs, asked_types(tensors))
    # Also outside of every vmap, where one may have escaped to.
    for t in tensors:
        if batched.is_batched(t):
            return batched.run(op, tensors, attrs, watch)
    if dual.has_dual(tensors):
        return dual.push(op, tensors, attrs, watch)
    if STATE.device_type is not None and only_on_device(tensors):
        return run_on_arrays(op, tensors, attrs, watch, True)
    if STATE.meta_type is not None and only_on_meta(tensors):
        return below(op, tensors, attrs, watch)
    if STATE.bits_type is not None and only_with_bits(tensors):
        return lazy_conj.run(op, tensors, attrs, watch)
    # The classes with a `__torch_function__`; the others are special for another reason.
    types = () if MODES.subclasses_off else asked_types(tensors)
    if not types:
        if not ACTIVE.classes_off and any([dispatches(t) for t in tensors]):
            return DISPATCHED.run(op, tensors, attrs, watch)
        return below(op, tuple(map(without_class, tensors)), attrs, watch)
    # The most derived class answers first.
    cls = min(types, key=lambda c: -len(c.__mro__))
    if not overrides(cls):
        if ACTIVE.modes or any([dispatches(t) for t in tensors]):
            with DisableTorchFunctionSubclass():
                return convert(apply(op, tensors, attrs, watch), cls)
        return convert(below(op, tuple(map(without_class, tensors)), attrs, watch), cls)
    return asked(op, tensors, attrs, types)


def asked(op: Any, tensors: Any, attrs: Any, types: tuple[Any, ...]) -> Any:
    """The result of an op as the most derived class of its arguments makes it."""
    cls = min(types, key=lambda c: -len(c.__mro__))
    arguments = (tuple(tensors), *attrs) if op.variadic else (*tensors, *attrs)
    return cls.__torch_function__(function_of(op), types, arguments, {})


def asked_types(tensors: Any) -> tuple[Any, ...]:
    """The classes, each once, of the tensors that are asked before anything else is done."""
    kinds = [type(t) for t in tensors if isinstance(t, TensorBase) and t._special]
    return tuple(dict.fromkeys([cls for cls in kinds if takes_part(cls) or answers(cls)]))


def answers(cls: Any) -> bool:
    """Whether a class has a `__torch_function__` that is to be asked."""
    return cls.__torch_function__ is not disabled_torch_function and overrides(cls)


def is_made_of_others(t: Any) -> bool:
    """Whether modes see others in place of this tensor: it is batched, dual, or of a subclass."""
    if not isinstance(t, TensorBase) or t._special != INTERPRETED:
        return False
    if batched.is_batched(t) or dual.has_dual((t,)):
        return True
    return takes_part(type(t)) and not MODES.subclasses_off


# What public functions call the attributes of their ops, where the names differ.
SPOKEN = {"low": "min", "high": "max", "offset": "storage_offset", "dims": "dim"}


@functools.cache
def function_of(op: Any) -> Any:
    """The function that `__torch_function__` gets for an op, to call with its arguments.

    That is the public function, if it takes them as they are; else one that runs the op.
    """
    names = [SPOKEN.get(name, name) for name in (*op.tensors, *op.attrs)]
    taken: list[str] = []
    if op.public is not None:
        found = inspect.signature(op.public).parameters.values()
        taken = [p.name for p in found if p.kind is p.POSITIONAL_OR_KEYWORD]
    # `reduction` is a word for an op and a number for its function.
    if taken[: len(names)] == names and "reduction" not in names:
        return getattr(TENSOR.cls, op.name, op.public)

    def function(*arguments: Any) -> Any:
        width = len(arguments) - len(op.attrs)
        tensors = arguments[0] if op.variadic else arguments[:width]
        return below(op, tuple(map(without_class, tensors)), arguments[width:], ())

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
        if isinstance(t, TensorBase) and t._special:
            if type(t._array) is not STATE.device_type or interprets(type(t)):
                return False
            found = True
    return found


def only_on_meta(tensors: Any) -> bool:
    """Whether what makes these tensors special is that they have no values."""
    found = [t for t in tensors if isinstance(t, TensorBase) and t._special]
    return all([type(t._array) is STATE.meta_type and not interprets(type(t)) for t in found])


def only_with_bits(tensors: Any) -> bool:
    """Whether what makes these tensors special is that they are conjugate or negative views."""
    found = [t for t in tensors if isinstance(t, TensorBase) and t._special]
    return bool(found) and all([t._special == WITH_BITS for t in found])


def below(op: Any, tensors: Any, attrs: Any, watch: Any) -> Any:
    """`apply` on plain tensors, once their class is taken off, on any device."""
    if STATE.device_type is not None and devices.has_device(tensors):
        return run_on_arrays(op, tensors, attrs, watch, True)
    if STATE.meta_type is not None:
        from . import meta

        if meta.has_meta(tensors):
            return meta.run(op, tensors, attrs, watch)
    if lazy_conj.has_bits(tensors):
        return lazy_conj.run(op, tensors, attrs, watch)
    return apply(op, tensors, attrs, watch)


def stays_special(t: Any) -> int:
    """The `_special` that a dual tensor has without its tangent."""
    return 1 if "_batch" in t.__dict__ or interprets(type(t)) else special_by(t._array)


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
    field = getattr(func, "__self__", None)
    if isinstance(field, property) and field in (TENSOR.cls._base, TENSOR.cls.grad):
        return result  # a tensor of its own
    return convert(result, cls)


def without_class(t: Any) -> Any:
    """A plain tensor with the memory and the history of `t`."""
    return same_plain(t) if isinstance(t, TensorBase) and t._special else t


def same_class(t: Any) -> Any:
    """Another tensor of the class of `t`, with its memory, attributes and history."""
    made = blank(type(t))
    made._array = t._array
    made._special = t._special
    share_history(made, t)
    made.__dict__.update(t.__dict__)
    put_slots(made, slots_of(t))
    return made


def slot_names(cls: type) -> list[str]:
    """The names in the `__slots__` of users' subclasses of Tensor."""
    names: list[str] = []
    for base in cls.__mro__:
        if base is TENSOR.cls:
            break
        slots = base.__dict__.get("__slots__", ())
        names.extend([slots] if isinstance(slots, str) else slots)
    return names


def slots_of(t: Any) -> dict[str, Any]:
    """The values that a tensor keeps in `__slots__` of users' subclasses."""
    return {name: getattr(t, name) for name in slot_names(type(t)) if hasattr(t, name)}


def put_slots(t: Any, values: dict[str, Any]) -> None:
    for name, value in values.items():
        setattr(t, name, value)


def bare_twin(t: Any) -> Any:
    """A tensor with the memory of `t` and without its history."""
    made = same_class(t)
    made._wants_grad = False
    made._node = made._view_of = None
    made._slot = 0
    return made


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
    if cls is TENSOR.cls or not cls._takes_part:
        return False
    return cls.__torch_function__ is not disabled_torch_function


def interprets(cls: Any) -> bool:
    """Whether ops on tensors of this class are not for dispatch's short ways."""
    return takes_part(cls) or class_dispatches(cls)


class _Disabled:
    """A `__torch_function__` for classes that do not want to be asked."""

    def __call__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))


disabled_torch_function = _Disabled()


def as_subclass(t: Any, cls: type) -> Any:
    """A tensor of `cls` with the memory of `t` and one more step of history where there is one."""
    if not isinstance(cls, type):
        raise TypeError(f"cls must be a type (got {type(cls).__name__})")
    if t._wants_grad and MODES.records:
        t = apply(REGISTRY["alias"], (t if dispatches(t) else without_class(t),))
    if takes_part(cls):
        watch_class(cls, overrides(cls))
    made = blank(cls)
    made._array = t._array
    made._special = INTERPRETED if interprets(cls) else special_by(t._array)
    made._wants_grad = t._wants_grad
    made._node = t._node
    made._slot = t._slot
    made._cell = t._version_cell()
    made._view_of = t._view_of
    made._cut = t._cut
    return made


def detached(t: Any) -> Any:
    """`t.detach()` where a mode, or the class of `t`, is asked."""
    found = ask_about("detach", (t,), TENSOR.cls.detach)
    if takes_part(type(t)) and not MODES.subclasses_off and not overrides(type(t)):
        return convert(found, type(t))
    return found


INTERPRETERS.run = overridden
INTERPRETERS.special_without_tangent = stays_special
INTERPRETERS.is_made_of_others = is_made_of_others
INTERPRETERS.function_of = function_of
