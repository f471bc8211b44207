"""What the tests of loaders with worker processes share."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from multiprocessing import resource_tracker
from pathlib import Path

import pytest

import tapegrad
from tapegrad.utils.data import Dataset, IterableDataset, get_worker_info

SOURCE = str(Path(tapegrad.__file__).parent.parent)
SECONDS = 60  # far more than any test takes: what hangs must end
LINUX = sys.platform == "linux"

MARKS = [
    # Two workers are too many for one processor, and may be run there all the same.
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="processes are watched with alarms"),
]


def alarm(signum, frame):
    raise TimeoutError(f"the test took more than {SECONDS} seconds")


def open_files() -> set[str]:
    return set(os.listdir("/proc/self/fd")) if LINUX else set()


@pytest.fixture(autouse=True)
def nothing_left_behind():
    """Every test ends in time, and leaves no process, no thread and no file."""
    threads = set(threading.enumerate())
    resource_tracker.ensure_running()  # Python starts it once, with the first spawn, and keeps it
    gc.collect()  # outside of the alarm: a runner's many objects may take long
    files = open_files()
    before = signal.signal(signal.SIGALRM, alarm)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    gc.collect()
    assert multiprocessing.active_children() == []
    assert set(threading.enumerate()) <= threads
    assert len(open_files()) <= len(files)


class Numbers(Dataset):
    """The numbers below n; `act[i]` is called before number i is returned."""

    def __init__(self, n, act=None):
        self.n = n
        self.act = act or {}

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        if index in self.act:
            self.act[index]()
        return index


class Shards(IterableDataset):
    """Worker k streams its own `sizes[k]` numbers."""

    def __init__(self, *sizes):
        self.sizes = sizes

    def __iter__(self):
        worker = get_worker_info().id
        return iter(range(100 * worker, 100 * worker + self.sizes[worker]))


def is_running(pid):
    """Whether there is such a process; a zombie has ended."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    if LINUX:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except (FileNotFoundError, ProcessLookupError):
            return False
    return True


def wait_until(condition, seconds=10.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


def script(tmp_path, body, *, options=(), **popen):
    """Start a program with a loader; `ready` lines tell the test when."""
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(body))
    env = {**os.environ, "PYTHONPATH": SOURCE, "PYTHONWARNINGS": "ignore"}
    return subprocess.Popen(
        [sys.executable, *options, str(path)],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **popen,
    )
