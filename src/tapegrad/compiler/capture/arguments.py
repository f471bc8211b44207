"""Arguments of a compiled function: the key of the recording that fits them, and the tensors at
fixed addresses that replace them while a call is recorded (stand-ins)."""

from __future__ import annotations

import types
from typing import Any

import numpy as np

from ... import dtypes
from ...core import modes
from ...core.base import STATE, TensorBase, wrap
from ...core.late_bound import TENSOR, VIEWS
from ...core.modes import MODES
from ...core.strides import address, memory
from ...device import device
from ...utils import _pytree as pytree
from ..backward.of_results import standing_for
from ..backward.upstream import history, is_history

FLAT = (TensorBase, int, float, str, type(None))
ANY_FLOAT = "any float"  # in a signature: a float that may differ from call to call
ORDINARY = (True, False, None, False, np.dtype(np.float32).num)  # what `around` gives mostly


def is_tensor(value: Any) -> bool:
    return isinstance(value, TensorBase)


def flat(args: Any, kwargs: Any) -> tuple[Any, Any]:
    """The arguments as one flat list, and how they were nested; None: not nested."""
    if not kwargs and all([isinstance(a, FLAT) or pytree.tree_is_leaf(a) for a in args]):
        return args, None
    return pytree.tree_flatten((args, kwargs))


def has_stand_in(t: Any, leaves_too: bool) -> bool:
    """Whether an argument is copied to a stand-in at a fixed address, or used itself."""
    if type(t) is not TENSOR.cls or t._special or t.__dict__:
        return False
    if not t._wants_grad:
        return True
    return t._gradient is None and (leaves_too or not is_leaf(t))


def is_array_input(value: Any) -> bool:
    """Whether an array at a fixed place may stand for an argument, whatever values it has."""
    if type(value) is not np.ndarray or not value.ndim or value.dtype.kind not in "biufc":
        return False
    flags = value.flags
    return bool(flags.c_contiguous and flags.behaved and value.dtype.isnative)


def array_of(value: Any) -> Any:
    """The array of an argument for which another one may stand."""
    return value if type(value) is np.ndarray else value._array


def is_leaf(t: Any) -> bool:
    if t._view_of is not None:
        VIEWS.refresh(t)
    return t._node is None or t._node._is_leaf


class Same:
    """An object in a signature that is compared by identity, whatever its `__eq__` says."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value  # it is kept: another object would get its id

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return type(other) is Same and other.value is self.value


SAME_AS = "the same tensor as argument"
OVERLAP = "arguments that overlap"
ANOTHER = "an object that is a new one in each call"
AS_EQUAL = (bool, int, str, bytes, type(None), device, dtypes.dtype, np.dtype)
NO_TENSORS: dict[int, Any] = {}


def signature(
    values: Any,
    leaves_too: bool,
    histories: bool,
    as_they_are: dict[int, Any] = NO_TENSORS,
    arrays: bool = False,
) -> list[Any]:
    """The cache key of a call: properties of its arguments, which are one tensor, which overlap.

    `as_they_are`: tensors, by id, that are used themselves and get no stand-in. `arrays`: NumPy
    arrays are inputs of the call, as tensors are.
    """
    parts: list[Any] = []
    places: dict[int, int] = {}
    given = [i for i, value in enumerate(values) if arrays and is_array_input(value)]
    for i, value in enumerate(values):
        if isinstance(value, TensorBase):
            first = places.setdefault(id(value), i)
            if first != i:
                parts.append((SAME_AS, first))
                continue
            if id(value) in as_they_are:
                parts.append(Same(value))
                continue
        parts.append(described(value, leaves_too, histories))
    for i in given:
        owner = memory(values[i])
        others = [v for k, v in enumerate(values) if k != i and type(v) in (np.ndarray, TENSOR.cls)]
        if id(values[i]) not in as_they_are and all([owner is not memory_of(v) for v in others]):
            parts[i] = (np.ndarray, values[i].shape, values[i].dtype)
    if len(places) > 1:
        groups = overlapping(values, parts)
        if groups:
            parts.append((OVERLAP, tuple([tuple(group) for group in groups])))
    return parts


def memory_of(value: Any) -> Any:
    return None if getattr(value, "_special", 0) else memory(array_of(value))


def overlapping(values: Any, parts: list[Any]) -> list[list[tuple[int, int]]]:
    """Groups of arguments that overlap in memory: their places, and where they begin, in bytes."""
    owners: dict[int, list[int]] = {}
    for i, (value, part) in enumerate(zip(values, parts, strict=False)):
        if isinstance(value, TensorBase) and type(part) is tuple and part[0] != SAME_AS:
            owners.setdefault(id(memory(value._array)), []).append(i)
    groups: list[list[tuple[int, int]]] = []
    for places in owners.values():
        if len(places) < 2:
            continue
        end = -1
        for low, high, i in sorted([(*bounds(values[i]._array), i) for i in places]):
            if low >= end:
                groups.append([])
                start = low
            groups[-1].append((i, address(values[i]._array) - start))
            end = max(end, high)
    return [group for group in groups if len(group) > 1]


def bounds(array: Any) -> tuple[int, int]:
    """The first and the last address of the memory of an array."""
    low = high = address(array)
    for n, step in zip(array.shape, array.strides, strict=True):
        if step < 0:
            low += (n - 1) * step
        else:
            high += (n - 1) * step
    return low, high + array.itemsize if array.size else low


def described(value: Any, leaves_too: bool, histories: bool = False) -> Any:
    """The part of the cache key for one argument; with its autograd history if `histories`."""
    if isinstance(value, TensorBase):
        if not has_stand_in(value, leaves_too):
            return Same(value)
        array = value._array
        found = type(value), array.shape, array.dtype, array.strides, value._wants_grad
        return (*found, history(value)) if histories and is_history(value) else found
    kind = type(value)
    if kind is float:
        return float, value.hex()  # zeros have signs
    if kind in AS_EQUAL:
        return kind, value
    if kind is complex:
        return complex, value.real.hex(), value.imag.hex()
    if kind is types.MethodType:
        return kind, Same(value.__self__), Same(value.__func__)
    if kind in (types.BuiltinMethodType, types.MethodWrapperType):
        return kind, Same(value.__self__), value.__name__
    if isinstance(value, np.generic) and not value.dtype.hasobject:
        return kind, value.dtype, value.tobytes()
    if kind is frozenset:
        return frozenset, frozenset([described(v, leaves_too) for v in value])
    return Same(value)


def is_float(value: Any, part: Any) -> bool:
    return type(value) is float and type(part) is tuple and part[0] is float


def around() -> Any:
    """The part of the cache key for switches that ops look at: grad mode, autocast …"""
    default = dtypes.default_np().num
    if not STATE.modes_on and not STATE.anomaly:
        return ORDINARY if default == ORDINARY[-1] else (*ORDINARY[:-1], default)
    return MODES.grad, MODES.inference, MODES.autocast, modes.ANOMALY.enabled, default


def stand_ins(values: Any, parts: list[Any]) -> list[Any]:
    """The stand-ins for the arguments of a signature; None for arguments that have none.

    An array's stand-in is a tensor with the memory of another array. Stand-ins of arguments that
    overlap do so too: a write into one of them is seen in the others.
    """
    made: list[Any] = [None] * len(values)
    groups = parts[-1][1] if len(parts) > len(values) else ()
    for group in groups:
        low = address(values[group[0][0]]._array) - group[0][1]
        high = max([bounds(values[i]._array)[1] for i, _ in group])
        block = np.zeros(high - low, np.uint8)
        for i, offset in group:
            x = values[i]._array
            array = np.ndarray(x.shape, x.dtype, block, offset, x.strides)
            array[...] = x
            made[i] = standing_for(values[i], array)
    for i, value in enumerate(values):
        is_fixed = type(parts[i]) is tuple and parts[i][0] is TENSOR.cls
        if is_fixed and made[i] is None:
            made[i] = standing_for(value, value._array.copy(order="K"))
        elif stands_for_array(parts[i]):
            made[i] = wrap(value.copy())
    return made


def stands_for_array(part: Any) -> bool:
    """Whether a part of a signature is that of a NumPy array which is an input."""
    return type(part) is tuple and part[0] is np.ndarray


def same_as(parts: list[Any]) -> dict[int, int]:
    """The places of arguments that are the same tensor as earlier ones, and those of the others."""
    found = [(i, part) for i, part in enumerate(parts) if type(part) is tuple]
    return {i: part[1] for i, part in found if part[0] == SAME_AS}
