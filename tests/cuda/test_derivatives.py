"""Derivatives of higher order of functions of tensors on a GPU."""

from __future__ import annotations

from typing import Any

import pytest

import tapegrad as torch
from tapegrad import func


def f(x: Any) -> Any:
    return (x.sin() * x.roll(1)).tanh().sum()


CALLS = {
    "laplacian": lambda x: func.vmap(func.laplacian(f))(x),
    "operator": lambda x: func.vmap(func.operator(f, -0.5, 2.0, 3.0))(x),
    "divergence": lambda x: func.divergence(lambda v: v.sin() * v.roll(1))(x),
    "biharmonic": lambda x: func.biharmonic(f)(x[0]),
    "parts": lambda x: func.laplacian(lambda h: h.prod(), parts=f)(x),
    "jet": lambda x: func.jet(f, (x,), ([x, x * x],))[1][1],
    "root": lambda x: func.root(lambda z, x: z**3 + z - x, torch.zeros_like(x[0]), x[0]),
}


@pytest.mark.parametrize("name", CALLS)
def test_as_on_the_cpu(name):
    torch.manual_seed(0)
    x = torch.randn(4, 3)
    found = CALLS[name](x.cuda())
    assert found.is_cuda
    torch.testing.assert_close(found.cpu(), CALLS[name](x), rtol=1e-4, atol=1e-5)
