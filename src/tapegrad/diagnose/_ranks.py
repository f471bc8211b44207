"""`distributed()`: what each rank did when: computing, communicating, waiting, as lanes of text.

    with torch.diagnose.distributed() as lanes:
        train_one_step()
    print(lanes)

All ranks enter and leave it together. Times of ranks on one machine come from one clock; those of
several machines are laid side by side at the end of the block.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, NamedTuple

from ..distributed import _groups, _timeline
from ..distributed._barriers import barrier
from ..distributed._objects import all_gather_object

WIDTH = 72
SHOWN = 4  # steps
COMPUTE, HIDDEN, WAIT = "█", "▒", "·"


class Step(NamedTuple):
    """Seconds of one step, up to the end of its reduced backward pass; of each bucket its way."""

    total: float
    computing: float
    communicating: float
    hidden: float
    waiting: float
    buckets: dict[str, float]


class Lane(NamedTuple):
    """Seconds of one rank. `hidden`: communicating while computing."""

    rank: int
    total: float
    computing: float
    communicating: float
    hidden: float
    waiting: float
    picture: str
    buckets: dict[str, float]
    steps: list[Step]


class distributed:
    """Watch what the ranks do; the result prints as lanes, `data` has the numbers.

    >>> with torch.diagnose.distributed() as lanes:
    ...     x = ones(2) + 1
    >>> len(lanes.data), lanes.slowest is None
    (1, True)
    """

    def __init__(self) -> None:
        self.lanes: list[Lane] = []

    def __enter__(self) -> distributed:
        _timeline.watch(True)
        self.start = time.perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        events = _timeline.watch(False)
        end = time.perf_counter()
        if kind is not None:
            return
        every: list[Any] = [(self.start, end, events)]
        if _groups.is_initialized() and _groups.default_group().size() > 1:
            barrier()
            every = [None] * _groups.default_group().size()
            all_gather_object(every, (self.start, end, events))
        self.lanes = [lane(rank, *found) for rank, found in enumerate(every)]

    @property
    def slowest(self) -> int | None:
        """The rank that the others wait for: the one that waits least; None if nobody waits."""
        if len(self.lanes) < 2:
            return None
        least = min(self.lanes, key=lambda one: one.waiting)
        most = max(one.waiting for one in self.lanes)
        return least.rank if most > 0.02 * least.total and most > 1.5 * least.waiting else None

    @property
    def data(self) -> list[dict[str, Any]]:
        return [
            {**one._asdict(), "steps": [step._asdict() for step in one.steps]} for one in self.lanes
        ]

    def __repr__(self) -> str:
        lines = [f"{COMPUTE} computing   {HIDDEN} communicating meanwhile   {WAIT} waiting"]
        for one in self.lanes:
            lines.append(f"rank {one.rank:<3} {one.picture}  {one.total * 1e3:.1f} ms")
        for one in self.lanes:
            lines.append(f"rank {one.rank:<3} {spelled(one)}")
            for number, step in enumerate(one.steps[:SHOWN]):
                lines.append(f"  step {number:<3}{spelled(step)}")
                ways = [f"{name[7:]} {t * 1e3:.1f}" for name, t in step.buckets.items()]
                if ways:
                    lines.append(f"          buckets, from start to end in ms: {', '.join(ways)}")
            if len(one.steps) > SHOWN:
                lines.append(f"  {len(one.steps) - SHOWN} more steps: .data has them")
        if self.slowest is not None:
            lines.append(f"the others wait for rank {self.slowest}")
        return "\n".join(lines)


def spelled(one: Lane | Step) -> str:
    shares = ("computing", one.computing), ("hidden", one.hidden), ("waiting", one.waiting)
    return "  ".join(f"{name} {share * 1e3:.1f} ms" for name, share in shares)


def merged(spans: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Intervals of time with overlapping ones joined."""
    out: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if out and start <= out[-1][1]:
            out[-1] = out[-1][0], max(end, out[-1][1])
        else:
            out.append((start, end))
    return out


def length(spans: list[tuple[float, float]]) -> float:
    return sum(end - start for start, end in spans)


def inside(at: float, spans: list[tuple[float, float]]) -> bool:
    return any(start <= at < end for start, end in spans)


def lane(rank: int, start: float, end: float, events: list[_timeline.Event]) -> Lane:
    """The lane of one rank from its events."""
    total, computing, moving, hidden, waiting, _ = measured(start, end, events)
    waits = merged([(e.start, e.end) for e in events if e.what == "wait"])
    moves = merged([(e.start, e.end) for e in events if e.what == "communicate"])
    cells = []
    for i in range(WIDTH):
        at = start + (i + 0.5) * total / WIDTH
        cells.append(WAIT if inside(at, waits) else HIDDEN if inside(at, moves) else COMPUTE)
    buckets: dict[str, float] = {}
    for e in events:
        if e.what == "communicate":
            buckets[e.name] = buckets.get(e.name, 0.0) + e.end - e.start
    ends = [e.end for e in events if e.what == "reduced"]
    steps = [measured(a, b, events) for a, b in zip([start, *ends], ends, strict=False)]
    picture = "".join(cells)
    return Lane(rank, total, computing, moving, hidden, waiting, picture, buckets, steps)


def measured(start: float, end: float, events: list[_timeline.Event]) -> Step:
    """How a rank spent the time between `start` and `end`."""

    def spans(what: str) -> list[tuple[float, float]]:
        found = [(max(e.start, start), min(e.end, end)) for e in events if e.what == what]
        return merged([(a, b) for a, b in found if a < b])

    waits, moves = spans("wait"), spans("communicate")
    buckets: dict[str, float] = {}
    for e in events:
        if e.what == "communicate" and e.name.startswith("bucket ") and start < e.end <= end:
            buckets[e.name] = buckets.get(e.name, 0.0) + e.end - e.start
    waiting = length(waits)
    hidden = length(merged([*waits, *moves])) - waiting
    return Step(end - start, end - start - waiting, length(moves), hidden, waiting, buckets)
