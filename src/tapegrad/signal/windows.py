"""Window functions: what ops/ publishes as `signal.windows.<name>`."""

from __future__ import annotations

from ..api.publish import lazy_space

__getattr__, __dir__, __all__ = lazy_space("signal.windows", globals())
