"""Classification of the objects and functions that instrumented code uses, and of callers."""

from __future__ import annotations

import _weakrefset
import collections
import contextvars
import dataclasses
import decimal
import functools
import operator
import os
import re
import types
import weakref
from typing import Any

import numpy as np

from ...core.base import PACKAGE
from ...core.late_bound import HOST_KERNELS
from ..breaks.calls import GENERATED
from . import vetted
from .instrumented import is_instrumented
from .reachable import is_library_file
from .symbolic_floats import Number

PLAIN = (bool, int, float, complex, str, bytes, type(None))
BUILTIN_TYPES = frozenset(
    (
        *(*vetted.CONSTANT, *vetted.CONTAINERS, collections.OrderedDict, collections.defaultdict),
        *(types.GeneratorType, types.BuiltinFunctionType, memoryview, property),
        *(type({}.items()), type({}.keys()), type({}.values()), zip, map, enumerate, filter),
    )
)
# Functions of Python; a public function of ours may have a fast path in C in front of it.
FUNCTIONS = tuple([f for f in (types.FunctionType, HOST_KERNELS.public_function) if f is not None])
C_CALLABLES = (
    *(types.BuiltinFunctionType, types.MethodWrapperType, types.WrapperDescriptorType),
    *(types.MethodDescriptorType, types.ClassMethodDescriptorType),
)
FACTORIES = (dataclasses.MISSING, list, dict, set)  # of fields, that run nothing of the user's
MADE_BY_PYTHON = 1 << 9  # the flag of classes of `class` statements
# The files whose functions run in the place of the user's own expressions.
HOOK_FILES = frozenset(
    os.path.join(os.path.dirname(__file__), f"{name}.py")
    for name in (
        *("caught", "guarded_reads", "hooks", "instrumented", "noticed_stores", "object_kinds"),
        *("prepared_code", "python_state", "reads", "swapped_code", "vetted", "vetted_calls"),
    )
)
OWN = ("tapegrad", "torch")
WEAKREF_FILES = frozenset((weakref.__file__, _weakrefset.__file__))
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


def is_generated(function: Any) -> bool:
    """Whether a method was written by `dataclass` or `namedtuple`: it only takes attributes."""
    code = function.__code__
    if function.__name__ not in ("__init__", "__new__", "__eq__", "__repr__", "__hash__", "_make"):
        return False
    is_of_tuple = str(function.__globals__.get("__name__", "")).startswith("namedtuple_")
    is_of_attrs = code.co_filename.startswith("<attrs generated")
    return is_written_by_python(code) or is_of_tuple or is_of_attrs


def takes_only_attributes(cls: type) -> bool:
    """Whether `__init__` of a class was written by `dataclass` and runs no code of the user's."""
    fields = cls.__dict__.get("__dataclass_fields__")
    own: Any = cls.__init__
    if fields is None or not isinstance(own, types.FunctionType):
        return False
    if not is_written_by_python(own.__code__) or hasattr(cls, "__post_init__"):
        return False
    setter: Any = cls.__setattr__  # that of a frozen class is not used by its `__init__`
    is_frozen = isinstance(setter, types.FunctionType) and is_written_by_python(setter.__code__)
    if setter is not object.__setattr__ and not is_frozen:
        return False
    if any([each.default_factory not in FACTORIES for each in fields.values()]):
        return False
    members = [vars(base)[name] for base in cls.__mro__ for name in fields if name in vars(base)]
    slot = types.MemberDescriptorType
    return not any([hasattr(type(each), "__set__") and type(each) is not slot for each in members])


def is_written_by_python(code: types.CodeType) -> bool:
    """Whether code is that of a method which `dataclass` wrote."""
    return code.co_filename == "<string>" and code.co_qualname.startswith(GENERATED)


def is_of_a_tuple(frame: Any) -> bool:
    """Whether a frame runs a function that `namedtuple` generated: it only makes a tuple."""
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
