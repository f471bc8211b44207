"""The few names that programs take from PyTorch's C++ module."""

from __future__ import annotations

from typing import Any

from ._library.schema import Argument, FunctionSchema, parse_schema
from ._random.generators import Generator
from .core.python_dispatch import below_classes as _DisableTorchDispatch
from .core.python_dispatch import disabled_torch_dispatch as _disabled_torch_dispatch_impl
from .core.subclass import DisableTorchFunctionSubclass
from .core.subclass import disabled_torch_function as _disabled_torch_function_impl
from .core.watchers import DisableTorchFunction

__all__ = [
    "Argument",
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "FunctionSchema",
    "Generator",
    "_DisableTorchDispatch",
    "_disabled_torch_dispatch_impl",
    "_disabled_torch_function_impl",
    "parse_schema",
]


def _get_tracing_state() -> None:
    """What is being traced: nothing, ever."""


def _log_api_usage_once(event: str, *facts: Any) -> None:
    """Tell PyTorch's makers that something is used; nobody is told here."""


def __getattr__(name: str) -> Any:
    if name == "_nn":  # softplus, gelu and others, which are functions of nn.functional
        from .nn import functional

        return functional
    raise AttributeError(f"module 'torch._C' has no attribute '{name}'")
