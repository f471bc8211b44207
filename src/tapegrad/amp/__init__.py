"""Mixed precision: autocast, and the scaling of losses that goes with half precision."""

from __future__ import annotations

import importlib
from typing import Any

# The core needs `casting` early, before the rest can be loaded.
_HOMES = {
    "GradScaler": "grad_scaler",
    "autocast": "autocast_mode",
    "custom_bwd": "autocast_mode",
    "custom_fwd": "autocast_mode",
    "is_autocast_available": "autocast_mode",
    "_enter_autocast": "autocast_mode",
    "_exit_autocast": "autocast_mode",
}

__all__ = [name for name in _HOMES if not name.startswith("_")]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    if name in _HOMES.values():
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module 'torch.amp' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_HOMES.values()})
