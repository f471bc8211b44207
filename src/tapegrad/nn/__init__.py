"""Neural networks: modules that hold parameters, the functions they compute, initial values."""

from __future__ import annotations

import importlib
from typing import Any

from ..errors import no_such_name
from . import functional, grad, init, modules, parallel, parameter, utils
from ._factory import factory_kwargs
from .modules import *  # noqa: F403
from .modules.container import Container
from .parallel import DataParallel
from .parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

__all__ = [
    *modules.__all__,
    "Buffer",
    "Container",
    "DataParallel",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "factory_kwargs",
    "functional",
    "grad",
    "init",
    "modules",
    "parallel",
    "parameter",
    "utils",
]


def __getattr__(name: str) -> Any:
    if name in ("attention", "common_types", "quantized"):
        return importlib.import_module(f".{name}", __name__)
    raise no_such_name("torch.nn", name, lambda: __all__)
