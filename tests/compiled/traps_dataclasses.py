"""Traps: dataclasses that a function makes, whose methods `dataclass` or `exec` wrote."""

from __future__ import annotations

import dataclasses
from typing import Any

from harness import Trap, numbers, phase, trap, work

import tapegrad as T
from tapegrad import nn


@dataclasses.dataclass
class Output:
    logits: Any
    loss: Any = None
    parts: list[Any] = dataclasses.field(default_factory=list)


@trap
def made_and_read(compile):
    net = nn.Linear(3, 4).double()

    def forward(x, target):
        y = work(net(x))
        return Output(y, (y - target).pow(2).mean())

    @compile
    def f(x):
        out = forward(x, x.sum())
        out.parts.append(out.logits.sin())
        out.loss = out.loss * 2
        return out.loss, out.logits.tanh(), len(out.parts), out.parts[0]

    return Trap(f)


@trap
def default_is_state(compile):
    state = {"scale": 1.0}

    @dataclasses.dataclass
    class Scaled:
        x: Any
        by: Any = dataclasses.field(default_factory=lambda: state["scale"])

    def before(i):
        state["scale"] = 1.0 + phase(i)

    @compile
    def f(x):
        made = Scaled(work(x))
        return made.x * made.by

    return Trap(f, before)


@trap
def post_init_counts(compile):
    count = [0]

    @dataclasses.dataclass
    class Counted:
        x: Any

        def __post_init__(self):
            count[0] += 1

    @compile
    def f(x):
        return Counted(work(x)).x * 2

    return Trap(f, state=lambda: count)


@trap
def attributes_that_are_noted_when_set(compile):
    seen = []

    @dataclasses.dataclass
    class Noted:
        x: Any

        def __setattr__(self, name, value):
            seen.append(name)
            object.__setattr__(self, name, value)

    @compile
    def f(x):
        return Noted(work(x)).x * 2

    return Trap(f, state=lambda: seen)


@trap
def field_that_is_a_property(compile):
    state = {"scale": 1.0}

    class Scaling:
        def __set_name__(self, owner, name):
            self.name = f"_{name}"

        def __get__(self, owner, kind=None):
            return 0 if owner is None else getattr(owner, self.name)

        def __set__(self, owner, value):
            setattr(owner, self.name, value * state["scale"])

    @dataclasses.dataclass
    class Scaled:
        x: Any = Scaling()

    def before(i):
        state["scale"] = 1.0 + phase(i)

    @compile
    def f(x):
        return Scaled(work(x)).x * 2

    return Trap(f, before)


@trap
def frozen_with_slots(compile):
    @dataclasses.dataclass(frozen=True, slots=True)
    class Pair:
        x: Any
        y: Any = 2.0

    scale = [1.0]

    def before(i):
        scale[0] = 1.0 + phase(i)

    @compile
    def f(x):
        pair = Pair(work(x), scale[0])
        return dataclasses.replace(pair, x=pair.x * 2).x * pair.y

    return Trap(f, before)


@trap
def equality_written_by_exec(compile):
    """What `exec` defines looks like what `dataclass` writes, and may do anything."""
    count = [0]
    names: dict[str, Any] = {"count": count}
    source = "class Odd:\n def __eq__(self, other):\n  count[0] += 1\n  return count[0] % 3 == 0\n"
    exec(source, names)
    odd = names["Odd"]()

    @compile
    def f(x):
        return work(x) * (2 if odd.__eq__(3) else 1)

    return Trap(f, state=lambda: count)


@trap
def returned_in_a_tuple_of_fields(compile):
    @compile
    def f(x):
        made = Output(work(x), T.ones(2, dtype=x.dtype))
        return dataclasses.astuple(made)[0], made.loss * numbers(1, 2)

    return Trap(f)
