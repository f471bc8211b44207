"""Elementwise ops that follow each other, joined into one pass over memory.

Each of them is a program of the vector machine already. A group of them over the same elements
becomes one program: what one op makes and only others of the group read never gets to memory. An op
joins a group that comes before it if nothing between the two makes what it reads; so the gradients
of a loss often join its forward pass. Programs compute in the precision of their arrays, step by
step, and joined ones do the same steps: no bit changes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.strides import address, memory
from ...expressions.expressions import Expression, Maker
from ...expressions.program import BOOL_KIND, TooLarge, program
from ...kernels.cpu import KERNELS

MOST_TOGETHER = 40  # ops in a group
LARGE_SUM = 1 << 15  # elements
JOINED = () if KERNELS is None else KERNELS.join_tapes([])  # in the place of what is in a group


class Shared:
    """State shared by the groups of one recording: constants, and programs already made."""

    def __init__(self, numbers: dict[int, float]) -> None:
        self.numbers = numbers  # by address: arrays of one number, which is always the same
        self.programs: dict[Any, Any] = {}  # that are alike, on operands that lie alike

    def tape(self, said: Any, sizes: Any, operands: Any, kept: list[Any]) -> Any:
        """A tape with one call of the vector machine."""
        # As text: zeros have signs.
        key = repr((said, sizes, [(kind, not at, steps) for kind, at, _, steps in operands]))
        tape = KERNELS.fused_tape(self.programs.get(key, said), sizes, operands, kept)
        self.programs[key] = tape.kept[0]
        return tape


class Call:
    """One op as a call of the vector machine."""

    __slots__ = (
        *("constants", "inputs", "kind", "kinds", "outputs", "said", "sizes", "step", "steps"),
    )

    def __init__(self, step: Any) -> None:
        self.step = step
        self.said, self.sizes, operands = step.tape.machine(0)
        self.kind, _, self.constants, self.kinds, _, _, self.steps, _ = self.said
        if self.count() == 1:  # one element: its steps say nothing
            self.sizes = (1,)
            operands = [(kind, at, number, (0,)) for kind, at, number, _ in operands]
        count = len(operands) - len(self.kinds)
        self.inputs, self.outputs = operands[:count], operands[count:]

    def is_plain(self) -> bool:
        """Whether the op computes in the precision of its arrays, as joined programs do."""
        arrays = [x for x in (*self.inputs, *self.outputs) if x[1]]
        return all([x[0] in (self.kind, BOOL_KIND) for x in arrays])

    def count(self) -> int:
        return math.prod(self.sizes)

    def over(self, sizes: tuple[int, ...]) -> None:
        """This call over an index space with more dimensions; its elements are contiguous."""
        if sizes == self.sizes:
            return
        self.inputs = tuple([spread_out(x, sizes) for x in self.inputs])
        self.outputs = tuple([spread_out(x, sizes) for x in self.outputs])
        self.sizes = sizes


def spread_out(operand: Any, sizes: tuple[int, ...]) -> Any:
    kind, at, number, steps = operand
    made = []
    step = steps[0]
    for n in reversed(sizes):
        made.append(step)
        step *= n
    return kind, at, number, tuple(reversed(made))


class Group:
    """Calls over the same elements: their steps, since there may be many."""

    def __init__(self, call: Call) -> None:
        self.steps = [call.step]
        self.kind, self.sizes = call.kind, call.sizes
        self.made = {x[1]: x for x in call.outputs}  # by address
        self.fills = owners(call.step.made)
        self.inside = places(call.step.made)

    def calls(self) -> list[Call]:
        found = [Call(step) for step in self.steps]
        for call in found:
            call.over(self.sizes)
        return found

    def takes(self, call: Call) -> bool:
        if call.kind != self.kind or len(self.steps) >= MOST_TOGETHER:
            return False
        a, b = call.sizes, self.sizes
        if call.count() != math.prod(b):
            return False
        if a != b:
            if len(a) > 1 and len(b) > 1:
                return False
            sizes = a if len(a) > 1 else b
            call.over(sizes)
            if sizes != b:
                self.made = {at: spread_out(x, sizes) for at, x in self.made.items()}
                self.sizes = sizes
        # What it reads of the group must be read element for element.
        for operand in call.inputs:
            at = operand[1]
            if at in self.made:
                if self.made[at] != operand:
                    return False
            elif any([begin <= at < end for begin, end in self.inside]):
                return False
        return True

    def add(self, call: Call) -> None:
        self.steps.append(call.step)
        self.made.update({x[1]: x for x in call.outputs})
        self.fills |= owners(call.step.made)
        self.inside += places(call.step.made)
        if len(self.steps) == MOST_TOGETHER:  # nobody asks any more
            self.made, self.inside = {}, []


class Alone:
    """A step that is not run by the vector machine."""

    def __init__(self, step: Any) -> None:
        self.step = step
        self.fills = owners(step.made)


def is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray)


def places(arrays: Any) -> list[tuple[int, int]]:
    """The first and last addresses of arrays' memory."""
    found = [memory(x) for x in arrays]
    return [(address(x), address(x) + x.nbytes) for x in found]


def owners(arrays: Any) -> set[int]:
    return {id(memory(x)) for x in arrays if is_array(x)}


def fused(steps: list[Any], is_needed: Any, shared: Shared) -> list[Any]:
    """The tapes of steps, elementwise ones joined; `is_needed(array, steps)`: who else reads it."""
    placed: list[Any] = []
    for step in steps:
        call = None
        if not step.has_effects and len(step.tape) == 1 and step.tape.machine(0) is not None:
            call = Call(step)
        if call is None or not call.is_plain():
            placed.append(Alone(step))
            continue
        reads = owners(step.arrays)
        for item in reversed(placed):
            if isinstance(item, Group) and item.takes(call):
                item.add(call)
                break
            if reads & item.fills:
                placed.append(Group(call))
                break
        else:
            placed.append(Group(call))
    parts = [tape for item in placed for tape in tapes_of(item, is_needed, shared)]
    return with_sums(parts, is_needed)


def with_sums(parts: list[Any], is_needed: Any) -> list[Any]:
    """Join sums with the elementwise calls that compute what they add up."""
    found: list[Any] = []
    fills: dict[int, set[int]] = {}  # by owner: the places of those that fill it
    for tape, steps in parts:
        reads = owners([x for step in steps for x in step.reads()])
        found_at = list(set().union(*[fills.get(owner, ()) for owner in reads]))
        made = owners([x for step in steps for x in step.made])
        if len(steps) == 1 and len(found_at) == 1 and is_large(steps[0]):
            at = found_at[0]
            machine, earlier = found[at]
            added = steps[0].arrays[0]
            kept = is_needed(added, [*earlier, *steps])
            joined = KERNELS.sum_after(machine, tape, kept)
            if joined is not None:
                if not kept:
                    forget(joined, added)
                found[at] = (joined, [*earlier, *steps])
                for owner in made:
                    fills.setdefault(owner, set()).add(at)
                continue
        for owner in made:
            fills.setdefault(owner, set()).add(len(found))
        found.append((tape, steps))
    return found


def is_large(step: Any) -> bool:
    """Whether a step goes over more memory than a cache holds."""
    arrays = [x for x in getattr(step, "arrays", ()) if is_array(x)]
    return len(arrays) == 1 and arrays[0].size >= LARGE_SUM


def forget(tape: Any, array: Any) -> None:
    """Drop a tape's reference to an array, into which its calls do not write any more."""
    owner = memory(array)
    kept = [x for x in tape.kept if not is_array(x) or memory(x) is not owner]
    tape.move(np.zeros((0, 3), np.int64), kept)


def tapes_of(item: Any, is_needed: Any, shared: Shared) -> list[Any]:
    """The tapes of one place in the order, with the steps that each does."""
    if isinstance(item, Alone):
        tape = item.step.tape
        if len(tape) == 1 and tape.machine(0) is not None:  # prepared, it is faster
            return tapes_for([Call(item.step)], is_needed, shared)
        return [(tape, [item.step])]
    return tapes_for(item.calls(), is_needed, shared)


def tapes_for(calls: list[Call], is_needed: Any, shared: Shared) -> list[Any]:
    """The tapes for some calls of a group."""
    if len(calls) == 1:
        call = calls[0]
        kept = [x for x in call.step.tape.kept if is_array(x)]
        operands = (*call.inputs, *call.outputs)
        tape = shared.tape(call.said, call.sizes, operands, kept)
    else:
        try:
            tape = joined(calls, is_needed, shared)
        except TooLarge:
            half = len(calls) // 2
            first = tapes_for(calls[:half], is_needed, shared)
            return first + tapes_for(calls[half:], is_needed, shared)
    for call in calls:
        call.step.tape = JOINED  # has taken its place
    return [] if tape is None else [(tape, [call.step for call in calls])]


def joined(calls: list[Call], is_needed: Any, shared: Shared) -> Any:
    """One tape for all calls of a group; None if it would do nothing."""
    maker = Maker()
    values: dict[Any, Expression] = {}  # of operands, by address and steps
    inputs: list[Any] = []
    outputs: list[Any] = []
    results: list[Expression] = []
    names = {code: name for name, (code, _) in KERNELS.STEPS.items()}
    steps = [call.step for call in calls]
    for call in calls:
        registers: dict[int, Any] = {}
        for i, operand in enumerate(call.inputs):
            registers[i] = value_of(operand, maker, values, inputs, shared)
        first = len(call.inputs)
        for i, constant in enumerate(call.constants):
            is_list = isinstance(constant, tuple)
            registers[first + i] = constant if is_list else maker.number(constant)
        first += len(call.constants)
        for code, out, *args in call.steps:
            if names[code] in ("skip", "skipped"):
                maker.branches = True
                continue
            given = [registers[a] for a in args]
            if names[code] == "polynomial":
                registers[out] = maker.polynomial(*given)
            elif names[code] == "copy":
                registers[out] = given[0]
            else:
                registers[out] = maker.apply(names[code], *given)
        for i, operand in enumerate(call.outputs):
            made = registers[first + i]
            if made.is_truth is not (operand[0] == BOOL_KIND):
                raise TooLarge("a value of another kind than its array")
            values[operand[1], operand[3]] = made
            array = call.step.made[i] if len(call.outputs) > 1 else call.step.made[0]
            if is_needed(array, steps):
                outputs.append(operand)
                results.append(made)
    if not results:
        return None  # nobody reads what they make
    if not inputs:
        raise TooLarge("nothing but numbers: each op by itself")
    for i, r in enumerate(results):
        if not r.args or r in results[:i]:
            results[i] = maker.copy(r)
    said = program(calls[0].kind, list(results), list(range(len(inputs))), KERNELS.STEPS, maker)
    # Only what is read and written from now on is kept in memory.
    places = {x[1] for x in (*inputs, *outputs)}
    arrays = [x for step in steps for x in step.tape.kept if is_array(x)]
    kept = [x for x in arrays if address(x) in places]
    return shared.tape(said, calls[0].sizes, (*inputs, *outputs), kept)


def value_of(
    operand: Any, maker: Maker, values: Any, inputs: list[Any], shared: Shared
) -> Expression:
    """An operand of a call: a value of the group, a number, or an input from memory."""
    kind, at, number, steps = operand
    if not at:
        return maker.number(number)
    if at in shared.numbers:
        return maker.number(shared.numbers[at])
    if (at, steps) not in values:
        values[at, steps] = maker.input(len(inputs), kind == BOOL_KIND)
        inputs.append(operand)
    return values[at, steps]
