"""Small ops that only move elements (`roll`, `repeat`, `pad`, `tril`), as tables of places.

What a linear op does to one array does not depend on its values. So numbered elements show where
each element of the result comes from; numbered in two ways they show which ones are constants.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.python_dispatch import leaves_of
from ...kernels.cpu import KERNELS

MOST = 1 << 14  # elements: beyond, tables take memory, and Python does not take the time
AFFINE = frozenset(("constant_pad_nd",))  # it adds constants: not linear, but as good
FIRST = 1e9  # numbers that no constant has


def origins(op: Any, x: Any, attrs: Any) -> Any:
    """For each element of the result, which one of `x` it is, counted in C order; -1: a constant.
    None if it is something else."""
    if x.size > MOST or not (op.linear or op.name in AFFINE) or op.width != 1:
        return None
    if any(
        [isinstance(value, np.ndarray) or hasattr(value, "_array") for value in leaves_of(attrs)]
    ):
        return None
    numbers = np.empty_like(x, np.float64)
    numbers[...] = np.arange(x.size).reshape(x.shape)
    try:
        one, other = [op.forward(np, numbers + k * FIRST, *attrs) for k in (1, 2)]
    except Exception:  # what an op cannot do with doubles is left to Python
        return None
    is_moved = other - one == FIRST
    places = np.where(is_moved, one - FIRST, -1)
    if not ((places >= -1) & (places < x.size) & (places == np.floor(places))).all():
        return None
    return places.astype(np.int64)


def tape_of_moves(op: Any, x: Any, attrs: Any, result: Any) -> Any:
    """The moves as calls of kernels; whether they are all that happens is still to be tried."""
    if type(x) is not np.ndarray or type(result) is not np.ndarray or x.dtype != result.dtype:
        return None
    if not 0 < result.size <= MOST or not result.flags.forc or result.itemsize > 8:
        return None
    places = origins(op, x, attrs)
    if places is None or places.shape != result.shape:
        return None
    if not result.flags.c_contiguous:
        result, places = result.T, places.T
    offsets = np.zeros(x.shape, np.int64)
    for d, step in enumerate(x.strides):
        along = np.arange(x.shape[d]) * (step // x.itemsize)
        offsets += along.reshape((-1,) + (1,) * (x.ndim - d - 1))
    is_moved = places >= 0
    table = np.where(is_moved, offsets.reshape(-1)[np.where(is_moved, places, 0)], -1)
    as_bytes = f"u{result.itemsize}"  # nothing that could be mistaken for values to be computed
    constants = np.where(is_moved, 0, result.view(as_bytes)).astype(as_bytes)
    KERNELS.tape_begin()
    try:
        if not is_moved.all() and not KERNELS.copy_into(result.view(as_bytes), constants):
            return None
        table = np.ascontiguousarray(table.reshape(-1))
        KERNELS.KERNELS["moved"]((x, table, result), (result.size, result.itemsize))
    finally:
        tape = KERNELS.tape_end()
    return tape
