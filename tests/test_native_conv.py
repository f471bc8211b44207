"""Batch norm, group norm, convolution and pooling in C, each against its reference on NumPy."""

import functools
import itertools
import math
import random
import re

import numpy as np
import pytest

import tapegrad as tg
import tapegrad.ops.nn.adaptive_pool
import tapegrad.ops.nn.avg_pool
import tapegrad.ops.nn.batch_norm
import tapegrad.ops.nn.conv
import tapegrad.ops.nn.max_pool  # noqa: F401  (they fill the registry)
from tapegrad.core.base import quiet
from tapegrad.core.op import REGISTRY
from tapegrad.kernels.backend import NUMPY
from tapegrad.kernels.cpu import KERNELS
from tapegrad.kernels.cpu.backend import HOST

if KERNELS is None:
    pytest.skip("the native kernels are not built", allow_module_level=True)

FLOATS = [np.float32, np.float64]


def kernels(name):
    """Ours, and the reference that it stands for."""
    op = REGISTRY[name]
    return [functools.partial(quiet, backend.kernel(op)) for backend in (HOST, NUMPY)]


def with_threads(function, *args):
    """What `function` gives with two threads; it has to be the same bits with one."""
    before = KERNELS.threads()
    try:
        KERNELS.set_threads(1)
        alone = function(*args)
        KERNELS.set_threads(2)
        together = function(*args)
    finally:
        KERNELS.set_threads(before)
    pairs = zip(alone, together, strict=True) if type(alone) is tuple else [(alone, together)]
    assert all(a.tobytes() == b.tobytes() for a, b in pairs)
    return together


def draw(rng, shape, dtype):
    return rng.standard_normal(shape).astype(dtype)


# ------------------------------------------------------------------ convolution

SPATIAL = [
    # size, kernel, stride, padding, dilation
    ((9, 11), (3, 3), (1, 1), (1, 1), (1, 1)),
    ((8, 8), (3, 3), (2, 2), (1, 1), (1, 1)),
    ((12, 9), (5, 2), (1, 2), (2, 0), (1, 3)),
    ((10, 10), (2, 3), (3, 1), (0, 5), (2, 1)),
    ((13, 13), (4, 4), (3, 3), (0, 0), (1, 1)),
    ((40,), (5,), (1,), (2,), (1,)),
    ((50,), (3,), (2,), (4,), (3,)),
    ((5, 30), (1, 7), (1, 1), (0, 3), (1, 1)),
    ((4, 4), (1, 1), (1, 1), (0, 0), (1, 1)),
    ((3, 3), (3, 3), (1, 1), (0, 0), (1, 1)),
    ((30, 31), (3, 3), (1, 1), (1, 1), (1, 1)),
    ((2, 2), (3, 3), (1, 1), (1, 1), (1, 1)),
    ((5, 4), (2, 3), (2, 1), (0, 1), (1, 1)),
    ((9,), (3,), (2,), (1,), (2,)),
    ((2, 3, 4), (2, 2, 2), (1, 1, 1), (1, 0, 1), (1, 1, 2)),
    ((4, 5, 6), (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1)),
    ((6, 7, 38), (2, 3, 2), (2, 1, 2), (1, 0, 1), (1, 2, 1)),
]
CHANNELS = [  # images, channels of the x side, features, groups
    (2, 3, 8, 1),
    (1, 1, 1, 1),
    (3, 6, 6, 6),
    (2, 4, 12, 2),
    (1, 20, 37, 1),
    (2, 5, 10, 5),
    (0, 2, 2, 1),
]


def out_size(size, kernel, stride, padding, dilation):
    zipped = zip(size, kernel, stride, padding, dilation, strict=True)
    return tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in zipped)


def check_bilinear(name, a, b, *attrs, count, bias=None):
    """Sums of `count` products are wrong by at most that many roundings of the absolute sum."""
    ours, reference = kernels(name)
    given = (a, b) if bias is None else (a, b, bias)
    none = (None,) if bias is None and name == "convolution" else ()
    found = with_threads(ours, *given, *none, *attrs)
    wide = reference(*[x.astype(np.float64) for x in given], *none, *attrs)
    size = reference(*[np.abs(x).astype(np.float64) for x in given], *none, *attrs)
    assert found.dtype == a.dtype and found.shape == wide.shape
    plain = reference(*given, *none, *attrs)
    assert found.strides == plain.strides
    eps = np.finfo(a.dtype).eps
    bound = (count + 2) * eps * size
    if a.dtype == np.float64:
        bound = 2 * bound  # the reference is no better than we are
    assert (np.abs(found - wide) <= bound + np.finfo(a.dtype).tiny).all()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("channels", CHANNELS, ids=str)
@pytest.mark.parametrize("spatial", SPATIAL, ids=str)
@pytest.mark.parametrize("transposed", [False, True])
def test_convolutions(dtype, channels, spatial, transposed):
    rng = np.random.default_rng(0)
    images, depth, features, groups = channels
    size, kernel, stride, padding, dilation = spatial
    out = out_size(*spatial)
    x = draw(rng, (images, depth, *size), dtype)
    y = draw(rng, (images, features, *out), dtype)
    w = draw(rng, (features, depth // groups, *kernel), dtype)
    taps = math.prod(kernel)
    if transposed:
        # From the side of y to that of x: the size that is left over is output_padding.
        least = [
            (o - 1) * s - 2 * p + d * (k - 1) + 1
            for o, k, s, p, d in zip(out, kernel, stride, padding, dilation, strict=True)
        ]
        more = tuple(n - m for n, m in zip(size, least, strict=True))
        how = (stride, padding, dilation, True, more, groups)
        bias = draw(rng, depth, dtype)
        check_bilinear("convolution", y, w, *how, count=taps * features + 1, bias=bias)
        check_bilinear("conv_input_grad", x, w, y.shape, how, count=taps * depth)
        check_bilinear("conv_weight_grad", x, y, w.shape, how, count=math.prod(out) * images)
        return
    how = (stride, padding, dilation, False, (0,) * len(size), groups)
    bias = draw(rng, features, dtype)
    check_bilinear("convolution", x, w, *how, count=taps * depth + 1, bias=bias)
    check_bilinear("convolution", x, w, *how, count=taps * depth)
    check_bilinear("conv_input_grad", y, w, x.shape, how, count=taps * features)
    check_bilinear("conv_weight_grad", y, x, w.shape, how, count=math.prod(out) * images)


def test_many_channels_and_large_images():
    rng = np.random.default_rng(1)
    for depth, features, size in ((150, 70, (8, 9)), (3, 5, (70, 60)), (170, 300, (2, 2))):
        x = draw(rng, (2, depth, *size), np.float32)
        w = draw(rng, (features, depth, 3, 3), np.float32)
        y = draw(rng, (2, features, *size), np.float32)
        how = ((1, 1), (1, 1), (1, 1), False, (0, 0), 1)
        check_bilinear("convolution", x, w, *how, count=9 * depth)
        check_bilinear("conv_input_grad", y, w, x.shape, how, count=9 * features)
        check_bilinear("conv_weight_grad", y, x, w.shape, how, count=2 * math.prod(size))


def check_three(rng, dtype, images, depth, features, size, kernel, stride, padding, groups=1):
    """Forward and both gradients, without dilation."""
    one = (1,) * len(size)
    out = out_size(size, kernel, stride, padding, one)
    x = draw(rng, (images, depth, *size), dtype)
    w = draw(rng, (features, depth // groups, *kernel), dtype)
    y = draw(rng, (images, features, *out), dtype)
    how = (stride, padding, one, False, (0,) * len(size), groups)
    taps = math.prod(kernel)
    bias = draw(rng, features, dtype)
    check_bilinear("convolution", x, w, *how, count=taps * depth + 1, bias=bias)
    check_bilinear("conv_input_grad", y, w, x.shape, how, count=taps * features)
    check_bilinear("conv_weight_grad", y, x, w.shape, how, count=images * math.prod(out))


@pytest.mark.parametrize("dtype", FLOATS)
def test_blocks_of_all_heights_and_rows_of_all_widths(dtype):
    """As many features, taps and columns as blocks of registers are made for, and some more."""
    rng = np.random.default_rng(11)
    for features in range(1, 20):
        check_three(rng, dtype, 1, 2, features, (7, 20), (2, 3), (1, 1), (0, 1))
    for taps in range(1, 12):
        check_three(rng, dtype, 2, 1, 9, (2, 40), (1, taps), (1, 1), (0, 5))
    for columns in (*range(1, 20), 31, 32, 33, 47, 49, 63, 65, 130):
        rows = 34 // columns + 2
        for stride in (1, 2, 3):
            check_three(rng, dtype, 1, 3, 5, (rows * 3, columns), (3, 3), (1, stride), (1, 1))


def test_images_in_bands_and_weights_in_parts():
    """What does not fit into a room is done in pieces; they are others with other threads."""
    rng = np.random.default_rng(12)
    f32 = np.float32
    check_three(rng, f32, 1, 40, 5, (70, 70), (3, 3), (1, 1), (1, 1))
    check_three(rng, f32, 3, 24, 17, (61, 45), (3, 3), (2, 2), (1, 1))
    check_three(rng, f32, 1, 8, 12, (20000,), (5,), (1,), (2,))
    check_three(rng, f32, 1, 48, 5, (7, 10, 33), (3, 3, 3), (1, 1, 1), (1, 1, 1))
    check_three(rng, f32, 1, 128, 160, (7, 7), (3, 3), (1, 1), (1, 1))
    check_three(rng, f32, 2, 64, 64, (9, 33), (3, 3), (1, 1), (1, 1), groups=32)


def test_what_lies_beside_is_left_alone():
    """Rows are read and written by vectors: not one element before or behind an array."""
    rng = np.random.default_rng(13)
    how = ((1, 1), (1, 1), (1, 1), False, (0, 0), 1)
    for columns in (7, 14, 17, 33):
        x = draw(rng, (2, 3, 6, columns), np.float32)
        w, y = draw(rng, (5, 3, 3, 3), np.float32), draw(rng, (2, 5, 6, columns), np.float32)
        around = [np.full(a.size + 64, np.nan, np.float32) for a in (x, w, y)]
        inner = []
        for whole, a in zip(around, (x, w, y), strict=True):
            inner.append(whole[32 : 32 + a.size].reshape(a.shape))
            inner[-1][...] = a
        for name, given, apart, rest in (
            ("convolution", inner[:2], (x, w), (None, *how)),
            ("conv_input_grad", (inner[2], inner[1]), (y, w), (x.shape, how)),
            ("conv_weight_grad", (inner[2], inner[0]), (y, x), (w.shape, how)),
        ):
            ours = kernels(name)[0]
            found, expected = ours(*given, *rest), ours(*apart, *rest)
            assert found.tobytes() == expected.tobytes() and not np.isnan(found).any()


def test_more_threads_than_a_recording_was_made_with():
    """Its rooms are for one thread: others wait for it."""
    tg.manual_seed(0)
    conv = tg.nn.Conv2d(8, 16, 3, padding=1)
    x = tg.randn(6, 8, 40, 40)

    @tg.compile
    def step(x):
        conv.zero_grad()
        out = conv(x)
        (out * out).sum().backward()
        return out

    before = tg.get_num_threads()
    try:
        tg.set_num_threads(1)
        expected = [step(x).detach().clone() for _ in range(4)][-1]
        gradient = conv.weight.grad.clone()
        tg.set_num_threads(4)
        for _ in range(3):
            assert (step(x) == expected).all()
            assert (conv.weight.grad == gradient).all()
    finally:
        tg.set_num_threads(before)


@pytest.mark.parametrize("size", [(8, 9), (3, 5, 18), (6, 33)], ids=str)
@pytest.mark.parametrize("stride", [1, 2])
def test_convolution_of_what_is_not_finite(size, stride):
    rng = np.random.default_rng(2)
    n = len(size)
    kernel, strides, one = (3,) * n, (1,) * (n - 1) + (stride,), (1,) * n
    out = out_size(size, kernel, strides, one, one)
    x, w = draw(rng, (1, 2, *size), np.float32), draw(rng, (4, 2, *kernel), np.float32)
    y = draw(rng, (1, 4, *out), np.float32)
    x[0, 1, ..., 2, size[-1] - 1] = np.inf
    x[0, 0, ..., 0, 0] = np.nan
    y[0, 2, ..., 3, out[-1] - 1] = -np.inf
    how = (strides, one, one, False, (0,) * n, 1)
    for name, args in (
        ("convolution", (x, w, None, *how)),
        ("conv_input_grad", (y, w, x.shape, how)),
        ("conv_weight_grad", (y, x, w.shape, how)),
    ):
        ours, reference = kernels(name)
        found, expected = ours(*args), reference(*args)
        np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
        np.testing.assert_array_equal(np.isposinf(found), np.isposinf(expected))


def test_convolution_of_views_and_other_dtypes():
    rng = np.random.default_rng(3)
    x = draw(rng, (2, 9, 8, 3), np.float32).transpose(0, 3, 1, 2)
    w = draw(rng, (4, 3, 3, 3), np.float32)
    how = ((1, 1), (1, 1), (1, 1), False, (0, 0), 1)
    ours, reference = kernels("convolution")
    for a in (x, x[:, :, ::2], x[..., ::-1]):  # as of a copy in C order, to the bit
        found = ours(a, w, None, *how)
        np.testing.assert_array_equal(found, ours(a.copy("C"), w, None, *how))
        np.testing.assert_allclose(found, reference(a, w, None, *how), rtol=1e-3, atol=1e-4)
        assert found.strides == reference(a, w, None, *how).strides
    halves = x.astype(np.float16), w.astype(np.float16)
    np.testing.assert_array_equal(ours(*halves, None, *how), reference(*halves, None, *how))
    ours, reference = kernels("conv_weight_grad")
    grad = np.broadcast_to(np.float32(1), (2, 4, 9, 8))
    found, expected = (k(grad, x, w.shape, how) for k in (ours, reference))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_random_geometries():
    picked = random.Random(4)
    rng = np.random.default_rng(4)
    for _ in range(150):
        size = tuple(picked.randint(1, 14) for _ in range(2))
        kernel = tuple(picked.randint(1, 4) for _ in range(2))
        stride = tuple(picked.randint(1, 3) for _ in range(2))
        dilation = tuple(picked.randint(1, 3) for _ in range(2))
        padding = tuple(picked.randint(0, 4) for _ in range(2))
        out = out_size(size, kernel, stride, padding, dilation)
        if min(out) < 1:
            continue
        groups = picked.choice((1, 1, 2, 3))
        depth, features = groups * picked.randint(1, 4), groups * picked.randint(1, 9)
        x = draw(rng, (2, depth, *size), np.float32)
        w = draw(rng, (features, depth // groups, *kernel), np.float32)
        y = draw(rng, (2, features, *out), np.float32)
        how = (stride, padding, dilation, False, (0, 0), groups)
        taps = math.prod(kernel)
        check_bilinear("convolution", x, w, *how, count=taps * depth)
        check_bilinear("conv_input_grad", y, w, x.shape, how, count=taps * features)
        check_bilinear("conv_weight_grad", y, x, w.shape, how, count=2 * math.prod(out))


# ------------------------------------------------------------------ norms

IMAGES = [
    (2, 3, 4, 5),
    (4, 70),
    (300, 3),
    (2, 3, 2000),
    (0, 3, 2),
    (5, 1, 1, 1),
    (3, 65, 1),
    (16, 8, 17),
]


def check_close(found, wide, dtype, scale=1.0):
    """A few units in the last place of numbers of about one, times `scale`."""
    for a, b in zip(found, wide, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=0, atol=scale * 64 * np.finfo(dtype).eps)


def double(x):
    return x.astype(np.float64) if isinstance(x, np.ndarray) else x


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", IMAGES, ids=str)
@pytest.mark.parametrize("weighted", [True, False])
def test_batch_norm(dtype, shape, weighted):
    rng = np.random.default_rng(5)
    x, grad = draw(rng, shape, dtype) + dtype(3), draw(rng, shape, dtype)
    c = shape[1]
    weight, bias = (draw(rng, c, dtype), draw(rng, c, dtype)) if weighted else (None, None)
    ours, reference = kernels("native_batch_norm")
    found = with_threads(ours, x, weight, bias, 0.1, x.dtype)
    wide = reference(double(x), double(weight), double(bias), 0.1, np.dtype(np.float64))
    if not x.size:
        assert [a.shape for a in found] == [b.shape for b in wide]
        return
    check_close(found, wide, dtype, 4)
    stats = found[1]
    fixed, reference = kernels("native_batch_norm_fixed")
    args = (x, weight, bias, stats[0], stats[2], 0.1)
    check_close((with_threads(fixed, *args),), (reference(*[double(v) for v in args]),), dtype, 4)
    back, reference = kernels("native_batch_norm_backward")
    per_channel = x.size // c
    for training, biased in itertools.product((True, False), repeat=2):
        args = (grad, x, weight, stats, training, 0.1, biased)
        found = with_threads(back, *args)
        check_close(found, reference(*[double(v) for v in args]), dtype, 4 + per_channel**0.5)
        plain = reference(*args)
        assert [a.dtype for a in found] == [b.dtype for b in plain]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "shape, groups", [((2, 6, 4, 5), 3), ((3, 4), 2), ((2, 3, 2000), 1), ((0, 4, 2), 2)]
)
@pytest.mark.parametrize("weighted", [True, False])
def test_group_norm(dtype, shape, groups, weighted):
    rng = np.random.default_rng(6)
    x, grad = draw(rng, shape, dtype) - dtype(2), draw(rng, shape, dtype)
    c = shape[1]
    weight, bias = (draw(rng, c, dtype), draw(rng, c, dtype)) if weighted else (None, None)
    ours, reference = kernels("native_group_norm")
    found = with_threads(ours, x, weight, bias, groups, 0.1)
    wide = reference(double(x), double(weight), double(bias), groups, 0.1)
    if not x.size:
        assert [a.shape for a in found] == [b.shape for b in wide]
        return
    check_close(found, wide, dtype, 4)
    back, reference = kernels("native_group_norm_backward")
    for biased in (True, False):
        args = (grad, x, found[1], found[2], weight, groups, 0.1, biased)
        made = with_threads(back, *args)
        check_close(made, reference(*[double(v) for v in args]), dtype, 4 + (x.size // c) ** 0.5)
        assert [a.dtype for a in made] == [b.dtype for b in reference(*args)]


def test_norms_of_what_is_not_finite_or_not_dense():
    rng = np.random.default_rng(7)
    x = draw(rng, (2, 3, 4, 5), np.float32)
    ours, reference = kernels("native_batch_norm")
    x[0, 1, 2, 3] = np.inf
    x[1, 2, 0, 0] = np.nan
    for a in (x, x.transpose(0, 1, 3, 2), x[..., ::2]):
        found = ours(a, None, None, 1e-5, a.dtype)
        expected = reference(a, None, None, 1e-5, a.dtype)
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-4, atol=1e-5)
        assert found[0].strides == expected[0].strides


# ------------------------------------------------------------------ pooling

WINDOWS = [  # size, kernel, stride, padding, windows
    ((8, 8), (2, 2), (2, 2), (0, 0), (4, 4)),
    ((15, 29), (2, 2), (2, 2), (0, 0), (7, 14)),  # pairs, with a row and a column left over
    ((30, 101), (2, 2), (2, 2), (0, 0), (15, 50)),
    ((4, 514), (2, 2), (2, 2), (0, 0), (2, 257)),
    ((7, 9), (3, 2), (2, 1), (1, 1), (4, 10)),
    ((7, 7), (3, 3), (3, 3), (0, 0), (3, 3)),  # ceil_mode: the last windows reach out
    ((5, 6), (5, 6), (1, 1), (0, 0), (1, 1)),
    ((4, 700), (2, 3), (1, 2), (0, 1), (3, 350)),
    ((6, 6), (3, 3), (1, 1), (1, 1), (6, 6)),
    ((11, 5), (2, 1), (4, 3), (0, 0), (3, 2)),
    ((9, 31), (2, 2), (2, 2), (0, 0), (4, 15)),
    ((4, 9), (2, 2), (2, 2), (0, 0), (2, 5)),  # ceil_mode
]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("windows", WINDOWS, ids=str)
@pytest.mark.parametrize("lead", [(2, 3), (4,), (0, 2)], ids=str)
def test_max_pool(dtype, windows, lead):
    rng = np.random.default_rng(8)
    size, kernel, stride, padding, out = windows
    x = np.round(draw(rng, (*lead, *size), dtype), 1)  # many are equal
    spoiled = x.copy()
    spoiled[rng.random(x.shape) < 0.1] = np.nan
    spoiled[rng.random(x.shape) < 0.3] = -np.inf
    geometry = (kernel, stride, padding, (1, 1), out)
    for a in (x, spoiled, np.full_like(x, -np.inf), x[..., ::-1]):
        for name in ("max_pool2d", "max_pool2d_with_indices", "max_pool_indices"):
            ours, reference = kernels(name)
            found, expected = with_threads(ours, a, *geometry), reference(a, *geometry)
            if name != "max_pool2d_with_indices":
                found, expected = (found,), (expected,)
            for f, e in zip(found, expected, strict=True):
                np.testing.assert_array_equal(f, e)
                assert f.dtype == e.dtype
    indices = kernels("max_pool_indices")[1](x, *geometry)
    grad = np.round(draw(rng, (*lead, *out), dtype) * 8)  # sums are exact
    ours, reference = kernels("max_pool2d_backward")
    found = with_threads(ours, grad, indices, size, False)
    np.testing.assert_array_equal(found, reference(grad, indices, size, False))


def test_dilated_max_pool():
    x = draw(np.random.default_rng(9), (1, 2, 9, 9), np.float32)
    geometry = ((2, 2), (1, 1), (1, 1), (3, 3), (8, 8))
    ours, reference = kernels("max_pool2d_with_indices")
    for f, e in zip(ours(x, *geometry), reference(x, *geometry), strict=True):
        np.testing.assert_array_equal(f, e)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("windows", WINDOWS, ids=str)
@pytest.mark.parametrize("count_padding", [True, False])
@pytest.mark.parametrize("override", [None, 3, -2])
def test_avg_pool(dtype, windows, count_padding, override):
    rng = np.random.default_rng(10)
    size, kernel, stride, padding, out = windows
    for lead in ((2, 3), (0,)):
        x = np.round(draw(rng, (*lead, *size), dtype) * 8)  # sums are exact
        grad = draw(rng, (*lead, *out), dtype)
        how = (kernel, stride, padding, out, count_padding, override)
        ours, reference = kernels("avg_pool2d")
        found = with_threads(ours, x, *how)
        np.testing.assert_array_equal(found, reference(x, *how))
        assert found.dtype == dtype
        ours, reference = kernels("avg_pool2d_backward")
        found = with_threads(ours, grad, size, *how)
        wide = reference(grad.astype(np.float64), size, *how)
        # As many shares are added up as windows overlap.
        np.testing.assert_allclose(found, wide, rtol=0, atol=64 * np.finfo(dtype).eps)


@pytest.mark.parametrize("transposed", [False, True])
def test_shapes_that_do_not_go_together_never_reach_the_kernels(transposed):
    """Internal callers could pass them; kernels in C would read what is not there."""
    x, w = np.ones((4, 20, 300), np.float32), np.ones((384, 20, 3), np.float32)
    how = ((1,), (1,), (1,), transposed, (0,), 4)
    for name, args in (
        ("convolution", (x, w, None, *how)),
        ("conv_input_grad", (np.ones((4, 384, 300), np.float32), w, x.shape, how)),
        ("conv_weight_grad", (np.ones((4, 80, 90), np.float32), x, w.shape, how)),
    ):
        reference = NUMPY.kernel(REGISTRY[name])
        try:
            expected = reference(*args)
        except ValueError as error:
            with pytest.raises(ValueError, match=re.escape(str(error))):
                REGISTRY[name].kernel(*args)
        else:
            np.testing.assert_array_equal(REGISTRY[name].kernel(*args), expected)


VOLUMES = [  # size, kernel, stride, padding, gaps, windows
    ((4, 6, 6), (2, 2, 2), (2, 2, 2), (0, 0, 0), (1, 1, 1), (2, 3, 3)),
    ((3, 5, 7), (2, 3, 3), (1, 2, 2), (1, 1, 1), (1, 1, 1), (4, 3, 4)),
    ((5, 7, 6), (3, 2, 3), (2, 1, 2), (1, 0, 1), (2, 3, 1), (2, 4, 3)),
    ((1, 1, 3), (1, 1, 3), (1, 1, 1), (0, 0, 1), (1, 1, 1), (1, 1, 3)),
]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("volume", VOLUMES, ids=str)
def test_windows_of_volumes(dtype, volume):
    rng = np.random.default_rng(12)
    size, kernel, stride, padding, gaps, out = volume
    x = np.round(draw(rng, (2, 3, *size), dtype) * 8)  # sums are exact, and many are equal
    grad = np.round(draw(rng, (2, 3, *out), dtype) * 8)
    spoiled = x.copy()
    spoiled[rng.random(x.shape) < 0.1] = np.nan
    spoiled[rng.random(x.shape) < 0.3] = -np.inf
    for a in (x, spoiled, x[..., ::-1]):
        ours, reference = kernels("max_pool3d_with_indices")
        expected = reference(a, kernel, stride, padding, gaps, out)
        for f, e in zip(
            with_threads(ours, a, kernel, stride, padding, gaps, out), expected, strict=True
        ):
            np.testing.assert_array_equal(f, e)
            assert f.dtype == e.dtype
    ours, reference = kernels("max_pool3d_backward")
    found = with_threads(ours, grad, expected[1], size, False)
    np.testing.assert_array_equal(found, reference(grad, expected[1], size, False))
    if gaps != (1, 1, 1):
        return
    for counted, override in ((True, None), (False, None), (True, 4)):
        how = (kernel, stride, padding, out, counted, override)
        ours, reference = kernels("avg_pool3d")
        np.testing.assert_array_equal(with_threads(ours, x, *how), reference(x, *how))
        ours, reference = kernels("avg_pool3d_backward")
        found, expected = with_threads(ours, grad, size, *how), reference(grad, size, *how)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("sizes", [((5, 4), (3, 2)), ((3, 6, 4), (2, 3, 5)), ((2, 3), (4, 7))])
def test_windows_that_tile(dtype, sizes):
    size, out = sizes
    rng = np.random.default_rng(13)
    x, grad = draw(rng, (2, 3, *size), dtype), draw(rng, (2, 3, *out), dtype)
    name = f"adaptive_avg_pool{len(size)}d"
    for which, argument, shape in ((name, x, out), (f"{name}_backward", grad, size)):
        ours, reference = kernels(which)
        found, expected = with_threads(ours, argument, shape), reference(argument, shape)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
        assert found.dtype == dtype and found.shape == expected.shape
    x[0, 0].flat[3] = np.nan
    x[1] = np.round(x[1])
    ours, reference = kernels(f"adaptive_max_pool{len(size)}d")
    expected = reference(x, out)
    for f, e in zip(with_threads(ours, x, out), expected, strict=True):
        np.testing.assert_array_equal(f, e)
    ours, reference = kernels(f"adaptive_max_pool{len(size)}d_backward")
    found = with_threads(ours, np.round(grad * 8), expected[1], size)
    np.testing.assert_array_equal(found, reference(np.round(grad * 8), expected[1], size))
