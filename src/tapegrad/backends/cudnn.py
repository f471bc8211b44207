"""The switches of cuDNN. It is not available, so they only keep what was set.

`allow_tf32` is obeyed by our own convolutions of float32 on GPUs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

enabled = True
benchmark = False
benchmark_limit: int | None = None
deterministic = False
allow_tf32 = True


def is_available() -> bool:
    return False


def version() -> int | None:
    return None


def is_acceptable(tensor: Any) -> bool:
    """Whether cuDNN could work on a tensor."""
    return False


NAMES = ("enabled", "benchmark", "benchmark_limit", "deterministic", "allow_tf32")


def set_flags(
    _enabled: bool | None = None,
    _benchmark: bool | None = None,
    _benchmark_limit: int | None = None,
    _deterministic: bool | None = None,
    _allow_tf32: bool | None = None,
) -> tuple[Any, ...]:
    """Set what is given, and return what was set before."""
    namespace = globals()
    before = tuple(namespace[name] for name in NAMES)
    given = (_enabled, _benchmark, _benchmark_limit, _deterministic, _allow_tf32)
    namespace.update({n: v for n, v in zip(NAMES, given, strict=True) if v is not None})
    return before


@contextlib.contextmanager
def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
) -> Iterator[None]:
    """Switches for a block."""
    before = set_flags(enabled, benchmark, benchmark_limit, deterministic, allow_tf32)
    try:
        yield
    finally:
        globals().update(zip(NAMES, before, strict=True))
