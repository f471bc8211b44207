"""The order in memory of elementwise results of tensors that lie differently."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...core.base import ndarray


class InOrder:
    """The NumPy forward of an elementwise op, with its result laid out as PyTorch's.

    NumPy's functions choose by all tensors together, PyTorch by the first one that tells.
    """

    __slots__ = ("leading", "reference")

    def __init__(self, reference: Any, leading: int) -> None:
        self.reference = reference
        self.leading = leading

    def __call__(self, *args: Any) -> Any:
        made = self.reference(*args)
        if type(made) is ndarray and made.ndim > 1:
            if decides(args[self.leading], made):
                return made
            for x in args:
                if type(x) is ndarray and not x.flags.c_contiguous:
                    return self.laid_out(made, args)
        return made

    def laid_out(self, made: Any, args: tuple[Any, ...]) -> Any:
        arrays = [x for x in args if type(x) is ndarray]
        arrays = [*arrays[self.leading :], *arrays[: self.leading]]
        axes = order_of_result(*[(x.shape, x.strides) for x in arrays])
        turned = made.transpose(axes)
        if turned.flags.c_contiguous:
            return made
        return np.ascontiguousarray(turned).transpose(np.argsort(axes))


def decides(first: Any, made: Any) -> bool:
    """Whether a result in C order is laid out as the first operand, which then decides alone."""
    return (
        type(first) is ndarray
        and first.flags.c_contiguous
        and made.flags.c_contiguous
        and first.shape == made.shape
        and 1 not in made.shape
    )


@functools.lru_cache(1024)
def order_of_result(*layouts: tuple[Any, Any]) -> list[int]:
    """The dimensions of an elementwise result as PyTorch lays it out, from the slowest.

    Two dimensions are ordered by the first tensor that has different, nonzero steps along them.
    """
    shape = np.broadcast_shapes(*[own for own, _ in layouts])
    lines = [lines_of(own, strides, shape) for own, strides in layouts]
    found = list(range(len(shape)))[::-1]  # the fastest first
    for i in range(1, len(shape)):
        here = i  # past dimensions that no tensor orders, it may change places with one further on
        for at in range(i - 1, -1, -1):
            order = compared(lines, shape, found[at], found[here])
            if order < 0:
                break
            if order > 0:
                found[at], found[here] = found[here], found[at]
                here = at
    return found[::-1]


def lines_of(own: Any, strides: Any, shape: tuple[int, ...]) -> list[int]:
    """The absolute strides of an array broadcast to a shape: 0 along dimensions that repeat."""
    ahead = len(shape) - len(own)
    steps = zip(strides, own, shape[ahead:], strict=True)
    return [0] * ahead + [0 if n == 1 and n != wanted else abs(step) for step, n, wanted in steps]


def compared(lines: list[list[int]], shape: tuple[int, ...], a: int, b: int) -> int:
    """-1: dimension `a` is faster than `b`; 1: slower; 0: no tensor tells."""
    for steps in lines:
        if steps[a] and steps[b]:
            if steps[a] != steps[b]:
                return -1 if steps[a] < steps[b] else 1
            if shape[a] > shape[b]:
                return 1
    return 0
