"""Functions, classes and modules that a recorded call is about to use: their code gets hooks."""

from __future__ import annotations

import contextlib
import functools
import gc
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...core.base import PACKAGE
from ...core.tensor_lists import same_hooks
from ...nn.modules._hooks import GLOBAL
from ...nn.modules.module import Module
from .hooks import HOOKS, LIBRARY_HOOKS
from .instrumented import instrumented, is_instrumented, original_of
from .object_kinds import (
    BUILTIN_TYPES,
    MADE_BY_PYTHON,
    OWN,
    PLAIN,
    WEAKREF_FILES,
    import_around,
    is_called_by_user,
    is_of_a_tuple,
    is_ours,
    is_written_by_python,
)
from .reachable import NUMPY, globals_in, is_library_file
from .reads import ABSENT, Reads, cell_contents, class_dict, instance_dict
from .swapped_code import CURRENT, SWAPS, unheard

# What modules keep beside hooks, which are looked at themselves, and what is not for calls.
BESIDE = frozenset(
    """
    _compiled_call_impl _forward_hooks_with_kwargs _forward_hooks_always_called
    _forward_pre_hooks_with_kwargs _is_full_backward_hook _non_persistent_buffers_set
    """.split()
)
LOOKS_UNSEEN = frozenset(("math", "cmath", "numpy", "struct", "statistics"))


class Told:
    """The notes of a recorded call: what it has read and made so far, and its functions."""

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
        self.calls_others = False  # functions that may look at a number unseen
        self.leaf_hooks: list[tuple[Any, Any]] = []  # leaves, and their hooks
        # By id: modules whose mode was set, what it was before, and where that happened.
        self.modes: dict[int, tuple[Any, Any, Any, Any]] = {}
        self.function = function
        self.arguments = arguments
        self.known_before = learned
        self.keep: list[Any] = []  # objects whose ids are keys

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
        """The expression by which the user's code reached an object, for messages."""
        return self.paths.get(id(value)) or f"a {type(value).__name__}"

    def name(self, value: Any, name: str) -> None:
        self.calls_others = self.calls_others or may_look_unseen(value)
        if not isinstance(value, PLAIN):
            self.paths.setdefault(id(value), name)

    def contents(self, value: Any, shallow: bool = False, depth: int = 0) -> None:
        """Guard what is in a container, as far as it was there before this call."""
        raise NotImplementedError

    def find_in(self, mro: Any, name: str) -> Any:
        """The attribute that classes have under a name, guarded; ABSENT if none of them has it."""
        raise NotImplementedError


class Prepared(Told):
    """Makes functions run instrumented code, and guards the variables that they name."""

    @unheard
    def prepare(self, value: Any) -> None:
        """Make a callable, or the methods of an object, run instrumented code for any caller."""
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
        """Called when instrumented code first runs: guard the variables that its functions name."""
        if id(code) not in self.ran:
            self.ran.add(id(code))
            for function in self.by_code.get(id(code), ()):
                self.guard_function(function, original_of(code))

    def guard_function(self, function: types.FunctionType, code: types.CodeType) -> None:
        """Guard the closure of a function, the globals that it names, and its defaults."""
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
        """Make the methods of a class run instrumented; Python calls some of them implicitly."""
        if id(cls) in self.classes:
            return
        self.classes.add(id(cls))
        is_called_by_us = any([is_ours(base) for base in cls.__mro__])  # unseen, by any name
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
                if found and (is_called_by_us or key.startswith("__")):
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
        name = code.co_qualname
        if is_written_by_python(code):  # by `dataclass`
            name = f"{type(next(iter(frame.f_locals.values()), None)).__name__}.{code.co_name}"
        self.give_up(f"what {name} reads is not seen")
        return True

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
        # What code of this package, which runs without hooks, may read of it.
        own = all([base in Module.__mro__ for base in type(module).__mro__ if is_ours(base)])
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

    def guard_hooks(self, leaves: list[Any], owners: list[Any]) -> None:
        """Guard the hooks of leaves, optimizers and schedulers, which run as part of the call."""
        for t in leaves:
            hooks = None if t._node is None else t._node._hooks
            self.leaf_hooks.append((t, hooks))
            if hooks is not None:
                for each in dicts_of(hooks):
                    self.hooks(each, "the hooks of a tensor", self.prepare)
        for owner in owners:
            for key, value in (instance_dict(owner) or {}).items():
                if key.endswith("_hooks") and isinstance(value, dict):
                    self.hooks(value, f"{self.path(owner)}.{key}")

    def guard_nodes(self) -> None:
        """Guard which hooks leaves have, where the call sets their gradients."""
        known = [(t, hooks) for t, hooks in self.leaf_hooks if id(t) in self.recorder.leaves]
        for _, hooks in known:
            for each in [] if hooks is None else dicts_of(hooks):
                self.hooks(each, "the hooks of a tensor")
        if known:
            self.reads.check(("leaf hooks",), lambda: same_hooks(known), "the hooks of a tensor")

    def hooks(self, hooks: Any, name: str, look: Any = None) -> None:
        """Guard which hooks there are, and what they are (`look`: which may not run at all)."""
        self.reads.length(hooks, name)
        for key, value in list(hooks.items()):
            self.reads.entry(hooks, key, value, name)
            (look or self.contents)(value)


def dicts_of(hooks: Any) -> list[Any]:
    """The dicts in which a leaf's hooks are."""
    both = hooks.before_node, hooks.after_node, hooks.accumulated_hooks
    return [*hooks.tensor.values(), *both]


def may_look_unseen(value: Any) -> bool:
    """Whether a value is a function in C (or a module of them), or a number or an array of NumPy's:
    they may read a float unnoticed."""
    if isinstance(value, types.ModuleType):
        return value.__name__.partition(".")[0] in LOOKS_UNSEEN
    return isinstance(value, (types.BuiltinFunctionType, np.ufunc, np.inexact))
