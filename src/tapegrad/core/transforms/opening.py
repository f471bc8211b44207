"""Opening and closing the levels of transforms, for `with` blocks; compiled: see core/modes.py."""

from __future__ import annotations

from typing import Any, Final

from ..modes import MODES, set_mode, switched
from .levels import BATCHES, STACK, TANGENTS, Level

DERIVATIVES: Final = ("grad", "jvp")  # the kinds of levels that need a tape or tangents


class level_of:
    """Open a level for a `with` block."""

    def __init__(self, kind: str, size: int = 0, randomness: str = "error") -> None:
        self.kind = kind
        self.size = size
        self.randomness = randomness
        self.level: Any = None
        self.leaves_inference = False

    def __enter__(self) -> Any:
        self.level = open_level(self.kind, self.size, self.randomness)
        # Derivatives are computed in inference mode too, as in PyTorch: it is off in the block.
        if MODES.inference and self.kind in DERIVATIVES:
            self.leaves_inference = True
            set_mode("inference", False)
        return self.level

    def __exit__(self, *error: object) -> None:
        if self.leaves_inference:
            set_mode("inference", True)
        close_level(self.level)


def shown(levels: list[Any]) -> switched:
    """In a `with` block only some levels are open: code below a transform does not see it."""
    return switched(STACK, "levels", levels)


def forward_set_to(wanted: bool) -> switched:
    """Forward mode is on or off in a `with` block."""
    return switched(STACK, "forward", wanted)


def open_level(kind: str, size: int = 0, randomness: str = "error") -> Any:
    level: Any = Level(len(STACK.levels) + 1, kind, size, randomness)
    STACK.levels.append(level)
    register = shared_list(kind)
    if register is not None:
        register.append(level)
    return level


def close_level(level: Any) -> None:
    level.open = False
    STACK.levels.remove(level)
    register = shared_list(level.kind)
    if register is not None:
        register.remove(level)


def shared_list(kind: str) -> Any:
    if kind == "vmap":
        return BATCHES
    return TANGENTS if kind in ("jvp", "dual") else None
