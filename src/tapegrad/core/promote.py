"""Type promotion: PyTorch's rules, worked out once into tables.

An expression's dtype is decided by three priorities: tensors with dimensions, then zero-dimensional
tensors, then Python numbers. A lower priority takes part only when its category (bool, integral,
floating, complex) is higher than what stands above it.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tapegrad import dtypes
from tapegrad.dtypes import dtype

COUNT: Final = len(dtypes.ALL)

# The categories of dtypes.py again, as constants that compile to plain integers.
BOOL: Final = 0
INTEGRAL: Final = 1
FLOATING: Final = 2
COMPLEX: Final = 3


def _pair(a: dtype, b: dtype) -> dtype | None:
    """The dtype that holds both, or None where PyTorch refuses."""
    if a is b:
        return a
    wide_unsigned = (dtypes.uint16, dtypes.uint32, dtypes.uint64)
    if a in wide_unsigned or b in wide_unsigned:
        other = b if a in wide_unsigned else a
        return other if other.is_floating_point else None
    if a.category > b.category:
        a, b = b, a
    if b.is_complex:
        double = a in (dtypes.float64, dtypes.complex128) or b is dtypes.complex128
        return dtypes.complex128 if double else dtypes.complex64
    if a.category < b.category:
        return b
    if a.itemsize != b.itemsize:
        return a if a.itemsize > b.itemsize else b
    # What is left: uint8 with int8, and float16 with bfloat16. Neither holds the other.
    return dtypes.float32 if a.is_floating_point else dtypes.int16


def _build_table() -> list[dtype | None]:
    return [_pair(a, b) for a in dtypes.ALL for b in dtypes.ALL]


_TABLE: Final[list[dtype | None]] = _build_table()


def promote(a: dtype, b: dtype) -> dtype:
    """The smallest dtype that is no smaller and of no lower category than either."""
    if a.index >= COUNT or b.index >= COUNT:
        return _promote_stored(a, b)
    found = _TABLE[a.index * COUNT + b.index]
    if found is None:
        raise RuntimeError(
            "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote "
            f"{a.scalar_type} and {b.scalar_type}"
        )
    return found


def _promote_stored(a: dtype, b: dtype) -> dtype:
    """Promote with a dtype that is only stored (float8 …): it mixes with no other dtype."""
    if a is b:
        return a
    kind = "Float8" if "float8" in a.name + b.name else "Quantized or sub-byte"
    raise RuntimeError(
        f"Promotion for {kind} Types is not supported, attempted to promote {a.scalar_type} and "
        f"{b.scalar_type}"
    )


def _check(function: str, argument: str, position: int, value: object) -> dtype:
    if isinstance(value, dtype):
        return value
    raise TypeError(
        f"{function}(): argument '{argument}' (position {position}) must be torch.dtype, "
        f"not {type(value).__name__}"
    )


def promote_types(type1: object, type2: object) -> dtype:
    """The dtype that arithmetic between two tensors of these dtypes has."""
    a = _check("promote_types", "type1", 1, type1)
    return promote(a, _check("promote_types", "type2", 2, type2))


def can_cast(from_: object, to: object) -> bool:
    """Whether promotion allows to store `from_` as `to`: the category may not fall."""
    a = _check("can_cast", "from_", 1, from_)
    b = _check("can_cast", "to", 2, to)
    low: int = a.category
    high: int = b.category
    return low <= high


def combine(higher: dtype, lower: dtype) -> dtype:
    """`higher` has the priority; `lower` can only lift its category."""
    top: int = higher.category
    low: int = lower.category
    if top == COMPLEX:
        return higher
    if top == FLOATING:
        return higher.to_complex() if low == COMPLEX else higher
    if low >= FLOATING:
        return lower
    return promote(higher, lower) if top == BOOL else higher


def promote_arrays(
    dtypes_dim: list[dtype], dtypes_zero: list[dtype], scalars: list[object]
) -> dtype:
    """The dtype of an expression: its tensors with dimensions, without, and its numbers."""
    wrapped: dtype | None = None
    for value in scalars:
        own = dtypes.scalar_dtype(value)
        wrapped = own if wrapped is None else promote(wrapped, own)
    result = wrapped
    zero: dtype | None = None
    for own in dtypes_zero:
        zero = own if zero is None else promote(zero, own)
    if zero is not None:
        result = zero if result is None else combine(zero, result)
    dim: dtype | None = None
    for own in dtypes_dim:
        dim = own if dim is None else promote(dim, own)
    if dim is not None:
        result = dim if result is None else combine(dim, result)
    if result is None:
        raise RuntimeError("promote_arrays needs at least one operand")
    return result


def result_dtype(operands: list[object]) -> dtype:
    """The dtype of an expression over arrays and Python numbers, in any order.

    >>> result_dtype([np.ones(2, np.float32), np.ones((), np.float64), 3])
    torch.float32
    """
    dim: list[dtype] = []
    zero: list[dtype] = []
    scalars: list[object] = []
    for value in operands:
        if hasattr(value, "ndim") and not isinstance(value, np.generic):
            array: Any = value
            if array.ndim:
                dim.append(dtypes.of(array.dtype))
            else:
                zero.append(dtypes.of(array.dtype))
        else:
            scalars.append(value)
    return promote_arrays(dim, zero, scalars)


# Two arrays promote the same way whatever the default dtype is, so their answers are kept.
_BINARY: Final[dict[tuple[object, object, bool, bool], Any]] = {}


def binary_result(x: Any, y: Any) -> Any:
    """The NumPy dtype of an expression over two arrays."""
    a = x.dtype
    b = y.dtype
    if a is b:
        return a
    key = (a, b, x.ndim == 0, y.ndim == 0)
    found = _BINARY.get(key)
    if found is None:
        found = _binary(dtypes.of(a), dtypes.of(b), x.ndim == 0, y.ndim == 0).np
        _BINARY[key] = found
    return found


def _binary(a: dtype, b: dtype, a_is_zero_dim: bool, b_is_zero_dim: bool) -> dtype:
    if a_is_zero_dim == b_is_zero_dim:
        return promote(a, b)
    return combine(b, a) if a_is_zero_dim else combine(a, b)


def scalar_result(x: Any, s: object) -> Any:
    """The NumPy dtype of an expression over an array and a Python number."""
    own = x.dtype
    kind: str = own.kind
    # The common cases first: a float with a float or an int, an integer with an int.
    if isinstance(s, int):
        if kind != "b" and -(2**63) <= s < 2**63:
            return own
    elif isinstance(s, float) and (kind == "f" or kind == "c"):
        return own
    if getattr(s, "dtype", None) is own:  # a symbol in the place of a number
        return own
    return combine(dtypes.of(own), dtypes.scalar_dtype(s)).np
