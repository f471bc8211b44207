"""Autocast on a GPU: a model's parameters are cast by one kernel, and nothing else changes."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
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

    def casts(arrays: list[Any], dtype: Any, apart: bool) -> list[Any]:
        calls.append(len(arrays))
        made = own(arrays, dtype, apart)  # the stand-in has no such kernel
        return [x.astype(dtype) for x in arrays] if made is None else made

    monkeypatch.setattr(backend, "casts", lambda arrays, dtype, apart: None)
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


# ---------------------------------------------------------------------- gradients


class Deep(torch.nn.Module):
    """Five layers; `between` is called on what is between the second and the third."""

    def __init__(self, between: Any) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(4, 4) for _ in range(5)])
        self.between = between

    def forward(self, x: Any) -> Any:
        for i, layer in enumerate(self.layers):
            x = layer(x)
            if i == 1:
                x = self.between(x)
        return x


def arrived(model: Any) -> list[bool]:
    return [p.grad is not None for p in model.parameters()]


def late(between: Any = lambda x: x) -> tuple[Any, list[list[bool]], Any]:
    """A model, an empty list, and a loss."""
    torch.manual_seed(0)
    model = Deep(between).cuda()
    with torch.autocast("cuda", torch.bfloat16):
        loss = model(torch.randn(3, 4).cuda()).float().pow(2).sum()
    return model, [], loss


@pytest.fixture
def watched_casts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many arrays were cast at a time, in the backward pass."""
    backend = DEVICE.backend
    own = backend.casts
    calls: list[int] = []

    def casts(arrays: list[Any], dtype: Any, apart: bool) -> Any:
        if apart:
            calls.append(len(arrays))
        return own(arrays, dtype, apart)

    monkeypatch.setattr(backend, "casts", casts)
    return calls


def test_gradients_are_cast_together(watched_casts: list[int]) -> None:
    model, _, loss = late()
    loss.backward(retain_graph=True)
    assert watched_casts == [10]
    first = [p.grad.clone() for p in model.parameters()]
    assert all(g.dtype == torch.float32 for g in first)
    wanted = torch.autograd.grad(loss, list(model.parameters()), retain_graph=True)
    assert watched_casts == [10]  # one by one, as autograd.grad hands gradients out itself
    loss.backward()
    for p, one, g in zip(model.parameters(), first, wanted, strict=True):
        assert torch.equal(one, g) and torch.equal(p.grad, 2 * one)
        assert p.grad._version == 1
    storages = {p.grad.untyped_storage().data_ptr() for p in model.parameters()}
    assert len(storages) == 10


def test_hooks_see_what_has_arrived(watched_casts: list[int]) -> None:
    kept: list[Any] = []

    def between(x: Any) -> Any:
        kept.append(x)
        return x

    model, seen, loss = late(between)
    kept[0].register_hook(lambda g: seen.append(arrived(model)))
    loss.backward()
    assert seen == [[False] * 4 + [True] * 6]
    assert watched_casts == [6, 4]


def test_a_function_sees_what_has_arrived(watched_casts: list[int]) -> None:
    class Look(torch.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            seen.append(arrived(model))
            return grad

    model, seen, loss = late(Look.apply)
    loss.backward()
    assert seen == [[False] * 4 + [True] * 6]
    assert watched_casts == [6, 4]


def test_unpacking_sees_what_has_arrived() -> None:
    def between(x: Any) -> Any:
        def unpack(t: Any) -> Any:
            seen.append(arrived(model))
            return t

        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, unpack):
            return x.sin()

    model, seen, loss = late(between)
    loss.backward()
    assert seen == [[False] * 4 + [True] * 6]


def test_what_arrived_before_an_error_stays() -> None:
    class Fail(torch.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            raise ValueError("no")

    model, _, loss = late(Fail.apply)
    with pytest.raises(ValueError, match="no"):
        loss.backward()
    assert arrived(model) == [False] * 4 + [True] * 6


def test_an_error_of_an_op_too() -> None:
    kept: list[Any] = []

    def between(x: Any) -> Any:
        kept.append(x.exp())
        return kept[0]

    model, _, loss = late(between)
    with torch.no_grad():
        kept[0].add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    assert arrived(model)[6:] == [True] * 4


def test_hooks_of_a_leaf_are_called_in_turn() -> None:
    model, seen, loss = late()
    weights = [layer.weight for layer in model.layers]
    weights[3].register_post_accumulate_grad_hook(lambda p: seen.append(arrived(model)))
    loss.backward()
    # PyTorch casts the bias first, so its gradient comes last.
    assert seen == [[False] * 6 + [True, False, True, True]]


@pytest.mark.skipif(not hasattr(DEVICE.xp, "RawKernel"), reason="needs a GPU: the kernel itself")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("sizes", [(7, 1), (1000, 33, 65), (1, 70_000), range(1, 330)])
def test_the_kernel_casts(dtype: str, sizes: Any) -> None:
    wanted = getattr(torch, dtype)
    tensors = [torch.randn(n, device="cuda") for n in sizes]
    made = DEVICE.backend.casts([t._array for t in tensors], wanted.np, False)
    back = DEVICE.backend.casts(made, torch.float32.np, True)
    for t, array, wide in zip(tensors, made, back, strict=True):
        assert (wrap(array) == t.to(wanted)).all().item()
        assert torch.equal(wrap(wide), t.to(wanted).float())


def test_an_error_while_casting_leaves_numpy_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(arrays: list[Any], dtype: Any, apart: bool) -> Any:
        if apart:
            raise MemoryError("full")
        return None

    _, _, loss = late()
    monkeypatch.setattr(DEVICE.backend, "casts", fails)
    before = np.geterr()
    with pytest.raises(MemoryError, match="full"):
        loss.backward()
    assert np.geterr() == before


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("pair", ["float32 bfloat16", "bfloat16 float32", "bfloat16 bfloat16"])
def test_arithmetic_of_half_precision(pair: str, autocast: bool) -> None:
    """Results, nodes and gradients are as on the CPU, for two dtypes and for one."""
    kinds = [getattr(torch, name) for name in pair.split()]
    for shape in ((3, 4), (4,)):
        found: list[Any] = []
        for device in ("cpu", "cuda"):
            values = [torch.arange(1.0, 13.0).reshape(3, 4), torch.full(shape, 2.0)]
            a, b = [
                v.to(kind).to(device).requires_grad_()
                for v, kind in zip(values, kinds, strict=True)
            ]
            results = []
            for _ in range(2):  # a kernel is known from its first use on
                with torch.autocast(device, torch.bfloat16, enabled=autocast):
                    for out in (a + b, a - b, a * b, a / b, b + a):
                        grads = torch.autograd.grad(out.float().sum(), (a, b))
                        results.append((out.dtype, type(out.grad_fn).__name__))
                        results.append([(g.dtype, g.shape, g.cpu().tolist()) for g in grads])
                        results.append(out.detach().cpu().tolist())
            with torch.no_grad():
                kept = a + b
            results.append((kept.requires_grad, kept.dtype))
            found.append(results)
        assert found[0] == found[1]
