"""The settings of autocast in each thread."""

from __future__ import annotations

from .. import dtypes
from .per_thread import PerThread


class State(PerThread):
    """The settings of autocast in this thread, per device type."""

    def __init__(self) -> None:
        self.enabled = {"cpu": False, "cuda": False}
        self.dtype = {"cpu": dtypes.bfloat16, "cuda": dtypes.float16}
        self.nesting = 0


STATE = State()
