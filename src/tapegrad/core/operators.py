"""The operators of a tensor. They are compiled, so that `a * b` runs no interpreted frame."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ..errors import explain_call
from .base import F32, F64, STATE, TensorBase
from .dispatch import apply, binary, binary_plain, pair, unary
from .late_bound import AUTOCAST, INTERPRETERS
from .mypyc import mypyc_attr
from .op import REGISTRY, Op


class Table:
    """The ops that implement Python's operators; filled once, after all blocks are loaded."""

    add: Op
    sub: Op
    mul: Op
    mm: Op
    cast: Op
    rsub_scalar: Op
    pow_scalar: Op
    div: Op
    neg: Op
    abs: Op
    eq: Op
    ne: Op
    lt: Op
    le: Op
    gt: Op
    ge: Op
    functions: dict[str, Any]  # the function of each public name, without its wrapper

    def fill(self, functions: dict[str, Any]) -> None:
        self.add = REGISTRY["add"]
        self.sub = REGISTRY["sub"]
        self.mul = REGISTRY["mul"]
        self.mm = REGISTRY["mm"]
        self.cast = REGISTRY["cast"]
        self.rsub_scalar = REGISTRY["rsub_scalar"]
        self.pow_scalar = REGISTRY["pow_scalar"]
        self.div = REGISTRY["div"]
        self.neg = REGISTRY["neg"]
        self.abs = REGISTRY["abs"]
        self.eq = REGISTRY["eq"]
        self.ne = REGISTRY["ne"]
        self.lt = REGISTRY["lt"]
        self.le = REGISTRY["le"]
        self.gt = REGISTRY["gt"]
        self.ge = REGISTRY["ge"]
        self.functions = functions


OPS: Final = Table()
OPERANDS: Final = ("left", "right")


def operate(op: Op, a: TensorBase, b: Any) -> Any:
    """`binary`, or NotImplemented so that Python can ask the other operand."""
    if isinstance(b, TensorBase) or is_number(b):
        try:
            return binary(op, a, b) if STATE.modes_on else binary_plain(op, a, b)
        except RuntimeError as error:
            explain_call(error, op.name, OPERANDS, (a, b))
            raise
    number = as_number(b)
    return INTERPRETERS.ask_foreign(op.name, a, b) if number is None else binary(op, a, number)


def is_number(b: Any) -> bool:
    """Apart from the check for TensorBase: isinstance with one tuple of all is slower."""
    return isinstance(b, (float, int))


def takes_number(a: TensorBase, b: Any) -> bool:
    """Whether an operator may take its fast path for a float tensor and a number."""
    if STATE.modes_on or a._special or (type(b) is not float and type(b) is not int):
        return False
    dtype = a._array.dtype
    return dtype is F32 or dtype is F64


def as_number(value: Any) -> Any:
    """A complex or NumPy scalar as a Python number; None for everything else.

    A 0-d array of NumPy is no number: NumPy computes with it, in the array's own dtype. A truth
    value of NumPy is a float, as in PyTorch; dates and texts are no numbers.
    """
    if isinstance(value, complex):
        return value
    if isinstance(value, (np.ndarray, np.datetime64, np.timedelta64)):
        return None
    if hasattr(value, "dtype") and hasattr(value, "item") and not getattr(value, "shape", (1,)):
        number = value.item()
        if isinstance(number, (bool, np.floating)):  # a long double stays one
            return float(number)
        if isinstance(number, np.complexfloating):
            return complex(number)
        return number if isinstance(number, (int, float, complex)) else None
    return None


def call(name: str, a: Any, b: Any) -> Any:
    """A published function of two arguments as an operator."""
    if not isinstance(b, (TensorBase, float, int)):
        number = as_number(b)
        if number is None:
            return INTERPRETERS.ask_foreign(name, a, b)
        b = number
    special = a._special or (isinstance(b, TensorBase) and b._special)
    if (special or STATE.modes_on) and INTERPRETERS.is_watched((a, b), {}):
        return INTERPRETERS.watched_operator(name, a, b)
    try:
        return OPS.functions[name](a, b)
    except RuntimeError as error:
        explain_call(error, name, OPERANDS, (a, b))
        raise


@mypyc_attr(allow_interpreted_subclasses=True)
class Operators(TensorBase):
    """TensorBase with Python's operators."""

    __slots__ = ()

    def __add__(self, other: Any) -> Any:
        return operate(OPS.add, self, other)

    def __radd__(self, other: Any) -> Any:
        return operate(OPS.add, self, other)

    def __sub__(self, other: Any) -> Any:
        return operate(OPS.sub, self, other)

    def __rsub__(self, other: Any) -> Any:
        if takes_number(self, other):
            return apply(OPS.rsub_scalar, (self,), (other, 1))
        return call("rsub", self, other)

    def __mul__(self, other: Any) -> Any:
        return operate(OPS.mul, self, other)

    def __rmul__(self, other: Any) -> Any:
        return operate(OPS.mul, self, other)

    def __truediv__(self, other: Any) -> Any:
        return operate(OPS.div, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            return OPS.functions["reciprocal"](self) * other
        return call("rdiv", self, other)

    def __rdiv__(self, other: Any) -> Any:
        return call("rdiv", self, other)  # Python 2's name, which PyTorch still has

    def __floordiv__(self, other: Any) -> Any:
        return call("floor_divide", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return call("rfloordiv", self, other)

    def __mod__(self, other: Any) -> Any:
        return call("remainder", self, other)

    def __rmod__(self, other: Any) -> Any:
        return call("rmod", self, other)

    def __pow__(self, other: Any) -> Any:
        if takes_number(self, other):
            return apply(OPS.pow_scalar, (self,), (other,))
        return call("pow", self, other)

    def __rpow__(self, other: Any) -> Any:
        return call("rpow", self, other)

    def __matmul__(self, other: Any) -> Any:
        if isinstance(other, TensorBase) and not STATE.modes_on:
            x = self._array
            y = other._array
            if x.ndim == 2 and y.ndim == 2 and x.shape[1] == y.shape[0]:
                found = pair(OPS.mm, self, other, ())  # which fit: nothing to refuse
                if found is not None:
                    return found
        if not isinstance(other, TensorBase):
            return INTERPRETERS.ask_foreign("matmul", self, other)
        if STATE.modes_on and INTERPRETERS.is_watched((self, other), {}):
            return INTERPRETERS.watched_operator("matmul", self, other)
        if STATE.casting:
            return AUTOCAST.call(OPS.functions["matmul"], (self, other), {})
        try:
            return OPS.functions["matmul"](self, other)
        except RuntimeError as error:
            explain_call(error, "matmul", OPERANDS, (self, other))
            raise

    def __rmatmul__(self, other: Any) -> Any:
        if isinstance(other, Operators):
            return other.__matmul__(self)
        return INTERPRETERS.ask_foreign("__rmatmul__", self, other)

    def __neg__(self) -> Any:
        return unary(OPS.neg, self)

    def __pos__(self) -> Any:
        return OPS.functions["positive"](self)

    def __abs__(self) -> Any:
        return unary(OPS.abs, self)

    def __invert__(self) -> Any:
        if self._array.dtype.kind not in "biu":
            raise TypeError(
                "~ (operator.invert) is only implemented on integer and Boolean-type tensors"
            )
        return OPS.functions["bitwise_not"](self)

    def __and__(self, other: Any) -> Any:
        return call("bitwise_and", self, other)

    def __rand__(self, other: Any) -> Any:
        return call("bitwise_and", self, other)

    def __or__(self, other: Any) -> Any:
        return call("bitwise_or", self, other)

    def __ror__(self, other: Any) -> Any:
        return call("bitwise_or", self, other)

    def __xor__(self, other: Any) -> Any:
        return call("bitwise_xor", self, other)

    def __rxor__(self, other: Any) -> Any:
        return call("bitwise_xor", self, other)

    def __lshift__(self, other: Any) -> Any:
        return call("bitwise_left_shift", self, other)

    def __rlshift__(self, other: Any) -> Any:
        return call("rlshift", self, other)

    def __rshift__(self, other: Any) -> Any:
        return call("bitwise_right_shift", self, other)

    def __rrshift__(self, other: Any) -> Any:
        return call("rrshift", self, other)

    def __eq__(self, other: Any) -> Any:
        found = operate(OPS.eq, self, other)
        if found is not NotImplemented or not isinstance(other, np.ndarray):
            return found
        # The one operator for which PyTorch makes a tensor of an array.
        try:
            return operate(OPS.eq, self, OPS.functions["from_numpy"](other))
        except TypeError:
            return NotImplemented

    def __ne__(self, other: Any) -> Any:
        return operate(OPS.ne, self, other)

    def __lt__(self, other: Any) -> Any:
        return operate(OPS.lt, self, other)

    def __le__(self, other: Any) -> Any:
        return operate(OPS.le, self, other)

    def __gt__(self, other: Any) -> Any:
        return operate(OPS.gt, self, other)

    def __ge__(self, other: Any) -> Any:
        return operate(OPS.ge, self, other)

    def __hash__(self) -> int:
        return id(self)
