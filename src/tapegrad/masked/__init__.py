"""Reductions that skip masked elements: what ops/ publishes as `masked.<name>`."""

from __future__ import annotations

from ..api.publish import lazy_space

__getattr__, __dir__, __all__ = lazy_space("masked", globals())
