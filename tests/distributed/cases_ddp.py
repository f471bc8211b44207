"""DistributedDataParallel: what it promises, on any number of ranks. Run by test_ddp.py."""

from __future__ import annotations

import copy
import datetime
import pickle

import numpy as np
from ranks import run_cases

import tapegrad as torch
import tapegrad.distributed as dist
from tapegrad import nn
from tapegrad.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from tapegrad.nn.parallel import DistributedDataParallel as DDP


def model(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3))


def batch(step, rows):
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(rows, 6, generator=generator)
    return x, x[:, :3].sin()


def own(tensor):
    """The part of this rank."""
    return tensor[dist.get_rank() :: dist.get_world_size()]


def loss_of(module, step, rows=8, mine=True):
    x, y = batch(step, rows)
    return nn.functional.mse_loss(module(own(x)), own(y)) if mine else None


def grads(module):
    return [p.grad.numpy().copy() for p in module.parameters()]


def same_on_all_ranks(arrays):
    """Bit for bit."""
    every = [None] * dist.get_world_size()
    dist.all_gather_object(every, [a.tobytes() for a in arrays])
    assert all(other == every[0] for other in every)


def alone(step, module, rows=8):
    """The gradients of one process that has the whole batch."""
    module.zero_grad()
    x, y = batch(step, rows)
    nn.functional.mse_loss(module(x), y).backward()
    return grads(module)


def close(found, expected, tolerance=1e-6):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance * 10, atol=tolerance)


def starts_from_rank_0():
    ddp = DDP(model(seed=dist.get_rank()))
    close(
        [p.detach().numpy() for p in ddp.parameters()],
        [p.detach().numpy() for p in model(0).parameters()],
        0,
    )


def equals_one_process():
    for cap in (25, 0.0001):
        single, ddp = model(), DDP(model(), bucket_cap_mb=cap)
        one = torch.optim.Adam(single.parameters(), 0.01)
        many = torch.optim.Adam(ddp.parameters(), 0.01)
        for step in range(6):
            expected = alone(step, single)
            many.zero_grad()
            loss_of(ddp, step).backward()
            close(grads(ddp), expected)
            same_on_all_ranks(grads(ddp))
            one.step()
            many.step()
        assert (len(ddp.reducer.buckets) > 2) == (cap < 1)
        assert ddp.reducer.rebuilt


def gradients_are_views_of_buckets():
    ddp = DDP(model())
    for step in range(3):
        ddp.zero_grad()
        loss_of(ddp, step).backward()
    for bucket in ddp.reducer.buckets:
        for p, view in zip(bucket.parameters(), bucket.gradients(), strict=True):
            assert p.grad is view
            assert np.shares_memory(p.grad.numpy(), bucket.buffer().numpy())


def without_zero_grad_they_add_up():
    single, ddp = model(), DDP(model())
    first = alone(0, single)
    second = alone(1, single)
    loss_of(ddp, 0).backward()
    loss_of(ddp, 1).backward()
    close(grads(ddp), [a + b for a, b in zip(first, second, strict=True)])


def no_sync():
    single, ddp = model(), DDP(model())
    expected = [a + b for a, b in zip(alone(0, single), alone(1, single), strict=True)]
    with ddp.no_sync():
        loss_of(ddp, 0).backward()
    local = grads(ddp)
    loss_of(ddp, 1).backward()
    close(grads(ddp), expected)
    same_on_all_ranks(grads(ddp))
    if dist.get_world_size() > 1:
        assert any((a != b).any() for a, b in zip(local, grads(ddp), strict=True))


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.shared = nn.Linear(6, 3)
        self.odd, self.even, self.never = (nn.Linear(3, 3) for _ in range(3))

    def forward(self, x, branch):
        return getattr(self, branch)(self.shared(x))


def unused_parameters_are_found():
    ddp = DDP(Branches(), find_unused_parameters=True)
    for _ in range(3):
        ddp.zero_grad()
        branch = "odd" if dist.get_rank() % 2 else "even"
        ddp(own(batch(0, 8)[0]), branch).sum().backward()
        assert ddp.module.never.weight.grad is None
        same_on_all_ranks([p.grad.numpy() for n, p in ddp.named_parameters() if "never" not in n])
        assert (
            ddp.module.odd.bias.grad
            == (dist.get_world_size() // 2) * 8 / dist.get_world_size() ** 2
        ).all()


def static_graph():
    ddp = DDP(Branches(), static_graph=True)
    for _ in range(3):
        ddp.zero_grad()
        ddp(own(batch(0, 8)[0]), "odd").sum().backward()
        assert ddp.module.never.weight.grad is None and ddp.module.even.bias.grad is None
        same_on_all_ranks(
            [ddp.module.odd.weight.grad.numpy(), ddp.module.shared.weight.grad.numpy()]
        )


def unused_parameters_are_named():
    ddp = DDP(Branches())
    ddp(own(batch(0, 8)[0]), "odd").sum().backward()
    try:
        ddp(own(batch(0, 8)[0]), "odd")
    except RuntimeError as error:
        assert str(error).startswith("Expected to have finished reduction in the prior iteration")
        assert error.diagnosis["unused"] == [
            *("even.weight", "even.bias", "never.weight", "never.bias")
        ]
        assert "even.weight: " in str(error) and "never been used" in str(error)
    else:
        raise AssertionError


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.a, self.b = nn.Linear(6, 3), nn.Linear(6, 3)

    def forward(self, x):
        return {"a": self.a(x), "b": [self.b(x), 7]}


def outputs_that_the_loss_does_not_use():
    """Their parameters were used, so they get zeros."""
    for how in ({"find_unused_parameters": True}, {"static_graph": True}):
        ddp = DDP(Two(), **how)
        for _ in range(3):
            ddp.zero_grad()
            out = ddp(own(batch(0, 8)[0]))
            assert out["b"][1] == 7
            out["a"].sum().backward()
            assert (ddp.module.b.weight.grad == 0).all()
            same_on_all_ranks([ddp.module.a.weight.grad.numpy()])


def gradients_lie_as_their_parameters():
    torch.manual_seed(0)
    ddp = DDP(nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last))
    for _ in range(3):
        ddp.zero_grad()
        ddp(torch.ones(2, 3, 5, 5) * (dist.get_rank() + 1)).square().sum().backward()
        assert ddp.module.weight.grad.stride() == ddp.module.weight.stride() == (27, 1, 9, 3)
        same_on_all_ranks([ddp.module.weight.grad.contiguous().numpy()])


def sparse_gradients():
    rank, size = dist.get_rank(), dist.get_world_size()

    class Table(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.table, self.head = nn.Embedding(6, 2, sparse=True), nn.Linear(2, 1)

        def forward(self, x):
            return self.head(self.table(x))

    for unused in (False, True):
        ddp = DDP(Table(), find_unused_parameters=unused)
        for _ in range(3):
            ddp.zero_grad()
            ddp(torch.tensor([0, rank + 1])).sum().backward()
            grad = ddp.module.table.weight.grad
            expected = ddp.module.head.weight.detach() * torch.tensor(
                [[1.0]] + [[1 / size]] * size + [[0.0]] * (5 - size)
            )
            assert grad.is_sparse
            close([grad.to_dense().numpy()], [expected.numpy()])


def hooks():
    expected = alone(0, model())
    for hook, tolerance in (
        (default_hooks.allreduce_hook, 1e-6),
        (default_hooks.fp16_compress_hook, 2e-3),
        (default_hooks.bf16_compress_hook, 1e-2),
        (default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook), 2e-3),
    ):
        ddp = DDP(model())
        ddp.register_comm_hook(None, hook)
        loss_of(ddp, 0).backward()
        close(grads(ddp), expected, tolerance)
        same_on_all_ranks(grads(ddp))


def power_sgd():
    """With the full rank nothing is lost; with rank 1 what is lost is made up for later."""
    ddp = DDP(model())
    state = powerSGD_hook.PowerSGDState(None, 8, start_powerSGD_iter=2, min_compression_rate=0.01)
    ddp.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    for step in range(5):
        ddp.zero_grad()
        loss_of(ddp, step).backward()
        close(grads(ddp), alone(step, model()), 1e-5)
    ddp = DDP(model())
    state = powerSGD_hook.PowerSGDState(None, 1, start_powerSGD_iter=2, min_compression_rate=0.5)
    ddp.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    total = None
    for _ in range(60):
        ddp.zero_grad()
        loss_of(ddp, 0).backward()
        same_on_all_ranks(grads(ddp))
        total = (
            grads(ddp) if total is None else [a + b for a, b in zip(total, grads(ddp), strict=True)]
        )
    close([t / 60 for t in total], alone(0, model()), 5e-3)
    ddp = DDP(model())
    state = powerSGD_hook.PowerSGDState(None, 99, start_powerSGD_iter=2)
    ddp.register_comm_hook(state, powerSGD_hook.batched_powerSGD_hook)
    for step in range(4):
        ddp.zero_grad()
        loss_of(ddp, step).backward()
        close(grads(ddp), alone(step, model()), 1e-5)


class Normed(nn.Module):
    def __init__(self, norm):
        super().__init__()
        torch.manual_seed(1)
        self.conv, self.norm = nn.Conv1d(2, 4, 1), norm

    def forward(self, x):
        return self.norm(self.conv(x.view(-1, 2, 3))).tanh()


def sync_batch_norm():
    single, synced = Normed(nn.BatchNorm1d(4)), Normed(nn.BatchNorm1d(4))
    ddp = DDP(nn.SyncBatchNorm.convert_sync_batchnorm(synced))
    x = batch(0, 8)[0]
    for _ in range(3):
        single.zero_grad()
        ddp.zero_grad()
        whole, part = single(x), ddp(own(x))
        close([part.detach().numpy()], [own(whole).detach().numpy()])
        whole.square().mean().backward()
        part.square().mean().backward()
        close(grads(ddp), grads(single))
    close([ddp.module.norm.running_var.numpy()], [single.norm.running_var.numpy()])


def buffers_come_from_rank_0():
    ddp = DDP(Normed(nn.BatchNorm1d(4)))
    x = batch(0, 8)[0]
    for step in range(3):
        ddp(own(batch(step, 8)[0])).sum().backward()
    ddp(own(x))
    ddp.eval()
    ddp(own(x))
    assert int(ddp.module.norm.num_batches_tracked) == 4
    same_on_all_ranks([ddp.module.norm.running_mean.numpy()])


def uneven_inputs():
    size, rank = dist.get_world_size(), dist.get_rank()
    ddp = DDP(model())
    optimizer = torch.optim.SGD(ddp.parameters(), 0.1)
    single = model()
    one = torch.optim.SGD(single.parameters(), 0.1)
    with ddp.join():
        for step in range(2 + rank):
            optimizer.zero_grad()
            loss_of(ddp, step).backward()
            optimizer.step()
    for step in range(1 + size):
        one.zero_grad()
        x, y = batch(step, 8)
        for other in range(size):
            if step < 2 + other:
                part = nn.functional.mse_loss(single(x[other::size]), y[other::size])
                (part / size).backward()
        one.step()
    close(
        [p.detach().numpy() for p in ddp.parameters()],
        [p.detach().numpy() for p in single.parameters()],
    )
    try:
        with ddp.join(throw_on_early_termination=True):
            for step in range(2 + rank):
                loss_of(ddp, step).backward()
    except RuntimeError as error:
        assert "exhausted" in str(error)
    else:
        raise AssertionError
    dist.barrier()


def state_dicts_and_copies():
    ddp = DDP(model())
    assert list(ddp.state_dict()) == [f"module.{name}" for name in model().state_dict()]
    again = pickle.loads(pickle.dumps(ddp))
    assert again.process_group is dist.group.WORLD
    loss_of(again, 0).backward()
    close(grads(again), alone(0, model()))
    copied = copy.deepcopy(ddp.module)
    copied.load_state_dict(ddp.module.state_dict())


def other_dtypes():
    for dtype in (torch.float64, torch.bfloat16):
        ddp = DDP(model().to(dtype))
        x, y = batch(0, 8)
        nn.functional.mse_loss(ddp(own(x.to(dtype))), own(y.to(dtype))).backward()
        same_on_all_ranks([p.grad.float().numpy() for p in ddp.parameters()])
        assert all(p.grad.dtype is dtype for p in ddp.parameters())


def samplers():
    data = list(range(10))
    sampler = torch.utils.data.DistributedSampler(data, shuffle=True, seed=1)
    sampler.set_epoch(2)
    every = [None] * dist.get_world_size()
    dist.all_gather_object(every, list(sampler))
    assert set(sum(every, [])) == set(data) and len({len(part) for part in every}) == 1


def frozen_and_ignored():
    module = model()
    module[0].requires_grad_(False)
    DDP._set_params_and_buffers_to_ignore_for_model(module, ["2.bias"])
    ddp = DDP(module)
    assert len(ddp.reducer.params) == 3
    loss_of(ddp, 0).backward()
    assert module[0].weight.grad is None
    same_on_all_ranks([module[2].weight.grad.numpy()])


CASES = [
    *(starts_from_rank_0, equals_one_process, gradients_are_views_of_buckets),
    *(without_zero_grad_they_add_up, no_sync, unused_parameters_are_found, static_graph),
    *(unused_parameters_are_named, hooks, power_sgd, sync_batch_norm, buffers_come_from_rank_0),
    *(uneven_inputs, state_dicts_and_copies, other_dtypes, samplers, frozen_and_ignored),
    *(outputs_that_the_loss_does_not_use, gradients_lie_as_their_parameters, sparse_gradients),
]

if __name__ == "__main__":
    dist.init_process_group("mpi", timeout=datetime.timedelta(seconds=60))
    run_cases(CASES)
    dist.destroy_process_group()
