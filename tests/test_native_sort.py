"""sort and topk in C against the blocks on NumPy: the same values at the same places."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad
from tapegrad.core.host_arrays import host
from tapegrad.core.op import REGISTRY
from tapegrad.kernels import cpu

if cpu.KERNELS is None:
    pytest.skip(f"no kernels in C: {cpu.REASON}", allow_module_level=True)

import tapegrad.ops.reduce.sorting

DTYPES = ["float32", "float64", "int32", "int64"]
SHAPES = [(1,), (2,), (24,), (25,), (300,), (5000,), (7, 33), (3, 40, 5), (2, 0), (0, 3), (4, 1)]


@pytest.fixture(params=[1, 2])
def threads(request):
    before = cpu.KERNELS.threads()
    cpu.KERNELS.set_threads(request.param)
    yield request.param
    cpu.KERNELS.set_threads(before)


def draw(rng, shape, dtype):
    """Many equal ones; of floats also NaN of two kinds, infinities and zeros of both signs."""
    x = rng.integers(-9, 9, shape).astype(dtype)
    if x.dtype.kind == "f":
        odd = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, 0.3], dtype)
        x = np.where(rng.random(shape) < 0.4, rng.choice(odd, shape), x)
    elif x.size > 3:
        x.flat[0], x.flat[1] = np.iinfo(dtype).min, np.iinfo(dtype).max
    return x


def same(found, want):
    for f, w in zip(found, want, strict=True):
        assert (f.dtype, f.shape, f.strides) == (w.dtype, w.shape, w.strides)
        np.testing.assert_array_equal(f, w)
        if f.dtype.kind == "f":
            np.testing.assert_array_equal(np.signbit(f), np.signbit(w))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_sort(shape, dtype, descending, threads):
    rng = np.random.default_rng(0)
    op = REGISTRY["sort"]
    x = draw(rng, shape, dtype)
    for view in (x, x.T, x[::-1], np.repeat(x, 2, -1)[..., ::2]):
        for dim in range(x.ndim):
            same(op.kernel(view, dim, descending), op.forward(host, view, dim, descending))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [30, 1000, 70001])
def test_sort_of_all_numbers(size, dtype):
    """Every digit of the keys counts."""
    rng = np.random.default_rng(size)
    x = rng.integers(-(2**62), 2**62, size).view(dtype)[:size].copy()
    for descending in (False, True):
        op = REGISTRY["sort"]
        same(op.kernel(x, 0, descending), op.forward(host, x, 0, descending))


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", [1, 2, 7, 64, 65, 299, 300])
def test_topk(k, dtype, largest, threads):
    """The first of what is sorted, as they stood where they are equal."""
    rng = np.random.default_rng(k)
    for x in (draw(rng, (5, 300), dtype), np.sort(draw(rng, (3, 300), dtype))[:, ::-1]):
        values, places = REGISTRY["topk"].kernel(x, k, 1, largest)
        want = REGISTRY["sort"].forward(host, x, 1, largest)
        same((values, places), [np.ascontiguousarray(w[:, :k]) for w in want])
        values, places = REGISTRY["topk"].kernel(x.T, k, 0, largest)
        same((values, places), [np.ascontiguousarray(w[:, :k].T) for w in want])


def test_what_is_left_to_numpy():
    for x in (np.array([3, 1, 2], np.int16), np.array([True, False]), np.array(3.0)):
        values, places = REGISTRY["sort"].kernel(x, 0, False)
        assert values.dtype == x.dtype and places.dtype == np.int64
    odd = np.frombuffer(bytearray(range(25)), np.uint8)[1:].view(np.float32)
    same(REGISTRY["sort"].kernel(odd, 0, True), REGISTRY["sort"].forward(host, odd, 0, True))


def test_gradients_go_back_to_where_values_stood():
    x = tapegrad.tensor([[3.0, 1.0, 2.0], [0.0, 5.0, 5.0]], requires_grad=True)
    x.sort(1).values.backward(tapegrad.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
    assert x.grad.tolist() == [[3.0, 1.0, 2.0], [4.0, 5.0, 6.0]]
