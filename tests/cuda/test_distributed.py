"""CUDA tensors in collectives, with one rank: on the GPU by NCCL, and through host memory."""

from __future__ import annotations

import ctypes
import sys
import types

import pytest

import tapegrad as torch
import tapegrad.distributed as dist
from tapegrad.core import devices


class Communicator:
    """One rank of NCCL on the stand-in's memory: copies, and what was called."""

    calls: list[str] = []

    def __init__(self, size, identity, rank):
        assert (size, identity, rank) == (1, (7,), 0)

    def copy(self, name, source, target, count, kind):
        self.calls.append(name)
        if source != target:
            ctypes.memmove(target, source, count * kind)

    def allReduce(self, source, target, count, kind, op, stream):
        self.copy("allReduce", source, target, count, kind)

    def broadcast(self, source, target, count, kind, root, stream):
        self.copy("broadcast", source, target, count, kind)

    def allGather(self, source, target, count, kind, stream):
        self.copy("allGather", source, target, count, kind)

    def reduceScatter(self, source, target, count, kind, op, stream):
        self.copy("reduceScatter", source, target, count, kind)


SIZES = {"INT8": 1, "UINT8": 1, "FLOAT16": 2, "INT32": 4, "FLOAT32": 4, "INT64": 8, "FLOAT64": 8}


@pytest.fixture(params=["nccl", "gloo"])
def backend(request, monkeypatch):
    if "stand_in" in sys.modules:
        names = {f"NCCL_{name}": size for name, size in SIZES.items()}
        ops = {f"NCCL_{name}": name for name in ("SUM", "PROD", "MIN", "MAX")}
        fake = types.SimpleNamespace(
            **names,
            **ops,
            available=True,
            get_unique_id=lambda: (7,),
            NcclCommunicator=Communicator,
        )
        monkeypatch.setattr(devices.DEVICE.xp.cuda, "nccl", fake, raising=False)
        monkeypatch.setenv("TAPEGRAD_NCCL", "1")
    dist.init_process_group(request.param, init_method="tcp://localhost:1", rank=0, world_size=1)
    yield request.param
    dist.destroy_process_group()


def test_collectives(backend):
    Communicator.calls.clear()
    for dtype in (torch.float32, torch.float64, torch.int64, torch.bool):
        x = torch.tensor([[0, 1], [1, 0]], device="cuda").to(dtype)
        for tensor in (x.clone(), x.t()):
            dist.all_reduce(tensor)
            dist.broadcast(tensor, 0)
            assert tensor.tolist() == x.tolist() and tensor.device.type == "cuda"
        out = torch.zeros(2, 2, device="cuda", dtype=dtype)
        dist.all_gather_into_tensor(out, x.t())
        assert out.tolist() == x.tolist()
        out = torch.zeros(2, 2, device="cuda", dtype=dtype).t()
        dist.reduce_scatter_tensor(out, x)
        assert out.tolist() == x.tolist()
        parts = [torch.zeros(2, 2, device="cuda", dtype=dtype)]
        dist.all_gather(parts, x)
        assert parts[0].tolist() == x.tolist()
    if backend == "nccl" and "stand_in" in sys.modules:
        assert set(Communicator.calls) == {"allReduce", "broadcast", "allGather", "reduceScatter"}
    if backend == "gloo":
        assert not Communicator.calls


def test_data_parallel(backend):
    torch.manual_seed(0)
    ddp = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1).cuda())
    for _ in range(3):
        ddp.zero_grad()
        ddp(torch.ones(3, 2, device="cuda")).sum().backward()
        assert ddp.module.weight.grad.tolist() == [[3.0, 3.0]]
        assert ddp.module.weight.grad.device.type == "cuda"
