"""Functions under the name that PyTorch's own Python code calls those of its C++ module by."""

from __future__ import annotations

from typing import Any

import tapegrad


def __getattr__(name: str) -> Any:
    return getattr(tapegrad, name)
