"""Nothing of a job outlives torchrun, and the rank that left it is named."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

from ranks import ENVIRONMENT, HERE, torchrun


def descendants(pid: int) -> set[int]:
    """All processes below one."""
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as file:
                    parents[int(name)] = int(file.read().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found = {pid}
    while True:
        more = {child for child, parent in parents.items() if parent in found} - found
        if not more:
            return found - {pid}
        found |= more


def is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_nothing_outlives_a_killed_launcher():
    command = [sys.executable, "-m", "tapegrad", "torchrun", "--nproc-per-node=2"]
    job = subprocess.Popen(
        [*command, str(HERE / "prog_sleep.py"), "wait"],
        stdout=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    assert job.stdout is not None
    ranks = {int(re.search(r"pid (\d+)", job.stdout.readline())[1]) for _ in range(2)}
    below = descendants(job.pid)
    assert ranks < below
    job.send_signal(signal.SIGKILL)
    job.wait()
    job.stdout.close()
    limit = time.monotonic() + 15
    while any(map(is_running, below)) and time.monotonic() < limit:
        time.sleep(0.1)
    assert [pid for pid in below if is_running(pid)] == []


def test_the_rank_that_left_is_named():
    done = torchrun("prog_sleep.py", 2, "leave")
    assert done.returncode != 0
    assert re.search(
        r"torchrun: rank 1 \(pid \d+\) ended with status 0 without leaving the process group",
        done.stderr,
    ), done.stderr
    assert re.search(r"^\[0\] .*rank 1 (died|has ended)", done.stderr, re.M), done.stderr
