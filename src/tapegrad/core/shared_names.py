"""Names of ours that a user's subclass of Tensor takes for something else.

A tensor's fields have plain names (`array`, `node`), and a class may well call a property of its
own so. Then the field is what this package sees, and the property is what all others see.
"""

from __future__ import annotations

import sys
from typing import Any

from .base import TensorBase

OURS = tuple(name for name in vars(TensorBase) if not name.startswith("_"))
PACKAGE = __name__.partition(".")[0]


class SharedName:
    """A class attribute that is one thing for this package, and another for everyone else."""

    def __init__(self, field: Any, theirs: Any, name: str) -> None:
        self.field = field
        self.theirs = theirs
        self.name = name

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is not None and asked_by_us():
            return self.field.__get__(instance, owner)
        get = getattr(type(self.theirs), "__get__", None)
        if get is not None:
            return get(self.theirs, instance, owner)
        given = {} if instance is None else vars(instance)
        return given.get(self.name, self.theirs)

    def __set__(self, instance: Any, value: Any) -> None:
        if asked_by_us():
            self.field.__set__(instance, value)
        elif hasattr(type(self.theirs), "__set__"):
            self.theirs.__set__(instance, value)
        else:
            vars(instance)[self.name] = value


def asked_by_us() -> bool:
    """Whether it is this package that asks: from two frames up."""
    asking = sys._getframe(2).f_globals.get("__name__") or ""
    return asking.partition(".")[0] == PACKAGE


def share_names(cls: type, root: type) -> None:
    """Let a new class below `root` have names that are fields of ours."""
    if cls.__module__.partition(".")[0] == PACKAGE:
        return
    above = cls.__mro__[: cls.__mro__.index(root)]
    for name in OURS:
        theirs = next((vars(base)[name] for base in above if name in vars(base)), None)
        if theirs is not None and not isinstance(theirs, SharedName):
            setattr(cls, name, SharedName(vars(TensorBase)[name], theirs, name))
