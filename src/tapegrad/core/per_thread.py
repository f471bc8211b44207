"""State that every thread has for itself, and a thread that continues for another.

Backward passes inside backward passes use up Python's stack. From some depth on, the next one is
run by a thread with a fresh stack while the asking one waits; it must find every switch as it was.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import Any

MADE: list[PerThread] = []  # every such state of the process


class PerThread(threading.local):
    """Values that each thread has for itself; `instead` carries them over to another thread."""

    def __new__(cls, *args: Any) -> PerThread:
        made = super().__new__(cls, *args)
        MADE.append(made)
        return made

    def carry_over(self, state: dict[str, Any]) -> None:
        """Copy another thread's values; lists are shared, as that thread waits meanwhile."""
        vars(self).update(state)


def instead(f: Callable[..., None], *args: Any) -> None:
    """Call `f` in a new thread that has this one's state, and wait for it.

    Where no thread can be started (in a browser), `f` goes on here, on what is left of the stack.
    """
    states = [(each, dict(vars(each))) for each in MADE]
    failures: list[BaseException] = []

    def work() -> None:
        for each, state in states:
            each.carry_over(state)
        try:
            f(*args)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(work,), daemon=True)
    try:
        thread.start()
    except RuntimeError:
        f(*args)
        return
    thread.join()
    if failures:
        raise failures[0]
