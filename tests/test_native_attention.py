"""Attention in C, and its gradients, against the block on NumPy in double."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.core.op import REGISTRY
from tapegrad.kernels import cpu
from test_native import both, close, in_double, same

if cpu.KERNELS is None:
    pytest.skip(f"no kernels in C: {cpu.REASON}", allow_module_level=True)

from tapegrad.ops.nn import attention

FORWARD = "scaled_dot_product_flash_attention_for_cpu"
BACKWARD = "scaled_dot_product_flash_attention_for_cpu_backward"
SHAPES = [  # batches, heads, queries, keys, width
    (1, 1, 1, 1, 1),
    (2, 3, 5, 7, 4),
    (2, 1, 64, 64, 32),
    (1, 2, 65, 130, 9),
    (3, 2, 200, 33, 16),
    (5, 4, 16, 300, 64),
]
MASKS = ["none", "matrix", "all", "rows", "columns", "one", "causal", "both"]


def draw(rng, batches, heads, count, width, dtype, lies):
    """One of queries, keys or values, as layers make them."""
    if lies == "split":  # of one product, heads side by side
        whole = rng.standard_normal((batches, count, 3, heads, width)).astype(dtype)
        return whole.transpose(2, 0, 3, 1, 4)[1]
    if lies == "steps in front":
        whole = rng.standard_normal((count, batches, heads, width)).astype(dtype)
        return whole.transpose(1, 2, 0, 3)
    return rng.standard_normal((batches, heads, count, width)).astype(dtype)


def mask_of(rng, kind, shape, dtype):
    """What is added to the scores: numbers, and minus infinity here and there."""
    b, h, q, k, _ = shape
    sizes = {
        "matrix": (q, k),
        "both": (q, k),
        "all": (b, h, q, k),
        "rows": (b, 1, q, 1),
        "columns": (b, 1, 1, k),
        "one": (1, 1),
    }.get(kind)
    if sizes is None:
        return None
    mask = rng.standard_normal(sizes).astype(dtype)
    return np.where(rng.random(sizes) < 0.3, dtype(-np.inf), mask)


def bounds(grad, q, k, v, mask, scale, causal):
    """The sizes of what is added up in the result and the gradients, and of the scores."""
    grad, q, k, v = [x.astype(np.float64) for x in (grad, q, k, v)]
    scores = np.abs(q) @ np.abs(k).swapaxes(-1, -2) * abs(scale)
    above, below = attention.weights(np, q, k, mask, scale, causal)
    p = above / below
    pulled = np.abs(grad) @ np.abs(v).swapaxes(-1, -2)
    slope = p * (pulled + (p * pulled).sum(-1, keepdims=True)) * abs(scale)
    size = (
        1 + scores.max() + (0 if mask is None else np.abs(mask[np.isfinite(mask)]).max(initial=0))
    )
    turned = slope.swapaxes(-1, -2)
    parts = (
        p @ np.abs(v),
        slope @ np.abs(k),
        turned @ np.abs(q),
        p.swapaxes(-1, -2) @ np.abs(grad),
    )
    # Elements whose bound is far below the others' are rounded with them.
    return [size * np.maximum(x, 1e-3 * x.max()) for x in parts]


@pytest.mark.parametrize("dtype", (np.float32, np.float64))
@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("shape", SHAPES)
def test_attention(shape, kind, dtype):
    rng = np.random.default_rng(SHAPES.index(shape))
    b, h, count, keys, width = shape
    ways = ["plain", "split", "steps in front"]
    q = draw(rng, b, h, count, width, dtype, rng.choice(ways))
    k = draw(rng, b, h, keys, width, dtype, rng.choice(ways))
    v = draw(rng, b, h, keys, width, dtype, rng.choice(ways))
    mask = mask_of(rng, kind, shape, dtype)
    causal = kind in ("causal", "both")
    scale = float(rng.choice([1 / math.sqrt(width), -0.7, 0.1]))
    grad = draw(rng, b, h, count, width, dtype, rng.choice(ways))
    limits = bounds(grad, q, k, v, mask, scale, causal)
    (out,), (plain,) = both(FORWARD, q, k, v, mask, scale, causal)
    assert out.strides == plain.strides and out.dtype == dtype
    close(out, in_double(FORWARD, q, k, v, mask, scale, causal)[0], limits[0])
    for g in (grad, np.broadcast_to(dtype(0.5), grad.shape)):
        limits = bounds(g, q, k, v, mask, scale, causal)
        found, _ = both(BACKWARD, g, q, k, v, mask, scale, causal)
        wanted = in_double(BACKWARD, g, q, k, v, mask, scale, causal)
        for a, expected, limit in zip(found, wanted, limits[1:], strict=True):
            close(a, expected, limit)


def test_a_query_that_sees_nothing():
    """Zeros, and no gradient, as of PyTorch."""
    q = k = v = np.ones((1, 1, 3, 4), np.float32)
    mask = np.zeros((3, 3), np.float32)
    mask[1] = -np.inf
    (out,), _ = both(FORWARD, q, k, v, mask, 0.5, False)
    np.testing.assert_array_equal(out[0, 0], [[1] * 4, [0] * 4, [1] * 4])
    found, wanted = both(BACKWARD, v, q, k, v, mask, 0.5, False)
    for a, b in zip(found, wanted, strict=True):
        assert np.isfinite(a).all()
        np.testing.assert_allclose(a, b, atol=1e-6)


def with_values(value, which):
    """A gradient, queries, keys, values and a mask; one of them has a number that is none."""
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal((2, 2, 70, 8)).astype(np.float32) for _ in range(4)]
    arrays.append(rng.standard_normal((70, 70)).astype(np.float32))
    arrays[which][..., 40, 3] = value
    return arrays


def same_holes(found, wanted):
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(np.isfinite(a), np.isfinite(b))
        np.testing.assert_array_equal(np.isnan(a), np.isnan(b))


@pytest.mark.parametrize("value", (np.nan, np.inf, -np.inf))
@pytest.mark.parametrize("which", range(5))
def test_what_is_not_finite(which, value):
    grad, *others = with_values(value, which)
    for name, args in ((FORWARD, ()), (BACKWARD, (grad,))):
        same_holes(*both(name, *args, *others, 0.5, False))


def attention_in_blocks(grad, q, k, v, mask, size):
    """Causal attention and its gradients, `size` queries at a time, with the keys up to theirs."""
    out, (to_q, to_k, to_v) = np.zeros_like(q), (np.zeros_like(x) for x in (q, k, v))
    for first in range(0, q.shape[-2], size):
        mine, theirs = slice(first, first + size), slice(0, first + size)
        seen = np.tri(q.shape[-2], dtype=bool)[mine, theirs]
        keys, values, g = k[..., theirs, :], v[..., theirs, :], grad[..., mine, :]
        scores = q[..., mine, :] @ keys.swapaxes(-1, -2) * 0.5 + mask[mine, theirs]
        scores = np.where(seen, scores, -np.inf)
        p = np.where(seen, np.exp(scores - scores.max(-1, keepdims=True)), 0)
        p /= p.sum(-1, keepdims=True)
        p = np.where(seen, p, 0)
        out[..., mine, :] = p @ values
        slopes = np.where(seen, g @ values.swapaxes(-1, -2), 0)
        slopes = np.where(seen, p * (slopes - (p * slopes).sum(-1, keepdims=True)), 0)
        to_q[..., mine, :] = slopes @ keys * 0.5
        to_k[..., theirs, :] += slopes.swapaxes(-1, -2) @ q[..., mine, :] * 0.5
        to_v[..., theirs, :] += p.swapaxes(-1, -2) @ g
    return (out,), (to_q, to_k, to_v)


@pytest.mark.parametrize("value", (np.nan, np.inf, -np.inf, 1.0))
@pytest.mark.parametrize("which", range(5))
def test_what_is_not_finite_and_not_seen(which, value):
    """A key that is no number has no say where it is not seen; a value spreads in its block, as
    PyTorch's does."""
    arrays = with_values(value, which)
    with np.errstate(all="ignore"):
        wanted = attention_in_blocks(*arrays, 32)
    found = [
        both(name, *args, 0.5, True)[0]
        for name, args in ((FORWARD, arrays[1:]), (BACKWARD, arrays))
    ]
    for a, b in zip(found, wanted, strict=True):
        same_holes(a, b)
        for one, other in zip(a, b, strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5)


def test_what_it_leaves_to_numpy():
    """Other dtypes, odd strides, a scale of zero or none: to the last bit."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal((2, 2, 6, 8)).astype(np.float32)
    wide = rng.standard_normal((2, 2, 6, 16))
    half = x.astype(np.float16)
    apart = np.broadcast_to(wide[:, :, :1], wide.shape)
    for q, k, scale in (
        (half, half, 0.5),
        (wide[..., ::2], wide[..., ::2], 0.5),
        (apart, wide, 0.5),
        (x, x, 0.0),
        (x, x, math.inf),
    ):
        (found,), (wanted,) = both(FORWARD, q, k, k, None, scale, False)
        assert same(found, wanted)
    mixed = np.zeros((6, 6), np.float32)
    (found,), (wanted,) = both(FORWARD, wide, wide, wide, mixed, 0.5, False)
    assert same(found, wanted)


def test_gradients_by_differences():
    """Through the function, causal and with a mask of bools."""
    tg.manual_seed(0)
    arrays = [tg.randn(2, 2, 5, 3, dtype=tg.float64, requires_grad=True) for _ in range(3)]
    attend = tg.nn.functional.scaled_dot_product_attention
    seen = tg.rand(5, 5) < 0.7
    assert tg.autograd.gradcheck(lambda *a: attend(*a, is_causal=True), arrays)
    assert tg.autograd.gradcheck(lambda *a: attend(*a, attn_mask=seen), arrays)
    assert REGISTRY[FORWARD].kernel.__module__.endswith("overrides.attention")
