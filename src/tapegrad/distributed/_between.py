"""Fingerprints between machines, which share no memory.

On each machine of a group one rank, the lowest, sends the note of every collective to its like on
the next machine, in a ring: if they are not all equal, some two neighbours differ. The ranks of a
machine are compared through its board. A note is a small message of its own, beside the collective:
it arrives even where the collective cannot.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ._board import NOTE, Board


class Between:
    """The notes of the machine before, and ours for the one behind."""

    def __init__(self, MPI: Any, comm: Any, board: Board) -> None:
        first = min(board.pages)
        leaders = sorted(set(comm.allgather(first)))
        self.several = len(leaders) > 1
        if not self.several:
            return
        self.MPI, self.comm = MPI, comm.Dup()
        self.leads = comm.rank == first
        place = leaders.index(first)
        self.before, self.behind = leaders[place - 1], leaders[(place + 1) % len(leaders)]
        self.own: dict[int, tuple[int, bytes]] = {}  # of which the other's has not come yet
        self.theirs: dict[int, tuple[int, bytes]] = {}
        self.sent: list[Any] = []
        self.received = np.zeros(NOTE, np.uint8)
        self.request: Any = None

    def note(self, count: int, mark: int, text: bytes) -> None:
        """Send the note of a collective on."""
        if not self.leads:
            return
        packet = np.zeros(NOTE, np.uint8)
        packet[:24].view(np.uint64)[:] = count, mark, len(text)
        packet[24 : 24 + len(text)] = np.frombuffer(text, np.uint8)
        self.sent = [(request, kept) for request, kept in self.sent if not request.Test()]
        self.sent.append((self.comm.Isend([packet, self.MPI.BYTE], self.behind), packet))
        self.own[count] = mark, text

    def differing(self) -> tuple[int, int, bytes, bytes] | None:
        """(number, rank, its note, ours) where the machine before runs something else."""
        if not self.leads:
            return None
        self.take()
        for count in self.own.keys() & self.theirs.keys():
            mark, text = self.own.pop(count)
            other_mark, other = self.theirs.pop(count)
            if mark != other_mark:
                return count, self.before, other, text
        return None

    def take(self) -> None:
        """Receive what has come."""
        while True:
            if self.request is None:
                self.request = self.comm.Irecv([self.received, self.MPI.BYTE], self.before)
            if not self.request.Test():
                return
            self.request = None
            count, mark, size = (int(n) for n in self.received[:24].view(np.uint64))
            self.theirs[count] = mark, self.received[24 : 24 + size].tobytes()

    def close(self) -> None:
        if self.several and self.request is not None:
            self.request.Cancel()
            self.request.Wait()
            self.request = None

    def free(self) -> None:
        self.close()
        if self.several:
            self.comm.Free()
