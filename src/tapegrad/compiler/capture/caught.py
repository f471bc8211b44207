"""The step of a scheduler while a call is recorded: it is told to the recorder as a whole."""

from __future__ import annotations

import functools
from typing import Any


class CaughtStep(functools.partial[Any]):
    """In the place of `scheduler.step`; its last argument is what was there."""

    def own(self, owner: Any) -> Any:
        """What the scheduler has as an attribute of its own; None: its class has it."""
        found = self.args[0]
        of_class = getattr(found, "__func__", None) is getattr(type(owner), "step", None)
        return None if of_class else found
