"""Products on tensor cores: as accurate as cuBLAS in float32, and the same odd values."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tapegrad.core import devices
from tapegrad.kernels.cuda import cublas, cublaslt, tensor_cores

xp = devices.DEVICE.xp
on_gpu = pytest.mark.skipif(
    not hasattr(xp, "RawKernel"), reason="products on tensor cores need CuPy and a GPU"
)
rng = np.random.default_rng(0)
LAYOUTS = {"NT": (False, True), "NN": (False, False), "TN": (True, False), "TT": (True, True)}
SHAPES = [
    (128, 128, 128),
    (7, 5, 128),
    (130, 70, 136),
    (33, 131, 133),
    (257, 384, 1001),
    (384, 200, 8192),  # takes several shares of k
    (2048, 384, 384),
]
CHOICES = range(len(tensor_cores.TILES))


def put(x: Any, turned: bool) -> Any:
    """On the device, by rows or by columns, each of which starts at a multiple of 16 bytes."""
    lines = x.T if turned else x
    room = xp.full((lines.shape[0], (lines.shape[1] + 3) // 4 * 4), np.nan, np.float32)
    room[:, : lines.shape[1]] = xp.asarray(np.ascontiguousarray(lines))
    placed = room[:, : lines.shape[1]]
    return placed.T if turned else placed


def draw(*shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


def run(a: Any, b: Any, layout: str, choice: int = 0, bias: Any = None) -> Any:
    left, right = [put(x, turn) for x, turn in zip((a, b), LAYOUTS[layout], strict=True)]
    (turn_a, step_a), (turn_b, step_b) = [cublas.laid_out(x, 4) for x in (left, right)]
    (m, k), n = a.shape, b.shape[1]
    steps = (bool(turn_a), bool(turn_b), step_a, step_b)
    plan = tensor_cores.plans(devices.DEVICE.backend.gpu, m, n, k, *steps)[choice]
    out = xp.full((m, n), np.nan, np.float32)
    assert tensor_cores.aligned(left.data.ptr, right.data.ptr, out.data.ptr)
    more = None if bias is None else xp.asarray(bias)
    plan.run(left.data.ptr, right.data.ptr, out.data.ptr, 0 if more is None else more.data.ptr)
    return xp.asnumpy(out)


def plain(a: Any, b: Any) -> Any:
    return xp.asnumpy(xp.matmul(xp.asarray(a), xp.asarray(b)))


def rms(x: Any) -> float:
    return float(np.sqrt(np.mean(x * x)))


@on_gpu
@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("positive", [False, True])
def test_accuracy(shape: tuple[int, int, int], layout: str, choice: int, positive: bool) -> None:
    m, n, k = shape
    a, b = draw(m, k), draw(k, n)
    if positive:
        a, b = np.abs(a), np.abs(b)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    error = rms(run(a, b, layout, choice) - exact)
    # A unit in the last place is always allowed: of few results cuBLAS's may all be lucky.
    last = rms(np.spacing(exact.astype(np.float32)))
    assert error <= 1.5 * max(rms(plain(a, b) - exact), last)


@on_gpu
@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("shape", [(200, 130, 128), (100, 36, 8000)], ids=str)
def test_bias(shape: tuple[int, int, int], choice: int) -> None:
    m, n, k = shape
    a, b, bias = draw(m, k), draw(k, n), draw(n)
    np.testing.assert_array_equal(
        run(a, b, "NT", choice, bias), run(a, b, "NT", choice) + bias, strict=True
    )


@on_gpu
@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("k", [130, 4096])
def test_odd_values(k: int, layout: str, choice: int) -> None:
    a, b = draw(70, k), draw(k, 40)
    a[3, 4], a[5, 6], a[7, 8] = np.inf, -np.inf, np.nan
    b[9, 10], b[4, 7] = -np.inf, 0.0
    a[20] = 0.0
    a[20, 3] = np.finfo(np.float32).max  # rounds up to infinity where 11 bits are kept
    b[3] = np.minimum(np.abs(b[3]), 0.9)
    got, want = run(a, b, layout, choice), plain(a, b)
    for kind in (np.isnan, np.isposinf, np.isneginf):
        np.testing.assert_array_equal(kind(got), kind(want))
    finite = np.isfinite(want)
    np.testing.assert_allclose(got[finite], want[finite], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(got[20, :10], want[20, :10], rtol=1e-6)


@on_gpu
@pytest.mark.parametrize(
    ("left", "right"),
    [(1e30, 1e6), (1e-30, 1e-3), (1e-37, 1.0), (1e-20, 1e-15), (1e30, 1e-30), (1e-37, 1e30)],
)
def test_large_and_small_numbers(left: float, right: float) -> None:
    a, b = draw(130, 160) * np.float32(left), draw(160, 70) * np.float32(right)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    error = rms((run(a, b, "NN") - exact) / rms(exact))
    # Results that are subnormal, or nearly, may come out as zeros, and nothing else may.
    tiny = 4 * np.finfo(np.float32).tiny
    lost = rms(np.where(np.abs(exact) < tiny, exact, 0)) / rms(exact)
    assert error <= 1.5 * rms((plain(a, b) - exact) / rms(exact)) + 1e-7 + lost


@on_gpu
def test_values_do_not_change_the_time() -> None:
    """Measured on an H200: 1 % for finite factors; a tile with NaN is computed twice, 3.6 times."""
    a, b = draw(1024, 1024), draw(1024, 1024)
    mixed = b * np.float32(10) ** np.linspace(-44, 30, 1024, dtype=np.float32)
    usual = milliseconds(a, b)
    for other in (b * np.float32(1e-38), b * np.float32(1e-42), b * np.float32(1e30), mixed):
        assert milliseconds(a, other) < 1.5 * usual
    assert milliseconds(a, b * np.float32(np.nan)) < 8 * usual


def milliseconds(a: Any, b: Any) -> float:
    """The least time of a product on the GPU."""
    left, right, out = put(a, False), put(b, False), xp.empty((a.shape[0], b.shape[1]), np.float32)
    (m, k), n = a.shape, b.shape[1]
    plan = tensor_cores.plans(devices.DEVICE.backend.gpu, m, n, k, False, False, k, n)[0]
    took = []
    for _ in range(9):
        start, end = xp.cuda.Event(), xp.cuda.Event()
        start.record()
        for _ in range(4):
            plan.run(left.data.ptr, right.data.ptr, out.data.ptr)
        end.record()
        end.synchronize()
        took.append(xp.cuda.get_elapsed_time(start, end))
    return min(took)


@on_gpu
@pytest.mark.parametrize("shape", [(300, 200, 140), (384, 384, 16384)], ids=str)
def test_same_result_each_time(shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    a, b = draw(m, k), draw(k, n)
    np.testing.assert_array_equal(run(a, b, "TN"), run(a, b, "TN"))


def test_other_addresses_go_to_cublas() -> None:
    assert tensor_cores.aligned(16, 32, 4096) and not tensor_cores.aligned(16, 36, 4096)
    plan = object.__new__(cublaslt.Plan)
    seen: list[tuple[str, int]] = []
    plan.first = lambda a, b, out, bias: seen.append(("cublas", a))  # type: ignore[assignment]
    own: Any = SimpleNamespace(run=lambda a, b, out, bias: seen.append(("own", a)))
    plan.start_own(own, 16, 32, 64, 0)
    plan.start_own(own, 20, 32, 64, 0)
    assert seen == [("own", 16), ("cublas", 20)]


@pytest.mark.parametrize("tile", tensor_cores.TILES, ids=str)
@pytest.mark.parametrize("k", [1, 31, 384, 1000, 16384, 16385])
def test_shares_cover_k(tile: tensor_cores.Tile, k: int) -> None:
    for m, n in ((384, 384), (1152, 384), (16384, 384), (1, 1)):
        shares = tensor_cores.best_shares(tile, m, n, k, 132)[1]
        share = tensor_cores.share_of(k, shares)
        assert share % tensor_cores.DEPTH == 0
        assert (shares - 1) * share < k <= shares * share


def test_fits() -> None:
    assert tensor_cores.fits(16384, 1152, 384, False, True, 384, 384)
    assert tensor_cores.fits(130, 70, 133, True, False, 132, 72)
    assert not tensor_cores.fits(130, 70, 133, True, False, 130, 72)
    assert not tensor_cores.fits(0, 70, 133, False, False, 136, 72)
    assert not tensor_cores.fits(64, 64, 96, False, False, 96, 64)
    assert not tensor_cores.fits(2**20, 8, 4096, False, False, 4096, 8)
