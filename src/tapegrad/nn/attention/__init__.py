"""Which implementation of scaled dot product attention may run."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator
from typing import Any

from ...backends import cuda as switches

__all__ = ["WARN_FOR_UNFUSED_KERNELS", "SDPBackend", "sdpa_kernel"]

WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(enum.Enum):
    """The implementations that PyTorch has.

    >>> torch.nn.attention.SDPBackend.MATH.name
    'MATH'
    """

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


SWITCHES = {
    SDPBackend.MATH: (switches.math_sdp_enabled, switches.enable_math_sdp),
    SDPBackend.FLASH_ATTENTION: (switches.flash_sdp_enabled, switches.enable_flash_sdp),
    SDPBackend.EFFICIENT_ATTENTION: (
        switches.mem_efficient_sdp_enabled,
        switches.enable_mem_efficient_sdp,
    ),
    SDPBackend.CUDNN_ATTENTION: (switches.cudnn_sdp_enabled, switches.enable_cudnn_sdp),
}


@contextlib.contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[dict[Any, Any]]:
    """Allow only some implementations inside the `with` block.

    >>> with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
    ...     backends.cuda.flash_sdp_enabled()
    False
    """
    if not isinstance(backends, (list, SDPBackend)):
        raise AssertionError(
            "Backend must be an instance of SDPBackend or a list of SDPBackend instances, "
            f"got {type(backends).__name__}"
        )
    allowed = [backends] if isinstance(backends, SDPBackend) else backends
    before = {backend: asked() for backend, (asked, _) in SWITCHES.items()}
    for backend, (_, allow) in SWITCHES.items():
        allow(backend in allowed)
    try:
        yield {}
    finally:
        for backend, (_, allow) in SWITCHES.items():
            allow(before[backend])
