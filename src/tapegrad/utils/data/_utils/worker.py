"""The main loop of a loader's worker process."""

from __future__ import annotations

import os
import queue
import random
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

import tapegrad as tg

from .errors import ExceptionWrapper
from .transfer import Message, send

# How often, in seconds, a process that waits looks whether the other side still lives.
MP_STATUS_CHECK_INTERVAL = 5.0


@dataclass(slots=True, frozen=True)
class WorkerInfo:
    """Facts for a dataset about the worker it runs in."""

    id: int
    num_workers: int
    seed: int
    dataset: Any
    rng: Any = None
    worker_method: str | None = "multiprocessing"


_worker_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """The worker that this process is; None in the main process.

    >>> get_worker_info() is None
    True
    """
    return _worker_info


class _IterableDatasetStopIteration:
    """Answers a task: this worker's copy of the stream has ended."""


class _ResumeIteration:
    """Asks a worker to start the next epoch; it answers with the same."""


@dataclass
class Job:
    """All that a worker needs to know; pickled where it is not forked."""

    make_fetcher: Callable[[], Any]
    dataset: Any
    is_stream: bool
    init_fn: Callable[[int], Any] | None
    base_seed: int
    num_workers: int


def _generate_state(base_seed: int, worker_id: int) -> list[int]:
    """The seed of NumPy's generator: far apart for neighbouring workers."""
    return np.random.SeedSequence([worker_id, base_seed]).generate_state(4).tolist()


def _seed_everything(base_seed: int, worker_id: int) -> int:
    seed = base_seed + worker_id
    random.seed(seed)
    tg.manual_seed(seed)
    np.random.seed(_generate_state(base_seed, worker_id))
    return seed


# Ends a worker. None will not do: it is the index that streams are asked with.
_END = object()


class _Worker:
    """Takes tasks from a connection and answers every one of them."""

    def __init__(self, job: Job, worker_id: int, connection: Connection) -> None:
        self.job = job
        self.worker_id = worker_id
        self.connection = connection
        self.where = f"in DataLoader worker process {worker_id}"
        self.tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.init_error: ExceptionWrapper | None = None
        self.fetcher: Any = None
        self.ended = False

    def read_tasks(self) -> None:
        """Take tasks as they come, so that the loader never has to wait to send one.

        Ends the worker, with an `_END`, when the loader hangs up or its process is gone.
        """
        parent = os.getppid()
        try:
            while True:
                if self.connection.poll(MP_STATUS_CHECK_INTERVAL):
                    self.tasks.put(self.connection.recv())
                elif os.getppid() != parent:
                    # It ended, but somebody inherited its end of the connection: still open.
                    return
        except (EOFError, OSError):
            pass
        finally:
            self.tasks.put(_END)

    def initialise(self) -> None:
        if self.job.init_fn is not None:
            try:
                self.job.init_fn(self.worker_id)
            except Exception:
                self.init_error = ExceptionWrapper(where=self.where)

    def begin(self) -> None:
        """Begin an epoch: streams start anew."""
        self.ended = False
        self.fetcher = self.init_error
        if self.fetcher is None:
            try:
                self.fetcher = self.job.make_fetcher()
            except Exception:
                self.fetcher = ExceptionWrapper(where=self.where)

    def fetch(self, task: Any) -> Any:
        """A batch, an exception or the end of the stream."""
        if isinstance(self.fetcher, ExceptionWrapper):
            return self.fetcher
        try:
            return self.fetcher.fetch(task)
        except Exception as error:
            if isinstance(error, StopIteration) and self.job.is_stream:
                self.ended = True
                return _IterableDatasetStopIteration()
            return ExceptionWrapper(where=self.where)

    def reply(self, result: Any) -> None:
        """Send a result; if it cannot be pickled, send that news instead."""
        try:
            message = Message(result)
        except Exception:
            if isinstance(result, ExceptionWrapper):
                result.exc_type = RuntimeError  # of a class that only this process knows
            else:
                result = ExceptionWrapper(where=self.where)
            message = Message(result)
        send(self.connection, message)

    def run(self) -> None:
        threading.Thread(target=self.read_tasks, daemon=True).start()
        self.initialise()
        self.begin()
        while (task := self.tasks.get()) is not _END:
            if isinstance(task, _ResumeIteration):
                self.reply(task)
                self.begin()
            elif not self.ended:
                self.reply(self.fetch(task))


def _worker_loop(job: Job, worker_id: int, connection: Connection) -> None:
    """The main function of a worker process."""
    global _worker_info
    # A forked worker inherits the program's handlers, which might ignore a request to end.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    seed = _seed_everything(job.base_seed, worker_id)
    _worker_info = WorkerInfo(worker_id, job.num_workers, seed, job.dataset)
    try:
        _Worker(job, worker_id, connection).run()
    except (KeyboardInterrupt, BrokenPipeError, ConnectionResetError):
        # Ctrl-C reaches the main process as well; and nobody waits for us if that is gone.
        pass
