"""Memory that `t.data = other` exchanged while the graph still held what `t` was before.

PyTorch's graph keeps the tensor itself of an input, so that backward reads the memory that it has
then. A node here keeps the array: a note says which array took its place.
"""

from __future__ import annotations

import weakref
from typing import Any, Final

from .base import Node, Version


class Swap:
    """A new array of one tensor, known by its version cell and its place in the graph."""

    def __init__(self, old: Any, cell: Version, node: Node | None, slot: int, new: Any) -> None:
        key = id(old)
        self.old = weakref.ref(old, lambda _: SWAPS.pop(key, None))
        self.cell = cell
        self.node = node
        self.slot = slot
        self.new = new


# The swaps by the id of the old array. An entry goes with that array: programs whose graphs are
# gone (`p.data = …` in an optimizer) leave nothing here, and nothing is looked up.
SWAPS: Final[dict[int, list[Swap]]] = {}


def note_swap(cell: Version, node: Node | None, slot: int, old: Any, new: Any) -> None:
    """Note that the tensor looks at `new` from now on; what it looked at earlier leads there."""
    for found in list(SWAPS.values()):
        for swap in found:
            if swap.cell is cell and swap.node is node and swap.slot == slot:
                swap.new = new
    back = SWAPS.get(id(new), [])
    back[:] = [s for s in back if not (s.cell is cell and s.node is node and s.slot == slot)]
    if old is not new:
        SWAPS.setdefault(id(old), []).append(Swap(old, cell, node, slot, new))


def newest(array: Any, cell: Version, node: Node | None, slot: int) -> Any:
    """What the tensor that was saved as `array` looks at now."""
    for swap in SWAPS.get(id(array), ()):
        if swap.cell is cell and swap.node is node and swap.slot == slot:
            return swap.new
    return array
