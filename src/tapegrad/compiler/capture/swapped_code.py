"""Functions that run instrumented code for a while, and who hears its hooks."""

from __future__ import annotations

import functools
import threading
import types
from typing import Any

from ...core.locks import new_rlock


class Current(threading.local):
    """The state that hears the hooks of a thread; None: they do what the code says."""

    state: Any = None  # PythonState
    is_busy = False


CURRENT = Current()


class Swaps:
    """Functions that have instrumented code right now, for any number of recordings."""

    def __init__(self) -> None:
        self.lock = new_rlock()
        self.held: dict[int, list[Any]] = {}  # by id: function, its own code, how often

    def put(self, function: types.FunctionType, code: types.CodeType) -> None:
        with self.lock:
            found = self.held.setdefault(id(function), [function, function.__code__, 0])
            found[2] += 1
            if found[2] == 1:
                function.__code__ = code

    def take_back(self, function: types.FunctionType) -> None:
        with self.lock:
            found = self.held[id(function)]
            found[2] -= 1
            if not found[2]:
                del self.held[id(function)]
                function.__code__ = found[1]


SWAPS = Swaps()


def unheard(method: Any) -> Any:
    """A method during which nothing of the user's runs: hooks that it meets hear nothing."""

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        before, CURRENT.state = CURRENT.state, None
        self.trusting += 1
        try:
            return method(self, *args, **kwargs)
        finally:
            self.trusting -= 1
            CURRENT.state = before

    return call
