"""What the tests of this folder share."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import tapegrad as torch
from tapegrad.core import devices

CUDA = torch.device("cuda:0")


@contextlib.contextmanager
def staying_on_device(allowed: int = 0) -> Iterator[None]:
    """Nothing is copied to the host inside; the stand-in counts, a real GPU cannot."""
    counter = getattr(devices.DEVICE.xp, "Copies", None)
    before = 0 if counter is None else counter.count
    yield
    if counter is not None:
        assert counter.count - before <= allowed, "values went to the host"


def gpu(*values: Any) -> Any:
    return torch.tensor([*values], device="cuda")
