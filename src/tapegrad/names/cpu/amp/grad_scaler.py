"""The older spelling of `torch.amp.GradScaler("cpu", ...)`."""

from __future__ import annotations

from tapegrad.amp._older_names import DeviceGradScaler

__all__ = ["GradScaler"]


class GradScaler(DeviceGradScaler):
    """`torch.amp.GradScaler` for CPU, deprecated in favour of that."""

    _device_type = "cpu"
