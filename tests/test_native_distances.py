"""Distances of all pairs of rows in C, against the blocks on NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tapegrad.ops.nn.distance  # noqa: F401  (it fills the registry)
from tapegrad.core.base import quiet
from tapegrad.core.op import REGISTRY
from tapegrad.kernels.backend import NUMPY
from tapegrad.kernels.cpu import KERNELS

if KERNELS is None:
    pytest.skip("the native kernels are not built", allow_module_level=True)

SHAPES = [(4, 3, 3, ()), (5, 7, 1, (2,)), (3, 4, 37, (2, 3)), (9, 8, 300, ()), (1, 1, 8, ())]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 2.0, 2.5, math.inf])
@pytest.mark.parametrize("rows, others, width, batch", SHAPES)
def test_values(dtype: Any, p: float, rows: int, others: int, width: int, batch: Any) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((*batch, rows, width)).astype(dtype)
    y = rng.standard_normal((*batch, others, width)).astype(dtype)
    x[..., -1, :] = y[..., 0, :]
    x.reshape(-1)[0], y.reshape(-1)[-1] = np.nan, np.inf
    one = y.reshape(-1, others, width)[0]
    for name, given in (
        ("cdist_forward", (x, y, p)),
        ("cdist_forward", (x, one, p)),
        ("pdist_forward", (x, p)),
    ):
        op = REGISTRY[name]
        found, expected = quiet(op.kernel, *given), quiet(NUMPY.kernel(op), *given)
        assert found.dtype == dtype and found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-5 if dtype == np.float32 else 1e-13)
