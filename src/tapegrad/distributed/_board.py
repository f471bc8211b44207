"""Shared memory of the ranks on one machine: each writes a page that all can read without messages.

The memory is a window of MPI's. On its page a rank notes every collective before it starts it: its
number, kind, shape, dtype and the user's line. Whoever waits reads the pages of the others, so that
ranks that disagree, failed or ended are noticed and named while MPI itself would wait for ever.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
from typing import Any

RUNNING, FAILED, ENDED, DIED = range(4)

HEAD = 512  # bytes: state, length of its text, text; a disagreement: collective, rank
DISAGREED = HEAD // 8 - 2  # the word where the latter begins
NOTE = 512  # bytes of one note: mark, collective, length of the text, text
NOTES = 32  # a rank may be this many collectives ahead and still be compared


class Board:
    """The pages of the ranks of one communicator that are on this machine.

    Numbers are written whole, and last; who reads one of them looks at the rest only afterwards.
    """

    def __init__(self, MPI: Any, comm: Any) -> None:
        node = comm.Split_type(MPI.COMM_TYPE_SHARED)
        self.window = MPI.Win.Allocate_shared(HEAD + NOTES * NOTE, 1, comm=node)
        ranks = node.allgather(comm.rank)
        self.pages: dict[int, memoryview] = {
            rank: memoryview(self.window.Shared_query(place)[0]).cast("B")
            for place, rank in enumerate(ranks)
        }
        self.words = {rank: page.cast("Q") for rank, page in self.pages.items()}
        self.rank: int = comm.rank
        self.mine, self.my_words = self.pages[comm.rank], self.words[comm.rank]
        self.others = [(rank, words) for rank, words in self.words.items() if rank != comm.rank]
        self.count = 0
        self.mine[:] = bytes(len(self.mine))
        node.Barrier()
        forget_names()
        node.Barrier()
        node.Free()

    def free(self) -> None:
        """Give the memory back; all ranks of the communicator do so at once."""
        for view in (*self.words.values(), *self.pages.values()):
            view.release()
        self.window.Free()

    def note(self, mark: int, text: bytes) -> int:
        """Say which collective comes next; its number."""
        self.count = count = self.count + 1
        at = HEAD + count % NOTES * NOTE
        words, word = self.my_words, at // 8
        words[word + 1] = 0  # nothing is here while it changes
        self.mine[at + 24 : at + 24 + len(text)] = text
        words[word + 2] = len(text)
        words[word] = mark
        words[word + 1] = count
        return count

    def differing(self, count: int, mark: int) -> int | None:
        """A rank that notes something else under this number."""
        word = (HEAD + count % NOTES * NOTE) // 8
        for rank, words in self.others:
            if words[word + 1] == count and words[word] != mark and words[word + 1] == count:
                return rank
        return None

    def text(self, rank: int, count: int) -> str:
        """The text that a rank noted under this number; "" if it is not there (any more)."""
        words = self.words.get(rank)
        at = HEAD + count % NOTES * NOTE
        if words is None or words[at // 8 + 1] != count:
            return ""
        size = words[at // 8 + 2]
        return bytes(self.pages[rank][at + 24 : at + 24 + size]).decode("utf-8", "replace")

    def last(self, rank: int) -> tuple[int, str]:
        """The last collective that a rank noted: its number and text."""
        words = self.words.get(rank)
        if words is None:
            return 0, ""
        count = max(words[(HEAD + i * NOTE) // 8 + 1] for i in range(NOTES))
        return count, self.text(rank, count) if count else ""

    def disagree(self, count: int, other: int) -> None:
        """Tell the others that a rank noted something else than this one under a number."""
        self.my_words[DISAGREED + 1] = other
        self.my_words[DISAGREED] = count

    def disagreement(self, rank: int) -> tuple[int, int] | None:
        """The collective about which a rank disagreed, and with which other one."""
        words = self.words[rank]
        count = words[DISAGREED]
        return (count, words[DISAGREED + 1]) if count else None

    def leave(self, state: int, text: str) -> None:
        """Tell the others that this rank takes part no more, and why."""
        told = text.encode()[: DISAGREED * 8 - 16]
        self.mine[16 : 16 + len(told)] = told
        self.my_words[1] = len(told)
        self.my_words[0] = state

    def state(self, rank: int) -> tuple[int, str]:
        """State and text of a rank's farewell."""
        words = self.words.get(rank)
        state = RUNNING if words is None else words[0]
        if words is None or state == RUNNING:
            return RUNNING, ""
        told = bytes(self.pages[rank][16 : 16 + words[1]])
        return state, told.decode("utf-8", "replace")


def forget_names() -> None:
    """Remove the files of MPI's shared memory once all have opened them.

    The memory stays; a rank that is killed leaves no file behind.
    """
    try:
        with open("/proc/self/maps") as maps:
            names = {line.split()[-1] for line in maps if "/dev/shm/mpich" in line}
    except OSError:
        return
    for name in names:
        try:
            os.unlink(name)
        except OSError:
            pass


class Pulse:
    """Whether the other ranks are alive.

    Those of this machine are processes, held by pidfd; of the others torchrun's desk tells.
    """

    def __init__(self, comm: Any, board: Board, epoch: int) -> None:
        self.desk = AtDesk(epoch)
        everyone = comm.allgather(os.getpid())
        self.size = len(everyone)
        self.pids = {rank: everyone[rank] for rank, _ in board.others}
        self.poll: Any = None
        if hasattr(os, "pidfd_open"):
            try:
                self.ranks = {os.pidfd_open(pid): rank for rank, pid in self.pids.items()}
                self.poll = select.poll()
                for descriptor in self.ranks:
                    self.poll.register(descriptor, select.POLLIN)
            except OSError:  # a kernel without pidfd
                self.poll = None

    def told(self, rank: int, patience: float = 0.0) -> tuple[int, str]:
        """State and last words of a rank on another machine."""
        return (RUNNING, "") if rank in self.pids else self.desk.told(rank, patience)

    def dead(self) -> list[int]:
        """The ranks whose processes are gone."""
        if self.poll is not None:
            return sorted(self.ranks[descriptor] for descriptor, _ in self.poll.poll(0))
        return [rank for rank, pid in self.pids.items() if not exists(pid)]


class AtDesk:
    """The pipes to and from the desk of torchrun; nothing is heard where it did not start us."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch  # which world of this process: farewells of those before are over
        self.heard: dict[int, tuple[int, str, float]] = {}  # state, text, when
        self.rest = b""
        self.hears = self.says = -1
        parent, _, pipes = os.environ.get("TAPEGRAD_PIPES", "").partition(":")
        if parent == str(os.getppid()):
            self.hears, self.says = (int(pipe) for pipe in pipes.split(":"))
            os.set_blocking(self.hears, False)

    def say(self, rank: int, state: int, text: str) -> None:
        """Tell the ranks of other machines that this one takes part no more."""
        self.write({"rank": rank, "state": state, "text": text, "epoch": self.epoch})

    def write(self, note: dict[str, Any]) -> None:
        if self.says >= 0:
            try:
                os.write(self.says, json.dumps(note).encode() + b"\n")
            except OSError:
                pass

    def told(self, rank: int, patience: float) -> tuple[int, str]:
        """State and last words of a rank on another machine. An orderly end counts after `patience`
        seconds: earlier messages may still arrive.
        """
        self.listen()
        state, text, when = self.heard.get(rank, (RUNNING, "", 0.0))
        if state == ENDED and time.monotonic() - when < patience:
            return RUNNING, ""
        return state, text

    def listen(self) -> None:
        if self.hears < 0:
            return
        try:
            got = os.read(self.hears, 1 << 16)
        except BlockingIOError:
            return
        *lines, self.rest = (self.rest + got).split(b"\n")
        for line in lines:
            note = json.loads(line)
            if note.get("epoch", self.epoch) != self.epoch or "joined" in note:
                continue
            if "state" in note:
                found = note["state"], note["text"]
            elif note["status"]:
                found = DIED, ended_by(note["status"])
            else:
                found = ENDED, ""
            # Its own words say more than those about it.
            self.heard.setdefault(note["rank"], (*found, time.monotonic()))


def ended_by(status: int) -> str:
    """`was killed by SIGKILL (signal 9)`, `ended with status 1`"""
    if status >= 0:
        return f"ended with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = "a signal"
    return f"was killed by {name} (signal {-status})"


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
