"""Parameters on the CPU: all of one dtype in one call of a kernel in C, where it was built.

The kernels (native/c/optim.c) do what `update` of the optimizer does, element by element in the
same order of operations, without the passes over memory in between.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.base import STATE, Version, wrap
from ..core.modes import MODES
from ..core.per_thread import PerThread
from ..core.transforms.levels import TANGENTS
from ..native import KERNELS
from ._multi_tensor import PLAIN, Update, count_writes, note_writes
from ._on_device import Fused, Group, State, advance, numbers_of

GRADIENTS = 1  # the row that is only read


@dataclass(frozen=True)
class Writes:
    """How often an update writes to a parameter and to its state, and what writes last."""

    parameter: int
    name: str
    state: dict[str, int]


KNOWN: dict[Any, Writes] = {}


def update_natively(
    params: list[Any], states: Any, group: Group, rule: Fused, update: Update
) -> list[Any]:
    """Update the parameters that a kernel can; the others are returned."""
    if MODES.records or TANGENTS or any([type(v) not in PLAIN for v in group.values()]):
        return params
    if group.get("differentiable") or group.get("capturable"):
        return params
    options = numbers_of(group, rule)
    if options is None:
        return params
    present = [name for name, kept in rule.rows.items() if not kept or group[kept]]
    rest: list[Any] = []
    alike: dict[Any, list[Any]] = {}
    for p in params:
        own = states[p]
        if not is_ordinary(p, own, present):
            rest.append(p)
            continue
        key = (p.array.dtype, rule.values(own))
        found = alike.get(key)
        if found is None:
            alike[key] = [p]
        else:
            found.append(p)
    for (dtype, values), some in alike.items():
        fresh = rule.fresh if rule.fresh in present and values[0] else ""
        table = None
        if dtype in SUFFIXES:
            rows, table = table_of(some, states, rule, present, fresh)
            if table is None:  # without those that are odd by themselves
                odd = [p for p in some if table_of([p], states, rule, present, fresh)[1] is None]
                some = [p for p in some if p not in set(odd)]
                rest += odd
                rows, table = table_of(some, states, rule, present, fresh)
        if table is None:
            rest += some
            continue
        owns = [states[p] for p in some]
        if fresh:
            for own, made in zip(owns, rows[2 + list(rule.rows).index(fresh)], strict=True):
                own[fresh] = wrap(made)
        narrow = bool(rule.scalars) and owns[0][rule.scalars[0]].array.dtype.itemsize == 4
        writes = writes_of(rule, update, group, present, options, fresh)
        done = Done(some, owns, group, rule, rows, table, narrow, writes)
        done.run(values, options)
        if WATCHING.done is not None:
            WATCHING.done.append(done)
    return rest


SUFFIXES = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64"}


class Watching(PerThread):
    """Whether a compiled step wants to know which updates a call of `step` was made of."""

    done: list[Done] | None = None


WATCHING = Watching()


@dataclass
class Done:
    """One call of a kernel for many parameters, which a compiled step makes again."""

    params: list[Any]
    owns: list[State]
    group: Group
    rule: Fused
    rows: list[Any]
    table: Any
    narrow: bool
    writes: Writes

    def run(self, values: Any, options: list[float]) -> None:
        dtype = self.rows[0][0].dtype
        run = KERNELS.KERNELS[f"{self.rule.kernel}_{SUFFIXES[dtype]}"]
        run((self.table,), (len(self.params), self.narrow), (self.group["lr"], *values, *options))
        count(self.params, self.owns, self.writes)
        advance(self.rule, self.owns, self.group)

    def fits(self) -> bool:
        """Whether the same arrays are to be updated again, after the first step."""
        rows = self.rows
        for p, array, gradient in zip(self.params, rows[0], rows[1], strict=True):
            if p.array is not array or p.gradient is None or p.gradient.array is not gradient:
                return False
        for name, row in zip(self.rule.rows, rows[2:], strict=True):
            if row is not None:
                for own, array in zip(self.owns, row, strict=True):
                    t = own.get(name)
                    if t is None or t.array is not array:
                        return False
        return True

    def options(self) -> list[float] | None:
        """The options of the group as they are now; None where one of them is no number."""
        return numbers_of(self.group, self.rule)

    def again(self, options: list[float]) -> None:
        self.run(self.rule.values(self.owns[0]), options)


def is_ordinary(p: Any, own: State, present: list[str]) -> bool:
    """Whether a parameter, its gradient and its state can be used through their arrays."""
    if p.special or p.view_of is not None or p.gradient.special:
        return False
    if p.cell is not None and p.cell.inference:
        return False
    for name in present:
        t = own.get(name)
        if t is not None and (t.special or (t.cell is not None and t.cell.inference)):
            return False
    return True


def table_of(
    params: list[Any], states: Any, rule: Fused, present: list[str], fresh: str
) -> tuple[list[Any], Any]:
    """The rows of arrays, and the table of them that a kernel takes; None if they are not plain."""
    rows: list[Any] = [[p.array for p in params], [p.gradient.array for p in params]]
    for name in rule.rows:
        if name not in present:
            rows.append(None)
        elif name == fresh:
            rows.append([np.empty(x.shape, x.dtype) for x in rows[0]])
        else:
            rows.append([states[p][name].array for p in params])
    for name in rule.scalars:
        if len({id(states[p][name].array) for p in params}) != len(params):
            return rows, None
    return rows, KERNELS.together(rows, GRADIENTS)


def count(params: list[Any], owns: list[State], writes: Writes) -> None:
    """Count the writes, and note whose line made them."""
    for p in params:
        (p.cell or p.version_cell()).n += writes.parameter
    for name, n in writes.state.items():
        for own in owns:
            t = own[name]
            (t.cell or t.version_cell()).n += n
    if STATE.recording:
        cell = Version()
        cell.bump(writes.name)
        note_writes(cell, params)


def writes_of(
    rule: Fused, update: Update, group: Group, present: list[str], options: list[float], fresh: str
) -> Writes:
    """What the optimizer's own `update` writes with these options: it is tried on one number."""
    key = (rule.kernel, fresh, STATE.recording, *[bool(x) for x in options])
    found = KNOWN.get(key)
    if found is None:
        p, grad = wrap(np.ones(1)), wrap(np.ones(1))
        state = {name: wrap(np.ones(1)) for name in present if name != fresh}
        state |= {name: wrap(np.ones(())) for name in rule.scalars}
        update(p, grad, state, group)
        writers = p.cell.writers
        found = KNOWN[key] = Writes(
            p.cell.n,
            writers[-1][1] if writers else "",
            {name: count_writes(state[name]) for name in present if name != fresh},
        )
    return found
