"""PyTorch's symbolic numbers. Nothing here makes one; functions of them take plain numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

__all__ = [
    "SymBool",
    "SymFloat",
    "SymInt",
    "sym_float",
    "sym_int",
    "sym_ite",
    "sym_max",
    "sym_min",
    "sym_not",
    "sym_sqrt",
    "sym_sum",
]


class SymInt:
    """An integer that a compiler does not know yet: there for isinstance checks.

    >>> isinstance(zeros(2).shape[0], torch.SymInt)
    False
    """


class SymFloat:
    """A float that a compiler does not know yet: there for isinstance checks.

    >>> isinstance(1.0, torch.SymFloat)
    False
    """


class SymBool:
    """A truth value that a compiler does not know yet: there for isinstance checks.

    >>> isinstance(True, torch.SymBool)
    False
    """


def sym_int(a: Any) -> int:
    """`int(a)`, towards zero.

    >>> torch.sym_int(3.7)
    3
    """
    return int(a)


def sym_float(a: Any) -> float:
    """A number as a float."""
    return float(a)


def sym_not(a: Any) -> bool:
    """Not, for truth values that may be symbols."""
    return not a


def sym_max(a: Any, b: Any) -> Any:
    """The larger number, a float as soon as one of them is.

    >>> torch.sym_max(3, 5.0)
    5.0
    """
    found = max(a, b)
    return float(found) if isinstance(a, float) or isinstance(b, float) else found


def sym_min(a: Any, b: Any) -> Any:
    """The smaller number, a float as soon as one of them is.

    >>> torch.sym_min(3, 5.0)
    3.0
    """
    found = min(a, b)
    return float(found) if isinstance(a, float) or isinstance(b, float) else found


def sym_ite(b: bool, t: Any, f: Any) -> Any:
    """`t` if `b`, else `f`.

    >>> torch.sym_ite(True, 1, 2)
    1
    """
    return t if b else f


def sym_sqrt(a: float) -> float:
    """The square root of a number."""
    return math.sqrt(a)


def sym_sum(args: Sequence[Any]) -> Any:
    """The sum of numbers."""
    return sum(args)
