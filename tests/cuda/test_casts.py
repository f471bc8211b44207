"""Autocast on a GPU: what a layer needs is cast by one kernel, and nothing else changes."""

from __future__ import annotations

from typing import Any

import pytest

import tapegrad
from tapegrad.core.base import wrap
from tapegrad.core.devices import DEVICE

torch: Any = tapegrad


def graph(node: Any) -> list[Any]:
    """The names of the nodes behind one."""
    if node is None:
        return []
    return [node.name(), *[graph(n) for n, _ in node.next_functions]]


def train() -> tuple[Any, ...]:
    """A step of a small model; a layer is used twice, so that its casts are kept."""
    torch.manual_seed(0)
    first, second = torch.nn.Linear(6, 4).cuda(), torch.nn.Linear(4, 4).cuda()
    x = torch.randn(3, 6).cuda().requires_grad_()
    with torch.autocast("cuda", torch.bfloat16):
        out = second(second(first(x)).float())
    loss = out.float().pow(2).sum()
    grads = torch.autograd.grad(loss, [x, *first.parameters(), *second.parameters()])
    return out.dtype, graph(loss.grad_fn), [g.cpu().tolist() for g in (loss.detach(), *grads)]


@pytest.mark.skipif(hasattr(DEVICE.xp, "RawKernel"), reason="a GPU does it by itself")
def test_together_is_as_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = train()
    calls = []

    def casts(arrays: list[Any], dtype: Any) -> list[Any]:
        calls.append(len(arrays))
        return [x.astype(dtype) for x in arrays]

    monkeypatch.setattr(DEVICE.backend, "casts", casts)
    assert train() == alone
    assert calls == [3, 2]  # the second layer's input is rounded already; then all is kept


def test_nothing_is_recorded_without_gradients() -> None:
    layer, x = torch.nn.Linear(6, 4).cuda(), torch.randn(3, 6).cuda()
    with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
        out = layer(x)
    assert out.dtype == torch.bfloat16 and not out.requires_grad


@pytest.mark.skipif(not hasattr(DEVICE.xp, "RawKernel"), reason="needs a GPU: the kernel itself")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("sizes", [(7, 1), (1000, 33, 65), (1, 70_000)])
def test_the_kernel_casts(dtype: str, sizes: tuple[int, ...]) -> None:
    wanted = getattr(torch, dtype)
    tensors = [torch.randn(n, device="cuda") for n in sizes]
    made = DEVICE.backend.casts([t.array for t in tensors], wanted.np)
    for t, array in zip(tensors, made, strict=True):
        assert (wrap(array) == t.to(wanted)).all().item()
