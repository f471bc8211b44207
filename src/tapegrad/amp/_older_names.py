"""The older names of this module, in `torch.cpu.amp` and `torch.cuda.amp`."""

from __future__ import annotations

from ..core.warned import warn
from .grad_scaler import GradScaler


def warn_deprecated(device: str, old: str, new: str) -> None:
    """For the caller of the function, or of the `__init__`, that calls this."""
    warn(
        f"`torch.{device}.amp.{old}` is deprecated. Please use `torch.amp.{new}` instead.",
        FutureWarning,
    )


class DeviceGradScaler(GradScaler):
    """A `GradScaler` for the device that the subclass names."""

    _device_type: str

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        device = self._device_type
        warn_deprecated(device, "GradScaler(args...)", f"GradScaler('{device}', args...)")
        super().__init__(
            device, init_scale, growth_factor, backoff_factor, growth_interval, enabled
        )
