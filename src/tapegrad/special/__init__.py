"""Special functions: what ops/ publishes as `special.<name>`."""

from __future__ import annotations

from ..api.publish import lazy_space

__getattr__, __dir__, __all__ = lazy_space("special", globals())
