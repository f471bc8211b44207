"""The part `cupy.cuda` of the stand-in: devices, streams, events and pools that do nothing."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import types
from typing import Any

import stand_in_graphs

NUMBERS = itertools.count(16, 16)


class Device:
    def __init__(self, index: int = 0) -> None:
        self.id = index

    def use(self) -> None:
        pass

    def synchronize(self) -> None:
        pass

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    @property
    def mem_info(self) -> tuple[int, int]:
        return 1 << 30, 1 << 31

    compute_capability = "90"


class Stream:
    null: Any = None
    current: Any = None
    done = True

    def __init__(
        self,
        null: bool = False,
        non_blocking: bool = False,
        ptds: bool = False,
        priority: int | None = None,
    ) -> None:
        self.ptr = 0 if null else next(NUMBERS)
        self.priority = priority or 0

    @classmethod
    def from_external(cls, other: Any) -> Stream:
        made = cls()
        made.ptr = other.__cuda_stream__()[1]
        return made

    def synchronize(self) -> None:
        pass

    def use(self) -> Stream:
        Stream.current = self
        return self

    def __enter__(self) -> Stream:
        return self.use()

    def __exit__(self, *error: object) -> None:
        Stream.current = Stream.null

    def record(self, event: Any = None) -> Any:
        return event or Event()

    def wait_event(self, event: Any) -> None:
        assert isinstance(event, Event)

    def is_capturing(self) -> bool:
        return stand_in_graphs.Recorder.current is not None

    def begin_capture(self, mode: int = 2) -> None:
        assert not self.is_capturing() and self.ptr
        stand_in_graphs.Recorder.current = stand_in_graphs.Recorder()

    def end_capture(self) -> Any:
        recorder, stand_in_graphs.Recorder.current = stand_in_graphs.Recorder.current, None
        return recorder.end()


Stream.null = Stream.current = Stream(null=True)


class Event:
    done = True

    def __init__(
        self, block: bool = False, disable_timing: bool = False, interprocess: bool = False
    ) -> None:
        self.ptr = next(NUMBERS)

    def record(self, stream: Any = None) -> None:
        assert stream is None or isinstance(stream, Stream)

    def synchronize(self) -> None:
        pass


class MemoryPool:
    used = 0

    def malloc(self, size: int) -> Any:
        raise AssertionError("memory comes from NumPy here")

    def used_bytes(self) -> int:
        return self.used

    def total_bytes(self) -> int:
        return max(self.used, 1 << 20)

    def free_all_blocks(self) -> None:
        pass

    def set_limit(self, size: Any = None, fraction: Any = None) -> None:
        pass


POOL = MemoryPool()


def memory_copy(target: int, source: int, size: int, kind: int, stream: int = 0) -> None:
    stand_in_graphs.refuse()
    ctypes.memmove(target, source, size)


class PinnedMemoryPointer(bytearray):
    """Memory of the host, as NumPy's buffers want it."""


cuda = types.SimpleNamespace(
    Device=Device,
    Stream=Stream,
    Event=Event,
    MemoryPool=MemoryPool,
    PinnedMemoryPointer=PinnedMemoryPointer,
    alloc_pinned_memory=PinnedMemoryPointer,
    get_current_stream=lambda: Stream.current,
    get_elapsed_time=lambda a, b: 0.0,
    get_cublas_handle=lambda: 1,
    is_available=lambda: True,
    using_allocator=lambda allocator: contextlib.nullcontext(),
    runtime=types.SimpleNamespace(
        getDeviceCount=lambda: 1,
        getDevice=lambda: 0,
        setDevice=lambda index: None,
        deviceSynchronize=lambda: None,
        memcpyAsync=memory_copy,
        deviceCanAccessPeer=lambda a, b: 0,
        memGetInfo=lambda: (1 << 30, 1 << 31),
        getDeviceProperties=lambda index: {
            "name": b"stand-in",
            "major": 9,
            "minor": 0,
            "totalGlobalMem": 1 << 31,
            # As many threads as the GPU has whose numbers are in golden/cuda_draws.npz.
            "multiProcessorCount": 132,
            "maxThreadsPerMultiProcessor": 2048,
        },
    ),
)
