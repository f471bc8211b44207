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
COMPUTE, HIDDEN, WAIT = "█", "▒", "·"


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


class distributed:
    """Watch what the ranks do; the result prints as lanes, `data` has the numbers."""

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
        return [one._asdict() for one in self.lanes]

    def __repr__(self) -> str:
        lines = [f"{COMPUTE} computing   {HIDDEN} communicating meanwhile   {WAIT} waiting"]
        for one in self.lanes:
            lines.append(f"rank {one.rank:<3} {one.picture}  {one.total * 1e3:.1f} ms")
        for one in self.lanes:
            shares = [one.computing, one.hidden, one.waiting]
            spelled = "  ".join(
                f"{name} {share * 1e3:.1f} ms"
                for name, share in zip(("computing", "hidden", "waiting"), shares, strict=True)
            )
            lines.append(f"rank {one.rank:<3} {spelled}")
        if self.slowest is not None:
            lines.append(f"the others wait for rank {self.slowest}")
        return "\n".join(lines)


def merged(spans: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The same stretches of time without overlaps."""
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
    total = end - start
    waits = merged([(e.start, e.end) for e in events if e.what == "wait"])
    moves = merged([(e.start, e.end) for e in events if e.what == "communicate"])
    both = merged([*waits, *moves])
    hidden = length(both) - length(waits)
    cells = []
    for i in range(WIDTH):
        at = start + (i + 0.5) * total / WIDTH
        cells.append(WAIT if inside(at, waits) else HIDDEN if inside(at, moves) else COMPUTE)
    buckets: dict[str, float] = {}
    for e in events:
        if e.what == "communicate":
            buckets[e.name] = buckets.get(e.name, 0.0) + e.end - e.start
    waiting = length(waits)
    return Lane(
        rank, total, total - waiting, length(moves), hidden, waiting, "".join(cells), buckets
    )
