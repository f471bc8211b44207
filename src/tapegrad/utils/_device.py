"""The device that new tensors go to, for a block."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..device import device as device_type
from ..device import entered


class DeviceContext:
    """Inside, new tensors go to `device`: `with torch.device(device)` under PyTorch's own name.

    >>> with torch.utils._device.DeviceContext("meta"):
    ...     zeros(2).device
    device(type='meta')
    """

    def __init__(self, device: Any) -> None:
        self.device = device_type(device)

    def __enter__(self) -> None:
        self.device.__enter__()

    def __exit__(self, *error: object) -> None:
        self.device.__exit__(*error)


def set_device(device: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: the tensors that the function makes go to `device`.

    >>> @torch.utils._device.set_device("meta")
    ... def made():
    ...     return zeros(2)
    >>> made().device
    device(type='meta')
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with device_type(device):
                return function(*args, **kwargs)

        return inside

    return decorate


def __getattr__(name: str) -> Any:
    if name == "CURRENT_DEVICE":
        return entered()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
