"""Early release: memory of a recorded call's values that the call itself has finished with.

A recording keeps every array, since each has its address in the list of steps. The pages of large
ones go back to the system as soon as only the recording refers to them, so that a call that is
recorded needs as much memory as any other; the addresses stay reserved.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ...core.references import references
from ...core.strides import memory
from ...kernels.cpu import KERNELS

LARGE = 1 << 16  # bytes that are worth looking after: smaller ones are malloc's
SEVERAL = 1 << 13  # bytes, some pages of which are worth it where there are many such
MANY = 1 << 20  # bytes of them, after which they are looked at


class Limit:
    """An upper bound of all thresholds from which on arrays count as large.

    Tests set it to one byte, so that small arrays are released, lent and handed out as large ones
    are. What is released then reads as zeros at once, and a step that still reads it is found out.
    """

    most = sys.maxsize  # bytes


def threshold(least: int) -> int:
    return min(least, Limit.most)


def is_large(owner: Any, least: int = LARGE) -> bool:
    """Whether an array owns a contiguous block that is large enough to be given back."""
    plain = type(owner) is np.ndarray and owner.flags.owndata and owner.flags.forc
    return KERNELS is not None and plain and owner.nbytes >= threshold(least)


def release(owner: Any) -> None:
    """Give the pages of an array back to the system: its values are not needed any more."""
    KERNELS.let_go(owner)
    if Limit.most < LARGE and owner.flags.writeable:  # less than a page stays as it is
        owner.fill(0)


class Known:
    """An array that steps refer to: how often, and which other arrays are views of it."""

    __slots__ = ("array", "places", "views")

    def __init__(self, array: Any) -> None:
        self.array = array
        self.places = 0
        self.views: list[Known] | tuple[()] = ()  # most have none

    def is_only_ours(self) -> bool:
        """Whether all references are those of the steps, of this and of the views here."""
        array = self.array
        own = self.places + len(self.views) + 2  # this one's, and the name here
        return references(array) <= own and all([v.is_only_ours() for v in self.views])


class Dying:
    """The large arrays that the steps of a recording made."""

    def __init__(self) -> None:
        self.known: dict[int, Known] = {}
        self.alive: dict[int, Known] = {}  # owners whose values are still there
        self.small: dict[int, Known] = {}  # likewise, those that are looked at now and then
        self.new = 0  # bytes of these since then
        self.enough = threshold(MANY)

    def made(self, arrays: list[Any]) -> None:
        """Note arrays that a step made, which the recorder keeps in a table of its own."""
        for array in arrays:
            owner = memory(array)
            if is_large(owner, SEVERAL) and id(owner) not in self.known:
                known = self.known[id(owner)] = Known(owner)
                known.places = 1
                if owner.nbytes >= threshold(LARGE):
                    self.alive[id(owner)] = known
                else:
                    self.small[id(owner)] = known
                    self.new += owner.nbytes

    def used(self, arrays: list[Any]) -> None:
        """Arrays that a step has in its lists."""
        for array in arrays:
            owner = self.known.get(id(memory(array)))
            if owner is None:
                continue
            known = self.known.get(id(array))
            if known is None:
                known = self.known[id(array)] = Known(array)
                if type(owner.views) is tuple:
                    owner.views = []
                owner.views.append(known)
                if array.base is not owner.array:  # somebody may have what is between the two
                    self.alive.pop(id(owner.array), None)
                    self.small.pop(id(owner.array), None)
            known.places += 1

    def let_go(self) -> None:
        """Release the memory of arrays that only the steps refer to."""
        let_go_of(self.alive)
        if self.new >= self.enough:
            let_go_of(self.small)
            # As they become more, they are looked at less often.
            size = sum([x.array.nbytes for x in self.small.values()])
            self.enough = max(threshold(MANY), size // 8)
            self.new = 0


def let_go_of(alive: dict[int, Known]) -> None:
    for key in [key for key, known in alive.items() if known.is_only_ours()]:
        release(alive.pop(key).array)
