"""Which steps of a recording look up places whose range an earlier step has checked already.

The gradient of an embedding adds to the rows that the forward pass has read. Its kernel checks them
too, because it may be called with any; in a replay it cannot refuse what the first one took, so
nothing has to be copied in order to undo it.

What a kernel checks is seen on the tape of a step: the call before each check. Where it finds the
numbers is not (they may be copied, or combined, first), but in a step whose other operands are
floats it is the same function of its arrays of integers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.base import TensorBase
from ...core.python_dispatch import leaves_of
from ...core.strides import address, memory
from ..capture.symbolic_floats import NumberStep
from .steps import FillStep, GradientStep, OpStep

Range = tuple[Any, int]  # how many places there are; whether negative numbers count from the end


class Ranges:
    """The range that each kernel checks, by its name, from the sizes that it is given."""

    @staticmethod
    def take(n: tuple[int, ...]) -> Range:
        return n[1], n[4]

    add_rows = take

    @staticmethod
    def gather(n: tuple[int, ...]) -> Range:
        return n[1], 0

    scatter = gather

    @staticmethod
    def places(n: tuple[int, ...]) -> Range:
        return n[2 : 2 + n[1]], 1


def checked_ranges(tape: Any) -> tuple[Range, ...] | None:
    """The ranges that the kernels on a tape check, in order; None: one is not known here."""
    found: list[Range] = []
    before: Any = None
    for i in range(len(tape)):
        call = tape.described(i)
        if call is not None and call[0] == "check":
            name = "" if before is None else before[0].removesuffix("_f32").removesuffix("_f64")
            ranges = vars(Ranges).get(name)
            if not isinstance(ranges, staticmethod):
                return None
            found.append(ranges(before[2]))
        before = call
    return tuple(found) if len(found) == len(tape.checked or ()) else None


def indices_of(step: OpStep) -> tuple[Any, ...] | None:
    """The arrays of integers that a step is given; None if other operands could be indices."""
    given = [*step.arrays, *leaves_of(step.attrs)]
    arrays = [x._array if isinstance(x, TensorBase) else x for x in given]
    arrays = [x for x in arrays if isinstance(x, np.ndarray)]
    indices = tuple([x for x in arrays if x.dtype == np.int64])
    others = [x for x in arrays if x.dtype != np.int64]
    return indices if others and all([x.dtype.kind == "f" for x in others]) else None


def checked_before(steps: list[Any]) -> set[int]:
    """The ids of the steps whose indices are all known to be in range; `steps` in their order."""
    known: dict[Any, Any] = {}  # by indices: these, and what they were checked for
    found: set[int] = set()
    for step in steps:
        indices = ranges = None
        if isinstance(step, OpStep) and step.tape is not None and step.tape.checked:
            indices, ranges = indices_of(step), checked_ranges(step.tape)
        if not indices or not ranges:
            forget_written(known, step)
            continue
        key = tuple([(address(x), x.shape, x.strides) for x in indices])
        if any([covers(earlier, ranges) for earlier in known.get(key, (None, []))[1]]):
            found.add(id(step))
        forget_written(known, step)
        known.setdefault(key, (indices, []))[1].append(ranges)
    return found


def covers(earlier: tuple[Range, ...], later: tuple[Range, ...]) -> bool:
    """Whether numbers that passed some checks pass others as well."""
    pairs = list(zip(earlier, later, strict=False))
    return len(earlier) == len(later) and all([a[0] == b[0] and a[1] <= b[1] for a, b in pairs])


def forget_written(known: dict[Any, Any], step: Any) -> None:
    """Forget what was known of arrays that a step may write into."""
    inner = step.step if isinstance(step, NumberStep) else step
    if not isinstance(inner, (OpStep, FillStep, GradientStep)):
        known.clear()  # it may call anything
        return
    owners = {id(memory(x)) for x in inner.made}
    for key, (indices, _) in list(known.items()):
        if any([id(memory(x)) in owners for x in indices]):
            del known[key]
