"""How values of several processes are combined, for which dtypes, and through which ones."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import numpy as np


class RedOpType(enum.Enum):
    """The kinds of reduction."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8
    UNUSED = 9

    def __call__(self) -> RedOpType:
        return self


class _OfRedOpType(type):
    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, RedOpType)


class ReduceOp(metaclass=_OfRedOpType):
    """How values of several processes are combined."""

    RedOpType = RedOpType
    SUM = RedOpType.SUM
    AVG = RedOpType.AVG
    PRODUCT = RedOpType.PRODUCT
    MIN = RedOpType.MIN
    MAX = RedOpType.MAX
    BAND = RedOpType.BAND
    BOR = RedOpType.BOR
    BXOR = RedOpType.BXOR
    PREMUL_SUM = RedOpType.PREMUL_SUM
    UNUSED = RedOpType.UNUSED

    def __new__(cls, op: RedOpType) -> Any:
        return RedOpType(op)


BITWISE = (RedOpType.BAND, RedOpType.BOR, RedOpType.BXOR)

# On bools, 0 or 1 in a byte: a sum is true if one is, a product if all are.
ON_BOOLS = {
    RedOpType.SUM: RedOpType.BOR,
    RedOpType.AVG: RedOpType.BOR,
    RedOpType.MAX: RedOpType.BOR,
    RedOpType.PRODUCT: RedOpType.BAND,
    RedOpType.MIN: RedOpType.BAND,
}


def prepared(
    array: Any, op: RedOpType, size: int
) -> tuple[Any, RedOpType, Callable[[Any, Any], None] | None]:
    """(the array to reduce, by which op, what puts the result into the array that was asked for).

    Half precision is summed in float32 and rounded once, as MPI knows no such dtype.
    """
    kind = array.dtype
    if op in BITWISE and kind.kind not in "biu":
        raise RuntimeError(f"Cannot use ReduceOp.{op.name} with non-integral dtype")
    if op not in ON_BOOLS and op not in BITWISE:
        raise RuntimeError(f"Cannot use ReduceOp.{op.name} with {kind}: it is not supported here")
    if kind == np.bool_:
        return array.view(np.uint8), ON_BOOLS.get(op, op), None
    if kind.itemsize <= 2 and kind.kind not in "iu":
        wide = array.astype(np.float32)

        def narrow(result: Any, target: Any) -> None:
            target[...] = (result / size if op is RedOpType.AVG else result).astype(kind)

        return wide, op, narrow
    if op is RedOpType.AVG and size > 1:

        def average(result: Any, target: Any) -> None:
            if kind.kind in "iu":
                np.floor_divide(result, size, out=target)
            else:
                np.divide(result, size, out=target)

        return array, op, average
    return array, op, None
