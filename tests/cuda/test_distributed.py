"""CUDA tensors in collectives, with one rank: on the GPU by NCCL, and through host memory."""

from __future__ import annotations

import sys

import pytest

import tapegrad as torch
import tapegrad.distributed as dist
from tapegrad.core import devices

DTYPES = [
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64),
    *(torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool),
]


@pytest.fixture(params=["nccl", "gloo"])
def backend(request, monkeypatch):
    if not hasattr(devices.DEVICE.xp, "RawKernel"):  # the stand-in
        import stand_in_nccl

        monkeypatch.setattr(devices.DEVICE.xp.cuda, "nccl", stand_in_nccl, raising=False)
        stand_in_nccl.Calls.names.clear()
    dist.init_process_group(request.param, init_method="tcp://localhost:1", rank=0, world_size=1)
    yield request.param
    dist.destroy_process_group()


def called():
    """The calls of NCCL, where they can be seen."""
    module = sys.modules.get("stand_in_nccl")
    return None if module is None else set(module.Calls.names)


def values(dtype):
    return torch.tensor([[0, 1], [1, 1]], device="cuda").to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_collectives(backend, dtype):
    x = values(dtype)
    told = x.tolist()
    for tensor in (x.clone(), x.clone().t()):
        dist.all_reduce(tensor)
        dist.reduce(tensor, 0)
        dist.broadcast(tensor, 0)
        assert tensor.tolist() == told and tensor.device.type == "cuda"
    if not dtype.is_complex:
        tensor = x.clone()
        for op in (dist.ReduceOp.MIN, dist.ReduceOp.MAX, dist.ReduceOp.PRODUCT):
            dist.all_reduce(tensor, op)
        if not dtype.is_floating_point:
            dist.all_reduce(tensor, dist.ReduceOp.BOR)
        else:
            dist.all_reduce(tensor, dist.ReduceOp.AVG)
        assert tensor.tolist() == told

    def filled(call):
        for out in (torch.zeros(2, 2), torch.zeros(2, 2).t()):
            out = out.to("cuda", dtype)
            call(out)
            assert out.tolist() == told and out.device.type == "cuda"

    filled(lambda out: dist.all_gather([out], x))
    filled(lambda out: dist.all_gather_into_tensor(out, x.t()))
    filled(lambda out: dist.reduce_scatter_tensor(out, x))
    filled(lambda out: dist.reduce_scatter(out, [x]))
    filled(lambda out: dist.gather(x, [out]))
    filled(lambda out: dist.scatter(out, [x]))
    filled(lambda out: dist.all_to_all([out], [x]))
    filled(lambda out: dist.all_to_all_single(out, x))
    if called() is not None:
        sums = {"allReduce", "reduce", "reduceScatter"} if dtype is not torch.int16 else set()
        moves = {"broadcast", "allGather", "send", "recv"}
        assert called() == (sums | moves if backend == "nccl" else set())


def test_works(backend):
    x = torch.ones(3, device="cuda")
    work = dist.all_reduce(x, async_op=True)
    assert work.wait() and work.is_completed() and work.is_success()
    work = dist.all_reduce(x, async_op=True)
    doubled = work.get_future().then(lambda future: future.wait()[0] * 2)
    assert doubled.wait().tolist() == [2.0] * 3
    work = dist.broadcast(x, 0, async_op=True)
    while not work.is_completed():
        pass
    for empty in (torch.zeros(0, device="cuda"), torch.zeros(3, 0, device="cuda").t()):
        dist.all_reduce(empty)
    dist.all_reduce(x.new_tensor(2.0))
    weight = torch.nn.Parameter(x)
    dist.all_reduce(weight)
    assert weight.is_leaf and weight.requires_grad


def test_what_cuda_tensors_get_follows_from_the_backend(monkeypatch):
    for backend, by_nccl in (("nccl", True), ("cpu:gloo,cuda:nccl", True), (None, True),
                             ("cpu:gloo,cuda:gloo", False), ("mpi", False)):  # fmt: skip
        dist.init_process_group(backend, init_method="tcp://localhost:1", rank=0, world_size=1)
        assert dist.group.WORLD.on_gpus == dist.new_group([0]).on_gpus == by_nccl
        dist.destroy_process_group()


def test_a_group_ends_its_communicator(backend):
    group = dist.new_group([0])
    dist.all_reduce(torch.ones(2, device="cuda"), group=group)
    dist.all_reduce(torch.ones(2, device="cuda"))
    dist.destroy_process_group(group)
    dist.all_reduce(torch.ones(2, device="cuda"))
    if called() is not None:
        assert ("destroy" in called()) == (backend == "nccl")


def test_through_host_memory_that_is_pinned(backend, monkeypatch):
    from tapegrad.cuda.memory import is_pinned_array

    x = torch.ones(2, 3, dtype=torch.bfloat16, device="cuda").t()
    flat, back = dist.group.WORLD.host.both_ways(x)
    assert is_pinned_array(flat)
    flat[:] = 4
    back()
    assert x.tolist() == [[4.0, 4.0]] * 3


def test_data_parallel(backend):
    torch.manual_seed(0)
    ddp = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1).cuda())
    for _ in range(3):
        ddp.zero_grad()
        ddp(torch.ones(3, 2, device="cuda")).sum().backward()
        assert ddp.module.weight.grad.tolist() == [[3.0, 3.0]]
        assert ddp.module.weight.grad.device.type == "cuda"


def test_fully_sharded(backend):
    """What the backward pass needs of the parameters is gathered again, at the right places."""
    from tapegrad.distributed.fsdp import FullyShardedDataParallel as FSDP

    def gradients(wrap):
        torch.manual_seed(0)
        layers = torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2)
        module = wrap(torch.nn.Sequential(*layers).cuda())
        module(torch.arange(8.0, device="cuda").view(2, 4) / 8).square().sum().backward()
        return torch.cat([p.grad.reshape(-1) for p in module.parameters()]).tolist()

    assert gradients(lambda module: FSDP(module, device_id=0)) == gradients(lambda module: module)
