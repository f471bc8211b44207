"""Fourier transforms by the functions behind numpy.fft: the same bits and layouts."""

import numpy as np
import pytest

import tapegrad.ops.fft.one_dim  # noqa: F401  (it fills the registry)
from tapegrad.core.base import quiet
from tapegrad.core.op import REGISTRY
from tapegrad.kernels.backend import NUMPY
from tapegrad.kernels.cpu import KERNELS
from tapegrad.kernels.cpu.backend import HOST

if KERNELS is None:
    pytest.skip("the native kernels are not built", allow_module_level=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
def test_transforms_have_numpys_bits(dtype):
    rng = np.random.default_rng(3)
    for shape in ((5,), (8,), (3, 6), (2, 3, 5), (1, 4), (0, 4), (7, 1)):
        x = rng.standard_normal(shape).astype(dtype)
        if x.dtype.kind == "c":
            x.imag = rng.standard_normal(shape)
        for a in (x, x.T, x[..., ::2]):
            for dim in {(a.ndim - 1,), (0,), tuple(range(a.ndim))}:
                for normalization in range(3):
                    calls = [("_fft_c2c", (f,)) for f in (True, False)]
                    if len(dim) == 1:
                        calls += [("_fft_c2r", (count,)) for count in (4, 7)]
                    if dtype in (np.float32, np.float64):
                        calls = [("_fft_r2c", (onesided,)) for onesided in (True, False)]
                    for name, last in calls if a.size else ():
                        ours, reference = [b.kernel(REGISTRY[name]) for b in (HOST, NUMPY)]
                        found = quiet(ours, a, dim, normalization, *last)
                        expected = quiet(reference, a, dim, normalization, *last)
                        np.testing.assert_array_equal(found, expected)
                        assert found.dtype == expected.dtype and found.strides == expected.strides
