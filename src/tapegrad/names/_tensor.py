"""`torch._tensor`: the class Tensor, under the private name of its module in PyTorch."""

from __future__ import annotations

from typing import Any

from tapegrad.api.tensor import tensor


def __getattr__(name: str) -> Any:
    found = getattr(tensor, name, None) if name[:1].isupper() else None
    if found is None:
        raise AttributeError(f"module 'torch._tensor' has no attribute '{name}'")
    return found
