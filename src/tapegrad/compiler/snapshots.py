"""What tensors, optimizers and generators were like before a call, so that it can be run again."""

from __future__ import annotations

import zlib
from collections.abc import Container
from typing import Any

import numpy as np

from .._random.generators import default_generator
from ..core.base import TensorBase
from ..core.layout import memory

LARGE = 1 << 24  # bytes
PLAIN = (bool, int, float, complex, str, type(None))


class Snapshots:
    """Copies of everything that a recorded call met and that was there before."""

    def __init__(self) -> None:
        self.arrays: dict[int, tuple[Any, Any]] = {}  # by id of the owner: it, and a copy
        self.sums: dict[int, tuple[Any, int]] = {}
        self.met: list[tuple[Any, Any]] = []  # the tensors, and the arrays that they had
        self.gradients: list[tuple[Any, Any, Any]] = []  # leaf, gradient, a copy of its array
        self.objects: dict[int, tuple[Any, Any]] = {}
        self.random = default_generator.get_state()

    def has(self, owner: Any) -> bool:
        return id(owner) in self.arrays or id(owner) in self.sums

    def take(self, t: Any) -> None:
        owner = memory(t._array)
        if id(owner) not in self.arrays:
            self.arrays[id(owner)] = (owner, owner.copy())
        self.met.append((t, t._array))

    def watch(self, t: Any) -> None:
        """A tensor that the call may change behind our back; of a large one only a sum is kept."""
        owner = memory(t._array)
        if owner.nbytes < LARGE:
            self.take(t)
        elif id(owner) not in self.sums:
            self.sums[id(owner)] = (owner, check_sum(owner))

    def take_gradient(self, t: Any) -> None:
        self.gradients.append((t, t._gradient, copied(t._gradient)))
        if t._gradient is not None and not t._gradient._special:
            self.take(t._gradient)

    def take_object(self, owner: Any) -> None:
        """An optimizer or a scheduler: its numbers, and the tensors of its state."""
        if id(owner) in self.objects:
            return
        self.objects[id(owner)] = (owner, remembered(owner))
        for t in tensors_of(owner):
            if not t._special:
                self.take(t)
        optimizer = getattr(owner, "optimizer", None)
        if optimizer is not None:
            self.take_object(optimizer)

    def now(self) -> Snapshots:
        """The same things as they are now."""
        now = Snapshots()
        now.met = self.met
        for key, (owner, _) in self.arrays.items():
            now.arrays[key] = (owner, owner.copy())
        for key, (owner, _) in self.sums.items():
            now.sums[key] = (owner, check_sum(owner))
        for t, _, _ in self.gradients:
            now.gradients.append((t, t._gradient, copied(t._gradient)))
        for key, (owner, _) in self.objects.items():
            now.objects[key] = (owner, remembered(owner))
        return now

    def restore(self) -> Snapshots:
        """Everything as it was; what it is now is returned."""
        now = self.now()
        for owner, before in self.arrays.values():
            if owner.flags.writeable:
                owner[...] = before
        for t, gradient, values in self.gradients:
            t._gradient = gradient
            if gradient is not None:
                gradient._array[...] = values
        for _, before in self.objects.values():
            put_back(before)
        default_generator.set_state(self.random)
        return now

    def differs(self, other: Snapshots, apart: Container[int]) -> str:
        """The first thing that is not the same in another state of the same objects.

        `apart` has the ids of memory that does not count: a replay's own.
        """
        for key, (owner, copy) in self.arrays.items():
            if key not in apart and not same_bits(copy, other.arrays[key][1]):
                return f"a tensor of shape {tuple(owner.shape)}"
        for key, (owner, total) in self.sums.items():
            if total != other.sums[key][1]:
                return f"a tensor of shape {tuple(owner.shape)}"
        for (_, _, a), (_, _, b) in zip(self.gradients, other.gradients, strict=True):
            if (a is None) != (b is None) or (a is not None and not same_bits(a, b)):
                return "a gradient"
        for key, (owner, values) in self.objects.items():
            mine, others = [v[2] for v in values], [v[2] for v in other.objects[key][1]]
            if not all([a is b or a == b for a, b in zip(mine, others, strict=True)]):
                return f"the state of {type(owner).__name__}"
        if not same_bits(self.random._array, other.random._array):
            return "the state of the random numbers"
        return ""


def check_sum(array: Any) -> int:
    return zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8))


def copied(t: Any) -> Any:
    return None if t is None else t._array.copy()


def same_bits(a: Any, b: Any) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a is b:
        return True
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    word = np.uint64 if a.nbytes % 8 == 0 else np.uint8
    return bool(np.array_equal(a.reshape(-1).view(word), b.reshape(-1).view(word)))


def remembered(owner: Any) -> list[tuple[Any, Any, Any]]:
    """(dict, key, value) of every plain number that an optimizer or scheduler keeps."""
    found: list[tuple[Any, Any, Any]] = []
    dicts = [vars(owner), *getattr(owner, "param_groups", ())]
    dicts += [own for own in getattr(owner, "state", {}).values() if isinstance(own, dict)]
    for each in dicts:
        for key, value in each.items():
            if isinstance(value, PLAIN):
                found.append((each, key, value))
            elif isinstance(value, (list, tuple)) and all([isinstance(v, PLAIN) for v in value]):
                found.append((each, key, type(value)(value)))
    return found


def put_back(values: list[tuple[Any, Any, Any]]) -> None:
    for each, key, value in values:
        each[key] = list(value) if type(value) is list else value


def tensors_of(owner: Any) -> list[Any]:
    """The parameters of an optimizer and the tensors of its state."""
    found = [p for group in getattr(owner, "param_groups", ()) for p in group["params"]]
    for own in getattr(owner, "state", {}).values():
        if isinstance(own, dict):
            found += [t for t in own.values() if isinstance(t, TensorBase)]
    return found
