"""Swapping functions' code for instrumented code, and the state that gets its hooks' calls."""

from __future__ import annotations

import functools
import threading
import types
from typing import Any

from ...core.locks import new_rlock


class Current(threading.local):
    """The PythonState that this thread's hooks report to; None: hooks just do the operation."""

    state: Any = None  # PythonState


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
    """Decorate a method that runs no code of the user's: hooks report nothing meanwhile."""

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
