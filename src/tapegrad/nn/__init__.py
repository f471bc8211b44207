"""Neural networks: modules that hold parameters, the functions they compute, initial values."""

from __future__ import annotations

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
