"""What the ranks of one machine tell each other without a message: a page each, in shared memory.

The memory is a window of MPI's. On its page a rank notes every collective before it starts it: its
number, kind, shape, dtype and the user's line. Whoever waits reads the pages of the others, so that
ranks that disagree, failed or ended are noticed and named while MPI itself would wait for ever.
"""

from __future__ import annotations

import os
import select
import socket
import struct
from typing import Any

RUNNING, DISAGREED, FAILED, ENDED = range(4)
STATES = ("is running", "found a disagreement", "failed", "has ended")

HEAD = 512  # bytes: state, collective, text
NOTE = 512  # bytes of one note: mark, collective, text
NOTES = 32  # a rank may be this many collectives ahead and still be compared
TEXT = NOTE - 18


class Board:
    """The pages of the ranks of one communicator that are on this machine."""

    def __init__(self, MPI: Any, comm: Any) -> None:
        node = comm.Split_type(MPI.COMM_TYPE_SHARED)
        self.window = MPI.Win.Allocate_shared(HEAD + NOTES * NOTE, 1, comm=node)
        ranks = node.allgather(comm.rank)
        self.pages: dict[int, memoryview] = {
            rank: memoryview(self.window.Shared_query(place)[0]).cast("B")
            for place, rank in enumerate(ranks)
        }
        self.rank: int = comm.rank
        self.mine = self.pages[comm.rank]
        self.others = [(rank, page) for rank, page in self.pages.items() if rank != comm.rank]
        self.count = 0
        self.mine[:] = bytes(len(self.mine))
        node.Barrier()
        node.Free()

    def note(self, mark: int, text: bytes) -> int:
        """Say which collective comes next; its number. The number is written last."""
        self.count = count = self.count + 1
        at = HEAD + count % NOTES * NOTE
        page = self.mine
        struct.pack_into("<H", page, at + 16, len(text))
        page[at + 18 : at + 18 + len(text)] = text
        struct.pack_into("<QQ", page, at, mark, count)
        return count

    def differing(self, count: int, mark: int) -> int | None:
        """A rank that notes something else under this number."""
        at = HEAD + count % NOTES * NOTE
        for rank, page in self.others:
            found, number = struct.unpack_from("<QQ", page, at)
            if number == count and found != mark:
                return rank
        return None

    def text(self, rank: int, count: int) -> str:
        """What a rank noted under this number; "" if it is not there (any more)."""
        page = self.pages.get(rank)
        if page is None:
            return ""
        at = HEAD + count % NOTES * NOTE
        _, number, size = struct.unpack_from("<QQH", page, at)
        return bytes(page[at + 18 : at + 18 + size]).decode("utf-8", "replace") * (number == count)

    def last(self, rank: int) -> tuple[int, str]:
        """The last collective that a rank noted: its number and text."""
        page = self.pages.get(rank)
        if page is None:
            return 0, ""
        numbers = (struct.unpack_from("<Q", page, HEAD + i * NOTE + 8)[0] for i in range(NOTES))
        count = max(numbers)
        return count, self.text(rank, count) if count else ""

    def leave(self, state: int, count: int, text: str) -> None:
        """Tell the others that this rank takes part no more, and why."""
        told = text.encode()[: HEAD - 18]
        struct.pack_into("<H", self.mine, 16, len(told))
        self.mine[18 : 18 + len(told)] = told
        struct.pack_into("<QQ", self.mine, 0, state, count)

    def state(self, rank: int) -> tuple[int, int, str]:
        """State, collective and text of a rank's farewell."""
        page = self.pages.get(rank)
        if page is None:
            return RUNNING, 0, ""
        state, count, size = struct.unpack_from("<QQH", page, 0)
        return state, count, bytes(page[18 : 18 + size]).decode("utf-8", "replace")


class Pulse:
    """Whether the other ranks of this machine are alive: their processes, held by pidfd."""

    def __init__(self, comm: Any) -> None:
        everyone = comm.allgather((socket.gethostname(), os.getpid()))
        host = everyone[comm.rank][0]
        self.pids = {
            rank: pid
            for rank, (where, pid) in enumerate(everyone)
            if where == host and rank != comm.rank
        }
        self.hosts = [where for where, _ in everyone]
        self.poll: Any = None
        if hasattr(os, "pidfd_open"):
            try:
                self.ranks = {os.pidfd_open(pid): rank for rank, pid in self.pids.items()}
                self.poll = select.poll()
                for descriptor in self.ranks:
                    self.poll.register(descriptor, select.POLLIN)
            except OSError:  # a kernel without pidfd
                self.poll = None

    def dead(self) -> list[int]:
        """The ranks whose processes are gone."""
        if self.poll is not None:
            return sorted(self.ranks[descriptor] for descriptor, _ in self.poll.poll(0))
        return [rank for rank, pid in self.pids.items() if not exists(pid)]


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
