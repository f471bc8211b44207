"""Elementwise ops of tensors that carry derivatives along many directions, in two calls.

A program computes the value, the slope and the second derivative (expressions/slopes.py), and
c/kernels/directions.c all derivatives of the result.
"""

from __future__ import annotations

from typing import Any

from . import KERNELS
from .overrides.rows import empty, for_dtypes, is_dense, pick


class Bent:
    """The facts about an op that the program asks for."""

    __slots__ = ("op", "place")

    def __init__(self, op: Any, place: int) -> None:
        self.op = op
        self.place = place

    def forward(self, *question: Any) -> Any:
        from ...expressions.slopes import Bends
        from ...expressions.trace import Tracer

        bends: Any = Bends(self.op, self.place)
        return Tracer(bends, KERNELS.STEPS).forward(*question)


def refuse(*args: Any) -> None:
    """Fallback of a formula: the general way takes the call."""


def elementwise_along() -> Any:
    formulas: dict[Any, Any] = {}
    kernels = for_dtypes("directions")

    def along(op: Any, place: int, args: Any, first: Any, second: Any) -> Any:
        """(y', y, y'') as one array, directions first; None: not for the kernel.

        `args` are the op's arrays, numbers and attributes; `first` has the directions in front, and
        `second` may be None.
        """
        x = args[place]
        run = pick(kernels, x)
        if run is None or x.dtype is not first.dtype or not is_dense(x) or not x.size:
            return None
        width = x.size
        if not is_dense(first):
            if x.ndim < 2 or first.strides[1] or not is_dense(first[:, 0]):
                return None
            first = first[:, 0]
            width = first[0].size
        if second is not None and not is_dense(second):
            return None
        formula = formulas.get((op.name, place))
        if formula is None:
            made = KERNELS.Formula(Bent(op, place).forward, refuse, op.width)
            formula = formulas[op.name, place] = made
        found = formula(*args)
        if type(found) is not tuple or found[0].shape != x.shape:
            return None
        value, slope, bend = found
        rows = first.shape[0]
        out = empty((rows + 2, *x.shape), x)
        run((first, value, slope, bend, second, out), (rows, x.size, width))
        return out

    return along
