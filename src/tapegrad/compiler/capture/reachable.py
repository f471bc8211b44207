"""The tensors, modules and optimizers that a function can reach before it is called.

A recorded call may only read tensors that were there before it. They are searched for here, so that
each has its fingerprint in time. Nothing that is found is compared before a replay: guards are made
of what instrumented code reads (`reads.py`). Finding too much takes time; where a tensor is not
found, the call is not recorded.
"""

from __future__ import annotations

import collections
import dis
import enum
import functools
import gc
import os
import types
from collections.abc import Iterable
from typing import Any

import numpy as np

from ...core.base import TensorBase
from ...errors import evidence
from ...nn.modules._hooks import GLOBAL
from ...nn.modules.module import Module
from .reads import cell_contents, instance_dict

MOST = 50_000  # objects that are looked at
PLAIN = (bool, int, float, complex, str, bytes, type(None), enum.Enum, np.generic)
CONTAINERS = (
    *(list, tuple, dict, set, frozenset, collections.deque, types.MappingProxyType),
    *(types.MethodType, functools.partial, staticmethod, classmethod, property, types.CellType),
)
KEPT = 4096  # code objects about which something is kept: every cell of a notebook has new ones
ASKING = frozenset(
    ("autograd", "retain_grad", "register_hook", "register_multi_grad_hook", "GradientEdge")
)
NUMPY = os.path.dirname(np.__file__)


class Reachable:
    """The objects to which a function and the arguments of a call lead."""

    def __init__(self, function: Any, arguments: Iterable[Any] = ()) -> None:
        self.tensors: list[Any] = []
        self.arrays: list[Any] = []
        self.modules: list[Any] = []  # that are not inside of others
        self.owners: list[Any] = []  # optimizers and schedulers
        self.seen: dict[int, Any] = {}
        self.asks_for_gradients = False  # functions may want those of tensors that are no leaves
        self.queue: collections.deque[Any] = collections.deque()
        self.search(function)
        if self.modules:
            self.search([hooks for hooks in vars(GLOBAL).values() if isinstance(hooks, dict)])
        arrays = list(self.arrays)
        self.search([value for value in arguments if not isinstance(value, TensorBase)])
        self.arrays = arrays  # an argument is not reached in another way

    def search(self, value: Any) -> None:
        """Look at everything that a value leads to, what is near first."""
        self.meet(value)
        while self.queue and len(self.seen) < MOST:
            for inner in self.inside(self.queue.popleft()):
                self.meet(inner)

    def meet(self, value: Any) -> None:
        if not isinstance(value, PLAIN) and id(value) not in self.seen:
            self.seen[id(value)] = value
            self.queue.append(value)

    def inside(self, value: Any) -> Iterable[Any]:
        if isinstance(value, TensorBase):
            self.tensors.append(value)
            return ()
        if isinstance(value, np.ndarray):
            self.arrays.append(value)
            return ()
        if isinstance(value, types.FunctionType):
            return self.around(value)
        if isinstance(value, Module):
            self.modules.append(value)
            return self.inside_module(value)
        if isinstance(value, type):
            return members(value)
        if isinstance(value, types.ModuleType):
            return ()
        wrapped = static(value, "__wrapped__")
        if isinstance(wrapped, types.FunctionType):  # a compiled function, or one with a cache
            return (wrapped,)
        if is_kept_apart(value):
            self.owners.append(value)
            own = instance_dict(value) or {}
            return [hooks for key, hooks in own.items() if key.endswith("_hooks")]
        if isinstance(value, CONTAINERS):
            return gc.get_referents(value)
        return () if is_library(type(value)) else gc.get_referents(value)

    def inside_module(self, module: Any) -> list[Any]:
        """The attributes, parameters, buffers and hooks of a module and of those in it."""
        found: list[Any] = [type(module)]
        for key, value in vars(module).items():
            if key == "_modules":
                for each in value.values():
                    if each is not None and id(each) not in self.seen:
                        self.seen[id(each)] = each
                        found += self.inside_module(each)
            else:
                found.append(value)
        return found

    def around(self, function: types.FunctionType) -> list[Any]:
        """The closure, the defaults and the named globals of a function."""
        code = function.__code__
        inner = [cell_contents(cell) for cell in function.__closure__ or ()]
        if is_library_file(code.co_filename):  # a decorator, perhaps: what it was given counts
            return [v for v in inner if callable(v) or isinstance(v, (TensorBase, list, tuple))]
        names, variables = names_in(code), {*globals_in(code), *code.co_freevars}
        if "grad" in variables or not names.isdisjoint(ASKING):
            self.asks_for_gradients = True
        globals = function.__globals__
        found = [*inner, *[globals[name] for name in variables & globals.keys()]]
        for each in list(found):
            if isinstance(each, types.ModuleType) and is_of_the_user(each):
                found += [vars(each)[name] for name in names & vars(each).keys()]
        return [*found, function.__defaults__, function.__kwdefaults__]


def members(cls: type) -> list[Any]:
    """The attributes of a user's class, and of those that it inherits from."""
    own = [base for base in cls.__mro__ if not is_library(base)]
    return [value for base in own for value in vars(base).values()]


def names_in(code: Any) -> set[str]:
    """The names that a function and the functions in it look up."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= names_in(constant)
    return found


@functools.lru_cache(KEPT)
def globals_in(code: Any) -> frozenset[str]:
    """The names in code that are global variables, not attributes."""
    steps = dis.get_instructions(code)
    found = {step.argval for step in steps if step.opname.endswith(("_GLOBAL", "_NAME"))}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= globals_in(constant)
    return frozenset(found)


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


def is_library(cls: type) -> bool:
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
