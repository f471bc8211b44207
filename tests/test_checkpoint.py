"""Checkpointing: what it saves in memory, and what its errors add to PyTorch's.

The behaviour that both libraries share is in programs/prog_checkpoint.py.
"""

import gc
import threading
import tracemalloc
import weakref

import pytest

import tapegrad as torch
from tapegrad.utils.checkpoint import CheckpointError, checkpoint, checkpoint_sequential

WIDTH, BATCH, DEPTH = 16, 4096, 24
ACTIVATION = WIDTH * BATCH * 4  # bytes; a weight is 1/256 of it


@pytest.fixture
def mlp():
    torch.manual_seed(0)
    return [
        torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU()) for _ in range(DEPTH)
    ]


def plain(layers, x):
    for layer in layers:
        x = layer(x)
    return x


def grouped(layers, x, size=4):
    for start in range(0, len(layers), size):
        x = checkpoint(
            lambda t, part=layers[start : start + size]: plain(part, t), x, use_reentrant=False
        )
    return x


def nested(layers, x):
    for start in range(0, len(layers), 6):
        x = checkpoint(
            lambda t, part=layers[start : start + 6]: grouped(part, t, 2), x, use_reentrant=False
        )
    return x


def reentrant(layers, x, size=4):
    x = x.clone().requires_grad_()
    for start in range(0, len(layers), size):
        x = checkpoint(
            lambda t, part=layers[start : start + size]: plain(part, t), x, use_reentrant=True
        )
    return x


def sequential(layers, x):
    return checkpoint_sequential(layers, 6, x, use_reentrant=False)


def memory(run, layers):
    """What forward leaves behind and the peak of both passes, in activations; the gradients."""
    x = torch.randn(BATCH, WIDTH)
    parameters = [p for layer in layers for p in layer.parameters()]
    for p in parameters:
        p.grad = torch.zeros_like(p)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        loss = run(layers, x).square().sum()
        after, _ = tracemalloc.get_traced_memory()
        loss.backward()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    grads = [p.grad for p in parameters]
    return (after - before) / ACTIVATION, (peak - before) / ACTIVATION, grads


def test_all_activations_are_kept_without_checkpoints(mlp):
    kept, peak, _ = memory(plain, mlp)
    assert DEPTH - 1 < kept < DEPTH + 2
    assert peak > DEPTH


@pytest.mark.parametrize(
    "run, kept_most, peak_most",
    [(grouped, 7, 13), (nested, 5, 12), (reentrant, 8, 14), (sequential, 11, 15)],
)
def test_peak_falls(mlp, run, kept_most, peak_most):
    kept, peak, _ = memory(run, mlp)
    assert kept < kept_most
    assert peak < peak_most


@pytest.mark.parametrize("run", [grouped, nested, reentrant, sequential])
def test_gradients_are_bit_equal(mlp, run):
    torch.manual_seed(1)
    _, _, expected = memory(plain, mlp)
    torch.manual_seed(1)
    _, _, found = memory(run, mlp)
    assert all(torch.equal(a, b) for a, b in zip(expected, found, strict=True))


def test_nothing_survives_backward_without_the_collector(mlp):
    gc.collect()
    gc.disable()
    try:
        x = torch.randn(4, WIDTH, requires_grad=True)
        h = x * 1
        died = weakref.ref(h)
        loss = grouped(mlp, h).sum()
        del h
        loss.backward()
        del loss
        assert died() is None
    finally:
        gc.enable()


def test_steps_keep_memory_flat(mlp):
    x = torch.randn(64, WIDTH)
    sizes = []
    tracemalloc.start()
    try:
        for _ in range(6):
            grouped(mlp, x).sum().backward()
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert sizes[-1] - sizes[1] < 20_000


def test_backward_in_another_thread(mlp):
    x = torch.randn(8, WIDTH, requires_grad=True)
    plain(mlp, x).sum().backward()
    expected, x.grad = x.grad, None
    loss = nested(mlp, x).sum()
    worker = threading.Thread(target=loss.backward)
    worker.start()
    worker.join()
    assert torch.equal(x.grad, expected)


def changing(x, seen):
    seen.append(1)
    if len(seen) > 1:
        x = x.double()
    return x.sin()


def test_error_names_the_lines():
    x = torch.ones(2, requires_grad=True)
    y = checkpoint(changing, x, [], use_reentrant=False)
    with pytest.raises(CheckpointError) as caught:
        y.sum().backward()
    assert "position 0, saved: " in str(caught.value)
    assert "return x.sin()" in str(caught.value)


def test_missing_tensor_is_named():
    seen = []

    def function(x):
        seen.append(1)
        y = x.sin()
        return y.exp() if len(seen) == 1 else y

    y = checkpoint(function, torch.ones(2, requires_grad=True), use_reentrant=False)
    with pytest.raises(CheckpointError, match=r"first one missing: .*y\.exp\(\)"):
        y.sum().backward()


def test_debug_lists_what_was_saved():
    x = torch.ones(2, requires_grad=True)
    y = checkpoint(changing, x, [], use_reentrant=False, debug=True)
    with pytest.raises(CheckpointError) as caught:
        y.sum().backward()
    first, _, again = str(caught.value).partition("Tensors saved during recomputation:")
    assert "'dtype': torch.float32" in first
    assert "'dtype': torch.float64" in again
