"""Collectives with gradients, stores, helpers around training. Run by test_functional.py."""

from __future__ import annotations

import datetime
import os
import sys

import numpy as np
from cases_ddp import alone, close, grads, loss_of, model, same_on_all_ranks
from ranks import run_cases

import tapegrad as torch
import tapegrad.distributed as dist
import tapegrad.distributed._functional_collectives as plain
import tapegrad.distributed.checkpoint as dcp
import tapegrad.distributed.nn.functional as F
from tapegrad import nn
from tapegrad.distributed.algorithms._checkpoint import checkpoint_wrapper as wrapping
from tapegrad.distributed.algorithms.ddp_comm_hooks import post_localSGD_hook as local
from tapegrad.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from tapegrad.distributed.fsdp import FullyShardedDataParallel as FSDP
from tapegrad.distributed.fsdp import StateDictType, wrap
from tapegrad.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from tapegrad.nn.parallel import DistributedDataParallel as DDP

FOLDER = sys.argv[1] if len(sys.argv) > 1 else "."


def gradients_go_back():
    """The pairing <u, J v> = <Jᵀ u, v>, summed over ranks: J moves and adds, and is linear."""
    rank, size = dist.get_rank(), dist.get_world_size()
    draw = torch.Generator().manual_seed(rank)
    for call in (
        F.all_reduce,
        lambda x: F.broadcast(x, size - 1),
        lambda x: torch.stack(F.all_gather(x)),
        lambda x: F.reduce(x, 0) * (rank == 0),
        lambda x: torch.stack(F.gather(x, size - 1)),
        lambda x: F.scatter([x * (i + 1) for i in range(size)], 0),
        lambda x: F.reduce_scatter(x.new_empty(size), [x * (i + 1) for i in range(size)]),
        lambda x: F.all_to_all_single(x.new_empty(size), x),
        lambda x: torch.stack(F.all_to_all([x.new_empty(size)] * size, [x, *[x * 2] * (size - 1)])),
    ):
        x = torch.randn(size, generator=draw, dtype=torch.float64).requires_grad_()
        y = call(x)
        u = torch.randn(y.shape, generator=draw, dtype=torch.float64)
        y.backward(u)
        sides = torch.stack([(u * y).sum().detach(), (x.grad * x).sum().detach()])
        dist.all_reduce(sides)
        np.testing.assert_allclose(float(sides[0]), float(sides[1]), rtol=1e-10)
    # Rank i gets i + 1 rows from everyone, and the gradient takes the same way.
    x = torch.ones(sum(range(size + 1)), 2, requires_grad=True)
    rows = torch.empty(size * (rank + 1), 2)
    y = F.all_to_all_single(rows, x, [rank + 1] * size, list(range(1, size + 1)))
    (y * (rank + 1)).sum().backward()
    assert x.grad[:, 0].tolist() == [float(i + 1) for i in range(size) for _ in range(i + 1)]


def new_tensors():
    rank, size = dist.get_rank(), dist.get_world_size()
    x = torch.full((2, size), float(rank))
    assert (plain.all_reduce(x, "sum") == sum(range(size))).all() and (x == rank).all()
    assert (plain.all_reduce(x, "avg", dist.group.WORLD) == sum(range(size)) / size).all()
    assert plain.all_gather_tensor(x, 1).shape == (2, size * size)
    assert (plain.reduce_scatter_tensor(x, "sum", 1) == sum(range(size))).all()
    assert (plain.wait_tensor(plain.broadcast(x, 1)) == 1).all()
    assert plain.all_to_all_single(x.t(), None, None)[:, 0].tolist() == list(range(size))


def sparse_sums():
    rank, size = dist.get_rank(), dist.get_world_size()
    x = torch.sparse_coo_tensor([[0, rank + 1]], [1.0, 2.0], (size + 1,))
    assert dist.all_reduce(x, async_op=True).wait()
    assert x.to_dense().tolist() == [float(size), *[2.0] * size]


def stores():
    rank, size = dist.get_rank(), dist.get_world_size()
    box = [None]
    served = None
    if rank == 0:
        served = dist.TCPStore("127.0.0.1", 0, is_master=True)
        box = [served.port]
    dist.broadcast_object_list(box, 0)
    tcp = served or dist.TCPStore("127.0.0.1", box[0])
    for store in (tcp, dist.FileStore(f"{FOLDER}/store", size), dist.PrefixStore("a/b", tcp)):
        store.set(f"from {rank}", bytes([rank, 255]))
        assert store.get(f"from {size - 1}") == bytes([size - 1, 255])
        store.add("number", 2)
        dist.barrier()
        assert store.add("number", 0) == 2 * size and store.check(["number", "from 0"])
        store.set_timeout(datetime.timedelta(milliseconds=30))
        try:
            store.get("never")
        except dist.DistStoreError as error:
            assert "wait timeout after 30ms, keys: /never" in str(error)
        else:
            raise AssertionError
    own = dist.HashStore()
    assert own.compare_set("k", "", "first") == b"first" and own.num_keys() == 1
    assert own.compare_set("k", "other", "second") == b"first" and own.delete_key("k")
    assert not own.delete_key("k")
    dist.barrier()


def groups_of_other_orders():
    rank, size = dist.get_rank(), dist.get_world_size()
    turned = dist.new_group(list(reversed(range(size))), sort_ranks=False)
    assert dist.get_rank(turned) == size - 1 - rank
    got = torch.zeros(size)
    dist.all_gather_into_tensor(got, torch.tensor([float(rank)]), turned)
    assert got.tolist() == [float(r) for r in reversed(range(size))]
    x = torch.tensor([float(rank)])
    dist.broadcast(x, 0, turned)
    assert x.item() == 0
    half = dist.split_group(split_ranks=[list(range(size // 2)), list(range(size // 2, size))])
    assert dist.get_process_group_ranks(half)[0] == rank // (size // 2) * (size // 2)
    for ranks, says in (([0, 99], "Rank 99 is out of range"), ([0, 0], "duplicate entries")):
        try:
            dist.new_group(ranks)
        except ValueError as error:
            assert says in str(error)
        else:
            raise AssertionError


def groups_that_end_are_given_back():
    """MPI has some two thousand communicators; a group that has ended is told so, not reached."""
    from tapegrad.distributed._world import WORLD

    ranks = range(dist.get_world_size())
    if len(ranks) > 2:  # making groups is slow where ranks share cores
        return
    for _ in range(70):
        group = dist.new_group(ranks)
        x = torch.ones(1)
        dist.all_reduce(x, group=group)
        assert x.item() == len(ranks)
        last = group
        dist.destroy_process_group(group)
    kept = dist.new_group(ranks)
    for _ in range(64):
        dist.destroy_process_group(dist.new_group(ranks))
    assert len(WORLD.over) <= 64
    dist.barrier(kept)
    try:
        dist.all_reduce(torch.ones(1), group=last)
    except ValueError as error:
        assert "it was destroyed" in str(error)
    else:
        raise AssertionError


def local_steps():
    """Averages of gradients over pairs, of models every other step."""
    size = dist.get_world_size()
    ddp = DDP(model())
    pair, _ = dist.new_subgroups(2)
    ddp.register_comm_hook(local.PostLocalSGDState(None, pair, 1), local.post_localSGD_hook)
    optimizer = torch.optim.SGD(ddp.parameters(), 0.1)
    averager = PeriodicModelAverager(period=2, warmup_steps=1)
    for step in range(4):
        optimizer.zero_grad()
        loss_of(ddp, step).backward()
        if step == 0:
            close(grads(ddp), alone(0, model()))
        optimizer.step()
        averager.average_parameters(ddp.parameters())
        if step in (0, 1, 3) or size == 2:
            same_on_all_ranks([p.detach().numpy() for p in ddp.parameters()])


def activations_are_not_kept():
    whole, again = model(), model()
    for policy in (None, wrap.ModuleWrapPolicy({nn.Linear})):
        wrapping.apply_activation_checkpointing(
            again, check_fn=lambda m: isinstance(m, nn.Linear), auto_wrap_policy=policy
        )
    assert isinstance(again[0], wrapping.CheckpointWrapper)
    assert list(again.state_dict()) == list(whole.state_dict())
    assert [n for n, _ in again[0].named_parameters()] == ["weight", "bias"]
    again.load_state_dict(whole.state_dict())
    ddp = DDP(again)
    loss_of(ddp, 0).backward()
    close(grads(ddp), alone(0, whole))


def a_scale_for_all():
    """One rank overflows: all skip the step."""
    for wanted in (True, False):
        fsdp = FSDP(model())
        optimizer = torch.optim.SGD(fsdp.parameters(), 0.1)
        scaler = ShardedGradScaler("cpu", init_scale=4.0)
        before = fsdp._flat_param.detach().clone()
        scaler.scale(loss_of(fsdp, 0)).backward()
        if not wanted and dist.get_rank() == 1:
            fsdp._flat_param.grad[0] = float("inf")
        scaler.step(optimizer)
        scaler.update()
        assert torch.equal(before, fsdp._flat_param) is not wanted
        assert scaler.get_scale() == (4.0 if wanted else 2.0)


def units_by_hand():
    with wrap.enable_wrap(wrapper_cls=FSDP, sharding_strategy=None):
        unit = wrap.wrap(nn.Linear(2, 2))
    assert isinstance(unit, FSDP) and isinstance(wrap.wrap(nn.Linear(2, 2)), nn.Linear)
    chosen = wrap.CustomPolicy(lambda m: {} if isinstance(m, nn.Linear) else False)
    assert len(FSDP.fsdp_modules(FSDP(model(), auto_wrap_policy=chosen))) == 4
    frozen = model()
    frozen[0].bias.requires_grad_(False)
    try:
        FSDP(frozen)
    except ValueError as error:
        assert "0.bias is frozen" in str(error)
    else:
        raise AssertionError


def checkpoints_of_shards_beside_whole_tensors():
    """Ranks that have different numbers of shards agree on who writes the rest."""
    fsdp = FSDP(model(5))
    whole = {f"w{i}": torch.full((3,), float(i)) for i in range(7)}
    with FSDP.state_dict_type(fsdp, StateDictType.SHARDED_STATE_DICT):
        dcp.save({"m": fsdp.state_dict(), "w": whole}, checkpoint_id=f"{FOLDER}/mixed")
    got = {"m": model(6).state_dict(), "w": {name: torch.zeros(3) for name in whole}}
    dcp.load(got, checkpoint_id=f"{FOLDER}/mixed")
    assert all(torch.equal(got["w"][name], value) for name, value in whole.items())
    assert all(torch.equal(got["m"][name], v) for name, v in model(5).state_dict().items())
    more = {"w": {"w1": torch.zeros(3), "new": torch.ones(1)}}
    dcp.load(more, checkpoint_id=f"{FOLDER}/mixed", planner=dcp.DefaultLoadPlanner(
        allow_partial_load=True))  # fmt: skip
    assert more["w"]["w1"].tolist() == [1.0] * 3 and more["w"]["new"].item() == 1
    dcp.load_state_dict(got, dcp.FileSystemReader(f"{FOLDER}/mixed"))
    dist.barrier()


CASES = [
    *(gradients_go_back, new_tensors, sparse_sums, stores, groups_of_other_orders, local_steps),
    groups_that_end_are_given_back,
    *(activations_are_not_kept, a_scale_for_all, units_by_hand),
    checkpoints_of_shards_beside_whole_tensors,
]

if __name__ == "__main__":
    dist.init_process_group("mpi", timeout=datetime.timedelta(seconds=60))
    os.makedirs(FOLDER, exist_ok=True)
    run_cases(CASES)
    dist.destroy_process_group()
