"""A training step leaves no value on the host: nothing waits for the GPU unasked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tapegrad as torch
from tapegrad import nn
from tapegrad.core import devices

if devices.DEVICE.xp is not None and hasattr(devices.DEVICE.xp, "RawKernel"):
    pytest.skip("the stand-in counts copies, a GPU does not", allow_module_level=True)

stand_in = pytest.importorskip("stand_in")
F = nn.functional


def copies(run: Callable[[], Any]) -> int:
    before = stand_in.Copies.count
    run()
    return int(stand_in.Copies.count - before)


class Attending(nn.Module):
    """A small transformer with an embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.names = nn.Embedding(11, 8, padding_idx=0)
        self.places = nn.Parameter(torch.randn(5, 8))
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 11)

    def forward(self, tokens: Any) -> Any:
        x = self.names(tokens) + self.places
        mask = nn.Transformer.generate_square_subsequent_mask(5, device=tokens.device)
        return self.head(self.norm(self.encoder(x, mask=mask, is_causal=True))).flatten(0, 1)


def mlp() -> tuple[Any, Any, Any]:
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 4))
    return model, torch.randn(5, 6), torch.tensor([0, 3, 1, 2, 2])


def conv_net() -> tuple[Any, Any, Any]:
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 4, 3, stride=2),
        nn.GroupNorm(2, 4),
        nn.GELU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4, 4),
    )
    return model, torch.randn(2, 3, 10, 10), torch.tensor([1, 3])


def transformer() -> tuple[Any, Any, Any]:
    tokens = torch.tensor([[1, 2, 3, 4, 0], [5, 6, 7, 8, 9]])
    return Attending(), tokens, tokens.flatten()


def recurrent() -> tuple[Any, Any, Any]:
    class Reading(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(3, 4, batch_first=True)
            self.gru = nn.GRU(4, 4)
            self.head = nn.Linear(4, 4)

        def forward(self, x: Any) -> Any:
            out, _ = self.lstm(x)
            out, _ = self.gru(out)
            return self.head(out[:, -1])

    return Reading(), torch.randn(2, 5, 3), torch.tensor([1, 3])


MODELS = [mlp, conv_net, transformer, recurrent]


@pytest.mark.parametrize("make", MODELS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.1}, {"ignore_index": 2}])
def test_forward_and_backward(make: Any, options: dict[str, Any]) -> None:
    model, x, y = make()
    model, x, y = model.cuda(), x.cuda(), y.cuda()
    weight = torch.ones(11 if make is transformer else 4, device="cuda")
    for extra in ({}, {"weight": weight}):
        before = stand_in.Copies.count
        loss = F.cross_entropy(model(x), y, **options, **extra)
        assert stand_in.Copies.count == before, "the forward pass waits"
        loss.backward()
        assert stand_in.Copies.count == before, "the backward pass waits"


@pytest.mark.parametrize("make", MODELS, ids=lambda f: f.__name__)
def test_evaluation(make: Any) -> None:
    model, x, _ = make()
    model, x = model.cuda().eval(), x.cuda()
    with torch.no_grad():
        assert copies(lambda: model(x).argmax(-1)) == 0


OPTIMIZERS: dict[str, Any] = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1),
    "momentum": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": lambda p: torch.optim.Adam(p),
    "adamw": lambda p: torch.optim.AdamW(p, amsgrad=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, momentum=0.5),
    "adagrad": lambda p: torch.optim.Adagrad(p),
}


@pytest.mark.parametrize("foreach", [False, True, None])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_step(name: str, foreach: bool | None) -> None:
    model, x, y = mlp()
    model, x, y = model.cuda(), x.cuda(), y.cuda()
    optimizer = OPTIMIZERS[name](model.parameters())
    for group in optimizer.param_groups:
        group["foreach"] = foreach

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

    assert copies(step) == 0
    assert copies(step) == 0


def test_losses() -> None:
    x = torch.randn(4, 3, device="cuda", requires_grad=True)
    y = torch.rand(4, 3, device="cuda")
    where = torch.tensor([0, 2, 1, 1], device="cuda")
    signs = torch.tensor([1.0, -1.0, 1.0, 1.0], device="cuda")
    pairs: list[Callable[[], Any]] = [
        lambda: F.mse_loss(x, y),
        lambda: F.l1_loss(x, y),
        lambda: F.smooth_l1_loss(x, y),
        lambda: F.huber_loss(x, y),
        lambda: F.binary_cross_entropy(x.sigmoid(), y),
        lambda: F.binary_cross_entropy_with_logits(x, y, pos_weight=y[0]),
        lambda: F.kl_div(x.log_softmax(1), y, reduction="batchmean"),
        lambda: F.nll_loss(x.log_softmax(1), where),
        lambda: F.cross_entropy(x, y),
        lambda: F.multi_margin_loss(x, where),
        lambda: F.soft_margin_loss(x[:, 0], signs),
        lambda: F.hinge_embedding_loss(x[:, 0], signs),
        lambda: F.cosine_embedding_loss(x, y, signs),
        lambda: F.triplet_margin_loss(x, y, y.flip(0)),
        lambda: F.margin_ranking_loss(x[:, 0], y[:, 0], signs),
        lambda: F.poisson_nll_loss(x, y),
    ]
    for loss in pairs:
        assert copies(lambda loss=loss: loss().backward()) == 0, loss


def test_usual_tools() -> None:
    x = torch.randn(4, 6, device="cuda", requires_grad=True)
    at = torch.tensor([0, 2, 2], device="cuda")
    model = mlp()[0].cuda()
    F.cross_entropy(model(x), torch.tensor([0, 1, 2, 3], device="cuda")).backward()
    tools: list[Callable[[], Any]] = [
        lambda: nn.utils.clip_grad_norm_(model.parameters(), 1.0),
        lambda: nn.utils.clip_grad_value_(model.parameters(), 1.0),
        lambda: x[at].sum().backward(),
        lambda: x.gather(1, at.expand(4, 3)).sum().backward(),
        lambda: x.index_select(0, at).sum().backward(),
        lambda: torch.where(x > 0, x, 0).sum().backward(),
        lambda: x.masked_fill(x > 0, 1.0).sum().backward(),
        lambda: torch.cat([x, x], 1).chunk(2, 1)[0].sum().backward(),
        lambda: F.one_hot(at, 4),
        lambda: x.topk(2)[0].sum().backward(),
        lambda: x.sort(1)[0].sum().backward(),
        lambda: x.max(1)[0].sum().backward(),
        lambda: F.softmax(x, 1).sum().backward(),
        lambda: F.layer_norm(x, (6,)).sum().backward(),
        lambda: F.normalize(x).sum().backward(),
        lambda: x.std(0).sum().backward(),
        lambda: torch.einsum("ab,cb->ac", x, x).sum().backward(),
        lambda: x.cumsum(1).sum().backward(),
        lambda: F.pad(x, (1, 1)).sum().backward(),
        lambda: F.interpolate(x[None, None], scale_factor=2, mode="bilinear").sum().backward(),
        lambda: F.scaled_dot_product_attention(x, x, x, is_causal=True).sum().backward(),
        lambda: x.clamp(-1, 1).sum().backward(),
        lambda: torch.zeros(4, 6, device="cuda").index_add(0, at, x[:3]).sum().backward(),
        lambda: torch.zeros(4, device="cuda").scatter_add(0, at, x[0, :3]).sum().backward(),
    ]
    for place, tool in enumerate(tools):
        assert copies(tool) == 0, place
