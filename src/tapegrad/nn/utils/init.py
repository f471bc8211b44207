"""Modules without initial values."""

from __future__ import annotations

import inspect
from typing import Any

from .. import init
from ..modules.module import Module

__all__ = ["skip_init"]

DRAWS = [name for name in init.__dict__ if name.endswith("_") and not name.startswith("_")]


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Module:
    """A module whose parameters have arbitrary values: nothing is drawn or filled.

    >>> nn.utils.skip_init(nn.Linear, 2, 3)
    Linear(in_features=2, out_features=3, bias=True)
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
