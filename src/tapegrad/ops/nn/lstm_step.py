"""The gates of an LSTM step: one kernel, and the nodes that PyTorch has for its ten ops.

Ten ops on a few numbers each cost more in calls than in arithmetic. Here one kernel computes all of
their results, and the nodes are made without a dispatch for each; tests/test_node_layouts.py
compares them with those of the ops.
"""

from __future__ import annotations

from typing import Any, Final, cast

from ...core.base import STATE, TensorBase, cell_of, wrap
from ...core.dispatch import is_stale
from ...core.late_bound import HOST_KERNELS
from ...core.op import Op
from ...core.record import record, record_one, record_two
from ..copying.part_copies import UnsafeSplit
from ..pointwise.arithmetic import Add, Mul
from ..pointwise.transcendental import Sigmoid, Tanh

# Blocks are classes to a type checker; in fact `@op` has replaced each by its Op record.
SPLIT: Final = cast(Op, UnsafeSplit)
SIGMOID: Final = cast(Op, Sigmoid)
TANH: Final = cast(Op, Tanh)
MUL: Final = cast(Op, Mul)
ADD: Final = cast(Op, Add)


def lstm_gates(sums: TensorBase, cells: TensorBase) -> Any:
    """(h, c) after a step; None: its ops have to run one by one."""
    kernel = HOST_KERNELS.lstm_step
    if kernel is None or STATE.modes_on or STATE.timing or STATE.anomaly:
        return None
    if sums._special or cells._special or not sums._wants_grad or is_stale(cells):
        return None
    arrays = kernel(sums._array, cells._array)
    if arrays is None:
        return None
    i, f, g, o, forgotten, fresh, c, squashed, h = [wrap(array) for array in arrays]
    # No rule reads what a gate's function is given: here its result takes that place.
    inside = [wrap(array) for array in arrays[:4]]
    width: int = cells._array.shape[1]
    record(SPLIT, (sums,), ((width,) * 4, 1), (), 1, tuple(arrays[:4]), inside)
    record_one(SIGMOID, inside[1], (), f)
    record_two(MUL, f, cells, cells._array, forgotten, (), True)
    record_one(SIGMOID, inside[0], (), i)
    record_one(TANH, inside[2], (), g)
    record_two(MUL, i, g, g._array, fresh, (), True)
    record_two(ADD, forgotten, fresh, fresh._array, c, (), True)
    cell_of(c).n += 1  # PyTorch adds in place
    record_one(SIGMOID, inside[3], (), o)
    record_one(TANH, c, (), squashed)
    record_two(MUL, o, squashed, squashed._array, h, (), True)
    return h, c
