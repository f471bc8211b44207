"""Side effects of Python code in a recorded call: which functions run, and what they change.

Python's own hook for profilers tells of every function that is called, those in C as well. Who
writes to a file or asks for the time does what a replay would not do, and what a function without
hooks reads is not known.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import sys
import types
from collections.abc import Iterator
from typing import Any

from ...core.base import PACKAGE, TensorBase
from ...kernels.cpu import KERNELS
from ..breaks.calls import Place, place_in
from .instrumented import is_instrumented, original_of
from .reachable import is_library_file, names_in
from .vetted import writes_or_asks

ASKS = frozenset((id(open), id(os.open), id(os.read), id(input), id(os.urandom), id(os.system)))

IS_SEEN, IS_WATCHED = 1, 2  # what is said of a function that starts, as a sum


class Heard:
    """A wrapper of an output stream that tells the recorder of writes."""

    def __init__(self, stream: Any, recorder: Any) -> None:
        self.stream = stream
        self.recorder = recorder

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> Any:
        self.recorder.give_up("it prints")
        return self.stream.write(text)


def unnoticed(method: Any) -> Any:
    """Decorate a method of a recorder that runs no code of the user's: its calls are ignored."""

    @functools.wraps(method)
    def call(self: Any, *args: Any) -> Any:
        hook = self.hook
        if hook is None:
            return method(self, *args)
        self.hook = None
        hook.stop()
        try:
            return method(self, *args)
        finally:
            self.hook = hook
            hook.start()

    return call


class CallWatch:
    """Tells of the functions that run: c/tape/call_watch.c, where there are no kernels in C."""

    def __init__(self, on_code: Any, on_call: Any) -> None:
        known: dict[int, int] = {}

        def notice(frame: Any, event: str, function: Any) -> None:
            if event == "c_call":
                if known.get(id(frame.f_code), 0) & IS_WATCHED:
                    on_call(frame, function)
            elif event == "call" and not known.get(id(frame.f_code), 0) & IS_SEEN:
                known[id(frame.f_code)] = on_code(frame)

        self.notice = notice

    def start(self) -> None:
        sys.setprofile(self.notice)

    def stop(self) -> None:
        sys.setprofile(None)


class Noticing:
    """A `with` block that reports calls of Python to a recorder, by the hook for profilers."""

    def __init__(self, recorder: Any) -> None:
        self.recorder = recorder
        self.seen: dict[int, types.CodeType] = {}  # that ran, as it ran
        self.places: dict[types.CodeType, Place] = {}  # by those of the user: what led to them

    def __enter__(self) -> Noticing:
        watch: Any = CallWatch if KERNELS is None else KERNELS.CallWatch
        self.recorder.hook = watch(self.notice_code, self.notice_call)
        self.recorder.hook.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.recorder.hook.stop()
        self.recorder.hook = None

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """A `with` block whose calls are ignored: no code of the user's runs in it."""
        hook = self.recorder.hook
        if hook is not None:
            hook.stop()
        try:
            yield
        finally:
            if hook is not None:
                hook.start()

    def places_of(self, name: str) -> list[Place]:
        """The places that call functions which name a variable or an `.attribute`."""
        name = name.removeprefix(".")
        found = [place for code, place in self.places.items() if name in names_in(code)]
        return [place for place in found if place.line]

    def notice_code(self, frame: Any) -> int:
        """A function runs for the first time. IS_SEEN: no need to tell of it again; IS_WATCHED:
        what it calls in C is of interest."""
        code = frame.f_code
        if runs_in_a_collection(frame):
            return 0  # not seen: the user's code may call it, too
        self.seen[id(code)] = code
        is_other = not code.co_filename.startswith(PACKAGE)
        if not is_other and not is_instrumented(code):
            return IS_SEEN
        if is_other and not is_library_file(code.co_filename):
            self.places[original_of(code)] = place_in(self.recorder.body, frame)
        state = self.recorder.state
        if state is not None and is_instrumented(code):
            state.started(code)
        elif state is not None and is_other and not state.notice(frame):
            return IS_WATCHED  # this time it was not the user's code that called it
        return IS_SEEN | IS_WATCHED if is_other else IS_SEEN

    def notice_call(self, frame: Any, function: Any) -> None:
        """Called for each call of a function in C that this package does not make."""
        owner = getattr(function, "__self__", None)
        name = getattr(function, "__name__", "")
        if isinstance(owner, TensorBase):
            return
        reason = writes_or_asks(function, owner, name)
        if not reason and id(function) in ASKS:
            reason = f"it calls {name}()"
        if reason and is_asked_by_user(frame):
            self.recorder.give_up(reason)


def is_asked_by_user(frame: Any) -> bool:
    """Whether a function of Python's library was called by the user's code, not by this package."""
    while frame is not None and is_library_file(frame.f_code.co_filename):
        if frame.f_code.co_filename.startswith(PACKAGE):
            return False
        frame = frame.f_back
    return frame is not None and not runs_in_a_collection(frame)


def runs_in_a_collection(frame: Any) -> bool:
    """Whether the garbage collector called this: one of gc.callbacks, at any time."""
    callbacks = [getattr(callback, "__code__", None) for callback in gc.callbacks]
    while callbacks and frame is not None:
        if frame.f_code in callbacks:
            return True
        frame = frame.f_back
    return False
