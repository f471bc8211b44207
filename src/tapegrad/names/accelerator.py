"""Questions about the accelerator: a GPU by way of CuPy, or none."""

from __future__ import annotations

from typing import Any

from tapegrad import cuda
from tapegrad.cuda import runtime
from tapegrad.device import device as device_type

__all__ = [
    "current_accelerator",
    "current_device_idx",
    "current_device_index",
    "current_stream",
    "device_count",
    "device_index",
    "empty_cache",
    "get_device_capability",
    "get_memory_info",
    "is_available",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "set_device_idx",
    "set_device_index",
    "set_stream",
    "synchronize",
]


def is_available() -> bool:
    """Whether there is a device that is faster than the CPU."""
    return cuda.is_available()


def device_count() -> int:
    """How many devices there are."""
    return cuda.device_count()


def current_accelerator(check_available: bool = False) -> Any:
    """The kind of device, if there is one."""
    return device_type("cuda") if is_available() else None


def needed() -> Any:
    """The functions of the accelerator; PyTorch's error where there is none."""
    if not runtime.look():
        raise RuntimeError("Cannot access accelerator device when none is available.")
    return cuda


def current_device_index() -> int:
    """The number of the current device."""
    return int(needed().current_device())


current_device_idx = current_device_index


def set_device_index(device: Any, /) -> None:
    """Make a device the current one."""
    needed().set_device(device)


set_device_idx = set_device_index


class device_index:
    """A block with another current device; None changes nothing."""

    def __init__(self, device: int | None, /) -> None:
        self.inner = None if device is None else needed().device(device)

    def __enter__(self) -> None:
        if self.inner is not None:
            self.inner.__enter__()

    def __exit__(self, *error: object) -> None:
        if self.inner is not None:
            self.inner.__exit__(*error)


def current_stream(device: Any = None, /) -> Any:
    """The stream that work goes into now."""
    return needed().current_stream(device)


def set_stream(stream: Any) -> None:
    """Put the work to come into a stream."""
    needed().set_stream(stream)


def synchronize(device: Any = None, /) -> None:
    """Wait for the device."""
    needed().synchronize(device)


def get_device_capability(device: Any = None, /) -> dict[str, Any]:
    """The dtypes that the device can compute with."""
    import tapegrad as tg

    needed()
    names = (
        "uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128 bool"
    )
    return {"supported_dtypes": {getattr(tg, name) for name in names.split()}}


def memory_allocated(device_index: Any = None, /) -> int:
    """Bytes that tensors take on the device."""
    return int(needed().memory_allocated(device_index))


def max_memory_allocated(device_index: Any = None, /) -> int:
    """The most that tensors took."""
    return int(needed().max_memory_allocated(device_index))


def memory_reserved(device_index: Any = None, /) -> int:
    """Bytes that are taken from the device, in use or kept for later."""
    return int(needed().memory_reserved(device_index))


def max_memory_reserved(device_index: Any = None, /) -> int:
    """The most that was taken from the device."""
    return int(needed().max_memory_reserved(device_index))


def memory_stats(device_index: Any = None, /) -> Any:
    """All numbers about memory, by name."""
    return needed().memory_stats(device_index)


def get_memory_info(device_index: Any = None, /) -> tuple[int, int]:
    """Bytes that are free, and bytes that there are."""
    found: tuple[int, int] = needed().mem_get_info(device_index)
    return found


def reset_peak_memory_stats(device_index: Any = None, /) -> None:
    """Begin the search for the most anew."""
    needed().reset_peak_memory_stats(device_index)


reset_accumulated_memory_stats = reset_peak_memory_stats


def empty_cache() -> None:
    """Give memory that is kept for later back to the device."""
    needed().empty_cache()
