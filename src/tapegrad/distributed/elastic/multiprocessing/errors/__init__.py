"""`@record`: the launcher reports how a rank ended in any case."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["ChildFailedError", "record"]


class ChildFailedError(Exception):
    """A rank failed."""


def record(fn: Callable[..., Any], error_handler: Any = None) -> Callable[..., Any]:
    """The function itself: what it raises is printed by its rank, with all lines."""
    return fn
