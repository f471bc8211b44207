"""Questions to tensors, and `detach`, as functions of torch."""

from __future__ import annotations

from typing import Any

from ...core.base import TensorBase
from ...errors import must_be_tensor

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
    """Whether the dtype has negative values.

    >>> torch.is_signed(tensor([1])), torch.is_signed(tensor([1], dtype=uint8))
    (True, False)
    """
    return bool(checked("is_signed", "input", 1, input).is_signed())


def is_conj(input: Any) -> bool:
    """Whether a tensor shows conjugates of what is in its memory.

    >>> torch.is_conj(tensor([1j]).conj())
    True
    """
    return bool(checked("is_conj", "input", 1, input).is_conj())


def is_neg(input: Any) -> bool:
    """Whether a tensor shows negatives of what is in its memory.

    >>> torch.is_neg(tensor([1j]).conj().imag)
    True
    """
    return bool(checked("is_neg", "input", 1, input).is_neg())


def is_inference(input: Any) -> bool:
    """Whether a tensor was made in inference mode.

    >>> with inference_mode():
    ...     x = ones(2)
    >>> torch.is_inference(x)
    True
    """
    return bool(checked("is_inference", "input", 1, input).is_inference())


def is_same_size(input: Any, other: Any) -> bool:
    """Whether two tensors have the same shape.

    >>> zeros(2, 3).is_same_size(ones(2, 3)), zeros(2, 3).is_same_size(ones(3))
    (True, False)
    """
    a, b = checked("is_same_size", "input", 1, input), checked("is_same_size", "other", 2, other)
    return bool(a.shape == b.shape)


def is_distributed(input: Any) -> bool:
    """Always False, as in PyTorch."""
    checked("is_distributed", "input", 1, input)
    return False


def get_device(input: Any) -> int:
    """The number of the GPU that a tensor is on; -1 for the CPU.

    >>> torch.get_device(zeros(2))
    -1
    """
    return int(checked("get_device", "input", 1, input).get_device())


def detach(input: Any) -> Any:
    """A tensor with this memory and without history.

    >>> x = tensor([2.0], requires_grad=True) * 3
    >>> detach(x)
    tensor([6.])
    """
    return checked("detach", "input", 1, input).detach()


def detach_(input: Any) -> Any:
    """Cut a tensor off from its history.

    >>> x = tensor([2.0], requires_grad=True) * 3
    >>> detach_(x)
    tensor([6.])
    >>> x.requires_grad
    False
    """
    return checked("detach_", "input", 1, input).detach_()
