"""Maxima of random windows in C, against the block on NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad.ops.nn.max_unpool  # noqa: F401  (it fills the registry)
from tapegrad.core.base import quiet
from tapegrad.core.op import REGISTRY
from tapegrad.kernels.backend import NUMPY
from tapegrad.kernels.cpu import KERNELS

if KERNELS is None:
    pytest.skip("the native kernels are not built", allow_module_level=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [2, 3])
def test_values_and_places(n: int, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    op = REGISTRY[f"fractional_max_pool{n}d"]
    for turn in range(60):
        kernel, out, more = [tuple(rng.integers(low, 6, n).tolist()) for low in (1, 1, 0)]
        sizes = [k + o + m for k, o, m in zip(kernel, out, more, strict=True)]
        lead = (2, 3) if turn % 2 else (3,)
        x = rng.integers(-3, 4, (*lead, *sizes)).astype(dtype)
        if turn % 3 == 0:
            x.reshape(-1)[rng.integers(0, x.size, 3)] = [np.nan, np.inf, -np.inf]
        if turn % 5 == 0:
            x[...] = -np.inf
        drawn = np.minimum(rng.uniform(size=(*lead, n)).astype(dtype), 1 - np.finfo(dtype).eps)
        found = quiet(op.kernel, x, drawn, kernel, out)
        expected = quiet(NUMPY.kernel(op), x, drawn, kernel, out)
        for a, b in zip(found, expected, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)
