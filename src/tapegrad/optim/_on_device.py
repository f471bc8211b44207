"""Parameters on a GPU: all of one dtype in one launch, where the backend has a kernel for the rule.

While a step is captured into a CUDA graph, the numbers that change from step to step (learning
rate, step count and the like) are read from memory on the GPU: a replay counts on, and follows a
scheduler.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any

from ..core import devices
from ..core.base import STATE, Version, ndarray, wrap
from ..core.modes import MODES
from ..core.python_dispatch import ACTIVE
from ..core.tensor_lists import count_writes, note_writes

PLAIN = (bool, float, int, list, str, tuple, type(None))
NUMBERS = (bool, float, int)

State = dict[str, Any]
Group = dict[str, Any]


def count_step(own: State, group: Group) -> None:
    own["step"]._array += 1


@dataclass(frozen=True, eq=False)
class Fused:
    """The description of an update rule for the kernel that runs it for many parameters.

    `update` is one step of one parameter, from which the kernels in C and in CUDA are made
    (expressions/updates.py), unless they are written by hand.
    `rows` are the entries of the state with as many elements as the parameter, each with the option
    that it is kept for ("" if it always is). `options` are those of the group that the kernel is
    given, with a length if they are no single numbers. `scalars` are the entries of the state that
    are one number; `advance(state, group)` makes them those of the next step, and the kernel knows
    how to do the same. Or the kernel is told whether it has to fill the last row, `fresh`, which
    the state does not hold before the first step.
    """

    kernel: str
    update: Callable[[Any, Any, State, Group], None] | None
    rows: dict[str, str]
    options: tuple[str, ...]
    scalars: tuple[str, ...] = ("step",)
    advance: Callable[[State, Group], None] = count_step
    fresh: str = ""

    @functools.cached_property
    def numbers(self) -> tuple[str, ...]:
        """Names in the kernel of the numbers that change with each step, besides `lr`."""
        return ("fresh",) if self.fresh else self.scalars

    @functools.cached_property
    def option_names(self) -> tuple[str, ...]:
        return tuple([name.partition("[")[0] for name in self.options])

    def values(self, own: State) -> tuple[float, ...] | None:
        """The numbers for a parameter before a step; None if the host would have to wait."""
        if self.fresh:
            return (float(own.get(self.fresh) is None),)
        if len(self.scalars) == 1:
            array = own[self.scalars[0]]._array
            return (array.item(),) if type(array) is ndarray else None
        found = []
        for name in self.scalars:
            array = own[name]._array
            if type(array) is not ndarray:
                return None
            found.append(array.item())
        return tuple(found)


def ops_are_watched() -> bool:
    """Whether a mode wants to see the ops of a step, not the step."""
    return any([not mode.records_steps for mode in ACTIVE.modes])


class Ready:
    """The part of a group's launch that stays from step to step: all but gradients and some
    numbers.

    Parameters and states are known by their arrays; if one is another, all is looked at anew.
    """

    def __init__(
        self,
        kernel: Any,
        params: list[Any],
        owns: list[State],
        rows: Sequence[Sequence[Any]],
        names: tuple[str, ...],
        rule: Fused,
        values: tuple[float, ...],
        options: list[float],
    ) -> None:
        self.rule = rule
        self.options = options
        self.kernel = kernel
        self.params = params
        self.owns = owns
        self.kept = (rows[0], *rows[2:])
        self.names = names
        self.sizes = tuple([x.size for x in rows[0]])
        self.dtype = rows[0][0].dtype
        self.pointers = [[x.data.ptr for x in row] for row in self.kept]
        self.numbers = [[own[name]._array for own in owns] for name in rule.scalars]
        self.values = values if rule.fresh else None  # a row that is there is not filled again

    def is_still(self, params: list[Any], states: Any, names: tuple[str, ...], rule: Any) -> bool:
        """Whether a step begins as the one before did, with the same rows of state."""
        if rule is not self.rule or names != self.names or len(params) != len(self.params):
            return False
        if not all(map(is_, params, self.params)):
            return False
        if not all(map(is_, [p._array for p in params], self.kept[0])):
            return False
        if not names and not self.numbers:
            return True
        owns = self.owns
        if not all(map(is_, [states[p] for p in params], owns)):
            return False
        try:
            for name, row in zip(self.names, self.kept[1:], strict=True):
                if not all(map(is_, [own[name]._array for own in owns], row)):
                    return False
            for name, arrays in zip(rule.scalars, self.numbers, strict=True):
                if not all(map(is_, [own[name]._array for own in owns], arrays)):
                    return False
        except (AttributeError, KeyError):
            return False
        return True

    def step(self, params: list[Any], group: Group, rule: Fused, options: list[float]) -> bool:
        """One step; False, and nothing is done, if gradients or numbers are not as they should."""
        if options != self.options:
            if not devices.DEVICE.backend.optimizers.fit_options(self.kernel, options):
                return False
            self.options = options
        grads = [p._gradient._array for p in params]
        device_type, dtype = STATE.device_type, self.dtype
        for g, size in zip(grads, self.sizes, strict=True):
            if type(g) is not device_type or g.dtype is not dtype or g.size != size:
                return False
        values = self.values
        if values is None:
            found = [{array.item() for array in arrays} for arrays in self.numbers]
            if any([len(numbers) != 1 for numbers in found]):
                return False
            values = tuple([numbers.pop() for numbers in found])
        grads = devices.DEVICE.backend.optimizers.contiguous(grads)
        pointers = [self.pointers[0], [g.data.ptr for g in grads], *self.pointers[1:]]
        launch(self.kernel, rule, self.owns, self.sizes, pointers, values, group, options)
        write_down(params, rule)
        return True


def write_down(params: list[Any], rule: Fused) -> None:
    written = Version()
    written.bump(f"_fused_{rule.kernel}_")
    count_writes(params, 1)
    note_writes(written, params)


def update_on_device(
    params: list[Any], states: Any, group: Group, rule: Fused, ready: dict[int, Ready] | None = None
) -> list[Any]:
    """Update the parameters that a kernel can; the others are returned.

    `ready` is what the steps before have found, by group.
    """
    kernels = getattr(devices.DEVICE.backend, "optimizers", None)
    if kernels is None or MODES.records or any([type(v) not in PLAIN for v in group.values()]):
        return params
    if group.get("differentiable") or group.get("capturable") or ops_are_watched():
        return params
    options = numbers_of(group, rule)
    if options is None:
        return params
    present = tuple([name for name, kept in rule.rows.items() if not kept or group[kept]])
    known = None if ready is None else ready.get(id(group))
    if known is not None and known.is_still(params, states, present, rule):
        if known.step(params, group, rule, options):
            return []
    if len({address_of(p) for p in params}) != len(params):
        return params
    fresh, fits, values_of = rule.fresh, kernels.fits, rule.values
    rest: list[Any] = []
    alike: dict[Any, tuple[list[Any], list[State], list[list[Any]]]] = {}
    before: Any = None  # what the last one had: mostly the next one has the same
    found: Any = None
    for p in params:
        own = states[p]
        values = values_of(own)
        arrays = rows_of(p, own, present, fresh)
        if values is None or arrays is None or not fits(arrays):
            rest.append(p)
            continue
        key = (arrays[0].dtype, values)
        if key != before:
            before = key
            found = alike.setdefault(key, ([], [], []))
        found[0].append(p)
        found[1].append(own)
        found[2].append(arrays)
    for (dtype, values), (some, owns, each) in alike.items():
        if rule.fresh in present and values[0]:
            make_fresh(rule.fresh, owns, each)
        rows: list[Sequence[Any]] = list(zip(*each, strict=True))
        rows[1] = kernels.contiguous(rows[1])
        kernel = kernels.kernel(rule, dtype, present, options)
        sizes = tuple([x.size for x in rows[0]])
        pointers = [[x.data.ptr for x in row] for row in rows]
        launch(kernel, rule, owns, sizes, pointers, values, group, options)
        write_down(some, rule)
        if ready is not None and len(some) == len(params) and not STATE.several:
            if not (rule.fresh in present and values[0]):
                ready[id(group)] = Ready(kernel, some, owns, rows, present, rule, values, options)
    return rest


def address_of(p: Any) -> int:
    """Where a parameter lies: two in one place would be written at the same time."""
    array = p._array
    return int(array.data.ptr) if type(array) is STATE.device_type and array.size else id(p)


def numbers_of(group: Group, rule: Fused) -> list[float] | None:
    """The options as the kernel takes them; None if one of them is no number."""
    found: list[Any] = [group["lr"]]
    for name in rule.option_names:
        value = group[name]
        if type(value) is tuple or type(value) is list:
            found.extend(value)
        else:
            found.append(value)
    return found[1:] if all([type(v) in NUMBERS for v in found]) else None


def rows_of(p: Any, own: State, present: tuple[str, ...], fresh: str) -> list[Any] | None:
    """The arrays of a parameter, its gradient and its state; None if some are not on the GPU.

    The row `fresh` may be missing.
    """
    arrays = [p._array, p._gradient._array]
    for name in present:
        t = own.get(name)
        if t is not None:
            arrays.append(t._array)
        elif name != fresh:
            return None
    device_type = STATE.device_type
    for x in arrays:
        if type(x) is not device_type:
            return None
    return arrays


def make_fresh(name: str, owns: list[State], each: list[list[Any]]) -> None:
    """Memory for the row that the kernel fills in the first step."""
    for own, arrays in zip(owns, each, strict=True):
        made = devices.DEVICE.xp.ndarray(arrays[0].shape, arrays[0].dtype)
        own[name] = wrap(made)
        arrays.append(made)


def launch(
    kernel: Any,
    rule: Fused,
    owns: list[State],
    sizes: tuple[int, ...],
    pointers: list[list[int]],
    values: tuple[float, ...],
    group: Group,
    options: list[float],
) -> None:
    """One step of parameters whose states hold the same numbers."""
    narrow = bool(rule.scalars) and owns[0][rule.scalars[0]]._array.dtype.itemsize == 4
    counters = captured(rule, owns, values, group)
    kernel.update(sizes, pointers, (group["lr"], *values), options, narrow, counters)
    if counters is None:
        advance(rule, owns, group)
    elif kernel.counts and (not rule.fresh or values[0]):
        kernel.advance(counters, options, narrow)


def advance(rule: Fused, owns: list[State], group: Group) -> None:
    """The numbers of states that hold the same ones, after a step."""
    if not rule.scalars:
        return
    rule.advance(owns[0], group)
    for name in rule.scalars:
        value = owns[0][name]._array.item()
        for own in owns:
            t = own[name]
            t._array.fill(value)
            (t._cell or t._version_cell()).n += 1


def captured(rule: Fused, owns: list[State], values: tuple[float, ...], group: Group) -> Any:
    """Counters on the GPU if a CUDA graph is being captured; else None."""
    if not devices.DEVICE.capturing():
        return None
    xp = devices.DEVICE.xp
    side = xp.cuda.Stream(non_blocking=True)
    # Not part of the graph: another stream.
    with side:
        counters = devices.DEVICE.backend.counters((group["lr"], *values))
        side.synchronize()
    during = devices.DEVICE.capture.Capture.current
    during.optimizers.append(Replayed(counters, rule, owns, group, values))
    return counters


class Replayed:
    """The work of an optimizer on the host for every replay of a captured step."""

    def __init__(
        self, counters: Any, rule: Fused, owns: list[State], group: Group, values: Any
    ) -> None:
        self.counters = counters
        self.rule = rule
        self.owns = owns
        self.group = group
        self.first = values if rule.fresh else None  # before the first replay nothing is filled
        self.expected = self.group["lr"], values

    def numbers(self) -> tuple[Any, ...]:
        """The learning rate and the other numbers of the next step."""
        return self.group["lr"], self.first or self.rule.values(self.owns[0])

    def before_replay(self) -> None:
        lr, values = self.numbers()
        if (lr, values) != self.expected:  # a scheduler, or steps without the graph
            self.counters.set((lr, *values))
        advance(self.rule, self.owns, self.group)
        self.first = None
        self.expected = self.numbers()
