"""Bits of integers; for bools, logic."""

from __future__ import annotations

from typing import Any

from ...core.base import TensorBase
from ..block import PROMOTE, Block, Case, api, apply, op, ufunc
from ..block.checks import BOOL, COMPLEX, FLOATING, OUT_FOUND, invalid_call, not_for
from ..block.samples import Index

# ruff: noqa: N805


NUMBERS = Index([[5, -3, 0], [1, 7, 2]])
CASES = [
    Case(NUMBERS, NUMBERS),
    Case(NUMBERS, Index([1, 2, 3])),
    Case(NUMBERS, 3),
    Case(Index(6), 2),
]


class Bits(Block):
    aten_number = "Scalar"
    tensors = ("input", "other")
    dtype = PROMOTE
    elementwise = True
    public = False
    undifferentiable = "it works on integers"


def either(name: str, record: Any, input: Any, other: Any, run: Any) -> Any:
    """One of the two may be a number, not both."""
    if not isinstance(input, TensorBase) and not isinstance(other, TensorBase):
        raise invalid_call(name, input, other)
    return (run or apply)(record, (input, other))


@op
class BitwiseAnd(Bits):
    """bitwise_and(input, other) -> Tensor: the bits that are set in both."""

    aten = "bitwise_and.Tensor"
    guard = not_for("bitwise_and_cpu", FLOATING, COMPLEX)
    sign = "&"
    onnx = "And"
    fwd = ufunc("bitwise_and")


@api(inplace=True, samples=CASES)
def bitwise_and(input: Any, other: Any, *, run: Any = None) -> Any:
    """bitwise_and(input, other) -> Tensor: the bits that are set in both.

    >>> tensor([5, 6]) & 3
    tensor([1, 2])
    """
    return either("bitwise_and", BitwiseAnd, input, other, run)


@op
class BitwiseOr(Bits):
    """bitwise_or(input, other) -> Tensor: the bits that are set in either."""

    aten = "bitwise_or.Tensor"
    guard = not_for("bitwise_or_cpu", FLOATING, COMPLEX)
    sign = "|"
    onnx = "Or"
    fwd = ufunc("bitwise_or")


@api(inplace=True, samples=CASES)
def bitwise_or(input: Any, other: Any, *, run: Any = None) -> Any:
    """bitwise_or(input, other) -> Tensor: the bits that are set in either.

    >>> tensor([5, 6]) | 3
    tensor([7, 7])
    """
    return either("bitwise_or", BitwiseOr, input, other, run)


@op
class BitwiseXor(Bits):
    """bitwise_xor(input, other) -> Tensor: the bits that are set in one of the two."""

    aten = "bitwise_xor.Tensor"
    guard = not_for("bitwise_xor_cpu", FLOATING, COMPLEX)
    onnx = "Xor"
    fwd = ufunc("bitwise_xor")


@api(inplace=True, samples=CASES)
def bitwise_xor(input: Any, other: Any, *, run: Any = None) -> Any:
    """bitwise_xor(input, other) -> Tensor: the bits that are set in one of the two.

    >>> tensor([5, 6]) ^ 3
    tensor([6, 5])
    """
    return either("bitwise_xor", BitwiseXor, input, other, run)


@op
class BitwiseNot(Block):
    """bitwise_not(input) -> Tensor: every bit the other way round.

    >>> ~tensor([True, False])
    tensor([False,  True])
    """

    dtype = PROMOTE
    elementwise = True
    inplace = True
    out_dtype = OUT_FOUND
    undifferentiable = "it works on integers"
    onnx = "Not"
    samples = [Case(NUMBERS), Case(Index([True, False])), Case(Index(4))]
    guard = not_for("bitwise_not_cpu", FLOATING, COMPLEX)
    fwd = ufunc("invert")

    def call(input, *, run=None):
        return (run or apply)(BitwiseNot, (input,))


def bit_count(x: Any) -> int:
    return int(x.dtype.itemsize) * 8


@op
class BitwiseLeftShift(Bits):
    """bitwise_left_shift(input, other) -> Tensor: the bits of each element shifted left by
    `other`."""

    aten = "bitwise_left_shift.Tensor"
    aten_number = "Tensor_Scalar"
    guard = not_for("lshift_cpu", BOOL, FLOATING, COMPLEX)

    def fwd(xp, input, other):
        legal = (other >= 0) & (other < bit_count(other))
        moved = xp.left_shift(input, xp.where(legal, other, 0).astype(other.dtype))
        return xp.where(legal, moved, 0).astype(moved.dtype)


@api(inplace=True, samples=CASES)
def bitwise_left_shift(input: Any, other: Any, *, run: Any = None) -> Any:
    """bitwise_left_shift(input, other) -> Tensor: the bits moved up by `other` places.

    >>> tensor([1, 3]) << 2
    tensor([ 4, 12])
    """
    return either("bitwise_left_shift", BitwiseLeftShift, input, other, run)


@op
class BitwiseRightShift(Bits):
    """bitwise_right_shift(input, other) -> Tensor: the bits moved down, the sign kept."""

    aten = "bitwise_right_shift.Tensor"
    aten_number = "Tensor_Scalar"
    guard = not_for("rshift_cpu", BOOL, FLOATING, COMPLEX)

    def fwd(xp, input, other):
        # As far as it goes, where the number of places makes no sense.
        legal = (other >= 0) & (other < bit_count(other))
        places = xp.where(legal, other, bit_count(other) - 1).astype(other.dtype)
        return xp.right_shift(input, places)


@api(inplace=True, samples=CASES)
def bitwise_right_shift(input: Any, other: Any, *, run: Any = None) -> Any:
    """bitwise_right_shift(input, other) -> Tensor: the bits moved down by `other` places.

    >>> tensor([4, -4]) >> 1
    tensor([ 2, -2])
    """
    return either("bitwise_right_shift", BitwiseRightShift, input, other, run)


@api(function=False, method=False)
def rlshift(input: Any, other: Any) -> Any:
    """rlshift(input, other) -> Tensor: `other << input`."""
    return apply(BitwiseLeftShift, (other, input))


@api(function=False, method=False)
def rrshift(input: Any, other: Any) -> Any:
    """rrshift(input, other) -> Tensor: `other >> input`."""
    return apply(BitwiseRightShift, (other, input))
