"""Memory of GPUs and for GPUs: how much is in use, its peaks, and pinned memory of the host."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Any

import numpy as np

from ..core import devices
from ..core.locks import new_lock
from ..core.strides import empty_like
from . import allocator, runtime


class OutOfMemoryError(RuntimeError):
    """The GPU has no memory left."""

    __module__ = "torch"


def explained(error: MemoryError) -> Exception:
    """PyTorch's error for CuPy's; others as they are."""
    if type(error).__name__ != "OutOfMemoryError":
        return error
    free, total = mem_get_info()
    used, held = pool_of(runtime.index_of(None))
    return OutOfMemoryError(
        f"CUDA out of memory. GPU {runtime.index_of(None)} has a total capacity of "
        f"{total / 2**30:.2f} GiB of which {free / 2**30:.2f} GiB is free.\n  tensors take "
        f"{used / 2**30:.2f} GiB, the pool keeps {(held - used) / 2**30:.2f} GiB for later "
        f"(torch.cuda.empty_cache() gives that back)\n  {error}"
    )


class Peaks:
    """The most bytes in use on each GPU since somebody first asked, or since the last reset.

    Counting costs a call for every allocation, so it starts with the first question.
    """

    used: dict[int, int] = {}
    most: dict[int, int] = {}
    most_reserved: dict[int, int] = {}
    waiting: deque[tuple[int, int]] = deque()  # allocations that are not added yet
    lock = new_lock()


def watch() -> None:
    """Count allocations from now on."""
    runtime.start()
    allocator.Shelves.counting = count


def count(place: int, size: int) -> None:
    """Add an allocation, or one that ended.

    The garbage collector may free arrays, and so call this again, in the middle of it: who cannot
    have the lock leaves the addition to its holder, who may be the same thread.
    """
    Peaks.waiting.append((place, size))
    if not Peaks.lock.acquire(blocking=False):
        return
    try:
        while Peaks.waiting:
            place, size = Peaks.waiting.popleft()
            used = Peaks.used[place] = Peaks.used.get(place, 0) + size
            if used > Peaks.most.get(place, 0):
                Peaks.most[place] = used
    finally:
        Peaks.lock.release()


def pool_of(place: int) -> tuple[int, int]:
    """Bytes in use and bytes held by the pool of a GPU."""
    xp = runtime.start()
    with xp.cuda.Device(place):
        pool = xp.get_default_memory_pool()
        return int(pool.used_bytes()) - allocator.idle(place), int(pool.total_bytes())


def place_asked(device: Any) -> int | None:
    """The GPU that a question is about; None if none is in use, and so none has memory."""
    return None if devices.DEVICE.xp is None else runtime.index_of(device)


def memory_allocated(device: Any = None) -> int:
    """Bytes that tensors take on a GPU."""
    place = place_asked(device)
    return 0 if place is None else pool_of(place)[0]


def memory_reserved(device: Any = None) -> int:
    """Bytes that the pool holds: of tensors, and for the next ones."""
    place = place_asked(device)
    return 0 if place is None else pool_of(place)[1]


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that tensors took since the last `reset_peak_memory_stats`.

    Before the first question nothing was counted: then it is all that the pool holds, which was
    enough for everything so far.
    """
    place = place_asked(device)
    if place is None:
        return 0
    used, total = pool_of(place)
    if place not in Peaks.most:
        watch()
        Peaks.used[place], Peaks.most[place] = used, total
    Peaks.most[place] = max(Peaks.most[place], used)
    return Peaks.most[place]


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes that the pool was seen to hold since the last `reset_peak_memory_stats`."""
    place = place_asked(device)
    if place is None:
        return 0
    total = pool_of(place)[1]
    Peaks.most_reserved[place] = max(Peaks.most_reserved.get(place, 0), total)
    return Peaks.most_reserved[place]


memory_cached = memory_reserved
max_memory_cached = max_memory_reserved


def reset_peak_memory_stats(device: Any = None) -> None:
    """Let the maxima start again from what is in use now."""
    place = runtime.index_of(device)
    watch()
    used, total = pool_of(place)
    Peaks.used[place] = Peaks.most[place] = used
    Peaks.most_reserved[place] = total


reset_max_memory_allocated = reset_max_memory_cached = reset_accumulated_memory_stats = (
    reset_peak_memory_stats
)


def empty_cache() -> None:
    """Give memory that the pool keeps for later back to the GPU."""
    xp = devices.DEVICE.xp
    if xp is not None:
        allocator.release()
        xp.get_default_memory_pool().free_all_blocks()
        xp.get_default_pinned_memory_pool().free_all_blocks()


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Bytes that are free on a GPU, and bytes that it has."""
    place = runtime.index_of(device)
    xp = runtime.start()
    with xp.cuda.Device(place):
        free, total = xp.cuda.runtime.memGetInfo()
    return int(free), int(total)


def memory_stats(device: Any = None) -> OrderedDict[str, Any]:
    """Statistics about the memory of a GPU, under PyTorch's names."""
    if place_asked(device) is None:
        return OrderedDict()
    facts = {
        "allocated_bytes": (memory_allocated(device), max_memory_allocated(device)),
        "active_bytes": (memory_allocated(device), max_memory_allocated(device)),
        "reserved_bytes": (memory_reserved(device), max_memory_reserved(device)),
    }
    found: OrderedDict[str, Any] = OrderedDict()
    for name, (current, peak) in sorted(facts.items()):
        found[f"{name}.all.current"] = current
        found[f"{name}.all.peak"] = peak
    return found


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """`memory_stats` as dicts in dicts."""
    nested: dict[str, Any] = {}
    for key, value in memory_stats(device).items():
        *path, last = key.split(".")
        inner = nested
        for part in path:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return nested


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """A table of the memory of a GPU."""
    place = runtime.index_of(device)
    rule = "|" + "=" * 75 + "|"
    line = "|" + "-" * 75 + "|"
    rows = [
        rule,
        f"|{f'CUDA memory summary, device ID {place}':^75}|",
        line,
        f"|{'Metric':^23}| {'Cur Usage':^23} | {'Peak Usage':^23} |",
        line,
    ]
    for name, current, peak in (
        ("Allocated memory", memory_allocated(place), max_memory_allocated(place)),
        ("GPU reserved memory", memory_reserved(place), max_memory_reserved(place)),
    ):
        rows.append(f"| {name:<22}| {size_text(current):^23} | {size_text(peak):^23} |")
    return "\n".join([*rows, rule]) + "\n"


def size_text(size: int) -> str:
    amount = float(size)
    for unit in ("B", "KiB", "MiB"):
        if amount < 10_000:
            return f"{int(amount)} {unit}"
        amount /= 1024
    return f"{int(amount)} GiB"


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Let the pool of a GPU hold at most this part of its memory."""
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    xp = runtime.start()
    with xp.cuda.Device(runtime.index_of(device)):
        xp.get_default_memory_pool().set_limit(fraction=fraction)


def get_allocator_backend() -> str:
    """The name of the allocator."""
    runtime.start()
    return "native"


# ---------------------------------------------------------------------- of the host


def pinned_array(shape: tuple[int, ...], dtype: Any) -> Any:
    """A NumPy array in memory that the GPU copies from without the processor's help."""
    xp = runtime.start()
    dtype = np.dtype(dtype)
    size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
    if not size:
        return np.empty(shape, dtype)
    memory = xp.cuda.alloc_pinned_memory(size)
    return np.frombuffer(memory, np.uint8, size).view(dtype).reshape(shape)


def pinned_copy(array: Any) -> Any:
    """A copy with the same order in memory."""
    if array.flags.c_contiguous:
        made = pinned_array(array.shape, array.dtype)
    else:
        pattern = empty_like(np, array)
        order = sorted(range(array.ndim), key=lambda d: -pattern.strides[d])
        memory = pinned_array(tuple([array.shape[d] for d in order]), array.dtype)
        made = memory.transpose(np.argsort(order).tolist())
    made[...] = array
    return made


def is_pinned_array(array: Any) -> bool:
    """Whether the memory of a NumPy array came from `pinned_array`."""
    kind = devices.DEVICE.xp.cuda.PinnedMemoryPointer
    while isinstance(array, np.ndarray):
        array = array.base
    if isinstance(array, memoryview):
        array = array.obj
    return isinstance(array, kind)
