"""Guards: the Python state that a recorded call could read, and whether it changed since.

A function reads more than its arguments: variables around it, globals, attributes of its modules.
`Guards` goes through all that can be reached from it and remembers the plain values and which
objects are where. A recording is used again while all of that is the same. A call that changes any
of it by itself (it counts, it appends to a list) has an effect that no recording would repeat.
"""

from __future__ import annotations

import collections
import dis
import enum
import functools
import operator
import os
import pickle
import random
import sys
import types
from typing import Any

import numpy as np

from ...core.base import TensorBase
from ...core.tensor_lists import same_hooks
from ...errors import evidence
from ...kernels.cpu import KERNELS
from ...nn.modules._hooks import GLOBAL
from ...nn.modules.module import Module
from .reads import ABSENT, Reads, cell_contents, instance_dict

DEEPEST = 4  # containers and objects inside each other
MOST_ITEMS = 512  # of a list or dict that are looked at
PLAIN = (bool, int, float, complex, str, bytes, type(None), enum.Enum, type)
# What modules keep beside hooks, which are looked at themselves, and what is not for calls.
BESIDE = frozenset(
    """
    _compiled_call_impl _forward_hooks_with_kwargs _forward_hooks_always_called
    _forward_pre_hooks_with_kwargs _is_full_backward_hook _non_persistent_buffers_set
    """.split()
)
LOOKS_UNSEEN = frozenset(("math", "cmath", "numpy", "struct", "statistics"))
# Who names one of these may look up any attribute.
BY_OTHER_NAMES = frozenset(
    ("getattr", "setattr", "hasattr", "vars", "__dict__", "attrgetter", "methodcaller")
)
KEPT = 4096  # code objects about which something is kept: every cell of a notebook has new ones
BETWEEN = frozenset(("CACHE", "EXTENDED_ARG", "NOP", "PUSH_NULL"))
ASKING = frozenset(
    ("autograd", "retain_grad", "register_hook", "register_multi_grad_hook", "GradientEdge")
)
MAKERS = ("__init__", "__new__", "__post_init__")  # of objects that are not there yet
NUMPY = os.path.dirname(np.__file__)


AT_FIRST = 623  # the word of its twister that NumPy begins with


def numpy_stream() -> Any:
    """The position of NumPy's global random stream; None if it was never used."""
    found = sys.modules.get("numpy.random")  # importing it takes megabytes
    return found.get_state(legacy=False) if hasattr(found, "get_state") else None


def has_moved(before: Any, now: Any) -> bool:
    """Whether NumPy's numbers were drawn between the two."""
    if before is not None:
        return pickle.dumps(before) != pickle.dumps(now)
    return now is not None and (now["state"]["pos"] < AT_FIRST or bool(now["has_gauss"]))


class Guards:
    """The state of Python around a function, as far as it can be seen.

    `executed`: the code that ran in a call; what others look at does not count.
    """

    def __init__(self, function: Any, arguments: Any = (), executed: Any = None) -> None:
        self.executed = executed
        self.entries: list[tuple[Any, Any, Any, str]] = []  # dict, key, value, what it is called
        self.cells: list[tuple[Any, Any, str]] = []
        self.lengths: list[tuple[Any, int, str]] = []
        self.items: list[tuple[Any, list[Any], str]] = []  # of lists
        self.sets: list[tuple[Any, list[Any], str]] = []
        self.queues: list[tuple[Any, list[Any], str]] = []
        self.attributes: list[tuple[Any, str, Any, str]] = []  # of the user's classes
        self.leaf_hooks: list[tuple[Any, Any]] = []  # leaves, and their hooks
        self.reads: Reads | None = None  # what instrumented code read
        self.tensors: list[Any] = []
        self.modules: list[Any] = []  # that are not inside of others
        self.kept_apart: list[Any] = []  # optimizers and schedulers
        self.trouble: str = ""
        self.calls_others = False  # functions that may look at a number unseen
        self.seen: dict[int, Any] = {}
        self.names: set[str] = set()  # that functions look up
        self.own_globals: set[str] = set()  # and those that are variables around functions
        self.own_names: set[str] = set()  # those of them that are not attributes of attributes
        self.objects: list[tuple[Any, str, int]] = []  # of the user's classes
        self.own: list[tuple[Any, str, str, int]] = []  # attributes of the user's modules
        self.inside: set[int] = set()  # ids of those that are attributes of others
        self.random = (random.getstate(), numpy_stream())
        self.visit(function, getattr(function, "__qualname__", type(function).__name__), 0)
        if self.modules:
            for key, hooks in vars(GLOBAL).items():
                if isinstance(hooks, dict):
                    self.visit_hooks(hooks, f"the {key} hooks of all modules", 0)
        self.arrays = [x for x in self.seen.values() if isinstance(x, np.ndarray)]
        for i, value in enumerate(arguments):
            if not isinstance(value, TensorBase):
                self.visit(value, f"argument {i + 1}", 0)
        self.visit_attributes()

    def changed(self) -> str:
        """The name of the first thing that changed; "" if nothing did."""
        if KERNELS is None or not KERNELS.as_before(
            self.entries, self.lengths, self.cells, self.items
        ):
            changed = self.changed_container()
            if changed:
                return changed
        if self.leaf_hooks and not same_hooks(self.leaf_hooks):
            return "the hooks of a tensor"
        for each, items, name in self.sets:
            if any([item not in each for item in items]):
                return name
        for each, items, name in self.queues:
            if len(each) != len(items) or not all(map(operator.is_, each, items)):
                return name
        for owner, key, value, name in self.attributes:
            now = vars(owner).get(key, ABSENT)
            if now is not value and not is_same(now, value):
                return name
        return "" if self.reads is None else self.reads.changed_otherwise()

    def take_reads(self, reads: Reads) -> None:
        """Add the guards on what instrumented code read."""
        known = {(id(owner), key) for owner, key, *_ in self.entries}
        self.entries += [e for e in reads.entries if (id(e[0]), e[1]) not in known]
        cells = {id(cell) for cell, *_ in self.cells}
        self.cells += [entry for entry in reads.cells if id(entry[0]) not in cells]
        self.lengths += reads.lengths
        self.items += reads.items
        self.reads = reads

    def take_over(self, other: Guards) -> None:
        """Add the guards of another Guards object to these."""
        for name in (
            *("entries", "cells", "lengths", "items", "sets", "queues"),
            *("attributes", "leaf_hooks"),
        ):
            getattr(self, name).extend(getattr(other, name))
        self.trouble = self.trouble or other.trouble
        self.calls_others |= other.calls_others

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

    def asks_for_gradients(self) -> bool:
        """Whether functions may want gradients of tensors that are no leaves."""
        return "grad" in self.own_globals or not self.names.isdisjoint(ASKING)

    def drew(self) -> str:
        """Whether Python's or NumPy's own random numbers were drawn since."""
        if random.getstate() != self.random[0]:
            return "Python's random numbers"
        return "NumPy's random numbers" if has_moved(self.random[1], numpy_stream()) else ""

    # ------------------------------------------------------------------ what can be reached

    def visit(self, value: Any, name: str, depth: int) -> None:
        if depth:
            self.inside.add(id(value))
        if isinstance(value, PLAIN) and not isinstance(value, type) or id(value) in self.seen:
            return
        self.calls_others |= may_look_unseen(value)
        self.seen[id(value)] = value
        if isinstance(value, type):
            self.visit_class(value, name, depth)
            return
        if isinstance(value, TensorBase):
            self.tensors.append(value)
        elif isinstance(value, types.FunctionType):
            self.visit_function(value, name, depth)
        elif isinstance(value, types.MethodType):
            self.visit(value.__self__, name.rpartition(".")[0] or name, depth)
            self.visit(value.__func__, name, depth)
        elif isinstance(static(value, "__wrapped__"), types.FunctionType):
            self.visit(value.__wrapped__, name, depth)  # a compiled function, or one with a cache
        elif isinstance(value, functools.partial):
            self.visit((value.func, value.args, value.keywords), name, depth)
        elif is_kept_apart(value):
            self.kept_apart.append(value)
            for key, hooks in (instance_dict(value) or {}).items():
                if key.endswith("_hooks") and isinstance(hooks, dict):
                    self.visit_hooks(hooks, f"{name}.{key}", depth)
        elif isinstance(value, types.ModuleType):
            pass
        elif static(value, "__next__") is not None:
            self.trouble = self.trouble or f"it can take values from the iterator {name}"
        elif depth < DEEPEST:
            self.visit_inside(value, name, depth + 1)

    def visit_inside(self, value: Any, name: str, depth: int) -> None:
        if isinstance(value, dict):
            self.lengths.append((value, len(value), name))
            for key in list(value)[:MOST_ITEMS]:
                self.visit_entry(value, key, f"{name}[{key!r}]", depth)
        elif isinstance(value, (list, tuple, set, frozenset)):
            if not isinstance(value, (tuple, frozenset)):
                self.lengths.append((value, len(value), name))
                if value:
                    known = self.items if isinstance(value, list) else self.sets
                    known.append((value, list(value)[:MOST_ITEMS], name))
            for i, item in enumerate(list(value)[:MOST_ITEMS]):
                self.visit(item, f"{name}[{i}]", depth)
        elif isinstance(value, collections.deque):
            self.queues.append((value, list(value), name))
            for i, item in enumerate(list(value)[:MOST_ITEMS]):
                self.visit(item, f"{name}[{i}]", depth)
        elif is_module(value):
            self.modules.append(value)
            self.visit_module(value, name, depth)
        elif instance_dict(value) is not None and not is_library(type(value)):
            self.objects.append((value, name, depth))

    def visit_attributes(self) -> None:
        """Guard attributes of the user's objects that functions name, and follow their methods."""
        known: set[tuple[int, str]] = set()
        before = -1
        while len(known) > before:
            before = len(known)
            every = not self.names.isdisjoint(BY_OTHER_NAMES)
            for each, key, name, depth in list(self.own):
                if (every or key in self.names) and (id(each), key) not in known:
                    known.add((id(each), key))
                    self.visit_entry(each, key, name, depth)
            for value, name, depth in list(self.objects):
                for owner in (value, *type(value).__mro__):
                    if owner is not value and is_library(owner):
                        continue
                    # Who writes `trainer.model.step` does not call a method `step` of the trainer.
                    names = self.names if id(value) in self.inside else self.own_names
                    inside = vars(owner) if isinstance(owner, type) else instance_dict(owner)
                    for key in list(inside):
                        is_named = every or key in names or key.startswith("__")
                        if not is_named or key in MAKERS or (id(owner), key) in known:
                            continue
                        known.add((id(owner), key))
                        if owner is value:
                            self.visit_entry(inside, key, f"{name}.{key}", depth)
                        else:
                            self.visit_member(owner, key, f"{type(value).__name__}.{key}", depth)

    def visit_entry(self, each: Any, key: Any, name: str, depth: int) -> None:
        value = each[key]
        self.entries.append((each, key, value, name))
        self.visit(value, name, depth)

    def visit_module(self, module: Any, name: str, depth: int) -> None:
        """Guard an nn.Module with its submodules, however deep."""
        self.visit(type(module), type(module).__name__, depth)
        for key, value in vars(module).items():
            if key in ("_modules", "_parameters", "_buffers"):
                self.lengths.append((value, len(value), f"{name}.{key}"))
            if key == "_modules":
                for child, inner in value.items():
                    self.entries.append((value, child, inner, f"{name}.{child}"))
                    if inner is not None and id(inner) not in self.seen:
                        self.seen[id(inner)] = inner
                        self.visit_module(inner, f"{name}.{child}", depth)
                continue
            if key in ("_parameters", "_buffers"):
                for child in value:
                    self.visit_entry(value, child, f"{name}.{child}", depth)
            elif key in BESIDE:
                continue
            elif key.endswith("_hooks"):
                self.visit_hooks(value, f"{name}.{key}", depth)
            elif self.executed is not None and is_users_own(module, key):
                self.own.append((vars(module), key, f"{name}.{key}", depth))
            else:
                self.visit_entry(vars(module), key, f"{name}.{key}", depth)

    def visit_hooks(self, hooks: Any, name: str, depth: int) -> None:
        """Guard what hooks can reach: they run as part of the call."""
        self.lengths.append((hooks, len(hooks), name))
        for key in list(hooks):  # one that is put in the place of another has another key
            self.visit_entry(hooks, key, name, depth)

    def visit_class(self, cls: Any, name: str, depth: int) -> None:
        """Guard the methods and the attributes of a class of the user's."""
        for base in cls.__mro__:
            if is_library(base) or depth > DEEPEST:
                continue
            for key in list(vars(base)):
                self.visit_member(base, key, f"{name}.{key}", depth)

    def visit_member(self, cls: Any, key: str, name: str, depth: int) -> None:
        value = vars(cls)[key]
        value = value.fget if isinstance(value, property) else value
        value = getattr(value, "__func__", value)  # static and class methods
        if isinstance(value, types.FunctionType):
            self.visit(value, name, depth)
        elif not key.startswith("__") and isinstance(value, (*PLAIN, list, dict, set)):
            self.attributes.append((cls, key, value, name))
            self.visit(value, name, depth + 1)

    def visit_function(self, function: Any, name: str, depth: int) -> None:
        """Guard the closure, the defaults and the named globals of a function of the user's."""
        code = function.__code__
        if is_library_file(code.co_filename):  # a decorator, perhaps: what it was given counts
            for cell in function.__closure__ or ():
                value = cell_contents(cell)
                if callable(value) or isinstance(value, (TensorBase, list, tuple)):
                    self.visit(value, name, depth)
            return
        if self.executed is not None and code not in self.executed:
            return
        names = names_in(code)
        self.names |= names
        self.own_names |= own_names_in(code)
        self.own_globals |= globals_in(code) | set(code.co_freevars)
        self.calls_others |= not names.isdisjoint(LOOKS_UNSEEN)
        for variable, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            value = cell_contents(cell)
            self.cells.append((cell, value, f"`{variable}`"))
            self.visit(value, f"`{variable}`", depth)
            self.visit_file(value, variable, names, depth)
        for value in function.__defaults__ or ():
            self.visit(value, f"a default of {name}", depth)
        for variable in sorted(globals_in(code) & function.__globals__.keys()):
            self.visit_entry(function.__globals__, variable, f"`{variable}`", depth)
            self.visit_file(function.__globals__[variable], variable, names, depth)

    def visit_file(self, value: Any, name: str, names: set[str], depth: int) -> None:
        """Guard a name that a function looks up in another module of the user's."""
        if isinstance(value, types.ModuleType) and is_of_the_user(value):
            for key in sorted(names & vars(value).keys()):
                self.visit_entry(vars(value), key, f"{name}.{key}", depth)


class LeafHooks(Guards):
    """Guards on the hooks of leaves that a backward pass in the call goes through."""

    def __init__(self, leaves: list[Any]) -> None:
        super().__init__(None)
        self.leaf_hooks = [(t, hooks_of(t)) for t in leaves]
        for _, hooks in self.leaf_hooks:
            if hooks is not None:
                on_tensor = list(hooks.tensor.values())
                both = hooks.before_node, hooks.after_node, hooks.accumulated_hooks
                for each in (*on_tensor, *both):
                    self.visit_hooks(each, "the hooks of a tensor", 0)


def hooks_of(t: Any) -> Any:
    return None if t._node is None else t._node._hooks


def may_look_unseen(value: Any) -> bool:
    """Whether a value is a function in C (or a module of them) that may read a float unnoticed."""
    if isinstance(value, types.ModuleType):
        return value.__name__.partition(".")[0] in LOOKS_UNSEEN
    return isinstance(value, types.BuiltinFunctionType) or type(value) is np.ufunc


def is_same(a: Any, b: Any) -> bool:
    """Whether two plain values are equal; other objects have to be the same one."""
    if type(a) is not type(b) or not isinstance(a, PLAIN):
        return False
    if isinstance(a, (float, complex)):
        return repr(a) == repr(b)  # zeros have signs, and NaN is not itself
    return bool(a == b)


def names_in(code: Any) -> set[str]:
    """The names that a function and the functions in it look up."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= names_in(constant)
    return found


@functools.lru_cache(KEPT)
def own_names_in(code: Any) -> frozenset[str]:
    """The names in code, without those that are looked up on an attribute or an element."""
    found = set()
    before = ""
    for step in dis.get_instructions(code):
        if step.opname in BETWEEN:
            continue
        if step.opname.endswith(("_ATTR", "_METHOD")):
            if before not in ("LOAD_ATTR", "LOAD_METHOD", "BINARY_SUBSCR"):
                found.add(step.argval)
        before = step.opname
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= own_names_in(constant)
    return frozenset(found)


@functools.lru_cache(KEPT)
def globals_in(code: Any) -> frozenset[str]:
    """The names in code that are global variables, not attributes."""
    steps = dis.get_instructions(code)
    found = {step.argval for step in steps if step.opname.endswith(("_GLOBAL", "_NAME"))}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= globals_in(constant)
    return frozenset(found)


def is_users_own(module: Any, key: str) -> bool:
    """Whether an attribute of a module is one that only the user's code can know."""
    if key.startswith("_") or hasattr(Module, key) or key == "training":
        return False
    known = [base for base in type(module).__mro__ if is_library(base)]
    return set(known) == set(Module.__mro__)


def is_module(value: Any) -> bool:
    return isinstance(value, Module)


def is_kept_apart(value: Any) -> bool:
    """Whether a value is an optimizer or scheduler, whose step a replay calls again."""
    if static(value, "param_groups") is not None:
        return True
    return is_scheduler(value)


def is_scheduler(value: Any) -> bool:
    """Whether a value is a learning rate scheduler; ChainedScheduler has no `last_epoch`."""
    if static(value, "optimizer") is None:
        return False
    return static(value, "last_epoch") is not None or static(value, "_schedulers") is not None


def static(value: Any, name: str) -> Any:
    """An attribute, looked up without calling the user's `__getattr__`; None if missing."""
    inside = instance_dict(value)
    if inside is not None and name in inside:
        return inside[name]
    return next((vars(cls)[name] for cls in type(value).__mro__ if name in vars(cls)), None)


def is_library(cls: Any) -> bool:
    """Whether a class is this package's, NumPy's or Python's own."""
    root = cls.__module__.partition(".")[0]
    return root in ("tapegrad", "torch", "numpy", "builtins", "functools", "collections")


def is_of_the_user(module: Any) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and not is_library_file(file) and "-packages" not in file


def is_library_file(name: str) -> bool:
    """Whether a file is this package's, NumPy's or Python's own."""
    if name.startswith((evidence.PACKAGE, NUMPY, "<frozen")):
        return True
    return name.startswith(evidence.STDLIB) and "-packages" not in name
