"""Modules without initial values."""

from __future__ import annotations

import inspect
from typing import Any

import tapegrad as tg

from ..modules.module import Module

__all__ = ["skip_init"]


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Module:
    """A module whose parameters are not initialised: their values mean nothing, and the random
    generator stays where it is.

    >>> nn.utils.skip_init(nn.Linear, 2, 3)
    Linear(in_features=2, out_features=3, bias=True)
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    state = tg.get_rng_state()
    try:
        return module_cls(*args, **kwargs)
    finally:
        tg.set_rng_state(state)
