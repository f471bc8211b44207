"""Which steps of a recording look up places whose range an earlier step has checked already.

The gradient of an embedding adds to the rows that the forward pass has read. Its kernel checks them
too, because it may be called with any; in a replay it cannot refuse what the first one took, so
nothing has to be copied in order to undo it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.base import TensorBase
from ...core.strides import address, memory
from ...ops.index.advanced import IndexAt, IndexPut
from ...ops.index.along_dim import IndexAdd, IndexSelect
from ...ops.index.gather import Gather, ScatterAdd, ScatterSrc, ScatterValue
from ...ops.nn.embedding import Embedding, EmbeddingDenseBackward
from ..capture.symbolic_floats import NumberStep
from .steps import FillStep, GradientStep, OpStep

Range = tuple[int, int]  # the first number that is allowed, and the first one after it
Ranges = dict[Any, tuple[Any, Range]]  # an array of indices by its place and layout, its range


def along(array: int, index: int) -> Callable[[OpStep], Any]:
    """Operand `index` has places along the dimension of operand `array` that an attribute names."""

    def found(step: OpStep) -> Any:
        dim = step.attrs[0]
        return [(step.arrays[index], (0, step.arrays[array].shape[dim]))]

    return found


def scattered(step: OpStep) -> Any:
    """`scatter_into(values, index, shape, dim)`."""
    shape, dim = step.attrs
    return [(step.arrays[1], (0, shape[dim]))]


def indexed(shape: tuple[int, ...], index: Any) -> Any:
    """Places of an advanced index: one dimension for each item, from the first on."""
    found = []
    for dim, item in enumerate(index):
        item = item._array if isinstance(item, TensorBase) else item
        if isinstance(item, slice):
            continue
        if not isinstance(item, np.ndarray) or item.dtype.kind != "i" or dim >= len(shape):
            return None
        found.append((item, (-shape[dim], shape[dim])))
    return found


# What each of these ops refuses is a place out of range, and nothing else.
CHECKS: dict[str, Callable[[OpStep], Any]] = {
    Embedding.name: lambda step: [(step.arrays[1], (0, step.arrays[0].shape[0]))],
    EmbeddingDenseBackward.name: lambda step: [(step.arrays[1], (0, step.attrs[0]))],
    Gather.name: along(0, 1),
    IndexSelect.name: along(0, 1),
    IndexAdd.name: along(0, 1),
    ScatterAdd.name: along(0, 1),
    ScatterSrc.name: along(0, 1),
    ScatterValue.name: along(0, 1),
    "scatter_into": scattered,
    IndexAt.name: lambda step: indexed(step.arrays[0].shape, step.attrs[0]),
    IndexPut.name: lambda step: indexed(step.arrays[0].shape, step.attrs[0]),
    "index_into": lambda step: indexed(step.attrs[0], step.attrs[1]),
}


def checked_ranges(step: Any) -> list[tuple[Any, Range]] | None:
    """The arrays of indices that a step checks, with their ranges; None: it may refuse more."""
    if not isinstance(step, OpStep) or not step.is_taped or step.name not in CHECKS:
        return None
    found: list[tuple[Any, Range]] | None = CHECKS[step.name](step)
    return found


def checked_before(steps: list[Any]) -> set[int]:
    """The ids of the steps whose indices are all known to be in range; `steps` in their order."""
    known: Ranges = {}
    found: set[int] = set()
    for step in steps:
        ranges = checked_ranges(step)
        if ranges:
            if all([is_known(known, x, allowed) for x, allowed in ranges]):
                found.add(id(step))
        forget_written(known, step)
        for x, allowed in ranges or ():
            known[place(x)] = memory(x), narrower(known, x, allowed)
    return found


def place(x: Any) -> Any:
    return address(x), x.shape, x.strides, x.dtype


def is_known(known: Ranges, x: Any, allowed: Range) -> bool:
    if place(x) not in known:
        return False
    _, (first, end) = known[place(x)]
    return allowed[0] <= first and end <= allowed[1]


def narrower(known: Ranges, x: Any, allowed: Range) -> Range:
    """The range that satisfies this check and the known one of the same array."""
    if place(x) not in known:
        return allowed
    _, (first, end) = known[place(x)]
    return max(first, allowed[0]), min(end, allowed[1])


def forget_written(known: Ranges, step: Any) -> None:
    """Forget what was known of arrays that a step may write into."""
    inner = step.step if isinstance(step, NumberStep) else step
    if not isinstance(inner, (OpStep, FillStep, GradientStep)):
        known.clear()  # it may call anything
        return
    owners = {id(memory(x)) for x in inner.made}
    for key in [key for key, (owner, _) in known.items() if id(owner) in owners]:
        del known[key]
