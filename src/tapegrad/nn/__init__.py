"""Neural networks: modules that hold parameters, the functions they compute, initial values."""

from __future__ import annotations

from . import functional, init, modules, parameter, utils
from .modules import *  # noqa: F403
from .parameter import Buffer, Parameter

__all__ = [
    *modules.__all__,
    "Buffer",
    "Parameter",
    "functional",
    "init",
    "modules",
    "parameter",
    "utils",
]
