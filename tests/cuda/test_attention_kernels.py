"""Attention on a device: the kernels against float64 (on a GPU), and causal attention there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad
from tapegrad.api.publish import load_everything
from tapegrad.core import devices
from tapegrad.core.op import REGISTRY

load_everything()
torch: Any = tapegrad
attend = torch.nn.functional.scaled_dot_product_attention
NAME = "scaled_dot_product_flash_attention_for_cpu"
KINDS = ["float32", "float16", "bfloat16"]
TOLERANCE = {"float32": 2e-6, "float16": 4e-3, "bfloat16": 3e-2}
needs_gpu = pytest.mark.skipif(
    not hasattr(devices.DEVICE.xp, "RawKernel"), reason="fused kernels need CuPy and a GPU"
)
rng = np.random.default_rng(0)


def draw(*shape: int, kind: str) -> Any:
    return torch.from_numpy(rng.standard_normal(shape)).to(getattr(torch, kind))._array


def wide(x: Any) -> Any:
    return None if x is None else np.asarray(x).astype(np.float64)


def compare(kind: str, arrays: list[Any], mask: Any, causal: bool, side_by_side: bool) -> None:
    """Forward and gradients of query, key, value, gradient against the blocks in float64."""
    xp = devices.DEVICE.xp

    def placed(x: Any) -> Any:
        if x is None or not side_by_side:
            return x if x is None else xp.asarray(x)
        return xp.asarray(np.ascontiguousarray(x.transpose(0, 2, 1, 3))).transpose(0, 2, 1, 3)

    query, key, value, grad = [placed(x) for x in arrays]
    q, k, v, g = [wide(x) for x in arrays]
    bias = None if mask is None else xp.asarray(mask)
    attrs = (0.3, causal)
    forward, backward = REGISTRY[NAME], REGISTRY[f"{NAME}_backward"]
    out = devices.kernel_of(forward)(query, key, value, bias, *attrs)
    assert (out.strides[1] < out.strides[2]) == (query.strides[1] < query.strides[2])
    got = (out, *devices.kernel_of(backward)(grad, query, key, value, bias, *attrs))
    want = (
        forward.kernel(q, k, v, wide(mask), *attrs),
        *backward.kernel(g, q, k, v, wide(mask), *attrs),
    )
    for a, b in zip(got, want, strict=True):
        assert a.dtype == query.dtype
        limit = TOLERANCE[kind] * max(1.0, float(np.abs(b).max()))
        np.testing.assert_allclose(wide(xp.asnumpy(a)), b, rtol=0, atol=limit)


def heads(kind: str, queries: int, keys: int, width: int) -> list[Any]:
    return [draw(2, 3, n, width, kind=kind) for n in (queries, keys, keys, queries)]


@needs_gpu
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("causal", [False, True])
def test_lengths_and_widths(kind: str, causal: bool) -> None:
    for queries, keys in ((1, 1), (65, 63), (63, 130), (130, 33), (256, 256)):
        for width in (4, 5, 32, 40, 64, 128, 200):
            compare(kind, heads(kind, queries, keys, width), None, causal, width > 32)


@needs_gpu
@pytest.mark.parametrize("kind", KINDS)
def test_masks(kind: str) -> None:
    """Masks that broadcast, of the queries' dtype or float32, with rows that see no key."""
    for shape in ((70, 50), (2, 3, 70, 50), (2, 1, 1, 50), (1, 3, 70, 1)):
        mask = draw(*shape, kind=kind).astype(np.float32)
        mask[rng.random(shape) < 0.3] = -np.inf
        if shape[-2] > 1:
            mask[..., :1, :] = -np.inf
        own = torch.from_numpy(mask).to(getattr(torch, kind))._array
        for given in (own, mask):
            for causal in (False, True):
                compare(kind, heads(kind, 70, 50, 32), given, causal, False)


@needs_gpu
def test_what_was_not_written_for_the_kernels() -> None:
    """Wide heads and double precision go to the block's own forward; rows are copied together."""
    compare("float32", heads("float32", 5, 6, 300), None, True, False)
    xp = devices.DEVICE.xp
    turned = [xp.asarray(draw(2, 3, 8, 20, kind="float32")).swapaxes(2, 3) for _ in range(4)]
    run = devices.kernel_of(REGISTRY[f"{NAME}_backward"])
    copied = [xp.ascontiguousarray(x) for x in turned]
    for a, b in zip(run(*turned, None, 0.3, True), run(*copied, None, 0.3, True), strict=True):
        assert (a == b).all()


@needs_gpu
def test_the_same_bits_every_time() -> None:
    arrays = [devices.DEVICE.xp.asarray(x) for x in heads("float32", 256, 256, 64)]
    run = devices.kernel_of(REGISTRY[f"{NAME}_backward"])
    first, second = [run(*arrays, None, 0.125, True) for _ in range(2)]
    for a, b in zip(first, second, strict=True):
        assert (a == b).all()


def causal_results(device: str) -> list[Any]:
    """Values and derivatives of causal attention, of float64 so that kernels do not matter."""
    torch.manual_seed(0)
    drawn = [torch.randn(2, 2, n, 4, dtype=torch.float64).to(device) for n in (5, 7, 7)]

    def call(q: Any, k: Any, v: Any) -> Any:
        return attend(q, k, v, is_causal=True)

    def loss(q: Any, k: Any, v: Any) -> Any:
        return call(q, k, v).pow(2).sum()

    leaves = [x.clone().requires_grad_() for x in drawn]
    once = torch.autograd.grad(loss(*leaves), leaves, create_graph=True)
    twice = torch.autograd.grad(sum([x.pow(2).sum() for x in once]), leaves)
    tangents = tuple([x.sin() for x in drawn])
    pushed = torch.func.jvp(call, tuple(drawn), tangents)
    gradient = torch.func.grad(loss, argnums=(0, 1, 2))
    mixed = torch.func.jvp(gradient, tuple(drawn), tangents)[1]
    many = (torch.stack([drawn[0], drawn[0].cos()]), drawn[1], torch.stack([drawn[2]] * 2))
    batched = torch.func.vmap(call, (0, None, 0))(*many)
    batched_gradients = torch.func.vmap(gradient, (0, None, 0))(*many)
    masked = attend(*drawn, torch.ones(5, 7, dtype=torch.float64, device=device), is_causal=True)
    return [call(*drawn), *once, *twice, *pushed, *mixed, batched, *batched_gradients, masked]


def test_causal_as_on_the_cpu() -> None:
    for a, b in zip(causal_results("cpu"), causal_results("cuda"), strict=True):
        assert b.is_cuda
        torch.testing.assert_close(a, b.cpu(), rtol=1e-10, atol=1e-12)


def test_causal_needs_no_mask_on_a_device() -> None:
    q = torch.randn(1, 2, 3, 4, device="cuda", requires_grad=True)
    assert attend(q, q, q, is_causal=True).grad_fn._saved_mask is None


def test_heads_side_by_side() -> None:
    """As models have them: (sample, place, head, width), transposed."""
    x = torch.randn(2, 6, 24)
    outs = []
    for device in ("cpu", "cuda"):
        own = x.detach().to(device).requires_grad_()
        q, k, v = [t.view(2, 6, 2, 4).transpose(1, 2) for t in own.split(8, 2)]
        out = attend(q, k, v, is_causal=True)
        (out * torch.arange(4.0, device=device)).sum().backward()
        outs.append((out.detach().cpu(), own.grad.cpu()))
    for a, b in zip(*outs, strict=True):
        assert torch.allclose(a, b, atol=1e-5)
