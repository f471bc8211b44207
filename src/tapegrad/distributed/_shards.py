"""A part of a tensor that is spread over ranks: what sharded state dicts hold."""

from __future__ import annotations

from typing import Any


class FlatShard:
    """Elements `start` to `start + local.numel()` of a tensor of shape `shape`, read row by row."""

    def __init__(self, local: Any, start: int, shape: tuple[int, ...]) -> None:
        self.local, self.start, self.shape = local, start, tuple(shape)

    @property
    def dtype(self) -> Any:
        return self.local.dtype

    def numel(self) -> int:
        return int(self.local.numel())

    def __repr__(self) -> str:
        end = self.start + self.numel()
        return f"FlatShard({self.start}:{end} of {self.shape}, {self.dtype})"
