"""Compiled functions and modules whose results are differentiated outside of them."""

from __future__ import annotations

import copy
import gc
import io
import pickle
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad import nn
from tapegrad.nn import functional as F
from tapegrad.utils.checkpoint import checkpoint

MODELS: dict[str, Callable[[], Any]] = {}


def model(function: Callable[[], Any]) -> Callable[[], Any]:
    MODELS[function.__name__] = function
    return function


@model
def perceptron() -> Any:
    return nn.Sequential(
        nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 3)
    )


@model
def with_batch_norm_and_dropout() -> Any:
    layers = (nn.Linear(6, 16, bias=False), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3))
    return nn.Sequential(*layers, nn.Linear(16, 3))


@model
def written_in_place() -> Any:
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(inplace=True), nn.Linear(16, 3), nn.Softmax(-1))


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.norm = nn.LayerNorm(6)
        self.last = nn.Linear(6, 3)
        self.scale = nn.Parameter(tg.ones(3))

    def forward(self, x: Any) -> Any:
        for _ in range(2):  # one layer, twice
            x = x + F.gelu(self.first(self.norm(x)))
        return self.last(x) * self.scale


@model
def residual() -> Any:
    return Residual()


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.LSTM(3, 8, batch_first=True)
        self.last = nn.Linear(8, 3)

    def forward(self, x: Any) -> Any:
        states, _ = self.cells(x.view(-1, 2, 3))
        return self.last(states[:, -1])


@model
def recurrent() -> Any:
    return Recurrent()


def trained(make: Callable[[], Any], compiled: bool, steps: int = 7) -> tuple[list[Any], Any]:
    tg.manual_seed(0)
    inner = make()
    outer = tg.compile(inner, fullgraph=True) if compiled else inner
    optimizer = tg.optim.SGD(inner.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for _ in range(steps):
        x, y = tg.randn(4, 6), tg.randint(0, 3, (4,))
        optimizer.zero_grad()
        loss = F.cross_entropy(outer(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    if compiled:
        (recording,) = outer.forward.recordings.values()
        assert recording.replays == steps - 3
    return losses, inner.state_dict()


@pytest.mark.parametrize("name", list(MODELS))
def test_a_compiled_module_trains_as_the_module_does(name: str) -> None:
    losses, state = trained(MODELS[name], True)
    wanted, expected = trained(MODELS[name], False)
    assert losses == pytest.approx(wanted, rel=1e-5)
    for key, value in state.items():
        tg.testing.assert_close(value, expected[key])


def ready(function: Callable[..., Any], *args: Any) -> Any:
    """A compiled function after its recordings."""
    compiled = tg.compile(function, fullgraph=True)
    for _ in range(3):
        compiled(*args)
    return compiled


def cube(x: Any) -> Any:
    return (x * x * x).sum(-1)


def test_the_node_is_named_as_pytorchs() -> None:
    x = tg.ones(2, 3, requires_grad=True)
    y = ready(cube, x)(x)
    assert y.grad_fn.name() == "CompiledFunctionBackward"
    assert repr(y.grad_fn).startswith("<torch.autograd.function.CompiledFunctionBackward object")
    assert y.grad_fn.next_functions[0][0].name() == "torch::autograd::AccumulateGrad"


def test_outputs_of_several_calls_are_kept() -> None:
    w = tg.ones(3, requires_grad=True)
    f = ready(lambda x: (x * w).sigmoid() * x, tg.ones(3))
    xs = [tg.full((3,), float(i)) for i in range(4)]
    ys = [f(x) for x in xs]
    for x, y in zip(xs, ys, strict=True):
        assert tg.equal(y, (x * w).sigmoid() * x)
    for i in (2, 0, 3, 1):  # of older and newer calls
        (g,) = tg.autograd.grad(ys[i].sum(), w)
        (wanted,) = tg.autograd.grad(((xs[i] * w).sigmoid() * xs[i]).sum(), w)
        tg.testing.assert_close(g, wanted)


def test_two_calls_in_one_backward_pass() -> None:
    w = tg.tensor([0.5, -1.0], requires_grad=True)
    f = ready(lambda x: (x * w).tanh(), tg.ones(2))
    (f(tg.tensor([1.0, 2.0])).sum() + f(f(tg.tensor([3.0, 4.0]))).sum()).backward()
    found, w.grad = w.grad, None
    eager = f.function
    (eager(tg.tensor([1.0, 2.0])).sum() + eager(eager(tg.tensor([3.0, 4.0]))).sum()).backward()
    tg.testing.assert_close(found, w.grad)


def test_retain_graph_and_the_error_without() -> None:
    w = tg.tensor(2.0, requires_grad=True)
    f = ready(lambda x: x * w * w, tg.tensor(1.0))
    y = f(tg.tensor(3.0))
    y.backward(retain_graph=True)
    f(tg.tensor(5.0))  # in the same memory
    y.backward()
    assert w.grad.item() == 24.0
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.backward()


def test_gradients_of_arguments() -> None:
    f = ready(lambda x, y: x * y, *[tg.ones(2, requires_grad=True).exp() for _ in range(2)])
    a = tg.tensor([1.0, 2.0], requires_grad=True)
    b = a * 3
    f(b, b.exp()).sum().backward()  # one argument comes from the other
    wanted = 3 * (b.exp() + b * b.exp())
    tg.testing.assert_close(a.grad, wanted.detach())
    replays = next(iter(f.recordings.values())).replays
    assert replays == 1


def test_leaves_that_are_others_each_time() -> None:
    f = tg.compile(cube, fullgraph=True)
    for i in range(8):
        x = tg.full((2, 3), float(i), requires_grad=True)
        f(x).sum().backward()
        tg.testing.assert_close(x.grad, tg.full((2, 3), 3.0 * i * i))
    assert max(r.replays for r in f.recordings.values()) >= 3


def test_gradients_add_up_and_hooks_are_called() -> None:
    layer = nn.Linear(2, 2)
    f = ready(layer.forward, tg.ones(1, 2))
    seen: list[Any] = []
    layer.weight.register_hook(lambda g: seen.append(g.clone()) or g * 2)
    layer.bias.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))
    for _ in range(2):
        f(tg.ones(1, 2)).sum().backward()
    assert tg.equal(layer.weight.grad, tg.full((2, 2), 4.0))
    assert [tuple(t.shape) for t in seen].count((2, 2)) == 2
    assert tg.equal(seen[-1], tg.full((2,), 2.0)) or tg.equal(seen[-2], tg.full((2,), 2.0))
    y = f(tg.ones(1, 2))
    y.register_hook(lambda g: g * 0)
    y.sum().backward()
    assert tg.equal(layer.weight.grad, tg.full((2, 2), 4.0))


def test_gradients_are_tensors_of_their_own() -> None:
    w = tg.ones(2, requires_grad=True)
    f = ready(lambda x: x * w, tg.ones(2))
    (first,) = tg.autograd.grad(f(tg.tensor([1.0, 2.0])).sum(), w)
    (second,) = tg.autograd.grad(f(tg.tensor([3.0, 4.0])).sum(), w)
    assert first.tolist() == [1.0, 2.0]
    assert second.tolist() == [3.0, 4.0]


def test_results_that_are_not_all_used() -> None:
    a, b = tg.ones(2, requires_grad=True), tg.ones(2, requires_grad=True)
    f = tg.compile(lambda x: (x * a, x * b), fullgraph=True)
    for _ in range(8):
        a.grad = b.grad = None
        f(tg.ones(2))[0].sum().backward()
        assert tg.equal(a.grad, tg.ones(2))
        assert b.grad is None
    a.grad = None
    f(tg.ones(2))[1].sum().backward()
    assert a.grad is None
    assert b.grad is not None


def test_a_parameter_that_was_written_since() -> None:
    w = tg.ones(2, requires_grad=True)
    f = ready(lambda x: (x * w).exp(), tg.ones(2, requires_grad=True).exp())
    y = f(tg.ones(2, requires_grad=True).exp())
    with tg.no_grad():
        w.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_double_backward() -> None:
    x = tg.tensor([1.0, 2.0], requires_grad=True)
    f = ready(cube, x)
    (g,) = tg.autograd.grad(f(x).sum(), x, create_graph=True)
    assert g.tolist() == [3.0, 12.0]
    (h,) = tg.autograd.grad(g.sum(), x)
    assert h.tolist() == [6.0, 12.0]
    z = x * 2  # through an argument that has a history
    (g,) = tg.autograd.grad(ready(cube, z)(z).sum(), x, create_graph=True)
    (h,) = tg.autograd.grad(g.sum(), x)
    assert h.tolist() == [48.0, 96.0]


def test_double_backward_where_buffers_are_written() -> None:
    x = tg.randn(4, 2, requires_grad=True)
    f = ready(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)), x)
    with pytest.raises(RuntimeError, match="does not currently support double backward"):
        tg.autograd.grad(f(x).sum(), x, create_graph=True)


def test_dropout_draws_anew() -> None:
    drop = nn.Dropout(0.5)
    f = tg.compile(lambda x: drop(x) * x, fullgraph=True)
    x = tg.ones(64, requires_grad=True)
    tg.manual_seed(3)
    found = [f(x) for _ in range(6)]
    tg.manual_seed(3)
    wanted = [f.function(x) for _ in range(6)]
    assert all(map(tg.equal, found, wanted))
    tg.testing.assert_close(
        tg.autograd.grad(found[4].sum(), x), tg.autograd.grad(wanted[4].sum(), x)
    )
    (g,) = tg.autograd.grad(found[5].sum(), x, create_graph=True)  # with the same numbers
    tg.testing.assert_close(g, tg.autograd.grad(wanted[5].sum(), x)[0])


def test_training_and_evaluation_take_turns() -> None:
    layers = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.BatchNorm1d(4))
    compiled = tg.compile(layers, fullgraph=True)
    x = tg.randn(3, 4)
    for _ in range(40):
        compiled.train()
        tg.manual_seed(0)
        compiled(x).sum().backward()
        compiled.eval()
        with tg.no_grad():
            assert tg.equal(compiled(x), layers(x))
        assert compiled(x).requires_grad
    known = compiled.forward
    assert not any(r.reason for r in known.recordings.values())
    assert sum(len(some) for some in known.resting.values()) == 1


def test_inference_mode() -> None:
    compiled = tg.compile(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), fullgraph=True)
    with tg.inference_mode():
        for _ in range(5):
            y = compiled(tg.ones(1, 2))
            assert not y.requires_grad
    assert compiled(tg.ones(1, 2)).requires_grad


@pytest.mark.parametrize("dtype", [tg.float64, tg.bfloat16], ids=str)
def test_other_dtypes(dtype: Any) -> None:
    layer = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1)).to(dtype)
    x = tg.randn(3, 4, dtype=dtype)
    f = ready(layer, x)
    f(x).sum().backward()
    found = [p.grad for p in layer.parameters()]
    layer.zero_grad()
    layer(x).sum().backward()
    for g, p in zip(found, layer.parameters(), strict=True):
        tg.testing.assert_close(g, p.grad)
        assert g.dtype == dtype


def test_autocast_around_a_module() -> None:
    layer = nn.Linear(4, 4)
    x = tg.randn(3, 4)
    compiled = tg.compile(layer, fullgraph=True)
    for _ in range(5):
        layer.zero_grad()
        with tg.autocast("cpu", dtype=tg.bfloat16):
            y = compiled(x)
        assert y.dtype == tg.bfloat16
        y.float().sum().backward()
    found = layer.weight.grad
    layer.zero_grad()
    with tg.autocast("cpu", dtype=tg.bfloat16):
        y = layer(x)
    y.float().sum().backward()
    tg.testing.assert_close(found, layer.weight.grad)


class Square(tg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 2 * x * g


def test_a_function_of_ones_own() -> None:
    w = tg.tensor([2.0, 3.0], requires_grad=True)
    f = ready(lambda x: Square.apply(x * w), tg.ones(2))
    f(tg.tensor([1.0, 2.0])).sum().backward()
    assert w.grad.tolist() == [4.0, 24.0]


def test_what_is_not_recorded() -> None:
    w = tg.ones(2, requires_grad=True)
    history = w * 2

    def hooked(x: Any) -> Any:
        y = x * w
        y.register_hook(lambda g: g * 10)
        return y + 1

    for function, reason in (
        (lambda x: x.view(1, 2) * 1 if x is None else x.view(1, 2), "a view of an argument"),
        (lambda x: x * history, "a history that is not among its arguments"),
        (hooked, "a hook in it sees gradients"),
    ):
        compiled = tg.compile(function)
        x = tg.ones(2, requires_grad=True).exp()
        with pytest.warns(UserWarning, match=reason):
            results = [compiled(x) for _ in range(4)]
        (g,) = tg.autograd.grad(results[3].sum(), x, retain_graph=True)
        (wanted,) = tg.autograd.grad(function(x).sum(), x, retain_graph=True)
        assert tg.equal(g, wanted)


def test_freezing_loading_and_moving() -> None:
    inner = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    compiled = tg.compile(inner, fullgraph=True)
    x = tg.randn(5, 3)

    def check() -> None:
        for _ in range(4):
            inner.zero_grad()
            compiled(x).sum().backward()
            found = [p.grad for p in inner.parameters()]
            inner.zero_grad()
            inner(x).sum().backward()
            for g, p in zip(found, inner.parameters(), strict=True):
                assert (g is None) is (p.grad is None)
                if g is not None:
                    tg.testing.assert_close(g, p.grad)

    check()
    inner[0].requires_grad_(False)
    check()
    inner.load_state_dict({k: v + 1 for k, v in inner.state_dict().items()})
    check()
    inner.to(tg.float64)
    x = x.double()
    check()
    inner[2].weight.data = tg.ones(2, 4, dtype=tg.float64)
    check()


def test_optimized_modules() -> None:
    inner = nn.Sequential(nn.Linear(2, 3), nn.Dropout(0.5))
    inner.note = 7
    outer = tg.compile(inner)
    assert type(outer).__name__ == "OptimizedModule"
    assert outer._orig_mod is inner
    assert len(outer) == 2 and bool(outer) and bool(tg.compile(nn.Linear(2, 2)))
    with pytest.raises(TypeError, match="has no len"):
        len(tg.compile(nn.Linear(2, 2)))
    assert repr(outer).startswith("OptimizedModule(\n  (_orig_mod): Sequential(\n    (0): Linear")
    assert list(outer.state_dict()) == ["_orig_mod.0.weight", "_orig_mod.0.bias"]
    assert [n for n, _ in outer.named_modules()] == ["", "_orig_mod", "_orig_mod.0", "_orig_mod.1"]
    assert outer.note == 7
    outer.other = 3
    assert inner.other == 3
    outer.eval()
    assert not (inner.training or outer.training or inner[1].training)
    inner.train()
    assert outer.training
    with pytest.raises(AttributeError, match="'Sequential' object has no attribute 'nothing'"):
        _ = outer.nothing
    outer.load_state_dict(outer.state_dict())
    copied = copy.deepcopy(outer)
    assert copied._orig_mod is not inner
    assert pickle.loads(pickle.dumps(outer)).note == 7
    outer.eval()
    file = io.BytesIO()
    tg.save(outer.state_dict(), file)
    for _ in range(5):
        assert tg.equal(copied.eval()(tg.ones(1, 2)), outer(tg.ones(1, 2)))
    seen: list[str] = []
    outer.register_forward_hook(lambda module, args, out: seen.append(type(module).__name__))
    outer(tg.ones(1, 2))
    assert seen == ["OptimizedModule"]


def test_a_module_is_compiled_in_place() -> None:
    module = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    assert module.compile(fullgraph=True) is None
    for _ in range(5):
        y = module(tg.ones(1, 2))
    assert y.grad_fn.name() == "CompiledFunctionBackward"
    assert list(module.state_dict()) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert copy.deepcopy(module)._compiled_call_impl is None


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8), nn.LayerNorm(8))
        self.rest = nn.ModuleList(
            [
                nn.Sequential(
                    nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)
                )
                for _ in "ab"
            ]
        )

    def forward(self, x: Any) -> Any:
        y = self.first(x)
        return self.rest[0 if y.sum().item() > 0 else 1](y)


def test_the_parts_of_what_cannot_be_recorded() -> None:
    tg.manual_seed(0)
    module = Branching()
    compiled = tg.compile(module)
    optimizer = tg.optim.SGD(module.parameters(), lr=0.1)
    other = copy.deepcopy(module)
    for i in range(30):
        x = tg.randn(3, 4)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            y = compiled(x)
        assert len(said) == (i == 1)
        if said:
            assert "the others are compiled apart" in str(said[0].message)
            assert "if y.sum().item() > 0" in str(said[0].message)
        wanted = other(x)
        tg.testing.assert_close(y, wanted)
        for each, out in ((module, y), (other, wanted)):
            each.zero_grad()
            out.square().sum().backward()
        for p, q in zip(module.parameters(), other.parameters(), strict=True):
            assert (p.grad is None) is (q.grad is None)
            if p.grad is not None:
                tg.testing.assert_close(p.grad, q.grad)
        optimizer.step()
        other.load_state_dict(module.state_dict())
    assert y.grad_fn.name() == "CompiledFunctionBackward"
    assert module.first._compiled_call_impl is None
    said_of_it = tg.compile.explain(compiled)
    assert "Sequential: compiled as a whole, 1 recording" in said_of_it
    assert "the backward pass:" in said_of_it


def test_a_step_that_reads_its_loss_has_a_compiled_model() -> None:
    layers = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = tg.optim.SGD(layers.parameters(), lr=0.1)
    names = []

    @tg.compile
    def step(x: Any, y: Any) -> float:
        names.extend(locals())  # so it is not cut
        optimizer.zero_grad()
        out = layers(x)
        loss = F.mse_loss(out, y)
        loss.backward()
        optimizer.step()
        names.append(out.grad_fn.name())
        return float(loss.item())

    with pytest.warns(UserWarning, match=r"it calls locals\(\)"):
        losses = [step(tg.ones(2, 4), tg.ones(2, 1)) for _ in range(12)]
    assert losses == sorted(losses, reverse=True)
    assert names[-1] == "CompiledFunctionBackward"


@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_checkpoints(rate: float) -> None:
    """Where numbers are drawn again backward, nothing is recorded, and nothing is lost."""
    layers = nn.Sequential(nn.Linear(2, 4), nn.Dropout(rate), nn.Tanh())

    def function(x: Any) -> Any:
        return checkpoint(layers, x, use_reentrant=False) * 2

    found = []
    for each in (tg.compile(function), function):
        layers.zero_grad()
        tg.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(6):
                each(tg.ones(3, 2)).sum().backward()
        found.append(layers[0].weight.grad.clone())
    tg.testing.assert_close(*found)


def test_compiled_modules_inside_of_what_cannot_be_recorded() -> None:
    layers = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
    inner = tg.compile(layers)

    @tg.compile
    def reads(x: Any) -> float:
        return float(inner(x).sum().item())

    x = tg.ones(2, 4)
    with pytest.warns(UserWarning, match="a value is handed to Python"):
        found = [reads(x) for _ in range(8)]
    assert found == pytest.approx([layers(x).sum().item()] * 8)
    assert next(iter(inner.forward.recordings.values())).replays >= 3


def test_threads_that_differentiate() -> None:
    w = tg.ones(64, requires_grad=True)
    f = ready(lambda x: (x * w).exp().sum(), tg.ones(64))
    wrong: list[Any] = []

    def work(scale: float) -> None:
        for _ in range(50):
            x = tg.full((64,), scale)
            (g,) = tg.autograd.grad(f(x), w)
            if not tg.allclose(g, x * x.exp()):
                wrong.append(scale)

    threads = [threading.Thread(target=work, args=(i / 4,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_calls_do_not_gather_memory() -> None:
    w = tg.ones(8, requires_grad=True)
    f = ready(lambda x: (x * w).exp(), tg.ones(8))

    def count() -> int:
        for _ in range(20):
            f(tg.ones(8)).sum().backward()
            f(tg.ones(8))  # never differentiated
        gc.collect()
        return len(gc.get_objects())

    count()
    before = count()
    assert count() <= before + 5


@pytest.mark.parametrize("how", ["index", "values"])
def test_numpy_arrays_that_the_backward_pass_reads(how: str) -> None:
    """An argument that is no tensor has no version: the third call raised AttributeError."""

    def function(x: Any, a: Any) -> Any:
        if how == "index":
            return (x * 2).sin().exp()[a].cos().tanh()
        return (x.sin().exp() * tg.from_numpy(a)).cos().tanh()

    compiled = tg.compile(function)
    for i in range(7):
        a: Any = np.array([i % 6, 2, 3]) if how == "index" else np.full((6, 3), i / 4, np.float32)
        x, y = (tg.linspace(i, 1.5, 18).view(6, 3).requires_grad_() for _ in range(2))
        out, expected = compiled(x, a), function(y, a)
        out.sum().backward()
        expected.sum().backward()
        assert tg.equal(out, expected)
        tg.testing.assert_close(x.grad, y.grad)
    assert "replayed" in str(tg.compile.explain(compiled))
