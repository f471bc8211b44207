"""What Python's state a recorded call reads and changes, seen exactly.

While a call is recorded, the user's functions run instrumented code (`instrumented.py`), and its
hooks end up here. What is read of objects that were there before the call becomes a guard
(`reads.py`). What is stored in them is an effect that a replay would not repeat: the recorder gives
up with the line, and the function is cut there. A call is made if it is known what it reads and
does: functions with source run instrumented, functions of this package and the builtins of
`vetted.py` are told apart by what they look at, and anything else is a cut.

Objects are taken to have been there before unless they are known to be new: a guard on an object of
this call always holds, while a missing guard would be wrong.
"""

from __future__ import annotations

import _weakrefset
import array
import collections
import contextlib
import contextvars
import decimal
import enum
import functools
import gc
import operator
import random
import re
import sys
import threading
import types
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...autograd.function import FunctionCtx
from ...core.base import PACKAGE, TensorBase
from ...core.locks import new_rlock
from ...nn.modules._hooks import GLOBAL
from ...nn.modules.module import Module
from .. import PURE_MARK
from . import vetted
from .caught import CaughtStep
from .guards import BESIDE, NUMPY, globals_in, is_kept_apart, is_library_file, is_same, static
from .instrumented import instrumented, is_instrumented, original_of
from .reads import ABSENT, MOST_ITEMS, Reads, cell_contents, class_dict, instance_dict
from .symbolic_floats import Number, Options

PLAIN = (bool, int, float, complex, str, bytes, type(None))
BUILTIN_TYPES = frozenset(
    (
        *(*vetted.CONSTANT, *vetted.CONTAINERS, collections.OrderedDict, collections.defaultdict),
        *(types.GeneratorType, types.BuiltinFunctionType, memoryview, property),
        *(type({}.items()), type({}.keys()), type({}.values()), zip, map, enumerate, filter),
    )
)
C_CALLABLES = (
    *(types.BuiltinFunctionType, types.MethodWrapperType, types.WrapperDescriptorType),
    *(types.MethodDescriptorType, types.ClassMethodDescriptorType),
)
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
MADE_BY_PYTHON = 1 << 9  # the flag of classes of `class` statements
# The files whose functions run in the place of the user's own expressions.
HOOK_FILES = frozenset(
    f"{__file__.removesuffix('python_state.py')}{name}.py"
    for name in ("caught", "instrumented", "python_state", "reads", "vetted")
)
OWN = ("tapegrad", "torch")
WEAKREF_FILES = frozenset((weakref.__file__, _weakrefset.__file__))


class Current(threading.local):
    """The state that hears the hooks of a thread; None: they do what the code says."""

    state: PythonState | None = None
    is_busy = False


CURRENT = Current()


class Swaps:
    """Functions that have instrumented code right now, for any number of recordings."""

    def __init__(self) -> None:
        self.lock = new_rlock()
        self.held: dict[int, list[Any]] = {}  # by id: function, its own code, how often

    def put(self, function: types.FunctionType, code: types.CodeType) -> None:
        with self.lock:
            found = self.held.setdefault(id(function), [function, function.__code__, 0])
            found[2] += 1
            if found[2] == 1:
                function.__code__ = code

    def take_back(self, function: types.FunctionType) -> None:
        with self.lock:
            found = self.held[id(function)]
            found[2] -= 1
            if not found[2]:
                del self.held[id(function)]
                function.__code__ = found[1]


SWAPS = Swaps()


def unheard(method: Any) -> Any:
    """A method during which nothing of the user's runs: hooks that it meets hear nothing."""

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        before, CURRENT.state = CURRENT.state, None
        self.trusting += 1
        try:
            return method(self, *args, **kwargs)
        finally:
            self.trusting -= 1
            CURRENT.state = before

    return call


class PythonState:
    """A block in which the state of Python is heard, for one recorder."""

    def __init__(
        self, recorder: Any, function: Any, arguments: Any, learned: Any = (), is_told: bool = False
    ) -> None:
        self.recorder = recorder
        self.is_told = is_told  # when a function starts: `started` is called
        self.by_code: dict[int, list[types.FunctionType]] = {}  # functions with instrumented code
        self.ran: set[int] = set()  # ids of instrumented code that ran
        self.reads = Reads()
        self.new: set[int] = set()  # ids of objects that this call made; see `is_new`
        self.stored: set[Any] = set()  # options of optimizers that the call has set
        self.swapped: dict[int, types.FunctionType] = {}
        self.unknown: set[int] = set()  # ids of functions without source
        self.made_functions: list[Any] = []
        self.classes: set[int] = set()  # that were prepared
        self.modules: dict[int, Any] = {}  # of this package's classes that were looked at
        self.paths: dict[int, str] = {}
        self.learned: list[Any] = []  # functions that ran without hooks
        self.trusting = 0  # functions that are called as they are, of which all is known
        self.looks_at_gradients = False
        self.function = function
        self.arguments = arguments
        self.known_before = learned
        self.keep: list[Any] = []  # objects whose ids are keys

    def __enter__(self) -> PythonState:
        self.outer, CURRENT.state = CURRENT.state, self
        try:
            for each in (*self.known_before, self.function, *self.arguments):
                self.prepare(each)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        CURRENT.state = self.outer
        for function in self.swapped.values():
            SWAPS.take_back(function)
        for reference in self.made_functions:
            function = reference()
            if function is not None:
                function.__code__ = original_of(function.__code__)
        self.swapped.clear()
        self.reads.settle()

    def run(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Call the function that is recorded."""
        if isinstance(function, (types.FunctionType, types.MethodType)):
            return self.call(function, args, kwargs)
        self.prepare(function)
        return function(*args, **kwargs)

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """A block in which the recorder works, and nothing of the user's runs."""
        before, CURRENT.state = CURRENT.state, None
        self.trusting += 1
        try:
            yield
        finally:
            self.trusting -= 1
            CURRENT.state = before

    # ------------------------------------------------------------------ what is told

    @unheard
    def give_up(self, reason: str) -> None:
        self.recorder.give_up(reason)

    def changes(self, owner: Any, what: str = "") -> None:
        self.give_up(f"it changes {self.path(owner)}{what}")

    def is_new(self, value: Any) -> bool:
        """Whether the call made an object.

        Ids are enough: an id of this call can only be given again to something of this call.
        """
        return id(value) in self.new

    def mark(self, value: Any) -> Any:
        self.new.add(id(value))
        return value

    def path(self, value: Any) -> str:
        """What an object is called in the user's code."""
        return self.paths.get(id(value)) or f"a {type(value).__name__}"

    def name(self, value: Any, name: str) -> None:
        if not isinstance(value, PLAIN):
            self.paths.setdefault(id(value), name)

    # ------------------------------------------------------------------ functions

    @unheard
    def prepare(self, value: Any) -> None:
        """Have a callable, or the methods of an object, run instrumented whoever calls them."""
        kind = type(value)
        if kind is types.FunctionType:
            self.enter(value)
        elif kind is types.MethodType:
            self.prepare(value.__func__)
            self.prepare(value.__self__)
        elif isinstance(value, type):
            self.prepare_class(value)
        elif isinstance(value, Module):
            self.look_at_module(value)
        elif kind is functools.partial:
            self.prepare(value.func)
            for each in (*value.args, *value.keywords.values()):
                self.prepare(each)
        elif isinstance(value, (staticmethod, classmethod)):
            self.prepare(value.__func__)
        elif kind.__module__.partition(".")[0] in OWN:
            inner = getattr(value, "__dict__", {}).get("__wrapped__")
            if isinstance(inner, (types.FunctionType, types.MethodType)):
                self.prepare(inner)  # a compiled function
        elif kind not in BUILTIN_TYPES:
            self.prepare_class(kind)

    @unheard
    def enter(self, function: types.FunctionType, own: bool = False) -> bool:
        """Swap the code of a function, and guard the variables that it names. False: it cannot."""
        key = id(function)
        if key in self.swapped:
            return True
        if key in self.unknown:
            return False
        code = function.__code__
        if code.co_filename.startswith((PACKAGE, NUMPY)) and not own:
            return False
        if is_instrumented(code) and key not in SWAPS.held:
            return True  # made in this call
        hooks = LIBRARY_HOOKS if is_library_file(code.co_filename) and not own else HOOKS
        made = code if is_instrumented(code) else instrumented(function, hooks)
        if made is None:
            self.unknown.add(key)
            self.keep.append(function)
            return False
        self.swapped[key] = function
        self.by_code.setdefault(id(made), []).append(function)
        if not self.is_told or id(made) in self.ran:
            self.guard_function(function, original_of(code))
        SWAPS.put(function, made)
        return True

    def started(self, code: types.CodeType) -> None:
        """Instrumented code runs for the first time: what its functions name counts from now on."""
        if id(code) not in self.ran:
            self.ran.add(id(code))
            for function in self.by_code.get(id(code), ()):
                self.guard_function(function, original_of(code))

    def guard_function(self, function: types.FunctionType, code: types.CodeType) -> None:
        """The variables around a function, the globals that it names, and its defaults."""
        reads = self.reads
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            value = cell_contents(cell)
            if reads.is_new("cell", id(cell)) and not self.is_new(cell):
                reads.cells.append((cell, value, f"`{name}`"))
                self.name(value, f"`{name}`")
        around = function.__globals__
        builtin = function.__builtins__
        for name in globals_in(code):
            value = around.get(name, ABSENT)
            reads.entry(around, name, value, f"`{name}`")
            if value is ABSENT and name in builtin:
                reads.entry(builtin, name, builtin[name], f"`{name}`")
            self.name(value, f"`{name}`")
        reads.function(function)
        if function.__kwdefaults__:
            reads.dict_items(function.__kwdefaults__, f"a default of {function.__name__}")

    def prepare_class(self, cls: type) -> None:
        """Have the methods of a class run instrumented; they are called behind the scenes, too."""
        if id(cls) in self.classes:
            return
        self.classes.add(id(cls))
        if cls.__flags__ & MADE_BY_PYTHON and not is_ours(cls):
            self.reads.order(cls)
        for base in cls.__mro__:
            root = (getattr(base, "__module__", "") or "").partition(".")[0]
            if root in ("builtins", "numpy", *OWN):
                continue
            self.keep.append(base)
            contents = class_dict(base)
            for key, value in list(contents.items()):
                found = self.enter_member(value)
                if found and key.startswith("__"):
                    self.reads.class_entry(base, key, f"{base.__name__}.{key}")
            self.reads.length(contents, f"{base.__name__}.__dict__")

    def enter_member(self, value: Any) -> bool:
        parts: list[Any] = [value]
        if isinstance(value, property):
            parts = [value.fget, value.fset, value.fdel]
        elif isinstance(value, functools.cached_property):
            parts = [value.func]
        elif isinstance(value, (staticmethod, classmethod)):
            parts = [value.__func__]
        found = [each for each in parts if type(each) is types.FunctionType]
        for each in found:
            self.enter(each)
        return bool(found)

    def notice(self, frame: Any) -> bool:
        """A function that is not this package's runs without hooks: are its reads missing?"""
        code = frame.f_code
        if self.trusting or code.co_filename in WEAKREF_FILES or is_of_a_tuple(frame):
            return False  # callbacks of weak references come at any time
        importing = import_around(frame)
        if importing is not None:
            if is_called_by_user(importing):
                self.give_up("it imports something")
            return False
        is_pythons = is_library_file(code.co_filename) or is_written_by_python(code)
        if is_pythons and not is_called_by_user(frame.f_back):
            return False
        if self.recorder.trouble:
            return True
        found = [f for f in gc.get_referrers(code) if type(f) is types.FunctionType]
        for function in found:
            if id(function) not in self.unknown:
                self.learned.append(function)
        if id(code) not in self.unknown:
            self.unknown.add(id(code))
            self.keep.append(code)
        self.give_up(f"what {code.co_qualname} reads is not seen")
        return True

    # ------------------------------------------------------------------ reading

    def attr(self, owner: Any, name: str) -> Any:
        kind = type(owner)
        if kind in BUILTIN_TYPES:
            return getattr(owner, name)
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
            is_slot = type(found) in (types.MemberDescriptorType, types.GetSetDescriptorType)
            if known and is_slot and name != "__dict__":

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
        """What classes have under a name, with guards on where it was found, and where not."""
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
            self.give_up(f"it reads {owner.__name__}.{name}, which a function makes up")
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
            self.contents(key)
            return owner[key]
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
        value = owner[key]
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
        """Guard what is in a container, as far as it was there before this call."""
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
            if is_known:
                self.contents(gc.get_referents(value)[0], shallow, depth + 1)
        elif isinstance(value, (bytearray, memoryview, array.array)):
            if is_known and not self.reads.buffer(value, name):
                self.give_up(f"it reads a {kind.__name__} of {len(value)} elements")
        elif isinstance(value, np.ndarray):
            if is_known and not self.reads.array(value, name):
                self.give_up(f"it reads a NumPy array of {value.nbytes} bytes")
            self.keep.append(value)
            return
        elif isinstance(value, Module):
            self.look_at_module(value)
            return
        elif isinstance(value, (type, types.FunctionType, types.MethodType, functools.partial)):
            self.prepare(value)
            return
        elif hasattr(value, "__next__"):
            if is_known:
                self.give_up(f"it can take values from the iterator {name}")
            return
        elif kind not in BUILTIN_TYPES:
            self.prepare(value)
            is_seen = kind.__flags__ & MADE_BY_PYTHON or is_ours(kind) or isinstance(value, OPAQUE)
            if is_known and not is_seen:
                self.give_up(f"it reads a {kind.__name__}, of which nothing is known")
            return
        self.keep.append(value) if is_known else None
        for i, each in enumerate(inner):
            if not isinstance(each, (*PLAIN, TensorBase)):
                self.name(each, f"{name}[{i}]")
                if not shallow:
                    self.contents(each, False, depth + 1)
                else:
                    self.prepare(each)

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

    def truth(self, value: Any) -> Any:
        """Something whose truth is asked for."""
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
        return item in owner

    # ------------------------------------------------------------------ storing

    def set_attr(self, value: Any, owner: Any, name: str) -> None:
        if isinstance(owner, TensorBase):
            is_op = self.find_in(type(owner).__mro__, name) is not ABSENT
            if not is_op and not self.recorder.is_made(owner._array):
                self.give_up(f"it changes .{name} of a tensor")
        elif isinstance(owner, Module) and not self.is_new(owner):
            if not self.is_same_attr(owner, name, value):
                self.changes(owner, f".{name}")
        elif isinstance(owner, FunctionCtx) and not getattr(owner, "_outputs", None):
            self.mark(owner)  # `forward` of a Function is running, for which it was made
        elif not self.is_new(owner):
            found = None if isinstance(owner, type) else self.find_in(type(owner).__mro__, name)
            setter = found.fset if isinstance(found, property) else None
            if isinstance(setter, types.FunctionType) and self.enter(setter):
                pass  # what it does is seen
            elif not self.has_own_setter(owner):
                self.changes(owner, f".{name}")
            value = plain(value)
        setattr(owner, name, value)

    def has_own_setter(self, owner: Any) -> bool:
        """Whether `__setattr__` of the user's class sees to what is stored."""
        if isinstance(owner, (type, types.ModuleType)):
            return False
        found = type(owner).__setattr__
        return isinstance(found, types.FunctionType) and self.enter(found)

    def is_same_attr(self, owner: Any, name: str, value: Any) -> bool:
        """Whether an attribute is set to what it is, and is guarded as that."""
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
            self.contents(key)
            self.contents(value)
        elif isinstance(owner, Options):
            self.stored.add((id(owner.group), key))
        elif not self.is_new(owner):
            setter = getattr(type(owner), "__setitem__", None)
            if not (isinstance(setter, types.FunctionType) and self.enter(setter)):
                self.changes(owner, f"[{short(key)}]")
            value = plain(value)
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

    # ------------------------------------------------------------------ calling

    def call(self, function: Any, args: Any, kwargs: Any) -> Any:
        kind = type(function)
        if kind is types.FunctionType:
            return self.call_function(function, None, function, args, kwargs)
        if kind is types.MethodType:
            inner = function.__func__
            if type(inner) is types.FunctionType:
                return self.call_function(inner, function.__self__, function, args, kwargs)
            if (getattr(function, "__module__", None) or "").startswith("numpy"):
                return self.call_numpy(function, args, kwargs)
            return self.call(inner, (function.__self__, *args), kwargs)
        elif kind in C_CALLABLES:
            return self.call_in_c(function, args, kwargs)
        elif isinstance(function, type):
            return self.construct(function, args, kwargs)
        elif isinstance(function, Module):
            self.given(args, kwargs)
            self.look_at_module(function)
        elif kind is functools.partial:
            if not self.is_new(function):
                self.contents(function.args)
                self.contents(function.keywords)
            return self.call(
                function.func, (*function.args, *args), {**function.keywords, **kwargs}
            )
        elif kind is np.ufunc or kind.__module__.startswith("numpy"):
            return self.call_numpy(function, args, kwargs)
        elif kind is CaughtStep:
            pass  # the recorder is told
        elif isinstance(function, weakref.ReferenceType):
            return self.follow(function)
        elif isinstance(static(function, "__call__"), types.FunctionType):
            self.prepare(function)
            if is_ours(kind):
                self.given(args, kwargs)
        else:
            self.give_up(f"it calls {name_of(function)}, whose effects are not known")
        return function(*args, **kwargs)

    def call_function(self, base: Any, owner: Any, function: Any, args: Any, kwargs: Any) -> Any:
        file = base.__code__.co_filename
        if PURE_MARK in base.__dict__:
            self.given(args, kwargs)
            return self.trusted(function, args, kwargs)
        if file.startswith(PACKAGE):
            return self.call_library(base, owner, function, args, kwargs)
        if file.startswith(NUMPY):
            return self.call_numpy(function, args, kwargs)
        if not self.enter(base):
            if is_generated(base, owner):
                self.given(args, kwargs)
                return self.trusted(function, args, kwargs)
            self.give_up(f"the source of {base.__qualname__} is not known")
        made = function(*args, **kwargs)
        return self.mark(made) if type(made) is types.GeneratorType else made

    def trusted(self, function: Any, args: Any, kwargs: Any) -> Any:
        self.trusting += 1
        try:
            return function(*args, **kwargs)
        finally:
            self.trusting -= 1

    def given(self, args: Any, kwargs: Any) -> None:
        """Guard what is in arguments of functions that run without hooks."""
        for each in (*args, *kwargs.values()):
            if not isinstance(each, TensorBase) and type(each) is not Number:
                self.contents(each)

    def call_library(self, base: Any, owner: Any, function: Any, args: Any, kwargs: Any) -> Any:
        """A function or method of this package."""
        name = base.__name__
        self.given(args, kwargs)
        if name == "__init__" or isinstance(owner, TensorBase):
            made = function(*args, **kwargs)
            return self.mark(made) if type(made) is list else made
        if isinstance(owner, Module):
            return self.call_module_method(name, owner, function, args, kwargs)
        if owner is not None and is_kept_apart(owner):
            if name not in ("step", "zero_grad", "scale_loss"):
                self.enter(base, own=True)
            return function(*args, **kwargs)
        acts = name.startswith(vetted.LIBRARY_ACTS) or name in vetted.LIBRARY_FILES
        if acts and name not in vetted.LIBRARY_SEEN:
            self.give_up(f"it calls {name}()")
        inner = base.__closure__ or ()
        for cell in inner:  # a wrapper around a function of the user's
            value = cell_contents(cell)
            if callable(value):
                self.prepare(value)
        made = function(*args, **kwargs)
        if owner is None and name.startswith(vetted.ASKS) and name not in vetted.OF_THE_COMPILER:
            self.asked(function, args, kwargs, made)
        return self.mark(made) if type(made) in (list, types.GeneratorType) else made

    def asked(self, function: Any, args: Any, kwargs: Any, answer: Any) -> None:
        """A setting of this package was asked for: it is asked for again before each replay."""
        given = (*args, *kwargs.values())
        if not isinstance(answer, PLAIN) or any([isinstance(v, TensorBase) for v in given]):
            return
        key = ("asked", id(function), *map(repr, given))
        self.reads.check(
            key, lambda: is_same(function(*args, **kwargs), answer), f"{function.__name__}()"
        )

    def call_module_method(
        self, name: str, owner: Any, function: Any, args: Any, kwargs: Any
    ) -> Any:
        self.look_at_module(owner)
        if name in ("train", "eval") and not self.is_new(owner):
            mode = name == "train" and (args[0] if args else kwargs.get("mode", True))
            if any([each.training is not mode for each in owner.modules()]):
                self.changes(owner, ".training")
        elif name not in vetted.MODULE_READS and not self.is_new(owner):
            if name.startswith(vetted.LIBRARY_ACTS):
                self.changes(owner)
        made = function(*args, **kwargs)
        return self.mark(made) if type(made) in FRESH else made

    def call_numpy(self, function: Any, args: Any, kwargs: Any) -> Any:
        name = getattr(function, "__name__", type(function).__name__)
        owner = getattr(function, "__self__", None)
        module = getattr(function, "__module__", None) or type(owner).__module__ or ""
        if "random" in module or "random" in type(owner).__module__:
            self.give_up("it draws NumPy's random numbers")
        elif name in vetted.NUMPY_ACTS or kwargs.get("out") is not None:
            if not args or not self.is_new(args[0]):
                self.give_up(f"it calls numpy.{name}()")
        self.given(args, kwargs)
        made = function(*args, **kwargs)
        return self.mark(made) if isinstance(made, np.ndarray) and made.base is None else made

    def follow(self, reference: Any) -> Any:
        self.give_up("it follows a weak reference")  # guards would keep the object alive
        return reference()

    def construct(self, cls: type, args: Any, kwargs: Any) -> Any:
        """A call of a class."""
        if id(cls) in vetted.PURE or cls in BUILTIN_TYPES:
            return self.call_in_c(cls, args, kwargs)
        self.prepare_class(cls)
        self.prepare_class(type(cls)) if type(cls) is not type else None
        own = cls.__init__
        is_ordinary = type(cls).__call__ is type.__call__ and cls.__new__ is object.__new__
        if is_ordinary and isinstance(own, types.FunctionType):
            if own.__code__.co_filename.startswith(PACKAGE) or not self.enter(own):
                self.given(args, kwargs)
                if not is_ours(cls) and not is_generated(own, None):
                    if not own.__code__.co_filename.startswith(PACKAGE):
                        self.give_up(f"the source of {own.__qualname__} is not known")
            made = self.mark(object.__new__(cls))
            own(made, *args, **kwargs)
            return made
        self.given(args, kwargs)
        if issubclass(cls, BaseException) or is_ours(cls) or is_plain_class(cls):
            made = cls(*args, **kwargs)
            return self.mark(made) if type(made) is cls and not is_ours(cls) else made
        made = cls(*args, **kwargs)
        if not isinstance(type(cls).__call__, types.FunctionType) and not is_ordinary:
            if not isinstance(cls.__new__, types.FunctionType):
                module = cls.__module__.partition(".")[0]
                if module not in ("collections", "types", "numpy", "weakref", "functools"):
                    self.give_up(f"it makes a {cls.__name__}, of which nothing is known")
                return self.mark(made)
        return made

    def call_in_c(self, function: Any, args: Any, kwargs: Any) -> Any:
        """A function in C, or a method of a type that is written in C."""
        name = getattr(function, "__name__", "")
        if id(function) in vetted.PURE:
            return self.call_builtin(function, name, args, kwargs)
        special = SPECIAL.get(id(function))
        if special is not None:
            return special(self, *args, **kwargs)
        owner, given = getattr(function, "__self__", None), args
        if owner is None or isinstance(owner, types.ModuleType):
            if type(function) in (types.WrapperDescriptorType, types.MethodDescriptorType) and args:
                owner, given = args[0], args[1:]
        if isinstance(owner, TensorBase):
            self.given(given, kwargs)
            return function(*args, **kwargs)
        if isinstance(owner, types.ModuleType) or owner is None:
            module = getattr(function, "__module__", None) or getattr(owner, "__name__", "")
            root = (module or "").partition(".")[0]
            if root in OWN:
                self.given(args, kwargs)
            elif root == "numpy":
                return self.call_numpy(function, args, kwargs)
            else:
                self.give_up(vetted.why_not_call(function, None, name))
            return function(*args, **kwargs)
        return self.call_method(function, name, owner, given, args, kwargs)

    def call_method(
        self, function: Any, name: str, owner: Any, given: Any, args: Any, kwargs: Any
    ) -> Any:
        if isinstance(owner, vetted.CONSTANT) and not isinstance(owner, type):
            self.given(given, kwargs)
            return function(*args, **kwargs)
        if isinstance(owner, vetted.CONTAINERS) and not (
            type(owner) not in BUILTIN_TYPES and name == "__init__" and self.is_new(owner)
        ):
            return self.call_container(function, name, owner, given, args, kwargs)
        if isinstance(owner, np.ndarray):
            if name in vetted.ARRAY_CHANGES and not self.is_new(owner):
                self.changes(owner)
            self.contents(owner)
            self.given(given, kwargs)
            made = function(*args, **kwargs)
            return self.mark(made) if isinstance(made, np.ndarray) and made.base is None else made
        if isinstance(owner, np.generic):
            self.given(given, kwargs)
            return function(*args, **kwargs)
        if isinstance(owner, contextvars.ContextVar) and name == "get":
            value = function(*args, **kwargs)
            self.reads.check(
                ("context", id(owner)), lambda: owner.get(UNSET) is value, f"`{owner.name}`"
            )
            if owner.get(UNSET) is UNSET:
                self.give_up("it asks a context variable without a value")
            self.keep.append(owner)
            return value
        if name in ("__init__", "__init_subclass__", "__new__", "__reduce__", "__enter__"):
            return self.mark(function(*args, **kwargs)) if name == "__new__" else function(*args)
        if name == "__getattribute__" and given:
            return self.object_attr(owner, given[0])
        if name == "__setattr__" and len(given) == 2:
            if not self.is_new(owner):
                self.changes(owner, f".{given[0]}")
            return function(*args, **kwargs)
        if name == "__delattr__" and not self.is_new(owner):
            self.changes(owner, f".{given[0]}")
            return function(*args, **kwargs)
        is_known_iterator = hasattr(owner, "__next__") and not self.is_new(owner)
        module = type(owner).__module__
        if isinstance(owner, random.Random):
            self.give_up("it draws Python's random numbers")
        elif isinstance(owner, type):
            if owner not in BUILTIN_TYPES and not issubclass(owner, TensorBase):
                if name not in ("mro", "__subclasses__", "__instancecheck__", "__prepare__"):
                    self.give_up(vetted.why_not_call(function, owner, name))
            self.given(given, kwargs)
        elif is_known_iterator:
            self.give_up(f"it can take values from the iterator {self.path(owner)}")
        elif name.startswith("__") and name in ("__eq__", "__ne__", "__hash__", "__repr__"):
            self.contents(owner)
        elif hasattr(owner, "__next__") or type(owner) in BUILTIN_TYPES or module == "re":
            self.given(given, kwargs)
        else:
            self.give_up(vetted.why_not_call(function, owner, name))
        return function(*args, **kwargs)

    def call_container(
        self, function: Any, name: str, owner: Any, given: Any, args: Any, kwargs: Any
    ) -> Any:
        if isinstance(owner, Options) and name in ("update", "__setitem__"):
            return function(*args, **kwargs)
        if name in vetted.CHANGES:
            if not self.is_new(owner):
                self.changes(owner)
                args = tuple(map(plain, args))
            self.given(given, kwargs) if name in ("extend", "update", "sort") else None
            return function(*args, **kwargs)
        if not self.is_new(owner):
            if name == "get" and isinstance(owner, dict) and not isinstance(owner, Options):
                key = given[0]
                value = dict.get(owner, key, ABSENT)
                self.reads.entry(owner, key, value, f"{self.path(owner)}[{short(key)}]")
                if value is ABSENT:
                    return function(*args, **kwargs)
                self.name(value, f"{self.path(owner)}[{short(key)}]")
                return value
            if name == "__getitem__" and isinstance(owner, dict):
                return self.dict_item(owner, given[0], self.path(owner))
            if name == "__contains__":
                return self.contains(given[0], owner)
            self.contents(owner, shallow=name in ("items", "keys", "values", "copy", "__iter__"))
        self.given(given, kwargs)
        made = function(*args, **kwargs)
        return self.mark(made) if name not in ("get", "__getitem__", "index", "count") else made

    def call_builtin(self, function: Any, name: str, args: Any, kwargs: Any) -> Any:
        if id(function) in vetted.IN_PLACE:
            if args and not isinstance(args[0], (*PLAIN, TensorBase)) and not self.is_new(args[0]):
                self.changes(args[0])
        if function is next and args and not self.is_new(args[0]):
            self.give_up(f"it can take values from the iterator {self.path(args[0])}")
        if function in (type, isinstance) and args:
            if not isinstance(args[0], (*PLAIN, TensorBase)) and not self.is_new(args[0]):
                self.reads.kind(args[0])
                self.keep.append(args[0])
            return function(*args, **kwargs)
        if any([type(each) is Number for each in args]) and function not in (min, max, sum):
            self.recorder.looks_at_numbers = True
        shallow = id(function) in vetted.SHALLOW
        for each in (*args, *kwargs.values()):
            if not isinstance(each, (*PLAIN, TensorBase)):
                if function is len and isinstance(each, (list, dict, set, collections.deque)):
                    if not self.is_new(each):
                        self.reads.length(each, self.path(each))
                        self.keep.append(each)
                else:
                    self.contents(each, shallow)
        made = function(*args, **kwargs)
        is_one_of_them = function in (next, min, max, sum, functools.reduce) or function is iter
        if not isinstance(made, PLAIN) and (not is_one_of_them or function is iter):
            if not any([made is each for each in args]):
                self.mark(made)
        return made

    # ------------------------------------------------------------------ modules of this package

    def look_at_module(self, module: Any) -> None:
        """Guard a module whose call runs without hooks: its attributes, its modules, its hooks.

        The methods of the user's classes among them run instrumented; what they read is seen.
        """
        if id(module) in self.modules:
            return
        if not self.modules:
            for key, hooks in vars(GLOBAL).items():
                if isinstance(hooks, dict):
                    self.hooks(hooks, f"the {key} hooks of all modules")
        self.modules[id(module)] = module
        self.prepare_class(type(module))
        self.reads.kind(module)
        inside = vars(module)
        own = not is_ours(type(module))
        path = self.path(module)
        self.find_in(type(module).__mro__, "forward")
        for key, value in list(inside.items()):
            if key in ("_modules", "_parameters", "_buffers"):
                self.reads.length(value, f"{path}.{key}")
                for child, each in value.items():
                    self.reads.entry(value, child, each, f"{path}.{child}")
                    self.name(each, f"{path}.{child}")
                    if key == "_modules" and each is not None:
                        self.look_at_module(each)
            elif key.endswith("_hooks") and isinstance(value, dict):
                self.hooks(value, f"{path}.{key}")
            elif key in BESIDE:
                continue
            elif not own:
                self.reads.entry(inside, key, value, f"{path}.{key}")
                self.contents(value)
        if "forward" in inside:
            self.prepare(inside["forward"])
        self.reads.entry(inside, "forward", inside.get("forward", ABSENT), f"{path}.forward")

    def hooks(self, hooks: Any, name: str) -> None:
        self.reads.length(hooks, name)
        for key, value in list(hooks.items()):
            self.reads.entry(hooks, key, value, name)
            self.prepare(value)

    # ------------------------------------------------------------------ other statements

    def context(self, value: Any) -> Any:
        kind = type(value)
        if not is_ours(kind):
            self.prepare(value)
            known = isinstance(getattr(kind, "__enter__", None), types.FunctionType)
            if not known and kind.__module__ not in ("_thread", "threading", "contextlib"):
                self.give_up(f"it uses `with` on a {kind.__name__}")
        return value

    def matched(self, value: Any) -> Any:
        if not isinstance(value, (*PLAIN, enum.Enum)):
            self.give_up("it matches an object")
        return value

    def imported(self, names: Any, module: Any, level: Any) -> None:
        around = sys._getframe(2).f_globals
        if level is None:
            for name in names:
                self.reads.entry(sys.modules, name, sys.modules.get(name, ABSENT), f"`{name}`")
            return
        full = module or ""
        if level:
            package = around.get("__package__") or ""
            parts = package.split(".")
            parts = parts[: len(parts) - level + 1]
            full = ".".join([*parts, *([module] if module else [])])
        found = sys.modules.get(full)
        if found is None:
            self.give_up(f"it imports {full}")
            return
        self.reads.entry(sys.modules, full, found, f"`{full}`")
        for name in names:
            if name == "*" or name not in vars(found):
                if not is_ours_by_name(full):
                    self.give_up(f"it imports {name} from {full}")
                continue
            self.module_attr(found, name)


UNSET = object()
# Objects of C that nobody can change, or that are looked at where they are called.
OPAQUE = (
    *(
        np.generic,
        np.dtype,
        np.ufunc,
        types.ModuleType,
        types.CodeType,
        types.GenericAlias,
        re.Pattern,
    ),
    *(types.BuiltinFunctionType, types.MethodWrapperType, types.WrapperDescriptorType, super),
    *(
        types.MethodDescriptorType,
        types.ClassMethodDescriptorType,
        types.UnionType,
        decimal.Decimal,
    ),
    *(type(np.mean), types.MappingProxyType, contextvars.ContextVar, functools.partial),
    *(operator.attrgetter, operator.itemgetter, operator.methodcaller),
)
FRESH = (list, dict, collections.OrderedDict, types.GeneratorType)  # what modules' methods make
VIEWS_OF_DICTS = (type({}.items()), type({}.keys()), type({}.values()))


def get_attribute(state: PythonState, owner: Any, name: str, *default: Any) -> Any:
    try:
        return state.attr(owner, name)
    except AttributeError:
        if default:
            return default[0]
        raise


def has_attribute(state: PythonState, owner: Any, name: str) -> bool:
    try:
        state.attr(owner, name)
    except AttributeError:
        return False
    return True


SPECIAL: dict[int, Any] = {
    id(getattr): get_attribute,
    id(hasattr): has_attribute,
    id(setattr): lambda state, owner, name, value: state.set_attr(value, owner, name),
    id(delattr): lambda state, owner, name: state.del_attr(owner, name),
    id(gc.collect): lambda state, *args, **kwargs: gc.collect(*args, **kwargs),
}


def plain(value: Any) -> Any:
    return float.__pos__(value) if type(value) is Number else value


def short(key: Any) -> str:
    return repr(key) if isinstance(key, PLAIN) else type(key).__name__


def super_mro(owner: Any) -> Any:
    kind = owner.__self_class__
    order = kind.__mro__
    return order[order.index(owner.__thisclass__) + 1 :]


def is_ours(cls: type) -> bool:
    return is_ours_by_name(cls.__module__ or "")


def is_ours_by_name(name: str) -> bool:
    return name.partition(".")[0] in OWN


def is_generated(function: Any, owner: Any) -> bool:
    """Whether a method was written by `dataclass` or `namedtuple`: it only takes attributes."""
    return function.__code__.co_filename.startswith(("<string>", "<attrs generated")) and (
        function.__name__ in ("__init__", "__new__", "__eq__", "__repr__", "__hash__", "_make")
    )


def is_written_by_python(code: types.CodeType) -> bool:
    """Whether code is that of a method which `dataclass` wrote."""
    return code.co_filename == "<string>" and code.co_qualname.startswith("__create_fn__.")


def is_of_a_tuple(frame: Any) -> bool:
    """Whether a function is one that `namedtuple` wrote: it makes a tuple, and nothing else."""
    return str(frame.f_globals.get("__name__", "")).startswith("namedtuple_")


def is_plain_class(cls: type) -> bool:
    """Whether instances are made by C alone, or by `dataclass`."""
    return (
        not isinstance(cls.__new__, types.FunctionType)
        and not isinstance(type(cls).__call__, types.FunctionType)
        and not isinstance(cls.__init__, types.FunctionType)
        and cls.__new__ is object.__new__
    )


def name_of(function: Any) -> str:
    return str(getattr(function, "__qualname__", type(function).__name__))


def import_around(frame: Any) -> Any:
    """The frame of Python's import system that led to a function; None if none did."""
    while frame is not None and not frame.f_code.co_filename.startswith(PACKAGE):
        if is_instrumented(frame.f_code):
            return None
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return frame
        frame = frame.f_back
    return None


def is_called_by_user(frame: Any) -> bool:
    """Whether instrumented code, and not this package, called a function of Python's library."""
    while frame is not None:
        name = frame.f_code.co_filename
        if name in HOOK_FILES:
            return True
        if name.startswith(PACKAGE):
            return False
        if not is_library_file(name):
            return True
        frame = frame.f_back
    return False


# ---------------------------------------------------------------------- the hooks


class Hooks:
    """The functions that instrumented code calls; without a recorder, they do what it says."""

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
    """A hook in a function of Python's library, which this package calls as well: then it rests."""

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
