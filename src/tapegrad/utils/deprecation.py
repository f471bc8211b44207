"""Functions under the names they used to have."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..core.warned import warn


def old_name(name: str, function: Callable[..., Any], sentence: str) -> Callable[..., Any]:
    """`function` under its old name: the same signature, and a warning with every call."""

    @functools.wraps(function)
    def old(*args: Any, **kwargs: Any) -> Any:
        warn(sentence, FutureWarning)
        return function(*args, **kwargs)

    old.__name__ = old.__qualname__ = name
    old.__doc__ = f"The old name of `{function.__name__}`."
    return old
