"""Autocast on a GPU: a model's parameters are cast by one kernel, and nothing else changes."""

from __future__ import annotations

import weakref
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


class Model(torch.nn.Module):
    """A layer is used twice, so that its casts are kept; another is written to in between."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = [torch.nn.Linear(4, 4) for _ in range(3)]

    def forward(self, x: Any, write: bool) -> Any:
        x = self.second(self.second(self.first(x)).float())
        if write:
            with torch.no_grad():
                self.third.weight.mul_(2)
        return self.third(x)


def train(write: bool = False) -> list[Any]:
    """What three steps of a small model give."""
    torch.manual_seed(0)
    model = Model().cuda()
    x = torch.randn(3, 4).cuda().requires_grad_()
    found = []
    for _ in range(3):
        with torch.autocast("cuda", torch.bfloat16):
            out = model(x, write)
        loss = out.float().pow(2).sum()
        grads = torch.autograd.grad(loss, [x, *model.parameters()])
        with torch.no_grad():
            for p, g in zip(model.parameters(), grads[1:], strict=True):
                p -= 0.1 * g
        found += [out.dtype, graph(loss.grad_fn), [g.cpu().tolist() for g in (loss, *grads)]]
    return found


@pytest.mark.parametrize("write", [False, True])
def test_together_is_as_one_by_one(write: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = DEVICE.backend
    own = backend.casts
    calls = []

    def casts(arrays: list[Any], dtype: Any) -> list[Any]:
        calls.append(len(arrays))
        made = own(arrays, dtype)  # the stand-in has no such kernel
        return [x.astype(dtype) for x in arrays] if made is None else made

    monkeypatch.setattr(backend, "casts", lambda arrays, dtype: None)
    alone = train(write)
    monkeypatch.setattr(backend, "casts", casts)
    assert train(write) == alone
    assert calls == [7, 7]  # with the input; the first block shows what there is


def test_parameters_are_not_kept_alive() -> None:
    model, x = torch.nn.Linear(4, 4).cuda(), torch.randn(3, 4).cuda()
    kept = weakref.ref(model.weight)
    with torch.autocast("cuda", torch.bfloat16):
        model(x)
    del model
    assert kept() is None


def test_nothing_is_recorded_without_gradients() -> None:
    layer, x = torch.nn.Linear(4, 4).cuda(), torch.randn(3, 4).cuda()
    for _ in range(2):
        with torch.autocast("cuda", torch.bfloat16):
            assert layer(x).requires_grad
        with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
            out = layer(x)
        assert out.dtype == torch.bfloat16 and not out.requires_grad


@pytest.mark.skipif(not hasattr(DEVICE.xp, "RawKernel"), reason="needs a GPU: the kernel itself")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("sizes", [(7, 1), (1000, 33, 65), (1, 70_000), range(1, 330)])
def test_the_kernel_casts(dtype: str, sizes: Any) -> None:
    wanted = getattr(torch, dtype)
    tensors = [torch.randn(n, device="cuda") for n in sizes]
    made = DEVICE.backend.casts([t.array for t in tensors], wanted.np)
    for t, array in zip(tensors, made, strict=True):
        assert (wrap(array) == t.to(wanted)).all().item()
