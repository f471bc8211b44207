"""LAPACK's factorizations against the loops that stand in for it."""

import numpy as np
import pytest

from tapegrad.core.base import quiet
from tapegrad.core.host_arrays import host
from tapegrad.kernels.cpu import lapack
from tapegrad.kernels.cpu.factorizations import STRAIGHT
from tapegrad.ops.linalg import householder, ldl, matrices

pytestmark = pytest.mark.skipif(
    not lapack.routine("getrf", np.dtype(np.float32)), reason="there is no LAPACK, or no kernels"
)

FLAGS = [(True, True), (False, True), (True, False)]  # of the singular value decomposition
DTYPES = ["float32", "float64", "complex64", "complex128"]


def drawn(dtype, *shape):
    rng = np.random.default_rng(sum(shape))
    values = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.standard_normal(shape)
    return values.astype(dtype)


def both(monkeypatch, call):
    """What a call gives with LAPACK, and by the loops; that LAPACK was used is checked."""
    calls = []
    found = lapack.routine

    def noted(name, dtype):
        calls.append(name)
        return found(name, dtype)

    monkeypatch.setattr(lapack, "routine", noted)
    fast = call()
    assert calls
    monkeypatch.setattr(lapack, "routine", lambda name, dtype: 0)
    return fast, call()


def check(fast, slow, dtype, room=1e3):
    for a, b in zip(fast, slow, strict=True):
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        if a.dtype.kind == "i":
            assert np.array_equal(a, b)
        else:
            scale = np.abs(b).max(initial=1)
            np.testing.assert_allclose(a, b, rtol=0, atol=room * np.finfo(dtype).eps * scale)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 5, 3), (3, 5), (1, 1), (70, 70)])
def test_lu(monkeypatch, dtype, shape):
    a = drawn(dtype, *shape)
    check(*both(monkeypatch, lambda: matrices.lu_arrays(host, a)), dtype)
    zero = np.zeros(shape, dtype)
    check(*both(monkeypatch, lambda: matrices.lu_arrays(host, zero)), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("conjugate", [False, True])
def test_solve_lu(monkeypatch, dtype, conjugate):
    factors, pivots, _ = matrices.lu_arrays(
        host, drawn(dtype, 2, 6, 6) + 6 * np.eye(6, dtype=dtype)
    )
    b = drawn(dtype, 2, 6, 3)

    def call():
        return [np.ascontiguousarray(matrices.solve_lu(host, factors, pivots, b, conjugate))]

    check(*both(monkeypatch, call), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("hermitian", [False, True])
def test_ldl(monkeypatch, dtype, hermitian):
    for shape in ((4, 4), (3, 2, 5, 5), (66, 66)):
        a = drawn(dtype, *shape) + (16 * np.eye(66, dtype=dtype) if shape[0] == 66 else 0)
        fast, slow = both(monkeypatch, lambda a=a: ldl.ldl_arrays(host, a, hermitian))
        check(fast, slow, dtype, 1e4)
        monkeypatch.undo()
        b = drawn(dtype, *shape[:-1], 3)

        def call(b=b, ld=slow[0], pivots=slow[1]):
            return [np.ascontiguousarray(ldl.solve_ldl(host, ld, pivots, b, hermitian))]

        check(*both(monkeypatch, call), dtype, 1e5)
        monkeypatch.undo()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("turn", [False, True])
@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 5, 3), (70, 66)])
def test_reflections(monkeypatch, dtype, turn, shape):
    a, x = drawn(dtype, *shape) / 8, drawn(dtype, *shape[:-1], 7)
    tau = drawn(dtype, *shape[:-2], shape[-1]) / 8
    check(*both(monkeypatch, lambda: [householder.reflected(host, a, tau, x, turn)]), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 5, 3), (70, 66)])
def test_product_of_reflections(monkeypatch, dtype, shape):
    a, tau = drawn(dtype, *shape) / 8, drawn(dtype, *shape[:-2], shape[-1]) / 8
    forward = householder.LinalgHouseholderProduct.forward
    check(*both(monkeypatch, lambda: [forward(host, a, tau)]), dtype)


def test_pivots_that_point_outside_do_not_reach_lapack():
    a = drawn("float32", 3, 3)
    for pivots in ([1, 2, 4], [0, 1, 2], [1, 2, -3], [-2, -3, 1], [-5, -5, 1]):
        assert not lapack.are_pivots(pivots)
        assert lapack.solve_ldl(a[None], np.array([pivots]), a[None], False) is None
    for pivots in ([1, 2, 4], [0, 1, 2]):
        assert lapack.solve_lu(a, np.array(pivots), a, False) is None
    assert lapack.are_pivots([1, -3, -3])


def test_sizes_that_do_not_fit_do_not_reach_lapack():
    """LAPACK would read and write beyond the memory; the loops raise what they always raised."""
    square, tall, two = np.eye(3)[None], np.ones((1, 3, 2)), np.ones((1, 2, 2))
    pivots = np.array([[1, 2, 3]])
    assert lapack.solve_lu(square, pivots, two, False) is None  # fewer rows on the right
    assert lapack.solve_lu(square[:, :1], pivots, tall, False) is None
    assert lapack.solve_lu(square, pivots[:, :2], tall, False) is None
    assert lapack.solve_lu(np.repeat(square, 2, 0), np.repeat(pivots, 2, 0), tall, False) is None
    assert lapack.ldl(tall, False) is None
    assert lapack.solve_ldl(square, pivots, two, False) is None
    assert lapack.solve_ldl(square, pivots[:, :2], tall, False) is None
    assert lapack.solve_ldl(square, pivots, np.repeat(tall, 2, 0), False) is None
    assert lapack.reflections(np.repeat(tall, 2, 0), np.ones((1, 2))) is None
    assert lapack.reflected(tall[..., :1], np.ones((1, 2)), tall, False) is None


@pytest.mark.parametrize("dtype", DTYPES)
def test_straight_calls_are_those_of_numpy(dtype: str) -> None:
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((3, 4, 4)) + 1j * rng.standard_normal((3, 4, 4))).astype(np.complex128)
    x = (x if dtype[0] == "c" else x.real).astype(dtype)
    positive = x @ np.conj(x.swapaxes(-1, -2)) + 4 * np.eye(4, dtype=dtype)
    wide, tall = x[:, :3], x[..., :3]
    calls = [("cholesky", (positive,)), ("solve", (x, tall)), ("inv", (x,)), ("det", (x,))]
    calls += [("slogdet", (x,)), ("eigh", (positive,)), ("eigh", (positive, "U"))]
    calls += [("qr", (a, m)) for a in (x, wide, tall) for m in ("reduced", "complete", "r", "raw")]
    calls += [("svd", (a, *flags)) for a in (x, wide, tall) for flags in FLAGS]
    assert {name for name, _ in calls} == {*STRAIGHT}
    for name, given in calls:
        found, expected = getattr(host.linalg, name)(*given), getattr(np.linalg, name)(*given)
        both = (
            zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]
        )
        for a, b in both:
            assert a.dtype == b.dtype, name
            np.testing.assert_array_equal(a, b)


def test_straight_calls_raise_as_numpy_does() -> None:
    for call in (host.linalg.inv, host.linalg.cholesky, lambda a: host.linalg.solve(a, a)):
        with pytest.raises(np.linalg.LinAlgError):
            quiet(call, -np.ones((2, 2)))
