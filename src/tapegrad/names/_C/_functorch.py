"""Questions of libraries about tensors inside `vmap`."""

from __future__ import annotations

from typing import Any

from tapegrad.core.transforms.batched import batch_of, batched, is_batched, physical_at
from tapegrad.core.transforms.levels import STACK

__all__ = [
    "get_unwrapped",
    "is_batchedtensor",
    "is_functorch_wrapped_tensor",
    "is_gradtrackingtensor",
    "is_legacy_batchedtensor",
    "maybe_current_level",
]


def is_batchedtensor(tensor: Any) -> bool:
    """Whether a tensor stands for a batch, inside `vmap`."""
    return is_batched(tensor)


def is_legacy_batchedtensor(tensor: Any) -> bool:
    """Whether a tensor is a batch of PyTorch's first vmap: never."""
    return False


def is_functorch_wrapped_tensor(tensor: Any) -> bool:
    """Whether a tensor stands for something inside a transform."""
    return is_batched(tensor)


def is_gradtrackingtensor(tensor: Any) -> bool:
    """Whether a tensor is wrapped to be differentiated: derivatives need no wrapper here."""
    return False


def maybe_current_level() -> int | None:
    """How many transforms are around; None if there are none."""
    return len(STACK.transforms()) or None


def _level(number: int) -> Any:
    return next(level for level in STACK.levels if level.number == number)


def _add_batch_dim(tensor: Any, batch_dim: int, level: int) -> Any:
    """A tensor whose dimension is the batch of a `vmap` that is running."""
    return batched(tensor.movedim(batch_dim, 0), _level(level))


def _remove_batch_dim(tensor: Any, level: int, batch_size: int, out_dim: int) -> Any:
    """The tensor with its batch as a dimension again."""
    physical, found = physical_at(tensor, _level(level))
    if not found:
        physical = tensor.unsqueeze(0).expand(batch_size, *tensor.shape)
    return physical.movedim(0, out_dim)


def get_unwrapped(tensor: Any) -> Any:
    """The tensor below one transform."""
    return batch_of(tensor).physical
