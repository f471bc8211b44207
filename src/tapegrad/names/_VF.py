"""Functions under the name that PyTorch's own Python code calls those of its C++ module by."""

from __future__ import annotations

from typing import Any

import tapegrad


def __getattr__(name: str) -> Any:
    if name.startswith("unique_"):  # one of them is public nowhere else
        from tapegrad.ops.reduce import sorting

        return getattr(sorting, name)
    return getattr(tapegrad, name)
