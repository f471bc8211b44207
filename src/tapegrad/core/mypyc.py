"""The decorator that mypyc reads from `mypy_extensions`, without needing that package at run time.

The types come from mypyc.pyi; interpreted, the decorator does nothing.
"""

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T", bound=type)


def mypyc_attr(*flags: str, **settings: object) -> Callable[[T], T]:
    def unchanged(cls: T) -> T:
        return cls

    return unchanged
