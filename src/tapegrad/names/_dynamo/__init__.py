"""Questions of libraries about PyTorch's tracer: it never runs. Its marks are identities.

Compiling is `torch.compile` (docs/compile.md), which records ops and needs none of this.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from tapegrad.compiler import allow_in_graph, assume_constant_result, disable, reset
from tapegrad.compiler import is_compiling as is_compiling
from tapegrad.nn.modules.module import Module

__all__ = [
    "OptimizedModule",
    "allow_in_graph",
    "assume_constant_result",
    "disable",
    "disallow_in_graph",
    "forbid_in_graph",
    "graph_break",
    "is_compiling",
    "mark_dynamic",
    "mark_static",
    "mark_static_address",
    "maybe_mark_dynamic",
    "optimize",
    "reset",
    "run",
]

_SUBMODULES = frozenset(("config", "eval_frame", "exc", "external_utils", "utils"))


class OptimizedModule(Module):
    """The class of PyTorch's compiled modules; there for isinstance checks."""

    _orig_mod: Module


def identity(fn: Any) -> Any:
    """The function itself."""
    return fn


disallow_in_graph = forbid_in_graph = run = identity


def graph_break(msg: str = "") -> None:
    """Where a traced graph should end; nothing is traced."""


def mark_dynamic(t: Any, index: Any, **bounds: Any) -> None:
    """Say that a size changes; a compiled function records each size that it meets."""


mark_static = mark_unbacked = maybe_mark_dynamic = mark_dynamic


def mark_static_address(t: Any, guard: bool = True) -> None:
    """Say that a tensor stays where it is."""


def optimize(*args: Any, **kwargs: Any) -> Callable[[Any], Any]:
    """The old name of `torch.compile`."""
    from tapegrad.compiler import compile

    return lambda fn: compile(fn)


def is_dynamo_supported() -> bool:
    """Whether PyTorch's tracer can run: it cannot."""
    return False


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module 'torch._dynamo' has no attribute '{name}'")
