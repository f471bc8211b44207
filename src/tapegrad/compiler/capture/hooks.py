"""The functions that instrumented code calls instead of reading, calling and storing itself."""

from __future__ import annotations

import operator
import sys
import weakref
from typing import Any

import numpy as np

from ...core.base import TensorBase
from .object_kinds import (
    PLAIN,
    is_called_by_user,
)
from .swapped_code import CURRENT

AUGMENT = {
    "Add": operator.iadd,
    "Sub": operator.isub,
    "Mult": operator.imul,
    "MatMult": operator.imatmul,
    "Div": operator.itruediv,
    "Mod": operator.imod,
    "Pow": operator.ipow,
    "LShift": operator.ilshift,
    "RShift": operator.irshift,
    "BitOr": operator.ior,
    "BitXor": operator.ixor,
    "BitAnd": operator.iand,
    "FloorDiv": operator.ifloordiv,
}


class Hooks:
    """The functions that instrumented code calls; without a recorder they just do the operation."""

    __slots__ = ()

    @staticmethod
    def attr(owner: Any, name: str) -> Any:
        state = CURRENT.state
        return getattr(owner, name) if state is None else state.attr(owner, name)

    @staticmethod
    def item(owner: Any, key: Any) -> Any:
        state = CURRENT.state
        return owner[key] if state is None else state.item(owner, key)

    @staticmethod
    def slice(first: Any, last: Any, step: Any) -> Any:
        return slice(first, last, step)

    @staticmethod
    def call(function: Any, /, *args: Any, **kwargs: Any) -> Any:
        state = CURRENT.state
        if state is None:
            return function(*args, **kwargs)
        return state.call(function, args, kwargs)

    @staticmethod
    def use(value: Any) -> Any:
        state = CURRENT.state
        if state is not None and not isinstance(value, (TensorBase, *PLAIN)):
            state.contents(value)
        return value

    @staticmethod
    def truth(value: Any) -> Any:
        state = CURRENT.state
        return value if state is None else state.truth(value)

    @staticmethod
    def new(value: Any) -> Any:
        state = CURRENT.state
        if state is not None:
            state.new.add(id(value))
        return value

    @staticmethod
    def made(function: Any) -> Any:
        state = CURRENT.state
        if state is not None:
            state.new.add(id(function))
            state.new.update(map(id, function.__closure__ or ()))
            state.made_functions.append(weakref.ref(function))
        return function

    @staticmethod
    def iterate(value: Any) -> Any:
        state = CURRENT.state
        return value if state is None else state.iterate(value)

    unpack = iterate

    @staticmethod
    def mapping(value: Any) -> Any:
        state = CURRENT.state
        if state is not None:
            state.contents(value, shallow=True)
        return value

    @staticmethod
    def contains(item: Any, owner: Any) -> bool:
        state = CURRENT.state
        return item in owner if state is None else state.contains(item, owner)

    @staticmethod
    def set_attr(value: Any, owner: Any, name: str) -> None:
        state = CURRENT.state
        setattr(owner, name, value) if state is None else state.set_attr(value, owner, name)

    @staticmethod
    def set_item(value: Any, owner: Any, key: Any) -> None:
        state = CURRENT.state
        if state is None:
            owner[key] = value
        else:
            state.set_item(value, owner, key)

    @staticmethod
    def del_attr(owner: Any, name: str) -> None:
        state = CURRENT.state
        delattr(owner, name) if state is None else state.del_attr(owner, name)

    @staticmethod
    def del_item(owner: Any, key: Any) -> None:
        state = CURRENT.state
        if state is None:
            del owner[key]
        else:
            state.del_item(owner, key)

    @staticmethod
    def augment(old: Any, name: str, value: Any) -> Any:
        state = CURRENT.state
        return AUGMENT[name](old, value) if state is None else state.augment(old, name, value)

    @staticmethod
    def modulo(left: Any, right: Any) -> Any:
        state = CURRENT.state
        return left % right if state is None else state.modulo(left, right)

    @staticmethod
    def begin_attr(owner: Any, name: str) -> Any:
        return owner, name, Hooks.attr(owner, name)

    @staticmethod
    def end_attr(begun: Any, name: str, value: Any) -> None:
        owner, attribute, old = begun
        state = CURRENT.state
        if state is not None and isinstance(old, np.ndarray) and not state.is_new(old):
            state.changes(owner, f".{attribute}")
        Hooks.set_attr(Hooks.augment(old, name, value), owner, attribute)

    @staticmethod
    def begin_item(owner: Any, key: Any) -> Any:
        return owner, key, Hooks.item(owner, key)

    @staticmethod
    def end_item(begun: Any, name: str, value: Any) -> None:
        owner, key, old = begun
        Hooks.set_item(Hooks.augment(old, name, value), owner, key)

    @staticmethod
    def stored(name: str) -> None:
        state = CURRENT.state
        if state is not None:
            state.variable(name)

    @staticmethod
    def refuse(reason: str) -> None:
        state = CURRENT.state
        if state is not None:
            state.give_up(reason)

    @staticmethod
    def reads_frame(name: str, value: Any) -> Any:
        state = CURRENT.state
        if state is not None:
            state.give_up(f"it calls {name}()")
        return value

    @staticmethod
    def context(value: Any) -> Any:
        state = CURRENT.state
        return value if state is None else state.context(value)

    @staticmethod
    def matched(value: Any) -> Any:
        state = CURRENT.state
        return value if state is None else state.matched(value)

    @staticmethod
    def imported(names: Any, module: Any, level: Any) -> None:
        state = CURRENT.state
        if state is not None:
            state.imported(names, module, level)


HOOKS = Hooks()


def resting(hook: Any) -> Any:
    """Wrap a hook for Python's library: it reports nothing when this package is the caller."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if CURRENT.state is None or is_called_by_user(sys._getframe(1)):
            return hook(*args, **kwargs)
        before, CURRENT.state = CURRENT.state, None
        try:
            return hook(*args, **kwargs)
        finally:
            CURRENT.state = before

    return call


class LibraryHooks:
    """The hooks of code in Python's library."""


LIBRARY_HOOKS = LibraryHooks()
for _name in [name for name in vars(Hooks) if not name.startswith("__")]:
    setattr(LIBRARY_HOOKS, _name, resting(getattr(Hooks, _name)))
