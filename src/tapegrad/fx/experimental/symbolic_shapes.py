"""Sizes that are not known: there are none, a condition is a bool."""

from __future__ import annotations

from typing import Any


class GuardOnDataDependentSymNode(RuntimeError):
    """A graph would depend on the values of a tensor."""


def free_symbols(val: Any) -> set[Any]:
    """The unknown sizes in a value: none."""
    return set()


free_unbacked_symbols = free_symbols


def is_concrete_int(a: Any) -> bool:
    """Whether a size is a number: always."""
    return isinstance(a, int)


def is_concrete_bool(a: Any) -> bool:
    """Whether a condition is known: always."""
    return isinstance(a, bool)


def guard_or_false(a: Any) -> bool:
    """The condition; False if it were not known."""
    return bool(a)


def guard_or_true(a: Any) -> bool:
    """The condition; True if it were not known."""
    return bool(a)


guard_size_oblivious = statically_known_true = guard_or_false
