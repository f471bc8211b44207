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
    """An integer that a compiler does not know yet: there for isinstance checks."""


class SymFloat:
    """A float that a compiler does not know yet: there for isinstance checks."""


class SymBool:
    """A truth value that a compiler does not know yet: there for isinstance checks."""


def sym_int(a: Any) -> int:
    """`int(a)`, towards zero."""
    return int(a)


def sym_float(a: Any) -> float:
    return float(a)


def sym_not(a: Any) -> bool:
    return not a


def sym_max(a: Any, b: Any) -> Any:
    """The larger number, a float as soon as one of them is."""
    found = max(a, b)
    return float(found) if isinstance(a, float) or isinstance(b, float) else found


def sym_min(a: Any, b: Any) -> Any:
    """The smaller number, a float as soon as one of them is."""
    found = min(a, b)
    return float(found) if isinstance(a, float) or isinstance(b, float) else found


def sym_ite(b: bool, t: Any, f: Any) -> Any:
    """`t` if `b`, else `f`."""
    return t if b else f


def sym_sqrt(a: float) -> float:
    return math.sqrt(a)


def sym_sum(args: Sequence[Any]) -> Any:
    return sum(args)
