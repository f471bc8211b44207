"""Storages: the memory behind tensors, as objects."""

from __future__ import annotations

import io
from typing import Any

from .storages import TypedStorage, UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]


def _load_from_bytes(b: bytes) -> Any:
    """What PyTorch's plain pickles call for the memory of a tensor."""
    from .serialization import load

    return load(io.BytesIO(b), weights_only=False)
