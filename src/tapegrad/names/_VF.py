"""Functions under the name that PyTorch's own Python code calls those of its C++ module by."""

from __future__ import annotations

from typing import Any

import tapegrad


def __getattr__(name: str) -> Any:
    if name == "unique_dim":  # public nowhere else
        from tapegrad.ops.reduce.sorting import unique_dim

        return unique_dim
    return getattr(tapegrad, name)
