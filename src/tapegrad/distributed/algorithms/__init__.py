"""Algorithms on groups: uneven inputs, and how gradients are communicated."""

from __future__ import annotations

from .join import Join, Joinable, JoinHook

__all__ = ["Join", "JoinHook", "Joinable"]
