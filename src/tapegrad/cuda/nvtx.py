"""Marks for NVIDIA's profilers; they go nowhere where those cannot be reached."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from ..core import devices

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]


class Depth:
    """How deep in ranges this process is."""

    now = 0


def tool() -> Any:
    """CuPy's door to the profiler, or None."""
    xp = devices.DEVICE.xp
    found = None if xp is None else getattr(xp.cuda, "nvtx", None)
    return found if found is not None and getattr(found, "available", True) else None


def range_push(msg: str) -> int:
    """Begin a range inside the one before; how deep it is."""
    nvtx = tool()
    if nvtx is not None:
        nvtx.RangePush(msg)
    Depth.now += 1
    return Depth.now - 1


def range_pop() -> int:
    """End the innermost range; how deep it was."""
    nvtx = tool()
    if nvtx is not None:
        nvtx.RangePop()
    Depth.now = max(Depth.now - 1, 0)
    return Depth.now


def range_start(msg: str) -> int:
    """Begin a range that may end anywhere."""
    nvtx = tool()
    return 0 if nvtx is None else int(nvtx.RangeStart(msg, 0))  # CuPy wants a colour, too


def range_end(range_id: int) -> None:
    """End such a range."""
    nvtx = tool()
    if nvtx is not None:
        nvtx.RangeEnd(range_id)


def mark(msg: str) -> None:
    """Mark a moment."""
    nvtx = tool()
    if nvtx is not None:
        nvtx.Mark(msg)


@contextlib.contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A block as a range."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
