"""The processes of a loader: how they start, hang, die and end, and that nothing is left."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

import tapegrad as torch
from loaders import (
    MARKS,
    SECONDS,
    SOURCE,
    Numbers,
    Shards,
    is_running,
    nothing_left_behind,  # noqa: F401 (a fixture of every test here)
    script,
    wait_until,
)
from tapegrad.utils.data import DataLoader, TensorDataset
from tapegrad.utils.data._utils import pool, transfer

pytestmark = MARKS


# --- workers that die or hang -------------------------------------------------------------------


def kill_self():
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(
    "end, cause",
    [
        (kill_self, r"\(pid \d+\) is killed by signal: Killed. "),
        (lambda: os._exit(3), r"\(pid \d+\) exited unexpectedly with exit code 3"),
        (lambda: sys.exit(4), r"\(pid \d+\) exited unexpectedly with exit code 4"),
        (lambda: os.kill(os.getpid(), signal.SIGTERM), r"is killed by signal: Terminated"),
    ],
    ids=["killed", "exit", "sys.exit", "terminated"],
)
def test_dead_worker_is_reported(end, cause):
    iterator = iter(DataLoader(Numbers(6, {1: end}), num_workers=2))
    pid = iterator._workers[1].pid
    assert next(iterator).item() == 0
    expected = rf"^DataLoader worker \(pid\(s\) {pid}\) exited unexpectedly$"
    with pytest.raises(RuntimeError, match=expected) as caught:
        next(iterator)
    assert re.search(cause, str(caught.value.__cause__))
    # What the other worker has is not lost, and it takes the rest.
    assert {2, 4} <= {batch.item() for batch in iterator} <= {2, 4, 5}


def test_worker_killed_from_outside_while_it_is_waited_for():
    iterator = iter(DataLoader(Numbers(3, {0: lambda: time.sleep(60)}), num_workers=1))
    worker = iterator._workers[0]
    killer = threading.Timer(0.2, worker.kill)
    killer.start()
    start = time.monotonic()
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        next(iterator)
    assert time.monotonic() - start < 4
    killer.join()


def test_dead_worker_whose_connection_somebody_holds_open(monkeypatch):
    """A process started by the worker inherited its end: only looking at the worker tells."""
    monkeypatch.setattr(pool, "MP_STATUS_CHECK_INTERVAL", 0.1)

    def leave_a_child():
        if os.fork() == 0:
            time.sleep(1.0)
        os._exit(0)

    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        list(DataLoader(Numbers(3, {0: leave_a_child}), num_workers=1))


def test_timeout():
    slow = Numbers(3, {1: lambda: time.sleep(0.6)})
    iterator = iter(DataLoader(slow, num_workers=1, timeout=0.3))
    assert next(iterator).item() == 0
    start = time.monotonic()
    with pytest.raises(RuntimeError, match="^DataLoader timed out after 0.3 seconds$"):
        next(iterator)
    assert 0.25 < time.monotonic() - start < 2
    wait_until(lambda: iterator._pool.connections[0].poll())
    assert [batch.item() for batch in iterator] == [1, 2]


@pytest.mark.parametrize("deaf", [False, True])
def test_worker_that_does_not_end_is_ended(monkeypatch, deaf):
    monkeypatch.setattr(pool, "MP_STATUS_CHECK_INTERVAL", 0.1)
    # A program's own handler, inherited by the worker, must not save it.
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        iterator = iter(DataLoader(Numbers(2, {0: lambda: time.sleep(60)}), num_workers=1))
    finally:
        signal.signal(signal.SIGTERM, before)
    worker = iterator._workers[0]
    if deaf:
        os.kill(worker.pid, signal.SIGSTOP)  # not even SIGTERM reaches it now
    start = time.monotonic()
    del iterator
    assert time.monotonic() - start < 4
    assert worker.exitcode in (-signal.SIGTERM, -signal.SIGKILL)


# --- the end --------------------------------------------------------------------------------


def test_workers_end_with_the_epoch():
    loader = DataLoader(Numbers(4), num_workers=2)
    iterator = iter(loader)
    workers = iterator._workers
    assert len(list(iterator)) == 4
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert next(iterator, "end") == "end"


@pytest.mark.parametrize("size", [1, 200_000])
def test_workers_end_when_the_iterator_is_dropped(size):
    workers = []
    loader = DataLoader(TensorDataset(torch.ones(50, size)), num_workers=2)
    for _ in loader:
        workers += multiprocessing.active_children()
        break
    assert [worker.exitcode for worker in workers] == [0, 0]


def test_forked_child_leaves_the_workers_alone():
    iterator = iter(DataLoader(Numbers(8), num_workers=1))
    child = os.fork()
    if child == 0:
        del iterator
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(list(iterator)) == 8


HALF_WAY = """
    import time
    from tapegrad.utils.data import DataLoader, Dataset

    class Numbers(Dataset):
        def __len__(self):
            return 100
        def __getitem__(self, index):
            if index > 4:
                time.sleep({sleep})
            return index

    loader = DataLoader(Numbers(), num_workers=2, persistent_workers={persistent})
    iterator = iter(loader)
    next(iterator)
    print(*[worker.pid for worker in iterator._workers], flush=True)
"""


@pytest.mark.parametrize("persistent", [False, True])
def test_end_of_the_program(tmp_path, persistent):
    process = script(tmp_path, HALF_WAY.format(sleep=0.01, persistent=persistent))
    out, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, err) == (0, "")
    assert not any(is_running(int(pid)) for pid in out.split())


def test_keyboard_interrupt(tmp_path):
    # A job that a shell put into the background ignores the signal, and so would this program.
    heed = "    import signal\n    signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    half = HALF_WAY.format(sleep=0.3, persistent=False)
    process = script(tmp_path, heed + half + "    list(iterator)\n")
    pids = [int(pid) for pid in process.stdout.readline().split()]
    time.sleep(0.3)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=SECONDS)
    assert process.returncode == -signal.SIGINT
    assert err.count("Traceback") == 1
    assert err.rstrip().endswith("KeyboardInterrupt")
    assert not any(is_running(pid) for pid in pids)


def test_killed_program(tmp_path):
    process = script(
        tmp_path, HALF_WAY.format(sleep=0.01, persistent=False) + "    time.sleep(60)\n"
    )
    pids = [int(pid) for pid in process.stdout.readline().split()]
    assert len(pids) == 2
    process.kill()
    process.communicate(timeout=SECONDS)
    wait_until(lambda: not any(is_running(pid) for pid in pids), seconds=4)


# --- persistent workers and other ways to start ---------------------------------------------------


def test_persistent_workers_stay():
    loader = DataLoader(Numbers(5), 2, shuffle=True, num_workers=2, persistent_workers=True)
    torch.manual_seed(3)
    epochs = [sorted(i for batch in loader for i in batch.tolist()) for _ in range(3)]
    assert epochs == [[0, 1, 2, 3, 4]] * 3
    iterator, pids = loader._iterator, [w.pid for w in loader._iterator._workers]
    next(iter(loader))  # half an epoch, and then a whole one
    assert len(list(loader)) == 3
    assert loader._iterator is iterator
    assert [worker.pid for worker in iterator._workers] == pids
    assert all(worker.is_alive() for worker in iterator._workers)
    del iterator, loader


def test_persistent_streams_start_again():
    loader = DataLoader(Shards(3, 1), num_workers=2, persistent_workers=True)
    for _ in range(3):
        assert [batch.item() for batch in loader] == [0, 100, 1, 2]
    next(iter(loader))
    assert [batch.item() for batch in loader] == [0, 100, 1, 2]


def test_persistent_workers_that_died_are_replaced():
    loader = DataLoader(Numbers(4), num_workers=2, persistent_workers=True)
    assert len(list(loader)) == 4
    worker = loader._iterator._workers[1]
    worker.kill()
    worker.join()
    assert [batch.item() for batch in loader] == [0, 1, 2, 3]


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_start_methods(tmp_path, method):
    body = f"""
        import torch
        from torch.utils.data import DataLoader, Dataset, get_worker_info

        class Numbers(Dataset):
            def __len__(self):
                return 4
            def __getitem__(self, index):
                return torch.full((20_000,), float(index)), get_worker_info().id

        if __name__ == "__main__":
            loader = DataLoader(Numbers(), 2, num_workers=2, multiprocessing_context="{method}")
            print([(x[:, 0].tolist(), x.shape, worker.tolist()) for x, worker in loader])
        """
    process = script(tmp_path, body, options=("-m", "tapegrad", "run"))
    out, err = process.communicate(timeout=SECONDS)
    assert err == ""
    assert out.strip() == (
        "[([0.0, 1.0], torch.Size([2, 20000]), [0, 0]), "
        "([2.0, 3.0], torch.Size([2, 20000]), [1, 1])]"
    )


def test_what_cannot_be_pickled_cannot_be_spawned():
    loader = DataLoader(
        Numbers(2), num_workers=2, multiprocessing_context="spawn", collate_fn=lambda b: b
    )
    with pytest.warns(UserWarning, match="Got pickle error when attempting to start a worker"):
        with pytest.raises((AttributeError, TypeError)):
            iter(loader)


def test_context_objects():
    context = multiprocessing.get_context("fork")
    loader = DataLoader(Numbers(3), num_workers=1, multiprocessing_context=context)
    assert loader.multiprocessing_context is context
    assert len(list(loader)) == 3


def test_without_memory_files(monkeypatch):
    """As on systems that have no memfd_create."""
    monkeypatch.setattr(transfer, "HAS_MEMORY_FILES", False)
    big = torch.arange(8.0).reshape(8, 1).expand(8, 100_000)
    loader = DataLoader(TensorDataset(big), 2, num_workers=2)
    assert torch.equal(torch.cat([batch for (batch,) in loader]), big)


def test_importing_tapegrad_does_not_import_this():
    code = "import sys, tapegrad, tapegrad.utils; assert 'tapegrad.utils.data' not in sys.modules"
    env = {**os.environ, "PYTHONPATH": SOURCE}
    subprocess.run([sys.executable, "-c", code], env=env, check=True, timeout=SECONDS)
