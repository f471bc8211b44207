"""Two tensors that change places."""

from __future__ import annotations

import weakref
from typing import Any


def set_module(obj: Any, mod: str) -> None:
    """Say that an object comes from another module, for how it is printed."""
    if not isinstance(mod, str):
        raise TypeError("The mod argument should be a string")
    obj.__module__ = mod


def swap_tensors(t1: Any, t2: Any) -> None:
    """Give each of two tensors what the other is: its memory, its history, its class and fields.

    >>> a, b = tensor([1.0]), tensor([2.0, 3.0])
    >>> utils.swap_tensors(a, b)
    >>> a
    tensor([2., 3.])
    """
    for name, t in (("t1", t1), ("t2", t2)):
        if weakref.getweakrefs(t):
            raise RuntimeError(f"Cannot swap {name} because it has weakref associated with it")
    names = {name for t in (t1, t2) for name in slots_of(type(t))}
    fields = [{name: getattr(t, name) for name in names if hasattr(t, name)} for t in (t1, t2)]
    own = [getattr(t, "__dict__", {}).copy() for t in (t1, t2)]
    if type(t1) is not type(t2):
        t1.__class__, t2.__class__ = type(t2), type(t1)
    for t, values, others in ((t1, fields[1], own[1]), (t2, fields[0], own[0])):
        for name in names:
            if name in values:
                setattr(t, name, values[name])
            elif hasattr(t, name):
                delattr(t, name)
        if hasattr(t, "__dict__"):
            t.__dict__.clear()
            t.__dict__.update(others)


def slots_of(cls: type) -> list[str]:
    """The fields of a tensor, in whatever way its class keeps them."""
    found: list[str] = []
    for base in cls.__mro__:
        # The first is what compiled classes have in place of the second.
        slots = base.__dict__.get("__mypyc_attrs__") or base.__dict__.get("__slots__", ())
        found.extend([slots] if isinstance(slots, str) else slots)
    return [name for name in found if name not in ("__dict__", "__weakref__")]
