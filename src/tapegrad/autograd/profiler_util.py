"""The results of a profiler: events, their averages, and the table and trace made of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "Interval"]

MAX_NAME = 55
WIDTH = 12


def _format_time(microseconds: float) -> str:
    """A time with the unit that suits it."""
    if microseconds >= 1e6:
        return f"{microseconds / 1e6:.3f}s"
    if microseconds >= 1e3:
        return f"{microseconds / 1e3:.3f}ms"
    return f"{microseconds:.3f}us"


def share(part: float, whole: float) -> str:
    return f"{100.0 * part / whole:.2f}%" if whole else "NaN"


class Interval:
    """From when to when, in microseconds."""

    def __init__(self, start: float, end: float) -> None:
        self.start = start
        self.end = end

    def elapsed_us(self) -> float:
        return self.end - self.start


class Times:
    """The times that events and their averages both have."""

    key: str
    count: int
    cpu_time_total: float  # microseconds
    self_cpu_time_total: float
    device_time_total = self_device_time_total = 0.0
    cpu_memory_usage = self_cpu_memory_usage = 0

    @property
    def cpu_time(self) -> float:
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def cpu_time_str(self) -> str:
        return _format_time(self.cpu_time)

    @property
    def cpu_time_total_str(self) -> str:
        return _format_time(self.cpu_time_total)

    @property
    def self_cpu_time_total_str(self) -> str:
        return _format_time(self.self_cpu_time_total)


class FunctionEvent(Times):
    """One op, node or block that ran."""

    count = 1

    def __init__(
        self,
        id: int,
        name: str,
        thread: int,
        start_us: float,
        end_us: float,
        input_shapes: list[Any] | None = None,
        self_us: float | None = None,
        node_id: int = -1,
        sequence_nr: int = -1,
    ) -> None:
        self.id = id
        self.node_id = node_id
        self.sequence_nr = sequence_nr
        self.name = name
        self.thread = thread
        self.time_range = Interval(start_us, end_us)
        self.self_cpu_time_total = end_us - start_us if self_us is None else self_us
        self.input_shapes = input_shapes or []
        self.cpu_children: list[FunctionEvent] = []
        self.cpu_parent: FunctionEvent | None = None

    @property
    def key(self) -> str:  # type: ignore[override]
        return self.name

    @property
    def cpu_time_total(self) -> float:  # type: ignore[override]
        return self.time_range.elapsed_us()

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent name={self.name} cpu_time={self.cpu_time_str} "
            f"self_cpu_time={self.self_cpu_time_total_str} thread={self.thread} "
            f"input_shapes={self.input_shapes}>"
        )


class FunctionEventAvg(Times):
    """All events of one name."""

    def __init__(self, key: str = "", input_shapes: list[Any] | None = None) -> None:
        self.key = key
        self.count = 0
        self.cpu_time_total = 0.0
        self.self_cpu_time_total = 0.0
        self.input_shapes = input_shapes or []

    def add(self, other: Times) -> FunctionEventAvg:
        self.key = self.key or getattr(other, "key", "")
        self.count += other.count
        self.cpu_time_total += other.cpu_time_total
        self.self_cpu_time_total += other.self_cpu_time_total
        return self

    __iadd__ = add

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} "
            f"cpu_time={self.cpu_time_str} input_shapes={self.input_shapes}>"
        )


class EventList(list[Any]):
    """Events, or averages of them."""

    def __init__(self, events: Iterable[Any] = (), **facts: Any) -> None:
        super().__init__(events)
        self.facts = facts

    @property
    def self_cpu_time_total(self) -> float:
        return float(sum(e.self_cpu_time_total for e in self))

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, **options: Any
    ) -> EventList:
        """One entry per name, or per name and shapes of the inputs."""
        found: dict[Any, FunctionEventAvg] = {}
        for event in self:
            shapes = event.input_shapes if group_by_input_shape else []
            # The steps of a schedule are numbered, and one entry here.
            name = "ProfilerStep*" if event.key.startswith("ProfilerStep#") else event.key
            found.setdefault((name, repr(shapes)), FunctionEventAvg(name, shapes)).add(event)
        return EventList(found.values())

    def total_average(self) -> FunctionEventAvg:
        """Everything as one entry."""
        total = FunctionEventAvg("Total")
        for event in self:
            total.add(event)
        return total

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = MAX_NAME,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """The events as text, longest first if `sort_by` names a time."""
        rows = list(self)
        if not rows:
            return ""
        if sort_by is not None:
            rows.sort(key=lambda e: getattr(e, sort_by), reverse=True)
        total = self.self_cpu_time_total
        shapes = any(e.input_shapes for e in rows)
        name_width = min(max(len(e.key) for e in rows) + 4, max_name_column_width)
        columns: list[tuple[str, int, Callable[[Any], str]]] = [
            ("Name", name_width, lambda e: shortened(e.key, name_width)),
            ("Self CPU %", WIDTH, lambda e: share(e.self_cpu_time_total, total)),
            ("Self CPU", WIDTH, lambda e: e.self_cpu_time_total_str),
            ("CPU total %", WIDTH, lambda e: share(e.cpu_time_total, total)),
            ("CPU total", WIDTH, lambda e: e.cpu_time_total_str),
            ("CPU time avg", WIDTH, lambda e: e.cpu_time_str),
            ("# of Calls", WIDTH, lambda e: str(e.count)),
        ]
        if shapes:
            longest = max(len(str(e.input_shapes)) for e in rows) + 4
            wide = min(longest, max_shapes_column_width)
            columns.append(("Input Shapes", wide, lambda e: str(e.input_shapes)[:wide]))
        rule = "".join("-" * width + "  " for _, width, _ in columns)
        head = "".join(title.rjust(width) + "  " for title, width, _ in columns)
        lines = [] if header is None else ["=" * len(rule), header]
        lines += [rule, head, rule]
        for event in rows[:row_limit]:
            if top_level_events_only and getattr(event, "cpu_parent", None) is not None:
                continue
            lines.append("".join(show(event).rjust(width) + "  " for _, width, show in columns))
        lines += [rule, f"Self CPU time total: {_format_time(total)}", ""]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.table()

    def export_chrome_trace(self, path: str | Path) -> None:
        """Write the events for chrome://tracing and Perfetto."""
        events = [
            {
                "ph": "X",
                "cat": "cpu_op",
                "name": e.name,
                "pid": 0,
                "tid": e.thread,
                "ts": e.time_range.start,
                "dur": e.time_range.elapsed_us(),
                "args": {"Input Dims": e.input_shapes},
            }
            for e in self
        ]
        Path(path).write_text(json.dumps({"schemaVersion": 1, **self.facts, "traceEvents": events}))


def shortened(name: str, width: int) -> str:
    return name if len(name) <= width - 3 else name[: width - 3] + "..."
