"""Indexing by tensors inside `vmap`, where PyTorch needs help."""

from __future__ import annotations


class TransformGetItemToIndex:
    """A block in which `x[i]` works for a batched `i`; here it always does."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass
