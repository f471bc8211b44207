"""Systems of equations with triangles: by BLAS and row by row, however the factors lie."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as torch
from tapegrad.core.host_arrays import host
from tapegrad.ops.linalg import matrices

SHAPES = [((1, 1), (1, 1)), ((5, 5), (5, 3)), ((3, 40, 40), (3, 40, 1)), ((40, 40), (2, 40, 7))]


def made(rng, shape, dtype):
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("shapes", SHAPES)
def test_every_triangle(shapes, dtype):
    rng = np.random.default_rng(0)
    for upper in (False, True):
        for unit in (False, True):
            a, b = made(rng, shapes[0], dtype), made(rng, shapes[1], dtype)
            n = a.shape[-1]
            a = a / n + 3 * np.eye(n, dtype=dtype)
            one, read = np.eye(n, dtype=bool), np.tri(n, dtype=bool)
            read = read.T if upper else read
            part = np.where(one, 1 if unit else a, np.where(read, a, 0)).astype(dtype)
            other = np.where(read & ~one | (one if not unit else False), a, np.nan).astype(dtype)
            turned = np.ascontiguousarray(other.swapaxes(-1, -2)).swapaxes(-1, -2)
            wide = np.zeros((*other.shape[:-1], n + 3), dtype)
            wide[..., 2:-1] = other
            for laid in (other, turned, wide[..., 2:-1], other[..., ::-1, ::-1][..., ::-1, ::-1]):
                x = matrices.substitute(host, laid, b, upper, unit)
                limit = 200 * np.finfo(dtype).eps
                np.testing.assert_allclose(part @ x, np.broadcast_to(b, x.shape), limit, limit)


def test_many_small_ones_are_as_one(monkeypatch):
    """Row by row for all of a stack at once, and one matrix after the other."""
    rng = np.random.default_rng(1)
    a = np.tril(rng.standard_normal((50, 6, 6))) + 3 * np.eye(6)
    b = rng.standard_normal((50, 6, 2))
    together = matrices.substitute(host, a, b, False, False)
    monkeypatch.setattr(matrices, "solve_triangles", lambda *_: False)
    np.testing.assert_allclose(matrices.substitute(host, a, b, False, False), together, 1e-12)


def test_a_triangle_that_has_no_inverse():
    a = torch.tensor([[1.0, 0.0], [2.0, 0.0]])
    x = torch.linalg.solve_triangular(a, torch.tensor([[1.0], [3.0]]), upper=False)
    assert x[0, 0] == 1 and torch.isinf(x[1, 0])
