"""Forks while other threads are busy: run as `forks.py COUNT SEED`.

Threads train, draw random numbers, run compiled functions, change modes, finish futures. The main
thread forks at random moments; each child must be able to do all of that itself. A child that hangs
is killed. Prints how the children ended, as JSON.
"""

from __future__ import annotations

import collections
import json
import os
import random
import select
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import tapegrad as torch
from tapegrad import nn

SECONDS = 20.0  # after which a child counts as hanging
GENERATOR = torch.Generator()
WEIGHT = torch.randn(64, 64, requires_grad=True)
DATA = torch.randn(64, 64)


@torch.compile
def compiled(x: Any) -> Any:
    return (x @ WEIGHT).tanh().sum()


def draw() -> None:
    torch.randn(5_000)
    torch.randn(5_000, generator=GENERATOR)
    torch.randperm(500)
    torch.rand(3, dtype=torch.float64)


def train() -> None:
    (DATA @ WEIGHT).relu().sum().backward()  # all threads add to one gradient


def replay() -> None:
    compiled(DATA).backward()


def modes() -> None:
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        nn.functional.linear(DATA, WEIGHT)
    with torch.inference_mode():
        torch.add(DATA, 1)


def futures() -> None:
    done: Any = torch.futures.Future()
    later = done.then(lambda f: f.value() + 1)
    done.set_result(1)
    assert later.wait() == 2


def profile() -> None:
    with torch.autograd.profiler.profile():
        torch.add(DATA, 1)


WORK: list[Callable[[], None]] = [draw, train, replay, modes, futures, profile]


def all_of_it() -> str:
    """Everything once, in the main thread of a child and in another thread of it."""
    for work in WORK:
        work()
    thread = threading.Thread(target=lambda: [work() for work in WORK])
    thread.start()
    thread.join()
    return "well" if torch.is_grad_enabled() else "modes"


def child_ends(pid: int, reading: int) -> str:
    if not select.select([reading], [], [], SECONDS)[0]:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return "hang"
    said = os.read(reading, 100).decode()
    os.waitpid(pid, 0)
    return said or "died"


def main(count: int, seed: int) -> dict[str, Any]:
    warnings.simplefilter("ignore")  # Python 3.12 warns of forks in processes with threads
    rng = random.Random(seed)
    for _ in range(5):
        all_of_it()
    over = threading.Event()

    def busy(work: Callable[[], None]) -> None:
        while not over.is_set():
            work()

    threads = [threading.Thread(target=busy, args=(work,), daemon=True) for work in WORK]
    for thread in threads:
        thread.start()
    ends: collections.Counter[str] = collections.Counter()
    for _ in range(count):
        time.sleep(rng.random() * 0.005)
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                said = all_of_it()
            except BaseException as error:
                said = f"{type(error).__name__}: {error}"[:90]
            os.write(writing, said.encode())
            os._exit(0)
        os.close(writing)
        ends[child_ends(pid, reading)] += 1
        os.close(reading)
        if ends["hang"] > 5:
            break
    over.set()
    return dict(ends)


if __name__ == "__main__":
    started = time.time()
    ended = main(int(sys.argv[1]), int(sys.argv[2]))
    print(json.dumps({"ends": ended, "seconds": round(time.time() - started, 1)}), flush=True)
    os._exit(0)
