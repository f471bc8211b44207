"""Copies, concatenations and sums: what is planned on the host, and the same results as the CPU's.

The kernels themselves run on a real GPU only; elsewhere the blocks' own forwards do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad
from tapegrad.api.publish import load_everything
from tapegrad.core import devices
from tapegrad.core.op import REGISTRY
from tapegrad.kernels.cuda.launchers import kernels as cupy_kernels
from tapegrad.kernels.cuda.launchers import moves as cupy_moves

load_everything()
torch: Any = tapegrad
real_gpu = pytest.mark.skipif(
    not hasattr(devices.DEVICE.xp, "RawKernel"), reason="fused kernels need CuPy and a GPU"
)


class Gpu:
    """Compiles nothing: a kernel is its name."""

    blocks = 64
    xp: Any = None

    def kernel(self, source: str, kind: str, name: str, **parts: Any) -> Any:
        return name, kind


# ---------------------------------------------------------------------- plans


def layouts(dtype: str = "float32") -> dict[str, Any]:
    def of(*shape: int) -> Any:
        return np.arange(np.prod(shape, dtype=int)).astype(dtype).reshape(shape)

    return {
        "line": of(37),
        "matrix": of(8, 12),
        "one": of(1),
        "number": of(),
        "turned": of(6, 8).T,
        "rows": of(9, 8)[::3],
        "inner": of(6, 24)[:, 8:16],
        "odd": of(6, 13)[:, 3:10],
        "heads": of(2, 5, 4, 8).transpose(0, 2, 1, 3),
        "five": of(2, 3, 4, 3, 5).transpose(4, 2, 0, 3, 1),
        "expanded": np.broadcast_to(of(4, 1, 8), (4, 6, 8)),
        "ones": of(1, 8, 1, 5)[:, ::2],
    }


def read(x: Any, layout: Any, item: int) -> bytes:
    """What a kernel reads that goes by a Layout, one item after the other."""
    layout = layout.view(cupy_moves.LAYOUT)
    rank = int(layout["rank"])
    shape = layout["size"][:rank][::-1].tolist()
    strides = (layout["stride"][:rank][::-1] * item).tolist()
    first = np.lib.stride_tricks.as_strided(x, (), ())
    seen = np.asarray(
        tapegrad.core.strides.Interface(first, place(x), tuple(shape), tuple(strides))
    )
    return np.ascontiguousarray(seen.view()).tobytes()


def place(x: Any) -> tuple[int, bool]:
    return x.__array_interface__["data"][0], False


@pytest.mark.parametrize("name", layouts())
@pytest.mark.parametrize("order", ["contiguous", "preserve"])
def test_planned_copies(name: str, order: str) -> None:
    x = layouts()[name]
    moves = cupy_moves.Moves(Gpu())
    plan = moves.plan_copy(x.shape, x.strides, x.dtype, np.dtype(np.float64), order, False)
    assert plan is not None
    want = REGISTRY["cast"].kernel(x, np.dtype(np.float64)) if order == "preserve" else None
    if order == "contiguous":
        assert plan.strides is None
    elif plan.strides is not None:
        assert plan.strides == want.strides
    # The result in the order of its memory.
    strides = plan.strides or cupy_moves.contiguous_strides(x.shape, 8)
    dims = sorted(range(x.ndim), key=lambda d: -strides[d])
    if plan.run[0] == "copy_line":
        assert int(plan.rest[0]) == x.size
    else:
        assert read(x, plan.rest[0], 4) == np.ascontiguousarray(x.transpose(dims)).tobytes()


def test_wide_copies() -> None:
    """Where 16 bytes lie together they move together, if the address allows it."""
    moves = cupy_moves.Moves(Gpu())
    x = layouts()["heads"]
    for aligned, kind, count in ((True, "raw16", x.size // 4), (False, "raw4", x.size)):
        plan = moves.plan_copy(x.shape, x.strides, x.dtype, x.dtype, "contiguous", aligned)
        assert plan is not None and plan.run == ("copy_from", kind)
        assert int(plan.rest[1]) == count
    odd = layouts()["odd"]
    plan = moves.plan_copy(odd.shape, odd.strides, odd.dtype, odd.dtype, "contiguous", True)
    assert plan is not None and plan.run == ("copy_from", "raw4")


def test_what_has_no_plan() -> None:
    moves = cupy_moves.Moves(Gpu())
    single, whole = np.dtype(np.float32), np.dtype(np.int64)
    assert moves.plan_copy((0, 3), (12, 4), single, single, "preserve", True) is None
    assert moves.plan_copy((3,), (-4,), single, single, "preserve", True) is None
    assert moves.plan_copy((3,), (8,), whole, single, "preserve", True) is None
    many = np.zeros((2, 3) * 3, np.float32).transpose(5, 3, 1, 0, 2, 4)
    assert moves.plan_copy(many.shape, many.strides, single, single, "contiguous", True) is None
    shapes = (((2, 3), (12, 4)), ((2, 0), (4, 4)))
    assert moves.plan_join(shapes, single, 1, True) is None
    shapes = (((2, 3), (12, 4)), ((3, 3), (12, 4)))
    assert moves.plan_join(shapes, single, 1, True) is None


def test_planned_joins() -> None:
    moves = cupy_moves.Moves(Gpu())
    single = np.dtype(np.float32)
    forms = (((2, 4, 8), (128, 32, 4)), ((2, 2, 8), (64, 4, 8)))
    plan = moves.plan_join(forms, single, 1, True)
    assert plan is not None and plan.run == ("join", "raw4") and plan.shape == (2, 6, 8)
    table = np.frombuffer(plan.table, cupy_moves.TABLE)[0]
    assert table["n"][:2].tolist() == [64, 32] and table["width"][:2].tolist() == [32, 16]
    assert table["start"][:2].tolist() == [0, 32] and plan.row == 48
    assert table["rank"][:2].tolist() == [1, 3]
    wide = moves.plan_join((forms[0], forms[0]), single, 1, True)
    assert wide is not None and wide.run == ("join", "raw16") and wide.row == 16


def test_plans_are_kept_and_given_up() -> None:
    made = []
    plans = cupy_moves.Plans(lambda n: made.append(n) or n)
    for n in (1, 1, 2, 1):
        assert plans.get((n,)) == n
    assert made == [1, 2]
    for n in range(cupy_moves.PLANS + 1):
        plans.get((n,))
    assert len(plans.found) <= cupy_moves.PLANS


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ((4, 6, 5), (5,)),
        ((6, 5), (4, 6, 5)),
        ((4, 6, 5), (1, 6, 1)),
        ((4, 6, 5), (4, 1, 1)),
        ((4, 1), (5,)),
        ((4, 6, 5), ()),
        ((1, 1), (3, 2)),
    ],
)
def test_planned_broadcasts(x: tuple[int, ...], y: tuple[int, ...]) -> None:
    shape, sizes = cupy_kernels.plan_spread(x, y)
    n, *rest = [int(s) for s in sizes]
    at = np.arange(n)
    for own, run, size in ((x, *rest[:2]), (y, *rest[2:])):
        values = np.arange(size).reshape(own)
        assert (
            values.reshape(-1)[at // run % size] == np.broadcast_to(values, shape).ravel()
        ).all()


def test_broadcasts_without_a_plan() -> None:
    for x, y in (((4, 6, 5), (4, 1, 5)), ((3,), (2,)), ((0, 3), (3,))):
        assert cupy_kernels.plan_spread(x, y) is None


@pytest.mark.parametrize("dim", [None, (0,), (0, 1), (2,), (1, 2), (0, 1, 2), (1,), (0, 2)])
@pytest.mark.parametrize("shape", [(3, 4, 5), (1, 4, 5), (3, 1, 5), (3, 4, 1), (1, 1, 1)])
def test_sums_as_those_of_matrices(shape: tuple[int, ...], dim: Any) -> None:
    x = np.arange(np.prod(shape)).reshape(shape)
    found = cupy_kernels.folded(shape, dim)
    if found is None:
        assert dim in ((1,), (0, 2)) and 1 not in shape
        return
    down, rows, n = found
    assert (x.reshape(rows, n).sum(0 if down else 1) == x.sum(dim).reshape(-1)).all()


# ---------------------------------------------------------------------- results


def both(function: Any, *tensors: Any) -> None:
    """The same values, shapes, strides and gradients on CPU and GPU."""
    results = []
    for device in ("cpu", "cuda"):
        own = [t.detach().to(device) for t in tensors]
        for t in own:
            if t.is_floating_point():
                t.requires_grad_()
        out = function(*own)
        wanted = out.float() * torch.arange(out.numel(), device=device).view(out.shape)
        wanted.sum().backward()
        results.append([out.detach(), *[t.grad for t in own if t.grad is not None]])
    for a, b in zip(*results, strict=True):
        assert a.stride() == b.stride() and a.dtype == b.dtype
        torch.testing.assert_close(a, b.cpu(), atol=1e-3, rtol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_copies(dtype: str) -> None:
    kind = getattr(torch, dtype)
    x = torch.randn(4, 3, 6)
    for look in (
        lambda t: t,
        lambda t: t.transpose(0, 2),
        lambda t: t[:, 1:],
        lambda t: t[..., ::2],
        lambda t: t[:1].expand(4, 3, 6),
        lambda t: t[0, 0, 0],
    ):
        both(lambda t, look=look: look(t).to(kind), x)
        both(lambda t, look=look: look(t.to(kind)).clone(), x)
        both(lambda t, look=look: look(t.to(kind)).contiguous(), x)
        both(lambda t, look=look: look(t.to(kind)).reshape(-1), x)


def test_joins_and_their_gradients() -> None:
    x, y = torch.randn(4, 3, 6), torch.randn(4, 3, 6)
    for dim in (0, 1, 2):
        both(lambda a, b, dim=dim: torch.cat([a, b, a], dim), x, y)
        both(lambda a, b, dim=dim: torch.stack([a, b], dim), x, y)
        both(lambda a, dim=dim: torch.cat(a.chunk(2, dim)[::-1], dim), x)
        both(lambda a, dim=dim: torch.stack(a.unbind(dim)[::-1], dim), x)
        both(lambda a, dim=dim: a.narrow(dim, 1, 2), x)
        both(lambda a, dim=dim: a.select(dim, 1), x)
    both(lambda a, b: torch.cat([a.transpose(0, 2), b.transpose(0, 2)], 1), x, y)
    both(lambda a, b: torch.cat([a[:0], b]), x, y)
    both(lambda a: torch.cat([a] * 20), x)


def test_sums_and_broadcasts() -> None:
    x = torch.randn(5, 7, 6)
    for dim in (0, 1, 2, (0, 1), (1, 2), (0, 2), (0, 1, 2), None):
        both(lambda t, dim=dim: t.sum(dim), x)
        both(lambda t, dim=dim: t.mean(dim, keepdim=True), x)
    both(lambda t: t.sum().view(1), x)
    for shape in ((6,), (7, 6), (7, 1), (5, 1, 1), (1,), ()):
        y = torch.rand(shape) + 0.5
        both(lambda a, b: a + b, x, y)
        both(lambda a, b: b - a, x, y)
        both(lambda a, b: a / b, x, y)
    both(lambda t: 2.5 - t, x)


def test_layer_norm_of_what_lies_anyhow() -> None:
    x, w, b = torch.randn(5, 8, 6), torch.rand(8), torch.rand(8)
    both(lambda t, u, v: torch.nn.functional.layer_norm(t.transpose(1, 2), (8,), u, v), x, w, b)
    both(lambda t, u: torch.nn.functional.layer_norm(t.transpose(1, 2), (8,), u), x, w)
    both(lambda t: torch.nn.functional.layer_norm(t.transpose(1, 2), (8,)), x)


@real_gpu
def test_functions_of_the_backend() -> None:
    xp, backend = devices.DEVICE.xp, devices.DEVICE.backend
    x, y = [np.random.default_rng(0).uniform(size=(7, 9)).astype(np.float32) for _ in "xy"]
    for turned in (False, True):
        a, b = xp.asarray(x), xp.asarray(y.T.copy()).T if turned else xp.asarray(y)
        backend.add_into(a, b)
        np.testing.assert_allclose(a.get(), x + y)
        copy = backend.copied(b)
        assert copy.flags.c_contiguous and copy.data.ptr != b.data.ptr
        np.testing.assert_array_equal(copy.get(), y)
        cast = devices.DEVICE.space.cast(b, np.dtype(np.float64))
        np.testing.assert_array_equal(cast.get(), y)
        backend.assign(b, xp.asarray(x))
        np.testing.assert_array_equal(b.get(), x)
        backend.assign(b[1:], 3.0)
        assert (b.get()[1:] == 3).all()


@real_gpu
@pytest.mark.parametrize("name", layouts())
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "complex128"])
def test_copied_layouts(name: str, dtype: str) -> None:
    x = layouts(dtype)[name]
    for order in ("preserve", "contiguous"):
        want = REGISTRY["clone"].kernel(x, order)
        got = devices.kernel_of(REGISTRY["clone"])(devices.uploaded(x), order)
        np.testing.assert_array_equal(got.get(), want)


@real_gpu
def test_parts_that_lie_together_are_not_copied() -> None:
    xp, rejoin = devices.DEVICE.xp, devices.DEVICE.space.rejoin
    values = np.random.default_rng(0).uniform(size=(4, 5, 12)).astype(np.float32)
    whole = xp.asarray(values)
    parts = [whole[:, :, :4], whole[:, :, 4:6], whole[:, :, 6:]]
    out = rejoin(parts, 2)
    assert out.data.ptr == whole.data.ptr and out.flags.c_contiguous
    np.testing.assert_array_equal(out.get(), values)
    for others in (parts[::-1], parts[:2], [parts[0], parts[0]], [whole, whole.copy()]):
        out = rejoin(others, 2)
        assert out.data.mem is not whole.data.mem
        np.testing.assert_array_equal(out.get(), np.concatenate([x.get() for x in others], 2))


@pytest.mark.parametrize("sizes", [(2, 8, 4, 8), (3, 5, 2, 3)])
def test_gradients_of_three_parts_of_one_array(sizes: tuple[int, int, int, int]) -> None:
    """As a transformer has it: what attention gives back lies as the whole does."""
    torch: Any = tapegrad
    samples, length, heads, width = sizes
    torch.manual_seed(0)
    x = torch.randn(samples, length, 3 * heads * width)
    slope = torch.randn(samples, length, heads * width)
    found = []
    for place in ("cpu", "cuda"):
        leaf = x.clone().to(place).requires_grad_()
        parts = leaf.split(heads * width, 2)
        shape = (samples, length, heads, width)
        q, k, v = [t.view(shape).transpose(1, 2) for t in parts]
        q.retain_grad()
        seen = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        seen.transpose(1, 2).reshape(samples, length, -1).backward(slope.to(place))
        first = leaf.grad.cpu().clone()
        (leaf * 2).sum().backward()  # adds to the gradient, not to what was retained
        assert torch.allclose(leaf.grad.cpu(), first + 2)
        found.append((first, q.grad.cpu()))
    for a, b in zip(*found, strict=True):
        assert torch.allclose(a, b, atol=1e-5)
