"""The older spelling of `torch.amp.autocast("cpu", ...)`."""

from __future__ import annotations

from typing import Any

import tapegrad as tg
from tapegrad import amp
from tapegrad.amp._older_names import warn_deprecated

__all__ = ["autocast"]


class autocast(amp.autocast):
    """`torch.amp.autocast` for CPU, deprecated in favour of that."""

    def __init__(
        self, enabled: bool = True, dtype: Any = tg.bfloat16, cache_enabled: bool = True
    ) -> None:
        warn_deprecated("cpu", "autocast(args...)", "autocast('cpu', args...)")
        super().__init__("cpu", dtype, enabled, cache_enabled)
