"""`spawn(fn, args, nprocs)`: the same function in several processes, with their errors."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any

from ..core.warned import warn

__all__ = [
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "spawn",
    "start_processes",
]


class ProcessException(Exception):
    """A process did not end well."""

    def __init__(self, msg: str, error_index: int, pid: int) -> None:
        super().__init__(msg)
        self.msg = msg
        self.error_index = error_index
        self.pid = pid

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """A process raised an exception."""

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg, error_index, error_pid)


class ProcessExitedException(ProcessException):
    """A process ended with an exit code that is not zero."""

    def __init__(
        self,
        msg: str,
        error_index: int,
        error_pid: int,
        exit_code: int,
        signal_name: str | None = None,
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code
        self.signal_name = signal_name

    def __reduce__(self) -> Any:
        facts = (self.msg, self.error_index, self.pid, self.exit_code, self.signal_name)
        return type(self), facts


def run_in_process(fn: Callable[..., Any], i: int, args: tuple[Any, ...], report: Any) -> None:
    """The main function of each process; a failure is sent to the parent as text."""
    try:
        fn(i, *args)
    except KeyboardInterrupt:
        pass  # the parent was interrupted, too, and says so
    except Exception:
        report.put(traceback.format_exc())
        sys.exit(1)


class ProcessContext:
    """Processes that were started together."""

    def __init__(self, processes: list[Any], error_queues: list[Any]) -> None:
        self.processes = processes
        self.error_queues = error_queues
        self.running = {p.sentinel: i for i, p in enumerate(processes)}

    def pids(self) -> list[int]:
        return [int(p.pid) for p in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait for some process to end; True when all are done. A failure ends the others."""
        if not self.running:
            return True
        failed = None
        for sentinel in multiprocessing.connection.wait(list(self.running), timeout=timeout):
            i = self.running.pop(sentinel)  # type: ignore[call-overload]
            self.processes[i].join()
            if self.processes[i].exitcode != 0:
                failed = i
                break
        if failed is None:
            return not self.running
        for process in self.processes:
            if process.is_alive():
                process.terminate()
            process.join(grace_period)
        self.complain(failed)
        return True

    def complain(self, i: int) -> None:
        process = self.processes[i]
        if not self.error_queues[i].empty():
            text = self.error_queues[i].get()
            raise ProcessRaisedException(
                f"\n\n-- Process {i} terminated with the following error:\n{text}", i, process.pid
            )
        code = process.exitcode
        if code < 0:
            name = signal.Signals(-code).name
            raise ProcessExitedException(
                f"process {i} terminated with signal {name}", i, process.pid, code, name
            )
        raise ProcessExitedException(
            f"process {i} terminated with exit code {code}", i, process.pid, code
        )


SpawnContext = ProcessContext


def start_processes(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Run `fn(i, *args)` in `nprocs` processes; without `join`, give their context back."""
    context = multiprocessing.get_context(start_method)
    queues, processes = [], []
    for i in range(nprocs):
        queue = context.SimpleQueue()
        process = context.Process(  # type: ignore[attr-defined]
            target=run_in_process, args=(fn, i, args, queue), daemon=daemon
        )
        process.start()
        queues.append(queue)
        processes.append(process)
    found = ProcessContext(processes, queues)
    if not join:
        return found
    while not found.join():
        pass
    return None


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """`start_processes` in fresh interpreters."""
    if start_method != "spawn":
        warn(
            f"This method only supports start_method=spawn (got: {start_method}).\nTo use a "
            "different start_method use:\n\t\t torch.multiprocessing.start_processes(...)",
            FutureWarning,
        )
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")
