"""The locks of the library, which are free again in the child of a fork.

A child of `os.fork` has only the thread that forked. A lock that another thread held at that moment
would never be released there, so every lock of the library is made, or made known, here, and comes
free in the child. A lock that the forking thread itself holds stays held: it will release it.
Nothing waits in the parent: what another thread was changing meanwhile may be half changed in the
child, as everything else that belongs to threads.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

KNOWN: weakref.WeakSet[Any] = weakref.WeakSet()


def renewed_after_fork(lock: Any) -> Any:
    """The lock (Lock, RLock or Event), which will be renewed in children."""
    KNOWN.add(lock)
    return lock


def new_lock() -> Any:
    """A `threading.Lock`; no code of the user's, which might fork, may run while it is held."""
    return renewed_after_fork(threading.Lock())


def new_rlock() -> Any:
    """A `threading.RLock`."""
    return renewed_after_fork(threading.RLock())


def new_event() -> Any:
    """A `threading.Event`."""
    return renewed_after_fork(threading.Event())


def renew() -> None:
    """In the child of a fork: make the locks free that other threads held."""
    for lock in list(KNOWN):
        is_owned = getattr(lock, "_is_owned", None)  # of an RLock
        if is_owned is None or not is_owned():
            lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=renew)
