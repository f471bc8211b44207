"""`tapegrad.compile`: what can be seen of versions is what it is in an eager call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tapegrad as tg
from tapegrad import nn
from tapegrad.nn import functional as F

CALLS = 7  # the third is compared with a replay, the fourth is one


class Small(nn.Module):
    def __init__(self, norm: bool) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 5), nn.Linear(5, 2)
        self.norm = nn.BatchNorm1d(5) if norm else nn.Identity()

    def forward(self, x: Any) -> Any:
        return self.second(self.norm(self.first(x)).tanh())


def halve(model: Any) -> None:
    for p in model.parameters():
        p.grad.mul_(0.5)


def halve_by_data(model: Any) -> None:
    for p in model.parameters():
        p.grad.data.mul_(0.5)


def decay(model: Any) -> None:
    with tg.no_grad():
        for p in model.parameters():
            p.mul_(0.99)


def clip(model: Any) -> None:
    nn.utils.clip_grad_norm_(model.parameters(), 0.1)


def clip_values(model: Any) -> None:
    nn.utils.clip_grad_value_(model.parameters(), 0.1)


def second_pass(model: Any) -> None:
    model(tg.ones(3, 6)).sum().backward()


def used_twice(model: Any) -> None:
    for p in model.parameters():
        p.grad = None
    (model(tg.ones(3, 6)) * model(tg.zeros(3, 6))).sum().backward()


def new_gradients(model: Any) -> None:
    for p in model.parameters():
        p.grad = p.grad * 2


def nothing(model: Any) -> None:
    pass


OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda params: tg.optim.SGD(params, lr=0.1),
    "momentum": lambda params: tg.optim.SGD(params, lr=0.1, momentum=0.9),
    "adam": lambda params: tg.optim.Adam(params, lr=0.1),
    "adadelta": lambda params: tg.optim.Adadelta(params),
}
EXTRAS = (
    *(
        nothing,
        halve,
        halve_by_data,
        decay,
        clip,
        clip_values,
        second_pass,
        used_twice,
        new_gradients,
    ),
)
CASES = [
    *[(name, nothing, "first") for name in OPTIMIZERS],
    *[("sgd", extra, "first") for extra in EXTRAS[1:]],
    *[("adam", clip, clear) for clear in ("zeros", "never", "last")],
]


def versions(compile: Any, name: str, extra: Any, clear: str, norm: bool) -> list[Any]:
    """What counts how often, after each call of a step."""
    tg.manual_seed(0)
    model = Small(norm)
    opt = OPTIMIZERS[name](model.parameters())

    @compile
    def step(x: Any, y: Any) -> Any:
        if clear in ("first", "zeros"):
            opt.zero_grad(set_to_none=clear == "first")
        loss = F.mse_loss(model(x), y)
        loss.backward()
        extra(model)
        opt.step()
        if clear == "last":
            opt.zero_grad()
        return loss

    x, y = tg.randn(3, 6), tg.randn(3, 2)
    seen = []
    for _ in range(CALLS):
        loss = step(x, y)
        params = list(model.parameters())
        states = [v for p in params for v in opt.state[p].values() if isinstance(v, tg.Tensor)]
        found = [x, y, loss, *params, *model.buffers(), *states]
        gradients = [None if p.grad is None else p.grad._version for p in params]
        seen.append([[t._version for t in found], gradients])
    return seen


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize(
    ("name", "extra", "clear"), CASES, ids=[f"{n}-{e.__name__}-{c}" for n, e, c in CASES]
)
def test_versions_after_a_step(name: str, extra: Any, clear: str, norm: bool) -> None:
    compile = tg.compile(fullgraph=True)
    expected = versions(lambda f: f, name, extra, clear, norm)
    assert versions(compile, name, extra, clear, norm) == expected


GRADIENTS: dict[str, Callable[[Any], Any]] = {
    "transposed": lambda w: (w.T * 2).sum(),
    "expanded": lambda w: w.sum(),
    "a_product_with_itself": lambda w: (w @ w).sum(),
    "a_square": lambda w: (w * w).sum(),
    "two_uses": lambda w: (w.sin() + w.cos()).sum(),
    "three_uses": lambda w: (w.sin() + w.cos() + w.exp()).sum(),
    "a_view": lambda w: (w.view(-1) * 2).sum(),
    "rows": lambda w: (w[0] * w[1]).sum(),
    "padded": lambda w: F.pad(w, (1, 1)).sin().sum(),
    "tied": lambda w: F.linear(F.linear(w, w).tanh(), w.T).sum(),
    "parts": lambda w: F.layer_norm(w, (3,), w[0], w[1]).sum(),
    "a_bias_twice": lambda w: (F.linear(w, w, w[0]) + F.linear(w.sin(), w, w[0])).sum(),
    "a_number": lambda w: w[0, 0].sin() + w[0, 0].cos() + w[0, 0],
    "nothing": lambda w: (w * 0).detach().sum() + w[1, 1],
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_versions_of_gradients(name: str) -> None:
    """A pass adds into gradients that it owns and copies others: it counts these writes."""

    def run(compile: Any) -> list[int]:
        tg.manual_seed(0)
        w = tg.randn(3, 3, requires_grad=True)

        @compile
        def step() -> None:
            w.grad = None
            GRADIENTS[name](w).backward()

        found = []
        for _ in range(CALLS):
            step()
            found.append(w.grad._version)
        return found

    assert run(tg.compile(fullgraph=True)) == run(lambda f: f)


def by_column(*shape: int) -> Any:
    return tg.arange(6.0).view(*shape[::-1]).sin().t()


# With the strides that PyTorch gives these gradients.
LAYOUTS: dict[str, tuple[Any, Any, tuple[int, ...]]] = {
    "irfft": (lambda x: tg.fft.irfft(x, dim=0), tg.complex(tg.rand(3, 2), tg.rand(3, 2)), (1, 3)),
    "hfft": (lambda x: tg.fft.hfft(x, dim=0), tg.complex(tg.rand(3, 2), tg.rand(3, 2)), (1, 3)),
    "eigvals": (tg.linalg.eigvals, tg.tensor([[2.0, 1, 0], [0, 3, 1], [1, 0, 5]]), (2, 6)),
    "cdist": (
        lambda x: tg.cdist(x, tg.eye(2), compute_mode="use_mm_for_euclid_dist"),
        by_column(3, 2),
        (1, 3),
    ),
    "ormqr": (lambda x: tg.ormqr(*tg.geqrf(tg.rand(3, 2)), x), tg.rand(3, 2), (1, 3)),
    "mse_loss": (lambda x: F.mse_loss(x, tg.ones(3, 2)), by_column(3, 2), (2, 1)),
    "huber_loss": (lambda x: F.huber_loss(x, tg.ones(3, 2)), by_column(3, 2), (2, 1)),
    "smooth_l1_loss": (lambda x: F.smooth_l1_loss(x, tg.ones(3, 2)), by_column(3, 2), (2, 1)),
}


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts_of_gradients(name: str, create_graph: bool) -> None:
    """A pass on arrays and one on tensors (as a recorded one is) lay a gradient out alike."""
    function, value, strides = LAYOUTS[name]
    x = value.clone().requires_grad_()
    loss = function(x).abs().square().sum()
    assert tg.autograd.grad(loss, x, create_graph=create_graph)[0].stride() == strides


def written(x: Any) -> Any:
    h = (x * 2 + 1).sin()
    h.mul_(2)
    h[0] = 1.0
    h.data.add_(1)
    return h


def a_view_and_its_base(x: Any) -> Any:
    h = (x * 2 + 1).sin().exp()
    h.add_(1)
    return h, h.view(-1)


def a_base_and_a_view(x: Any) -> Any:
    return tuple(reversed(a_view_and_its_base(x)))


def rows(x: Any) -> Any:
    h = (x * 2 + 1).sin().exp()
    return h[0], h[1].mul_(3), h[:, 0]


def detached(x: Any) -> Any:
    h = (x * 2 + 1).sin().exp()
    return h, h.detach(), h.data


def real_parts(x: Any) -> Any:
    h = tg.view_as_complex((x * 2 + 1).sin().exp())
    return h, tg.view_as_real(h), h.real


def not_counted(x: Any) -> Any:
    with tg.inference_mode():
        return (x * 2 + 1).sin().exp().mul_(2)


def after_writes(function: Any) -> list[Any]:
    """What can be seen of results, and what a write into each of them does to the others."""
    seen: list[Any] = []
    for i in range(CALLS):
        x, w = tg.arange(4.0).view(2, 2) + i, tg.tensor(2.0, requires_grad=True)
        out = function(x)
        results = list(out) if isinstance(out, tuple) else [out]
        seen.append([t.is_inference() for t in results])
        if results[0].is_inference():
            continue
        for t in results:
            t.mul_(2)
            seen.append([(each._version, each.tolist()) for each in results])
        kept = [(t * w).sum() for t in results if t.is_floating_point()]
        results[-1].mul_(w)  # the others have that in their history, or are told of it
        seen.append([(t.requires_grad, t._version) for t in results])
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            sum(kept).backward()
        if len(results) > 1:
            ids = [id(t) for t in results]
            seen.append([None if t._base is None else id(t._base) in ids for t in results])
    return seen


@pytest.mark.parametrize(
    "function",
    [written, a_view_and_its_base, a_base_and_a_view, rows, detached, real_parts, not_counted],
)
def test_results_that_look_at_one_memory(function: Any) -> None:
    expected = after_writes(function)
    assert after_writes(tg.compile(function, fullgraph=True)) == expected


def test_a_gradient_that_is_kept_keeps_its_version() -> None:
    """A replay writes into the next gradient, not into the one that somebody has."""
    model = nn.Linear(3, 3)
    opt = tg.optim.SGD(model.parameters(), lr=0.1)

    @tg.compile(fullgraph=True)
    def step(x: Any) -> Any:
        opt.zero_grad()
        model(x).tanh().sum().backward()
        model.weight.grad.mul_(2).add_(1)
        opt.step()

    for i in range(CALLS):
        step(tg.ones(2, 3) * i)
        kept = model.weight.grad
        values = kept.tolist()
        step(tg.ones(2, 3))
        assert kept.tolist() == values
        assert kept._version == model.weight.grad._version == 2


@pytest.mark.parametrize("keeps", [False, True])
def test_a_graph_that_reads_a_gradient_says_that_it_was_overwritten(keeps: bool) -> None:
    """Memory of gradients is filled anew: what still needs its values raises, or has a copy."""
    model = nn.Linear(3, 3)
    opt = tg.optim.SGD(model.parameters(), lr=0.1)

    @tg.compile(fullgraph=True)
    def backward(x: Any) -> Any:
        opt.zero_grad()
        model(x).tanh().sum().backward()

    @tg.compile(fullgraph=True)
    def halved() -> None:  # reads and writes the gradients that it finds
        halve(model)
        model.weight.grad.tanh_().exp_()
        opt.step()

    told = 0
    for i in range(CALLS + 3):
        backward(tg.ones(2, 3) * i)
        halved()
        held, w = model.weight.grad, tg.ones(3, 3, requires_grad=True)
        values, loss = held.tolist(), (held * w).sum()
        if not keeps:
            del held
        backward(tg.ones(2, 3))
        halved()
        try:
            loss.backward()
        except RuntimeError as error:
            assert "modified by an inplace operation" in str(error)
            told += 1
        else:
            assert w.grad.tolist() == values
        assert not keeps or held.tolist() == values
        assert model.weight.grad._version == 3
    assert told >= 4
