"""Backward functions of users: whether one may be run before its gradients are asked for.

The backward pass of a result is recorded ahead of time, with gradients of no meaning. A user's
`backward` that counts its calls or prints would do so once too often. One that has nothing in reach
but tensors, numbers and this library can do nothing of the kind, and its bytecode says what it
reaches for.
"""

from __future__ import annotations

import builtins
import dis
import types
from typing import Any

from ... import dtypes
from ...autograd.function import BackwardFunction, user_backward
from ...core.base import Node, TensorBase
from ...device import device
from .. import PURE_MARK
from ..capture import vetted

PACKAGE = __name__.partition(".")[0]
PLAIN = (
    *(TensorBase, bool, int, float, complex, str, bytes, type(None), type(Ellipsis)),
    *(slice, dtypes.dtype, device),
)
# What a node has of its own; the rest is what `forward` put there.
FIELDS = frozenset([*vars(BackwardFunction()), *dir(Node), *Node.__annotations__])
OUTSIDE_VARIABLES = frozenset(("LOAD_GLOBAL", "LOAD_NAME"))
ACTS = frozenset(
    """
    STORE_ATTR STORE_GLOBAL STORE_DEREF DELETE_ATTR DELETE_GLOBAL DELETE_DEREF IMPORT_NAME
    MAKE_FUNCTION YIELD_VALUE LOAD_BUILD_CLASS
    """.split()
)


def may_act(node: Any) -> bool:
    """Whether a node runs a user's `backward` that could do more than compute."""
    cls = getattr(node, "_forward_cls", None)
    if cls is None:
        return False
    rule = user_backward(cls)
    if is_ours(rule) or PURE_MARK in getattr(rule, "__dict__", {}):
        return False
    if not isinstance(rule, types.FunctionType):
        return True
    kept = [value for name, value in vars(node).items() if name not in FIELDS]
    return not all(map(is_harmless, [*kept, *in_reach(rule)]))


def in_reach(function: types.FunctionType) -> list[Any]:
    """The objects that a function can reach besides its arguments; itself if it may change any."""
    found: list[Any] = []
    for step in dis.get_instructions(function.__code__):
        if step.opname in ACTS:
            return [function]
        if step.opname in OUTSIDE_VARIABLES:
            name = step.argval
            found.append(function.__globals__.get(name, getattr(builtins, name, function)))
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # it is empty
            return [function]
    return [*found, *(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]


def is_harmless(value: Any) -> bool:
    """Whether nothing that outlives a call can be changed through a value unseen."""
    if isinstance(value, (tuple, frozenset)):
        return all(map(is_harmless, value))
    return isinstance(value, PLAIN) or id(value) in vetted.PURE or is_ours(value)


def is_ours(value: Any) -> bool:
    """Whether a module, function or class is this library's."""
    if isinstance(value, types.ModuleType):
        name = value.__name__
    elif isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
        name = value.__module__ or ""
    else:
        return False
    return name.partition(".")[0] in (PACKAGE, "torch")
