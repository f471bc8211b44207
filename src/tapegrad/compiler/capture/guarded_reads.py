"""Reads by instrumented code of objects that existed before the call: each becomes a guard."""

from __future__ import annotations

import array
import collections
import enum
import functools
import gc
import operator
import types
from typing import Any

import numpy as np

from ...autograd.function import FunctionCtx
from ...core.base import TensorBase, wrap
from ...nn.modules.module import Module
from ...ops.draws.generators import Generator
from .caught import CaughtStep
from .object_kinds import (
    BUILTIN_TYPES,
    C_CALLABLES,
    MADE_BY_PYTHON,
    OPAQUE,
    OWN,
    PLAIN,
    VIEWS_OF_DICTS,
    is_ours,
    is_ours_by_name,
    plain,
    short,
    super_mro,
)
from .prepared_code import Prepared
from .reachable import is_kept_apart
from .reads import ABSENT, MOST_ITEMS, class_dict, instance_dict, is_same
from .symbolic_floats import Number, Options

LOOKED_AT_OTHERWISE = (TensorBase, Module, Generator, FunctionCtx, type)
# Of arrays: what the signature says.
SHAPES = frozenset(("shape", "dtype", "ndim", "size", "nbytes", "itemsize"))


class GuardedReads(Prepared):
    """The hooks that read: attributes, elements, contents, truth and loops."""

    def attr(self, owner: Any, name: str) -> Any:
        kind = type(owner)
        if kind in BUILTIN_TYPES:
            return getattr(owner, name)
        if self.is_input(owner):
            return self.array_attr(owner, name)
        if isinstance(owner, TensorBase):
            return self.tensor_attr(owner, name)
        if isinstance(owner, types.ModuleType):
            return self.module_attr(owner, name)
        if isinstance(owner, type):
            return self.class_attr(owner, name)
        if kind is super:
            self.find_in(super_mro(owner), name)
            return getattr(owner, name)
        if isinstance(owner, enum.Enum) and name in ("value", "name"):
            inside = vars(owner)
            self.reads.entry(inside, f"_{name}_", inside.get(f"_{name}_"), self.path(owner))
            self.trusting += 1
            try:
                return getattr(owner, name)
            finally:
                self.trusting -= 1
        return self.object_attr(owner, name)

    def array_attr(self, owner: Any, name: str) -> Any:
        """An attribute of an array that stands for an argument; calls of methods are seen later."""
        value = getattr(owner, name)
        if name not in SHAPES and not isinstance(value, types.BuiltinMethodType):
            self.recorder.look_at_array()
        return value

    def object_attr(self, owner: Any, name: str) -> Any:
        kind = type(owner)
        self.prepare(owner) if kind.__module__ not in OWN else None
        path = f"{self.path(owner)}.{name}"
        known = not self.is_new(owner)
        if known and kind.__flags__ & MADE_BY_PYTHON:
            self.reads.kind(owner)
            self.keep.append(owner)
        found = self.find_in(kind.__mro__, name)
        inside = instance_dict(owner)
        is_data = found is not ABSENT and hasattr(type(found), "__set__")
        if is_data:
            value = getattr(owner, name)
            if known and is_computed_in_c(found) and name != "__dict__":

                def same() -> bool:
                    now = getattr(owner, name, ABSENT)
                    return now is value or is_same(now, value)

                self.reads.check(("slot", id(owner), name), same, path)
        elif inside is not None and name in inside:
            value = getattr(owner, name)
            if isinstance(value, CaughtStep):
                own = inside[name].own(owner)
                self.reads.entry(inside, name, ABSENT if own is None else own, path)
            elif known:
                self.reads.entry(inside, name, inside[name], path)
        else:
            if known and inside is not None:
                self.reads.entry(inside, name, ABSENT, path)
            value = self.missing_attr(owner, name, found, known)
        self.name(value, path)
        return value

    def missing_attr(self, owner: Any, name: str, found: Any, known: bool) -> Any:
        """An attribute that is not the object's own: of its class, or what `__getattr__` finds."""
        if found is not ABSENT:
            return getattr(owner, name)
        if isinstance(owner, Module):
            inside = vars(owner)
            for part in ("_parameters", "_buffers", "_modules"):
                each = inside.get(part)
                if each is not None and name in each:
                    if known:
                        self.reads.entry(inside, part, each, self.path(owner))
                        self.reads.entry(each, name, each[name], f"{self.path(owner)}.{name}")
                    break
            return getattr(owner, name)
        other = self.find_in(type(owner).__mro__, "__getattr__")
        if not known or isinstance(other, types.FunctionType):
            return getattr(owner, name)
        if other is not ABSENT:
            self.contents(owner)  # `__getattr__ = dict.__getitem__`
        value = getattr(owner, name)

        def same() -> bool:
            now = getattr(owner, name, ABSENT)
            return now is value or is_same(now, value)

        self.reads.check(("odd", id(owner), name), same, f"{self.path(owner)}.{name}")
        return value

    def find_in(self, mro: Any, name: str) -> Any:
        """Look a name up in classes, with guards on where it was found and where it was not."""
        for cls in mro:
            inside = class_dict(cls)
            if name in inside:
                if cls.__flags__ & MADE_BY_PYTHON:
                    self.reads.class_entry(cls, name, f"{cls.__name__}.{name}")
                return inside[name]
            if cls.__flags__ & MADE_BY_PYTHON and not is_ours(cls):
                self.reads.class_entry(cls, name, f"{cls.__name__}.{name}")
        return ABSENT

    def tensor_attr(self, owner: Any, name: str) -> Any:
        if name == "grad":
            self.looks_at_gradients = True
        if not owner._special and not self.recorder.trouble:
            self.recorder.meet(owner)  # its memory, and whether it requires grad, are guarded
        found = self.find_in(type(owner).__mro__, name)
        inside = instance_dict(owner)
        if inside and name in inside and not self.recorder.is_made(owner._array):
            self.reads.entry(inside, name, inside[name], f".{name}")
            self.name(inside[name], f"a tensor.{name}")
        elif found is ABSENT and inside is not None and not self.is_new(owner):
            self.reads.entry(inside, name, ABSENT, f".{name}")
            self.keep.append(owner)
        return getattr(owner, name)

    def module_attr(self, owner: Any, name: str) -> Any:
        value = getattr(owner, name)
        inside = vars(owner)
        if name in inside:
            self.reads.entry(inside, name, value, f"{owner.__name__.rpartition('.')[2]}.{name}")
        elif not is_ours_by_name(owner.__name__) and not hasattr(type(owner), name):
            self.give_up(f"it reads {owner.__name__}.{name}, which a function computes")
        self.name(value, f"{owner.__name__.rpartition('.')[2]}.{name}")
        return value

    def class_attr(self, owner: type, name: str) -> Any:
        if type(owner) is not type and not is_ours(owner):
            self.prepare_class(type(owner))
        self.prepare_class(owner)
        self.find_in(owner.__mro__, name)
        value = getattr(owner, name)
        self.name(value, f"{owner.__name__}.{name}")
        return value

    def item(self, owner: Any, key: Any) -> Any:
        if isinstance(owner, TensorBase):
            key = self.index(key)
            self.contents(key)
            return owner[key]
        self.look_at_inputs(key)
        if self.is_input(owner):
            value = owner[key]
            if not isinstance(value, np.ndarray) or not self.is_input(value):
                self.recorder.look_at_array()
            return value
        kind = type(owner)
        if self.is_new(owner) or kind in (tuple, str, bytes, range):
            return owner[key]
        path = self.path(owner)
        if isinstance(owner, Options):
            value = owner[key]
            if (id(owner.group), key) not in self.stored:
                self.reads.entry(owner.group, key, plain(value), f"{path}[{key!r}]")
            return value
        if isinstance(owner, dict) and kind.__getitem__ in (dict.__getitem__,):
            return self.dict_item(owner, key, path)
        if isinstance(owner, list) and kind.__getitem__ is list.__getitem__:
            return self.list_item(owner, key, path)
        if isinstance(owner, type):
            return owner[key]
        if isinstance(owner, Module):
            self.look_at_module(owner)
            value = owner[key]
        elif isinstance(owner, (np.ndarray, collections.deque, bytearray)):
            self.contents(owner)
            value = owner[key]
        elif is_ours(kind) or isinstance(owner, (tuple, str, bytes, types.MappingProxyType)):
            if isinstance(owner, types.MappingProxyType):
                self.give_up("it reads a mappingproxy")
            value = owner[key]
        elif isinstance(getattr(kind, "__getitem__", None), types.FunctionType):
            self.prepare(owner)
            value = owner[key]
        else:
            self.contents(owner)
            value = owner[key]
        self.name(value, f"{path}[{short(key)}]")
        return value

    def is_input(self, value: Any) -> bool:
        """Whether a value is an array that stands for an argument, or a view of one."""
        return isinstance(value, np.ndarray) and self.recorder.stands_for_array(value)

    def index(self, key: Any) -> Any:
        """A key of a tensor, with tensors in the place of arrays that are inputs."""
        if type(key) is tuple:
            return tuple([wrap(each) if self.is_input(each) else each for each in key])
        return wrap(key) if self.is_input(key) else key

    def look_at_inputs(self, key: Any) -> None:
        """Note a NumPy argument used as the key of a container: its values decide what is found."""
        for each in key if type(key) is tuple else (key,):
            if self.is_input(each):
                self.recorder.look_at_array()

    def original(self, value: Any) -> Any:
        """The argument for a stand-in, the float for a Number; other values as they are.

        It is stored in an object that outlives the call, where other code will read it.
        """
        return self.recorder.in_argument(value) if self.is_input(value) else plain(value)

    def dict_item(self, owner: Any, key: Any, path: str) -> Any:
        name = f"{path}[{short(key)}]"
        try:
            is_there = dict.__contains__(owner, key)
        except TypeError:
            return owner[key]
        if is_there:
            value = owner[key]
            self.reads.entry(owner, key, value, name)
            self.name(value, name)
            return value
        self.reads.entry(owner, key, ABSENT, name)
        if isinstance(owner, collections.defaultdict) and owner.default_factory is not None:
            self.changes(owner)
        self.prepare(owner)
        return owner[key]

    def list_item(self, owner: Any, key: Any, path: str) -> Any:
        if not isinstance(key, int):
            self.contents(owner, shallow=True)
            value = owner[key]
            return self.mark(value) if isinstance(key, slice) else value
        try:
            value = owner[key]
        except IndexError:  # as the length decides
            self.reads.length(owner, path)
            self.keep.append(owner)
            raise
        name = f"{path}[{key}]"
        real = value.group if isinstance(value, Options) else value

        def same() -> bool:
            try:
                now = owner[key]
            except IndexError:
                return False
            return now is real or is_same(now, real)

        self.reads.check(("item", id(owner), key), same, name)
        if key < 0:
            self.reads.length(owner, path)
        self.keep.append(owner)
        self.name(value, name)
        return value

    def contents(self, value: Any, shallow: bool = False, depth: int = 0) -> None:
        """Guard the items of a container that existed before this call."""
        if value is None or isinstance(value, (*PLAIN, TensorBase)):
            if type(value) is Number:
                self.recorder.looks_at_numbers = True
            return
        kind = type(value)
        is_known = not self.is_new(value)
        if depth > 50:
            self.give_up("it uses containers that are nested too deep")
            return
        inner: Any = ()
        name = self.path(value)
        if isinstance(value, (list, tuple, set, frozenset, collections.deque, dict)):
            if len(value) > MOST_ITEMS:
                self.give_up(f"it uses a {kind.__name__} with {len(value)} elements")
                return
            inner = list(dict.values(value)) if isinstance(value, dict) else list(value)
            if isinstance(value, Options):
                for key in value:
                    self.item(value, key)
                inner = ()
            elif is_known:
                self.guard_items(value, name)
        elif kind in VIEWS_OF_DICTS:
            self.contents(gc.get_referents(value)[0], shallow, depth + 1)
        elif isinstance(value, (bytearray, memoryview, array.array)):
            if is_known and not self.reads.buffer(value, name):
                self.give_up(f"it reads a {kind.__name__} of {len(value)} elements")
        elif isinstance(value, np.ndarray):
            if self.is_input(value):
                self.recorder.look_at_array()
                return
            if is_known and not self.reads.array(value, name):
                self.give_up(f"it reads a NumPy array of {value.nbytes} bytes")
            self.keep.append(value)
            return
        elif isinstance(value, Module):
            self.look_at_module(value)
            return
        elif isinstance(value, (type, types.FunctionType, types.MethodType)):
            self.prepare(value)
            return
        elif isinstance(value, functools.partial):
            self.prepare(value)
            if isinstance(value.func, C_CALLABLES):
                for each in (value.func, *value.args, *value.keywords.values()):
                    self.contents(each, False, depth + 1)
            return
        elif isinstance(value, C_CALLABLES):
            self.in_c(value)
            return
        elif isinstance(value, (operator.attrgetter, operator.methodcaller)):
            self.give_up(f"it hands on an operator.{kind.__name__}")
            return
        elif hasattr(value, "__next__"):
            if is_known:
                self.give_up(f"it can take values from the iterator {name}")
            return
        elif kind not in BUILTIN_TYPES:
            self.prepare(value)
            self.look_at_ours(value)
            is_seen = kind.__flags__ & MADE_BY_PYTHON or is_ours(kind) or isinstance(value, OPAQUE)
            if is_known and not is_seen:
                self.give_up(f"it reads a {kind.__name__}, a class that is not known")
            return
        self.keep.append(value) if is_known else None
        for i, each in enumerate(inner):
            if not isinstance(each, (*PLAIN, TensorBase)):
                self.name(each, f"{name}[{i}]")
                if not shallow:
                    self.contents(each, False, depth + 1)
                else:
                    self.prepare(each)

    def look_at_ours(self, owner: Any) -> None:
        """Guard the attributes of an object of this package's classes, which run without hooks."""
        inside = instance_dict(owner)
        if not inside or self.is_new(owner) or isinstance(owner, LOOKED_AT_OTHERWISE):
            return
        if not any([is_ours(base) for base in type(owner).__mro__]) or "__wrapped__" in inside:
            return
        if is_kept_apart(owner) or not self.reads.is_new("ours", id(owner)):
            return
        self.keep.append(owner)
        tensors = [v for v in inside.values() if isinstance(v, TensorBase) and not v._special]
        if any([self.recorder.is_made(t._array) for t in tensors]):
            return  # of this call
        for key, value in list(inside.items()):
            name = f"{self.path(owner)}.{key}"
            self.reads.entry(inside, key, value, name)
            self.name(value, name)
            if isinstance(value, (list, tuple, dict, set)):
                self.contents(value)
            else:
                self.look_at_ours(value)

    def in_c(self, function: Any) -> None:
        """A function in C is handed to something that may call it, with arguments unseen."""
        raise NotImplementedError

    def guard_items(self, value: Any, name: str) -> None:
        if isinstance(value, dict):
            self.reads.dict_items(value, name)
        elif isinstance(value, list):
            if any([isinstance(each, Options) for each in value]):
                self.reads.length(value, name)
            else:
                self.reads.list_items(value, name)
        elif isinstance(value, set):
            self.reads.set_items(value, name)
        elif isinstance(value, collections.deque):
            self.reads.queue_items(value, name)

    def modulo(self, left: Any, right: Any) -> Any:
        """`left % right`; a text on the left reads floats unnoticed."""
        for each in (left, right):
            if not isinstance(each, (*PLAIN, TensorBase)):
                self.contents(each)
        given = right.values() if isinstance(right, dict) else right
        given = given if isinstance(right, (tuple, dict)) else (right,)
        if isinstance(left, (str, bytes)) and any([type(each) is Number for each in given]):
            self.recorder.looks_at_numbers = True
        return left % right

    def truth(self, value: Any) -> Any:
        """`bool(value)` in a condition: guard what it depends on."""
        if isinstance(value, (list, dict, set, collections.deque)) and not self.is_new(value):
            self.reads.length(value, self.path(value))
        elif not isinstance(value, (*PLAIN, TensorBase)):
            self.contents(value)
        return value

    def iterate(self, value: Any) -> Any:
        if isinstance(value, (TensorBase, str, range)) or type(value) is tuple:
            return value
        self.contents(value, shallow=True)
        return value

    def watched(self, values: Any) -> Any:
        """The elements that C code takes from an iterator; what is in them is guarded."""
        for each in values:
            self.contents(each)
            yield each

    def contains(self, item: Any, owner: Any) -> bool:
        if isinstance(owner, dict) and type(owner).__contains__ is dict.__contains__:
            if not self.is_new(owner):
                name = f"{self.path(owner)}[{short(item)}]"
                is_there = dict.__contains__(owner, item)
                self.reads.check(
                    ("in", id(owner), type(item), item),
                    lambda: dict.__contains__(owner, item) is is_there,
                    name,
                )
                self.keep.append(owner)
                return is_there
        else:
            self.contents(owner)
        self.contents(item)
        return item in (self.watched(owner) if hasattr(owner, "__next__") else owner)


def is_computed_in_c(found: Any) -> bool:
    """Whether a descriptor runs no function with source: each replay asks it again."""
    if isinstance(found, property):
        return not isinstance(found.fget, types.FunctionType)
    return type(found) in (types.MemberDescriptorType, types.GetSetDescriptorType)
