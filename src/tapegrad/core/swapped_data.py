"""Notes on `t.data = other` for tensors whose old array is saved in a graph.

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
        self.old = weakref.ref(old, lambda _: forget(key))
        self.cell = cell
        self.node = node
        self.slot = slot
        self.new = new

    def is_of(self, cell: Version, node: Node | None, slot: int) -> bool:
        return self.cell is cell and self.node is node and self.slot == slot


# The swaps by the id of the old array. An entry goes with that array: programs whose graphs are
# gone (`p.data = …` in an optimizer) leave nothing here, and nothing is looked up.
SWAPS: Final[dict[int, list[Swap]]] = {}
# The same swaps by the id of the cell, which they keep alive.
OF_CELL: Final[dict[int, list[Swap]]] = {}


def forget(key: int) -> None:
    """Drop the note about an old array that was freed: no graph can ask for it any more."""
    for swap in SWAPS.pop(key, ()):
        drop(OF_CELL, id(swap.cell), swap)


def drop(table: dict[int, list[Swap]], key: int, swap: Swap) -> None:
    left = [s for s in table.get(key, ()) if s is not swap]
    if left:
        table[key] = left
    else:
        table.pop(key, None)


def note_swap(cell: Version, node: Node | None, slot: int, old: Any, new: Any) -> None:
    """Note that the tensor looks at `new` from now on; what it looked at earlier leads there."""
    for swap in OF_CELL.get(id(cell), ()):
        if swap.is_of(cell, node, slot):
            swap.new = new
            if swap.old() is new:  # it looks at this again
                drop(SWAPS, id(new), swap)
                drop(OF_CELL, id(cell), swap)
    if old is not new:
        swap = Swap(old, cell, node, slot, new)
        SWAPS.setdefault(id(old), []).append(swap)
        OF_CELL.setdefault(id(cell), []).append(swap)


def newest(array: Any, cell: Version, node: Node | None, slot: int) -> Any:
    """The array that a tensor has now which was saved with `array`."""
    for swap in SWAPS.get(id(array), ()):
        if swap.is_of(cell, node, slot):
            return swap.new
    return array
