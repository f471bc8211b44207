"""ZeRO, FSDP, checkpoints and meshes on any number of ranks. Run by test_sharded.py."""

from __future__ import annotations

import datetime
import sys

import numpy as np
from cases_ddp import alone, batch, close, loss_of, model, own, same_on_all_ranks
from ranks import run_cases

import tapegrad as torch
import tapegrad.distributed as dist
import tapegrad.distributed.checkpoint as dcp
from tapegrad import nn
from tapegrad.distributed.algorithms.join import Join
from tapegrad.distributed.checkpoint.state_dict import (
    get_optimizer_state_dict,
    get_state_dict,
    set_optimizer_state_dict,
    set_state_dict,
)
from tapegrad.distributed.device_mesh import init_device_mesh
from tapegrad.distributed.fsdp import (
    FullStateDictConfig,
    MixedPrecision,
    ShardingStrategy,
    StateDictType,
)
from tapegrad.distributed.fsdp import FullyShardedDataParallel as FSDP
from tapegrad.distributed.fsdp.wrap import ModuleWrapPolicy
from tapegrad.distributed.optim import ZeroRedundancyOptimizer
from tapegrad.nn.parallel import DistributedDataParallel as DDP

FOLDER = sys.argv[1] if len(sys.argv) > 1 else "."


def weights(module):
    return [p.detach().numpy().copy() for p in module.parameters()]


def reference(steps, optimizer=torch.optim.Adam):
    """One process with the whole batch."""
    single = model()
    one = optimizer(single.parameters(), lr=0.01)
    for step in range(steps):
        alone(step, single)
        one.step()
    return single, one


def zero_redundancy():
    ddp = DDP(model())
    zero = ZeroRedundancyOptimizer(ddp.parameters(), torch.optim.Adam, lr=0.01)
    for step in range(4):
        zero.zero_grad()
        loss_of(ddp, step).backward()
        zero.step()
    single, one = reference(4)
    close(weights(ddp), weights(single))
    same_on_all_ranks(weights(ddp))
    total = torch.tensor(sum(s["exp_avg"].numel() for s in zero.optim.state.values()))
    everything = sum(p.numel() for p in ddp.parameters())
    assert total.item() < everything
    dist.all_reduce(total)
    assert total.item() == everything
    zero.consolidate_state_dict(0)
    if dist.get_rank() == 0:
        saved = zero.state_dict()
        close([s["exp_avg"].numpy() for s in saved["state"].values()],
              [s["exp_avg"].numpy() for s in one.state_dict()["state"].values()])  # fmt: skip
        torch.optim.Adam(model().parameters(), lr=0.01).load_state_dict(saved)
    box = [zero.state_dict() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(box, 0)
    zero.load_state_dict(box[0])


def uneven_inputs():
    """A rank without inputs goes on with its share of the optimizer's work."""

    def trained(zero):
        ddp = DDP(model())
        make = ZeroRedundancyOptimizer if zero else lambda p, kind, lr: kind(p, lr=lr)
        optimizer = make(ddp.parameters(), torch.optim.Adam, lr=0.01)
        with Join([ddp, optimizer] if zero else [ddp]):
            for step in range(2 + dist.get_rank()):
                optimizer.zero_grad()
                loss_of(ddp, step).backward()
                optimizer.step()
        return weights(ddp)

    close(trained(zero=True), trained(zero=False))
    same_on_all_ranks(trained(zero=True))


def fully_sharded():
    size = dist.get_world_size()
    for strategy in (
        ShardingStrategy.FULL_SHARD,
        ShardingStrategy.SHARD_GRAD_OP,
        ShardingStrategy.NO_SHARD,
    ):
        for policy in (None, ModuleWrapPolicy({nn.Linear})):
            fsdp = FSDP(model(), sharding_strategy=strategy, auto_wrap_policy=policy)
            optimizer = torch.optim.Adam(fsdp.parameters(), lr=0.01)
            for step in range(4):
                optimizer.zero_grad()
                loss_of(fsdp, step).backward()
                optimizer.step()
            single, _ = reference(4)
            state = fsdp.state_dict()
            assert list(state) == list(single.state_dict()) or set(state) == set(
                single.state_dict()
            )
            for name, expected in single.state_dict().items():
                close([state[name].numpy()], [expected.numpy()])
            held = sum(p.numel() for p in fsdp.parameters())
            whole = sum(p.numel() for p in single.parameters())
            if strategy is not ShardingStrategy.NO_SHARD:
                assert held <= whole / size + 3 * size
                kept = sum(s["exp_avg"].numel() for s in optimizer.state.values())
                assert kept == held
            assert all(unit._full is None for unit in FSDP.fsdp_modules(fsdp))
            assert "weight" not in fsdp.module[0].__dict__


def fully_sharded_more():
    fsdp = FSDP(model(), auto_wrap_policy=ModuleWrapPolicy({nn.Linear}))
    x, y = batch(0, 8)
    nn.functional.mse_loss(fsdp(own(x)), own(y)).backward()
    single = model()
    alone(0, single)
    norm = nn.utils.clip_grad_norm_(single.parameters(), 0.01)
    np.testing.assert_allclose(float(fsdp.clip_grad_norm_(0.01)), float(norm), rtol=1e-5)
    with FSDP.summon_full_params(fsdp):
        close([fsdp.module[2].weight.numpy()], [single[2].weight.detach().numpy()], 0)
        fsdp.module[2].bias.fill_(7.0)
    assert (fsdp.state_dict()["2.bias"] == 7).all()
    fsdp.load_state_dict(single.state_dict())
    close([fsdp.state_dict()["2.bias"].numpy()], [single[2].bias.detach().numpy()], 0)
    low = FSDP(model(), mixed_precision=MixedPrecision(param_dtype=torch.bfloat16))
    out = low(own(x))
    assert out.dtype is torch.bfloat16
    out.float().sum().backward()
    assert low._flat_param.grad.dtype is torch.float32
    FSDP(model(seed=dist.get_rank()), sync_module_states=True)


def checkpoint_of_all(name="all"):
    ddp = DDP(model())
    optimizer = torch.optim.Adam(ddp.parameters(), lr=0.01)
    loss_of(ddp, 0).backward()
    optimizer.step()
    state = {"model": ddp.module.state_dict(), "optimizer": optimizer.state_dict(), "step": 3}
    dcp.save(state, checkpoint_id=f"{FOLDER}/{name}")
    again = {"model": model(9).state_dict(), "optimizer": optimizer.state_dict(), "step": 0}
    dcp.load(again, checkpoint_id=f"{FOLDER}/{name}")
    assert again["step"] == 3
    for key, value in ddp.module.state_dict().items():
        assert torch.equal(again["model"][key], value)


def save_shards():
    fsdp = FSDP(model(5), auto_wrap_policy=ModuleWrapPolicy({nn.Linear}))
    with FSDP.state_dict_type(fsdp, StateDictType.SHARDED_STATE_DICT):
        dcp.save({"model": fsdp.state_dict()}, checkpoint_id=f"{FOLDER}/shards")


def load_shards():
    """Perhaps on another number of ranks, and in other units."""
    for policy in (None, ModuleWrapPolicy({nn.Linear})):
        fsdp = FSDP(model(6), auto_wrap_policy=policy)
        with FSDP.state_dict_type(fsdp, StateDictType.SHARDED_STATE_DICT):
            dcp.load({"model": fsdp.state_dict()}, checkpoint_id=f"{FOLDER}/shards")
        for name, value in model(5).state_dict().items():
            assert torch.equal(fsdp.state_dict()[name], value)
    plain = {"model": model(6).state_dict()}
    dcp.load(plain, checkpoint_id=f"{FOLDER}/shards")
    assert all(torch.equal(plain["model"][k], v) for k, v in model(5).state_dict().items())


def trained_fsdp(steps, policy=None, optimizer=torch.optim.Adam):
    fsdp = FSDP(model(), auto_wrap_policy=policy)
    made = optimizer(fsdp.parameters(), lr=0.01)
    for step in range(steps):
        made.zero_grad()
        loss_of(fsdp, step).backward()
        made.step()
    return fsdp, made


def save_optimizer():
    fsdp, optimizer = trained_fsdp(3, ModuleWrapPolicy({nn.Linear}))
    parts = dict(zip(("model", "optimizer"), get_state_dict(fsdp, optimizer), strict=True))
    dcp.save(parts, checkpoint_id=f"{FOLDER}/training")


def load_optimizer():
    """Perhaps on another number of ranks, in other units: training goes on as if it was one."""
    single, one = reference(3)
    alone(3, single)
    one.step()
    for policy in (None, ModuleWrapPolicy({nn.Linear})):
        fsdp, optimizer = trained_fsdp(0, policy)
        parts = dict(zip(("model", "optimizer"), get_state_dict(fsdp, optimizer), strict=True))
        dcp.load(parts, checkpoint_id=f"{FOLDER}/training")
        set_state_dict(
            fsdp,
            optimizer,
            model_state_dict=parts["model"],
            optim_state_dict=parts["optimizer"],
        )
        optimizer.zero_grad()
        loss_of(fsdp, 3).backward()
        optimizer.step()
        close([fsdp.state_dict()[name].numpy() for name in single.state_dict()], weights(single))


def whole_optimizer_states():
    single, one = reference(3)
    expected = get_optimizer_state_dict(single, one)
    assert expected["param_groups"][0]["params"] == [name for name, _ in single.named_parameters()]
    for policy in (None, ModuleWrapPolicy({nn.Linear})):
        fsdp, optimizer = trained_fsdp(3, policy)
        found = FSDP.optim_state_dict(fsdp, optimizer)
        assert set(found["state"]) == set(expected["state"])
        for name, state in expected["state"].items():
            for key, value in state.items():
                close([found["state"][name][key].numpy()], [value.numpy()])
        # Into the optimizer of a module without FSDP, and of one with.
        other = model()
        plain = torch.optim.Adam(other.parameters(), lr=0.5)
        set_optimizer_state_dict(other, plain, found)
        assert plain.param_groups[0]["lr"] == 0.01
        close([plain.state[other[2].weight]["exp_avg"].numpy()],
              [expected["state"]["2.weight"]["exp_avg"].numpy()])  # fmt: skip
        again, its = trained_fsdp(0, None)
        FSDP.optim_state_dict_to_load(again, its, found, load_directly=True)
        back = FSDP.full_optim_state_dict(again, its, rank0_only=False)["state"]
        close([back["4.bias"]["exp_avg_sq"].numpy()],
              [expected["state"]["4.bias"]["exp_avg_sq"].numpy()])  # fmt: skip
    config = FullStateDictConfig(offload_to_cpu=True, rank0_only=True)
    with FSDP.state_dict_type(fsdp, StateDictType.FULL_STATE_DICT, config):
        assert FSDP.get_state_dict_type(fsdp).state_dict_config is config
        assert bool(fsdp.state_dict()) == (dist.get_rank() == 0)


def meshes():
    size, rank = dist.get_world_size(), dist.get_rank()
    mesh = init_device_mesh("cpu", (size // 2, 2), mesh_dim_names=("dp", "tp"))
    assert mesh.get_coordinate() == [rank // 2, rank % 2] and mesh["tp"].size() == 2
    tensor = torch.tensor([rank])
    dist.all_reduce(tensor, group=mesh.get_group("tp"))
    assert tensor.item() == 2 * (rank // 2 * 2) + 1
    whole = init_device_mesh("cpu", (size,))
    loss_of(DDP(model(), device_mesh=whole), 0).backward()


def names_that_raise():
    from tapegrad.distributed.tensor import DTensor, distribute_tensor
    from tapegrad.distributed.tensor.parallel import parallelize_module

    assert not isinstance(torch.ones(1), DTensor)
    for call in (lambda: distribute_tensor(torch.ones(1)), lambda: parallelize_module(None)):
        try:
            call()
        except NotImplementedError as error:
            assert error.diagnosis["id"] == "E15"
        else:
            raise AssertionError


CASES = [
    *(zero_redundancy, uneven_inputs, fully_sharded, fully_sharded_more, checkpoint_of_all),
    *(save_shards, load_shards, save_optimizer, load_optimizer, whole_optimizer_states),
    *(meshes, names_that_raise),
]

if __name__ == "__main__":
    dist.init_process_group("mpi", timeout=datetime.timedelta(seconds=60))
    wanted = sys.argv[2:]
    run_cases([case for case in CASES if not wanted or case.__name__ in wanted])
    dist.destroy_process_group()
