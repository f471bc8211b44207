"""Guards on what instrumented code read: each one owner, one key, and what was found there.

Because every level of a path is read, and so guarded, by itself (`cfg`, `cfg.model`,
`cfg.model.width`), a guard compares one object with one object: by identity, and plain values by
type and bits. Most of them are dict entries, variables and list items, which C compares.
"""

from __future__ import annotations

import collections
import enum
import functools
import gc
import operator
import types
from collections.abc import Callable
from typing import Any

MOST_BYTES = 1 << 16  # of a NumPy array whose contents are compared before each replay
MOST_ITEMS = 20_000  # of a container that is looked at as a whole
ABSENT = NotImplemented  # in the place of the value of an entry that must not be there
OF_FUNCTIONS = operator.attrgetter("__code__", "__defaults__", "__kwdefaults__")
ORDER = operator.attrgetter("__mro__")
PLAIN = (bool, int, float, complex, str, bytes, type(None), enum.Enum, type)


class Reads:
    """All reads in order; `names` describe each of them for messages."""

    def __init__(self) -> None:
        self.entries: list[tuple[Any, Any, Any, str]] = []
        self.cells: list[tuple[Any, Any, str]] = []
        self.lengths: list[tuple[Any, int, str]] = []
        self.items: list[tuple[Any, list[Any], str]] = []
        self.checks: list[tuple[Callable[[], bool], str]] = []
        self.functions: list[Any] = []
        self.function_parts: list[Any] = []
        self.owners: list[Any] = []  # objects, and their classes
        self.classes: list[Any] = []
        self.bases: list[Any] = []  # classes, and in which order theirs are searched
        self.orders: list[Any] = []
        self.seen: set[Any] = set()

    def is_new(self, *key: Any) -> bool:
        """Whether something is looked at for the first time."""
        if key in self.seen:
            return False
        self.seen.add(key)
        return True

    def entry(self, owner: dict[Any, Any], key: Any, value: Any, name: str) -> None:
        if self.is_new("entry", id(owner), typed(key)):
            self.entries.append((owner, key, value, name))

    def length(self, owner: Any, name: str) -> None:
        if self.is_new("length", id(owner)):
            self.lengths.append((owner, len(owner), name))

    def class_entry(self, cls: type, key: str, name: str) -> None:
        if self.is_new("class", id(cls), key):
            owner = class_dict(cls)
            self.entries.append((owner, key, owner.get(key, ABSENT), name))

    def kind(self, owner: Any) -> None:
        """The class of an object, which can be set."""
        if self.is_new("kind", id(owner)):
            self.owners.append(owner)
            self.classes.append(type(owner))

    def order(self, cls: type) -> None:
        """The classes that a class inherits from, which can be set."""
        if self.is_new("order", id(cls)):
            self.bases.append(cls)
            self.orders.append(cls.__mro__)

    def check(self, key: Any, holds: Callable[[], bool], name: str) -> None:
        if self.is_new("check", *key):
            self.checks.append((holds, name))

    def function(self, function: Any) -> None:
        if self.is_new("function", id(function)):
            self.functions.append(function)

    def list_items(self, owner: Any, name: str) -> None:
        """Which objects are in a list."""
        if self.is_new("items", id(owner)):
            self.lengths.append((owner, list.__len__(owner), name))
            if owner:
                self.items.append((owner, list(list.__iter__(owner)), name))

    def dict_items(self, owner: Any, name: str) -> None:
        """Which keys are in a dict, in which order, and which objects."""
        if not self.is_new("items", id(owner)):
            return
        is_ordered = isinstance(owner, collections.OrderedDict)  # by itself, which C cannot see
        ordered: Any = collections.OrderedDict.__iter__ if is_ordered else dict.__iter__
        keys = list(ordered(owner))
        self.lengths.append((owner, len(keys), name))
        for key in keys:
            self.entry(owner, key, dict.__getitem__(owner, key), f"{name}[{key!r}]")
        if len(keys) > 1:

            def same_order() -> bool:
                return all(map(operator.is_, ordered(owner), keys)) or list(ordered(owner)) == keys

            self.check(("order", id(owner)), same_order, name)

    def queue_items(self, owner: Any, name: str) -> None:
        items = list(owner)

        def same() -> bool:
            return len(owner) == len(items) and all(map(operator.is_, owner, items))

        self.check(("items", id(owner)), same, name)

    def set_items(self, owner: Any, name: str) -> None:
        """Which elements are in a set, in the order in which loops find them."""
        self.queue_items(owner, name)

    def buffer(self, owner: Any, name: str) -> bool:
        """The bytes of a `bytearray`, an `array` or a `memoryview`; False if there are too many."""
        bits = bytes(owner)
        self.check(("buffer", id(owner)), lambda: bytes(owner) == bits, name)
        return len(bits) <= MOST_BYTES

    def array(self, owner: Any, name: str) -> bool:
        """The contents of a NumPy array; False if there are too many."""
        if owner.nbytes > MOST_BYTES or owner.dtype.hasobject:
            return False
        shape, dtype, bits = owner.shape, owner.dtype, owner.tobytes()

        def same() -> bool:
            is_alike = owner.shape == shape and owner.dtype == dtype
            return bool(is_alike) and owner.tobytes() == bits

        self.check(("array", id(owner)), same, name)
        return True

    def settle(self) -> None:
        """Take the guards on functions' code once their original code is back in place."""
        self.function_parts = list(map(OF_FUNCTIONS, self.functions))

    def changed(self) -> str:
        """The name of the first thing that changed; "" if nothing did."""
        return self.changed_container() or self.changed_otherwise()

    def changed_container(self) -> str:
        """`changed` for items of dicts and lists and for variables; equal values are no change."""
        for i, (each, key, value, name) in enumerate(self.entries):
            now = each.get(key, ABSENT)
            if now is not value:
                if not is_same(now, value):
                    return name
                self.entries[i] = (each, key, now, name)  # found at once the next time
        for i, (cell, value, name) in enumerate(self.cells):
            now = cell_contents(cell)
            if now is not value:
                if not is_same(now, value):
                    return name
                self.cells[i] = (cell, now, name)
        for each, length, name in self.lengths:
            if len(each) != length:
                return name
        for each, items, name in self.items:
            for now, value in zip(each, items, strict=False):
                if now is not value and not is_same(now, value):
                    return name
        return ""

    def changed_otherwise(self) -> str:
        """The name of a changed value among those that C code cannot compare; "" if none."""
        if self.owners and not all(map(operator.is_, map(type, self.owners), self.classes)):
            return "the class of an object"
        if self.bases and not all(map(operator.is_, map(ORDER, self.bases), self.orders)):
            return "the bases of a class"
        for function, before in zip(self.functions, self.function_parts, strict=True):
            if not all(map(operator.is_, OF_FUNCTIONS(function), before)):
                return f"the defaults or the code of `{function.__name__}`"
        for holds, name in self.checks:
            if not holds():
                return name
        return ""


def is_same(a: Any, b: Any) -> bool:
    """Whether two plain values are equal; other objects have to be the same one."""
    if type(a) is not type(b) or not isinstance(a, PLAIN):
        return False
    if isinstance(a, (float, complex)):
        return repr(a) == repr(b)  # zeros have signs, and NaN is not itself
    return bool(a == b)


def typed(key: Any) -> Any:
    """A key that tells 1, 1.0 and True apart; keys that cannot be hashed do not come here."""
    return type(key), key


@functools.lru_cache(maxsize=1024)
def class_dict(cls: type) -> dict[str, Any]:
    """The dict behind the read-only `cls.__dict__`, which C can look into."""
    found = gc.get_referents(vars(cls))
    return next((each for each in found if type(each) is dict), dict(vars(cls)))


def cell_contents(cell: types.CellType) -> Any:
    """The value of a closure variable; ABSENT if none was assigned yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return ABSENT


def instance_dict(owner: Any) -> Any:
    """The dict of an object's own attributes, without a call of the user's; None: it has none."""
    try:
        found = object.__getattribute__(owner, "__dict__")
    except AttributeError:
        return None
    return found if isinstance(found, dict) else None
