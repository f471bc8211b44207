"""Random programs and random training programs, compiled and not: the same numbers."""

from __future__ import annotations

import random
import warnings
from typing import Any

import pytest

import tapegrad as tg
from tapegrad import nn
from tapegrad.compiler.run.function import Compiled
from tapegrad.nn import functional as F

UNARY = (
    *(tg.neg, tg.exp, tg.tanh, tg.sigmoid, tg.sin, F.relu, F.gelu, F.silu, F.softplus, tg.abs),
    *(lambda x: x * 0.5, lambda x: 1.0 - x, lambda x: x**2, lambda x: x.clamp(-1, 1)),
    *(lambda x: x / 3, lambda x: x + 1, lambda x: (x * x + 1).sqrt(), lambda x: x.clone()),
)
VIEWS = (
    *(lambda x: x.t(), lambda x: x[1:], lambda x: x[:, :2], lambda x: x[:, ::2]),
    *(lambda x: x.reshape(-1, 2), lambda x: x[0].expand(3, -1), lambda x: x.flip(0)),
)
BINARY = (tg.add, tg.sub, tg.mul, tg.maximum, lambda a, b: a / (b * b + 1), tg.atan2)
REDUCE = (
    *(lambda x: x.sum(0, keepdim=True), lambda x: x.mean(1, keepdim=True)),
    *(lambda x: x.softmax(-1), lambda x: x.amax(1, keepdim=True), lambda x: x.cumsum(0)),
    *(lambda x: x @ x.t(), lambda x: tg.cat([x, x * 2]), lambda x: tg.stack([x, -x]).sum(0)),
    lambda x: tg.where(x > 0, x, x * 0.1),
)


def random_values(seed: int) -> Any:
    """A function that makes more values from some matrices, and returns all of them."""
    chosen = random.Random(seed)
    steps = []
    for _ in range(chosen.randint(3, 14)):
        kind = chosen.choices((UNARY, VIEWS, BINARY, REDUCE), (5, 2, 5, 2))[0]
        steps.append((kind, chosen.choice(kind), chosen.random(), chosen.random()))

    def function(values: list[Any]) -> list[Any]:
        for kind, op, first, second in steps:
            a = values[int(first * len(values))]
            b = values[int(second * len(values))]
            try:
                made = op(a, b) if kind is BINARY else op(a)
            except (RuntimeError, IndexError):
                continue  # shapes that do not go together
            if made.dim() == 2 and 0 < made.numel() < 500:
                values.append(made)
        return values

    return function


def random_program(seed: int) -> Any:
    """A function of two matrices that makes some values, and the gradients of some of them."""
    values_of = random_values(seed)

    def function(x: Any, y: Any) -> Any:
        leaves = [x.detach().clone().requires_grad_(), y.detach().clone().requires_grad_()]
        values = values_of(list(leaves))
        loss = sum([v.sum() for v in values[-4:]])
        loss.backward()
        grads = [leaf.grad for leaf in leaves if leaf.grad is not None]
        return [v.detach() for v in values[2:]], grads, loss.detach()

    return function


def flat(value: Any) -> list[Any]:
    return [value] if isinstance(value, tg.Tensor) else [leaf for v in value for leaf in flat(v)]


@pytest.mark.parametrize("start", range(0, 120, 10))
@pytest.mark.parametrize("dtype", [tg.float32, tg.float64])
def test_random_programs(start: int, dtype: Any) -> None:
    replayed = 0
    for seed in range(start, start + 10):
        function = random_program(seed)
        compiled = Compiled(function, False, False)
        tg.manual_seed(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(5):
                x, y = tg.randn(3, 4, dtype=dtype), tg.randn(1, 4, dtype=dtype)
                expected, found = flat(function(x, y)), flat(compiled(x, y))
                assert len(found) == len(expected)
                for a, b in zip(found, expected, strict=True):
                    assert a.shape == b.shape and a.stride() == b.stride(), seed
                    # Sums may be added up in another order.
                    tolerance = 2e-5 if dtype is tg.float32 else 1e-13
                    scale = max(1.0, float(b.abs().max()))
                    tg.testing.assert_close(a, b, rtol=tolerance, atol=tolerance * scale)
        recording = next(iter(compiled.recordings.values()))
        replayed += recording.confirmed
        assert recording.confirmed or recording.reason
    assert replayed >= 9


def gradients(results: list[Any], leaves: list[Any], which: list[int], seed: int) -> list[Any]:
    """Of the sum of some results, with weights."""
    numbers = tg.Generator().manual_seed(seed)
    weights = [tg.randn(results[i].shape, generator=numbers, dtype=leaves[0].dtype) for i in which]
    loss = sum([(results[i] * w).sum() for i, w in zip(which, weights, strict=True)])
    return list(tg.autograd.grad(loss, leaves, allow_unused=True))


@pytest.mark.parametrize(
    "start", [0, *[pytest.param(i, marks=pytest.mark.slow) for i in range(10, 200, 10)]]
)
def test_random_programs_that_are_differentiated_outside(start: int) -> None:
    replayed = 0
    for seed in range(start, start + 10):
        chosen = random.Random(seed)
        values_of = random_values(seed)
        tg.manual_seed(seed)
        weight = tg.randn(1, 4, dtype=tg.float64, requires_grad=True)
        count = chosen.randint(1, 3)

        def function(
            x: Any, y: Any, values_of: Any = values_of, weight: Any = weight, count: int = count
        ) -> Any:
            return [v * 1.5 for v in values_of([x, y, weight])[-count:]]

        compiled = tg.compile(function, fullgraph=True)
        for _ in range(12):
            calls = []
            for _ in range(chosen.choice((1, 1, 2))):
                leaf = tg.randn(3, 4, dtype=tg.float64, requires_grad=True)
                y = tg.randn(1, 4, dtype=tg.float64)
                calls.append((leaf, compiled(leaf * 1.0, y), function(leaf * 1.0, y)))
            chosen.shuffle(calls)
            for leaf, found, expected in calls:
                for a, b in zip(found, expected, strict=True):
                    assert a.requires_grad == b.requires_grad
                    scale = max(1.0, float(b.detach().abs().max()))
                    tg.testing.assert_close(a, b, rtol=1e-12, atol=1e-12 * scale)
                which = sorted(chosen.sample(range(count), chosen.randint(1, count)))
                which = [i for i in which if expected[i].requires_grad]
                if not which:
                    continue
                grads = gradients(found, [leaf, weight], which, seed)
                wanted = gradients(expected, [leaf, weight], which, seed)
                for g, w in zip(grads, wanted, strict=True):
                    assert (g is None) == (w is None), seed
                    if w is not None:
                        scale = max(1.0, float(w.abs().max()))
                        tg.testing.assert_close(g, w, rtol=1e-12, atol=1e-12 * scale)
        # Other results are used from call to call, so that the last recording may be a new one.
        recordings = [*compiled.recordings.values(), *sum(compiled.resting.values(), [])]
        replayed += any([r.replays for r in recordings])
    assert replayed >= 9


LAYERS = (
    *(lambda: nn.Linear(6, 6), lambda: nn.LayerNorm(6), lambda: nn.BatchNorm1d(6)),
    *(lambda: nn.Dropout(0.2), nn.ReLU, nn.GELU, nn.Tanh, nn.SiLU, nn.Softplus),
    *(lambda: nn.Linear(6, 6, bias=False), lambda: nn.RMSNorm(6), lambda: nn.PReLU()),
)
LOSSES = (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss, lambda a, b: (a - b).pow(2).sum())
OPTIMIZERS = (
    lambda p: tg.optim.SGD(p, lr=0.01),
    lambda p: tg.optim.SGD(p, lr=0.01, momentum=0.9, weight_decay=0.01),
    lambda p: tg.optim.Adam(p, lr=1e-3, eps=1e-3),
    lambda p: tg.optim.AdamW(p, lr=1e-3, eps=1e-3, amsgrad=True),
    lambda p: tg.optim.RMSprop(p, lr=1e-3, eps=1e-3, centered=True),
    lambda p: tg.optim.Adagrad(p, lr=1e-2, eps=1e-3),
)


def one_cycle(optimizer: Any) -> Any:
    group = optimizer.param_groups[0]
    cycles = "betas" in group or bool(group.get("momentum"))
    return tg.optim.lr_scheduler.OneCycleLR(optimizer, 0.01, total_steps=20, cycle_momentum=cycles)


SCHEDULERS = (
    None,
    lambda o: tg.optim.lr_scheduler.StepLR(o, 2, 0.5),
    lambda o: tg.optim.lr_scheduler.ExponentialLR(o, 0.9),
    lambda o: one_cycle(o),
)


def train(seed: int, compiled: bool) -> tuple[list[Any], Any]:
    chosen = random.Random(seed)
    tg.manual_seed(seed)
    model = nn.Sequential(
        nn.Linear(4, 6), *[chosen.choice(LAYERS)() for _ in range(3)], nn.Linear(6, 2)
    )
    if chosen.random() < 0.3:
        model.append(nn.Linear(2, 2))
        model[-1].weight = nn.Parameter(model[-1].weight.detach())
        model[-1].bias = model[-2].bias
    optimizer = chosen.choice(OPTIMIZERS)(model.parameters())
    schedule = chosen.choice(SCHEDULERS)
    scheduler = None if schedule is None else schedule(optimizer)
    loss_of = chosen.choice(LOSSES)
    clip, parts = chosen.random() < 0.3, chosen.choice((1, 1, 2))

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        for i in range(parts):
            loss = loss_of(model(x[i]), y[i]) / parts
            loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
        return loss

    function: Any = Compiled(step, True, False) if compiled else step
    tg.manual_seed(seed + 1)
    losses = [function(tg.randn(2, 5, 4), tg.randn(2, 5, 2)).item() for _ in range(10)]
    return [*losses, *[p.detach() for p in model.state_dict().values()]], function


@pytest.mark.parametrize("start", range(0, 200, 20))
def test_random_training(start: int) -> None:
    for seed in range(start, start + 20):
        expected, _ = train(seed, False)
        found, function = train(seed, True)
        assert next(iter(function.recordings.values())).replays == 7
        assert found[:10] == pytest.approx(expected[:10], rel=1e-4, abs=1e-5), seed
        for a, b in zip(found[10:], expected[10:], strict=True):
            tg.testing.assert_close(a, b, rtol=1e-4, atol=2e-5)
