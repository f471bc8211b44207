"""What is switched on in this thread: grad and inference mode, saved-tensor hooks, anomaly."""

from __future__ import annotations

import threading
from typing import Any

from .base import STATE
from .per_thread import PerThread


class Share:
    """What a thread has added to the counters of the process: taken back when the thread ends."""

    modes_on: int = 0
    casting: int = 0
    only_casting: int = 0
    only_unrecorded: int = 0

    def __del__(self) -> None:
        if self.modes_on:
            count(-self.modes_on, -self.casting, -self.only_casting, -self.only_unrecorded)


class Modes(PerThread):
    """Per-thread switches. Change them through `set`, which keeps `STATE.modes_on` right."""

    def __init__(self) -> None:
        self.share = Share()

    def carry_over(self, state: dict[str, Any]) -> None:
        super().carry_over({**state, "share": self.share})
        self.set("run", self.run)

    grad: bool = True
    inference: bool = False
    below: bool = False  # inside a `__torch_dispatch__`: autograd is above
    records: bool = True  # grad mode on, inference mode off, autograd not above
    saved_hooks: tuple[Any, ...] = ()  # (pack, unpack) pairs, innermost last
    saved_hooks_error: str | None = None  # set by disable_saved_tensors_hooks
    # The dtypes that autocast casts to on the CPU and on GPUs, None where it is off; None: off.
    autocast: Any = None
    subclasses_off: bool = False  # DisableTorchFunctionSubclass
    run: Any = None  # the backward pass that is going on in this thread
    threads: bool = True  # set_multithreading_enabled; one thread does all in any case
    node: Any = None  # in anomaly mode: the node that it is running

    def set(self, name: str, value: Any) -> None:
        own = self.__dict__  # looked up once: it is another one in every thread
        own[name] = value
        grad, bare = self.grad, not (self.inference or self.below)
        own["records"] = grad and bare
        bare = bare and not self.saved_hooks
        plain = grad and bare
        casting = self.autocast is not None
        share = own["share"]
        on, only = int(casting or not plain), int(casting and plain)
        unrecorded = int(bare and not grad and not casting)
        if (
            on != share.modes_on
            or casting != share.casting
            or only != share.only_casting
            or unrecorded != share.only_unrecorded
        ):
            count(
                on - share.modes_on,
                casting - share.casting,
                only - share.only_casting,
                unrecorded - share.only_unrecorded,
            )
            share.modes_on, share.casting, share.only_casting = on, int(casting), only
            share.only_unrecorded = unrecorded


class grad_set_to:
    """Grad mode `wanted` for a block; free where it is that already."""

    __slots__ = ("changed", "wanted")

    def __init__(self, wanted: bool) -> None:
        self.wanted = wanted

    def __enter__(self) -> None:
        self.changed = MODES.grad is not self.wanted
        if self.changed:
            MODES.set("grad", self.wanted)

    def __exit__(self, *error: object) -> None:
        if self.changed:
            MODES.set("grad", not self.wanted)


class Anomaly:
    """Anomaly mode is one switch for the process, as PyTorch's."""

    enabled: bool = False
    check_nan: bool = True
    check_inf: bool = False  # ours: stop at infinities too


def count(modes_on: int, casting: int, only_casting: int = 0, only_unrecorded: int = 0) -> None:
    with _lock:
        STATE.only_unrecorded += only_unrecorded
        STATE.modes_on += modes_on
        STATE.casting += casting
        STATE.only_casting += only_casting


_lock = threading.Lock()
MODES = Modes()
ANOMALY = Anomaly()
