"""Stores by instrumented code into objects that existed before the call: side effects."""

from __future__ import annotations

import collections
import sys
import types
from typing import Any

import numpy as np

from ...autograd.function import FunctionCtx
from ...core.base import TensorBase
from ...nn.modules.module import Module
from .guarded_reads import GuardedReads
from .hooks import AUGMENT
from .instrumented import original_of
from .object_kinds import (
    PLAIN,
    short,
)
from .reads import ABSENT, is_same
from .symbolic_floats import Options


class NoticedStores(GuardedReads):
    """The hooks that store."""

    def set_attr(self, value: Any, owner: Any, name: str) -> None:
        if isinstance(owner, TensorBase):
            is_op = self.find_in(type(owner).__mro__, name) is not ABSENT
            if not is_op and not self.recorder.is_made(owner._array):
                self.give_up(f"it changes .{name} of a tensor")
        elif isinstance(owner, Module) and not self.is_new(owner):
            if not self.is_same_attr(owner, name, value):
                self.changes(owner, f".{name}")
                value = self.original(value)
        elif isinstance(owner, FunctionCtx) and not getattr(owner, "_outputs", None):
            self.mark(owner)  # `forward` of a Function is running, for which it was made
        elif not self.is_new(owner):
            found = None if isinstance(owner, type) else self.find_in(type(owner).__mro__, name)
            setter = found.fset if isinstance(found, property) else None
            if isinstance(setter, types.FunctionType) and self.enter(setter):
                pass  # what it does is seen
            elif not self.has_own_setter(owner):
                self.changes(owner, f".{name}")
            value = self.original(value)
        setattr(owner, name, value)

    def has_own_setter(self, owner: Any) -> bool:
        """Whether the user's class defines `__setattr__`, which then runs instrumented itself."""
        if isinstance(owner, (type, types.ModuleType)):
            return False
        found = type(owner).__setattr__
        return isinstance(found, types.FunctionType) and self.enter(found)

    def is_same_attr(self, owner: Any, name: str, value: Any) -> bool:
        """Whether an attribute is set to the value that it has, which is then guarded."""
        inside = vars(owner)
        if name in inside and (inside[name] is value or is_same(inside[name], value)):
            self.reads.entry(inside, name, inside[name], f"{self.path(owner)}.{name}")
            return isinstance(value, PLAIN)
        return False

    def del_attr(self, owner: Any, name: str) -> None:
        if not self.is_new(owner) and not isinstance(owner, TensorBase):
            self.changes(owner, f".{name}")
        delattr(owner, name)

    def set_item(self, value: Any, owner: Any, key: Any) -> None:
        if isinstance(owner, TensorBase):
            key = self.index(key)
            self.contents(key)
            self.contents(value)
        elif isinstance(owner, Options):
            self.stored.add((id(owner.group), key))
        elif not self.is_new(owner):
            setter = getattr(type(owner), "__setitem__", None)
            if not (isinstance(setter, types.FunctionType) and self.enter(setter)):
                self.changes(owner, f"[{short(key)}]")
            value = self.original(value)
        owner[key] = value

    def del_item(self, owner: Any, key: Any) -> None:
        if not self.is_new(owner):
            self.changes(owner, f"[{short(key)}]")
        del owner[key]

    def augment(self, old: Any, name: str, value: Any) -> Any:
        if not isinstance(old, (*PLAIN, TensorBase)):
            mutable = (list, dict, set, collections.deque, bytearray, np.ndarray)
            if isinstance(old, mutable) and not self.is_new(old):
                self.changes(old)
            self.contents(old)
        if not isinstance(value, (*PLAIN, TensorBase)):
            self.contents(value)
        if name == "Mod":
            return self.modulo(old, value)
        made = AUGMENT[name](old, value)
        if isinstance(made, (list, dict, set)) and made is not old:
            self.mark(made)
        return made

    def variable(self, name: str) -> None:
        """A `global` or `nonlocal` variable is about to be set."""
        frame = sys._getframe(2)
        code = original_of(frame.f_code)
        if name in code.co_freevars:
            known = [f for f in self.swapped.values() if original_of(f.__code__) is code]
            if not known:
                return  # the variable of a function that runs in this call
        self.give_up(f"it changes `{name}`")
