"""Linear algebra: the functions that ops/ publishes as `linalg.<name>`."""

from __future__ import annotations

from ..api.publish import lazy_space
from ..ops.linalg.matrices import LinAlgError

__getattr__, __dir__, __all__ = lazy_space("linalg", globals())
__all__ += ["LinAlgError"]
