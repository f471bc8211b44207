"""The allocator, on a pool that only counts: what is kept, for whom, and what happens when full."""

from __future__ import annotations

import gc
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from tapegrad.cuda import allocator

MIB = 1 << 20


class OutOfMemoryError(MemoryError):
    """What CuPy raises."""


class BaseMemory:
    """As CuPy's: an address, a size and a device."""

    ptr = size = device_id = 0


class MemoryPointer:
    """As CuPy's, without an offset."""

    def __init__(self, mem: Any, offset: int) -> None:
        self.mem = mem


class Pool:
    """Hands out numbers for addresses; has `room` bytes."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.used = self.calls = self.freed = 0

    def malloc(self, size: int) -> MemoryPointer:
        if self.used + size > self.room:
            raise OutOfMemoryError
        self.used += size
        self.calls += 1
        mem = Taken()
        mem.ptr, mem.size, mem.pool = self.calls, size, self
        return MemoryPointer(mem, 0)

    def used_bytes(self) -> int:
        return self.used

    def free_all_blocks(self) -> None:
        self.freed += 1


class Taken(BaseMemory):
    """A block of the pool."""

    pool: Pool

    def __del__(self) -> None:
        self.pool.used -= self.size


class Gpu:
    """The part of `cupy.cuda` that the allocator asks."""

    def __init__(self) -> None:
        self.device = self.stream = 0
        self.runtime = SimpleNamespace(getDevice=lambda: self.device)
        self.memory = SimpleNamespace(
            BaseMemory=BaseMemory, MemoryPointer=MemoryPointer, OutOfMemoryError=OutOfMemoryError
        )

    def get_current_stream(self) -> Any:
        return SimpleNamespace(ptr=self.stream)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    monkeypatch.setattr(allocator.Shelves, "bins", {})
    monkeypatch.setattr(allocator.Shelves, "counting", None)
    return Gpu()


@pytest.mark.parametrize(
    ("size", "block"),
    [(1, 512), (512, 512), (513, 1024), (MIB, MIB), (MIB + 1, MIB + MIB // 8), (9 * MIB, 9 * MIB)],
)
def test_sizes(size: int, block: int) -> None:
    assert allocator.rounded(size) == block


def test_large_sizes_waste_an_eighth_at_most() -> None:
    for size in range(MIB + 1, 40 * MIB, 777_777):
        assert size <= allocator.rounded(size) <= size * 9 / 8


def test_a_block_is_used_again(gpu: Gpu) -> None:
    pool = Pool(100 * MIB)
    malloc = allocator.allocator(gpu, pool)
    first = malloc(1000)
    address = first.mem.ptr
    other = malloc(1000)
    assert other.mem.ptr != address  # the first is in use
    del first
    assert allocator.idle() == 1024
    again = malloc(700)
    assert again.mem.ptr == address and pool.calls == 2
    assert allocator.idle() == 0


def test_streams_and_devices_have_their_own(gpu: Gpu) -> None:
    pool = Pool(100 * MIB)
    malloc = allocator.allocator(gpu, pool)
    address = malloc(512).mem.ptr
    gpu.stream = 7
    assert malloc(512).mem.ptr != address
    gpu.stream, gpu.device = 0, 1
    assert malloc(512).mem.ptr != address
    assert allocator.idle(0) == 1024 and allocator.idle(1) == 512
    gpu.device = 0
    assert malloc(512).mem.ptr == address


def test_what_a_stream_used_goes_back_to_it(gpu: Gpu) -> None:
    malloc = allocator.allocator(gpu, Pool(100 * MIB))
    held = malloc(512)
    gpu.stream = 7
    address = held.mem.ptr
    del held
    assert malloc(512).mem.ptr != address


def test_release(gpu: Gpu) -> None:
    pool = Pool(100 * MIB)
    malloc = allocator.allocator(gpu, pool)
    held = malloc(512)
    malloc(4096)
    allocator.release()
    gc.collect()
    assert allocator.idle() == 0 and pool.used == 512 == held.mem.size


def test_a_full_gpu_gets_the_idle_blocks_back(gpu: Gpu) -> None:
    pool = Pool(10 * MIB)
    malloc = allocator.allocator(gpu, pool)
    malloc(6 * MIB)
    assert malloc(8 * MIB).mem.size == 8 * MIB and pool.freed == 1
    with pytest.raises(OutOfMemoryError):
        malloc(16 * MIB)


def test_not_too_much_lies_idle(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocator, "SPARE", 4 * MIB)
    pool = Pool(1000 * MIB)
    malloc = allocator.allocator(gpu, pool)
    for size in range(1, 40):
        malloc(size * MIB // 4)
        assert allocator.idle() <= 4 * MIB + size * MIB // 2
    held = malloc(100 * MIB)
    malloc(50 * MIB)
    malloc(30 * MIB)
    assert allocator.idle() >= 80 * MIB  # less than is in use
    assert held.mem.size >= 100 * MIB


def test_counting(gpu: Gpu) -> None:
    malloc = allocator.allocator(gpu, Pool(100 * MIB))
    seen: list[tuple[int, int]] = []
    allocator.Shelves.counting = lambda place, size: seen.append((place, size))
    held = malloc(600)
    del held
    malloc(600)
    assert seen == [(0, 1024), (0, -1024), (0, 1024), (0, -1024)]
    assert malloc(0).mem.size == 0


def test_somebodys_own_allocator_is_left_alone(gpu: Gpu) -> None:
    chosen: list[Any] = []
    pool = Pool(MIB)
    cuda = SimpleNamespace(
        **vars(gpu),
        get_current_stream=gpu.get_current_stream,
        get_allocator=lambda: print,
        set_allocator=chosen.append,
    )
    allocator.install(SimpleNamespace(cuda=cuda, get_default_memory_pool=lambda: pool))
    assert not chosen
    cuda.get_allocator = lambda: pool.malloc
    allocator.install(SimpleNamespace(cuda=cuda, get_default_memory_pool=lambda: pool))
    assert chosen[0](10).mem.size == 512


def test_arrays_may_outlive_the_names_of_the_module(
    gpu: Gpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = allocator.allocator(gpu, Pool(100 * MIB))(512)
    errors: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", errors.append)
    monkeypatch.setattr(allocator, "Shelves", None)  # as when Python ends
    del held
    gc.collect()
    assert errors == []
