"""Warnings that name the user's line, and those that PyTorch gives once per process."""

from __future__ import annotations

import sys
import warnings

from .base import user_frame
from .thread_modes import ACTIVE, Unrepeated


class Warned:
    """Warnings that PyTorch gives once per process."""

    said: set[str] = set()
    always: bool = False


def warn(text: str | Warning, category: type[Warning] | None = None) -> None:
    """`warnings.warn` at the innermost line outside of this package, however deep the call is."""
    # The user's filters decide each time whether it is shown: a replay may not leave it out.
    for mode in ACTIVE.modes:
        if mode.records_steps:
            mode.give_up("it gives a warning")
    give(text, category)


def warn_once(text: str) -> None:
    """A warning of PyTorch's that is not repeated, like TORCH_WARN_ONCE."""
    if Warned.always:
        warn(text)
    elif text not in Warned.said:
        Warned.said.add(text)
        give(text)


def give(text: str | Warning, category: type[Warning] | None = None) -> None:
    Unrepeated.count += 1
    level = 1
    users, frame = user_frame(1), sys._getframe()
    while frame is not users and frame.f_back is not None:
        frame = frame.f_back
        level += 1
    warnings.warn(text, category, stacklevel=level)
