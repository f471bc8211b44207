"""Poisson, binomial, gamma and Dirichlet numbers and rrelu's slopes on a GPU.

Their kernels draw PyTorch's numbers (test_pytorch_numbers.py); the stand-in has none, and the host
draws others there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from watching import gpu, staying_on_device

import tapegrad as torch
from tapegrad import nn
from tapegrad.core import devices

F = nn.functional
DTYPES = ["float32", "float64", "float16", "bfloat16"]


def has_kernels() -> bool:
    return hasattr(devices.DEVICE.xp, "RawKernel")


def needs_kernels() -> None:
    if not has_kernels():
        pytest.skip("the stand-in has no kernels: the host draws")


def line(low: float, high: float, count: int, kind: str) -> Any:
    return torch.linspace(low, high, count, device="cuda").to(getattr(torch, kind))


def draws(kind: str, count: int) -> dict[str, Callable[[], Any]]:
    means, shapes = line(0, 30, count, kind), line(0.1, 5, count, kind)
    throws, chances = torch.full_like(means, 20.0), line(0.01, 0.99, count, kind)
    below = -torch.ones_like(means)
    return {
        "poisson": lambda: torch.poisson(means),
        "standard_gamma": lambda: torch._standard_gamma(shapes),
        "binomial": lambda: torch.binomial(throws, chances),
        "rrelu": lambda: F.rrelu(below, 0.1, 0.9, True),
    }


NAMES = ["poisson", "standard_gamma", "binomial", "rrelu"]
WORDS = {"poisson": 20, "standard_gamma": 12, "binomial": 44, "rrelu": 4}


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_what_is_drawn_moves_the_generator_as_pytorch_does(name: str, kind: str) -> None:
    generator = torch.cuda.default_generators[0]
    for count in (5, 3000):
        torch.manual_seed(3)
        draw = draws(kind, count)[name]
        with staying_on_device(0 if has_kernels() or name == "rrelu" else 9):
            first = draw()
        each = 2 if kind == "float64" else 4
        words = WORDS[name] if name != "rrelu" else 4 * -(-count // (each * 256 * -(-count // 256)))
        assert generator.get_offset() == words
        second = draw()
        torch.manual_seed(3)
        assert torch.equal(draw(), first)
        assert count == 5 or not torch.equal(first, second)


def test_moments() -> None:
    torch.manual_seed(1)
    n = 4000
    for rate in (0.5, 20.0, 63.9, 64.0, 900.0, 5000.0):
        counts = torch.poisson(torch.full((n,), rate, device="cuda")).double().cpu()
        assert abs(counts.mean() - rate) < 5 * (rate / n) ** 0.5
        assert abs(counts.var() / rate - 1) < 0.15
        assert torch.equal(counts, counts.round()) and counts.min() >= 0
    for count, p in ((7.0, 0.3), (40.0, 0.9), (500.0, 0.5), (30.0, 0.4)):
        given = [torch.full((n,), v, device="cuda") for v in (count, p)]
        found = torch.binomial(*given).double().cpu()
        spread = count * p * (1 - p)
        assert abs(found.mean() - count * p) < 5 * (spread / n) ** 0.5
        assert abs(found.var() / spread - 1) < 0.15
        assert found.min() >= 0 and found.max() <= count
    for shape in (0.3, 1.0, 9.0):
        found = torch._standard_gamma(torch.full((n,), shape, device="cuda")).double().cpu()
        assert abs(found.mean() - shape) < 5 * (shape / n) ** 0.5
        assert abs(found.var() / shape - 1) < 0.25
        assert found.min() > 0


def test_dirichlet() -> None:
    torch.manual_seed(2)
    shapes = gpu(0.5, 2.0, 4.0).expand(1000, 3)
    found = torch._sample_dirichlet(shapes)
    assert torch.cuda.default_generators[0].get_offset() == WORDS["standard_gamma"]
    assert found.sum(-1).sub(1).abs().max() < 1e-5
    assert found.mean(0).tolist() == pytest.approx([0.5 / 6.5, 2 / 6.5, 4 / 6.5], abs=0.03)
    for kind in ("float16", "bfloat16"):
        dtype = getattr(torch, kind)
        half = torch._sample_dirichlet(shapes.to(dtype))
        limits = torch.finfo(dtype)
        assert half.dtype == dtype
        assert half.min() >= limits.tiny and half.max() <= 1 - limits.eps


@pytest.mark.parametrize("name", NAMES)
def test_layouts_and_sizes(name: str) -> None:
    """Numbers go by the order of dimensions, whatever the strides; results are contiguous."""
    functions: dict[str, Callable[[Any], Any]] = {
        "poisson": torch.poisson,
        "standard_gamma": torch._standard_gamma,
        "binomial": lambda x: torch.binomial(x + 20, x / 7),
        "rrelu": lambda x: F.rrelu(-x, 0.1, 0.9, True),
    }
    draw = functions[name]
    x = torch.linspace(0.5, 6.0, 600, device="cuda").reshape(30, 20)
    for given in (x.t(), x[::2, 1:], x[0].expand(4, 20), x[0, 0]):
        torch.manual_seed(4)
        found = draw(given)
        torch.manual_seed(4)
        assert found.tolist() == draw(given.contiguous()).tolist()
        assert found.shape == given.shape and (found.is_contiguous() or name == "rrelu")
    torch.manual_seed(4)
    empty = draw(x[:0])
    assert empty.shape == (0, 20)
    expected = 0 if name == "rrelu" else WORDS[name]
    assert torch.cuda.default_generators[0].get_offset() == expected


def test_slopes_are_ones_above_zero() -> None:
    for kind in DTYPES:
        x = torch.tensor([-1.0, 0.0, 2.0, float("nan")], dtype=getattr(torch, kind), device="cuda")
        x.requires_grad_()
        y = F.rrelu(x, 0.25, 0.5, True)
        assert y[1] == 0 and y[2] == 2 and y[3].isnan()
        assert -0.5 <= y[0] <= -0.25
        (slopes,) = torch.autograd.grad(y, x, torch.ones_like(y))
        assert slopes[2:].tolist() == [1, 1] and slopes[0] == -y[0]
        assert 0.25 <= slopes[1] <= 0.5
    for training in (True, False):
        with pytest.raises(NotImplementedError, match="not implemented for 'Long'"):
            F.rrelu(torch.ones(2, dtype=torch.int64, device="cuda"), training=training)


def test_gradients_of_gammas() -> None:
    for kind in DTYPES:
        shapes = torch.full((50,), 3.0, dtype=getattr(torch, kind), device="cuda")
        shapes.requires_grad_()
        found = torch._standard_gamma(shapes)
        (grad,) = torch.autograd.grad(found.sum(), shapes)
        assert grad.dtype == shapes.dtype
        known = torch._standard_gamma_grad(shapes.detach().cpu().double(), found.cpu().double())
        assert grad.tolist() == pytest.approx(known.tolist(), rel=1e-2)


def test_what_is_refused() -> None:
    whole = torch.ones(2, dtype=torch.int64, device="cuda")
    for name, draw in (
        ("poisson_cuda", torch.poisson),
        ("gamma_cuda", torch._standard_gamma),
        ("gamma_cuda", torch._sample_dirichlet),
    ):
        with pytest.raises(NotImplementedError, match=f"\"{name}\" not implemented for 'Long'"):
            draw(whole)
    with pytest.raises(ValueError, match="floating-point dtypes for count, got: Long"):
        torch.binomial(whole, whole)
    with pytest.raises(RuntimeError, match="Found dtype Half but expected Float"):
        torch.binomial(gpu(1.0), gpu(0.5).half())


def test_awkward_parameters() -> None:
    needs_kernels()
    nan, inf = float("nan"), float("inf")
    # PyTorch's loop never ends for a rate that is no number.
    assert str(torch.poisson(gpu(-3.0, 0.0, nan)).tolist()) == "[0.0, 0.0, nan]"
    shapes = torch._standard_gamma(gpu(0.0, nan, inf))
    assert shapes[0] == torch.finfo(torch.float32).tiny
    assert str(shapes[1:].tolist()) == "[nan, inf]"
    counts = torch.binomial(gpu(-1.0, 5.0, 5.0, 5.0, nan), gpu(0.5, 0.0, 1.0, nan, 0.5))
    assert str(counts.tolist()) == "[0.0, 0.0, 5.0, nan, nan]"


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_replays_draw_what_calls_do(name: str, kind: str) -> None:
    if name != "rrelu":
        needs_kernels()
    draw = draws(kind, 400)[name]
    draw()  # kernels are compiled before a graph is recorded
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = draw()
    torch.manual_seed(5)
    expected = [draw().tolist() for _ in range(3)]
    after = torch.cuda.get_rng_state().tolist()
    torch.manual_seed(5)
    for values in expected:
        graph.replay()
        assert out.tolist() == values
    assert expected[0] != expected[1]
    assert torch.cuda.get_rng_state().tolist() == after


def test_one_launch_each(launches: list[str]) -> None:
    x = gpu(0.5, 0.25, 0.75)
    torch.poisson(x)
    torch._standard_gamma(x)
    torch.binomial(x, x)
    assert launches == ["poisson", "standard_gamma", "binomial"]
    launches.clear()
    F.rrelu(x, training=True)
    assert launches == ["slopes", "binary"]
