"""`scheduler.step` while a call is recorded: recorded as one step, which is called again."""

from __future__ import annotations

import functools
from typing import Any


class CaughtStep(functools.partial[Any]):
    """Replaces `scheduler.step` during a recording; its last argument is the method it replaces."""

    def own(self, owner: Any) -> Any:
        """The `step` among a scheduler's own attributes; None if its class has it."""
        found = self.args[0]
        of_class = getattr(found, "__func__", None) is getattr(type(owner), "step", None)
        return None if of_class else found
