"""Variances, norms and logarithms of sums: as on the CPU, and one launch each."""

from __future__ import annotations

import math
from typing import Any

import pytest

import tapegrad as torch

SHAPES: list[tuple[tuple[int, ...], Any]] = [
    ((5,), None),
    ((3, 4), 0),
    ((3, 4), 1),
    ((3, 4), None),
    ((2, 3, 5), (0, 1)),
    ((2, 3, 5), (1, 2)),
    ((2, 3, 5), (0, 2)),  # neither rows nor columns
    ((7, 1000), -1),
    ((1000, 70), 0),
    ((1, 3000), 1),
    ((4, 1), 1),
]
ORDERS = [0, 1, 2, 3, 0.5, 1.5, math.inf, -math.inf]
KINDS: list[Any] = [
    lambda x, dim: x.var(dim),
    lambda x, dim: x.std(dim, keepdim=True),
    lambda x, dim: torch.var(x, dim, correction=0),
    lambda x, dim: torch.std(x, dim, correction=5),
    lambda x, dim: torch.var_mean(x, dim)[0],
    lambda x, dim: torch.cat([part.flatten() for part in torch.std_mean(x, dim)]),
    lambda x, dim: torch.logsumexp(x, tuple(range(x.dim())) if dim is None else dim),
    *[lambda x, dim, p=p: torch.linalg.vector_norm(x, p, dim) for p in ORDERS],
]


def both(kind: Any, x: Any, dim: Any) -> tuple[Any, Any]:
    """The result and the gradient, on the CPU and on the GPU."""
    found = []
    for device in ("cpu", "cuda"):
        t = x.detach().to(device).requires_grad_()
        out = kind(t, dim)
        out.sum().backward()  # one gradient for all
        weights = (torch.arange(out.numel()) % 3).reshape(out.shape).to(out)
        (second,) = torch.autograd.grad(kind(t, dim), t, weights)
        found.append((out.detach().cpu(), t.grad.cpu(), second.cpu()))
    return found[0], found[1]


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize(("shape", "dim"), SHAPES)
def test_as_on_the_cpu(shape: Any, dim: Any, dtype: Any) -> None:
    torch.manual_seed(0)
    x = (torch.randn(shape, dtype=torch.float64) + 3).to(dtype)
    half = dtype is torch.bfloat16
    close = {"rtol": 0.02, "atol": 0.02} if half else {"rtol": 1e-4, "atol": 1e-5}
    for kind in KINDS:
        here, there = both(kind, x, dim)
        for a, b in zip(here, there, strict=True):
            torch.testing.assert_close(b, a, equal_nan=True, **close)


def test_what_is_not_finite_or_small_or_the_same() -> None:
    nan, inf = math.nan, math.inf
    rows = [[1, nan, 2], [inf, 1, 2], [-inf, 1, 2], [-inf, -inf, -inf], [inf, inf, 1], [3, 3, 3]]
    x = torch.tensor([*rows, [1e-30, 2e-30, 3e-30], [1e30, 1e30, 2e30], [-0.0, 0.0, 0.0]])
    for kind in (KINDS[0], KINDS[1], *KINDS[6:]):
        here, there = kind(x.double(), 1).float(), kind(x.cuda(), 1).cpu()
        ordinary = here.isfinite() & (here < 1e25)
        torch.testing.assert_close(there[ordinary], here[ordinary], rtol=1e-4, atol=1e-29)
        assert torch.equal(there.isnan(), here.isnan())
    # PyTorch's running mean makes NaN of infinities, on a GPU in the order of its threads. Ours is
    # a sum there.
    means = torch.std_mean(x.cuda(), 1)[1].cpu()
    torch.testing.assert_close(means, x.double().mean(1).float(), equal_nan=True)
    large = torch.full((2, 5), 16777217.0, device="cuda")
    assert torch.var(large, 1).tolist() == [0, 0]


def test_launches(launches: list[str]) -> None:
    x = torch.randn(64, 100, device="cuda")
    for kind in KINDS:
        for dim in (0, 1):
            launches.clear()
            kind(x, dim)
            assert launches[0] == ("fold_columns" if dim == 0 else "fold_rows")
            assert len(launches) == 1 or kind is KINDS[5]  # which joins two results


def test_launches_of_gradients(launches: list[str]) -> None:
    x = torch.randn(64, 100, device="cuda", requires_grad=True)
    for i, kind in enumerate(KINDS):
        for dim in (0, 1):
            out = torch.std_mean(x, dim) if i == 5 else kind(x, dim)
            grads = [torch.ones_like(part) for part in (out if i == 5 else [out])]
            launches.clear()
            torch.autograd.grad(out, x, grads[0] if i != 5 else grads)
            backs = [name for name in launches if name.startswith("back_")]
            assert len(backs) == 1
            # Of two results one gets no gradient, which is filled with zeros.
            assert len(launches) == 1 or kind is KINDS[4]


def test_gradient_of_one_long_row(launches: list[str]) -> None:
    x = torch.randn(1, 100000)
    found = []
    for device in ("cpu", "cuda"):
        t = x.detach().to(device).requires_grad_()
        out = t.var()
        launches.clear()
        out.backward()
        found.append(t.grad.cpu())
    torch.testing.assert_close(*found)
    assert launches == ["long_rows", "long_rows_end", "back_each"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rows", [5, 20000])
def test_classes_with_weights(rows: int, dtype: Any) -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(rows, 7, dtype=dtype), torch.rand(7, dtype=dtype)
    target = torch.randint(0, 7, (rows,))
    target[::3] = 2
    cross_entropy = torch.nn.functional.cross_entropy
    for options in ({}, {"reduction": "sum"}, {"ignore_index": 2}, {"label_smoothing": 0.1}):
        found = []
        for device in ("cpu", "cuda"):
            t = x.detach().to(device).requires_grad_()
            loss = cross_entropy(t, target.to(device), weight.to(device), **options)
            loss.backward()
            found.append((loss.detach().cpu(), t.grad.cpu()))
        for a, b in zip(*found, strict=True):
            torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-6)


def test_launches_for_classes_with_weights(launches: list[str]) -> None:
    x = torch.randn(64, 10, device="cuda", requires_grad=True)
    weight, target = torch.rand(10, device="cuda"), torch.zeros(64, device="cuda").long()
    launches.clear()
    torch.nn.functional.nll_loss(x, target, weight).backward()
    assert [name for name in launches if name != "look"] == ["chosen", "chosen_back"]


BINARY_LOSSES = (
    torch.nn.functional.binary_cross_entropy,
    (torch.nn.functional.binary_cross_entropy_with_logits),
)


@pytest.mark.parametrize("shape", [(4, 5), (5,), (1, 5), (), (4, 1)])
@pytest.mark.parametrize("positive", [False, True])
def test_binary_losses_with_weights(shape: Any, positive: bool) -> None:
    torch.manual_seed(0)
    x, y, weight = torch.rand(4, 5), torch.rand(4, 5), torch.rand(shape) + 0.5
    for loss in BINARY_LOSSES[positive:]:
        for reduction in ("mean", "sum", "none"):
            found = []
            for device in ("cpu", "cuda"):
                t = x.detach().to(device).requires_grad_()
                options: dict[str, Any] = {
                    "pos_weight" if positive else "weight": weight.to(device)
                }
                out = loss(t, y.to(device), reduction=reduction, **options)
                out.sum().backward()
                found.append((out.detach().cpu(), t.grad.cpu()))
            for a, b in zip(*found, strict=True):
                torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("shape", [(10,), (64, 10), (64, 1), ()])
def test_launches_of_binary_losses_with_weights(launches: list[str], shape: Any) -> None:
    x = torch.rand(64, 10, device="cuda", requires_grad=True)
    y, weight = torch.rand(64, 10, device="cuda"), torch.rand(shape, device="cuda")
    for loss, name in [(BINARY_LOSSES[0], "weight"), (BINARY_LOSSES[1], "weight")] + [
        (BINARY_LOSSES[1], "pos_weight")
    ]:
        for reduction in ("mean", "sum", "none"):
            launches.clear()
            out = loss(x, y, reduction=reduction, **{name: weight})
            assert launches == ["weighted" if reduction == "none" else "weights"]
            grad = torch.ones_like(out)
            launches.clear()
            torch.autograd.grad(out, x, grad)
            assert launches == ["weighed"]
