"""Products of matrices in C: every size around the tiles, however the factors lie."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as torch
from tapegrad.kernels.cpu import KERNELS

pytestmark = pytest.mark.skipif(KERNELS is None, reason="the kernels in C were not built")

# Around the heights of tiles (6, 14), the widths of panels (16, 32) and the depth of a part (512).
ROWS = (1, 3, 4, 5, 6, 7, 13, 14, 15, 28, 29, 64, 113)
COLUMNS = (1, 15, 16, 17, 31, 32, 33, 65, 130)
DEPTHS = (1, 2, 15, 16, 17, 511, 513, 1100)


def laid(rng, rows, columns, dtype, how):
    """Random numbers that lie by rows, by columns, with gaps, or with rows whole pages apart."""
    if how == "turned":
        return rng.standard_normal((columns, rows)).astype(dtype).T
    if how == "pages":
        item = np.dtype(dtype).itemsize
        wide = -(-columns * item // 4096) * 4096 // item
        return rng.standard_normal((rows, wide)).astype(dtype)[:, :columns]
    if how == "gaps":
        return rng.standard_normal((rows, columns + 3)).astype(dtype)[:, 1:-2]
    return rng.standard_normal((rows, columns)).astype(dtype)


def close(found, a, b, row=None):
    """Within what rounding every product and every sum could cost."""
    wide_a, wide_b = a.astype(np.longdouble), b.astype(np.longdouble)
    exact, size = wide_a @ wide_b, np.abs(wide_a) @ np.abs(wide_b)
    if row is not None:
        exact, size = exact + row, size + np.abs(row)
    limit = np.finfo(a.dtype).eps * (4 + a.shape[-1] ** 0.5) * size
    assert found.dtype == a.dtype and found.shape == exact.shape
    assert (np.abs(found - exact) <= limit).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("right", ["plain", "turned", "gaps", "pages"])
@pytest.mark.parametrize("left", ["plain", "turned", "gaps", "pages"])
def test_sizes_and_layouts(left, right, dtype):
    rng = np.random.default_rng(0)
    for m in ROWS:
        for n in COLUMNS:
            for k in rng.choice(DEPTHS, 2, replace=False):
                a = laid(rng, m, int(k), dtype, left)
                b = laid(rng, int(k), n, dtype, right)
                close(KERNELS.product(a, b), a, b)


@pytest.mark.parametrize("stack", [(), (3,)])
def test_odd_layouts_are_copied(stack):
    """A gradient of a sum is one number; slices leave columns out, or go backwards."""
    rng = np.random.default_rng(5)
    plain = rng.standard_normal((*stack, 40, 64)).astype("float32")
    for a in (
        np.broadcast_to(np.float32(0.5), (*stack, 30, 40)),
        np.broadcast_to(rng.standard_normal((*stack, 30, 1)).astype("float32"), (*stack, 30, 40)),
        rng.standard_normal((*stack, 30, 80)).astype("float32")[..., ::2],
        rng.standard_normal((*stack, 30, 40)).astype("float32")[..., ::-1, ::-1],
    ):
        close(KERNELS.product(a, plain), a, plain)
        left, right = plain.swapaxes(-1, -2), a.swapaxes(-1, -2)
        close(KERNELS.product(left, right), left, right)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(5, 3, 17), (29, 385, 33), (300, 40, 100)])
def test_a_row_is_added(shape, dtype):
    rng = np.random.default_rng(1)
    m, k, n = shape
    a, b = laid(rng, m, k, dtype, "plain"), laid(rng, k, n, dtype, "turned")
    row = rng.standard_normal(n).astype(dtype)
    close(KERNELS.product(a, b, row), a, b, row)


@pytest.mark.parametrize("shape", [(1, 5, 7, 20), (3, 200, 150, 170), (40, 14, 16, 33)])
def test_stacks(shape):
    rng = np.random.default_rng(2)
    count, m, k, n = shape
    a = rng.standard_normal((count, m, k)).astype("float32")
    b = rng.standard_normal((count, n, k)).astype("float32").transpose(0, 2, 1)
    found = KERNELS.product(a, b)
    for i in range(count):
        close(found[i], a[i], b[i])


@pytest.mark.parametrize("shape", [(70, 800, 500), (500, 800, 70), (333, 400, 333)])
def test_threads_change_no_bit(shape):
    rng = np.random.default_rng(3)
    m, k, n = shape
    a, b = laid(rng, m, k, "float32", "plain"), laid(rng, k, n, "float32", "turned")
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            results.append(KERNELS.product(a, b))
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        assert (results[0] == other).all()


def test_what_is_not_finite_stays_where_it_is():
    a = np.ones((20, 40), "float32")
    b = np.ones((40, 40), "float32")
    a[3, 5], b[7, 33] = np.nan, np.inf
    found = KERNELS.product(a, b)
    assert np.isnan(found[3]).all() and np.isinf(np.delete(found[:, 33], 3)).all()
    assert np.isfinite(np.delete(np.delete(found, 3, 0), 33, 1)).all()


def test_neighbours_are_not_written():
    """Tiles at the edge write their part of the result alone."""
    rng = np.random.default_rng(4)
    a = laid(rng, 33, 50, "float32", "plain")
    b = laid(rng, 50, 21, "float32", "plain")
    for _ in range(20):  # memory that others hold lies beside it
        held = [np.full((33, 21), 7.0, "float32") for _ in range(8)]
        close(KERNELS.product(a, b), a, b)
        assert all((x == 7).all() for x in held)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        *[((3, 5), (5, 4)), ((9, 33), (33, 47)), ((6, 7), (7, 1)), ((2, 3, 4), (2, 4, 17))],
        *[((2, 3, 4), (4, 5)), ((4,), (4,)), ((5, 4), (4,)), ((4,), (4, 5)), ((2, 3, 4), (4,))],
        *[((2, 1, 3, 4), (5, 4, 2)), ((1, 8), (8, 16)), ((0, 3), (3, 2)), ((2, 0), (0, 3))],
    ],
)
def test_products_of_integers_are_numpys(left, right):
    rng = np.random.default_rng(0)
    a, b = [rng.integers(-(2**62), 2**62, shape) for shape in (left, right)]
    with np.errstate(all="ignore"):
        want = np.matmul(a, b)
    turned = np.ascontiguousarray(a.T).T
    for x in (a, turned):
        got = torch.from_numpy(x) @ torch.from_numpy(b)
        assert np.array_equal(got.numpy(), want)
        assert tuple(got.shape) == want.shape
