"""Operations under way, and how they are waited for."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ..futures import Future
from . import _errors, _timeline

if TYPE_CHECKING:
    from ._groups import ProcessGroup

# Waiting: first ask again and again, giving the processor to whoever wants it, then sleep between.
SPIN = 0.002  # seconds
SHORT_SLEEP, LONG_SLEEP = 20e-6, 1e-3
LOOK_EVERY = 0.01  # seconds between looks at what the other ranks do

# Who gives way on a busy machine comes back last; who sleeps is woken first.
TAKEN = 200e-6  # seconds that somebody else had the processor when we gave way
BUSY = 0.02  # seconds for which we then sleep at once

give_way = getattr(os, "sched_yield", lambda: time.sleep(0))


class Work:
    """An operation under way: wait() ends it, is_completed() asks."""

    def __init__(
        self,
        group: ProcessGroup,
        kind: str,
        request: Any,
        finish: Callable[[], None] | None = None,
        result: Any = None,
        count: int = 0,
        mark: int = 0,
        keep: Any = None,
    ) -> None:
        self.group, self.kind, self.request = group, kind, request
        self.finish, self.tensors = finish, result
        self.count, self.mark = count, mark  # the number of a collective, and its fingerprint
        self.keep = keep  # memory that must live until the end
        self.done = False
        self.error: Exception | None = None
        self.future: WorkFuture | None = None
        self.started = time.perf_counter() if _timeline.EVENTS is not None else 0.0

    def test(self) -> bool:
        """Whether it is over; if so the results are put where they belong."""
        if self.done:
            return True
        try:
            over = self.request.Test()
        except Exception as error:
            # What MPI noticed (a message too long, say) is mostly a disagreement between ranks.
            self.group.look(self)
            raise _errors.DistBackendError(str(error)) from error
        if over:
            self.end()
        return bool(over)

    def end(self) -> None:
        self.done = True
        self.request = None
        self.group.pending.discard(self)
        if self.count:
            self.group.compare(self)
        if self.finish is not None:
            self.finish()
            self.finish = None
        self.keep = None
        if self.started:
            _timeline.note(self)
        if self.future is not None:
            self.future.set_result(self.tensors)

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait until it is over; raise if a rank disagrees, died, or is too late."""
        if self.error is not None:
            raise self.error
        waited_from = time.perf_counter()
        try:
            self._wait(self.group.timeout if timeout is None else timeout)
        except Exception as error:
            self.error = error
            self.group.pending.discard(self)
            raise
        finally:
            if self.started:
                _timeline.waited(self, waited_from)
        return True

    def _wait(self, timeout: timedelta) -> None:
        join = getattr(self.request, "join", None)
        if join is not None:  # on a GPU, where streams wait
            join()
            self.end()
            return
        test = self.test
        for _ in range(self.group.tries):
            if test():
                return
        began = looked = time.monotonic()
        limit = began + timeout.total_seconds()
        self.group.look(self)
        while not test():
            now = time.monotonic()
            if now - looked > LOOK_EVERY:
                looked = now
                self.group.progress()
                self.group.look(self)
                if now > limit:
                    raise _errors.timed_out(self, timeout)
            if now - began < self.group.spin and now > self.group.busy_until:
                give_way()
                if time.monotonic() - now > TAKEN:
                    self.group.busy_until = now + BUSY
            else:
                time.sleep(SHORT_SLEEP if now - began < 0.1 else LONG_SLEEP)

    def is_completed(self) -> bool:
        """Whether it is over."""
        return self.error is not None or self.test()

    def is_success(self) -> bool:
        return self.done and self.error is None

    def exception(self) -> Exception | None:
        return self.error

    def result(self) -> Any:
        """The tensors of the operation."""
        return self.tensors

    def synchronize(self) -> None:
        self.wait()

    def block_current_stream(self) -> None:
        self.wait()

    def source_rank(self) -> int:
        """The rank that a message came from."""
        return self.group.global_ranks[self.source]

    source = 0

    def get_future(self) -> WorkFuture:
        """A future of the result."""
        if self.future is None:
            self.future = WorkFuture(self)
            if self.done:
                self.future.set_result(self.tensors)
        return self.future


class WorkFuture(Future[Any]):
    """A future of an operation's result: waiting for it drives the operation."""

    def __init__(self, work: Work | None) -> None:
        super().__init__()
        self.work = work

    def done(self) -> bool:
        # Not from within the future itself, which asks with its lock held.
        if self.work is not None and not self._done.is_set() and not self._lock.locked():
            self.work.test()
        return self._done.is_set()

    def wait(self) -> Any:
        if self.work is not None and not self._done.is_set():
            self.work.wait()
        return super().wait()

    def then(self, callback: Callable[[Any], Any]) -> WorkFuture:
        later = WorkFuture(self.work)

        def run() -> None:
            try:
                later.set_result(callback(self))
            except Exception as error:
                later.set_exception(error)

        self._when_done(run)
        return later
