"""The guards of a recording as one flat table, which C compares in one pass before a replay."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from ...core.tensor_lists import same_hooks
from ...kernels.cpu import KERNELS
from ..capture.guards import Guards
from ..capture.reads import class_dict


class GuardTable:
    """Guards laid out so that C can compare them; what C cannot compare, Python does.

    A guard takes 5 to 15 ns here. One that fails may still hold, because another object has an
    equal value: `Guards.changed` decides that, and knows names. Then the table is made anew.
    """

    def __init__(self, guards: Guards) -> None:
        self.guards = guards
        self.table: list[tuple[Any, ...]] = []  # for C, one tuple for each kind
        self.checks: tuple[Any, ...] = ()
        self.is_whole = False

    def lay_out(self) -> None:
        guards, reads = self.guards, self.guards.reads
        attributes = [(class_dict(cls), key, value) for cls, key, value, _ in guards.attributes]
        lengths = {(id(each), length): (each, length) for each, length, _ in guards.lengths}
        items = [(each, tuple(items)) for each, items, _ in guards.items]
        self.table = [
            flat([*[entry[:3] for entry in guards.entries], *attributes]),
            flat(lengths.values()),
            flat([cell[:2] for cell in guards.cells]),
            flat(items),
        ]
        if reads is None:
            self.table += [(), (), ()]
        else:
            parts = zip(reads.functions, reads.function_parts, strict=True)
            self.table += [
                flat(zip(reads.owners, reads.classes, strict=True)),
                flat(zip(reads.bases, reads.orders, strict=True)),
                flat([(function, *own) for function, own in parts]),
            ]
        self.checks = () if reads is None else tuple(reads.checks)
        self.is_whole = not (guards.sets or guards.queues or guards.leaf_hooks or self.checks)

    def changed(self) -> str:
        """The name of the first thing that changed; "" if nothing did."""
        if KERNELS is None:
            return self.guards.changed()
        if not self.table:  # code that was instrumented is back in place by now
            self.lay_out()
        if not KERNELS.guards_hold(*self.table):
            changed = self.guards.changed()
            if not changed:
                self.lay_out()
            return changed
        return "" if self.is_whole else self.changed_otherwise()

    def changed_otherwise(self) -> str:
        """`changed` for what C cannot compare."""
        guards = self.guards
        if guards.leaf_hooks and not same_hooks(guards.leaf_hooks):
            return "the hooks of a tensor"
        if guards.sets or guards.queues:
            return guards.changed()
        for holds, name in self.checks:
            if not holds():
                return name
        return ""


def flat(rows: Iterable[Iterable[Any]]) -> tuple[Any, ...]:
    return tuple(itertools.chain.from_iterable(rows))
