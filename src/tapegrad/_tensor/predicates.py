"""Questions to tensors, and `detach`, as functions of torch."""

from __future__ import annotations

from typing import Any

from ..core.base import TensorBase
from ..errors import must_be_tensor

__all__ = [
    "detach",
    "detach_",
    "get_device",
    "is_conj",
    "is_distributed",
    "is_inference",
    "is_neg",
    "is_same_size",
    "is_signed",
]


def checked(function: str, argument: str, position: int, value: Any) -> Any:
    if not isinstance(value, TensorBase):
        raise must_be_tensor(function, argument, position, value)
    return value


def is_signed(input: Any) -> bool:
    """Whether the dtype has negative values."""
    return bool(checked("is_signed", "input", 1, input).is_signed())


def is_conj(input: Any) -> bool:
    """Whether a tensor shows conjugates of what is in its memory."""
    return bool(checked("is_conj", "input", 1, input).is_conj())


def is_neg(input: Any) -> bool:
    """Whether a tensor shows negatives of what is in its memory."""
    return bool(checked("is_neg", "input", 1, input).is_neg())


def is_inference(input: Any) -> bool:
    """Whether a tensor was made in inference mode."""
    return bool(checked("is_inference", "input", 1, input).is_inference())


def is_same_size(input: Any, other: Any) -> bool:
    """Whether two tensors have the same shape."""
    a, b = checked("is_same_size", "input", 1, input), checked("is_same_size", "other", 2, other)
    return bool(a.shape == b.shape)


def is_distributed(input: Any) -> bool:
    checked("is_distributed", "input", 1, input)
    return False


def get_device(input: Any) -> int:
    """The number of the GPU that a tensor is on; -1 for the CPU."""
    return int(checked("get_device", "input", 1, input).get_device())


def detach(input: Any) -> Any:
    """The same memory without history."""
    return checked("detach", "input", 1, input).detach()


def detach_(input: Any) -> Any:
    """Cut a tensor off from its history."""
    return checked("detach_", "input", 1, input).detach_()
