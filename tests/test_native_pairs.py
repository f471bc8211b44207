"""Functions of two numbers in C, each against its block on NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad.ops.special.float_parts
import tapegrad.ops.special.polynomials  # noqa: F401  (they fill the registry)
from tapegrad.core.base import quiet
from tapegrad.core.op import REGISTRY
from tapegrad.kernels.backend import NUMPY
from tapegrad.kernels.cpu import KERNELS

if KERNELS is None:
    pytest.skip("the native kernels are not built", allow_module_level=True)

from tapegrad.kernels.cpu.overrides.pairs import FUNCTIONS

DEGREES = [-1.0, -0.5, 0.0, 0.7, 1.0, 2.0, 3.9, 5.0, 8.0, 9.0, 20.0, 129.0, 513.0, np.nan, np.inf]
PLACES = [0.0, -0.0, 1.0, -1.0, 0.3, -0.7, 0.9, 1.5, -2.5, np.nan, np.inf, -np.inf, 1e30]


def both(name: str, x: Any, y: Any) -> tuple[Any, Any]:
    """What the kernel gives, and what the block does."""
    op = REGISTRY[name]
    return quiet(op.kernel, x, y), quiet(NUMPY.kernel(op), x, y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values(name: str, dtype: Any) -> None:
    x, n = np.array(PLACES, dtype)[:, None], np.array(DEGREES, dtype)
    found, expected = both(name, x, n)
    assert found.dtype == dtype and found.shape == expected.shape
    # Multiply-adds and cosines are rounded otherwise; recurrences amplify that.
    room = (2e-4 if dtype == np.float32 else 1e-12) if name != "nextafter" else 0
    np.testing.assert_allclose(found, expected, rtol=room, atol=room)


@pytest.mark.parametrize("name", ["nextafter", "special_legendre_polynomial_p"])
def test_shapes(name: str) -> None:
    rng = np.random.default_rng(0)
    a = np.round(rng.uniform(0, 4, (3, 4)).astype(np.float32))
    for x, y in [
        (a, a[0]),
        (a[0], a),
        (a, 2.0),
        (0.5, a),
        (a.T, a.T),
        (a[:, :1], a[:1]),
        (a[:0], a[:0]),
    ]:
        if name == "nextafter" and float in (type(x), type(y)):
            continue  # it takes no numbers
        found, expected = both(name, x, y)
        np.testing.assert_allclose(found, expected, rtol=1e-5)
        assert found.shape == expected.shape
        assert found.strides == expected.strides or not found.size
