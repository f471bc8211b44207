"""Small ops that only move elements (`roll`, `repeat`, `pad`, `tril`), as tables of places.

What a linear op does to one array does not depend on its values. So an input of numbers that stand
in no relation to each other shows where each element of the result comes from: a number that is
found again, with two such inputs at the same place, was moved; one that is the same with both of
them, and with zeros, is a constant; and a sum of several is neither.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.host_arrays import host
from ...core.python_dispatch import leaves_of
from ...kernels.cpu import KERNELS

MOST = 1 << 14  # elements: beyond, tables take memory, and Python does not take the time
AFFINE = frozenset(("constant_pad_nd",))  # it adds constants: not linear, but as good
UNRELATED_BITS = 40  # of each number: sums of some are no other one, and exact in doubles


def unrelated(count: int, start: int) -> Any:
    """Whole numbers as doubles that no sum with small factors makes of each other (splitmix64)."""
    x = np.arange(start, start + count, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((x ^ (x >> np.uint64(31))) >> np.uint64(64 - UNRELATED_BITS)).astype(np.float64)


def origins(op: Any, x: Any, attrs: Any) -> Any:
    """For each element of the result, which one of `x` it is, counted in C order; -1: a constant.
    None if some element is something else, a sum for example."""
    if not 0 < x.size <= MOST or not (op.linear or op.name in AFFINE) or op.width != 1:
        return None
    if any(
        [isinstance(value, np.ndarray) or hasattr(value, "_array") for value in leaves_of(attrs)]
    ):
        return None
    first, second = unrelated(x.size, 1), unrelated(x.size, 1 + x.size)
    tried = []
    for values in (first, second, np.zeros(x.size)):
        numbers = np.empty_like(x, np.float64)  # it lies in memory as `x` does
        numbers[...] = values.reshape(x.shape)
        try:
            tried.append(np.asarray(op.forward(host, numbers, *attrs)))
        except Exception:  # what an op cannot do with doubles is left to Python
            return None
    one, other, nothing = tried
    order = np.argsort(first)
    places = order[np.minimum(np.searchsorted(first[order], one), x.size - 1)]
    is_moved = (first[places] == one) & (second[places] == other)
    is_constant = (one == other) & (one == nothing)
    if not (is_moved | is_constant).all():
        return None
    return np.where(is_moved, places, -1).astype(np.int64)


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
