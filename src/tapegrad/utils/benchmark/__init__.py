"""Timing of small pieces of code: torch.utils.benchmark."""

from __future__ import annotations

import dataclasses
import statistics
import timeit
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import tapegrad as tg

from ...errors.absent import absent_class

__all__ = ["Compare", "Fuzzer", "Measurement", "Timer", "select_unit", "timer"]

timer = timeit.default_timer
Fuzzer = absent_class("torch.utils.benchmark.Fuzzer", "a loop over the shapes that matter")

UNITS = (("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0))
IN_WORDS = {"ns": "nanosecond", "us": "microsecond", "ms": "millisecond", "s": "second"}


def select_unit(t: float) -> tuple[str, float]:
    """The unit in which a time is read best, and how long it is."""
    return next(((name, size) for name, size in reversed(UNITS) if t >= size), UNITS[0])


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = tg.get_num_threads()
    tg.set_num_threads(count)
    try:
        yield
    finally:
        tg.set_num_threads(before)


@dataclasses.dataclass
class Measurement:
    """Times of several runs of the same code; `times` are those of one execution."""

    number_per_run: int
    raw_times: list[float]
    stmt: str
    setup: str = "pass"
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def times(self) -> list[float]:
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.times)

    @property
    def median(self) -> float:
        return statistics.median(self.times)

    @property
    def iqr(self) -> float:
        """How far the quarters are apart."""
        times = self.times
        if len(times) < 2:
            return 0.0
        low, _, high = statistics.quantiles(times, n=4, method="inclusive")
        return high - low

    @property
    def has_warnings(self) -> bool:
        return len(self.times) < 4 or self.iqr > 0.1 * self.median

    @property
    def title(self) -> str:
        title = self.label or f"[{self.stmt}]"
        return f"{title}: {self.sub_label}" if self.sub_label else title

    @property
    def as_row_name(self) -> str:
        return self.sub_label or self.stmt or "[Unknown]"

    def __repr__(self) -> str:
        unit, size = select_unit(self.median)
        count = len(self.times)
        runs = f"{self.number_per_run} run{'s' if self.number_per_run > 1 else ''}"
        lines = [self.title, self.description, self.setup != "pass" and f"setup: {self.setup}"]
        lines += [f"  {self.median / size:.2f} {unit}"]
        if count > 1:
            lines.append(f"  IQR: {self.iqr / size:.2f} {unit}")
        s = "s" if count > 1 else ""
        t = "s" if self.num_threads > 1 else ""
        lines.append(f"  {count} measurement{s}, {runs} {'per measurement' if count > 1 else ''}, "
                     f"{self.num_threads} thread{t}")  # fmt: skip
        return "\n".join([line for line in lines if line])


class Timer:
    """Times a statement, on as many threads as it is told.

    >>> from tapegrad.utils.benchmark import Timer
    >>> Timer("x.sum()", "x = torch.ones(3)").timeit(5).number_per_run
    5
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Any = "python",
    ) -> None:
        if str(language).lower() not in ("python", "py", "language.python"):
            raise NotImplementedError("only Python can be timed here: there is no C++ of PyTorch's")
        names = {"torch": tg, **(globals or {})}
        self._timer = timeit.Timer(stmt, setup, timer, globals=names)
        self._facts = (stmt, setup, label, sub_label, description, env, num_threads)
        self._threads = num_threads

    def _run(self, number: int) -> float:
        with threads(self._threads):
            return self._timer.timeit(number)

    def _measured(self, number: int, times: list[float]) -> Measurement:
        return Measurement(number, times, *self._facts)

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """The time of this many executions, after a short warm-up."""
        self._run(max(number // 100, 2))
        return self._measured(number, [self._run(number)])

    def _enough(self, min_run_time: float) -> int:
        """How many executions make the clock's own time small."""
        number, goal = 1, max(min_run_time / 1000, 1e-5)
        while (took := self._run(number)) < goal and took < min_run_time:
            number *= 10
        return number

    def blocked_autorange(self, callback: Any = None, min_run_time: float = 0.2) -> Measurement:
        """Measurements of many executions each, for at least `min_run_time` seconds."""
        number, times = self._enough(min_run_time), list[float]()
        while not times or sum(times) < min_run_time:
            times.append(self._run(number))
            if callback is not None:
                callback(number, times[-1])
        return self._measured(number, times)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Any = None,
    ) -> Measurement:
        """Measurements until they agree within `threshold`, or the time is up."""
        number, times = self._enough(min_run_time), list[float]()
        while sum(times) < max_run_time:
            times.append(self._run(number))
            if callback is not None:
                callback(number, times[-1])
            made = self._measured(number, times)
            if len(times) > 3 and sum(times) >= min_run_time:
                if made.iqr / made.median < threshold:
                    break
        return self._measured(number, times)


class Compare:
    """A table of measurements: a row for each statement, a column for each description."""

    def __init__(self, results: list[Measurement]) -> None:
        self._results = list(results)

    def extend_results(self, results: list[Measurement]) -> None:
        self._results += results

    def trim_significant_figures(self) -> None:
        """Accepted; digits that say nothing are not printed anyway."""

    def colorize(self, rowwise: bool = False) -> None:
        """Accepted; the table has no colours."""

    def highlight_warnings(self) -> None:
        """Accepted."""

    def __str__(self) -> str:
        best = min([m.median for m in self._results])
        unit, size = select_unit(best)
        columns = list(dict.fromkeys([m.description or "" for m in self._results]))
        cells = {
            (m.num_threads, m.as_row_name, m.description or ""): f"{m.median / size:.1f}"
            for m in self._results
        }
        rows = list(dict.fromkeys([key[:2] for key in cells]))
        name_width = max([len(name) for _, name in rows]) + 6
        widths = [max([5, len(c), *map(len, cells.values())]) for c in columns]

        def line(name: str, values: list[str]) -> str:
            padded = [v.rjust(w) for v, w in zip(values, widths, strict=True)]
            return "  |  ".join([name.rjust(name_width), *padded])

        title = self._results[0].label or self._results[0].stmt
        head = line("", columns)
        lines = [f"[ {title} ]".center(len(head), "-"), head]
        last = None
        for count, name in rows:
            if count != last:
                lines.append(f"{count} threads: ".ljust(len(head), "-"))
                last = count
            lines.append(line(name, [cells.get((count, name, c), "") for c in columns]))
        return "\n".join([*lines, "", f"Times are in {IN_WORDS[unit]}s ({unit}).", ""])

    def print(self) -> None:
        """Write the table."""
        print(str(self))
