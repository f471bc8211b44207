"""A step of an LSTM behind its sums: the nodes that PyTorch has for it, recorded at once.

Ten ops on a few numbers each cost more in calls than in arithmetic. Here one kernel makes all of
their results, and the nodes are made without a dispatch for each, as those of a linear layer are
(layers.py); for everybody else they are nodes like all others.
"""

from __future__ import annotations

from typing import Any

from .base import STATE, TensorBase, cell_of, wrap
from .dispatch import is_stale
from .late_bound import HOST_KERNELS
from .op import Op
from .record import record, record_one, record_two


def lstm_gates(ops: tuple[Op, Op, Op, Op, Op], sums: TensorBase, cells: TensorBase) -> Any:
    """(h, c) after a step; `ops` are unsafe_split, sigmoid, tanh, mul, add. None: one by one."""
    kernel = HOST_KERNELS.lstm_step
    if kernel is None or STATE.modes_on or STATE.timing or STATE.anomaly:
        return None
    if sums._special or cells._special or not sums._wants_grad or is_stale(cells):
        return None
    arrays = kernel(sums._array, cells._array)
    if arrays is None:
        return None
    split, sigmoid, tanh, mul, add = ops
    i, f, g, o, forgotten, fresh, c, squashed, h = [wrap(array) for array in arrays]
    # What is inside a gate is read by no rule: its result stands in for it here.
    inside = [wrap(array) for array in arrays[:4]]
    width: int = cells._array.shape[1]
    record(split, (sums,), ((width,) * 4, 1), (), 1, tuple(arrays[:4]), inside)
    record_one(sigmoid, inside[1], (), f)
    record_two(mul, f, cells, cells._array, forgotten, (), True)
    record_one(sigmoid, inside[0], (), i)
    record_one(tanh, inside[2], (), g)
    record_two(mul, i, g, g._array, fresh, (), True)
    record_two(add, forgotten, fresh, fresh._array, c, (), True)
    cell_of(c).n += 1  # PyTorch adds in place
    record_one(sigmoid, inside[3], (), o)
    record_one(tanh, c, (), squashed)
    record_two(mul, o, squashed, squashed._array, h, (), True)
    return h, c
