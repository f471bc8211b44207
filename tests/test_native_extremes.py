"""The largest and the smallest of few elements, in C and on NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as torch
from tapegrad.core.op import REGISTRY
from tapegrad.kernels.backend import NUMPY
from tapegrad.kernels.cpu import KERNELS
from tapegrad.kernels.cpu.backend import HOST


def drawn(rng: Any, dtype: Any) -> Any:
    """Few values, so that there are equal ones; sometimes a NaN among them, or an infinity."""
    array = rng.integers(-2, 3, tuple(rng.integers(1, 6, rng.integers(0, 4)))).astype(dtype)
    if rng.random() < 0.4:
        array.reshape(-1)[rng.integers(0, array.size)] = rng.choice([np.nan, np.inf, -np.inf])
    return array


def same(tensor: Any, array: Any) -> bool:
    return tensor.shape == np.shape(array) and np.array_equal(tensor.numpy(), array, equal_nan=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("seed", range(40))
def test_extremes(dtype: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a = drawn(rng, np.float64).astype(dtype) if dtype != np.int64 else rng.integers(-2, 3, (3, 4))
    t = torch.tensor(a)
    assert same(t.max(), a.max()) and same(t.min(), a.min())
    assert same(t.argmax(), a.argmax()) and same(t.argmin(), a.argmin())
    for keep in (False, True):
        for d in range(a.ndim):
            for name in ("max", "min"):
                values, places = getattr(t, name)(d, keep)
                assert same(values, getattr(a, name)(d, keepdims=keep))
                assert same(places, getattr(a, f"arg{name}")(d, keepdims=keep))
                assert same(getattr(t, f"arg{name}")(d, keep), places.numpy())
        for dims in ((0, 1), (1, 2), (0, 2), (0, 1, 2)):
            if a.ndim > max(dims):
                assert same(t.amax(dims, keep), a.max(dims, keepdims=keep))
                assert same(t.amin(dims, keep), a.min(dims, keepdims=keep))


def test_the_other_way_round() -> None:
    """Memory that is not in C order, and more elements than are looked at one by one."""
    rng = np.random.default_rng(0)
    for a in (rng.random((7, 5)).T, rng.random((200, 300)), rng.random((9, 8))[::2, ::-1]):
        t = torch.from_numpy(a.copy()) if a.strides[-1] < 0 else torch.from_numpy(a)
        assert same(t.max(1).indices, a.argmax(1)) and same(t.amin(0), a.min(0))


@pytest.mark.skipif(KERNELS is None, reason="the native kernels are not built")
@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_running_extremes(name: str) -> None:
    op = REGISTRY[name]
    ours, reference = HOST.kernel(op), NUMPY.kernel(op)
    for seed in range(30):
        a = drawn(np.random.default_rng(seed), (np.float32, np.float64)[seed % 2])
        for d in range(a.ndim):
            for found, expected in zip(ours(a, d), reference(a, d), strict=True):
                np.testing.assert_array_equal(found, expected)
                assert found.dtype == expected.dtype
