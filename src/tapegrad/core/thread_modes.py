"""The switches of each thread, as data; core/modes.py changes them."""

from __future__ import annotations

import weakref
from typing import Any

from .per_thread import PerThread


class Share:
    """A thread's part of the counters of the process, taken back when the thread ends."""

    modes_on: int = 0
    casting: int = 0
    only_casting: int = 0
    only_unrecorded: int = 0

    def __del__(self) -> None:
        if self.modes_on:
            from .modes import count

            count(-self.modes_on, -self.casting, -self.only_casting, -self.only_unrecorded)


class Modes(PerThread):
    """Per-thread switches. Change them by `modes.set_mode`, which keeps `STATE.modes_on` right."""

    def __init__(self) -> None:
        self.share = Share()

    def carry_over(self, state: dict[str, Any]) -> None:
        from .modes import set_mode

        super().carry_over({**state, "share": self.share})
        set_mode("run", self.run)

    grad: bool = True
    inference: bool = False
    below: bool = False  # inside a `__torch_dispatch__`: autograd is above
    records: bool = True  # grad mode on, inference mode off, autograd not above
    saved_hooks: tuple[Any, ...] = ()  # (pack, unpack) pairs, innermost last
    saved_hooks_error: str | None = None  # set by disable_saved_tensors_hooks
    # The dtypes that autocast casts to on the CPU and on GPUs, None where it is off; None: off.
    autocast: Any = None
    budget: Any = None  # utils.checkpoint.budget: drops saved values, computes them again
    subclasses_off: bool = False  # DisableTorchFunctionSubclass
    run: Any = None  # the backward pass that is going on in this thread
    threads: bool = True  # set_multithreading_enabled; one thread does all in any case
    node: Any = None  # in anomaly mode: the node that it is running


class Active(PerThread):
    """The modes of this thread that see ops: python_dispatch.py."""

    modes: tuple[Any, ...] = ()  # innermost last
    calls: tuple[Any, ...] = ()  # that somebody is being asked about, innermost last
    classes_off: bool = False  # _DisableTorchDispatch


class Watching(PerThread):
    """The modes of this thread that see calls of public functions: function_modes.py."""

    modes: tuple[Any, ...] = ()  # innermost last
    off: bool = False  # DisableTorchFunction


class Anomaly:
    """Anomaly mode is one switch for the process, as PyTorch's."""

    enabled: bool = False
    check_nan: bool = True
    check_inf: bool = False  # ours: stop at infinities too


MODES = Modes()
ACTIVE = Active()
WATCHING = Watching()
# The modes that are on, of all threads, and a mark once a class wants to be asked.
WATCHED: list[Any] = []
ASKED_CLASSES: weakref.WeakSet[type] = weakref.WeakSet()  # with a `__torch_function__`
ANOMALY = Anomaly()


class Unrepeated:
    """How often something happened between ops that running the ops again would not repeat.

    Values were read, or what no signature of a call tells (places in memory, versions, history), a
    warning was given, something else than tensors changed.
    """

    count: int = 0
