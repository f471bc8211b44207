"""The switches of oneDNN. It is not used, so they only keep what was set."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

enabled = True
deterministic = False
allow_tf32 = True
VERBOSE_OFF = 0
VERBOSE_ON = 1
VERBOSE_ON_CREATION = 2


def is_available() -> bool:
    return False


NAMES = ("enabled", "deterministic", "allow_tf32")


def set_flags(
    _enabled: bool | None = None,
    _deterministic: bool | None = None,
    _allow_tf32: bool | None = None,
) -> tuple[Any, ...]:
    """Set what is given, and return what was set before."""
    namespace = globals()
    before = tuple(namespace[name] for name in NAMES)
    given = (_enabled, _deterministic, _allow_tf32)
    namespace.update({n: v for n, v in zip(NAMES, given, strict=True) if v is not None})
    return before


@contextlib.contextmanager
def flags(
    enabled: bool = False, deterministic: bool = False, allow_tf32: bool = True
) -> Iterator[None]:
    """Switches for a block."""
    before = set_flags(enabled, deterministic, allow_tf32)
    try:
        yield
    finally:
        globals().update(zip(NAMES, before, strict=True))
