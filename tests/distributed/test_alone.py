"""One process: everything works without MPI, as programs with WORLD_SIZE=1 expect."""

from __future__ import annotations

import subprocess
import sys

import pytest

import tapegrad as torch
import tapegrad.distributed as dist


@pytest.fixture
def world(monkeypatch):
    for name, value in (
        ("RANK", "0"),
        ("WORLD_SIZE", "1"),
        ("MASTER_ADDR", "localhost"),
        ("MASTER_PORT", "1"),
    ):
        monkeypatch.setenv(name, value)
    dist.init_process_group("gloo")
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


def test_collectives(world):
    x = torch.arange(4.0)
    dist.all_reduce(x)
    dist.broadcast(x, 0)
    dist.reduce(x, 0)
    dist.barrier()
    out = torch.zeros(4)
    dist.all_gather([out], x)
    assert out.tolist() == [0.0, 1.0, 2.0, 3.0]
    dist.reduce_scatter_tensor(out, x, dist.ReduceOp.AVG)
    dist.all_to_all_single(out, x)
    dist.scatter(out, [x])
    dist.gather(x, [out])
    got = [None]
    dist.all_gather_object(got, "x")
    assert got == ["x"]
    work = dist.all_reduce(x, async_op=True)
    assert work.wait() and work.get_future().wait() == [x]
    assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (0, 1, "gloo")


def test_data_parallel(world):
    ddp = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
    for _ in range(3):
        ddp.zero_grad()
        ddp(torch.ones(3, 2)).sum().backward()
        assert ddp.module.weight.grad.tolist() == [[3.0, 3.0]]


def test_variables_that_are_missing(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "PMI_RANK"):
        monkeypatch.delenv(name, raising=False)
    says = "environment variable RANK expected, but not set"
    with pytest.raises(ValueError, match=says):
        dist.init_process_group("gloo")
    with pytest.raises(ValueError, match="environment variable MASTER_ADDR expected"):
        dist.init_process_group("gloo", rank=0, world_size=1)
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        dist.get_rank()


def test_without_mpi4py_the_extra_is_named():
    code = (
        "import sys; sys.modules['mpi4py'] = None\n"
        "import tapegrad.distributed as dist\n"
        "dist.init_process_group('gloo', init_method='tcp://localhost:1', rank=1, world_size=2)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert 'pip install "tapegrad[mpi]"' in done.stderr
