"""Recurrent and transformer layers under PyTorch and tapegrad: weights bit for bit from the same
seeds, then outputs, gradients and second gradients."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch

import tapegrad

torch.set_num_threads(1)
pytestmark = pytest.mark.filterwarnings("ignore")

LIBRARIES = (torch, tapegrad)
SEEDS = range(20)
TOLERANCE = {"float64": 1e-12, "float32": 1e-5}


def array(t: Any) -> np.ndarray:
    return t.detach().numpy()


def same_bits(ours: Any, theirs: Any) -> None:
    assert [n for n, _ in ours.named_parameters()] == [n for n, _ in theirs.named_parameters()]
    for (name, a), (_, b) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        assert array(a).tobytes() == array(b).tobytes(), name


def close(ours: Any, theirs: Any, what: str, slack: float = 1.0) -> None:
    a, b = array(ours), array(theirs)
    assert a.shape == b.shape and a.dtype == b.dtype, what
    tolerance = slack * TOLERANCE[str(b.dtype)] * max(1.0, np.abs(b).max(initial=0.0))
    np.testing.assert_allclose(a, b, rtol=0, atol=tolerance, err_msg=what)


def options_of(seed: int) -> dict[str, Any]:
    pick = random.Random(seed)
    return {
        "num_layers": pick.choice([1, 2, 3]),
        "bias": pick.random() < 0.7,
        "batch_first": pick.random() < 0.5,
        "bidirectional": pick.random() < 0.5,
    }


def draw(library: Any, seed: int, shape: tuple[int, ...], dtype: str) -> Any:
    values = np.random.default_rng(seed).normal(size=shape).astype(dtype)
    return library.from_numpy(values.copy()).requires_grad_()


def flat(hidden: Any) -> list[Any]:
    return list(hidden) if isinstance(hidden, tuple) else [hidden]


def packed_or_padded(library: Any, x: Any, form: str, batch_first: bool) -> Any:
    if form == "packed":
        pack = library.nn.utils.rnn.pack_padded_sequence
        return pack(x, [2, 5, 3, 1], batch_first=batch_first, enforce_sorted=False)
    if form == "alone":
        return x[0] if batch_first else x[:, 0]
    return x


def run(library: Any, kind: str, seed: int, form: str, dtype: str, given: bool) -> Any:
    """The module; its outputs, gradients and second gradients."""
    options = options_of(seed)
    if kind == "LSTM" and seed % 4 == 0:
        options["proj_size"] = 2
    if kind == "RNN" and seed % 2:
        options["nonlinearity"] = "relu"
    library.manual_seed(seed)
    module = getattr(library.nn, kind)(3, 4, dtype=getattr(library, dtype), **options)
    shape = (4, 5, 3) if options["batch_first"] else (5, 4, 3)
    x = draw(library, seed, shape, dtype)
    states = []
    if given:
        rows = options["num_layers"] * (1 + options["bidirectional"])
        many = (rows, 4) if form == "alone" else (rows, 4, 4)
        width = options.get("proj_size", 4)
        states = [draw(library, seed + 100, (*many[:-1], width), dtype)]
        if kind == "LSTM":
            states.append(draw(library, seed + 200, many, dtype))
    hx = None if not states else tuple(states) if kind == "LSTM" else states[0]
    out, hidden = module(packed_or_padded(library, x, form, options["batch_first"]), hx)
    outs = [out.data if form == "packed" else out, *flat(hidden)]
    leaves = [x, *states, *module.parameters()]
    loss = sum([(o * o).sum() for o in outs])
    first = library.autograd.grad(loss, leaves, create_graph=True)
    second = library.autograd.grad(sum([g.square().sum() for g in first]), leaves)
    return module, outs, first, second


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_recurrent_layer(kind, seed):
    form = ("padded", "packed", "alone")[seed % 3]
    dtype = "float32" if seed % 5 == 4 else "float64"
    theirs, ours = (run(lib, kind, seed, form, dtype, seed % 2 == 0) for lib in LIBRARIES)
    same_bits(ours[0], theirs[0])
    assert repr(ours[0]) == repr(theirs[0])
    for order, slack in ((1, 1.0), (2, 10.0), (3, 100.0)):
        for i, (a, b) in enumerate(zip(ours[order], theirs[order], strict=True)):
            close(a, b, f"order {order - 1}, {i}", slack)
    for a, b in zip(ours[1], theirs[1], strict=True):
        assert a.stride() == b.stride() and a.grad_fn.name() == b.grad_fn.name()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", ["RNNCell", "LSTMCell", "GRUCell"])
def test_cell(kind, seed):
    found = []
    for library in LIBRARIES:
        library.manual_seed(seed)
        module = getattr(library.nn, kind)(3, 4, bias=seed % 3 > 0, dtype=library.float64)
        x = draw(library, seed, (2, 3), "float64")
        hidden = module(x)
        for _ in range(3):
            hidden = module(x, hidden)
        leaves = [x, *module.parameters()]
        loss = sum([(h * h).sum() for h in flat(hidden)])
        grads = library.autograd.grad(loss, leaves)
        found.append((module, [*flat(hidden), *grads]))
    same_bits(found[1][0], found[0][0])
    for i, (a, b) in enumerate(zip(found[1][1], found[0][1], strict=True)):
        close(a, b, f"{kind}, {i}", 10.0)


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_dropout_between_layers(kind):
    found = []
    for library in LIBRARIES:
        library.manual_seed(1)
        make = getattr(library.nn, kind)
        module = make(3, 4, 3, dropout=0.4, bidirectional=True, dtype=library.float64)
        x = draw(library, 1, (5, 2, 3), "float64")
        found.append((module(x)[0], module.eval()(x)[0]))
    for ours, theirs in zip(found[1], found[0], strict=True):
        close(ours, theirs, kind)
    assert not np.array_equal(array(found[1][0]), array(found[1][1]))


@pytest.mark.parametrize("seed", SEEDS)
def test_transformer(seed):
    """In training mode: attention, residuals and hidden layers drop the same elements."""
    pick = random.Random(seed)
    options = {
        "batch_first": pick.random() < 0.5,
        "norm_first": pick.random() < 0.5,
        "bias": pick.random() < 0.7,
        "activation": pick.choice(["relu", "gelu"]),
    }
    found = []
    for library in LIBRARIES:
        library.manual_seed(seed)
        module = library.nn.Transformer(8, 2, 2, 1, 12, 0.2, dtype=library.float64, **options)
        src, tgt = (draw(library, seed + i, (4, 4, 8), "float64") for i in range(2))
        mask = module.generate_square_subsequent_mask(4, dtype=library.float64)
        out = module(src, tgt, tgt_mask=mask if seed % 2 else None)
        grads = library.autograd.grad((out * out * out).sum(), [src, tgt, *module.parameters()])
        found.append((module, [out, *grads]))
    same_bits(found[1][0], found[0][0])
    for i, (a, b) in enumerate(zip(found[1][1], found[0][1], strict=True)):
        close(a, b, f"{options}, {i}", 100.0)
