"""Errors for ranks that disagree (E14), die, fail, end early or are too late."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ..errors.evidence import here
from ..errors.report import attach
from ._board import ENDED, FAILED

if TYPE_CHECKING:
    from ._groups import ProcessGroup
    from ._work import Work


class DistError(RuntimeError):
    """An error of the processes' communication."""

    __module__ = "tapegrad.distributed"


class DistBackendError(DistError):
    """The engine below failed, or a process is gone."""

    __module__ = "tapegrad.distributed"


class DistNetworkError(DistError):
    """The network failed."""

    __module__ = "tapegrad.distributed"


class DistStoreError(DistError):
    """The key-value store failed."""

    __module__ = "tapegrad.distributed"


class DistQueueEmptyError(DistStoreError):
    """Nothing in a queue of the store."""

    __module__ = "tapegrad.distributed"


def disagreement(mine: tuple[int, str], theirs: tuple[int, str], count: int) -> RuntimeError:
    """E14: two ranks run different collectives under the same number. (rank, note) of each."""
    (rank, note), (other, other_note) = sorted((mine, theirs))
    error = RuntimeError(
        "Detected mismatch between collectives on ranks. "
        f"Rank {rank} is running collective: {spell(note)}, "
        f"but Rank {other} is running collective: {spell(other_note)}."
    )
    what, line = note.split("\n")
    other_what, other_line = other_note.split("\n")
    attach(
        error,
        "E14",
        what=f"collective number {count} of the group is not the same on all ranks",
        details=[
            (f"rank {rank}", f"{line} {what}"),
            (f"rank {other}", f"{other_line} {other_what}"),
        ],
        causes=[("noticed", "at", here())],
        fixes=[
            "call the same collectives in the same order, with equal shapes and dtypes, everywhere",
            "look for an `if rank == 0:` around one of them, or a loop that is longer on one rank",
        ],
        ranks={rank: note, other: other_note},
        collective=count,
    )
    return error


def spell(note: str) -> str:
    return note.split("\n")[0]


def gone(group: ProcessGroup, rank: int, work: Work, state: int, told: str) -> DistBackendError:
    """A rank died, failed or ended, and will not take part in what this rank waits for."""
    last = group.last_note(rank)
    happened = {
        FAILED: f"rank {rank} failed: {told}",
        ENDED: f"rank {rank} has ended without taking part",
    }.get(state, f"rank {rank} died: {told or 'its process is gone'}")
    error = DistBackendError(f"Connection closed by peer: {happened}")
    lines = [("waiting", f"rank {group.my_global_rank} in {work.kind}")]
    if last:
        what, line = last.split("\n")
        lines.insert(0, ("last", f"rank {rank} was last seen at {line} in {what}"))
    attach(
        error,
        "E14",
        what=happened,
        details=lines,
        causes=[("noticed", "at", here())],
        fixes=[
            f"read what rank {rank} printed before its end",
            "python -m tapegrad torchrun --max-restarts=3 starts all ranks again, from your last "
            "checkpoint",
        ],
        dead=rank,
        state={FAILED: "failed", ENDED: "ended"}.get(state, "died"),
    )
    return error


def timed_out(work: Work, timeout: timedelta) -> DistBackendError:
    group = work.group
    milliseconds = int(timeout.total_seconds() * 1000)
    error = DistBackendError(
        f"Timed out waiting {milliseconds}ms for {work.kind} operation to complete"
    )
    late = group.late_ranks(work)
    details: list[tuple[str, str]] = []
    for rank in late[:4]:
        last = group.last_note(rank)
        seen = "no collective yet" if not last else " ".join(reversed(last.split("\n")))
        details.append((f"rank {rank}", seen))
    who = ", ".join(str(rank) for rank in late)
    attach(
        error,
        "E14",
        what=f"rank {who} did not come to {work.kind}" if late else f"{work.kind} did not end",
        details=details,
        causes=[("noticed", "at", here())],
        fixes=[
            "every rank has to call it: look for an `if rank == 0:` around it",
            "a rank may just be slow: init_process_group(timeout=timedelta(minutes=30))",
        ],
        late=late,
    )
    return error


def told_of(error: BaseException) -> str:
    """An exception in one line, for the others."""
    text = str(error).split("\n")[0]
    return f"{type(error).__name__}: {text}"[:300]


def not_a_group(group: Any) -> ValueError:
    return ValueError(f"Expecting a ProcessGroup, but got a {type(group)}.")
