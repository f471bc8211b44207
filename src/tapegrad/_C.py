"""The few names that programs take from PyTorch's C++ module."""

from __future__ import annotations

from typing import Any

from ._random.generators import Generator
from .core.subclass import DisableTorchFunctionSubclass

__all__ = ["DisableTorchFunctionSubclass", "Generator"]


def _get_tracing_state() -> None:
    """What is being traced: nothing, ever."""


def _log_api_usage_once(event: str, *facts: Any) -> None:
    """Tell PyTorch's makers that something is used; nobody is told here."""


def __getattr__(name: str) -> Any:
    if name == "_nn":  # softplus, gelu and others, which are functions of nn.functional
        from .nn import functional

        return functional
    raise AttributeError(f"module 'torch._C' has no attribute '{name}'")
