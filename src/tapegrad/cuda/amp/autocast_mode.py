"""The older spelling of `torch.amp.autocast("cuda", ...)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tapegrad as tg

from ... import amp
from ...amp._older_names import warn_deprecated

__all__ = ["autocast", "custom_bwd", "custom_fwd"]


class autocast(amp.autocast):
    """`torch.amp.autocast` for CUDA, deprecated in favour of that."""

    def __init__(
        self, enabled: bool = True, dtype: Any = tg.float16, cache_enabled: bool = True
    ) -> None:
        warn_deprecated("cuda", "autocast(args...)", "autocast('cuda', args...)")
        super().__init__("cuda", dtype, enabled, cache_enabled)


def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, cast_inputs: Any = None
) -> Callable[..., Any]:
    """`torch.amp.custom_fwd` for CUDA, deprecated in favour of that."""
    warn_deprecated("cuda", "custom_fwd(args...)", "custom_fwd(args..., device_type='cuda')")
    return amp.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Callable[..., Any]) -> Callable[..., Any]:
    """`torch.amp.custom_bwd` for CUDA, deprecated in favour of that."""
    warn_deprecated("cuda", "custom_bwd(args...)", "custom_bwd(args..., device_type='cuda')")
    return amp.custom_bwd(bwd, device_type="cuda")
