"""When operations ran and were waited for; kept while `diagnose.distributed()` watches."""

from __future__ import annotations

import time
from typing import Any, NamedTuple


class Event(NamedTuple):
    """A stretch of time of this rank: 'communicate' from start to end, 'wait', 'backward', or
    'reduced': a backward pass with the waiting behind it, which ends a step."""

    what: str
    name: str
    start: float
    end: float


EVENTS: list[Event] | None = None


def watch(on: bool) -> list[Event]:
    """Start or stop keeping events; those that were kept."""
    global EVENTS
    kept, EVENTS = EVENTS or [], [] if on else None
    return kept


def add(what: str, name: str, start: float) -> None:
    if EVENTS is not None:
        EVENTS.append(Event(what, name, start, time.perf_counter()))


def note(work: Any) -> None:
    add("communicate", work.kind, work.started)


def waited(work: Any, start: float) -> None:
    add("wait", work.kind, start)
