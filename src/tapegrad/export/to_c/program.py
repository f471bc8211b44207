"""A recorded call as the C file shows it: its places in memory, its calls, its results."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from ...compiler.plan.memory_plan import LINE
from ...compiler.plan.native_calls import Segment
from ...compiler.program.listing import names_before
from ...compiler.program.recording import Result
from ...compiler.program.steps import GradientStep, UpdateStep, is_zero_grad
from ...core.base import TensorBase
from ...core.strides import address, memory
from . import choices, layers, python_steps, recurrent  # noqa: F401 — their printers
from .blocks import blocks
from .elementwise import NoPrinter, loops, summed
from .optimizers import Update
from .places import Memory, Place
from .printers import Call, printed
from .schedules import Schedule


class Refused(RuntimeError):
    """Something that the C file cannot hold."""


class Printed:
    """The text of a recorded call: statements of the step, functions, places in memory."""

    def __init__(self, compiled: Any, recording: Any, before: Any) -> None:
        self.recording, self.before = recording, before
        self.memory = Memory()
        self.functions: dict[Any, tuple[str, str]] = {}  # loops: name and text, by what they do
        self.statements: list[tuple[str, str]] = []  # the user's line, and a statement
        self.updates: list[Update] = []
        self.schedules: dict[int, Schedule] = {}  # by the ids of their optimizers
        self.schedulers: dict[int, Any] = {}
        self.arguments = argument_names(compiled.function, recording)
        self.lines = [step.line for step in recording.listing.program().steps]
        while recording.given:
            recording.given.pop().find_room()
        self.find_places()
        self.walk()  # to see what is read and written
        self.settle()
        self.walk()

    def walk(self) -> None:
        """Print all steps."""
        self.functions, self.statements, self.updates = {}, [], []
        self.gradients: dict[int, Any] = {}  # as they are at this point, by the ids of leaves
        at = 0  # the step of the recording, by number
        for run in self.recording.run_steps:
            step = run.__self__
            if isinstance(step, Segment):
                self.segment(step)
                at += step.count
                continue
            line = self.lines[at] if at < len(self.lines) else ""
            at += 1
            if isinstance(step, GradientStep):
                self.gradients |= {
                    id(leaf): None if g is None else g._array for leaf, g in step.gradients
                }
                continue
            if is_zero_grad(step):
                continue
            if isinstance(step, UpdateStep):
                self.update(step, line)
            else:
                self.in_python(step, line)
        self.results = [self.result(r) for r in self.recording.results]

    def in_python(self, step: Any, line: str) -> None:
        """A step without kernels."""
        try:
            text = python_steps.statement(step, self)
        except (NoPrinter, LookupError) as error:
            raise self.refusal(f"`{step.name}`: {error}", line) from error
        if text is None:
            raise self.refusal(f"`{step.name}`, which runs in Python", line)
        self.statements.append((line, text))

    def schedule(self, step: Any) -> str:
        """The name of the function that does what a scheduler's `step` does."""
        owner = id(step.__self__.optimizer)
        known = self.schedules.get(owner)
        if known is None:
            self.before.restore_rates()
            known = self.schedules[owner] = Schedule(f"schedule_{len(self.schedules) + 1}", step)
            self.schedulers[owner] = step.__self__
        elif self.schedulers[owner] is not step.__self__:
            raise NoPrinter("two schedulers of one optimizer")
        return known.name

    def refusal(self, what: str, line: str) -> Refused:
        where = f", in the line `{line}`" if line else ""
        return Refused(f"export.c cannot print {what}{where}.")

    # -------------------------------------------------------------- places

    def find_places(self) -> None:
        r, m = self.recording, self.memory
        names = names_before(r)
        if r.plan is not None and r.plan.block is not None:
            block = r.plan.block
            skipped = -address(block) % LINE
            place = Place("arena", block.reshape(-1).view(np.uint8)[skipped:])
            m.add(place)
            m.planned = m.total = -(-r.plan.total // LINE) * LINE
        m.names |= set(blocks())
        self.arguments = [m.unique(name) for name in self.arguments]
        for name, t in zip(self.arguments, r.inputs, strict=True):
            if t is not None:
                m.add(Place("argument", t._array, name))
        for _, array, wants_grad in r.externals:
            self.add_tensor(array, names.get(id(memory(array)), "tensor"), wants_grad)
        for _, array in r.gradients_before:
            if array is not None:
                self.add_tensor(array, names.get(id(memory(array)), "tensor.grad"), False)
        for result in r.results:
            if type(result) is Result:
                self.add_value(result._array)
            elif isinstance(result, TensorBase):
                self.add_tensor(result._array, "tensor", False)
        for owner in list(r.memory.values()):
            self.add_value(owner)
        for run in r.run_steps:
            step = run.__self__
            if isinstance(step, GradientStep):
                for x in step.reads():
                    self.add_value(x)
            elif isinstance(step, UpdateStep):
                for done in step.updates:
                    self.add_rows(done, names)
            elif not isinstance(step, Segment):
                for x in (*step.reads(), *step.made):
                    self.add_value(x)
        for run in r.run_steps:
            step = run.__self__
            for x in step.tape.kept if isinstance(step, Segment) else ():
                if isinstance(x, np.ndarray):
                    m.add(Place("constant", memory(x)))

    def add_tensor(self, array: Any, said: str, is_parameter: bool) -> None:
        owner = memory(array)
        known = self.memory.find(address(owner))
        if known is not None:
            return
        place = Place("tensor", owner, self.memory.unique(said), said.replace("`", ""))
        place.is_parameter = is_parameter
        place.initial = self.before.array(owner)
        self.memory.add(place)

    def add_value(self, array: Any) -> None:
        owner = memory(array)
        if self.memory.find(address(owner)) is None:
            self.memory.add(Place("value", owner)).offset = -1

    def add_rows(self, done: Any, names: dict[int, str]) -> None:
        rule = done.rule
        for name, row in zip(["p", "grad", *rule.rows], done.rows, strict=True):
            for i, x in enumerate(row or ()):
                if name == "grad":
                    self.add_value(x)
                    continue
                of = names.get(id(memory(done.rows[0][i])), "parameter")
                self.add_tensor(x, of if name == "p" else f"{of}.{name}", name == "p")

    # -------------------------------------------------------------- steps

    def segment(self, step: Any) -> None:
        part = 0
        sources = [0, *step.source_ends]
        for i in range(len(step.tape)):
            while i >= step.ends[part]:
                part += 1
            numbers = step.sources[sources[part] : sources[part + 1]]
            lines = dict.fromkeys([self.lines[k] for k in sorted(numbers) if self.lines[k]])
            line = "\n".join(lines)
            try:
                text = self.call(step.tape, i)
            except (NoPrinter, LookupError) as error:
                raise self.refusal(f"`{step.names[part]}`: {error}", line) from error
            if text:
                self.statements.append((line, text.replace("REFUSE", refusal(step.names[part]))))

    def call(self, tape: Any, i: int) -> str:
        said = tape.machine(i)
        if said is not None:
            return self.elementwise(*said)
        found = tape.described(i)
        if found is None:
            raise NoPrinter("a kernel that nothing is known of")
        if found[0] == "sum_of":
            return self.sum_of(found)
        return printed(Call(*found), self.memory)

    def elementwise(self, said: Any, sizes: Any, operands: Any) -> str:
        key = repr((said, sizes, [(k, bool(at), v, s) for k, at, v, s in operands]))
        count = len(operands) - len(said[3])
        given = [
            self.memory.pointer(x[1], TYPE_OF[x[0]], k >= count)
            for k, x in enumerate(operands)
            if x[1]
        ]
        made = self.named(key, lambda name: loops(name, said, sizes, operands))
        return f"{made}({', '.join(given)});"

    def sum_of(self, found: Any) -> str:
        _, addresses, sizes, numbers, said = found
        key = repr((said, sizes, numbers, [bool(at) for at in addresses]))
        count = len(addresses) - 2 - len(said[3])
        T = TYPE_OF[said[0]]
        given = [self.memory.pointer(addresses[0], T, True)]
        for k, at in enumerate(addresses[2:]):
            if at:
                given.append(self.memory.pointer(at, TYPE_OF[sizes[5 + 2 * k]], k >= count))
        made = self.named(key, lambda name: summed(name, said, sizes, numbers, addresses))
        return f"{made}({', '.join(given)});"

    def named(self, key: str, make: Any) -> str:
        if key not in self.functions:
            name = f"each_{len(self.functions) + 1}"
            self.functions[key] = (name, make(name))
        return self.functions[key][0]

    def update(self, step: Any, line: str) -> None:
        for done in step.updates:
            try:
                made = Update(done, f"update_{len(self.updates) + 1}")
                key = f"update {len(self.updates)}"
                self.functions[key] = (made.prefix, made.function())
                self.statements += [(line, text) for text in made.calls(self.memory)]
            except (NoPrinter, LookupError) as error:
                raise self.refusal(str(error), line) from error
            made.is_new = self.before.is_new(done)
            self.updates.append(made)

    # -------------------------------------------------------------- results

    def result(self, r: Any) -> Any:
        if not isinstance(r, (Result, TensorBase)):
            raise Refused(f"export.c: the function returns {type(r).__name__}, which is no tensor.")
        array = r._array
        if not array.flags.c_contiguous:
            raise Refused("export.c: a result is not contiguous; return `x.contiguous()`.")
        self.memory.plain(address(array))
        return array

    def settle(self) -> None:
        """Give places in the arena to what has none, and see what is constant."""
        m = self.memory
        m.scratch_at = m.total
        m.total += -(-m.most_scratch // LINE) * LINE
        for place in m.places:
            used = place.is_read or place.is_written
            if place.kind == "constant" and place.is_written:
                place.kind, place.offset = "value", -1
            if place.kind == "value" and not place.is_written:
                place.kind = "constant"  # what no step fills was filled once for all
            if place.kind == "value" and place.offset < 0 and used:
                place.offset = m.room(place.end - place.begin)


def refusal(name: str) -> str:
    return f'REFUSE("{name}: a number is out of range")'


TYPE_OF = {0: "float", 1: "double", 2: "unsigned char"}


def argument_names(function: Any, recording: Any) -> list[str]:
    count = len(recording.inputs)
    try:
        names = [p.name for p in inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):
        names = []
    if len(names) != count:
        names = [f"input{i + 1}" for i in range(count)]
    return names
