"""Tensors between processes: queues, pipes and arguments in shared memory, by fork and by spawn."""

from __future__ import annotations

import gc
import os
import pickle
import queue
import sys
from typing import Any

import pytest

import tapegrad as torch
import tapegrad.multiprocessing as mp
from tapegrad.multiprocessing.reductions import reduce_tensor
from tapegrad.storage import shared_map_of

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="files in memory are Linux's"),
    # The children of these tests do nothing but NumPy.
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]
METHODS = ["fork", pytest.param("spawn", marks=pytest.mark.slow)]
WAIT = 120


def add_one(*tensors: Any) -> None:
    for t in tensors:
        with torch.no_grad():
            t.add_(1)


def put(box: Any, done: Any, value: Any) -> None:
    box.put(value)
    done.wait(WAIT)


def write_what_comes(box: Any, answers: Any) -> None:
    t = box.get(timeout=WAIT)
    t[0] = 99
    answers.put(t.is_shared())


def double_what_comes(pipe: Any) -> None:
    t = pipe.recv()
    t.mul_(2)
    pipe.send("done")


def started(method: str, function: Any, *args: Any) -> Any:
    process = mp.get_context(method).Process(target=function, args=args)
    process.start()
    return process


@pytest.mark.parametrize("method", METHODS)
def test_arguments_in_shared_memory(method: str) -> None:
    t, model = torch.zeros(3).share_memory_(), torch.nn.Linear(2, 2).share_memory()
    before = model.weight.detach().clone()
    process = started(method, add_one, t, t[1:], model.weight)
    process.join(WAIT)
    assert process.exitcode == 0
    assert t.tolist() == [1.0, 2.0, 2.0]
    assert torch.equal(model.weight.detach(), before + 1)


@pytest.mark.parametrize("method", METHODS)
def test_queues_and_pipes_share(method: str) -> None:
    context = mp.get_context(method)
    box, answers, x = context.Queue(), context.Queue(), torch.zeros(3)
    box.put(x)
    process = started(method, write_what_comes, box, answers)
    assert answers.get(timeout=WAIT) is True
    process.join(WAIT)
    assert x.is_shared() and x.tolist() == [99.0, 0.0, 0.0]
    ours, theirs = context.Pipe()
    process = started(method, double_what_comes, theirs)
    y = torch.ones(2, dtype=torch.bfloat16)
    ours.send(y)
    assert ours.recv() == "done"
    process.join(WAIT)
    assert y.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("method", METHODS)
def test_all_kinds_arrive(method: str) -> None:
    context = mp.get_context(method)
    box, done, base = context.Queue(), context.Event(), torch.arange(6.0).share_memory_()
    sent = [
        base[:2],
        base.view(2, 3).t(),
        torch.nn.Parameter(torch.ones(2)),
        torch.tensor([1.5, 2.0], dtype=torch.bfloat16),
        torch.empty(0, 3),
        torch.tensor(3),
        torch.tensor([1 + 2j]).conj(),
        torch.ones(2, requires_grad=True),
    ]
    process = started(method, put, box, done, sent)
    found = box.get(timeout=WAIT)
    done.set()
    process.join(WAIT)
    for ours, theirs in zip(sent, found, strict=True):
        assert type(theirs) is type(ours) and theirs.dtype == ours.dtype
        assert theirs.shape == ours.shape and theirs.stride() == ours.stride()
        assert theirs.tolist() == ours.tolist()
        assert theirs.requires_grad == ours.requires_grad
    assert found[0].untyped_storage().data_ptr() == found[1].untyped_storage().data_ptr()


def test_a_tensor_that_others_look_at_stays() -> None:
    x = torch.zeros(3)
    part = x[1:]
    reduce_tensor(x)
    assert not x.is_shared()
    part[0] = 5
    assert x.tolist() == [0.0, 5.0, 0.0]
    y = torch.zeros(3)
    reduce_tensor(y)
    assert y.is_shared() and shared_map_of(y._array) is not None


def test_no_history_crosses() -> None:
    box = mp.get_context("fork").SimpleQueue()
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor"):
        box.put(torch.ones(2, requires_grad=True) * 2)
    # Plain pickles are not touched.
    assert pickle.loads(pickle.dumps(torch.ones(2))).tolist() == [1.0, 1.0]


def send_many(box: Any, done: Any) -> None:
    for i in range(200):
        box.put(torch.full((100,), float(i)))
    done.wait(WAIT)


def test_nothing_is_left_open() -> None:
    context = mp.get_context("fork")
    box, done = context.Queue(), context.Event()
    process = started("fork", send_many, box, done)
    box.get(timeout=WAIT)
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    total = sum([box.get(timeout=WAIT)[0].item() for _ in range(199)])
    done.set()
    process.join(WAIT)
    gc.collect()
    assert total == sum(range(200))
    assert len(os.listdir("/proc/self/fd")) <= before + 2
    with pytest.raises(queue.Empty):
        box.get(timeout=0.01)
