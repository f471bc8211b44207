"""The process that mpiexec starts for each rank: it runs the program and watches it. Imports
nothing of the package.

It gives the program PyTorch's variables, puts the rank in front of its lines, passes signals on,
and tells torchrun's desk (see _desk.py) how the program ended: mpiexec itself keeps one status of
all. What others say at the desk the program hears through a pipe, and what it says goes there.

    python _supervise.py PREFIX PROGRAM [ARG ...]
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import IO

PR_SET_PDEATHSIG = 1
GRACE = 3.0  # seconds that a program has to end by itself


def pass_on(lines: IO[bytes], prefix: bytes, descriptor: int | None, log: IO[bytes] | None) -> None:
    """Whole lines at a time, so that those of several ranks do not mix; the last one is, too."""
    for line in lines:
        if log is not None:
            log.write(line)
            log.flush()
        if descriptor is not None:
            whole = line if not prefix or line.endswith(b"\n") else line + b"\n"
            os.write(descriptor, prefix + whole)


def machine(rank: int, environ: Mapping[str, str]) -> str:
    """The number of this rank's machine, where all have as many ranks."""
    return str(rank // int(environ.get("MPI_LOCALNRANKS", "0") or rank + 1))


class Line:
    """The connection to the desk; without one the job goes on, and hears less."""

    def __init__(self, desk: str, token: str) -> None:
        host, _, port = desk.rpartition(":")
        self.lock = threading.Lock()
        self.socket: socket.socket | None = None
        try:
            made = socket.create_connection((host, int(port)), 10)
            made.settimeout(None)
            made.sendall(token.encode() + b"\n")
            self.socket = made
        except (OSError, ValueError):
            pass

    def say(self, text: bytes) -> None:
        if self.socket is None:
            return
        with self.lock:
            try:
                self.socket.sendall(text)
            except OSError:  # the desk is gone, and this job with it
                self.socket = None

    def hear(self, descriptor: int, child: subprocess.Popen[bytes]) -> None:
        """Pass on what the others say; end the program when torchrun itself is gone."""
        if self.socket is None:
            return
        try:
            for text in self.socket.makefile("rb"):
                try:
                    os.write(descriptor, text)
                except OSError:  # the program does not listen any more
                    pass
        except OSError:
            pass
        end(child)


def end(child: subprocess.Popen[bytes]) -> None:
    """Ask the program to end, and end it if it does not."""
    for ask in (child.terminate, child.kill):
        if child.poll() is None:
            ask()
            limit = time.monotonic() + GRACE
            while child.poll() is None and time.monotonic() < limit:
                time.sleep(0.05)


def dying_with_parent() -> Callable[[], None] | None:
    """A function for a new process that has it killed when this one ends; None: not on Linux."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        prctl = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return None
    parent = os.getpid()

    def ask() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it was killed before we could ask
            os._exit(137)

    return ask


def speak(line: Line, said: IO[bytes]) -> None:
    """Pass on what the program says."""
    for text in said:
        line.say(text)


def main(prefix: str, command: list[str]) -> int:
    # mpiexec's way to say that another rank died, which ours notices by itself.
    if hasattr(signal, "SIGUSR1"):  # Windows has none
        signal.signal(signal.SIGUSR1, lambda got, _: None)
    environ = os.environ
    rank, size = environ["PMI_RANK"], environ["PMI_SIZE"]
    environ.update(
        RANK=rank,
        WORLD_SIZE=size,
        LOCAL_RANK=environ.get("MPI_LOCALRANKID", rank),
        LOCAL_WORLD_SIZE=environ.get("MPI_LOCALNRANKS", size),
        GROUP_RANK=environ.get("GROUP_RANK") or machine(int(rank), environ),
        ROLE_RANK=rank,
        ROLE_WORLD_SIZE=size,
        ROLE_NAME="default",
    )
    log, tee = environ.pop("TAPEGRAD_LOG", ""), environ.pop("TAPEGRAD_TEE", "0") != "0"
    show = environ.pop("TAPEGRAD_SHOW", "")
    here = environ["LOCAL_RANK"] in show.split(",") if show else tee or not log
    pipe = subprocess.PIPE if prefix or log or show else None
    line = Line(environ.pop("TAPEGRAD_DESK", ""), environ.pop("TAPEGRAD_TOKEN", ""))
    (hears, to_hear), (said, says) = os.pipe(), os.pipe()
    for descriptor in (hears, says):
        os.set_inheritable(descriptor, True)
    # With our own number: processes that the program starts have neither these nor this parent.
    environ["TAPEGRAD_PIPES"] = f"{os.getpid()}:{hears}:{says}"
    child = subprocess.Popen(
        command, close_fds=False, stdout=pipe, stderr=pipe, preexec_fn=dying_with_parent()
    )
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # now that the program has not inherited it
    os.close(hears)
    os.close(says)
    threading.Thread(target=line.hear, args=(to_hear, child), daemon=True).start()
    spoken = threading.Thread(target=speak, args=(line, os.fdopen(said, "rb")), daemon=True)
    spoken.start()
    front = prefix.replace("RANK", rank).encode()
    pumps = []
    for lines, descriptor, ending in ((child.stdout, 1, "out"), (child.stderr, 2, "err")):
        if lines is not None:
            file = open(f"{log}{rank}.{ending}", "wb") if log else None  # noqa: SIM115
            given = lines, front, descriptor if here else None, file
            pumps.append(threading.Thread(target=pass_on, args=given, daemon=True))
    for pump in pumps:
        pump.start()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda got, _: child.send_signal(got))
    status = child.wait()
    ended = time.time()
    spoken.join(0.2)  # its own words come before ours
    note = {"rank": int(rank), "status": status, "pid": child.pid, "time": ended}
    line.say(json.dumps(note).encode() + b"\n")
    for pump in pumps:
        pump.join(5)  # a process that outlives the program may hold its end
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
