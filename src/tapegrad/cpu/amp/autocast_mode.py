"""The older spelling of `torch.amp.autocast("cpu", ...)`."""

from __future__ import annotations

import warnings
from typing import Any

import tapegrad as tg

from ... import amp

__all__ = ["autocast"]


def warn_deprecated(old: str, new: str) -> None:
    warnings.warn(
        f"`torch.cpu.amp.{old}` is deprecated. Please use `torch.amp.{new}` instead.",
        FutureWarning,
        stacklevel=3,
    )


class autocast(amp.autocast):
    """`torch.amp.autocast` for CPU, deprecated in favour of that."""

    def __init__(
        self, enabled: bool = True, dtype: Any = tg.bfloat16, cache_enabled: bool = True
    ) -> None:
        warn_deprecated("autocast(args...)", "autocast('cpu', args...)")
        super().__init__("cpu", dtype, enabled, cache_enabled)
