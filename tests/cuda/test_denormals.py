"""Numbers that are too small for full precision are not taken for zero."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest

import tapegrad as torch
from tapegrad.kernels.cuda import denormals

TINY = 1e-40
OPS = [
    "x * 1", "x + x", "x - 0", "x / 2", "-x", "x.abs()", "torch.relu(x)", "x.sum()", "x.mean()",
    "torch.maximum(x, x / 2)", "x.clamp(min=0)", "torch.where(x > 0, x, -x)", "x.cumsum(0)",
    "torch.sin(x)", "torch.tanh(x)", "torch.sqrt(x)", "x.amax()", "x.sort().values", "x.clone()",
    "torch.nn.functional.gelu(x)", "torch.nn.functional.mse_loss(x, x * 3, reduction='sum')",
    "torch.sigmoid(x * 1e38 * 1e2)", "x.prod()", "torch.stack((x, x)).sum(0)", "x > 0", "x == 0",
    "torch.nn.functional.leaky_relu(-x)", "x.to(torch.float64) * 1e40", "x * 1e38",
]  # fmt: skip


@pytest.mark.parametrize("text", OPS)
def test_small_numbers_are_kept(text: str) -> None:
    found = []
    for device in ("cpu", "cuda"):
        x = torch.tensor([TINY, 3 * TINY, 5e-39]).to(device)
        found.append(eval(text, {"torch": torch, "x": x}).cpu())
    here, there = found
    torch.testing.assert_close(there, here, rtol=1e-4, atol=3e-45)


def test_gradients_keep_them() -> None:
    x = torch.tensor([1.0, 2.0], device="cuda", requires_grad=True)
    (x * x * TINY).sum().backward()
    assert (x.grad > 1e-41).all()


def test_an_optimizer_keeps_them() -> None:
    p = torch.full((3,), TINY, device="cuda").requires_grad_()
    p.grad = torch.full_like(p, TINY)
    torch.optim.SGD([p], lr=0.5).step()
    assert (p > 4e-41).all() and (p < 6e-41).all()


def test_the_option_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def compiled(source: str, options: Any, arch: Any = None) -> str:
        options += (denormals.FLUSH,)
        options += ("-dlto",)
        seen.append(options)
        return source

    compiler: Any = types.SimpleNamespace(_compile_with_cache_cuda=compiled)
    monkeypatch.setitem(sys.modules, "cupy.cuda.compiler", compiler)
    for name in ("cupy", "cupy.cuda"):
        if name not in sys.modules:
            monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    for _ in range(2):  # the second time nothing is to be done
        denormals.keep(types.SimpleNamespace(__name__="cupy"))
    assert compiler._compile_with_cache_cuda("text", ("--std=c++14",), arch="90") == "text"
    compiler._compile_with_cache_cuda("text", ("--std=c++14", denormals.FLUSH))
    assert seen[0] == ("--std=c++14", "-dlto")
    assert denormals.FLUSH in seen[1]
    denormals.keep(types.SimpleNamespace(__name__="stand_in"))  # no CuPy, nothing to change
