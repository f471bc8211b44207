"""Settings of compilers that are not here: they can be written and read, and change nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any


class Settings(ModuleType):
    """A module of settings; what was not set is False."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return False

    @contextlib.contextmanager
    def patch(self, changes: Any = None, value: Any = None, /, **more: Any) -> Iterator[None]:
        """Other settings for a block."""
        given = {changes: value} if isinstance(changes, str) else dict(changes or {})
        given |= more
        before = dict(self.__dict__)
        self.__dict__.update({name.replace(".", "_"): v for name, v in given.items()})
        try:
            yield
        finally:
            self.__dict__.clear()
            self.__dict__.update(before)
