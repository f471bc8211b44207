"""The functions of `torch.cuda` for the CPU: there is one, and it is always ready."""

from __future__ import annotations

import contextlib
import importlib
import platform
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "current_device",
    "current_stream",
    "device_count",
    "get_capabilities",
    "is_available",
    "is_initialized",
    "set_device",
    "stream",
    "synchronize",
]


def __getattr__(name: str) -> Any:
    if name == "amp":
        return importlib.import_module(".amp", __name__)
    raise AttributeError(f"module 'torch.cpu' has no attribute '{name}'")


class Stream:
    """A queue of work; on the CPU there is nothing to queue."""

    def __init__(self, priority: int = -1) -> None:
        self.priority = priority

    def wait_stream(self, stream: Stream) -> None:
        """Wait for another queue."""

    def record_event(self) -> None:
        """Mark the end of what has been queued."""

    def wait_event(self, event: Event) -> None:
        """Wait for a marker."""


class Event:
    """A marker in a queue: always reached."""

    def query(self) -> bool:
        return True

    def record(self, stream: Stream | None = None) -> None:
        """Put the marker at the end of the queue."""

    def synchronize(self) -> None:
        """Wait until the marker is reached."""

    def wait(self, stream: Stream | None = None) -> None:
        """Let a queue wait for the marker."""


_DEFAULT = Stream()
_current = _DEFAULT


def is_available() -> bool:
    """Whether there is a CPU."""
    return True


def is_initialized() -> bool:
    """Whether the CPU is ready: always."""
    return True


def synchronize(device: Any = None) -> None:
    """Wait for the CPU, which is done by the time anybody asks."""


def current_stream(device: Any = None) -> Stream:
    """The queue that work goes into."""
    return _current


class StreamContext(contextlib.AbstractContextManager[None]):
    """Makes a queue the current one."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream
        self.prev_stream = _DEFAULT

    def __enter__(self) -> None:
        global _current
        if self.stream is not None:
            self.prev_stream, _current = _current, self.stream

    def __exit__(self, *error: object) -> None:
        global _current
        if self.stream is not None:
            _current = self.prev_stream


def stream(stream: Stream) -> StreamContext:
    """A block with another current queue."""
    return StreamContext(stream)


def device_count() -> int:
    """How many CPUs there are to choose among: one."""
    return 1


def set_device(device: Any) -> None:
    """Choose among the CPUs, of which there is one."""


def current_device() -> str:
    """The name of the only one."""
    return "cpu"


def get_capabilities() -> Mapping[str, Any]:
    """Capabilities of the processor."""
    return MappingProxyType({"architecture": platform.machine()})
