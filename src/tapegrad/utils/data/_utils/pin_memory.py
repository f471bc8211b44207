"""Batches in memory that a GPU reads directly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tapegrad as tg

from .collate import _is_namedtuple, _like_mapping, _like_sequence


def pin_memory(data: Any, device: Any = None) -> Any:
    """Pin the tensors of a batch, also inside containers and whatever has a `pin_memory` method."""
    if isinstance(data, tg.Tensor):
        return data.pin_memory()
    if isinstance(data, (str, bytes)):
        return data
    if isinstance(data, Mapping):
        return _like_mapping(data, {key: pin_memory(item, device) for key, item in data.items()})
    if _is_namedtuple(data):
        return type(data)(*[pin_memory(item, device) for item in data])
    if isinstance(data, tuple):
        return tuple([pin_memory(item, device) for item in data])
    if isinstance(data, Sequence):
        return _like_sequence(data, [pin_memory(item, device) for item in data])
    if hasattr(data, "pin_memory"):
        return data.pin_memory()
    return data
