"""Parameters on the CPU: all of one dtype in one call of a kernel in C, where it was built.

The kernels (kernels/cpu/c/kernels/optim.c) do what `update` of the optimizer does, element by
element in the same order of operations, without the passes over memory in between.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.base import STATE, Version, wrap
from ..core.modes import MODES
from ..core.per_thread import PerThread
from ..core.tensor_lists import (
    add_writes,
    dtype_of_all,
    note_writes,
    same_parameters,
    same_state,
    without_gradients,
)
from ..core.tensor_lists import count_writes as count_all
from ..core.transforms.levels import TANGENTS
from ..kernels.cpu import KERNELS
from ._multi_tensor import PLAIN, Update, count_writes
from ._on_device import Fused, Group, State, advance, count_step, numbers_of, ops_are_watched

GRADIENTS = 1  # the row that is only read
AT_A_TIME = 1 << 20  # bytes of parameters that an update is rehearsed on


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
    if ops_are_watched():
        return params
    options = numbers_of(group, rule)
    if options is None:
        return params
    present = [name for name, kept in rule.rows.items() if not kept or group[kept]]
    rest: list[Any] = []
    for (dtype, values), some in by_kind(params, states, rule, present, rest).items():
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
        narrow = bool(rule.scalars) and owns[0][rule.scalars[0]]._array.dtype.itemsize == 4
        writes = writes_of(rule, update, group, present, options, fresh)
        done = Done(some, owns, group, rule, rows, table, narrow, writes, bool(fresh))
        done.run(values, options)
        if WATCHING.done is not None:
            WATCHING.done.append(done)
    return rest


def by_kind(
    params: list[Any], states: Any, rule: Fused, present: list[str], rest: list[Any]
) -> dict[Any, list[Any]]:
    """Parameters by their dtype and the numbers of their state; the odd ones go to `rest`."""
    if params:
        # Most often all of them are of one kind.
        owns = [states[p] for p in params]
        dtype = dtype_of_all(params, owns, present)
        values = [rule.values(own) for own in owns] if dtype is not None else []
        if values and values.count(values[0]) == len(values):
            return {(dtype, values[0]): params}
    alike: dict[Any, list[Any]] = {}
    for p in params:
        own = states[p]
        if dtype_of_all([p], [own], present) is None:
            rest.append(p)
        else:
            alike.setdefault((p._array.dtype, rule.values(own)), []).append(p)
    return alike


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
    makes_state: bool  # what the next steps find there

    def run(self, values: Any, options: list[float]) -> None:
        dtype = self.rows[0][0].dtype
        run = KERNELS.KERNELS[f"{self.rule.kernel}_{SUFFIXES[dtype]}"]
        run((self.table,), (len(self.params), self.narrow), (self.group["lr"], *values, *options))
        count(self.params, self.owns, self.writes)
        advance(self.rule, self.owns, self.group)


class Again:
    """An update that a compiled step makes again, while everything around it is as it was.

    That is prepared as lists which C goes through. The numbers of the group may change.
    """

    def __init__(self, done: Done, optimizer: Any) -> None:
        self.done = done
        rule, group = done.rule, done.group
        groups, states = optimizer.param_groups, optimizer.state
        self.places = [
            (vars(optimizer), "param_groups", groups),
            (vars(optimizer), "state", states),
            (group, "params", group["params"]),
        ]
        self.lengths = [(groups, len(groups)), (group["params"], len(group["params"]))]
        self.parameters: list[tuple[Any, ...]] = []
        self.state: list[tuple[Any, ...]] = []
        self.writes: list[tuple[Any, int]] = []  # versions, and what is added to them
        rows: list[Any] = [None] * len(done.params)
        self.is_listed = any([each is group for each in groups])
        self.without = [p for p in group["params"] if p._gradient is None]
        for p, own, array, gradient in zip(
            done.params, done.owns, done.rows[0], done.rows[1], strict=True
        ):
            if own:
                self.places.append((states, p, own))
            # The gradients themselves are not kept: a replay looks at who else does.
            self.parameters.append((p, array, gradient, p._version_cell()))
            self.add_write(p, done.writes.parameter)
        for name, row in zip(rule.rows, done.rows[2:], strict=True):
            for own, array in zip(done.owns, rows if row is None else row, strict=True):
                if array is not None:
                    self.places.append((own, name, own[name]))
                    self.state.append((own[name], array, None))
        for name, n in done.writes.state.items():
            for own in done.owns:
                self.state.append((own[name], own[name]._array, own[name]._version_cell()))
                self.add_write(own[name], n)
        self.counters: list[Any] = []
        self.numbers = [[own[name]._array for own in done.owns] for name in rule.scalars]
        self.counts = rule.scalars == ("step",) and rule.advance is count_step
        for name in rule.scalars:
            for own in done.owns:
                t = own[name]
                self.places.append((own, name, t))
                self.state.append((t, t._array, t._version_cell()))
                self.counters.append(t._array)
                if self.counts:
                    self.add_write(t, 1)
        self.written = Version()  # by the line that was recorded
        self.written.writers = done.params[0]._version_cell().writers[-1:]
        self.run = KERNELS.KERNELS[f"{rule.kernel}_{SUFFIXES[done.rows[0][0].dtype]}"]
        self.table, self.sizes = (done.table,), (len(done.params), done.narrow)
        self.take_numbers()

    def add_write(self, t: Any, n: int) -> None:
        if n:
            self.writes.append((t._version_cell(), n))

    def take_numbers(self) -> bool:
        """The numbers of the group as they are now; False if they ask for another kernel."""
        group = self.done.group
        options = numbers_of(group, self.done.rule)
        kinds = [(key, v if type(v) in (str, bool) else bool(v)) for key, v in group.items()]
        if options is None or kinds != getattr(self, "kinds", kinds):
            return False
        self.kinds = kinds
        self.options = tuple(options)
        numbers = [(group, key, value) for key, value in group.items()]
        self.all_places = [*self.places, *numbers]
        has_values = bool(self.done.rule.fresh or self.done.rule.scalars)
        self.given = None if has_values else (group["lr"], *options)
        return True

    def fits(self) -> bool:
        """Whether all that the kernel takes for granted is as it was."""
        return (
            self.is_listed
            and same_parameters(self.parameters)
            and (not self.state or same_state(self.state))
            and (not self.without or without_gradients(self.without))
            and all([are_equal(arrays) for arrays in self.numbers])
            and (
                KERNELS.as_before(self.all_places, self.lengths)
                or (KERNELS.as_before(self.places, self.lengths) and self.take_numbers())
            )
        )

    def make(self) -> None:
        self.run(self.table, self.sizes, self.given or self.numbers_now())
        self.count()

    def numbers_now(self) -> tuple[Any, ...]:
        """The numbers and options that the kernel is given beside the arrays."""
        done = self.done
        return done.group["lr"], *done.rule.values(done.owns[0]), *self.options

    def make_elsewhere(self, pieces_of: Any, seen: Any) -> None:
        """Do all that `make` does, but in copies of the arrays, some pieces of them at a time.

        `pieces_of(array)` are views of an array that are large enough to be worth a call.
        `seen(array, piece)` is told each array that `make` would write and a copy of one of its
        pieces, with the values that it would get; one piece after the other.
        """
        given = self.given or self.numbers_now()
        rows = [row for row in self.done.rows if row is not None]
        batch: list[Any] = []
        size = 0
        for arrays in zip(*rows, strict=True):
            for pieces in zip(*map(pieces_of, arrays), strict=True):
                batch.append((arrays, pieces))
                size += pieces[0].nbytes
                if size >= AT_A_TIME:
                    self.make_copies(batch, given, seen)
                    batch, size = [], 0
        if batch:
            self.make_copies(batch, given, seen)
        self.count()

    def make_copies(self, batch: list[Any], given: Any, seen: Any) -> None:
        """Run the kernel on copies of some pieces of arrays."""
        done = self.done
        columns = [
            [np.ascontiguousarray(x) if i == GRADIENTS else x.copy() for i, x in enumerate(pieces)]
            for _, pieces in batch
        ]
        present = iter(range(len(columns[0])))
        places = [None if row is None else next(present) for row in done.rows]
        rows = [None if i is None else [column[i] for column in columns] for i in places]
        self.run((KERNELS.together(rows, GRADIENTS),), (len(batch), done.narrow), given)
        for (arrays, _), column in zip(batch, columns, strict=True):
            for i, (array, piece) in enumerate(zip(arrays, column, strict=True)):
                if i != GRADIENTS:
                    seen(array, piece)

    def count(self) -> None:
        """Count the writes of the kernel, and the step."""
        done = self.done
        add_writes(self.writes)
        note_writes(self.written, done.params)
        if self.counts:
            KERNELS.count_up(self.counters)
        elif self.counters:
            advance(done.rule, done.owns, done.group)


def are_equal(arrays: list[Any]) -> bool:
    """Whether arrays of one number have the same number in them.

    The kernel takes one number for all parameters. Steps that left some of them out, for want of a
    gradient, have not counted these.
    """
    numbers = [array.item() for array in arrays]
    return numbers.count(numbers[0]) == len(numbers)


def table_of(
    params: list[Any], states: Any, rule: Fused, present: list[str], fresh: str
) -> tuple[list[Any], Any]:
    """The rows of arrays, and the table of them that a kernel takes; None if they are not plain."""
    rows: list[Any] = [[p._array for p in params], [p._gradient._array for p in params]]
    for name in rule.rows:
        if name not in present:
            rows.append(None)
        elif name == fresh:
            rows.append([np.empty(x.shape, x.dtype) for x in rows[0]])
        else:
            rows.append([states[p][name]._array for p in params])
    for name in rule.scalars:
        if len({id(states[p][name]._array) for p in params}) != len(params):
            return rows, None
    return rows, KERNELS.together(rows, GRADIENTS)


def count(params: list[Any], owns: list[State], writes: Writes) -> None:
    """Count the writes, and note whose line made them."""
    count_all(params, writes.parameter)
    for name, n in writes.state.items():
        count_all([own[name] for own in owns], n)
    if STATE.recording:
        cell = Version()
        cell.bump(writes.name)
        note_writes(cell, params)


def writes_of(
    rule: Fused, update: Update, group: Group, present: list[str], options: list[float], fresh: str
) -> Writes:
    """The state that `update` writes with these options: found by trying it on one number."""
    key = (rule.kernel, fresh, STATE.recording, *[bool(x) for x in options])
    found = KNOWN.get(key)
    if found is None:
        p, grad = wrap(np.ones(1)), wrap(np.ones(1))
        state = {name: wrap(np.ones(1)) for name in present if name != fresh}
        state |= {name: wrap(np.ones(())) for name in rule.scalars}
        update(p, grad, state, group)
        writers = p._cell.writers
        found = KNOWN[key] = Writes(
            p._cell.n,
            writers[-1][1] if writers else "",
            {name: count_writes(state[name]) for name in present if name != fresh},
        )
    return found
