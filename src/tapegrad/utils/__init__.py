"""The modules and functions of `torch.utils`."""

from __future__ import annotations

import importlib
from typing import Any

from . import hooks
from .swapping import set_module, swap_tensors

__all__ = ["hooks", "set_module", "swap_tensors"]

_LAZY = frozenset(
    "_contextlib _device _foreach_utils _python_dispatch _pytree backcompat benchmark checkpoint "
    "collect_env cpp_extension data deterministic dlpack flop_counter mkldnn model_zoo "
    "module_tracker tensorboard weak".split()
)


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
