"""Futures: results that are not there yet, and what to do when they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from tapegrad.core.locks import new_event, new_lock
from tapegrad.device import device as device_type

__all__ = ["Future", "collect_all", "wait_all"]

T = TypeVar("T")
S = TypeVar("S")


class Future(Generic[T]):
    """A result that some thread sets once; others wait for it.

    >>> future = futures.Future()
    >>> later = future.then(lambda f: f.wait() + 1)
    >>> future.set_result(2)
    >>> later.wait()
    3
    """

    def __init__(self, *, devices: list[Any] | None = None) -> None:
        for place in devices or ():
            device_type(place)
        self._done = new_event()
        self._lock = new_lock()
        self._result: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[], None]] = []

    def done(self) -> bool:
        """Whether there is a result or an error."""
        return self._done.is_set()

    def wait(self) -> T:
        """The result, when it is there; an error is raised."""
        self._done.wait()
        return self._get()

    def value(self) -> T:
        """The result, which has to be there."""
        if not self.done():
            raise RuntimeError("completed() INTERNAL ASSERT FAILED: the future has no result yet")
        return self._get()

    def _get(self) -> T:
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[no-any-return]

    def set_result(self, result: T) -> None:
        """Give the result, once."""
        self._finish(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Give an error instead of a result."""
        if not isinstance(result, Exception):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._finish(None, result)

    def _finish(self, result: Any, error: BaseException | None) -> None:
        with self._lock:
            if self.done():
                raise RuntimeError(
                    "Attempting to mark a completed Future as complete again. Note that a Future "
                    "can only be marked completed once."
                )
            self._result, self._error = result, error
            self._done.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def _when_done(self, callback: Callable[[], None]) -> None:
        with self._lock:
            if not self.done():
                self._callbacks.append(callback)
                return
        callback()

    def then(self, callback: Callable[[Future[T]], S]) -> Future[S]:
        """The future of what `callback` makes of this one when it is done."""
        made: Future[S] = Future()

        def run() -> None:
            try:
                found = callback(self)
            except Exception as error:
                name = type(error).__name__
                text = f"Got the following error when running the callback: {name}: {error}"
                made.set_exception(RuntimeError(text))
            else:
                made.set_result(found)

        self._when_done(run)
        return made

    def add_done_callback(self, callback: Callable[[Future[T]], None]) -> None:
        """Call something when this one is done; nobody waits for it."""
        self._when_done(lambda: callback(self))


def collect_all(futures: list[Future[Any]]) -> Future[list[Future[Any]]]:
    """The future of a list of futures that are all done.

    >>> futures.collect_all([]).wait()
    []
    """
    made: Future[list[Future[Any]]] = Future()
    waiting = [len(futures)]
    lock = new_lock()

    def count() -> None:
        with lock:
            waiting[0] -= 1
            finished = waiting[0] == 0
        if finished:
            failed = [f._error for f in futures if f._error is not None]
            made._finish(list(futures), failed[0] if failed else None)

    if not futures:
        made.set_result([])
    for future in futures:
        future._when_done(count)
    return made


def wait_all(futures: list[Future[Any]]) -> list[Any]:
    """The results of all; the first error is raised.

    >>> first, second = torch.futures.Future(), torch.futures.Future()
    >>> first.set_result(1)
    >>> second.set_result(2)
    >>> torch.futures.wait_all([first, second])
    [1, 2]
    """
    return [future.wait() for future in collect_all(futures).wait()]
