"""Checkpointing: what it saves in memory, and what its errors add to PyTorch's.

The behaviour that both libraries share is in programs/prog_checkpoint*.py.
"""

import functools
import gc
import math
import threading
import tracemalloc
import weakref

import pytest

import tapegrad as torch
from tapegrad.core.base import STATE
from tapegrad.core.op import REGISTRY
from tapegrad.utils.checkpoint import (
    CheckpointError,
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
)

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
    run(layers, x)  # so that what is imported when it is first used is there
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


SIZES = (1, 3, 6, 24)


@pytest.mark.parametrize("per_layer, layer", [(1, ("ReLU",)), (3, ("GELU", "Linear", "Tanh"))])
def test_memory_is_what_the_theory_says(per_layer, layer):
    """n layers that save k activations each, in segments of s: n/s stay, n/s + s k at the peak."""

    def make(name):
        return torch.nn.Linear(WIDTH, WIDTH) if name == "Linear" else getattr(torch.nn, name)()

    torch.manual_seed(0)
    layers = [
        torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), *[make(name) for name in layer])
        for _ in range(DEPTH)
    ]
    torch.manual_seed(1)
    kept, peak, expected = memory(plain, layers)
    assert DEPTH * per_layer <= kept < DEPTH * per_layer + 2
    peaks = {}
    for size in SIZES:
        torch.manual_seed(1)
        kept, peaks[size], found = memory(lambda m, x, s=size: grouped(m, x, s), layers)
        assert all(torch.equal(a, b) for a, b in zip(expected, found, strict=True))
        segments = DEPTH / size
        assert segments <= kept < segments + 2
        # What a layer works with while it runs backward comes on top: gradients and a temporary.
        assert 1 < peaks[size] - (segments + size * per_layer) < 4
    best = min(SIZES, key=lambda s: abs(s - math.sqrt(DEPTH / per_layer)))
    assert peaks[best] < min(peaks.values()) + 0.5
    assert peaks[best] < peak / (2 if per_layer == 1 else 3.5)


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


def raised(function, *args, **options):
    """The error of a backward pass through a checkpoint, its lines without the files."""
    x = torch.ones(2, requires_grad=True)
    y = checkpoint(function, x, *args, use_reentrant=False, **options)
    with pytest.raises(CheckpointError) as caught:
        y.sum().backward()
    lines = [line.replace(__file__, "") for line in str(caught.value).splitlines()]
    return caught.value, [line.partition(":  ")[2] if " at :" in line else line for line in lines]


def test_error_names_the_tensor_and_the_lines():
    error, lines = raised(changing, [])
    assert lines[0].startswith("torch.utils.checkpoint: Recomputed values for the following")
    assert lines[-6:] == [
        "  tensor at position 0",
        "    forward:    `x`, shape (2,), torch.float32",
        "return x.sin()",
        "    again:      `x`, shape (2,), torch.float64",
        "x = x.double()",
        "return x.sin()",
    ]
    (one,) = error.diagnosis["tensors"]
    assert one["position"] == 0
    assert one["forward"]["dtype"] == "torch.float32"
    assert one["recomputation"]["name"] == "x"
    assert one["recomputation"]["made"]["text"] == "x = x.double()"
    assert one["recomputation"]["saved"]["file"] == __file__


def test_missing_tensor_is_named():
    seen = []

    def function(x):
        seen.append(1)
        y = x.sin()
        return y.exp() if len(seen) == 1 else y

    error, lines = raised(function)
    assert lines[-4:] == [
        "  tensor at position 1",
        "    forward:    shape (2,), torch.float32",
        "return y.exp() if len(seen) == 1 else y",
        "    again:      nothing was saved here",
    ]
    assert error.diagnosis["tensors"][0]["recomputation"] is None


def test_where_the_runs_part_is_named():
    seen = []

    def function(x):
        seen.append(1)
        y = x.sin()
        if len(seen) == 1:
            y = y.cos()
        return y.exp()

    _, lines = raised(function)
    assert "Number of tensors saved during forward: 3" in lines
    assert lines[-6:] == [
        "  tensor at position 1",
        "    forward:    `y`, shape (2,), torch.float32",
        "y = x.sin()",
        "y = y.cos()",
        "    again:      shape (2,), torch.float32",
        "return y.exp()",
    ]


def test_tensor_too_many_is_named():
    seen = []

    def function(x):
        seen.append(1)
        y = x.sin()
        return y + 1 if len(seen) == 1 else y.exp()

    error, lines = raised(function, early_stop=False)
    assert "trying to save more tensors" in lines[0]
    assert lines[-1] == "return y + 1 if len(seen) == 1 else y.exp()"
    assert error.diagnosis["tensors"][0]["forward"] is None


def test_parameters_are_named():
    net, other = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)
    seen = []

    def function(x):
        seen.append(1)
        return x * (net if len(seen) == 1 else other).bias

    y = checkpoint(function, torch.ones(2, requires_grad=True), use_reentrant=False)
    with pytest.raises(CheckpointError) as caught:
        y.sum().backward()
    assert "forward:    `net.bias`, shape (2,), torch.float32\n" in str(caught.value)
    assert "again:      `other.bias`, shape (1,), torch.float32\n" in str(caught.value)


def test_debug_lists_what_was_saved():
    error, _ = raised(changing, [], debug=True)
    first, _, again = str(error).partition("Tensors saved during recomputation:")
    assert "0: `x`, shape (2,), torch.float32 at " in first
    assert "0: `x`, shape (2,), torch.float64 at " in again


def test_long_lists_are_cut():
    seen = []

    def function(x):
        seen.append(1)
        if len(seen) > 1:
            x = x.double()
        for _ in range(9):
            x = x.sin()
        return x

    error, lines = raised(function)
    assert lines[-1] == "  and 6 more"
    assert len(error.diagnosis["tensors"]) == 9


# --- selective -------------------------------------------------------------------------------


def selective(ops, layers, x, size=3):
    contexts = functools.partial(create_selective_checkpoint_contexts, ops)
    for start in range(0, len(layers), size):
        x = checkpoint(
            lambda t, part=layers[start : start + size]: plain(part, t),
            x,
            use_reentrant=False,
            context_fn=contexts,
        )
    return x


@pytest.fixture
def wide():
    torch.manual_seed(0)
    nn = torch.nn
    return [
        nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH), nn.Tanh())
        for _ in range(DEPTH)
    ]


ADDMM, GELU = torch.ops.aten.addmm.default, torch.ops.aten.gelu.default


# Per layer: what is kept for the policy, and what is still computed again. The result of the second
# Linear is no saved tensor, so that keeping it is a waste.
@pytest.mark.parametrize(
    "ops, extra, again", [([], 0, 3), ([GELU], 1, 2), ([ADDMM], 2, 2), ([ADDMM, GELU], 3, 1)]
)
def test_kept_results_are_what_takes_memory(wide, ops, extra, again):
    torch.manual_seed(1)
    _, _, expected = memory(plain, wide)
    torch.manual_seed(1)
    kept, peak, found = memory(functools.partial(selective, ops), wide)
    least = DEPTH / 3 + extra * DEPTH
    assert least <= kept < least + 2
    assert peak < least + 3 * again + 4
    assert all(torch.equal(a, b) for a, b in zip(expected, found, strict=True))


@pytest.mark.parametrize("ops, again", [([], 2), ([GELU], 2), ([ADDMM], 0), ([ADDMM, GELU], 0)])
def test_kept_ops_do_not_run_again(monkeypatch, ops, again):
    op = REGISTRY["addmm"]
    runs = []
    kernel = op.kernel
    monkeypatch.setattr(op, "kernel", lambda *args: runs.append(1) or kernel(*args))
    nn = torch.nn
    net = nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 4), nn.Tanh())
    y = selective(ops, [net], torch.ones(2, 4), size=1)
    assert len(runs) == 2
    y.sum().backward()
    assert len(runs) == 2 + again


def test_nothing_is_left_behind():
    before = STATE.modes_on, STATE.casting

    def fail(ctx, op, *args, **kwargs):
        raise KeyError("policy")

    with pytest.raises(KeyError):
        selective(fail, [torch.sin], torch.ones(2, requires_grad=True))
    selective([ADDMM], [torch.sin], torch.ones(2, requires_grad=True)).sum().backward()
    assert (STATE.modes_on, STATE.casting) == before


def test_other_threads_are_not_asked():
    asked = []
    inside, done = threading.Event(), threading.Event()

    def policy(ctx, op, *args, **kwargs):
        asked.append(threading.get_ident())
        inside.set()
        assert done.wait(10)
        return True

    def other():
        assert inside.wait(10)
        (torch.ones(2, requires_grad=True) * 2).sin()
        done.set()

    worker = threading.Thread(target=other)
    worker.start()
    selective(policy, [torch.sin], torch.ones(2, requires_grad=True))
    worker.join()
    assert asked == [threading.get_ident()]


def test_selective_backward_in_another_thread(wide):
    x = torch.randn(8, WIDTH, requires_grad=True)
    plain(wide, x).sum().backward()
    expected, x.grad = x.grad, None
    loss = selective([ADDMM], wide, x).sum()
    worker = threading.Thread(target=loss.backward)
    worker.start()
    worker.join()
    assert torch.equal(x.grad, expected)


def test_what_was_kept_dies_with_the_graph():
    gc.collect()
    gc.disable()
    try:
        made = []

        def policy(ctx, op, *args, **kwargs):
            made.append(weakref.ref(ctx.op_output._array))
            return True

        x = torch.ones(4, requires_grad=True)
        y = selective(policy, [torch.sin, torch.exp], x, size=2)
        assert made[0]() is not None
        del y
        assert made[0]() is None
        y = selective(policy, [torch.sin, torch.exp], x, size=2)
        y.sum().backward()
        assert made[2]() is None
    finally:
        gc.enable()


def test_write_to_a_kept_tensor_is_named():
    def function(x):
        y = x.sin()
        z = y.exp()
        y.add_(1)
        return z * 2

    x = torch.ones(2, requires_grad=True)
    y = selective([torch.ops.aten.sin.default], [function], x)
    with pytest.raises(RuntimeError, match=r"has been mutated\n  written by add_ .*y\.add_\(1\)"):
        y.sum().backward()


def test_unexpected_op_is_named():
    seen = []

    def function(x):
        seen.append(1)
        return x.sin().exp() if len(seen) == 1 else x.cos().exp()

    y = selective([], [function], torch.ones(2, requires_grad=True))
    with pytest.raises(RuntimeError, match=r"called at .*x\.cos\(\)\.exp\(\)"):
        y.sum().backward()


def test_subclasses_and_duals_are_seen_as_tensors():
    class Mine(torch.Tensor):
        pass

    asked = []

    def policy(ctx, op, *args, **kwargs):
        asked.append(str(op))
        return True

    x = torch.ones(2).as_subclass(Mine).requires_grad_()
    y = selective(policy, [lambda t: t.sin().exp()], x)
    assert type(y) is Mine
    y.sum().backward()
    assert "aten.sin.default" in asked
    assert torch.equal(torch.Tensor(x.grad), (torch.ones(2).sin().exp() * torch.ones(2).cos()))


def test_ops_of_ours_have_names():
    asked = []

    def policy(ctx, op, *args, **kwargs):
        asked.append(str(op))
        return True

    net = torch.nn.GRU(2, 2)
    x = torch.ones(3, 1, 2, requires_grad=True)
    selective(policy, [lambda t: net(t)[0]], x).sum().backward()
    assert "tapegrad.gru_layer.default" in asked
    expected, x.grad = x.grad, None
    net(x)[0].sum().backward()
    assert torch.equal(x.grad, expected)


def test_ops_for_other_devices_can_only_be_named():
    op = torch.ops.aten._scaled_dot_product_flash_attention.default
    assert str(op) == "aten._scaled_dot_product_flash_attention.default"
    with pytest.raises(NotImplementedError, match="Could not run 'aten::_scaled_dot_product"):
        op(torch.ones(1))
