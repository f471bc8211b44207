"""The fused kernels against the blocks' own forwards on the CPU. Needs a real GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad
from tapegrad.api.publish import load_everything
from tapegrad.core import devices
from tapegrad.core.op import REGISTRY

load_everything()
xp = devices.DEVICE.xp
pytestmark = pytest.mark.skipif(
    not hasattr(xp, "RawKernel"), reason="fused kernels need CuPy and a GPU"
)
rng = np.random.default_rng(0)
TOLERANCE = {"float32": 2e-5, "float64": 1e-11, "float16": 4e-3, "bfloat16": 3e-2}
KINDS = list(TOLERANCE)


def draw(*shape: int, kind: str = "float32", low: float = -2.0, high: float = 2.0) -> Any:
    dtype = getattr(tapegrad, kind)
    return tapegrad.from_numpy(rng.uniform(low, high, shape)).to(dtype)._array


def check(
    name: str, arrays: list[Any], attrs: tuple[Any, ...], kind: str, factor: float = 1
) -> None:
    op = REGISTRY[name]
    want = op.kernel(*arrays, *attrs)
    moved = [xp.asarray(x) if isinstance(x, np.ndarray) else x for x in arrays]
    for i, x in enumerate(arrays):
        if isinstance(x, np.ndarray) and not x.flags.c_contiguous and x.ndim == 2:
            moved[i] = xp.asarray(np.ascontiguousarray(x.T)).T
    assert op.elementwise or name in devices.DEVICE.backend.overrides
    got = devices.kernel_of(op)(*moved, *attrs)
    for g, w in zip(*[(v,) if op.single else v for v in (got, want)], strict=True):
        if not np.asarray(w).size:
            continue
        wide = np.complex128 if w.dtype.kind == "c" else np.float64
        a, b = xp.asnumpy(g).astype(wide), np.asarray(w).astype(wide)
        assert a.shape == b.shape
        scale = TOLERANCE[kind] * factor * max(1.0, float(np.abs(b).max()))
        np.testing.assert_allclose(a, b, rtol=TOLERANCE[kind] * factor, atol=scale, err_msg=name)


@pytest.mark.parametrize("kind", KINDS)
def test_elementwise(kind: str) -> None:
    x, y = draw(37, 65, kind=kind), draw(37, 65, kind=kind)
    positive = draw(37, 65, kind=kind, low=0.1)
    for name in ("relu", "neg", "exp", "tanh", "sigmoid", "silu"):
        check(name, [x], (), kind)
    for name in ("log", "sqrt"):
        check(name, [positive], (), kind)
    for name in ("add", "sub", "mul"):
        check(name, [x, y], (), kind)
        check(name, [x, 1.5], (), kind)
    check("div", [x, positive], (), kind)
    for name in ("mul_number", "add_number", "div_number"):
        check(name, [x], (1.5,), kind)
    for name in ("tanh_backward", "sigmoid_backward", "silu_backward"):
        check(name, [x, y], (), kind, 2)
    for how in ("none", "tanh"):
        check("gelu", [x], (how,), kind)
        check("gelu_backward", [x, y], (how,), kind, 2)
    check("threshold_backward", [x, y], (0,), kind)


@pytest.mark.parametrize("kind", KINDS)
def test_products(kind: str) -> None:
    a, b = draw(33, 17, kind=kind), draw(17, 29, kind=kind)
    check("mm", [a, b], (), kind)
    check("mm", [draw(17, 33, kind=kind).T, b], (), kind)
    check("mm", [a, draw(29, 17, kind=kind).T], (), kind)
    check("mm", [draw(17, 33, kind=kind).T, draw(29, 17, kind=kind).T], (), kind)
    check("addmm", [draw(29, kind=kind), a, b], (1, 1), kind)
    check("bmm", [draw(5, 9, 7, kind=kind), draw(5, 7, 11, kind=kind)], (), kind)
    for shape, dims in (((300, 40), (0,)), ((6, 50, 40), (0, 1)), ((6, 5, 4), (0,))):
        check("sum", [draw(*shape, kind=kind)], (dims, False, None), kind, 4)
        check("sum", [draw(*shape, kind=kind)], (dims, True, None), kind, 4)


@pytest.mark.parametrize("kind", KINDS)
def test_rows(kind: str) -> None:
    x, g = draw(37, 5, 70, kind=kind), draw(37, 5, 70, kind=kind)
    w, b = draw(70, kind=kind), draw(70, kind=kind)
    for parameters in ((w, b), (w, None), (None, None)):
        check("native_layer_norm", [x, *parameters], (1, 1e-5), kind, 2)
    stats = REGISTRY["native_layer_norm"].kernel(x, w, b, 1, 1e-5)[1]
    wide = stats.astype(np.float64 if kind == "float64" else np.float32)
    if kind in ("float32", "float64"):
        check("native_layer_norm_backward", [g, x, wide, w], (1, 1e-5, True), kind, 8)
        check("native_layer_norm_backward", [g, x, wide, None], (1, 1e-5, False), kind, 8)
    for name in ("softmax", "log_softmax"):
        check(name, [x], (2,), kind, 3)
        out = REGISTRY[name].kernel(x, 2)
        check(f"{name}_backward_data", [g, out], (2,), kind, 3)


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_losses(kind: str) -> None:
    x = draw(300, 11, kind=kind)
    target = rng.integers(0, 11, 300)
    some = target.copy()
    some[::7] = -100
    for t in (target, some):
        for how in ("mean", "sum"):
            check("nll_loss", [x, t, None], (how, -100), kind, 4)
            g = draw(kind=kind)
            check("nll_loss_backward", [g, t, None], ((300, 11), how, -100), kind)
        g = draw(300, kind=kind)
        check("nll_loss_backward", [g, t, None], ((300, 11), "none", -100), kind)


@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_embedding(kind: str) -> None:
    w = draw(23, 12, kind=kind)
    t = rng.integers(0, 23, (9, 4))
    check("embedding", [w, t], (None, False, 1, False), kind)
    g = draw(9, 4, 12, kind=kind)
    for padding in (None, 3):
        check("embedding_dense_backward", [g, t], (23, padding, False, 1), kind, 4)
        check("embedding_dense_backward", [g, t], (3000, padding, False, 1), kind, 4)


def test_optimizers() -> None:
    torch: Any = tapegrad
    for make in (
        lambda p: torch.optim.Adam(p, lr=0.1, weight_decay=0.01),
        lambda p: torch.optim.AdamW(p, lr=0.1, amsgrad=True),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
    ):
        results = []
        for device in ("cpu", "cuda"):
            torch.manual_seed(0)
            params = [torch.randn(n, 3).to(device).requires_grad_() for n in (1, 7, 100)]
            optimizer = make(params)
            for i in range(4):
                for p in params:
                    p.grad = torch.sin(p.detach() * (i + 1))
                optimizer.step()
            results.append([p.detach().cpu() for p in params])
        for a, b in zip(*results, strict=True):
            assert torch.allclose(a, b, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", [(5, 3, 2), (64, 784, 128), (33, 130, 65), (2048, 256, 512)])
@pytest.mark.parametrize("asked", [(True, True, True), (False, True, True), (True, False, True)])
def test_gradients_of_a_layer(
    kind: str, sizes: tuple[int, int, int], asked: tuple[bool, ...]
) -> None:
    """One kernel makes those of weight and bias where cuBLASLt has it."""
    torch: Any = tapegrad
    rows, columns, outputs = sizes
    torch.manual_seed(0)
    values = torch.randn(rows, columns), torch.randn(outputs, columns), torch.randn(outputs)
    slope = torch.randn(rows, outputs)
    found = []
    for place, dtype in (("cpu", torch.float64), ("cuda", getattr(torch, kind))):
        tensors = [t.to(getattr(torch, kind)).to(place).to(dtype) for t in values]
        for t, needed in zip(tensors, asked, strict=True):
            t.requires_grad_(needed)
        out = torch.nn.functional.linear(*tensors)
        out.backward(slope.to(getattr(torch, kind)).to(place).to(dtype))
        found.append([None if t.grad is None else t.grad.double().cpu() for t in tensors])
    for want, got, length in zip(*found, (outputs, rows, rows), strict=True):
        assert (want is None) == (got is None)
        if want is not None and got is not None:
            assert want.shape == got.shape
            assert (want - got).abs().max() <= TOLERANCE[kind] * 4 * length**0.5


STACKS = [
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 2)),
    ((5, 3), (3, 7)),
    ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)),
    ((4, 1, 2, 3), (5, 3, 2)),
    ((0, 3), (3, 2)),
    ((2, 0), (0, 3)),
    ((0, 2, 3), (3, 4)),
]


@pytest.mark.parametrize("shapes", STACKS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_of_any_stacks(shapes: Any, dtype: str) -> None:
    """`matmul` for the forwards of blocks; factors that lie in order, turned, and with gaps."""
    matmul = devices.DEVICE.backend.xp.matmul
    a, b = [rng.standard_normal(s).astype(dtype) for s in shapes]
    want = a @ b
    turned = [xp.asarray(np.ascontiguousarray(x.swapaxes(0, -1))).swapaxes(0, -1) for x in (a, b)]
    gaps = [xp.asarray(np.repeat(x, 2, -1))[..., ::2] for x in (a, b)]
    for left, right in ([xp.asarray(x) for x in (a, b)], turned, gaps):
        got = matmul(left, right)
        assert got.shape == want.shape and got.dtype == want.dtype
        np.testing.assert_allclose(xp.asnumpy(got), want, 1e-5, 1e-5)
        if want.ndim:
            out = xp.empty(want.shape, want.dtype)
            assert matmul(left, right, out=out) is out
            np.testing.assert_allclose(xp.asnumpy(out), want, 1e-5, 1e-5)
