"""The world of this process, all its groups, and how it leaves: nobody is left waiting."""

from __future__ import annotations

import atexit
import sys
import time
from typing import TYPE_CHECKING, Any

from . import _errors
from ._board import ENDED, FAILED, RUNNING, Board, Pulse
from ._engines import load_mpi

if TYPE_CHECKING:
    from ._groups import ProcessGroup


class World:
    """The default group, and all others by name."""

    group: ProcessGroup | None = None
    pulse: Pulse | None = None
    groups: dict[str, ProcessGroup] = {}
    made = 0  # groups so far, members or not: their names have to agree
    epoch = 0  # how many worlds there were
    over: dict[str, ProcessGroup] = {}  # groups that were destroyed here, and not yet everywhere
    watched = False  # the end of this process
    failed = False  # by an exception that nobody caught
    last_board: Board | None = None  # of a group that is over


WORLD = World()


def watch_the_end() -> None:
    """When this process fails or ends, the others are told."""
    if WORLD.watched:
        return
    WORLD.watched = True
    shown = sys.excepthook

    def tell(kind: Any, error: Any, trace: Any) -> None:
        leave(FAILED, _errors.told_of(error))
        WORLD.failed = True
        shown(kind, error, trace)

    sys.excepthook = tell
    atexit.register(end_mpi)


def say_goodbye() -> None:
    """Note the end of this rank for those that still wait for it."""
    world = WORLD.group
    if world is not None and world.board is not None and not WORLD.failed:
        leave(ENDED, "")
        WORLD.last_board = world.board
        for group in WORLD.groups.values():
            if group.between is not None:
                group.between.close()


def leave(state: int, text: str) -> None:
    """Tell all ranks that this one takes part no more."""
    world = WORLD.group
    if world is not None and world.board is not None and WORLD.pulse is not None:
        world.board.leave(state, text)
        WORLD.pulse.desk.say(world.my_global_rank, state, text)


def state_of(rank: int, board: Board, pulse: Pulse) -> int:
    """How a rank of the world ended, as far as this one knows."""
    return board.state(rank)[0] if rank in board.words else pulse.told(rank)[0]


def end_mpi() -> None:
    """At the end of the process: end MPI when all others came to theirs; sleep until then."""
    say_goodbye()
    board, pulse = WORLD.last_board, WORLD.pulse
    if WORLD.failed or board is None or pulse is None:
        return
    ranks = [rank for rank, _ in board.others]
    if pulse.desk.hears >= 0:
        ranks = [rank for rank in range(pulse.size) if rank != board.rank]
    while any(state_of(rank, board, pulse) == RUNNING for rank in ranks):
        if pulse.dead():
            return
        time.sleep(0.002)
    if all(state_of(rank, board, pulse) == ENDED for rank in ranks):
        load_mpi().Finalize()
