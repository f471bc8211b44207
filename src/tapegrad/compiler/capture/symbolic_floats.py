"""Symbolic floats: number arguments of a recorded call that change from call to call.

A `Number` is the float that it looks like. What is computed from it is another `Number`, which
knows how, and so an op that gets one is run again with what the number is by then. Who looks at its
value (`if t > 1`, `int(t)`, `math.sqrt(t)`) cannot be told about later ones: such numbers are part
of the signature instead, as they were before.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ...api.tensor.conversion import python_number
from ..program.steps import Step

# They look at values to refuse those that no dtype holds, or to see whether it is a default.
LOOKS = frozenset(("refuse_overflow", "same"))
LARGEST = 1e30  # beyond, dtypes have a word in it


class Number(float):
    """A float that knows how it is computed from arguments, so that a replay has its new value."""

    recorder: Any = None
    operation: Callable[..., Any] | None = None  # how it is computed; None: it is an argument
    parts: tuple[Any, ...] = ()
    current: float = 0.0  # of an argument, in the call that is being replayed
    __class__ = float  # to those who ask

    def now(self) -> float:
        """The value in the call that is being replayed."""
        if self.operation is None:
            return self.current
        return float(self.operation(*[now(part) for part in self.parts]))

    def read(self) -> None:
        """Note that code read the value: it becomes part of the cache key."""
        recorder = self.recorder
        if recorder is not None and not recorder.is_quiet:
            if sys._getframe(2).f_code.co_name not in LOOKS:
                recorder.looks_at_numbers = True


class Read:
    """A tensor's value as a number that the function only returns."""

    current: Any = None

    def now(self) -> Any:
        return self.current


def number(value: float, recorder: Any) -> Number:
    made = Number(value)
    made.recorder = recorder
    made.current = value
    return made


def now(value: Any) -> Any:
    """A nested value whose symbolic floats are replaced by their values in this replay."""
    if type(value) is Number or type(value) is Read:
        return value.now()
    if isinstance(value, (list, tuple)):
        made = [now(v) for v in value]
        return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
    if isinstance(value, dict):
        return {key: now(v) for key, v in value.items()}
    return value


def lifted(name: str) -> Callable[..., Any]:
    """Arithmetic whose result is a Number."""
    operation = getattr(float, name)
    plain = getattr(operator, name.replace("__r", "__", 1))

    def method(self: Number, *others: Any) -> Any:
        if any([isinstance(other, np.generic) for other in others]):
            self.read()  # NumPy's numbers have results of kinds of their own
            given = float.__pos__(self), *others
            return plain(*(given[::-1] if name.startswith("__r") else given))
        value = operation(self, *others)
        if type(value) is not float:
            return value  # NotImplemented; or complex: a power of something negative
        made = number(value, self.recorder)
        made.operation, made.parts = operation, (self, *others)
        return made

    return method


def looking(name: str) -> Callable[..., Any]:
    """A float method that reads the value, and notes that it does."""
    operation = getattr(float, name)

    def method(self: Number, *others: Any) -> Any:
        self.read()
        return operation(self, *others)

    return method


for _name in ("add", "sub", "mul", "truediv", "pow", "mod", "floordiv"):
    setattr(Number, f"__{_name}__", lifted(f"__{_name}__"))
    setattr(Number, f"__r{_name}__", lifted(f"__r{_name}__"))
for _name in ("__neg__", "__pos__", "__abs__"):
    setattr(Number, _name, lifted(_name))
for _name in (
    *("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__bool__", "__hash__"),
    *("__int__", "__float__", "__trunc__", "__round__", "__floor__", "__ceil__", "__format__"),
    *("__repr__", "__str__", "__divmod__", "__rdivmod__", "is_integer", "as_integer_ratio", "hex"),
):
    setattr(Number, _name, looking(_name))


class NumberFill(Step):
    """Writes a symbolic float to the memory from which kernels in C read it."""

    name = "number"

    def __init__(self, value: Number, array: Any) -> None:
        self.value = value
        self.made = [array]

    def run(self) -> None:
        self.made[0][...] = self.value.now()


class NumberStep(Step):
    """A step whose arguments hold symbolic floats."""

    PLACES = ("arrays", "attrs", "args", "kwargs")

    def __init__(self, step: Any) -> None:
        self.step = step
        self.name = step.name
        self.made = step.made
        self.has_effects = step.has_effects
        given = {place: getattr(step, place) for place in self.PLACES if hasattr(step, place)}
        self.given = {
            place: list(value) if place == "arrays" else value for place, value in given.items()
        }

    def reads(self) -> list[Any]:
        found: list[Any] = self.step.reads()
        return found

    def count_apart(self, is_made: Any, leaves: dict[int, Any]) -> None:
        self.step.count_apart(is_made, leaves)
        self.cell = self.step.cell

    def run(self) -> None:
        for place, value in self.given.items():
            setattr(self.step, place, now(value))
        self.step.run()


class ReadStep(Step):
    """A step that reads a tensor's value, which the function returns."""

    name = "item"

    def __init__(self, array: Any, value: Any, place: Any) -> None:
        self.array = array
        self.place = place
        self.made: list[Any] = []
        place.current = value

    def reads(self) -> list[Any]:
        return [self.array]

    def run(self) -> None:
        self.place.current = python_number(self.array)


class OptionStep(Step):
    """A step that sets an option of an optimizer, as the recorded call did."""

    has_effects = True

    def __init__(self, group: dict[str, Any], key: str, value: Any) -> None:
        self.name = f"the option {key!r}"
        self.group = group
        self.key = key
        self.value = value
        self.made: list[Any] = []

    def run(self) -> None:
        self.group[self.key] = now(self.value)


class Options(dict[str, Any]):
    """A parameter group of an optimizer that tells the recorder which options are set."""

    def __init__(self, group: dict[str, Any], recorder: Any) -> None:
        super().__init__(group)
        self.group = group
        self.recorder = recorder

    def __setitem__(self, key: str, value: Any) -> None:
        plain = float.__pos__(value) if type(value) is Number else value
        super().__setitem__(key, plain)
        self.group[key] = plain
        self.recorder.option(self.group, key, value)

    def update(self, *others: Any, **values: Any) -> None:
        for key, value in dict(*others, **values).items():
            self[key] = value
