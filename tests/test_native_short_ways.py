"""Fast paths of single functions against the general ones that they stand in for."""

import numpy as np
import pytest

import tapegrad as torch
from tapegrad.core.host_arrays import host
from tapegrad.kernels.cpu import KERNELS
from tapegrad.ops.pointwise.comparisons import same_values
from tapegrad.ops.reduce.scans import Cummax, Cummin
from tapegrad.ops.reduce.softmax import LogSoftmax, Softmax
from tapegrad.ops.shape.triangles import Tril, Triu

native = pytest.mark.skipif(KERNELS is None, reason="the kernels in C were not built")
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.int64)
DTYPES = (*DTYPES, torch.bool, torch.uint8)


@native
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 7), (7, 4), (1, 1), (2, 0, 3)])
def test_triangles(dtype, shape):
    x = torch.randn(shape).to(dtype)._array
    turned = np.swapaxes(np.swapaxes(x, -1, -2).copy(), -1, -2)
    for op in (Tril, Triu):
        for diagonal in (-9, -2, -1, 0, 1, 3, 9, 1 << 62, -(1 << 62)):
            for given in (x, turned):
                found = op.kernel(given, diagonal)
                assert found.dtype == x.dtype
                assert found.tobytes() == op.forward(host, x, diagonal).tobytes()


@native
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("op", [Softmax, LogSoftmax])
def test_softmax_along_other_dimensions(op, dtype):
    x = np.random.default_rng(0).standard_normal((3, 5, 4)).astype(dtype) * 9
    for dim in (0, 1, 2):
        found = op.kernel(x, dim)
        assert found.flags.c_contiguous
        assert found.dtype == dtype
        np.testing.assert_allclose(found, op.forward(host, x, dim), rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("at", [None, 0, 511, 512, 4095, 9999])
def test_equal_piece_by_piece(dtype, at):
    x = torch.ones(10000, dtype=dtype)
    y = x.clone()
    assert torch.equal(x, y)
    if at is not None:
        y[at] = 0
        assert not torch.equal(x, y)
        if dtype.is_floating_point:
            x[at] = -0.0
            assert torch.equal(x, y)
            x[at] = y[at] = float("nan")
            assert not torch.equal(x, y)
            x[at] = y[at] = float("inf")
            assert torch.equal(x, y)
    a, b = x._array, y._array
    assert same_values(a, b) == bool((a == b).all())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_products_of_half_precision_vectors(dtype):
    a, b, m = torch.randn(300).to(dtype), torch.randn(300).to(dtype), torch.randn(4, 300).to(dtype)
    want = (a.double() * b.double()).sum()
    room = torch.finfo(dtype).eps * float((a.double() * b.double()).abs().sum())
    for found in (torch.dot(a, b), torch.vdot(a, b), a @ b, torch.linalg.vecdot(a, b)):
        assert found.dtype is dtype
        assert abs(float(found) - float(want)) <= room
    assert torch.allclose(torch.mv(m, a), (m.float() @ a.float()).to(dtype), rtol=0.02, atol=0.1)


def test_nan_to_num_of_complex_numbers():
    inf, nan = float("inf"), float("nan")
    x = torch.tensor([complex(nan, 1), complex(inf, -inf), complex(2, nan), 3 + 4j])
    most = torch.finfo(torch.float32).max
    want = [1j, complex(most, -most), 2, 3 + 4j]
    assert torch.equal(torch.nan_to_num(x), torch.tensor(want, dtype=torch.complex64))
    assert torch.equal(torch.nan_to_num(x[3:]), x[3:])


@native
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_running_extremes_of_half_precision(dtype):
    x = torch.randn(20, 30).to(dtype)
    x[3, 4], x[5] = float("nan"), x[6]
    for op in (Cummax, Cummin):
        for dim in (0, 1):
            with np.errstate(all="ignore"):
                pairs = zip(op.kernel(x._array, dim), op.forward(host, x._array, dim), strict=True)
            for found, want in pairs:
                assert found.dtype == want.dtype
                assert found.tobytes() == want.tobytes()


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool])
def test_no_whole_number_is_infinite(dtype):
    x = torch.ones(2, 3, dtype=dtype)
    for function in (torch.isposinf, torch.isneginf):
        assert function(x).dtype is torch.bool
        assert not function(x).any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_limit_of_hardshrink_is_rounded_to_half_precision(dtype):
    limit = torch.tensor(0.1, dtype=dtype)
    x = torch.stack([limit, torch.nextafter(limit, limit + 1), -limit, -limit - limit])
    assert torch.nn.functional.hardshrink(x, 0.1).ne(0).tolist() == [False, True, False, True]
