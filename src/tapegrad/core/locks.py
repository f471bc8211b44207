"""The locks of the library, which are free again in the child of a fork.

A child of `os.fork` has only the thread that forked. A lock that another thread held at that moment
would never be released there, so every lock of the library is made, or made known, here, and comes
free in the child. A lock that the forking thread itself holds stays held: it will release it.
What another thread was changing meanwhile may be half changed in the child, as everything else that
belongs to threads. Only imports are waited for: Python's own lock of a module that another thread
was importing stays held in the child, which would wait for ever when it needs the module.
"""

from __future__ import annotations

import logging  # noqa: F401  # it adds hooks to forks, which must not happen in the middle of one
import os
import sys
import threading
import time
import weakref
from typing import Any

KNOWN: weakref.WeakSet[Any] = weakref.WeakSet()
IMPORTED_LATE = ("tapegrad", "numpy", "ml_dtypes")  # packages that the library imports when used
LONGEST_WAIT = 10.0  # seconds; an import that takes longer may itself be waiting for this thread


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


def others_import() -> bool:
    """Whether another thread is importing a module that the library may need in a child."""
    module_locks = getattr(sys.modules.get("_frozen_importlib"), "_module_locks", None)
    for name, reference in list((module_locks or {}).items()):
        if name.partition(".")[0] in IMPORTED_LATE:
            owner = getattr(reference(), "owner", None)
            if owner is not None and owner != threading.get_ident():
                return True
    return False


def wait_for_imports() -> None:
    """Before a fork: let other threads finish the imports that they are in the middle of."""
    last = time.monotonic() + LONGEST_WAIT
    while others_import() and time.monotonic() < last:
        time.sleep(0.0005)


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(before=wait_for_imports, after_in_child=renew)
