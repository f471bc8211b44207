"""Streams and events: CuPy's, under PyTorch's names."""

from __future__ import annotations

from typing import Any

from ..core.devices import DEVICE
from ..device import device as device_type
from ..ops.creation.arguments import no_cuda
from . import runtime


class Stream:
    """A queue of work on a GPU.

    Work of one stream runs in order; of two streams, in any order or at once.
    """

    inner: Any
    device: device_type

    def __new__(cls, device: Any = None, priority: int = 0, **kwargs: Any) -> Stream:
        if not runtime.look():
            raise no_cuda("torch.cuda.Stream requires CUDA support", RuntimeError)
        xp = runtime.start()
        place = runtime.index_of(device)
        with xp.cuda.Device(place):
            given = kwargs.get("stream_ptr")
            if given is not None:
                return around(xp.cuda.Stream.from_external(Foreign(given)), place)
            return around(xp.cuda.Stream(non_blocking=True, priority=priority), place)

    @property
    def cuda_stream(self) -> int:
        """The number by which CUDA knows it; 0 for the default stream."""
        return int(self.inner.ptr)

    @property
    def device_index(self) -> int:
        return self.device.index or 0

    @property
    def priority(self) -> int:
        return int(getattr(self.inner, "priority", 0))

    def query(self) -> bool:
        """Whether all its work is done."""
        return bool(self.inner.done)

    def synchronize(self) -> None:
        """Wait until all its work is done."""
        self.inner.synchronize()
        DEVICE.waited()

    def record_event(self, event: Any = None) -> Event:
        """Put a marker behind the work so far."""
        marker = Event() if event is None else event
        marker.record(self)
        return marker  # type: ignore[no-any-return]

    def wait_event(self, event: Event) -> None:
        """Let the work to come wait for an event."""
        if event.inner is not None:
            self.inner.wait_event(event.inner)

    def wait_stream(self, stream: Stream) -> None:
        """Let the work to come wait for all the work of another stream so far."""
        self.wait_event(stream.record_event())

    def __enter__(self) -> Stream:
        entered = StreamContext(self)
        entered.__enter__()
        self.__dict__.setdefault("contexts", []).append(entered)
        return self

    def __exit__(self, *error: object) -> None:
        self.__dict__["contexts"].pop().__exit__(*error)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stream):
            return NotImplemented
        return self.cuda_stream == other.cuda_stream and self.device == other.device

    def __hash__(self) -> int:
        return hash((self.cuda_stream, self.device))

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


class Foreign:
    """A stream by its number, as the protocol for handing streams over wants it."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.number


class ExternalStream(Stream):
    """A stream that another library made, by its number."""

    def __new__(cls, stream_ptr: int, device: Any = None, **kwargs: Any) -> Stream:  # type: ignore[misc]
        return Stream.__new__(Stream, device, stream_ptr=stream_ptr)


def around(inner: Any, place: int) -> Stream:
    """A Stream around one of CuPy's."""
    made = object.__new__(Stream)
    made.inner = inner
    made.device = runtime.device_at(place)
    return made


class Event:
    """A marker in a stream: to wait for, or to measure the time between two of."""

    inner: Any

    def __new__(
        cls,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        external: bool = False,
    ) -> Event:
        if not runtime.look():
            raise no_cuda("Tried to instantiate dummy base class Event", RuntimeError)
        made = object.__new__(cls)
        made.inner = None  # made by the first `record`, on its device
        made.options = (bool(blocking), not enable_timing, bool(interprocess))
        return made

    options: tuple[bool, bool, bool]

    def record(self, stream: Stream | None = None) -> None:
        """Stand behind the work of a stream so far."""
        found = current_stream() if stream is None else stream
        xp = runtime.start()
        with xp.cuda.Device(found.device_index):
            if self.inner is None:
                self.inner = xp.cuda.Event(*self.options)
            self.inner.record(found.inner)

    def wait(self, stream: Stream | None = None) -> None:
        """Let the work of a stream to come wait for this."""
        (current_stream() if stream is None else stream).wait_event(self)

    def query(self) -> bool:
        """Whether the work before it is done."""
        return self.inner is None or bool(self.inner.done)

    def synchronize(self) -> None:
        """Wait until the work before it is done."""
        if self.inner is not None:
            self.inner.synchronize()
            DEVICE.waited()

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this to another event."""
        if self.options[1] or end_event.options[1]:
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self.inner is None or end_event.inner is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        if not (self.query() and end_event.query()):
            raise RuntimeError("Both events must be completed before calculating elapsed time.")
        return float(runtime.start().cuda.get_elapsed_time(self.inner, end_event.inner))

    @property
    def cuda_event(self) -> int:
        return 0 if self.inner is None else int(self.inner.ptr)

    def __repr__(self) -> str:
        if self.inner is None:
            return "<torch.cuda.Event uninitialized>"
        return f"<torch.cuda.Event {self.cuda_event:#x}>"


class StreamContext:
    """`with cuda.stream(s):` puts the work of the block into a stream; None changes nothing."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is None:
            return
        if not runtime.look():
            raise no_cuda()
        xp = runtime.start()
        self.device = xp.cuda.Device(self.stream.device_index)
        self.device.__enter__()
        self.before = xp.cuda.get_current_stream()
        self.stream.inner.use()

    def __exit__(self, *error: object) -> None:
        if self.stream is not None:
            self.before.use()
            self.device.__exit__(*error)


def stream(stream: Any) -> StreamContext:
    """A block whose work goes into a stream."""
    return StreamContext(stream)


def set_stream(stream: Any) -> None:
    """Put the work to come into a stream; None changes nothing."""
    if stream is not None:
        runtime.start().cuda.Device(stream.device_index).use()
        stream.inner.use()


def current_stream(device: Any = None) -> Stream:
    """The stream that work goes into now."""
    xp = runtime.start()
    place = runtime.index_of(device)
    with xp.cuda.Device(place):
        return around(xp.cuda.get_current_stream(), place)


def default_stream(device: Any = None) -> Stream:
    """The stream that work goes into if no other was chosen."""
    xp = runtime.start()
    return around(xp.cuda.Stream.null, runtime.index_of(device))


def get_stream_from_external(data_ptr: int, device: Any = None) -> Stream:
    """A stream that another library made, by its number."""
    return ExternalStream(data_ptr, device)


HELD: list[tuple[Any, Any]] = []


def hold(array: Any, stream: Stream) -> None:
    """Keep memory until the work of a stream so far is done: the pool gives it out again else."""
    if not isinstance(stream, Stream):
        raise TypeError(f"expected a torch.cuda.Stream, but got {type(stream).__name__}")
    HELD[:] = [pair for pair in HELD if not pair[0].query()]
    HELD.append((stream.record_event(), array))
