"""Answers of modules for accelerators that are not here."""

from __future__ import annotations

__all__ = [
    "_is_in_bad_fork",
    "current_allocated_memory",
    "device_count",
    "driver_allocated_memory",
    "empty_cache",
    "is_available",
    "is_bf16_supported",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "memory_allocated",
    "memory_reserved",
    "reset_peak_memory_stats",
]


def is_available() -> bool:
    """Whether one can be used: never."""
    return False


def device_count() -> int:
    """How many there are: none."""
    return 0


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether they compute in bfloat16: there are none."""
    return False


def manual_seed(seed: int) -> None:
    """Seed them, of which there are none."""


manual_seed_all = manual_seed


def empty_cache() -> None:
    """Give memory back that nothing uses: there is none."""


def memory_allocated(device: object = None) -> int:
    """The bytes in use: none."""
    return 0


max_memory_allocated = memory_reserved = memory_allocated
current_allocated_memory = driver_allocated_memory = memory_allocated


def reset_peak_memory_stats(device: object = None) -> None:
    """Forget the largest number of bytes that were in use."""


def _is_in_bad_fork() -> bool:
    return False
