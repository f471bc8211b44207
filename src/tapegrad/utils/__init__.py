"""What PyTorch keeps in `torch.utils`."""

from __future__ import annotations

import importlib
from types import ModuleType

from . import hooks
from ._swap import swap_tensors

__all__ = ["hooks", "swap_tensors"]

_LAZY = frozenset({"_pytree", "checkpoint", "data", "dlpack", "tensorboard"})


def __getattr__(name: str) -> ModuleType:
    if name in _LAZY:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
