"""What modules of accelerators answer of which there are none here."""

from __future__ import annotations

__all__ = [
    "_is_in_bad_fork",
    "device_count",
    "is_available",
    "is_bf16_supported",
    "manual_seed",
    "manual_seed_all",
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


def _is_in_bad_fork() -> bool:
    return False
