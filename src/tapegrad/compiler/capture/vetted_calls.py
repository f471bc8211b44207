"""Calls by instrumented code: only those whose reads and effects are known are recorded."""

from __future__ import annotations

import collections
import contextvars
import functools
import gc
import random
import string
import types
import weakref
from typing import Any

import numpy as np

from ...core.base import PACKAGE, TensorBase, wrap
from ...nn.modules.module import Module
from .. import PURE_MARK
from ..breaks.calls import place_in, users_line
from . import vetted
from .caught import CaughtStep
from .noticed_stores import NoticedStores
from .object_kinds import (
    BUILTIN_TYPES,
    C_CALLABLES,
    FRESH,
    FUNCTIONS,
    OWN,
    PLAIN,
    UNSET,
    is_generated,
    is_ours,
    is_plain_class,
    name_of,
    short,
    takes_only_attributes,
)
from .reachable import NUMPY, is_kept_apart, static
from .reads import ABSENT, cell_contents, is_same
from .swapped_code import unheard
from .symbolic_floats import Number, Options

METHODS = (*FUNCTIONS, types.MethodType)
DESCRIPTORS = (types.MethodDescriptorType, types.WrapperDescriptorType)


class VettedCalls(NoticedStores):
    """The hook of calls, by kinds of functions."""

    def call(self, function: Any, args: Any, kwargs: Any) -> Any:
        kind = type(function)
        if kind in FUNCTIONS:
            return self.call_function(function, None, function, args, kwargs)
        if kind is types.MethodType:
            inner = function.__func__
            if type(inner) in FUNCTIONS:
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
            self.look_at_ours(function)
            if is_ours(kind):
                self.given(args, kwargs)
        else:
            self.give_up(f"it calls {name_of(function)}, whose effects are not known")
            args = tuple(map(self.original, args))
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
            if is_generated(base):
                self.given(args, kwargs)
                return self.trusted(function, args, kwargs)
            self.give_up(f"the source of {base.__qualname__} is not known")
            args = tuple(map(self.original, args))
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
        """Call a function or method of this package, and guard what it reads."""
        name = base.__name__
        if name in vetted.OF_ARRAYS and owner is None and args and self.is_input(args[0]):
            return self.as_tensor(name, function, *args, **kwargs)
        self.given(args, kwargs)
        self.look_at_ours(owner)
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
        for cell in inner:  # a wrapper around a function of the user's, or around several
            for value in functions_in(cell_contents(cell)):
                self.prepare(value)
        made = function(*args, **kwargs)
        if owner is None and name.startswith(vetted.ASKS) and name not in vetted.OF_THE_COMPILER:
            self.asked(function, args, kwargs, made)
        return self.mark(made) if type(made) in (list, types.GeneratorType) else made

    def as_tensor(self, name: str, function: Any, array: Any, *args: Any, **kwargs: Any) -> Any:
        """A tensor of an array that stands for an argument: a copy is made by an op."""
        self.given(args, kwargs)
        if name == "from_numpy":
            return function(array, *args, **kwargs)
        t: Any = wrap(array)
        if name != "tensor":
            return function(t, *args, **kwargs)
        if args or not kwargs.keys() <= {"dtype"}:
            self.contents(array)
            return function(array, *args, **kwargs)
        dtype = kwargs.get("dtype")
        return t.clone() if dtype is None else t.to(dtype, copy=True)

    def asked(self, function: Any, args: Any, kwargs: Any, answer: Any) -> None:
        """Record a query of a setting: each replay repeats it and compares the answer."""
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
            self.note_modes(owner)
        elif name not in vetted.MODULE_READS and not self.is_new(owner):
            if name.startswith(vetted.LIBRARY_ACTS):
                self.changes(owner)
        made = function(*args, **kwargs)
        return self.mark(made) if type(made) in FRESH else made

    @unheard
    def note_modes(self, owner: Any) -> None:
        """`train()` or `eval()` is about to be called: what was set before is guarded."""
        for module in owner.modules():
            inside = vars(module)
            before = inside.get("training", ABSENT)
            self.reads.entry(inside, "training", before, f"{self.path(module)}.training")
            if id(module) not in self.modes:
                place = place_in(self.recorder.body)
                self.modes[id(module)] = module, before, users_line(), place

    @unheard
    def check_modes(self) -> None:
        """Refuse a call that leaves modules in another mode: a replay does not change modes."""
        for module, before, where, place in self.modes.values():
            if vars(module).get("training", ABSENT) is not before and not self.recorder.trouble:
                self.recorder.give_up_at(f"it changes {self.path(module)}.training", where, [place])

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
        """Handle the call of a class: an instance is made."""
        if id(cls) in vetted.PURE or cls in BUILTIN_TYPES:
            return self.call_in_c(cls, args, kwargs)
        self.prepare_class(cls)
        self.prepare_class(type(cls)) if type(cls) is not type else None
        own = cls.__init__
        is_ordinary = type(cls).__call__ is type.__call__ and cls.__new__ is object.__new__
        if is_ordinary and isinstance(own, types.FunctionType):
            if own.__code__.co_filename.startswith(PACKAGE) or not self.enter(own):
                self.given(args, kwargs)
                if not is_ours(cls) and not is_generated(own):
                    if not own.__code__.co_filename.startswith(PACKAGE):
                        self.give_up(f"the source of {own.__qualname__} is not known")
            made = self.mark(object.__new__(cls))
            if takes_only_attributes(cls):
                self.trusted(own, (made, *args), kwargs)
            else:
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
                    self.give_up(f"it makes a {cls.__name__}, a class that is not known")
                return self.mark(made)
        return made

    def call_in_c(self, function: Any, args: Any, kwargs: Any) -> Any:
        """A function in C, or a method of a type that is written in C."""
        name = getattr(function, "__name__", "")
        if id(function) in vetted.PURE:
            return self.call_builtin(function, args, kwargs)
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
            self.given((owner, *given), kwargs)
            is_plain = all([isinstance(each, PLAIN) for each in (*given, *kwargs.values())])
            if name in ("format", "format_map") and not is_plain and names_parts(owner):
                self.give_up("it formats parts of objects")
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
                args = tuple(map(self.original, args))
            self.given(given, kwargs) if name in ("extend", "update", "sort") else None
            if name in vetted.LOOKS:
                self.contents(owner)
                kwargs = {**kwargs, **self.judged_keys(kwargs)}
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
        elif name in vetted.LOOKS:
            self.contents(owner)
        self.given(given, kwargs)
        made = function(*args, **kwargs)
        return self.mark(made) if name not in ("get", "__getitem__", "index", "count") else made

    def in_c(self, function: Any) -> None:
        """A function in C is handed to something that may call it, with arguments unseen."""
        owner, name = getattr(function, "__self__", None), getattr(function, "__name__", "")
        if owner is None or isinstance(owner, types.ModuleType):
            root = (getattr(function, "__module__", None) or "").partition(".")[0]
            if isinstance(function, DESCRIPTORS):
                if name in vetted.CHANGES or name in vetted.ARRAY_CHANGES:
                    self.give_up(f"it hands on {name}()")
            elif id(function) in SPECIAL:
                self.give_up(f"it hands on {name}()")
            elif id(function) not in vetted.PURE and root not in (*OWN, "numpy"):
                self.give_up(vetted.why_not_call(function, None, name))
        elif self.is_new(owner) or isinstance(owner, (TensorBase, type)):
            return
        elif isinstance(owner, (*vetted.CONTAINERS, *vetted.CONSTANT, np.ndarray)):
            if name in vetted.CHANGES or name in vetted.ARRAY_CHANGES:
                self.changes(owner)
            self.contents(owner)
        else:
            self.give_up(vetted.why_not_call(function, owner, name))

    def judged(self, function: Any) -> Any:
        """A function for C code that looks at its answers; what is in them is guarded."""

        def call(*args: Any) -> Any:
            answer = function(*args)
            self.contents(answer)
            return answer

        return call

    def judged_keys(self, kwargs: Any) -> Any:
        return {
            k: self.judged(f) for k, f in kwargs.items() if k in ("key", "func") and callable(f)
        }

    def call_builtin(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Call a builtin whose reads and effects are known, and guard what it reads."""
        if id(function) in vetted.IN_PLACE:
            if args and not isinstance(args[0], (*PLAIN, TensorBase)) and not self.is_new(args[0]):
                self.changes(args[0])
        if function is next and args and not self.is_new(args[0]):
            self.give_up(f"it can take values from the iterator {self.path(args[0])}")
        if function in (type, isinstance) and args:
            if not isinstance(args[0], (*PLAIN, TensorBase)) and not self.is_new(args[0]):
                self.reads.kind(args[0])
                self.keep.append(args[0])
            if function is type and len(args) == 1 and type(args[0]) is Number:
                return float
            return function(*args, **kwargs)
        if any([type(each) is Number for each in args]) and function not in (min, max, sum):
            self.recorder.looks_at_numbers = True
        shallow = id(function) in vetted.SHALLOW and not (
            bool(args) and function in (map, filter) and not isinstance(args[0], METHODS)
        )
        for each in (*args, *kwargs.values()):
            if not isinstance(each, (*PLAIN, TensorBase)):
                if function is len and isinstance(each, (list, dict, set, collections.deque)):
                    if not self.is_new(each):
                        self.reads.length(each, self.path(each))
                        self.keep.append(each)
                else:
                    self.contents(each, shallow)
        args = list(args)
        if not shallow and id(function) in vetted.CONSUMED:
            if function not in (min, max) or len(args) == 1:
                at = vetted.CONSUMED[id(function)]
                args[at] = [self.watched(v) if is_made_by_python(v) else v for v in args[at]]
        if id(function) in vetted.JUDGES:
            at = vetted.JUDGES[id(function)]
            args[at] = [self.judged(f) if callable(f) else f for f in args[at]]
            kwargs = {**kwargs, **self.judged_keys(kwargs)}
        made = function(*args, **kwargs)
        may_be_old = function in (
            next,
            min,
            max,
            sum,
            functools.reduce,
        )  # an element of an argument
        if not isinstance(made, PLAIN) and not may_be_old:
            if not any([made is each for each in args]):
                self.mark(made)
        return made


def get_attribute(state: VettedCalls, owner: Any, name: str, *default: Any) -> Any:
    try:
        return state.attr(owner, name)
    except AttributeError:
        if default:
            return default[0]
        raise


def has_attribute(state: VettedCalls, owner: Any, name: str) -> bool:
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


def names_parts(template: Any) -> bool:
    """Whether a format names attributes or elements of what it is given: `"{0.width}"`."""
    fields = string.Formatter().parse(template) if isinstance(template, str) else ()
    return any(
        [
            "." in (name or "") or "[" in (name or "") or "{" in (spec or "")
            for _, name, spec, _ in fields
        ]
    )


def is_made_by_python(value: Any) -> bool:
    """Whether elements come from an iterator, or from a class of the user's."""
    kind = type(value)
    if isinstance(value, TensorBase):
        return False
    return hasattr(kind, "__next__") or isinstance(
        getattr(kind, "__iter__", None), types.FunctionType
    )


def functions_in(value: Any) -> list[Any]:
    """A function itself, or the functions in lists and tuples."""
    if callable(value):
        return [value]
    if type(value) in (list, tuple):
        return [each for item in value for each in functions_in(item)]
    return []
