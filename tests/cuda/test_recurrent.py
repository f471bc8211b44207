"""Recurrent layers on the device: the same as on the CPU, in one launch, and as part of a graph."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad import nn

KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "lstm": (nn.LSTM, {}),
    "gru": (nn.GRU, {}),
    "tanh": (nn.RNN, {}),
    "relu": (nn.RNN, {"nonlinearity": "relu"}),
}
FORMS: dict[str, dict[str, Any]] = {
    "plain": {},
    "deep": {"num_layers": 2, "bidirectional": True},
    "unbiased": {"bias": False},
}


def both_ways(
    kind: str, form: str, width: int, batch: int, steps: int, packed: bool, device: str, dtype: Any
) -> list[Any]:
    """Results and gradients of a layer whose sequences may have several lengths."""
    make, options = KINDS[kind]
    tg.manual_seed(1)
    layer = make(6, width, **options, **FORMS[form]).to(device, dtype)
    rng = np.random.default_rng(0)
    states = layer.num_layers * (2 if layer.bidirectional else 1)

    def drawn(*shape: int) -> Any:
        return tg.tensor(rng.normal(size=shape), dtype=dtype, device=device, requires_grad=True)

    x, h, c = drawn(steps, batch, 6), drawn(states, batch, width), drawn(states, batch, width)
    given: Any = x
    if packed:
        lengths = [steps, *[1 + i * 5 % steps for i in range(1, batch)]]
        given = nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
    out, last = layer(given, (h, c) if kind == "lstm" else h)
    if packed:
        out, _ = nn.utils.rnn.pad_packed_sequence(out)
    ends = list(last) if kind == "lstm" else [last]
    loss = out.sin().sum()
    for weight, end in enumerate(ends, 2):
        loss = loss + (end * weight).cos().sum()
    loss.backward()
    leaves = [x, h, c] if kind == "lstm" else [x, h]
    found = [out, *ends, *[t.grad for t in (*leaves, *layer.parameters())]]
    assert all(t.device.type == device for t in found)
    return [t.detach().cpu().double().numpy() for t in found]


# Widths that a block has one or several units of, and one that is no multiple of four.
WIDTHS = [4, *[pytest.param(n, marks=pytest.mark.slow) for n in (7, 36, 140)]]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_as_on_the_cpu(kind: str, form: str, width: int) -> None:
    for batch, steps, packed in ((1, 1, False), (5, 7, False), (5, 7, True), (40, 3, True)):
        for dtype, tolerance in ((tg.float32, 2e-5), (tg.float64, 1e-12)):
            here, there = [
                both_ways(kind, form, width, batch, steps, packed, device, dtype)
                for device in ("cuda", "cpu")
            ]
            for a, b in zip(here, there, strict=True):
                np.testing.assert_allclose(a, b, tolerance, tolerance * max(1, abs(b).max()))


@pytest.mark.parametrize("kind", ["lstm", "gru"])
@pytest.mark.parametrize("dtype", [tg.bfloat16, tg.float16])
def test_half_precision_is_computed_in_single(kind: str, dtype: Any) -> None:
    here, there = [
        both_ways(kind, "plain", 64, 5, 7, False, device, dtype) for device in ("cuda", "cpu")
    ]
    step = 2.0**-8 if dtype is tg.bfloat16 else 2.0**-11
    for a, b in zip(here, there, strict=True):
        np.testing.assert_allclose(a, b, 4 * step, 4 * step * max(1, abs(b).max()))


def test_one_launch_each_way(launches: list[str]) -> None:
    layer = nn.LSTM(8, 16, 2).cuda()
    out, _ = layer(tg.randn(20, 3, 8, device="cuda"))
    assert launches.count("steps") == 2
    out.sum().backward()
    assert launches.count("steps_back") == 2


@pytest.mark.parametrize("kind", KINDS)
def test_captured(kind: str) -> None:
    """More steps than arrays are put together at once, and sequences of several lengths."""
    make, options = KINDS[kind]
    tg.manual_seed(3)
    layer = make(4, 12, 2, **options).cuda()
    head = nn.Linear(12, 3).cuda()
    start = [p.detach().clone() for p in layer.parameters()]
    x = tg.randn(40, 5, 4, device="cuda")
    y = tg.randint(0, 3, (5,), device="cuda")
    losses = []
    for captured in (False, True):
        for p, first in zip(layer.parameters(), start, strict=True):
            p.data.copy_(first)
        optimizer = tg.optim.SGD(layer.parameters(), 0.1)

        def step(x: Any, y: Any, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(head(layer(x)[0][-1]), y)
            loss.backward()
            optimizer.step()
            return loss

        run = tg.cuda.make_graphed_step(step) if captured else step
        losses.append([run(x, y).item() for _ in itertools.repeat(None, 6)])
    assert losses[0] == losses[1]
    assert losses[0][-1] < losses[0][0]


def test_many_arrays_put_together_in_a_graph() -> None:
    parts = [tg.full((2, 3), float(i), device="cuda") for i in range(50)]

    def step(x: Any) -> Any:
        return tg.cat([p + x for p in parts]), tg.stack([p + x for p in parts], 1)

    run = tg.cuda.make_graphed_step(step)
    one = tg.ones((), device="cuda")
    for _ in range(4):
        joined, stacked = run(one)
    expected = np.arange(1.0, 51.0, dtype=np.float32)
    assert np.array_equal(joined.cpu().numpy(), np.repeat(expected, 2)[:, None].repeat(3, 1))
    assert np.array_equal(stacked.cpu().numpy()[1, :, 2], expected)
