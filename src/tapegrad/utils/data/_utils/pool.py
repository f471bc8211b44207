"""The worker processes of a loader, seen from the loader."""

from __future__ import annotations

import os
import pickle
import signal
import time
from collections.abc import Iterable
from multiprocessing import util
from multiprocessing.connection import Connection, wait
from typing import Any

from ....core.warned import warn
from .transfer import hang_up, receive
from .worker import MP_STATUS_CHECK_INTERVAL, Job, _worker_loop

PICKLE_WARNING = (
    "Got pickle error when attempting to start a worker Process. This might be because the worker "
    "Process arguments are not picklable. Python 3.14+ changed the multiprocessing start method in "
    "non-Mac POSIX platforms to 'forkserver', which requires the worker Process arguments to be "
    "picklable. You can also try multiprocessing.set_start_method('fork')."
)


class TimedOut(Exception):
    """No worker answered in time."""


class WorkerDied(Exception):
    """A worker ended without being asked to."""

    def __init__(self, worker: int) -> None:
        super().__init__(worker)
        self.worker = worker


class Pool:
    """Worker processes, each with a connection of its own.

    A worker answers its tasks in order. Nothing here runs in a thread: what a worker has ready
    waits in its connection until it is asked for.
    """

    def __init__(self, context: Any, job: Job) -> None:
        self.owner = os.getpid()
        self.processes: list[Any] = []
        self.connections: list[Connection] = []
        self.closed = False
        util.register_after_fork(self, Pool._leave)
        try:
            for worker in range(job.num_workers):
                self._start(context, job, worker)
        except BaseException:
            self.close()
            raise

    def _start(self, context: Any, job: Job, worker: int) -> None:
        ours, theirs = context.Pipe(duplex=True)
        self.connections.append(ours)
        process = context.Process(target=_worker_loop, args=(job, worker, theirs), daemon=True)
        try:
            process.start()
        except (TypeError, AttributeError, pickle.PicklingError):
            warn(PICKLE_WARNING)
            raise
        finally:
            theirs.close()
        self.processes.append(process)

    def _leave(self) -> None:
        """In a forked child, which has no part in this: only we shall hold our ends open."""
        self.closed = True
        for connection in self.connections:
            connection.close()

    def send(self, worker: int, task: Any) -> None:
        """Give a worker something to do. If it is dead, waiting for the answer will tell."""
        try:
            self.connections[worker].send(task)
        except OSError:
            pass

    def receive(self, workers: Iterable[int], timeout: float | None) -> tuple[int, list[Any]]:
        """Whose answer comes next, of these workers (the first named first), and its parts."""
        asked: dict[Any, int] = {self.connections[worker]: worker for worker in workers}
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            patience = MP_STATUS_CHECK_INTERVAL
            if deadline is not None:
                patience = min(patience, max(0.0, deadline - time.monotonic()))
            ready = wait(list(asked), patience)
            if ready:
                return self._read(asked[ready[0]])
            for connection, worker in asked.items():
                # Somebody may hold its end open without it: then only this tells.
                if not self.processes[worker].is_alive() and not connection.poll():
                    raise WorkerDied(worker)
            if deadline is not None and time.monotonic() >= deadline:
                raise TimedOut

    def _read(self, worker: int) -> tuple[int, list[Any]]:
        try:
            return worker, receive(self.connections[worker])
        except (EOFError, ConnectionResetError):
            raise WorkerDied(worker) from None
        except BaseException:
            # Interrupted half-way through a message: nothing after it could be understood.
            self.close()
            raise

    def fate(self, worker: int) -> str:
        """How a worker ended, in PyTorch's words."""
        process = self.processes[worker]
        process.join(MP_STATUS_CHECK_INTERVAL)
        code = process.exitcode
        if code is not None and code < 0:
            return (
                f"DataLoader worker (pid {process.pid}) is killed by signal: "
                f"{signal.strsignal(-code)}. "
            )
        return (
            f"DataLoader worker (pid {process.pid}) exited unexpectedly with exit code {code}. "
            "Details are lost due to multiprocessing. Rerunning with num_workers=0 may give "
            "better error trace."
        )

    def close(self) -> None:
        """End all workers: each may finish what it is doing, but not for long."""
        # os.fork does not call `_leave`; the workers are not its children either.
        if self.closed or os.getpid() != self.owner:
            return
        self.closed = True
        for connection in self.connections:
            hang_up(connection)
        deadline = time.monotonic() + MP_STATUS_CHECK_INTERVAL
        for process in self.processes:
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive():
                process.terminate()
        for process in self.processes:
            process.join(1.0)
            if process.is_alive():
                process.kill()
                process.join()
