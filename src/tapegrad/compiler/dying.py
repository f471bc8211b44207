"""Values of a recorded call that the call itself does not need any more.

A recording keeps every array, since each has its place in the list of steps. What is behind the
large ones is given back as soon as nobody but the recording knows them, so that a call that is
recorded needs as much memory as any other: the place stays, the pages are the system's again.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ..core.layout import memory
from ..native import KERNELS

LARGE = 1 << 16  # bytes that are worth looking after: smaller ones are malloc's


def is_large(owner: Any) -> bool:
    """Whether an array owns its memory, in one piece, and that is worth giving back."""
    plain = type(owner) is np.ndarray and owner.flags.owndata and owner.flags.forc
    return KERNELS is not None and plain and owner.nbytes >= LARGE


class Known:
    """An array in the steps: how often, and what else is a view of it."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.places = 0
        self.views: list[Known] = []

    def is_only_ours(self) -> bool:
        """Whether all references are those of the steps, of this and of the views here."""
        # The argument of getrefcount is one more.
        own = self.places + len(self.views) + 2
        return sys.getrefcount(self.array) <= own and all([v.is_only_ours() for v in self.views])


class Dying:
    """The large arrays that the steps of a recording made."""

    def __init__(self) -> None:
        self.known: dict[int, Known] = {}
        self.alive: dict[int, Known] = {}  # owners whose values are still there

    def made(self, arrays: list[Any]) -> None:
        """Arrays that a step made; the recorder has them in a table of its own."""
        for array in arrays:
            owner = memory(array)
            if is_large(owner) and id(owner) not in self.known:
                known = self.known[id(owner)] = self.alive[id(owner)] = Known(owner)
                known.places = 1

    def used(self, arrays: list[Any]) -> None:
        """Arrays that a step has in its lists."""
        for array in arrays:
            owner = self.known.get(id(memory(array)))
            if owner is None:
                continue
            known = self.known.get(id(array))
            if known is None:
                known = self.known[id(array)] = Known(array)
                owner.views.append(known)
                if array.base is not owner.array:  # somebody may have what is between the two
                    self.alive.pop(id(owner.array), None)
            known.places += 1

    def let_go(self) -> None:
        """Give back what is behind those that nobody else knows."""
        for key in [key for key, known in self.alive.items() if known.is_only_ours()]:
            KERNELS.let_go(self.alive.pop(key).array)
