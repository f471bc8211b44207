"""Indices on the GPU that are out of range: the GPU looks, and the host tells when it next waits.

To look at values the host would have to wait for them. So a kernel looks instead, and where it
finds an index that is none, it leaves a ticket and the index in memory of the host. Whoever waits
for the GPU (a copy to the host, `synchronize`) looks there, and raises with the line that the
ticket stands for. CUDA_LAUNCH_BLOCKING=1 waits at once.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ....core.base import user_frame
from ....core.devices import DEVICE
from ....errors import build, here
from ....errors.evidence import place
from ..programs import compiled
from .kernels import BLOCK, I64, Gpu
from .moves import contiguous

SENTENCE = "CUDA error: device-side assert triggered"
KINDS = {np.dtype(np.int64): "index64", np.dtype(np.int32): "index32"}


class RangeWatch:
    """Checks of index ranges that the GPU was asked for, by ticket."""

    def __init__(self, gpu: Gpu, backend: Any) -> None:
        self.gpu = gpu
        self.backend = backend
        self.tickets: dict[Any, int] = {}  # by line and range, so that a loop has one
        self.asked: list[Any] = []
        self.kernels: dict[str, Any] = {}
        self.memory = gpu.xp.cuda.alloc_pinned_memory(16)
        self.told = np.frombuffer(self.memory, np.int64, 2)
        self.told[:] = 0
        self.address = np.uint64(self.memory.ptr)
        self.at_once = os.environ.get("CUDA_LAUNCH_BLOCKING") == "1"

    def look(self, array: Any, low: int, high: int, ignored: int | None) -> None:
        """Have a kernel look whether all of an array is in the range, or `ignored`."""
        kind = KINDS.get(array.dtype)
        if kind is None or not array.size:
            return
        frame = user_frame(1)
        line = (None, -1) if frame is None else (frame.f_code, frame.f_lasti)
        key = (*line, low, high)
        ticket = self.tickets.get(key)
        if ticket is None:
            self.asked.append(key)
            ticket = self.tickets[key] = len(self.asked)
        if not contiguous(array):
            array = self.backend.copied(array)
        run = self.kernels.get(kind)
        if run is None:
            run = self.kernels[kind] = compiled(self.gpu.xp, "integers.cu", kind, "look")
        skipped = (I64(ignored or 0), np.int32(ignored is not None))
        sizes = (I64(array.size), I64(low), I64(high))
        args = (array, *sizes, *skipped, I64(ticket), self.address)
        run(self.gpu.grid(array.size), BLOCK, args)
        if self.at_once and not DEVICE.capturing():
            self.gpu.xp.cuda.get_current_stream().synchronize()
            self.tell()

    def tell(self) -> None:
        """Raise if something was found; the GPU has been waited for."""
        if not self.told[0]:
            return
        ticket, value = int(self.told[0]), int(self.told[1])
        self.told[:] = 0
        code, lasti, low, high = self.asked[ticket - 1]
        from ....errors.accelerator import AcceleratorError

        what = f"the index {value} is out of range: {low} to {high - 1} are possible"
        raise build(
            AcceleratorError,
            SENTENCE,
            "E09",
            what=what,
            causes=[
                ("caused", "the index was used", None if code is None else place(code, lasti)),
                ("noticed", "the host waited for the GPU", here()),
            ],
            fixes=[
                "look at the indices before: print(index.min(), index.max())",
                "on the CPU, or with CUDA_LAUNCH_BLOCKING=1, the line itself raises",
            ],
            index=value,
        )
