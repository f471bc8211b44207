"""The tensor that users hold, and what it answers: numbers, indices, text, sizes.

Loaded by its parts, since ops need some of them before there is a Tensor.
"""

from __future__ import annotations

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    """`torch._tensor.Tensor` and its neighbours."""
    if name[:1].isupper():
        found = getattr(importlib.import_module(".tensor", __name__), name, None)
        if found is not None:
            return found
    raise AttributeError(f"module 'torch._tensor' has no attribute '{name}'")
