"""`utils.checkpoint.budget`: a limit for saved values, with gradients of the same bits."""

from __future__ import annotations

import gc
import warnings

import numpy as np
import pytest

import tapegrad as torch
from tapegrad import nn
from tapegrad.nn import functional as F
from tapegrad.utils.checkpoint import budget, checkpoint


class Residual(nn.Module):
    """Norms, dropout, a wide middle, and a sum that nothing but recomputation needs."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.wide = nn.Linear(width, 4 * width)
        self.back = nn.Linear(4 * width, width)
        self.drop = nn.Dropout(0.2)

    def forward(self, x):
        return x + self.drop(self.back(F.gelu(self.wide(self.norm(x)))))


class Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (4, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        return x + F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


def convolutions():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.SiLU(), nn.Dropout2d(0.3),
        nn.ConvTranspose2d(16, 8, 2, 2), nn.GroupNorm(2, 8), nn.ReLU(inplace=True),
        nn.Conv2d(8, 1, 1),
    )  # fmt: skip


MODELS = {
    "residual": lambda: (
        nn.Sequential(*[Residual(32) for _ in range(6)]), torch.randn(8, 16, 32)
    ),
    "attention": lambda: (
        nn.Sequential(*[Attention(32) for _ in range(4)]), torch.randn(8, 16, 32)
    ),
    "convolutions": lambda: (convolutions(), torch.randn(4, 3, 16, 16)),
    "recurrent": lambda: (
        nn.Sequential(nn.RNNCell(32, 64), nn.Tanh(), nn.Linear(64, 64), nn.ELU()),
        torch.randn(64, 32),
    ),
    "double": lambda: (
        nn.Sequential(*[Residual(16) for _ in range(4)]).double(),
        torch.randn(8, 16, 16, dtype=torch.float64),
    ),
    "bfloat16": lambda: (
        nn.Sequential(*[nn.Linear(64, 64) if i % 2 else nn.GELU() for i in range(8)]).bfloat16(),
        torch.randn(64, 64).bfloat16(),
    ),
}  # fmt: skip


def step(model, x, size=None, autocast=False):
    """The gradients and buffers of one training step, and what the budget says of it."""
    state = {name: t.clone() for name, t in model.state_dict().items()}
    model.zero_grad()
    torch.manual_seed(7)

    def both() -> None:
        with torch.autocast("cpu", enabled=autocast):
            out = model(x)
        (out.float() ** 2).mean().backward()

    if size is None:
        both()
        report = None
    else:
        with warnings.catch_warnings(), budget(size) as report:
            warnings.simplefilter("ignore")
            both()
    grads = [p.grad.clone() for p in model.parameters()]
    buffers = [b.clone() for b in model.buffers()]
    model.load_state_dict(state)
    return grads, buffers, report


def same_bits(first, second) -> bool:
    return len(first) == len(second) and all(
        a.dtype is b.dtype and (a.float() == b.float()).all().item()
        for a, b in zip(first, second, strict=True)
    )


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_gradients_and_buffers_have_the_same_bits(name, autocast) -> None:
    torch.manual_seed(0)
    model, x = MODELS[name]()
    grads, buffers, _ = step(model, x, autocast=autocast)
    full = step(model, x, "1 GB", autocast)[2]
    assert full.dropped == full.recomputed == 0
    for share in (0.8, 0.5, 0.1):
        found, after, report = step(model, x, int(full.peak * share), autocast)
        assert same_bits(found, grads), share
        assert same_bits(after, buffers), share
        if share <= 0.5:
            assert report.dropped > 0
            assert report.recomputed > 0
        assert report.peak < full.peak
        assert report.live == 0


def test_peak_stays_within_the_budget_where_it_is_feasible() -> None:
    model, x = nn.Sequential(*[Residual(32) for _ in range(8)]), torch.randn(16, 16, 32)
    full = step(model, x, "1 GB")[2].peak
    for share in (0.75, 0.5):
        step(model, x, int(full * share))  # measures
        assert step(model, x, int(full * share))[2].peak <= full * share * 1.05


def test_diagnose_memory_sees_what_is_kept() -> None:
    model, x = nn.Sequential(*[Residual(32) for _ in range(6)]), torch.randn(16, 16, 32)
    plain = torch.diagnose.memory(model(x).sum()).activations
    with budget(plain // 2) as report:
        loss = model(x).sum()
        kept = torch.diagnose.memory(loss).activations
        assert kept <= plain * 0.75
        assert report.dropped
        loss.backward()


def test_an_infeasible_budget_says_how_much_is_needed() -> None:
    model, x = nn.Sequential(*[Residual(32) for _ in range(3)]), torch.randn(8, 16, 32)
    with pytest.warns(UserWarning, match=r"limit of 9.0 kB could not be met.*needs budget\("):
        with budget("9 kB"):
            model(x).sum().backward()


def test_backward_after_the_block_and_twice() -> None:
    model, x = nn.Sequential(*[Residual(32) for _ in range(4)]).eval(), torch.randn(8, 16, 32)
    wanted = torch.autograd.grad(model(x).sum(), list(model.parameters()))
    with budget("200 kB") as report:
        loss = model(x).sum()
    for retain in (True, False):
        found = torch.autograd.grad(loss, list(model.parameters()), retain_graph=retain)
        assert same_bits(found, wanted)
    del loss
    assert report.recomputed > 0
    assert report.live == 0


def test_a_graph_that_is_given_up_frees_everything() -> None:
    model, x = nn.Sequential(*[Residual(32) for _ in range(4)]), torch.randn(8, 16, 32)
    with budget("200 kB") as report:
        loss = model(x).sum()
        assert report.live > 0
        del loss
        gc.collect()
        assert report.live == 0
        assert not report._held
        assert not report._missing


def test_second_order() -> None:
    model = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
    x = torch.randn(32, 8, requires_grad=True)

    def penalty():
        (g,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        return torch.autograd.grad((g * g).sum(), list(model.parameters())[:3])

    wanted = penalty()
    with warnings.catch_warnings(), budget("30 kB") as report:
        warnings.simplefilter("ignore")
        found = penalty()
    assert same_bits(found, wanted)
    assert report.recomputed > 0


def test_a_write_to_what_a_dropped_value_is_made_of() -> None:
    scale = torch.ones(64, 64)

    def run(write):
        w = torch.full((64, 64), 0.5, requires_grad=True)
        scale.fill_(2.0)
        x = (w + scale).exp() * 1.5  # no rule reads `scale`
        for _ in range(6):
            x = torch.sin(x)
        if write:
            scale.fill_(100.0)
        x.sum().backward()
        return [w.grad]

    wanted = run(write=True)
    with warnings.catch_warnings(), budget("50 kB") as report:
        warnings.simplefilter("ignore")
        found = run(write=True)
    assert report.dropped > 0
    assert same_bits(found, wanted)


def test_a_write_that_was_not_seen_is_refused() -> None:
    scale = torch.ones(64, 64)
    w = torch.full((64, 64), 0.5, requires_grad=True)
    with warnings.catch_warnings(), budget("20 kB"):
        warnings.simplefilter("ignore")
        x = w + scale
        for _ in range(6):
            x = torch.sin(x)
        loss = x.sum()
        del x
    scale.add_(1.0)  # after the block
    with pytest.raises(RuntimeError, match=r"budget: a dropped result of add .*modified in place"):
        loss.backward()


def test_pytorchs_error_for_overwritten_values_stays() -> None:
    w = torch.full((64, 64), 0.5, requires_grad=True)
    with budget("1 MB"):
        y = (w * 2).exp()
        y.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


def test_checkpoints_and_hooks_inside() -> None:
    model, x = nn.Sequential(*[Residual(32) for _ in range(4)]), torch.randn(8, 16, 32)

    def run():
        torch.manual_seed(3)
        model.zero_grad()
        y = model[0](x)
        y = checkpoint(model[1], y, use_reentrant=False)
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t.numpy(), torch.from_numpy):
            y = model[2](y)
        model[3](y).sum().backward()
        return [p.grad.clone() for p in model.parameters()]

    wanted = run()
    with warnings.catch_warnings(), budget("100 kB") as report:
        warnings.simplefilter("ignore")
        assert same_bits(run(), wanted)
    assert report.recomputed > 0


def test_transforms_of_functions_inside() -> None:
    f = lambda x: (x.sin() * x).exp().sum()  # noqa: E731
    x = torch.randn(64, 64)
    wanted = [torch.func.grad(f)(x), torch.func.vmap(torch.func.hessian(f))(x[:4, :5])]
    with warnings.catch_warnings(), budget("10 kB"):
        warnings.simplefilter("ignore")
        found = [torch.func.grad(f)(x), torch.func.vmap(torch.func.hessian(f))(x[:4, :5])]
    assert same_bits(found, wanted)


def test_views_of_a_dropped_value_in_any_layout() -> None:
    w = torch.randn(128, 96, requires_grad=True)

    def parts_of(a):  # saved as views of memory in the order of w.t()
        return sum([(p.sin() * 2).sum() for p in (a[::2].t(), a[5:77, ::3], a.reshape(-1)[7:90])])

    def run():
        total = parts_of((w.t() * 1.5).exp())
        for _ in range(3):
            total = total + parts_of((w.t() * 0.5).cos())
        return torch.autograd.grad(total, w)

    wanted = run()
    with warnings.catch_warnings(), budget("100 kB") as report:
        warnings.simplefilter("ignore")
        assert same_bits(run(), wanted)
    assert report.dropped > 0


@pytest.mark.parametrize("size", ["", "12 XB", "-3", 0, -1, None, True, float("nan"), "1e9 MB"])
def test_a_bad_size_is_refused(size) -> None:
    with pytest.raises(ValueError, match=r"budget\(\): the size must be"):
        budget(size)


def test_sizes() -> None:
    sizes = {"200 MB": 200_000_000, "1.5GiB": 3 << 29, "3 k": 3000, "7": 7, 1e3: 1000, ".5kib": 512}
    assert [budget(size).size for size in sizes] == list(sizes.values())


def test_blocks_do_not_nest() -> None:
    with budget("1 MB"), pytest.raises(RuntimeError, match="cannot be nested"):
        with budget("1 MB"):
            pass
    assert np.isfinite(float(torch.ones(1, requires_grad=True).exp().detach()))
