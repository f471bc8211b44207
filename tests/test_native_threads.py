"""The pool of threads: fork and spawn while it is busy, and calls from several Python threads."""

from __future__ import annotations

import multiprocessing
import threading

import numpy as np
import pytest

import tapegrad
from tapegrad.kernels.cpu import KERNELS

pytestmark = [
    pytest.mark.skipif(KERNELS is None, reason="the kernels in C are not built"),
    pytest.mark.filterwarnings("ignore:This process"),
]
SIZE = 1 << 20


def work(seed: int) -> float:
    x = tapegrad.arange(SIZE, dtype=tapegrad.float64) / SIZE + seed
    return float((x.exp() * x).sum())


def child(seed: int, queue) -> None:
    queue.put(work(seed))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_while_the_pool_is_busy(method):
    context = multiprocessing.get_context(method)
    stop = threading.Event()

    def keep_busy():
        while not stop.is_set():
            work(0)

    # What is imported late is there now: a child that Python forks while another thread imports a
    # module waits for ever if it imports that module too.
    work(0)
    before = KERNELS.threads()
    KERNELS.set_threads(4)
    thread = threading.Thread(target=keep_busy)
    thread.start()
    try:
        queue = context.Queue()
        processes = [context.Process(target=child, args=(i, queue)) for i in range(3)]
        for process in processes:
            process.start()
        found = sorted([queue.get(timeout=60) for _ in processes])
        for process in processes:
            process.join(60)
            assert process.exitcode == 0
    finally:
        stop.set()
        thread.join()
        KERNELS.set_threads(before)
    assert found == [work(i) for i in range(3)]


def test_calls_from_several_threads():
    before = KERNELS.threads()
    KERNELS.set_threads(4)
    want = [work(i) for i in range(4)]
    wrong = []

    def run(i):
        for _ in range(20):
            if work(i) != want[i]:
                wrong.append(i)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    try:
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        KERNELS.set_threads(before)
    assert not wrong


def test_threads_obey():
    before = tapegrad.get_num_threads()
    try:
        tapegrad.set_num_threads(1)
        assert KERNELS.threads() == 1
        x = np.linspace(-1, 1, SIZE)
        np.testing.assert_allclose(tapegrad.tensor(x).exp().numpy(), np.exp(x), rtol=1e-15)
    finally:
        tapegrad.set_num_threads(before)
