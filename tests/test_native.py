"""The kernels in C against the forward of the op on NumPy, which they stand in for.

Every call runs with one thread and with two, which must agree to the last bit. Where rounding
differs the oracle is NumPy in double, and the bound is that of the sums that are made.
"""

from __future__ import annotations

import importlib
import math

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.core.host_arrays import host
from tapegrad.core.op import REGISTRY
from tapegrad.kernels import cpu
from tapegrad.kernels.backend import NUMPY
from tapegrad.kernels.cpu import overrides

if cpu.KERNELS is None:
    pytest.skip(f"no kernels in C: {cpu.REASON}", allow_module_level=True)

import tapegrad.ops.index.along_dim
import tapegrad.ops.index.masked
import tapegrad.ops.nn.embedding
import tapegrad.ops.nn.layer_norm
import tapegrad.ops.nn.loss_class
import tapegrad.ops.reduce.scans
import tapegrad.ops.reduce.softmax
import tapegrad.ops.reduce.sums
import tapegrad.ops.shape.part_views
from tapegrad.ops.index import advanced, gather

FLOATS = (np.float32, np.float64)
# Blocks of 256 in 16 lanes, or 64 rows four at a time: so many roundings may meet in one sum.
ROUNDINGS = 20


@pytest.fixture(params=range(6))
def rng(request):
    return np.random.default_rng(request.param)


def same(a, b):
    """To the last bit, NaN included."""
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def run(kernel, *args):
    """The results of a kernel with one thread, which those with two have to equal."""
    found = []
    before = cpu.KERNELS.threads()
    try:
        for threads in (1, 2, 2):
            cpu.KERNELS.set_threads(threads)
            with np.errstate(all="ignore"):
                out = kernel(*args)
            found.append(out if isinstance(out, tuple) else (out,))
    finally:
        cpu.KERNELS.set_threads(before)
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            assert same(np.asarray(a), np.asarray(b))
    return [np.asarray(a) for a in found[0]]


def both(name, *args):
    """An op by its kernel in C and by its forward on NumPy."""
    op = REGISTRY[name]
    assert op.kernel is not NUMPY.kernel(op)
    with np.errstate(all="ignore"):
        wanted = NUMPY.kernel(op)(*args)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    return run(op.kernel, *args), [np.asarray(w) for w in wanted]


def in_double(name, *args):
    """The forward on NumPy, with double in the place of float."""
    with np.errstate(all="ignore"):
        out = NUMPY.kernel(REGISTRY[name])(
            *[a.astype(np.float64) if is_float(a) else a for a in args]
        )
    return [np.asarray(o) for o in (out if isinstance(out, tuple) else (out,))]


def is_float(a):
    return isinstance(a, np.ndarray) and a.dtype.kind == "f"


def laid_out(rng, x):
    """The same values, in some order in memory."""
    how = rng.integers(5)
    if how == 1 and x.ndim:
        return np.asfortranarray(x)
    if how == 2 and x.ndim:
        wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
        wide[..., ::2] = x
        return wide[..., ::2]
    if how == 3 and x.ndim:
        return x[::-1].copy()[::-1]
    return x


def shape_of(rng, ndim, most=40):
    return tuple([int(rng.choice([0, 1, 2, 3, 7, 16, 33, most])) for _ in range(ndim)])


def draw(rng, shape, dtype):
    return laid_out(rng, rng.standard_normal(shape).astype(dtype))


def close(found, wanted, scale, roundings=ROUNDINGS):
    """Within so many roundings of numbers of the size `scale`; what is not finite is the same."""
    assert found.shape == wanted.shape
    finite = np.isfinite(wanted)
    np.testing.assert_array_equal(found[~finite], wanted[~finite])
    gap = np.abs(found[finite].astype(np.float64) - wanted[finite])
    limit = roundings * np.finfo(found.dtype).eps * np.broadcast_to(scale, wanted.shape)[finite]
    assert (gap <= limit).all(), (gap.max(), gap[gap > limit][:3], limit[gap > limit][:3])


# ---------------------------------------------------------------------- norms

NORM_SHAPES = [(3, 5), (1, 1), (70, 33), (4, 7, 8), (200, 1025), (2, 70000), (0, 4), (1500, 64)]


def over_rows(x):
    return x.sum(tuple(range(x.ndim - 1)), dtype=np.float64)


@pytest.mark.parametrize("shape", [(5, 7), (64, 100), (2, 3, 1025)])
def test_softmax_of_bfloat16(shape):
    """Computed in single precision, forth and back, and rounded once."""
    rng = np.random.default_rng(0)
    half = tg.bfloat16
    x, grad = (tg.tensor(rng.normal(size=shape)).to(half) for _ in range(2))
    for function in (tg.softmax, tg.log_softmax):
        t = x.clone().requires_grad_()
        out = function(t, -1)
        out.backward(grad)
        y = out.detach().double().numpy()
        g = grad.double().numpy()
        if function is tg.softmax:
            e = np.exp(x.double().numpy())
            np.testing.assert_allclose(y, e / e.sum(-1, keepdims=True), rtol=2**-8)
            want = y * (g - (g * y).sum(-1, keepdims=True))
        else:
            want = g - np.exp(y) * g.sum(-1, keepdims=True)
        (expanded,) = tg.autograd.grad(function(t, -1).sum(), t)
        (dense,) = tg.autograd.grad(function(t, -1), t, tg.ones(shape).to(half))
        assert tg.equal(expanded, dense)
        found = t.grad.double().numpy()
        # Half a unit of bfloat16's last place, and what single precision leaves of the sums.
        np.testing.assert_allclose(found, want, rtol=2**-8, atol=1e-5)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("affine", ["", "w", "b", "wb"])
@pytest.mark.parametrize("shape", NORM_SHAPES)
def test_layer_norm(shape, affine, dtype):
    rng = np.random.default_rng(1)
    x = draw(rng, shape, dtype) + dtype(0.5)
    w = draw(rng, shape[-1:], dtype) if "w" in affine else None
    b = draw(rng, shape[-1:], dtype) if "b" in affine else None
    found, _ = both("native_layer_norm", x, w, b, 1, 1e-5)
    wanted = in_double("native_layer_norm", x, w, b, 1, 1e-5)
    size = 8 * (1 if w is None else np.abs(w)) + (0 if b is None else np.abs(b))
    close(found[0], wanted[0], size)
    close(found[1], wanted[1], 1 + np.abs(wanted[1]))
    grad = draw(rng, shape, dtype)
    args = (grad, x, found[1], w, 1, 1e-5, b is not None)
    pulled, _ = both("native_layer_norm_backward", *args)
    want = in_double("native_layer_norm_backward", *args)
    if x.size:
        close(pulled[0], want[0], 64 * np.abs(found[1][1]) * (1 if w is None else np.abs(w).max()))
        hat = np.abs(x.astype(np.float64) - found[1][0]) * found[1][1]
        if w is not None:
            close(pulled[1], want[1], over_rows(np.abs(grad) * (hat + 1)))
        if b is not None:
            close(pulled[2], want[2], over_rows(np.abs(grad)))


def test_layer_norm_of_several_dims():
    rng = np.random.default_rng(2)
    x, w = draw(rng, (5, 4, 6), np.float64), draw(rng, (4, 6), np.float64)
    found, wanted = both("native_layer_norm", x, w, w, 2, 1e-5)
    close(found[0], wanted[0], 8 * np.abs(w) + 1)
    assert found[1].shape == wanted[1].shape == (2, 5, 1, 1)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", NORM_SHAPES)
def test_rms_norm(shape, dtype):
    rng = np.random.default_rng(3)
    x, g = draw(rng, shape, dtype), draw(rng, shape, dtype)
    for w in (None, draw(rng, shape[-1:], dtype)):
        found, _ = both("fused_rms_norm", x, w, 1, 1e-5)
        wanted = in_double("fused_rms_norm", x, w, 1, 1e-5)
        size = 1 if w is None else np.abs(w).max()
        close(found[0], wanted[0], 8 * size)
        args = (g, x, found[1], w, 1, 1e-5)
        pulled, _ = both("fused_rms_norm_backward", *args)
        want = in_double("fused_rms_norm_backward", *args)
        if x.size:
            close(pulled[0], want[0], 64 * found[1] * size)
            hat = np.abs(x) * found[1]
            close(pulled[1], want[1], 1 if w is None else over_rows(np.abs(g) * hat))


def test_norms_of_what_is_not_finite():
    x = np.ones((3, 4), np.float32)
    x[0, 1], x[1, 2] = np.nan, np.inf
    found, wanted = both("native_layer_norm", x, None, None, 1, 1e-5)
    for a, b in zip(found, wanted, strict=True):
        close(a, b, np.abs(b), 4)


# ---------------------------------------------------------------------- losses


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("ignored", [None, -100, 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_nll_loss(weighted, ignored, reduction, dtype):
    rng = np.random.default_rng(4)
    for shape in ((5,), (1, 3), (7, 4), (400, 33), (0, 4)):
        x = draw(rng, shape, dtype)
        target = rng.integers(0, shape[-1], shape[:-1])
        if ignored is not None and target.size > 1:
            target[0] = ignored
        w = rng.random(shape[-1]).astype(dtype) if weighted else None
        (found,), _ = both("nll_loss", x, target, w, reduction, ignored)
        (wanted,) = in_double("nll_loss", x, target, w, reduction, ignored)
        close(found, wanted, 4 + np.abs(wanted) if reduction == "none" else 4 + np.abs(x).sum())
        grad = draw(rng, found.shape, dtype)
        args = (grad, target, w, shape, reduction, ignored)
        (pulled,), _ = both("nll_loss_backward", *args)
        (want,) = in_double("nll_loss_backward", *args)
        # weights are added up in double, one after the other
        close(pulled, want, np.abs(want), 4 + (dtype is np.float64) * target.size)


@pytest.mark.parametrize("wrong", [4, -1, 2**62])
def test_a_target_that_is_no_class(wrong):
    x, target = np.zeros((3, 4), np.float32), np.array([0, wrong, 1])
    with pytest.raises(IndexError):
        REGISTRY["nll_loss"].kernel(x, np.where(target < 0, 4, target), None, "mean", None)
    grad = np.ones((), np.float32)
    with pytest.raises(IndexError):
        REGISTRY["nll_loss_backward"].kernel(
            grad, np.where(target < 0, 4, target), None, (3, 4), "mean", None
        )
    with pytest.raises(IndexError, match=f"Target {wrong} is out of bounds."):
        tg.nn.functional.cross_entropy(tg.tensor(x), tg.tensor(target))


# ---------------------------------------------------------------------- by number

DTYPES = (np.float32, np.float64, np.int64, np.float16, np.bool_, np.complex128)


def numbers(rng, size, shape, low=0):
    if not size:
        shape = (0,) * len(shape)
    return laid_out(rng, rng.integers(-size if low else 0, max(size, 1), shape))


def moves(name, *args):
    """Values go where NumPy puts them."""
    found, wanted = both(name, *args)
    for a, b in zip(found, wanted, strict=True):
        assert same(np.ascontiguousarray(a), np.ascontiguousarray(b))
        strides = [(x, y) for x, y, n in zip(a.strides, b.strides, a.shape, strict=True) if n > 1]
        assert a.size < 2 or all([x == y for x, y in strides])


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_by_number(rng, dtype):
    for count in (0, 1, 9, 600, 5000):
        weight = draw(rng, (int(rng.integers(1, 50)), int(rng.integers(0, 40))), dtype)
        moves("embedding", weight, numbers(rng, len(weight), (count,)), None, False, 1, False)
        moves("embedding", weight, numbers(rng, len(weight), (count, 2)), None, False, 1, False)
        x = draw(rng, (3, *shape_of(rng, 1), 5)[: int(rng.integers(1, 4))], dtype)
        for dim in range(x.ndim):
            if x.shape[dim]:
                moves("index_select", x, numbers(rng, x.shape[dim], (count,)), dim)


@pytest.mark.parametrize("dtype", FLOATS)
def test_rows_are_added_in_order(rng, dtype):
    for count in (0, 1, 9, 600, 4000):
        rows, width = int(rng.integers(1, 50)), int(rng.choice([1, 3, 17, 64, 1100]))
        where = rng.integers(0, rows, count)
        grad = draw(rng, (count, width), dtype)
        for padding in (None, 0):
            (found,) = run(
                REGISTRY["embedding_dense_backward"].kernel, grad, where, rows, padding, False, 1
            )
            kept = slice(None) if padding is None else where != padding
            wanted = np.zeros((rows, width), dtype)
            np.add.at(wanted, where[kept], grad[kept])
            assert same(found, wanted)
        x = draw(rng, (2, rows, 3), dtype)
        source = draw(rng, (2, count, 3), dtype)
        (found,) = run(REGISTRY["index_add"].kernel, x, where, source, 1, 1)
        wanted = np.array(x, order="C")
        np.add.at(wanted, (slice(None), where), source)
        close(found, wanted.astype(np.float64), np.abs(source).sum() + np.abs(x).max())


@pytest.mark.parametrize("dtype", DTYPES)
def test_elements_by_number(rng, dtype):
    for _ in range(8):
        shape = shape_of(rng, int(rng.integers(0, 4)))
        x = draw(rng, shape, dtype)
        for dim in range(x.ndim):
            if not shape[dim]:
                continue
            count = int(rng.choice([0, 1, 5, 300]))
            index = numbers(rng, shape[dim], (*shape[:dim], count, *shape[dim + 1 :]))
            if rng.random() < 0.3:
                index = index[tuple([slice(0, max(n - 1, 1)) for n in index.shape])]
            source = draw(rng, index.shape, dtype)
            moves("gather", x, index, dim)
            moves("scatter_src", x, index, source, dim)
            moves("scatter_value", x, index, dtype(3), dim)
            if dtype in (np.float32, np.float64, np.int64):
                moves("scatter_add", x, index, source, dim)
                (found,) = run(gather.scattered_on_host, source, index, shape, dim)
                assert same(found, gather.scattered(host, source, index, shape, dim))


@pytest.mark.parametrize("dtype", DTYPES)
def test_parts_go_back(rng, dtype):
    """Zeros around what slice and select took."""
    for _ in range(12):
        shape = shape_of(rng, int(rng.integers(1, 5)))
        dim = int(rng.integers(len(shape)))
        n = shape[dim]
        start, end = sorted(rng.integers(0, n + 1, 2).tolist())
        step = int(rng.choice([1, 2, 3, 50]))
        one = np.ones((), dtype)
        x = draw(rng, shape, dtype)
        part = x[(slice(None),) * dim + (slice(start, end, step),)]
        for values in (part, part.copy(), np.broadcast_to(one, part.shape)):
            moves("slice_backward", values, shape, dim, start, end, step)
        if n:
            part = x.take(n // 2, dim)
            for values in (part, np.broadcast_to(one, part.shape)):
                moves("select_backward", values, shape, dim, n // 2)


def test_zeros_are_zeros_in_memory_that_was_used():
    like = np.zeros(0, np.float32)
    for shape in ((), (3, 0), (5,), (700, 801), (1 << 21,)):
        for _ in range(3):
            (found,) = run(cpu.KERNELS.zeros, shape, like)
            assert found.dtype == np.float32 and found.shape == shape and not found.any()
            cpu.KERNELS.zeros(shape, like)[...] = 7


@pytest.mark.parametrize("dtype", DTYPES)
def test_advanced_indexing(rng, dtype):
    reference = advanced.add_up
    for _ in range(10):
        shape = tuple([max(n, 1) for n in shape_of(rng, 3, 20)])
        x = draw(rng, shape, dtype)
        at = (int(rng.choice([0, 2, 700])),)
        a, b, c = [numbers(rng, n, at, low=1) for n in shape]
        every = slice(None)
        mask = laid_out(rng, rng.random(shape) < 0.5)
        for index in (
            (a,),
            (a, b),
            (a, b, c),
            (every, b),
            (every, b, c),
            (every, every, c),
            (a, every, c),
            (a[:9].reshape(-1, 1), b[:7]),
            (mask,),
            (mask[..., 0],),
            (mask[0, 0, 0],),
        ):
            moves("index", x, index)
            values = draw(rng, x[index].shape, dtype)
            (found,) = run(advanced.add_up_on_host, values, shape, index)
            wanted = reference(host, values, shape, index)
            if dtype in FLOATS:
                close(found, wanted.astype(np.float64), np.abs(values).sum())
            else:
                assert same(found, np.ascontiguousarray(wanted))
        moves("masked_select", x, mask)


WRONG = [
    ("embedding", lambda x, i: (x, i, None, False, 1, False)),
    ("index_select", lambda x, i: (x, i, 0)),
    ("index_add", lambda x, i: (x, i, np.ones((len(i), 4), np.float32), 0, 1)),
    ("embedding_dense_backward", lambda x, i: (np.ones((len(i), 4), "f"), i, 3, None, False, 1)),
    ("gather", lambda x, i: (x, np.repeat(i[:, None], 4, 1), 0)),
    ("scatter_src", lambda x, i: (x, np.repeat(i[:, None], 4, 1), np.ones((len(i), 4), "f"), 0)),
    ("scatter_add", lambda x, i: (x, np.repeat(i[:, None], 4, 1), np.ones((len(i), 4), "f"), 0)),
    ("scatter_value", lambda x, i: (x, np.repeat(i[:, None], 4, 1), 1.0, 0)),
    ("gather", lambda x, i: (x, np.stack([0 * i, i, i]), 1)),
    ("scatter_src", lambda x, i: (x, np.stack([0 * i, i, i]), np.ones((3, len(i)), "f"), 1)),
    ("scatter_add", lambda x, i: (x, np.stack([0 * i, i, i]), np.ones((3, len(i)), "f"), 1)),
    (
        "gather",
        lambda x, i: (x[:, :, None] + x[0, :2], np.stack([0 * i, i], 1)[None] + [[[0]]] * 3, 1),
    ),
    ("index", lambda x, i: (x, (i,))),
    ("index", lambda x, i: (x, (np.zeros_like(i), i))),
]


@pytest.mark.parametrize("wrong", [4, -5, 2**62, -(2**63)])
@pytest.mark.parametrize(("name", "arguments"), WRONG)
def test_numbers_out_of_range(name, arguments, wrong):
    """Memory is not touched; NumPy says what it says."""
    x = np.zeros((3, 4), np.float32)
    index = np.zeros(700, np.int64)
    index[650] = wrong
    args = arguments(x, index)
    op = REGISTRY[name]
    found = []
    for kernel in (NUMPY.kernel(op), op.kernel):
        try:
            found.append(kernel(*args).tobytes())  # NumPy does not see all of them
        except IndexError as error:
            found.append(str(error))
    assert found[0] == found[1]
    assert not x.any()


# ---------------------------------------------------------------------- reductions

SUM_SHAPES = [(5,), (70001,), (3, 4), (1000, 7), (7, 1000), (33, 5, 129), (4, 0, 3), (2, 100000)]
SUM_SHAPES += [(8, 6, 20, 21), (300, 2500), (5000, 3)]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SUM_SHAPES)
def test_sums(shape, dtype):
    rng = np.random.default_rng(5)
    dims = [None, (0,), (len(shape) - 1,), tuple(range(1, len(shape))) or None]
    dims += [tuple(range(len(shape))), (0, *range(2, len(shape)))]
    for layout in range(2):
        x = rng.standard_normal(shape).astype(dtype)
        x = laid_out(rng, x) if layout else x
        for dim in dims:
            for keepdim in (False, True):
                scale = np.abs(x).sum(axis=dim, keepdims=keepdim, dtype=np.float64)
                count = x.size / scale.size if scale.size else 1
                (found,), _ = both("sum", x, dim, keepdim, None)
                close(found, in_double("sum", x, dim, keepdim, None)[0], scale)
                (found,), _ = both("mean", x, dim, keepdim, None)
                if x.size:
                    wanted = in_double("mean", x, dim, keepdim, None)[0]
                    close(found, wanted, scale / count)
        (found,), _ = both("sum_all", x, None)
        close(found, in_double("sum_all", x, None)[0], np.abs(x).sum(dtype=np.float64))
        if x.size:
            (found,), _ = both("mean_all", x, None)
            close(found, in_double("mean_all", x, None)[0], np.abs(x).mean(dtype=np.float64))


@pytest.mark.parametrize("dtype", FLOATS)
def test_sums_of_a_few(rng, dtype):
    """The bits of NumPy's for few numbers in a row; elsewhere not less precise."""
    for n in (*range(20), 63, 64, 65, 127, 128, 129, 300):
        x = (rng.standard_normal(n) * 10.0 ** rng.integers(-4, 5, n)).astype(dtype)
        for values in (x, -np.abs(x), 0 * x, -0.0 * np.abs(x)) if n <= 128 else ():
            moves("sum_all", values, None)
            moves("sum_all", values.reshape(-1, 1), None)
        for values in (x, x.repeat(2)[::2], x[::-1]):
            (found,), _ = both("sum_all", values, None)
            exact = in_double("sum_all", values, None)[0]
            close(found, exact, np.abs(values).sum(dtype=np.float64))
    for values in ((np.inf, -np.inf), (np.nan, 1), (3e38, 3e38, -3e38), (np.inf,) * 9):
        with np.errstate(all="ignore"):
            moves("sum_all", np.array(values, dtype), None)


def test_sums_of_what_is_not_finite():
    x = np.ones((100, 100), np.float32)
    x[0, 3], x[50, 4], x[60, 5], x[61, 5] = np.nan, np.inf, np.inf, -np.inf
    for dim in ((0,), (1,), None):
        (found,), (wanted,) = both("sum", x, dim, False, None)
        np.testing.assert_array_equal(found, wanted)


def test_errors_do_not_grow_with_the_length_of_a_sum():
    x = np.full(5_000_001, 0.1, np.float32)
    (found,) = run(REGISTRY["sum_all"].kernel, x, None)
    wanted = x.astype(np.float64).sum()
    close(found, wanted, wanted, 4)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(5,), (70001,), (700, 9), (9, 700), (20, 20, 20), (5000, 1)])
@pytest.mark.parametrize("correction", [0, 1, 2.5, 5001])
def test_variances(correction, shape, dtype):
    rng = np.random.default_rng(6)
    x = rng.standard_normal(shape).astype(dtype) + dtype(3)
    for dim in (None, (len(shape) - 1,), (0,)):
        for name in ("var", "std", "var_mean", "std_mean"):
            found, _ = both(name, x, dim, correction, False)
            for a, b in zip(found, in_double(name, x, dim, correction, False), strict=True):
                close(a, b, 20 + np.abs(b))


@pytest.mark.parametrize("dtype", FLOATS)
def test_equal_numbers_do_not_vary(dtype):
    x = np.full((50, 200), 0.1, dtype)
    x[3], x[4, 5], x[5, 6], x[6] = 3e38, np.nan, np.inf, np.inf
    x[7, ::2], x[7, 1::2] = 1e30, -1e30  # whose squares are too large for a float
    for name in ("var_mean", "std_mean"):
        found, wanted = both(name, x, (1,), 1, True)
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=16 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", FLOATS)
def test_logsumexp(rng, dtype):
    for shape in ((1,), (5,), (3, 1), (40, 33), (7, 3000), (2, 0), (0, 3), (3, 4, 50)):
        x = draw(rng, shape, dtype) * dtype(rng.choice([1, 30]))
        if x.size > 4:
            x[0, ...] = rng.choice([np.inf, -np.inf, np.nan, 2])
        for dim in (None, (x.ndim - 1,), (0,)):
            if x.size or x.shape[dim[0] if dim else 0]:
                (found,), _ = both("logsumexp", x, dim, False)
                (wanted,) = in_double("logsumexp", x, dim, False)
                close(found, wanted, 1 + np.abs(wanted))


@pytest.mark.parametrize("dtype", FLOATS)
def test_running_sums(rng, dtype):
    for _ in range(6):
        shape = shape_of(rng, int(rng.integers(1, 4)), 300)
        x = draw(rng, shape, dtype)
        for dim in range(x.ndim):
            for name in ("cumsum", "cumprod"):
                (found,), (wanted,) = both(name, x, dim, None)
                # Both run in double; a float is that, rounded once.
                assert same(found, np.ascontiguousarray(wanted))
            (found,), (wanted,) = both("linear_scan", x, draw(rng, shape, dtype), dim)
            assert same(found, np.ascontiguousarray(wanted))


@pytest.mark.parametrize("rows", range(1, 10))
def test_running_sums_of_rows_side_by_side(rows):
    x = draw(np.random.default_rng(rows), (rows, 5000), np.float32)
    x[-1, 7], x[0, 4000] = np.nan, np.inf
    for name in ("cumsum", "cumprod"):
        (found,), (wanted,) = both(name, x, 1, None)
        assert same(found, wanted)


def test_what_kernels_leave_alone():
    """Other dtypes and layouts go to NumPy, through the same door."""
    x = np.arange(12.0).reshape(3, 4)
    for dtype in (np.float16, np.int32, np.complex64):
        (found,), (wanted,) = both("sum", x.astype(dtype), (1,), False, None)
        assert same(found, wanted)
    assert math.isnan(tg.tensor([]).mean().item())
    assert tg.tensor(2.0).sum().item() == 2.0
    swapped = np.ones((3, 4), ">f4")
    (found,), (wanted,) = both("index", swapped, (np.array([0, 1] * 400),))
    np.testing.assert_array_equal(found, wanted)


def test_the_list_of_overrides_is_what_the_modules_have():
    """Modules are imported when an op of theirs is: the list says which."""
    import table  # noqa: F401 - which has all ops, and modules need theirs first

    for module, names in overrides.MODULES.items():
        found = importlib.import_module(f"tapegrad.kernels.cpu.overrides.{module}").OVERRIDES
        assert set(found) == set(names), module
