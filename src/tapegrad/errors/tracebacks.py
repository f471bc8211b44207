"""Tracebacks of exceptions that nobody caught: the user's frames, without those of this package.

TAPEGRAD_TRACEBACK=full shows all of them. Debuggers, pytest and whoever sets `sys.excepthook` see
the whole traceback in any case.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

OURS = str(__package__).partition(".")[0]


def install() -> None:
    """Show them so from now on, unless somebody else shows them."""
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = show
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is not None and not shell.custom_exceptions:
        shell.set_custom_exc((Exception,), show_in_cell)


def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """In the place of `sys.excepthook`."""
    shortened(error, lambda: sys.__excepthook__(kind, error, error.__traceback__))


def show_in_cell(shell: Any, kind: Any, error: Any, trace: Any, tb_offset: Any = None) -> None:
    """Show an exception in IPython."""
    shortened(error, lambda: shell.showtraceback((kind, error, error.__traceback__), tb_offset))


def shortened(error: BaseException, show_it: Callable[[], Any]) -> None:
    """Show an exception while it has no frames of ours."""
    explained(error)
    whole = [(each, each.__traceback__) for each in chain(error)]
    count = 0
    shown = [] if os.environ.get("TAPEGRAD_TRACEBACK") == "full" else whole
    for each, own in shown:
        kept, left_out = without_ours(own)
        if kept is not None:
            each.__traceback__ = kept
            count += left_out
    named = [(each, each.name) for each, _ in whole if suggests_twice(each)]
    for each, _ in named:
        each.name = None
    try:
        show_it()
    finally:
        for each, own in whole:
            each.__traceback__ = own
        for each, name in named:
            each.name = name
    if count and sys.stderr is not None and isinstance(error, Exception):  # no interrupt
        frames = "1 frame" if count == 1 else f"{count} frames"
        print(
            f"({frames} inside tapegrad left out: TAPEGRAD_TRACEBACK=full shows them)",
            file=sys.stderr,
        )


def explained(error: BaseException) -> None:
    """Say why a gradient is None, where that is what went wrong."""
    try:
        from .none_gradients import explain

        explain(error)
    except Exception:  # the exception itself is what must be seen
        pass


def suggests_twice(error: Any) -> bool:
    """Whether Python would add a "Did you mean" below ours."""
    return isinstance(error, AttributeError) and hasattr(error, "diagnosis")


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """An exception, and those that it came from."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def without_ours(trace: TracebackType | None) -> tuple[TracebackType | None, int]:
    """A copy with the frames of others only, and how many frames it lacks."""
    frames: list[TracebackType] = []
    while trace is not None:
        frames.append(trace)
        trace = trace.tb_next
    others = [t for t in frames if not is_ours(t)]
    made: TracebackType | None = None
    for t in reversed(others):
        line = -1 if t.tb_lineno is None else t.tb_lineno  # an interrupt may come between lines
        made = TracebackType(made, t.tb_frame, t.tb_lasti, line)
    return made, len(frames) - len(others)


def is_ours(trace: TracebackType) -> bool:
    """By the module: the files of compiled frames are named as they were when that was done."""
    return is_own(trace.tb_frame)


def is_own(frame: Any) -> bool:
    name = frame.f_globals.get("__name__")
    return isinstance(name, str) and name.partition(".")[0] == OURS
