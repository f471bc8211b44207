"""Neural networks: modules that hold parameters, the functions they compute, initial values."""

from __future__ import annotations

from typing import Any

from ..errors import no_such_name
from . import functional, init, modules, parallel, parameter, utils
from .modules import *  # noqa: F403
from .parallel import DataParallel
from .parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

__all__ = [
    *modules.__all__,
    "Buffer",
    "DataParallel",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "functional",
    "init",
    "modules",
    "parallel",
    "parameter",
    "utils",
]


def __getattr__(name: str) -> Any:
    raise no_such_name("torch.nn", name, lambda: __all__)
