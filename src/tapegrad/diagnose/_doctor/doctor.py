"""`doctor()`: a second pair of eyes on a training loop.

>>> model = nn.Linear(2, 1)
>>> optimizer = optim.SGD(model.parameters(), lr=0.01)
>>> x, y = randn(8, 2), randn(8, 1)
>>> with doctor(show=False) as report:
...     for _ in range(5):
...         loss = nn.functional.mse_loss(model(x), y)
...         loss.backward()
...         optimizer.step()
>>> [finding.id for finding in report.findings]
['D01']

While a doctor is on, the loop runs slower (it looks at every graph and every gradient) and gives
the same numbers. While none is on, nothing is wrapped and nothing costs anything.
"""

from __future__ import annotations

import atexit
import sys
from typing import Any

from .by_hand import HandSteps
from .loop import LoopOrder
from .loss import Losses
from .model import Parameters
from .modes import Modes
from .numbers import Numbers
from .piles import Piles
from .report import Finding, Report
from .room import Room
from .state import Patient
from .values import source_of
from .watch import WATCH, Listener

__all__ = ["Doctor", "Finding", "Report", "doctor"]


class Doctor:
    """One watch, from `start` to `stop`; a context manager that gives its Report."""

    def __init__(self, show: bool = True, file: Any = None) -> None:
        self.show = show
        self.file = file  # where the report is printed; None: sys.stderr
        self.patient = Patient()
        self.listeners: list[Listener] = []

    @property
    def report(self) -> Report:
        return self.patient.report

    def start(self) -> Doctor:
        """Begin to watch."""
        if self.listeners:
            raise RuntimeError("this doctor is watching already")
        patient = self.patient = Patient()
        self.listeners = [
            LoopOrder(patient),
            HandSteps(patient),
            Parameters(patient),
            Losses(patient),
            Numbers(patient),
            Modes(patient),
            Piles(patient),
            Room(patient),
        ]
        WATCH.add(self.listeners, patient.report.problems)
        return self

    def stop(self) -> Report:
        """Go, and say what was found. Everything is as it was before."""
        listeners, self.listeners = self.listeners, []
        if listeners:
            WATCH.drop(listeners)
            WATCH.last_words(listeners, self.report.problems)
            self.report.settle()
            source_of.cache_clear()
            if self.show:
                self.print()
        return self.report

    def print(self) -> None:
        """Print the report."""
        print(self.report, file=self.file or sys.stderr, flush=True)

    def __enter__(self) -> Report:
        return self.start().report

    def __exit__(self, *exc: object) -> None:
        self.stop()


class Door:
    """`doctor()` makes a Doctor; `doctor.start()` and `doctor.stop()` are for one in passing."""

    def __init__(self) -> None:
        self._current: Doctor | None = None

    def __call__(self, show: bool = True, file: Any = None) -> Doctor:
        """A doctor that prints its report when it stops, unless `show` is False."""
        return Doctor(show, file)

    def start(self, show: bool = True, file: Any = None) -> Doctor:
        """Begin to watch now, until `doctor.stop()`."""
        if self._current is not None:
            raise RuntimeError("doctor.start() was called before: doctor.stop() comes first")
        self._current = Doctor(show, file).start()
        return self._current

    def stop(self) -> Report:
        """End what `doctor.start()` began, and give the report."""
        if self._current is None:
            raise RuntimeError("doctor.stop() without doctor.start()")
        current, self._current = self._current, None
        return current.stop()


doctor = Door()


def watch_process() -> None:
    """TAPEGRAD_DOCTOR=1: watch from the import on, and report when the process ends."""
    watching = Doctor(show=False).start()

    def report() -> None:
        found = watching.stop()
        if found.steps or found.findings:  # quiet in processes that train nothing
            watching.print()

    atexit.register(report)
