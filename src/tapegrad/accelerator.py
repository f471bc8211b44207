"""Questions about accelerators; there is none."""

from __future__ import annotations

from typing import Any

__all__ = ["current_accelerator", "device_count", "is_available", "synchronize"]


def is_available() -> bool:
    """Whether there is a device that is faster than the CPU."""
    return False


def device_count() -> int:
    return 0


def current_accelerator(check_available: bool = False) -> Any:
    """The device, if there is one."""
    return None


def synchronize(device: Any = None) -> None:
    """Wait for the device."""
    raise RuntimeError("Cannot access accelerator device when none is available.")
