"""From one device to another: what `.cuda()`, `.cpu()` and `.to(device)` record."""

from __future__ import annotations

from typing import Any

from ...core import devices
from ...core.base import STATE
from ..block import Block, op

# ruff: noqa: N805

HOST = -1  # where other numbers are those of GPUs


def moved(array: Any, place: int) -> Any:
    """The values of an array in the memory of a device."""
    on_gpu = type(array) is STATE.device_type
    if place == HOST:
        return devices.to_host(array)
    xp = devices.DEVICE.xp
    with xp.cuda.Device(place):
        return xp.array(array) if on_gpu else devices.uploaded(array)


@op
class ToDevice(Block):
    """to_device(input, place, source) -> Tensor: a copy on another device."""

    node = "ToCopyBackward0"
    aten = "_to_copy"
    public = False
    linear = True
    leading = (0,)
    across_devices = True
    host_number = True

    def fwd(xp, input, place, source):
        return moved(input, place)

    def d_input(F, grad, place, source):
        return F.to_device(grad, source, place)
