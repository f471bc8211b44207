"""Interception of output, optimizers' options and schedulers' steps during a recording."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

from .caught import CaughtStep
from .side_effects import Heard
from .symbolic_floats import Options


@contextlib.contextmanager
def to_output(recorder: Any) -> Iterator[None]:
    """Tell the recorder of printed output, which a replay would not repeat."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = Heard(sys.stdout, recorder), Heard(sys.stderr, recorder)  # type: ignore
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


@contextlib.contextmanager
def to_options(recorder: Any, owners: list[Any]) -> Iterator[None]:
    """Record the options that the call sets in parameter groups, to be set again by replays."""
    lists = [each.param_groups for each in owners if hasattr(each, "param_groups")]
    for groups in lists:
        groups[:] = [Options(group, recorder) for group in groups]
    try:
        yield
    finally:
        for groups in lists:
            groups[:] = [getattr(group, "group", group) for group in groups]
        for step in recorder.steps:
            for update in getattr(getattr(step, "step", step), "updates", ()):
                update.group = getattr(update.group, "group", update.group)


@contextlib.contextmanager
def to_schedulers(recorder: Any, schedulers: list[Any]) -> Iterator[None]:
    """Record `scheduler.step()` of any class, the user's included, as one step."""

    def called(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return recorder.whole(function, args, kwargs)

    for each in schedulers:
        each.step = CaughtStep(called, each.step)
    try:
        yield
    finally:
        for each in schedulers:
            own = each.step.own(each)
            if own is None:
                del each.step
            else:
                each.step = own
