"""A recorded call as a thing to read and to compare: `explain(f).program()`.

A `Program` is a list of frozen steps over frozen values. A value is a place in memory with a shape:
a step reads some and writes others, a view is another value in the same memory. It is made of the
steps of a recording before these are joined, and kept in a few bytes until somebody asks for it.
"""

from __future__ import annotations

import marshal
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.base import TensorBase
from ...core.python_dispatch import leaves_of
from ...core.strides import address, memory
from ...errors import evidence
from ..capture.branches import Decision, touched_by
from ..capture.reachable import is_kept_apart
from ..capture.symbolic_floats import Number, OptionStep, ReadStep
from .rollback import given_to
from .steps import CallStep, FillStep, GradientStep, OpStep, WholeStep

TOLD = (bool, int, float, complex, str, np.dtype)


@dataclass(frozen=True)
class Value:
    """An array of a program: its shape, dtype and strides, and whose memory it is a view of."""

    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...]  # in bytes
    alias_of: int | None  # the value whose memory it looks at
    origin: str  # what it was before the call, such as "argument 1"; "" if a step makes it

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class Step:
    """One step of a replay: its op, and the values that it reads and writes, by number."""

    op: str
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    effects: tuple[str, ...]  # on what there was before the call, in words
    line: str  # of the user's, that led to it


@dataclass(frozen=True)
class Program:
    """The steps of a recorded call, in their order; `backward`: of the pass from its results.

    Two recordings that do the same have equal programs. As a string it is a listing.
    """

    values: tuple[Value, ...]
    steps: tuple[Step, ...]
    results: tuple[int, ...]
    backward: tuple[Step, ...] = ()

    def __str__(self) -> str:
        given = [i for i, v in enumerate(self.values) if v.origin and v.alias_of is None]
        lines = [row(f"%{i}", self.values[i], self.values[i].origin) for i in given]
        told = set(given)
        lines += rows(self, self.steps, told)
        lines += views(self, self.results, told)
        lines.append(f"return {named(self.results)}".rstrip())
        if self.backward:
            lines += ["backward:", *rows(self, self.backward, told)]
        return "\n".join(lines)


def named(values: tuple[int, ...]) -> str:
    return ", ".join([f"%{i}" for i in values])


def views(program: Program, some: tuple[int, ...], told: set[int]) -> list[str]:
    """Lines for the views among some values that no line has told of."""
    lines = []
    for i in some:
        base = program.values[i].alias_of
        if base is not None and i not in told:
            lines.append(row(f"%{i}", program.values[i], f"view of %{base}"))
            told.add(i)
    return lines


def row(name: str, value: Any, said: str) -> str:
    return f"{name:<5} {'' if value is None else str(value):<17} {said}".rstrip()


def rows(program: Program, steps: tuple[Step, ...], told: set[int]) -> list[str]:
    """A line for each step, after a line for each view that the step is the first to use."""
    lines: list[str] = []
    before = ""
    for step in steps:
        if step.line and step.line != before:
            before = step.line
            lines.append(f"# {step.line}")
        lines += views(program, (*step.reads, *step.writes), told)
        told.update(step.writes)
        like = program.values[step.writes[0]] if step.writes else None
        lines.append(row(named(step.writes), like, f"{step.op}({named(step.reads)})"))
        lines += [row("", None, f"  {effect}") for effect in step.effects]
    return lines


class Writer:
    """Numbers values in the order in which steps use them."""

    def __init__(self, names: dict[int, str], made: set[int]) -> None:
        self.names = names  # by id of memory: of what was there before the call
        self.made = made  # ids of memory that steps fill
        self.values: list[Any] = []
        self.numbers: dict[Any, int] = {}
        self.owners: dict[int, int] = {}  # by id of memory: the value that is all of it
        self.lines: dict[Any, int] = {}

    def number(self, x: Any) -> int:
        owner = memory(x)
        key = id(owner), address(x), x.shape, x.strides, x.dtype.str
        if key not in self.numbers:
            whole = self.owners.get(id(owner))
            self.numbers[key] = len(self.values)
            self.owners.setdefault(id(owner), len(self.values))
            origin = self.names.get(id(owner), "" if id(owner) in self.made else "a constant")
            self.values.append((x.shape, x.dtype.name, x.strides, whole, origin))
        return self.numbers[key]

    def all(self, arrays: Any) -> tuple[int, ...]:
        found = [self.number(x) for x in arrays if isinstance(x, np.ndarray)]
        return tuple(dict.fromkeys(found))

    def step(self, step: Any, where: Any) -> Any:
        inner = getattr(step, "step", step)  # of one with numbers in it
        effects, reads, name = [], inner.reads(), inner.name
        if inner.draws:
            effects.append("draws random numbers")
        if inner.writes_in_place:
            effects.append("writes in place")
        if isinstance(inner, GradientStep):
            pairs = [(t, g) for t, g in inner.gradients if g is not None]
            names = [self.names.get(id(memory(t._array)), "a tensor") for t, _ in pairs]
            effects += [f"are .grad of {name}" for name in names]
        elif isinstance(inner, Decision):
            effects.append(f"goes on if {inner.answer}")
        elif isinstance(inner, ReadStep):
            effects.append("hands a number to Python")
        elif isinstance(inner, OptionStep):
            effects.append(f"sets {inner.key!r} of an optimizer")
        elif isinstance(inner, WholeStep) and any(map(is_kept_apart, given_to(inner))):
            owner = next(filter(is_kept_apart, given_to(inner)))
            name = f"{type(owner).__name__}.{name.rpartition('.')[2]}"
            effects.append(f"changes {len({id(memory(x)) for x in touched_by(inner)})} tensors")
        elif isinstance(inner, CallStep) and not inner.made:
            effects.append("may write into what it is given")
        elif isinstance(inner, WholeStep):
            made = {id(memory(x)) for x in inner.made}
            reads = [x for x in touched_by(inner) if id(memory(x)) not in made]
            effects.append("may write into what it is given")
        elif isinstance(inner, FillStep):
            effects.append("always the same")
        line = self.lines.setdefault(where, len(self.lines))
        return name + options(inner), self.all(reads), self.all(inner.made), tuple(effects), line

    def gradients(self, outside: Any, arrays: list[Any]) -> Any:
        """The end of a backward pass, as a step."""
        ends = [f"argument {i + 1}" for i in outside.doors]
        ends += [self.names.get(id(memory(t._array)), "a parameter") for t in outside.leaves]
        effects = [f"of {end}" for end, x in zip(ends, arrays, strict=True) if x is not None]
        line = self.lines.setdefault(None, len(self.lines))
        return "gradients", self.all(arrays), (), tuple(effects), line


def options(step: Any) -> str:
    """The numbers that an op is given, printed after its name."""
    if not isinstance(step, OpStep):
        return ""
    given = leaves_of((step.arrays, step.attrs))
    found = ["a number" if type(v) is Number else str(v) for v in given if isinstance(v, TOLD)]
    return f"<{', '.join(found)}>" if found else ""


class Packed:
    """A program in a few bytes, and the lines that led to its steps."""

    def __init__(self, recording: Any, seen: Any, steps: list[Any]) -> None:
        names, places, outside = names_before(recording), seen.recorder.lines, seen.outside
        backward: Any = None
        if outside is not None:
            backward = outside.passes[(True,) * len(outside.slots)]
            for i, seed in zip(outside.slots, backward.seeds, strict=True):
                names[id(memory(seed))] = f"gradient of result {i + 1}"
        after = [] if backward is None else backward.steps
        made = {id(memory(x)) for step in (*steps, *after) for x in step.made}
        writer = Writer(names, made)
        writer.all([t._array for t in seen.inputs if t is not None])
        told = [
            tuple([writer.step(step, places.get(id(step))) for step in some])
            for some in (steps, after)
        ]
        if backward is not None:
            told[1] += (writer.gradients(outside, backward.gradients),)
        found = writer.all([t._array for t in seen.results if isinstance(t, TensorBase)])
        self.bytes = zlib.compress(marshal.dumps((tuple(writer.values), *told, found)), 1)
        self.places = list(writer.lines)

    def program(self) -> Program:
        values, steps, backward, results = marshal.loads(zlib.decompress(self.bytes))
        lines = list(map(spelled, self.places))
        made = [
            tuple([Step(*each[:-1], lines[each[-1]]) for each in some])
            for some in (steps, backward)
        ]
        return Program(tuple([Value(*each) for each in values]), made[0], results, made[1])


def spelled(place: Any) -> str:
    """The text of a line, or its number where that is not known."""
    if place is None:
        return ""
    where = evidence.place(*place)
    return str(where["text"] or f"line {where['line']}")


def names_before(recording: Any) -> dict[int, str]:
    """Names in the user's code for memory that existed before a call, by the id of the memory."""
    known: dict[int, str] = {}
    if recording.guards is not None:
        reads = recording.guards.reads
        known = {id(value): name for *_, value, name in reversed(reads.cells)}
        known |= {id(value): name for *_, value, name in reversed(reads.entries)}
    found: dict[int, str] = {}
    for t, array, wants_grad in recording.externals:
        name = known.get(id(t), "")
        if id(memory(array)) not in found or name:
            found[id(memory(array))] = name or ("a parameter" if wants_grad else "a tensor")
    for t, array in recording.gradients_before:
        if array is not None:
            name = known.get(id(t), "a parameter")
            found[id(memory(array))] = f"{name}.grad"
    for i, t in enumerate(recording.inputs):
        if t is not None:
            found[id(memory(t._array))] = f"argument {i + 1}"
    return found
