"""Images read at points in C, against the blocks on NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tapegrad.ops.nn.grid_sample  # noqa: F401  (it fills the registry)
from tapegrad.core.base import quiet
from tapegrad.core.op import REGISTRY
from tapegrad.kernels.backend import NUMPY
from tapegrad.kernels.cpu import KERNELS

if KERNELS is None:
    pytest.skip("the native kernels are not built", allow_module_level=True)

MODES = [(m, p, a) for m, p, a in itertools.product(range(3), range(3), (False, True))]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("mode, padding, align", MODES)
def test_values(dtype: Any, n: int, mode: int, padding: int, align: bool) -> None:
    if n == 3 and mode == 2:
        pytest.skip("cubic interpolation is for images")
    rng = np.random.default_rng(0)
    points = (4, 3, 2)[:n]
    for sizes, order in itertools.product(
        [(5, 4, 3)[:n], (1, 3, 2)[:n]], itertools.product((0, 1), repeat=n)
    ):
        image = rng.standard_normal((2, 3, *sizes)).astype(dtype)
        values = rng.standard_normal((2, 3, *points)).astype(dtype)
        grid = rng.uniform(-2.5, 2.5, (2, *points, n)).astype(dtype)
        grid.reshape(-1)[:7] = [0, 1, -1, np.nan, np.inf, -np.inf, 0.5]
        how = (mode, padding, align, order)
        for name, given in (
            ("sampler", (image, grid, *how)),
            ("adder", (values, grid, sizes, *how)),
            ("slope", (values, image, grid, *how)),
        ):
            op = REGISTRY[f"grid_{name}_{n}d"]
            found, expected = quiet(op.kernel, *given), quiet(NUMPY.kernel(op), *given)
            assert found.dtype == dtype and found.shape == expected.shape
            room = 0 if name == "sampler" else 1e-5 if dtype == np.float32 else 1e-12
            np.testing.assert_allclose(found, expected, rtol=room, atol=10 * room)
