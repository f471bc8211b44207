"""Decisions of Python on tensors' values: `if loss.isnan(): raise`, `while error > 0.1`.

Python gets no more than a yes or a no, and a recording is right for all calls with the same answer.
So each answer is a step that compares. It comes before whatever changes something outside of the
call: should the answer be another one, nothing was done yet, and the call runs as ordinary Python.
"""

from __future__ import annotations

from typing import Any

from ...core.base import TensorBase
from ...core.python_dispatch import leaves_of
from ...core.strides import memory
from ...ops.draws.generators import Generator
from ..backward.upstream import BehindStep
from ..program.steps import CallStep, Step, WholeStep, WriteStep, is_zero_grad
from .reachable import is_kept_apart
from .undo import tensors_of

MOST_MISSES = 8  # calls with another answer than the recorded one, before their share counts
IN_A_ROW = 3  # after so many the answer will stay what it is now


class OtherAnswer(Exception):
    """Raised by a replay: a value leads to another decision than in the recorded call."""


class Decision(Step):
    """A step that compares a bool which Python asked for with the recorded answer."""

    name = "if"

    def __init__(self, array: Any, answer: bool, where: Any, place: Any) -> None:
        self.array = array
        self.answer = answer
        self.where = where  # the user's line
        self.place = place  # of the function itself
        self.made: list[Any] = []

    def reads(self) -> list[Any]:
        return [self.array]

    def run(self) -> None:
        if bool(self.array.item()) is not self.answer:
            raise OtherAnswer


class Check(Decision):
    """A step that repeats a check of values by a function of the library."""

    def __init__(self, function: Any, given: Any, answer: Any, where: Any, place: Any) -> None:
        self.function = function
        self.given = given  # args, kwargs
        self.answer = answer
        self.where = where
        self.place = place
        self.name = function.__name__
        self.made = []

    def reads(self) -> list[Any]:
        return [t._array for t in leaves_of(self.given) if isinstance(t, TensorBase)]

    def run(self) -> None:
        args, kwargs = self.given
        if self.function(*args, **kwargs) != self.answer:
            raise OtherAnswer


def decided_first(steps: list[Step], is_made: Any) -> list[Step] | None:
    """Reorder steps so that decisions come before side effects; None if that is impossible.

    A step with effects outside of the call moves behind the last decision, unless a step up to
    there reads what it writes. `is_made(array)`: whether the call itself made its memory.
    """
    last = max([i for i, step in enumerate(steps) if isinstance(step, Decision)], default=-1)
    stays: list[Step] = []
    later: list[Step] = []
    looked_at: set[int] = set()
    written: set[int] = set()
    for step in reversed(steps[:last]):
        inner = getattr(step, "step", step)  # of one with numbers in it
        if type(inner) is BehindStep:
            return None  # the graph that it is done with is somebody else's
        arrays = touched_by(inner)
        if not acts_outside(inner, is_made):
            stays.append(step)
            looked_at |= owners(arrays)
            if inner.has_effects:
                written |= owners(arrays)
            continue
        others = owners([x for x in arrays if not is_made(x)])
        if draws_apart(inner) or looked_at & others or written & owners(arrays):
            return None
        later.append(step)
    return [*reversed(stays), *steps[last : last + 1], *reversed(later), *steps[last + 1 :]]


def owners(arrays: list[Any]) -> set[int]:
    return {id(memory(x)) for x in arrays}


def touched_by(step: Any) -> list[Any]:
    """All arrays that a step may read or write."""
    if not isinstance(step, WholeStep) or is_zero_grad(step):
        return [*step.reads(), *step.made]
    given = leaves_of((step.args, step.kwargs))
    tensors = [value for value in given if isinstance(value, TensorBase)]
    tensors += [t for value in given if is_kept_apart(value) for t in tensors_of(value)]
    gradients = [t._gradient._array for t in tensors if t._gradient is not None]
    if getattr(step.function, "only_gradients", False):
        return [*gradients, *step.made]
    return [*step.reads(), *step.made, *[t._array for t in tensors], *gradients]


def acts_outside(step: Any, is_made: Any) -> bool:
    """Whether a step changes what was there before the call, other than the random numbers."""
    if isinstance(step, WriteStep):
        return not is_made(step.arrays[0])
    if isinstance(step, CallStep):
        return draws_apart(step) or (not step.made and not all(map(is_made, step.reads())))
    if isinstance(step, WholeStep):
        given = leaves_of((step.args, step.kwargs))
        if draws_apart(step) or any(map(is_kept_apart, given)):
            return True
        return not all(map(is_made, touched_by(step)))
    return step.has_effects


def draws_apart(step: Any) -> bool:
    """Whether a step draws random numbers from a generator other than the default one."""
    given = leaves_of((getattr(step, "args", ()), getattr(step, "kwargs", ())))
    return any([isinstance(value, Generator) for value in given])
