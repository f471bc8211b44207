"""Whether two calls did the same: the same ops with the same numbers, on what the same ops made.

A call may get something else from Python each time, from where nobody looks (a batch of a hidden
iterator). If two calls did the same things in the same order, it did not; then a call whose replay
comes out otherwise can be made once more, and what came of it does not have to be kept until then.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.base import TensorBase
from ...core.python_dispatch import leaves_of
from ...core.strides import address, memory
from .symbolic_floats import Number

PLAIN = (bool, int, str, bytes, slice, type(None), type(...), type)

# Functions that always make the same, by their names in PyTorch.
SAME_ALWAYS = frozenset(
    f"aten::{name}"
    for name in (
        *("ones", "zeros", "full", "empty", "ones_like", "zeros_like", "full_like", "empty_like"),
        *("new_ones", "new_zeros", "new_full", "new_empty", "arange", "eye", "linspace"),
        *("scalar_tensor", "logspace", "empty_strided", "tril_indices", "triu_indices"),
        "lift_fresh",  # of Python's values: those are looked at by the guards
    )
)


class Trace:
    """What a call did so far, as one number."""

    def __init__(self) -> None:
        self.sum = 0
        self.count = 0
        self.order: dict[int, int] = {}  # by id of memory: when it was made

    def made(self, owner: Any) -> None:
        self.count += 1
        self.order[id(owner)] = self.count

    def add(self, name: str, *given: Any) -> None:
        self.sum = hash((self.sum, name, *[self.spelled(v) for v in leaves_of(given)]))

    def spelled(self, value: Any) -> Any:
        if isinstance(value, TensorBase):
            value = value._array
        if isinstance(value, np.ndarray):
            owner = memory(value)
            known = self.order.get(id(owner), -id(owner))
            offset = address(value) - address(owner)
            return known, offset, value.shape, value.strides, value.dtype.str
        if type(value) is Number:
            return "a number that changes"
        return repr(value) if isinstance(value, (*PLAIN, float, complex)) else type(value).__name__
