"""`torch._check` and `torch._assert`: what must hold, said so that tracers can see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..overrides import handle_torch_function, has_torch_function

Message = Callable[[], str] | None

IMPROVE = (
    " (Could this error message be improved? If so, please report an enhancement request to "
    "PyTorch.)"
)


def _assert(condition: Any, message: str) -> None:
    """Assert, as a function: a traced program keeps it.

    >>> torch._assert(1 < 2, "smaller")
    """
    if has_torch_function((condition,)):
        handle_torch_function(_assert, (condition,), condition, message)
        return
    assert condition, message


def _assert_async(input: Any, assert_msg: str = "") -> None:
    """Assert that a tensor of one element is not zero.

    >>> torch._assert_async(tensor(True))
    """
    if input.numel() == 0:
        raise RuntimeError("Boolean value of Tensor with no values is ambiguous")
    if input.numel() > 1:
        raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
    if not input.item():
        raise RuntimeError(assert_msg or "Expected Tensor with single nonzero value, but got zero")


def _check_with(error_type: type[Exception], cond: Any, message: Message = None) -> None:
    """Raise `error_type` unless the condition, a bool, holds."""
    from .symbolic import SymBool

    if not isinstance(cond, (bool, SymBool)):
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if cond:
        return
    if message is None:
        raise error_type("Expected cond to be True, but got False." + IMPROVE)
    if not callable(message):
        raise TypeError("message must be a callable")
    raise error_type(str(message()))


def _check(cond: Any, message: Message = None) -> None:
    """Raise a RuntimeError unless the condition holds.

    >>> torch._check(2 > 1, lambda: "two is more than one")
    """
    _check_with(RuntimeError, cond, message)


def _check_index(cond: Any, message: Message = None) -> None:
    """Raise an IndexError unless the condition holds."""
    _check_with(IndexError, cond, message)


def _check_value(cond: Any, message: Message = None) -> None:
    """Raise a ValueError unless the condition holds."""
    _check_with(ValueError, cond, message)


def _check_type(cond: Any, message: Message = None) -> None:
    """Raise a TypeError unless the condition holds."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: Any, message: Message = None) -> None:
    """Raise a NotImplementedError unless the condition holds."""
    _check_with(NotImplementedError, cond, message)


def _check_is_size(i: int, message: Message = None, *, max: int | None = None) -> None:
    """Raise a RuntimeError unless a number is a size."""
    _check_with(RuntimeError, i >= 0, message)
    if max is not None:
        _check_with(RuntimeError, i <= max, message)


def _check_tensor_all_with(error_type: type[Exception], cond: Any, message: Message = None) -> None:
    """Raise `error_type` unless every element of a boolean tensor is true."""
    from .tensor.tensor import Tensor

    if not isinstance(cond, Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if str(cond.dtype) != "torch.bool":
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    _check_with(error_type, bool(cond.all()), message)


def _check_tensor_all(cond: Any, message: Message = None) -> None:
    """Raise a RuntimeError unless every element of a boolean tensor is true."""
    _check_tensor_all_with(RuntimeError, cond, message)
