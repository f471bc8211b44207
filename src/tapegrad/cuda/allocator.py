"""Memory that arrays gave back, kept by size: to take it again costs half a microsecond.

CuPy's pool cuts blocks up and joins them again on every call, which takes longer than to start a
kernel. A training loop asks for the same sizes over and over, so blocks are kept whole here, for
the stream that they were used on. What is missing comes from CuPy's pool, and goes back there when
too much lies idle or the GPU is full.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SMALL = 1 << 20
SPARE = 256 << 20  # bytes that may lie idle besides as many as are in use

Bins = dict[int, list[Any]]  # by size: the blocks of CuPy's pool that are free


class Shelves:
    """The free blocks, by GPU and stream."""

    bins: dict[tuple[int, int], Bins] = {}
    counting: Callable[[int, int], None] | None = None  # told of every block taken and given back


def rounded(size: int) -> int:
    """The size of the block for an array: 512 bytes more at most, or an eighth of a large one."""
    step = 512 if size <= SMALL else 1 << (size.bit_length() - 4)
    return (size + step - 1) & -step


def idle(place: int | None = None) -> int:
    """Bytes that lie free, of one GPU or of all."""
    total = 0
    for (device, _), bins in list(Shelves.bins.items()):
        if place is None or device == place:
            total += sum([size * len(blocks) for size, blocks in list(bins.items())])
    return total


def release() -> None:
    """Give the free blocks back to CuPy's pool."""
    for bins in list(Shelves.bins.values()):
        for blocks in list(bins.values()):
            blocks.clear()


def install(xp: Any) -> None:
    """Let CuPy ask here for memory, unless somebody has chosen an allocator for it."""
    cuda = xp.cuda
    if not hasattr(cuda, "get_allocator"):
        return
    pool = xp.get_default_memory_pool()
    if cuda.get_allocator() == pool.malloc:
        release()
        Shelves.bins.clear()
        cuda.set_allocator(allocator(cuda, pool))


def allocator(cuda: Any, pool: Any) -> Callable[[int], Any]:
    """The function that CuPy calls for memory."""
    memory = cuda.memory
    pointer, full = memory.MemoryPointer, memory.OutOfMemoryError
    device_now, stream_now = cuda.runtime.getDevice, cuda.get_current_stream
    books = Shelves  # of our own: arrays may outlive the names of this module when Python ends
    shelves = books.bins
    # The doctor refers to memory weakly.
    weakly = () if memory.BaseMemory.__weakrefoffset__ else ("__weakref__",)

    class Block(memory.BaseMemory):  # type: ignore[misc]
        """Memory in use; when the last array on it is gone, the shelf has it back."""

        __slots__ = ("asked", "shelf", "source", *weakly)

        def __del__(self) -> None:
            self.shelf.append(self.source)
            if books.counting is not None:
                books.counting(self.device_id, -self.size)

    def fresh(size: int, device: int) -> Any:
        lying = idle(device)
        if lying > SPARE + pool.used_bytes() - lying:
            release()
        try:
            return pool.malloc(size).mem
        except full:
            release()
            pool.free_all_blocks()
            return pool.malloc(size).mem

    def malloc(asked: int) -> Any:
        if not asked:
            return pool.malloc(0)
        size = asked + 511 & -512 if asked <= SMALL else rounded(asked)
        device = device_now()
        key = (device, stream_now().ptr)
        bins = shelves.get(key)
        if bins is None:
            bins = shelves.setdefault(key, {})
        shelf = bins.get(size)
        if shelf is None:
            shelf = bins.setdefault(size, [])
        try:
            source = shelf.pop()
        except IndexError:
            source = fresh(size, device)
        block = Block()
        block.ptr, block.size, block.device_id = source.ptr, size, device
        block.asked, block.shelf, block.source = asked, shelf, source
        if books.counting is not None:
            books.counting(device, size)
        return pointer(block, 0)

    return malloc
