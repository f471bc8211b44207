"""The guards of a recording as one flat table, which C compares in one pass before a replay."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from ...kernels.cpu import KERNELS
from ..capture.reads import Reads


class GuardTable:
    """Guards laid out so that C can compare them; what C cannot compare, Python does.

    A guard takes 5 to 15 ns here. One that fails may still hold, because another object has an
    equal value: `Reads.changed` decides that, and knows names. Then the table is made anew.
    """

    def __init__(self, reads: Reads) -> None:
        self.reads = reads
        self.table: list[tuple[Any, ...]] = []  # for C, one tuple for each kind

    def lay_out(self) -> None:
        reads = self.reads
        parts = zip(reads.functions, reads.function_parts, strict=True)
        self.table = [
            flat([entry[:3] for entry in reads.entries]),
            flat({id(each): (each, length) for each, length, _ in reads.lengths}.values()),
            flat([cell[:2] for cell in reads.cells]),
            flat([(each, tuple(items)) for each, items, _ in reads.items]),
            flat(zip(reads.owners, reads.classes, strict=True)),
            flat(zip(reads.bases, reads.orders, strict=True)),
            flat([(function, *own) for function, own in parts]),
        ]

    def changed(self) -> str:
        """The name of the first thing that changed; "" if nothing did."""
        if KERNELS is None:
            return self.reads.changed()
        if not self.table:  # code that was instrumented is back in place by now
            self.lay_out()
        if not KERNELS.guards_hold(*self.table):
            changed = self.reads.changed()
            if not changed:
                self.lay_out()
            return changed
        for holds, name in self.reads.checks:
            if not holds():
                return name
        return ""


def flat(rows: Iterable[Iterable[Any]]) -> tuple[Any, ...]:
    return tuple(itertools.chain.from_iterable(rows))
