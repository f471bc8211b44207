"""`__torch_dispatch__`: ops shown, as PyTorch's own ops, to modes and to the classes of tensors.

That happens below autograd: whoever is asked computes, and what comes back is recorded above, in
autograd/dispatched.py. A call is shown as a `Call`: an overload of `torch.ops` with the arguments
of its schema. Who calls the overload with them, or with other tensors in their places, runs just
what would have run here.

Nothing of this costs dispatch anything while nobody wants to be asked. Tensors of classes with a
`__torch_dispatch__` are `_special`. While a mode is on, `Diversion` is in the place of autocast.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .base import INTERPRETED, TensorBase, blank
from .late_bound import AUTOCAST, DISPATCHED, INTERPRETERS, TENSOR
from .locks import new_lock
from .modes import OpModeBlock, switched
from .modes import below_autograd as below_autograd
from .op import Op
from .thread_modes import ACTIVE as ACTIVE
from .thread_modes import Unrepeated


class OpMode(OpModeBlock):
    """A block in which ops go through `run`; inside `run` the next outer mode is the active one."""

    records_steps = False  # compiler/capture/recorder.py

    def run(
        self, op: Op, tensors: tuple[Any, ...], attrs: tuple[Any, ...], watch: tuple[Any, ...]
    ) -> Any:
        """An op, in the place of `apply`."""
        raise NotImplementedError

    def ask(self, call: Call) -> Any:
        """A call of a function that is no op (`zeros`, `detach`), or that writes into a tensor."""
        return call.again(call.args, call.kwargs)

    def read(self, t: TensorBase) -> None:
        """Python looks at the values of a tensor."""

    def give_up(self, reason: str) -> None:
        """Something happens that cannot be written down (compiler/capture/recorder.py)."""

    def constant(self, t: TensorBase) -> None:
        """A gradient rule makes a tensor that has the same values every time."""

    def asked(self, t: TensorBase, what: str) -> TensorBase:
        """The real tensor for a placeholder in a recording: see `asked_about`."""
        return t

    def look(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """A function marked by `looks_at_values` is called: it returns a bool or raises."""
        return function(*args, **kwargs)

    def whole(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """A function that a recorded step calls again as it is (compiler/capture/recorder.py)."""
        return function(*args, **kwargs)


def read_values(t: Any) -> Any:
    """The array of a tensor whose values decide what Python does next; modes are told."""
    Unrepeated.count += 1
    modes = ACTIVE.modes
    if modes:
        modes[-1].read(t)
    return t._array


def is_recorded() -> bool:
    """Whether ops are written down to be run again with other values: shapes must not depend on
    those."""
    return any([mode.records_steps for mode in ACTIVE.modes])


def cannot_be_repeated(reason: str) -> None:
    """Tell modes that write ops down that a replay would not do what happens now."""
    Unrepeated.count += 1
    for mode in ACTIVE.modes:
        if mode.records_steps:
            mode.give_up(reason)


def asked_about(t: Any, what: str) -> Any:
    """The tensor whose layout or history is real, where a recorder passes placeholders.

    `what`: "layout" (strides), "history" (of autograd), "place" (memory, version, base), or "data",
    which is about to be replaced.
    """
    for mode in ACTIVE.modes:
        if mode.records_steps:
            return mode.asked(t, what)
    return t


def looks_at_values(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function that looks at the values of tensors to say yes or no, or to raise.

    What is recorded is right only for calls in which it says the same, so a replay asks it again.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        modes = ACTIVE.modes
        if modes:
            return modes[-1].look(function, args, kwargs)
        return function(*args, **kwargs)

    return call


def same_always(t: Any) -> Any:
    """A tensor that a gradient rule makes, with the same values every time; modes are told."""
    modes = ACTIVE.modes
    if modes:
        modes[-1].constant(t)
    return t


def called_as_a_whole(function: Callable[..., Any]) -> Callable[..., Any]:
    """Tell a mode about the calls of a function that changes more than tensors."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        Unrepeated.count += 1
        modes = ACTIVE.modes
        if modes:
            return modes[-1].whole(function, args, kwargs)
        return function(*args, **kwargs)

    return call


class modes_set_to(switched):
    """Other modes for a block."""

    def __init__(self, modes: tuple[Any, ...]) -> None:
        super().__init__(ACTIVE, "modes", modes)


class _Carrier:
    """A tensor that represents the operands of a call, made on first need."""

    cls: Any = None


class Diversion:
    """How a mode gets to see ops, with no cost to dispatch while there is none.

    Dispatch already asks two questions of what is registered with it: how autocast casts the
    operands, and what a special tensor among them wants to happen. While a mode is active the first
    answer is a special tensor of ours, and so the second question comes here.
    """

    lock = new_lock()
    installed = False
    cast_operands: Any = None
    overridden: Any = None
    watching: Any = None  # watchers.py: modes that see public functions, once there was one

    @staticmethod
    def install() -> None:
        with Diversion.lock:
            if not Diversion.installed:
                Diversion.installed = True
                _Carrier.cls = type("_Carrier", (TENSOR.cls,), {})
                Diversion.cast_operands = AUTOCAST.operands
                Diversion.overridden = INTERPRETERS.run
                AUTOCAST.operands = Diversion.take_operands
                INTERPRETERS.run = Diversion.divert

    @staticmethod
    def take_operands(op: Op, tensors: tuple[Any, ...]) -> tuple[Any, ...]:
        tensors = Diversion.cast_operands(op, tensors)
        # Modes of functions see the operands that a user wrote. Those of ops see them later, when
        # subclasses, duals and batches come back as the tensors that they are made of.
        if not Diversion.is_watching() and (
            not ACTIVE.modes or any([INTERPRETERS.is_made_of_others(t) for t in tensors])
        ):
            return tensors
        carrier: Any = blank(_Carrier.cls)
        carrier._special = INTERPRETED
        carrier.call = tensors
        return (carrier,)

    @staticmethod
    def is_watching() -> bool:
        watching = Diversion.watching
        return watching is not None and bool(watching.modes) and not watching.off

    @staticmethod
    def divert(op: Op, tensors: Any, attrs: tuple[Any, ...], watch: tuple[Any, ...]) -> Any:
        if not tensors or type(tensors[0]) is not _Carrier.cls:
            return Diversion.overridden(op, tensors, attrs, watch)
        if Diversion.is_watching():
            return INTERPRETERS.watched(op, tensors[0].call, attrs)
        modes = ACTIVE.modes
        with modes_set_to(modes[:-1]):
            return modes[-1].run(op, tensors[0].call, attrs, watch)


INTERPRETERS.prepare_for_modes = Diversion.install


# ---------------------------------------------------------------------- classes


def disabled_torch_dispatch(func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """The `__torch_dispatch__` of tensors that have none."""
    with below_classes():
        return func(*args, **(kwargs or {}))


class below_classes(switched):
    """In a `with` block, `__torch_dispatch__` of classes is not called: tensors are plain."""

    def __init__(self) -> None:
        super().__init__(ACTIVE, "classes_off", True)


def class_dispatches(cls: Any) -> bool:
    """Whether a class has a `__torch_dispatch__` of its own."""
    return cls.__torch_dispatch__ is not disabled_torch_dispatch


def dispatches(t: Any) -> bool:
    """Whether a value is a tensor whose class wants to see ops."""
    return isinstance(t, TensorBase) and t._special == INTERPRETED and class_dispatches(type(t))


def is_asked(*values: Any) -> bool:
    """Whether a mode or the class of one of the values wants to see a call."""
    if ACTIVE.modes:
        return True
    return not ACTIVE.classes_off and any([dispatches(v) for v in values])


# ---------------------------------------------------------------------- calls


def leaves_of(value: Any) -> list[Any]:
    """The values in nested lists, tuples and dicts, in order."""
    if isinstance(value, (list, tuple)):
        return [leaf for v in value for leaf in leaves_of(v)]
    if isinstance(value, dict):
        return [leaf for v in value.values() for leaf in leaves_of(v)]
    return [value]


class Call:
    """A call of one of PyTorch's ops, as a handler is told about it."""

    def __init__(
        self, overload: Any, args: tuple[Any, ...], kwargs: dict[str, Any], run: Any
    ) -> None:
        self.overload = overload
        self.args = args
        self.kwargs = kwargs
        self.run: Callable[[Any, Any], Any] = run  # (args, kwargs)
        self.rules: dict[Any, Any] = {}  # what classes and modes do with this very op
        self.written: Any = None  # (op, tensors, attrs) whose result is written into the first one

    def again(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The call with other tensors: the next mode or class is asked, if there is one."""
        if not is_asked(*leaves_of((args, kwargs))):
            return self.run(args, kwargs)
        call = Call(self.overload, args, kwargs, self.run)
        call.rules = self.rules
        return ask_anyone(call)

    def handler(self, cls: Any, asked: Any) -> Any:
        """The function that a class or mode is asked with."""
        rule = self.rules.get(cls)
        return asked.__torch_dispatch__ if rule is None else functools.partial(rule, asked)

    def fits(self, args: Any, kwargs: Any) -> bool:
        """Whether other arguments differ from those shown in tensors only."""
        mine, others = leaves_of((self.args, self.kwargs)), leaves_of((args, kwargs))
        if list(kwargs) != list(self.kwargs) or len(mine) != len(others):
            return False
        return all([matches(a, b) for a, b in zip(mine, others, strict=True)])


class OpCall(Call):
    """A call whose `run` runs an op, and so asks the next mode or class by itself."""

    def again(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.run(args, kwargs)


def matches(a: Any, b: Any) -> bool:
    if isinstance(a, TensorBase) or isinstance(b, TensorBase):
        return isinstance(a, TensorBase) and isinstance(b, TensorBase)
    return a is b or (type(a) is type(b) and bool(a == b))


def pending(overload: Any, args: Any, kwargs: Any) -> Call | None:
    """The call with these arguments, tensors aside, that a handler is being asked about."""
    calls: tuple[Call, ...] = ACTIVE.calls
    for call in reversed(calls):
        if call.overload is overload and call.fits(args, kwargs):
            return call
    return None


def in_order(values: list[Any]) -> list[Any]:
    """One tensor per class that is to be asked, subclasses before the classes that they extend."""
    found: list[Any] = []
    for value in values:
        cls = type(value)
        if not dispatches(value) or any([type(f) is cls for f in found]):
            continue
        at = [i for i, f in enumerate(found) if issubclass(cls, type(f))]
        found.insert(at[0] if at else len(found), value)
    return found


def ask(call: Call, mode: Any = None) -> Any:
    """The answer of a mode to a call or, if it gives none, of the classes of the tensors."""
    asked = [] if ACTIVE.classes_off else in_order(leaves_of((call.args, call.kwargs)))
    types = tuple([type(t) for t in asked])
    handlers = [call.handler(cls, cls) for cls in types]
    if mode is not None:
        handlers.insert(0, call.handler(type(mode), mode))
    before = ACTIVE.calls
    ACTIVE.calls = (*before, call)
    try:
        with below_autograd():
            for handler in handlers:
                answer = handler(call.overload, types, call.args, call.kwargs)
                if answer is not NotImplemented:
                    return answer
    finally:
        ACTIVE.calls = before
    refused = [] if mode is None else [f"  - mode object {mode!r}"]
    refused += [f"  - tensor subclass {cls!r}" for cls in types]
    raise TypeError(
        f"Multiple dispatch failed for 'torch._ops.{call.overload}'; all __torch_dispatch__ "
        "handlers returned NotImplemented:\n\n" + "\n".join(refused) + "\n\nFor more information, "
        "try re-running with TORCH_LOGS=not_implemented"
    )


def ask_anyone(call: Call) -> Any:
    """`ask` from the innermost mode on, for a function that is no op."""
    modes = ACTIVE.modes
    if not modes:
        return ask(call)
    with modes_set_to(modes[:-1]):
        return modes[-1].ask(call)


def ask_about(name: str, args: tuple[Any, ...], run: Callable[..., Any], **kwargs: Any) -> Any:
    """A function that is no op, by its name in PyTorch; `run(*args)` is what happens otherwise."""
    overload = DISPATCHED.overload(name)
    return ask_anyone(Call(overload, args, kwargs, lambda args, kwargs: run(*args)))
