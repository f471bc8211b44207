"""Collectives that gradients pass through: torch.distributed.nn."""

from __future__ import annotations

from .functional import all_gather, all_reduce

__all__ = ["all_gather", "all_reduce"]
