"""Whether deterministic algorithms also fill memory that nobody has written."""

from __future__ import annotations

import sys
import types

from ..core.settings import Settings

fill_uninitialized_memory: bool


class Switch(types.ModuleType):
    """This module; its one name is a property, because `empty` reads what was set."""

    @property
    def fill_uninitialized_memory(self) -> bool:
        return Settings.fill_uninitialized_memory

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise RuntimeError(f"expected a bool, but got {type(mode).__name__}")
        Settings.fill_uninitialized_memory = mode


sys.modules[__name__].__class__ = Switch
