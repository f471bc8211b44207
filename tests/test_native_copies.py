"""Copies in C: whatever way the source lies, bit by bit."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as torch
from tapegrad.kernels.cpu import KERNELS

pytestmark = pytest.mark.skipif(KERNELS is None, reason="the kernels in C were not built")

DTYPES = ["float32", "float64", "int8", "int16", "complex128", "bool"]


def every_way(x):
    """Views of a matrix, and of its stacks, that lie otherwise than in rows."""
    yield x
    yield x.T
    yield x[::2, ::3]
    yield x[::-1].T
    yield x[:, ::-1]
    yield x[1:, 3:-1].T
    yield np.broadcast_to(x[:, :1], x.shape)
    yield np.broadcast_to(x[:, :, None], (*x.shape, 3))
    yield np.broadcast_to(x[:, None, :], (x.shape[0], 2, x.shape[1])).transpose(2, 0, 1)
    yield np.stack([x, x[::-1]]).transpose(1, 2, 0)
    yield np.stack([x, x, x]).transpose(2, 0, 1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (16, 16), (17, 40), (64, 48), (129, 70), (3, 5000)])
def test_every_way_to_lie(shape, dtype):
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 256, (shape[0], shape[1] * np.dtype(dtype).itemsize), dtype=np.uint8)
    x = (bits & 1 if dtype == "bool" else bits).view(dtype)  # NaN of all kinds among them
    for view in every_way(x):
        found = KERNELS.copied(view)
        assert found.flags.c_contiguous and found.tobytes() == view.tobytes()
        assert not np.shares_memory(found, x)


def test_reshapes_and_clones_of_what_is_turned():
    """Their values and strides, where a kernel makes them and where NumPy does."""
    for n in (3, 200):  # a few elements, and many
        x = torch.randn(n, n, 2).requires_grad_()
        turned = x.permute(1, 2, 0)
        for y in (turned.reshape(-1), turned.contiguous(), turned.clone(), turned.flatten(1)):
            np.testing.assert_array_equal(
                y.detach().numpy().reshape(-1), turned.detach().numpy().reshape(-1)
            )
        assert turned.contiguous().stride() == (2 * n, n, 1)
        assert turned.clone().stride() == turned.stride()
        weight = torch.randn(2 * n * n)
        (grad,) = torch.autograd.grad((turned.reshape(-1) * weight).sum(), x)
        np.testing.assert_array_equal(grad.permute(1, 2, 0).reshape(-1).numpy(), weight.numpy())


def test_sums_of_what_lies_otherwise():
    """Large arrays that are turned, or repeat themselves, against NumPy in double."""
    x = torch.randn(40, 30, 20)
    for t in (
        x.permute(2, 0, 1),
        x.permute(1, 2, 0),
        x[:, :, :1].expand(x.shape),
        x[:1, :, :, None].expand(40, 30, 20, 2),
        torch.tensor(0.25).expand(64, 128, 2),
    ):
        wide = t.numpy().astype("float64")
        for dim in ((0,), (1,), (-1,), (0, 1), (0, 2), (1, 2)):
            for keep in (False, True):
                found, mean = t.sum(dim, keepdim=keep), t.mean(dim, keepdim=keep)
                want = wide.sum(dim, keepdims=keep)
                assert found.shape == want.shape and found.is_contiguous()
                np.testing.assert_allclose(found.numpy(), want, rtol=1e-5, atol=1e-5)
                want = wide.mean(dim, keepdims=keep)
                np.testing.assert_allclose(mean.numpy(), want, rtol=1e-5, atol=1e-5)
