"""The public functions of the package, for ops made of others; api/publish.py hands them down.

`public.where(...)` is `tapegrad.where(...)` as users call it; nothing is looked up before a call.
"""

from __future__ import annotations

from typing import Any


class Public:
    """The package as users see it; `package` is filled when it publishes its names."""

    package: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.package, name)


public = Public()
