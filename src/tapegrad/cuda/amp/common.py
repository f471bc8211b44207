"""Whether mixed precision on a GPU can be had at all."""

from __future__ import annotations

from .. import runtime

__all__ = ["amp_definitely_not_available"]


def amp_definitely_not_available() -> bool:
    return not runtime.look()
