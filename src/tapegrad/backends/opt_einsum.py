"""The library opt_einsum: not used; einsum contracts from left to right."""

from __future__ import annotations

from typing import Any

enabled = False
strategy: str | None = None


def is_available() -> bool:
    return False


def get_opt_einsum() -> Any:
    return None
