"""Whether the parts of new sparse tensors are checked."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


class Switch:
    """On, off, or None while nobody has said anything."""

    on: bool | None = None


class check_sparse_tensor_invariants:
    """Check the indices of new sparse tensors: for a `with` block, in a function, or from now on.

    >>> with sparse.check_sparse_tensor_invariants():
    ...     sparse.check_sparse_tensor_invariants.is_enabled()
    True
    """

    def __init__(self, enable: bool = True) -> None:
        self.state = enable
        self.before: list[bool | None] = []

    @staticmethod
    def is_enabled() -> bool:
        """Whether they are checked."""
        return bool(Switch.on)

    @staticmethod
    def enable() -> None:
        """Check them from now on."""
        Switch.on = True

    @staticmethod
    def disable() -> None:
        """Do not check them any more."""
        Switch.on = False

    def __enter__(self) -> None:
        self.before.append(Switch.on)
        Switch.on = self.state

    def __exit__(self, *error: object) -> None:
        Switch.on = self.before.pop()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.state):
                return function(*args, **kwargs)

        return wrapped
