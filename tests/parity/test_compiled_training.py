"""Training programs under tapegrad.compile give PyTorch's losses, from the same seed."""

import random
import warnings

import pytest
import torch

import tapegrad

LAYERS = (
    *(lambda nn: nn.Linear(6, 6), lambda nn: nn.LayerNorm(6), lambda nn: nn.BatchNorm1d(6)),
    *(lambda nn: nn.Dropout(0.2), lambda nn: nn.ReLU(), lambda nn: nn.GELU(), lambda nn: nn.Tanh()),
    *(lambda nn: nn.SiLU(), lambda nn: nn.Softplus(), lambda nn: nn.Linear(6, 6, bias=False)),
)
LOSSES = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
OPTIMIZERS = (
    ("SGD", {"lr": 0.01}),
    ("SGD", {"lr": 0.01, "momentum": 0.9, "weight_decay": 0.01}),
    ("Adam", {"lr": 1e-3, "eps": 1e-3}),
    ("AdamW", {"lr": 1e-3, "eps": 1e-3}),
    ("RMSprop", {"lr": 1e-3, "eps": 1e-3}),
)
SCHEDULERS = (("StepLR", (2, 0.5)), ("ExponentialLR", (0.9,)), ("CosineAnnealingLR", (10,)))


def losses_of(library, seed, whole=True):
    chosen = random.Random(seed)
    nn = library.nn
    library.manual_seed(seed)
    model = nn.Sequential(
        nn.Linear(4, 6), *[chosen.choice(LAYERS)(nn) for _ in range(4)], nn.Linear(6, 2)
    )
    name, options = chosen.choice(OPTIMIZERS)
    optimizer = getattr(library.optim, name)(model.parameters(), **options)
    name, args = chosen.choice(SCHEDULERS)
    scheduler = getattr(library.optim.lr_scheduler, name)(optimizer, *args)
    loss_of = getattr(nn.functional, chosen.choice(LOSSES))

    forward = model
    if library is tapegrad and not whole:
        forward = tapegrad.compile(model, fullgraph=True)

    def step(x, y):
        optimizer.zero_grad()
        loss = loss_of(forward(x), y)
        loss.backward()
        optimizer.step()
        scheduler.step()
        return loss

    if library is tapegrad and whole:
        step = tapegrad.compile(step, fullgraph=True)
    found = [step(library.randn(5, 4), library.randn(5, 2)).item() for _ in range(10)]
    if library is tapegrad:
        compiled = step if whole else forward.forward
        assert next(iter(compiled.recordings.values())).replays == 7
    return found


@pytest.mark.parametrize("start", range(0, 100, 10))
def test_training_programs(start):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(start, start + 10):
            expected = losses_of(torch, seed)
            assert losses_of(tapegrad, seed) == pytest.approx(expected, rel=2e-4, abs=1e-6), seed


def test_training_programs_with_compiled_modules():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(20):
            expected = losses_of(torch, seed)
            found = losses_of(tapegrad, seed, whole=False)
            assert found == pytest.approx(expected, rel=2e-4, abs=1e-6), seed
