"""The classes of results with several named parts, as `torch.return_types.max`."""

from __future__ import annotations

from typing import Any

from tapegrad.api.publish import load_everything
from tapegrad.core.named_results import RETURN_TYPES


def __getattr__(name: str) -> Any:
    if name not in RETURN_TYPES and not name.startswith("_"):
        load_everything()  # the family that has it may not have been asked for yet
    if name in RETURN_TYPES:
        return RETURN_TYPES[name]
    raise AttributeError(f"module 'torch.return_types' has no attribute '{name}'")


def __dir__() -> list[str]:
    load_everything()
    return sorted(RETURN_TYPES)
