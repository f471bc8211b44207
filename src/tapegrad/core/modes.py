"""Changing what is switched on in a thread: grad and inference mode, saved-tensor hooks, anomaly.

Ctrl-C may arrive at any moment, and must leave the switches as the caller had them. CPython runs
signal handlers when a Python function is entered, after a call and at a jump back. So:

- a change is made by statements without calls or loops, after everything has been computed: it
  happens as a whole or not at all;
- the `with` blocks of this file are compiled (setup.py, MYPYC_MODULES): a handler cannot run at the
  entry of `__exit__`, which would leave the block's mode on. In the pure build that one moment per
  block remains, as in PyTorch, whose blocks are Python functions too;
- no lock is held meanwhile: the GIL makes such statements atomic between threads.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from .base import STATE
from .late_bound import ANOMALY_MODE, INTERPRETERS
from .locks import new_rlock
from .mypyc import mypyc_attr
from .thread_modes import ACTIVE, WATCHED, WATCHING
from .thread_modes import ANOMALY as ANOMALY
from .thread_modes import MODES as MODES

_asks_for_gil: Any = getattr(sys, "_is_gil_enabled", None)  # since Python 3.13
# Without the GIL, threads that change the counters of the process wait for each other.
_lock: Final[Any] = None if _asks_for_gil is None or _asks_for_gil() else new_rlock()


def set_mode(name: str, value: Any) -> None:
    """Change one switch of this thread."""
    set_modes({name: value})


def set_modes(changes: dict[str, Any]) -> None:
    """Change some switches of this thread, all at once."""
    if _lock is None:
        _store(changes)
    else:
        with _lock:
            _store(changes)


def _store(changes: dict[str, Any]) -> dict[str, Any]:
    """Make the changes; return what was set before.

    The caller releases it when everything is stored: that may run code of the user's.
    """
    own: dict[str, Any] = MODES.__dict__  # looked up once: it is another one in every thread
    before = dict(own)
    share: Any = own["share"]
    # No calls from here on: a signal handler would run after them.
    own |= changes
    grad, bare = MODES.grad, not (MODES.inference or MODES.below)
    own["records"] = grad and bare
    bare = bare and not MODES.saved_hooks and MODES.budget is None
    plain = grad and bare
    casting = 1 if MODES.autocast is not None else 0
    on = 1 if casting or not plain else 0
    only = 1 if casting and plain else 0
    unrecorded = 1 if bare and not grad and not casting else 0
    STATE.only_unrecorded += unrecorded - share.only_unrecorded
    STATE.modes_on += on - share.modes_on
    STATE.casting += casting - share.casting
    STATE.only_casting += only - share.only_casting
    share.modes_on = on
    share.casting = casting
    share.only_casting = only
    share.only_unrecorded = unrecorded
    return before


def count(modes_on: int, casting: int, only_casting: int = 0, only_unrecorded: int = 0) -> None:
    """Add to the counters of the process."""
    if _lock is None:
        _add(modes_on, casting, only_casting, only_unrecorded)
    else:
        with _lock:
            _add(modes_on, casting, only_casting, only_unrecorded)


def _add(modes_on: int, casting: int, only_casting: int, only_unrecorded: int) -> None:
    STATE.only_unrecorded += only_unrecorded
    STATE.modes_on += modes_on
    STATE.casting += casting
    STATE.only_casting += only_casting


def anomaly_switches() -> tuple[bool, bool, bool]:
    """Anomaly mode as it is: (enabled, check_nan, check_inf)."""
    return ANOMALY.enabled, ANOMALY.check_nan, ANOMALY.check_inf


def set_anomaly(enabled: bool, check_nan: bool, check_inf: bool) -> None:
    """Change the three switches of anomaly mode, all at once."""
    change = (1 if enabled else 0) - (1 if ANOMALY.enabled else 0)
    STATE.modes_on += change
    ANOMALY.enabled = STATE.anomaly = enabled
    ANOMALY.check_nan = check_nan
    ANOMALY.check_inf = check_inf
    if ANOMALY_MODE.release_frame is not None:
        ANOMALY_MODE.release_frame()


@mypyc_attr(allow_interpreted_subclasses=True)
class switched:
    """An attribute of an object has another value in a `with` block."""

    def __init__(self, owner: Any, name: str, value: Any) -> None:
        self.owner = owner
        self.name = name
        self.value = value
        self.before: Any = None

    def __enter__(self) -> Any:
        self.before = getattr(self.owner, self.name)
        setattr(self.owner, self.name, self.value)
        return None

    def __exit__(self, *error: object) -> None:
        setattr(self.owner, self.name, self.before)


@mypyc_attr(allow_interpreted_subclasses=True)
class GradBlock:
    """Grad mode is `wanted` in a `with` block."""

    wanted: bool = True
    before: bool = True

    def __enter__(self) -> Any:
        self.before = MODES.grad
        set_mode("grad", self.wanted)
        return None

    def __exit__(self, *error: object) -> None:
        set_mode("grad", self.before)


@mypyc_attr(allow_interpreted_subclasses=True)
class SetGradBlock:
    """Grad mode is `mode` from here on, or until the end of a `with` block."""

    def __init__(self, mode: Any) -> None:
        if not isinstance(mode, bool):
            raise TypeError(
                f"set_grad_enabled(): argument 'mode' must be bool, not {type(mode).__name__}"
            )
        self.before: bool = MODES.grad
        self.mode: bool = mode
        set_mode("grad", mode)

    def __enter__(self) -> Any:
        set_mode("grad", self.mode)
        return None

    def __exit__(self, *error: object) -> None:
        set_mode("grad", self.before)


@mypyc_attr(allow_interpreted_subclasses=True)
class ThreadsBlock:
    """`MODES.threads` is `mode` from here on, or until the end of a `with` block."""

    def __init__(self, mode: bool) -> None:
        self.before: bool = MODES.threads
        self.mode = mode
        MODES.threads = mode

    def __enter__(self) -> Any:
        return None

    def __exit__(self, *error: object) -> None:
        MODES.threads = self.before


class grad_set_to:
    """Grad mode is `wanted` in a `with` block, and afterwards what it was."""

    __slots__ = ("before", "wanted")

    def __init__(self, wanted: bool) -> None:
        self.wanted = wanted
        self.before = wanted

    def __enter__(self) -> None:
        self.before = MODES.grad
        if self.before is not self.wanted:
            set_mode("grad", self.wanted)

    def __exit__(self, *error: object) -> None:
        if MODES.grad is not self.before:
            set_mode("grad", self.before)


class autocast_set_to:
    """Autocast is `wanted` in a `with` block, and afterwards what it was; None: it is off."""

    __slots__ = ("before", "wanted")

    def __init__(self, wanted: Any) -> None:
        self.wanted = wanted
        self.before: Any = None

    def __enter__(self) -> None:
        self.before = MODES.autocast
        set_mode("autocast", self.wanted)

    def __exit__(self, *error: object) -> None:
        set_mode("autocast", self.before)


class neither_recorded_nor_cast:
    """Grad mode and autocast are off in a `with` block."""

    __slots__ = ("before",)

    def __init__(self) -> None:
        self.before: tuple[bool, Any] = (True, None)

    def __enter__(self) -> None:
        self.before = (MODES.grad, MODES.autocast)
        set_modes({"grad": False, "autocast": None})

    def __exit__(self, *error: object) -> None:
        set_modes({"grad": self.before[0], "autocast": self.before[1]})


@mypyc_attr(allow_interpreted_subclasses=True)
class InferenceBlock:
    """Inference mode is `mode` in a `with` block, and grad mode the opposite."""

    mode: bool = True
    before: tuple[bool, bool] = (False, True)

    def __enter__(self) -> Any:
        self.before = (MODES.inference, MODES.grad)
        set_modes({"inference": self.mode, "grad": not self.mode})
        return None

    def __exit__(self, *error: object) -> None:
        inference, grad = self.before
        set_modes({"inference": inference, "grad": grad})


class below_autograd:
    """In a `with` block nothing is recorded, whatever the grad mode says; False takes that back."""

    def __init__(self, wanted: bool = True) -> None:
        self.wanted = wanted
        self.before = wanted

    def __enter__(self) -> None:
        self.before = MODES.below
        if self.before is not self.wanted:
            set_mode("below", self.wanted)

    def __exit__(self, *error: object) -> None:
        if self.before is not self.wanted:
            set_mode("below", self.before)


@mypyc_attr(allow_interpreted_subclasses=True)
class SavedHooksBlock:
    """In a `with` block, saved tensors go through a pair of functions."""

    def __init__(self, pack_hook: Any, unpack_hook: Any) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> Any:
        if MODES.saved_hooks_error is not None:
            raise RuntimeError(MODES.saved_hooks_error)
        set_mode("saved_hooks", (*MODES.saved_hooks, (self.pack_hook, self.unpack_hook)))
        return None

    def __exit__(self, *error: object) -> None:
        set_mode("saved_hooks", MODES.saved_hooks[:-1])


@mypyc_attr(allow_interpreted_subclasses=True)
class BudgetBlock:
    """In a `with` block, this budget sees what is saved: the base of utils.checkpoint.budget."""

    def begin(self) -> None:
        """Called before the block."""

    def end(self, failed: bool) -> None:
        """Called after the block; `failed`: it ended by an exception."""

    def __enter__(self) -> Any:
        if MODES.budget is not None:
            raise RuntimeError("budget() blocks cannot be nested")
        self.begin()
        set_mode("budget", self)
        return self

    def __exit__(self, *error: object) -> None:
        set_mode("budget", None)
        self.end(error[0] is not None)


@mypyc_attr(allow_interpreted_subclasses=True)
class AnomalyBlock:
    """Anomaly mode is as `given` says: (enabled, check_nan, check_inf) in a `with` block.

    With `at_once` it is so from here on, or until the end of the block.
    """

    def __init__(self, given: tuple[bool, bool, bool], at_once: bool) -> None:
        self.given = given
        self.at_once = at_once
        self.before = anomaly_switches()
        if at_once:
            set_anomaly(given[0], given[1], given[2])

    def __enter__(self) -> Any:
        if not self.at_once:
            self.before = anomaly_switches()
            set_anomaly(self.given[0], self.given[1], self.given[2])
        return None

    def __exit__(self, *error: object) -> None:
        set_anomaly(self.before[0], self.before[1], self.before[2])


@mypyc_attr(allow_interpreted_subclasses=True)
class ModeBlock:
    """The base of both kinds of modes below: a class of the user's may have both."""


@mypyc_attr(allow_interpreted_subclasses=True)
class OpModeBlock(ModeBlock):
    """In a `with` block, this mode sees the ops of the thread before the modes around it."""

    def __enter__(self) -> Any:
        INTERPRETERS.prepare_for_modes()
        ACTIVE.modes = (*ACTIVE.modes, self)
        count(1, 1)
        return self

    def __exit__(self, *error: object) -> Any:
        ACTIVE.modes = ACTIVE.modes[:-1]
        count(-1, -1)
        return None


@mypyc_attr(allow_interpreted_subclasses=True)
class WatchingBlock(ModeBlock):
    """In a `with` block, this mode sees the calls of public functions in the thread."""

    def __enter__(self) -> Any:
        INTERPRETERS.prepare_for_watching()
        WATCHED.append(self)
        WATCHING.modes = (*WATCHING.modes, self)
        count(1, 1)
        return self

    def __exit__(self, *error: object) -> Any:
        WATCHING.modes = WATCHING.modes[:-1]
        WATCHED.remove(self)
        count(-1, -1)
        return None
