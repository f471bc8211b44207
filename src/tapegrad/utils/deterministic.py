"""Whether deterministic algorithms also fill memory that nobody has written."""

from __future__ import annotations

fill_uninitialized_memory: bool = True
