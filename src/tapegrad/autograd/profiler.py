"""`profile`: how long each op, each node of a backward pass and each named block takes.

While a profiler runs, dispatch and engine call `start_timer` and `stop_timer`. While none does,
they test one number off their fast paths.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..core.base import STATE, TensorBase
from ..core.late_bound import PROFILER
from ..core.locks import new_lock
from ..core.modes import count
from ..core.per_thread import PerThread
from ..errors.absent import absent_class
from . import watched
from .profiler_util import EventList, FunctionEvent, FunctionEventAvg

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "profile", "record_function"]

clock = time.perf_counter_ns


class Frame:
    """Something that has begun and not yet ended."""

    __slots__ = ("children", "inner", "name", "shapes", "start")

    def __init__(self, name: str, shapes: list[Any]) -> None:
        self.name = name
        self.shapes = shapes
        self.inner = 0  # nanoseconds spent in what began and ended inside
        self.children: list[FunctionEvent] = []
        self.start = clock()


class Open(PerThread):
    """The timers that are running in this thread, outermost first."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []


OPEN = Open()
NUMBERS = itertools.count()
RUNNING: list[profile] = []
_lock = new_lock()


def begin(name: str, shapes: list[Any]) -> None:
    OPEN.frames.append(Frame(name, shapes))


def end(name: str) -> None:
    """Close the innermost frame of that name; what is open inside it was left by an exception."""
    now = clock()
    frames = OPEN.frames
    if not any(f.name == name for f in frames):
        return  # it began before the profiler did
    while True:
        frame = frames.pop()
        if frame.name == name:
            break
    spent = now - frame.start
    event = FunctionEvent(
        next(NUMBERS),
        name,
        threading.get_ident(),
        frame.start / 1e3,
        now / 1e3,
        frame.shapes,
        (spent - frame.inner) / 1e3,
    )
    event.cpu_children = frame.children
    for child in frame.children:
        child.cpu_parent = event
    if frames:
        frames[-1].inner += spent
        frames[-1].children.append(event)
    with _lock:
        for running in RUNNING:
            running.collected.append(event)


def start_timer(name: str, tensors: tuple[Any, ...] | None) -> None:
    """An op begins, or (without tensors) a node of a backward pass."""
    if tensors is None:
        begin(name, [])
        return
    shapes = []
    if any(p.record_shapes for p in RUNNING):
        shapes = [list(t._array.shape) if isinstance(t, TensorBase) else [] for t in tensors]
    begin(f"aten::{name}", shapes)


def stop_timer(name: str) -> None:
    end(f"aten::{name}")


def node_done(node: Any, total: Any, grads: Any) -> None:
    """Observer of the engine: stop the timer of the node that has just run."""
    end(node.name())


def _profiler_enabled() -> bool:
    """Whether a profiler runs."""
    return bool(RUNNING)


PROFILER.start = start_timer
PROFILER.stop = stop_timer


class record_function(contextlib.ContextDecorator):
    """Give a block, or a function, a name in profiles. It costs nothing while none is made.

    >>> with torch.profiler.profile() as profile:
    ...     with torch.profiler.record_function("my part"):
    ...         x = ones(2) + 1
    >>> "my part" in {event.key for event in profile.key_averages()}
    True
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self.args = args
        self.open = False

    def __enter__(self) -> record_function:
        if STATE.timing:
            begin(self.name, [])
            self.open = True
        return self

    def __exit__(self, *error: object) -> None:
        if self.open:
            end(self.name)
            self.open = False

    def _recreate_cm(self) -> record_function:
        return record_function(self.name, self.args)


class profile:
    """Time what happens in a block.

    >>> with torch.autograd.profiler.profile() as prof:
    ...     _ = torch.ones(2) + 1
    >>> [event.key for event in prof.key_averages()]
    ['aten::add']
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cpu: bool = True,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        **options: Any,
    ) -> None:
        self.enabled = enabled
        self.record_shapes = record_shapes
        self.entered = False
        self.collected: list[FunctionEvent] = []

    def __enter__(self) -> profile:
        if not self.enabled:
            return self
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        self.entered = True
        self.switch(1)
        return self

    def __exit__(self, *error: object) -> None:
        if self.enabled:
            self.switch(-1)

    def switch(self, change: int) -> None:
        with _lock:
            if change > 0:
                RUNNING.append(self)
            else:
                RUNNING.remove(self)
            if len(RUNNING) == (1 if change > 0 else 0):
                if change > 0:
                    watched.observers.append(node_done)
                else:
                    watched.observers.remove(node_done)
                    OPEN.frames.clear()
            STATE.timing += change
        count(change, 0)

    @property
    def function_events(self) -> EventList:
        """The collected events, in the order in which they began."""
        return EventList(sorted(self.collected, key=lambda e: e.time_range.start))

    def key_averages(self, group_by_input_shape: bool = False, **options: Any) -> EventList:
        """One entry per name."""
        return self.function_events.key_averages(group_by_input_shape, **options)

    def total_average(self) -> FunctionEventAvg:
        return self.function_events.total_average()

    @property
    def self_cpu_time_total(self) -> float:
        return self.function_events.self_cpu_time_total

    def table(self, sort_by: str | None = None, row_limit: int = 100, **options: Any) -> str:
        """The events one by one, as text."""
        return self.function_events.table(sort_by, row_limit, **options)

    def export_chrome_trace(self, path: str | Path) -> None:
        self.function_events.export_chrome_trace(path)

    def __str__(self) -> str:
        return str(self.function_events)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return wrapped


emit_nvtx = absent_class("torch.autograd.profiler.emit_nvtx", "use torch.profiler.profile")
emit_itt = absent_class("torch.autograd.profiler.emit_itt", "use torch.profiler.profile")
