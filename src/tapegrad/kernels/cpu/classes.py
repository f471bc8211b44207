"""Compiled classes whose Python subclasses can be collected: see c/kernels/classes.c."""

from __future__ import annotations

import sys
from typing import Any

from ...core import modes
from ...core.base import Node
from ...core.casting import AutocastBlock
from ...core.operators import Operators
from . import KERNELS

COMPILED_BASES: tuple[Any, ...] = (
    *(Operators, Node, AutocastBlock, modes.AnomalyBlock, modes.BudgetBlock, modes.GradBlock),
    *(modes.InferenceBlock, modes.OpModeBlock, modes.SavedHooksBlock, modes.SetGradBlock),
    *(modes.ThreadsBlock, modes.WatchingBlock, modes.switched),
)


def keeps_class(base: Any) -> bool:
    """Whether an instance of a Python subclass leaves a reference to its class behind."""
    probe: Any = type("Probe", (base,), {})
    before = sys.getrefcount(probe)
    base.__new__(probe)
    return sys.getrefcount(probe) > before


def release_classes() -> None:
    """Let the instances of Python subclasses release their classes, where they do not."""
    for base in COMPILED_BASES:
        if KERNELS is not None and keeps_class(base):
            KERNELS.release_class(base)
