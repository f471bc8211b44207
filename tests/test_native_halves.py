"""Kernels that read and write half precision: they compute in float or better, and round once.

The oracle computes in double. What is found may differ from it by half a unit in the last place of
bfloat16, and by the few roundings of floats that come before. What float16 adds to that are its
conversions; all its kernels are compared with the blocks.
"""

from __future__ import annotations

import numpy as np
import pytest

import table
import tapegrad as tg
from tapegrad.kernels import cpu
from test_native import laid_out, run, same, shape_of

if cpu.KERNELS is None:
    pytest.skip(f"no kernels in C: {cpu.REASON}", allow_module_level=True)

import tapegrad.ops.nn.layer_norm
import tapegrad.ops.products.addmm
import tapegrad.ops.reduce.softmax
import tapegrad.ops.reduce.sums
import tapegrad.ops.shape.copying
from tapegrad.core.op import REGISTRY
from tapegrad.kernels.backend import NUMPY

BF16 = tg.bfloat16.np
HALF_UNIT = 2.0**-8  # of a number with eight bits: half of the last one, relative
SLACK = 1e-6  # sums of floats


def draw(rng, *shape):
    return rng.standard_normal(shape).astype(BF16)


def wide(x):
    return x.astype(np.float64)


def rounded_once(found, exact, scale):
    """`scale` is the size of the numbers that were added up on the way to a result."""
    assert found.dtype == BF16
    assert found.shape == exact.shape
    np.testing.assert_array_equal(np.isnan(wide(found)), np.isnan(exact))
    with np.errstate(invalid="ignore"):
        gap = np.abs(wide(found) - exact)
    limit = HALF_UNIT * np.abs(exact) + SLACK * np.broadcast_to(scale, exact.shape) + 1e-38
    finite = np.isfinite(exact)
    assert (gap[finite] <= limit[finite]).all(), (gap - limit)[finite].max()


def kernel(name, *args):
    op = REGISTRY[name]
    assert op.kernel is not NUMPY.kernel(op)
    return run(op.kernel, *args)


def as_stored(x):
    return x.astype(BF16).astype(np.float64)


@pytest.fixture(params=range(4))
def rng(request):
    return np.random.default_rng(request.param)


# ---------------------------------------------------------------------- casts


def test_every_bfloat16_as_float():
    every = np.arange(65536, dtype=np.uint16).view(BF16)
    (found,) = kernel("cast", every, np.dtype(np.float32))
    expected = (np.arange(65536, dtype=np.uint32) << 16).view(np.float32)
    assert same(found, expected)


def test_floats_are_rounded_to_even():
    """Between two neighbours, halfway and next to that; infinities, subnormal numbers."""
    low = np.arange(0, 0x7F80, dtype=np.uint32) << 16
    bits = (low[:, None] + np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)).ravel()
    x = np.concatenate([bits, bits | 0x80000000, np.array([0x7F800000] * 2, np.uint32)])
    x = x.view(np.float32)
    (found,) = kernel("cast", x, BF16)
    down = x.view(np.uint32) & 0xFFFF0000
    rest = x.view(np.uint32) & 0xFFFF
    up = (rest > 0x8000) | ((rest == 0x8000) & (down >> 16 & 1 == 1))
    expected = (down >> 16) + up
    np.testing.assert_array_equal(found.view(np.uint16), expected.astype(np.uint16))


F16 = np.dtype(np.float16)


def test_every_float16_as_float():
    """By vectors, one by one where elements are apart, and back."""
    every = np.arange(65536, dtype=np.uint16).view(F16)
    (found,) = kernel("cast", every, np.dtype(np.float32))
    np.testing.assert_array_equal(found, every.astype(np.float32))
    np.testing.assert_array_equal(REGISTRY["neg"].kernel(np.repeat(every, 2)[::2]), -every)
    np.testing.assert_array_equal(kernel("cast", found, F16)[0], every)
    nan = np.isnan(every)
    quiet_bits = every.view(np.uint16)[nan] | 0x200
    np.testing.assert_array_equal(kernel("cast", found[nan], F16)[0].view(np.uint16), quiet_bits)


def test_floats_are_rounded_to_float16():
    """Halfway between two neighbours and next to that; what becomes infinite, zero, subnormal."""
    low = np.arange(0x32000000, 0x48000000, 0x2000, dtype=np.uint32)
    bits = (low[:, None] + np.array([0, 1, 0xFFF, 0x1000, 0x1001, 0x1FFF], np.uint32)).ravel()
    x = np.concatenate([bits, bits | 0x80000000]).view(np.float32)
    with np.errstate(over="ignore"):
        expected = x.astype(F16)
    assert same(kernel("cast", x, F16)[0], expected)
    for end in range(1, 8):  # what is left of vectors of eight
        part = x[12288 - end : 12288 + 512]
        assert same(kernel("cast", part, F16)[0], part.astype(F16))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_kernels_give_what_blocks_give(half, monkeypatch):
    """Every op with a kernel of its own, on the samples of the op table in half precision."""
    compared = set()

    def watched(op):
        own, reference = op.kernel, NUMPY.kernel(op)

        class Watched:
            def __getattr__(self, name):
                return getattr(own, name)

            def __call__(self, *args):
                found = own(*args)
                if any([getattr(x, "dtype", None) == getattr(tg, half).np for x in args]):
                    compared.add(op.name)
                    agree(op.name, found, run(reference, *args))
                return found

        return Watched()

    for op in REGISTRY.values():
        if not op.variadic and op.kernel is not NUMPY.kernel(op):
            monkeypatch.setattr(op, "kernel", watched(op))
    for name in table.SAMPLED:
        for index in range(len(table.APIS[name].samples)):
            args, kwargs, _ = table.draw(name, index, lambda x: as_leaf(x, half))
            try:
                made = table.call(name, args, kwargs)
                outs = [t for t in (made if isinstance(made, (tuple, list)) else [made])]
                outs = [t for t in outs if isinstance(t, tg.Tensor) and t.requires_grad]
                tg.autograd.backward(outs, [tg.ones_like(t) for t in outs])
            except (RuntimeError, TypeError, ValueError):
                pass  # not of half precision, or no derivative
    assert len(compared) > 150


def as_leaf(array, half):
    if array.dtype.kind != "f":
        return tg.tensor(array)
    return tg.tensor(array.astype(np.float32)).to(getattr(tg, half)).requires_grad_()


def agree(name, found, wanted):
    found = found if isinstance(found, tuple) else (found,)
    for got, want in zip(found, wanted, strict=True):
        if got is None:
            continue
        got, want = np.asarray(got), np.asarray(want)
        assert (got.dtype, got.shape) == (want.dtype, want.shape), name
        a, b = wide(got), wide(want)
        unit = {2: 2.0**-7 if got.dtype.kind == "V" else 2.0**-10}.get(got.dtype.itemsize, 1e-3)
        size = max(1.0, np.abs(b[np.isfinite(b)]).max(initial=0))
        np.testing.assert_allclose(a, b, rtol=1.01 * unit, atol=unit * size / 8, err_msg=name)


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
@pytest.mark.parametrize("size", [7, 100])
def test_numbers_beside_half_precision(half, size):
    """PyTorch rounds them to half precision, but not those that multiply or divide."""
    dtype = getattr(tg, half)
    x = draw(np.random.default_rng(size), size).astype(dtype.np)
    t, v = tg.tensor(x.astype(np.float32)).to(dtype), x.astype(np.float32)
    number = np.float32(0.3)
    c = number.astype(dtype.np).astype(np.float32)
    for found, exact in (
        *((t + 0.3, v + c), (t - 0.3, v - c), (0.3 - t, c - v), (t.fmod(0.3), np.fmod(v, c))),
        *((t * 0.3, v * number), (0.3 * t, v * number), (t / 0.3, v / number)),
        *((t.abs() ** 0.3, np.abs(v) ** c), (0.3**t, c**v)),
    ):
        assert found.dtype is dtype
        wanted = exact.astype(dtype.np)
        # A power in another last bit of single precision may be rounded to the other side.
        assert (found.float().numpy() != wanted.astype(np.float32)).sum() <= np.isnan(exact).sum()
    assert (tg.tensor([0.3]).to(dtype) == 0.3).all() and not (
        tg.tensor([0.3]).to(dtype) < 0.3
    ).any()


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_one_element_beside_half_precision(half):
    """It multiplies and divides as a number does: PyTorch does not round it to half precision."""
    dtype = getattr(tg, half)
    t = tg.tensor([3.17, -0.5]).to(dtype)
    for value in (tg.tensor(70001), tg.tensor([70001]), tg.tensor(1.2345e-4)):
        number = value.item()
        assert tg.equal(t / value, t / number) and tg.equal(t * value, t * number)
        assert tg.equal(t.clone().div_(value), t / number)
    assert tg.equal(t[0] / tg.tensor([70001]), (t[0] / 70001).reshape(1))
    assert float(tg.full((70000,), 0.125).to(dtype).nanmean()) == 0.125


def test_nan_stays():
    x = np.full(1000, np.nan, np.float32)
    x.view(np.uint32)[::2] = 0x7F800001  # its bits would round to infinity
    assert np.isnan(kernel("cast", x, BF16)[0].astype(np.float32)).all()


# ---------------------------------------------------------------------- sums


@pytest.mark.parametrize("name", ("sum", "mean"))
@pytest.mark.parametrize("keepdim", (False, True))
@pytest.mark.parametrize("dim", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2), None])
@pytest.mark.parametrize("shape", [(3, 50, 70), (40, 9, 33), (2, 3, 70000), (5000, 2, 1)])
def test_sums(shape, dim, keepdim, name):
    x = draw(np.random.default_rng(len(shape)), *shape)
    (found,) = kernel(name, x, dim, keepdim, None)
    exact = getattr(wide(x), name)(dim, keepdims=keepdim)
    rounded_once(found, exact, getattr(np.abs(wide(x)), name)(dim, keepdims=keepdim))


@pytest.mark.parametrize("name", ("sum_all", "mean_all"))
@pytest.mark.parametrize("count", [1, 100, 5000, 200001])
def test_sums_of_all(name, count):
    x = draw(np.random.default_rng(0), count)
    (found,) = kernel(name, x, None)
    rounded_once(found, np.asarray(getattr(wide(x), name[:-4])()), np.abs(wide(x)).sum() / 10)


def test_sums_of_ones_do_not_stop():
    """A sum in bfloat16 would stay at 256."""
    ones = np.ones((70, 1000), BF16)
    assert kernel("sum_all", ones, None)[0].astype(np.float32) == 70144  # 70000, rounded
    assert (kernel("sum", ones, (1,), False, None)[0].astype(np.float32) == 1000).all()


def test_sums_of_what_lies_oddly(rng):
    for ndim in (1, 2, 3):
        x = laid_out(rng, draw(rng, *shape_of(rng, ndim, 90)))
        for dim in (None, (0,), (ndim - 1,)):
            (found,) = kernel("sum", x, dim, False, None)
            rounded_once(found, wide(x).sum(dim), np.abs(wide(x)).sum(dim))


# ---------------------------------------------------------------------- softmax

WIDTHS = (1, 7, 100, 1025, 8193)


@pytest.mark.parametrize("width", WIDTHS)
def test_softmax(width):
    rng = np.random.default_rng(width)
    x, grad = draw(rng, 9, width), draw(rng, 9, width)
    powers = np.exp(wide(x) - wide(x).max(-1, keepdims=True))
    exact = powers / powers.sum(-1, keepdims=True)
    (found,) = kernel("softmax", x, 1)
    rounded_once(found, exact, exact)
    (back,) = kernel("softmax_backward_data", grad, found, 1)
    y, g = wide(found), wide(grad)
    exact = g * y - y * (g * y).sum(-1, keepdims=True)
    rounded_once(back, exact, np.abs(g * y).sum(-1, keepdims=True))


@pytest.mark.parametrize("width", WIDTHS)
def test_log_softmax(width):
    """Rounded in between, as PyTorch rounds: the sum, and its logarithm."""
    rng = np.random.default_rng(width)
    x, grad = draw(rng, 9, width), draw(rng, 9, width)
    centred = wide(x) - wide(x).max(-1, keepdims=True)
    total = np.exp(centred).sum(-1, keepdims=True)
    exact = centred - as_stored(np.log(as_stored(total)))
    (found,) = kernel("log_softmax", x, 1)
    rounded_once(found, exact, np.abs(exact))
    for g in (grad, np.broadcast_to(grad[0, 0], grad.shape)):
        (back,) = kernel("log_softmax_backward_data", g, found, 1)
        sums = wide(g).sum(-1, keepdims=True)
        exact = wide(g) - np.exp(wide(found)) * sums
        rounded_once(back, exact, 1 + np.abs(wide(g)).sum(-1, keepdims=True))


@pytest.mark.parametrize("name", ("softmax", "log_softmax"))
def test_rows_that_are_not_finite(name):
    x = draw(np.random.default_rng(0), 4, 40)
    x[0, 3], x[1, 5], x[2, :] = np.nan, np.inf, -np.inf
    x[3, 1:] = -np.inf
    (found,) = kernel(name, x, 1)
    with np.errstate(all="ignore"):
        wanted = NUMPY.kernel(REGISTRY[name])(x, 1)
    assert same(np.isnan(wide(found)), np.isnan(wide(wanted)))
    rounded_once(found[3:], wide(wanted)[3:], 1)


# ---------------------------------------------------------------------- norms


def norm_parts(shape, parameters, rng):
    """An input, a weight and a bias: bfloat16, or floats, or None."""
    x = draw(rng, *shape)
    made = [draw(rng, shape[-1]) for _ in range(2)]
    if parameters == "float":
        made = [p.astype(np.float32) for p in made]
    weight, bias = made
    return (
        x,
        None if parameters in ("none", "bias") else weight,
        (None if parameters in ("none", "weight") else bias),
    )


def layer_norm_exact(x, weight, bias):
    v = wide(x)
    mean = v.mean(-1, keepdims=True)
    r = 1 / np.sqrt(v.var(-1, keepdims=True) + 1e-5)
    out = (v - mean) * r
    out = out if weight is None else out * wide(weight)
    return (out if bias is None else out + wide(bias)), mean, r


@pytest.mark.parametrize("parameters", ("none", "weight", "bias", "both", "float"))
@pytest.mark.parametrize("shape", [(5, 3), (200, 33), (2, 9, 1025), (1500, 64), (2, 70000)])
def test_layer_norm(shape, parameters):
    rng = np.random.default_rng(len(shape))
    x, weight, bias = norm_parts(shape, parameters, rng)
    out, stats = kernel("native_layer_norm", x, weight, bias, 1, 1e-5)
    exact, mean, r = layer_norm_exact(x, weight, bias)
    rounded_once(out, exact, 10)
    assert stats.dtype == (np.float32 if parameters == "float" else BF16)
    np.testing.assert_allclose(wide(stats), np.stack([mean, r]), rtol=4e-3, atol=1e-5)
    grad = draw(rng, *shape)
    biased = bias is not None
    found = kernel("native_layer_norm_backward", grad, x, stats, weight, 1, 1e-5, biased)
    g, (mean, r) = wide(grad), wide(stats)
    hat = (wide(x) - mean) * r
    scaled = g if weight is None else g * wide(weight)
    along = scaled * hat
    exact = (scaled - scaled.mean(-1, keepdims=True) - hat * along.mean(-1, keepdims=True)) * r
    rounded_once(found[0], exact, 10 * np.abs(r) + np.abs(exact))
    kept = np.float32 if parameters == "float" else BF16
    rows = tuple(range(len(shape) - 1))
    for given, to, share in ((weight, found[1], g * hat), (bias, found[2], g)):
        if given is None:
            assert to.size == 0
            continue
        assert to.dtype == kept
        rounded_once(to.astype(BF16), share.sum(rows), np.abs(share).sum(rows) + SLACK)


# ---------------------------------------------------------------------- products


def matrix(rng, rows, columns, turned):
    return draw(rng, columns, rows).T if turned else draw(rng, rows, columns)


@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (3, 5, 7), (64, 300, 33), (130, 64, 257)])
def test_products(sizes, turned):
    rng = np.random.default_rng(sum(sizes))
    m, k, n = sizes
    a, b, row = matrix(rng, m, k, turned[0]), matrix(rng, k, n, turned[1]), draw(rng, n)
    exact, scale = wide(a) @ wide(b), np.abs(wide(a)) @ np.abs(wide(b))
    rounded_once(kernel("mm", a, b)[0], exact, scale)
    rounded_once(kernel("addmm", row, a, b, 1, 1)[0], exact + wide(row), scale)
    rounded_once(kernel("addmm", row, a, b, 0.5, 2)[0], 2 * exact + 0.5 * wide(row), 2 * scale)
    stack, other = np.stack([a, (a + 1).astype(BF16)]), np.stack([b, b])
    for x, y in ((stack, other), (stack, other.swapaxes(1, 2).copy().swapaxes(1, 2))):
        rounded_once(kernel("bmm", x, y)[0], wide(x) @ wide(y), np.abs(wide(x)) @ np.abs(wide(y)))


def test_gradients_of_a_linear_layer():
    rng = np.random.default_rng(3)
    x, weight, row, grad = draw(rng, 40, 30), draw(rng, 20, 30), draw(rng, 20), draw(rng, 40, 20)
    leaves = [
        tg.from_numpy(v.astype(np.float32)).to(tg.bfloat16).requires_grad_()
        for v in (x, weight, row)
    ]
    out = tg.nn.functional.linear(*leaves)
    out.backward(tg.from_numpy(grad.astype(np.float32)).to(tg.bfloat16))
    g = wide(grad)
    for leaf, exact in zip(leaves, (g @ wide(weight), g.T @ wide(x), g.sum(0)), strict=True):
        rounded_once(leaf.grad._array, exact, 30)


# ---------------------------------------------------------------------- what lies oddly


def misaligned(x):
    room = np.zeros(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
    room[...] = x
    return room


@pytest.mark.parametrize("how", ("misaligned", "strided", "turned", "read-only", "empty", "wide"))
def test_any_layout(how):
    rng = np.random.default_rng(1)
    x = draw(rng, 80, 64)
    if how == "misaligned":
        x = misaligned(x)
    elif how == "strided":
        x = np.repeat(x, 2, 1)[:, ::2]
    elif how == "turned":
        x = draw(rng, 64, 80).T
    elif how == "read-only":
        x.flags.writeable = False
    elif how == "empty":
        x = x[:0]
    elif how == "wide":
        x = np.broadcast_to(x[:1], (80, 64))
    v = wide(x)
    rounded_once(kernel("sum", x, (1,), False, None)[0], v.sum(1), 80)
    rounded_once(kernel("sum", x, (0,), False, None)[0], v.sum(0), 80)
    out = kernel("native_layer_norm", x, None, None, 1, 1e-5)[0]
    rounded_once(out, layer_norm_exact(x, None, None)[0], 10)
    (out,) = kernel("softmax", x, 1)
    powers = np.exp(v)
    rounded_once(out, powers / powers.sum(1, keepdims=True), 1)
    assert same(kernel("cast", x, np.dtype(np.float32))[0], x.astype(np.float32))
    square = draw(rng, 64, 5)
    rounded_once(kernel("mm", x, square)[0], v @ wide(square), 100)


def test_a_compiled_step_sees_new_values():
    """What is converted on the way is converted again when the step is replayed."""
    tg.manual_seed(0)
    layers = tg.nn.Sequential(tg.nn.Linear(32, 64), tg.nn.LayerNorm(64), tg.nn.Linear(64, 32))
    layers = layers.to(tg.bfloat16)

    def step(x, target):
        layers.zero_grad(set_to_none=True)
        loss = tg.nn.functional.cross_entropy(layers(x), target)
        loss.backward()
        return loss

    def gradients():
        return [p.grad.clone() for p in layers.parameters()]

    inputs = [(tg.randn(80, 32).to(tg.bfloat16), tg.randint(32, (80,))) for _ in range(5)]
    wanted = [(step(*given).item(), gradients()) for given in inputs]
    fast = tg.compile(step)
    for given, (loss, grads) in zip(inputs, wanted, strict=True):
        assert fast(*given).item() == loss
        for a, b in zip(gradients(), grads, strict=True):
            assert tg.equal(a, b)
