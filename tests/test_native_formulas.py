"""Kernels made from blocks against the blocks themselves: the same formulas, on NumPy."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import tapegrad
from table import APIS, SAMPLED, call, draw
from tapegrad.core.base import quiet
from tapegrad.core.host_arrays import host
from tapegrad.core.op import REGISTRY
from tapegrad.core.rule_functions import RAW
from tapegrad.expressions.expressions import PORTABLE, PRIMITIVES
from tapegrad.kernels.cpu import KERNELS

pytestmark = [
    pytest.mark.skipif(KERNELS is None, reason="the kernels in C are not built"),
    pytest.mark.filterwarnings("ignore"),
]
# Both sides are within a unit or two in the last place of each step; formulas are short.
ULPS = 16
DTYPES = ["float32", "float64"]


@pytest.fixture
def rng():
    return np.random.default_rng(0)


class OnNumPy:
    """F for rules: the forwards of the blocks, on NumPy."""

    recorded = False

    def __getattr__(self, name):
        op = REGISTRY.get(name)
        return getattr(RAW, name) if op is None else functools.partial(op.forward, host)


class Watched:
    """An op's kernel and gradients, compared with the block whenever they run."""

    def __init__(self, op):
        self.op = op
        self.kernel = op.kernel
        self.gradients = op.gradients
        self.runs = 0

    def forward(self, *args):
        found = self.kernel(*args)
        if args and self.kernel.has_program(*args):
            self.runs += 1
            same(found, quiet(self.op.forward, np, *args), f"{self.op.name}{args}")
        return found

    def pull(self, grad, kept, edges):
        found = self.gradients(grad, kept, edges)
        if found is not None:
            self.runs += 1
            for rule, edge, got in zip(self.op.rules, edges, found, strict=True):
                if edge is not None and rule is not None:
                    want = quiet(rule.call, OnNumPy(), grad, kept)
                    same(got, want, f"gradient of {self.op.name}")
        return found


def same(got, want, what):
    for g, w in zip(as_list(got), as_list(want), strict=True):
        w = np.asarray(w)
        assert (g.dtype, g.shape) == (w.dtype, w.shape), what
        if w.dtype == bool:
            np.testing.assert_array_equal(g, w, what)
            continue
        eps = np.finfo(w.dtype).eps
        # What is left of two large numbers has their error, so a sample's largest value counts.
        scale = np.abs(w, where=np.isfinite(w), out=np.zeros_like(w)).max(initial=1.0)
        np.testing.assert_allclose(g, w, rtol=ULPS * eps, atol=ULPS * eps * scale, err_msg=what)


def as_list(x):
    return list(x) if isinstance(x, tuple) else [x]


@pytest.fixture
def watch():
    """Every native op under observation."""
    made = {op.name: Watched(op) for op in REGISTRY.values() if op.native}
    for one in made.values():
        one.op.kernel = one.forward
        if one.gradients is not None:
            one.op.gradients = one.pull
    yield made
    for one in made.values():
        one.op.kernel = one.kernel
        one.op.gradients = one.gradients


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SAMPLED)
def test_formulas(name, dtype, watch):
    for index in range(len(APIS[name].samples)):

        def make(array):
            if array.dtype.kind != "f":
                return tapegrad.tensor(array)
            return tapegrad.tensor(array.astype(dtype)).requires_grad_()

        args, kwargs, _ = draw(name, index, make)
        try:
            result = call(name, args, kwargs)
            outs = [t for t in as_list(result) if isinstance(t, tapegrad.Tensor)]
            outs = [t for t in outs if t.requires_grad]
            tapegrad.autograd.backward(outs, [tapegrad.ones_like(t) for t in outs])
        except (RuntimeError, NotImplementedError):
            pass  # in-place forms refuse leaves, and some ops have no derivative


FEWEST = 100  # of 144 ops with one or two tensors and nothing else; 103 were counted
CORNERS = [0.0, 1.0, 0.5, 2.0, 3.7, 20.0, 88.0, 110.0, 1e10, 1e38, 1e-10, 1e-38, 1e-45, np.inf]


def corners(op, dtype):
    """NaN, infinities, signed zeros, and numbers that overflow or are subnormal, in all pairs."""
    line = np.array([*CORNERS, *[-x for x in CORNERS], np.nan], dtype)
    return [line] if op.width == 1 else [a.reshape(-1) for a in np.meshgrid(line, line)]


PLAIN = [op for op in REGISTRY.values() if op.native and not op.attrs and op.width < 3]
PROGRAMS = [op.name for op in PLAIN if op.kernel.has_program(*corners(op, np.float32))]


def test_formulas_become_programs():
    """Were they all refused, the tests above and below would compare nothing."""
    assert len(PROGRAMS) >= FEWEST
    assert set(PRIMITIVES) | {"copy", "skip", "skipped", *PORTABLE.values()} == set(KERNELS.STEPS)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_corners(name, dtype):
    op = REGISTRY[name]
    args = corners(op, np.dtype(dtype))
    found, want = op.kernel(*args), quiet(op.forward, np, *args)
    for g, w in zip(as_list(found), as_list(want), strict=True):
        assert (g.dtype, g.shape) == (w.dtype, w.shape)
        if w.dtype == bool:
            np.testing.assert_array_equal(g, w)
            continue
        np.testing.assert_allclose(g, w, rtol=ULPS * np.finfo(dtype).eps)
        zero = w == 0
        np.testing.assert_array_equal(np.signbit(g[zero]), np.signbit(w[zero]))


def test_what_a_formula_declines():
    """Other dtypes, layouts and shapes go to NumPy, and errors are NumPy's."""
    add = REGISTRY["add"].kernel
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(add(x[:, ::2], x[:, 1::2]), x[:, ::2] + x[:, 1::2])
    assert add(x.astype(np.int64), x.astype(np.int64)).dtype == np.int64
    np.testing.assert_array_equal(add(x.T, x.T), 2 * x.T)
    assert add(x.T, x.T).flags.f_contiguous
    assert add(np.empty((0, 4), np.float32), x[0]).shape == (0, 4)
    swapped = x.astype(">f4")
    np.testing.assert_array_equal(add(swapped, swapped), 2 * x)
    odd = np.frombuffer(bytearray(17), np.uint8)[1:17].view(np.float32)
    np.testing.assert_array_equal(add(odd, odd), np.zeros(4))
    with pytest.raises(ValueError, match="broadcast"):
        add(x, np.ones(3, np.float32))


CORNERS = [0.0, -0.0, 1.0, np.inf, -np.inf, np.nan, 1e-40, 3e38, -2.5, 257.0]


PLAIN = [op.name for op in REGISTRY.values() if op.native and not op.attrs and op.width <= 2]


@pytest.mark.parametrize("half", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", PLAIN)
def test_half_precision(name, half, rng):
    """The block on NumPy rounds after every step, and so does the program: bit for bit."""
    pytest.importorskip("ml_dtypes")
    op = REGISTRY[name]
    drawn = np.concatenate([rng.normal(size=500), CORNERS]).astype(getattr(tapegrad, half).np)
    pair = (drawn, drawn[rng.permutation(drawn.size)])
    for shape in [(510,), (17, 30), (0, 3)]:
        args = [x[: int(np.prod(shape))].reshape(shape) for x in pair][: op.width]
        try:
            want = quiet(op.forward, np, *args)
        except (KeyError, TypeError, RuntimeError):
            return  # no kernel for it, or not of half precision
        for got, each in zip(as_list(op.kernel(*args)), as_list(want), strict=True):
            each = np.asarray(each)
            assert (got.dtype, got.shape) == (each.dtype, each.shape)
            np.testing.assert_array_equal(got.astype(np.float64), each.astype(np.float64))


def test_bfloat16_with_numbers_and_views(rng):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = rng.normal(size=(6, 40)).astype(ml_dtypes.bfloat16)
    mul, add = REGISTRY["mul"].kernel, REGISTRY["add"].kernel
    assert mul.has_program(x, x)
    for a, b in [(x[:, 3:20], x[:, 4:21]), (x.T, x.T), (x, x[0]), (x[::2], x[:1]), (x, x[:, ::-1])]:
        found = mul(a, b)
        np.testing.assert_array_equal(found.astype(np.float32), (a * b).astype(np.float32))
        assert found.strides == (a * b).strides
    assert add(x, x.astype(np.float32)).dtype == np.float32
    t = tapegrad.tensor(rng.normal(size=(5, 3))).to(tapegrad.bfloat16).requires_grad_()
    (t * 0.3 + t.sigmoid()).sum().backward()
    assert t.grad.dtype == tapegrad.bfloat16


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_with_gaps(dtype, rng):
    """Columns of a matrix, every other element, several dimensions; results have no gaps."""
    x, y = (rng.normal(size=(6, 5, 40)).astype(dtype) for _ in range(2))
    add, sigmoid = REGISTRY["add"].kernel, REGISTRY["sigmoid"].kernel
    parts = [
        np.s_[:, :, 8:24], np.s_[:, 1:3], np.s_[::2, :, ::3], np.s_[1, :, 3:4], np.s_[:, :0, 2:],
        np.s_[:, 2:3, :7], np.s_[::-1], np.s_[:, :, ::-1],
    ]  # fmt: skip
    for part in parts:
        a, b = x[part], y[part]
        found = add(a, b)
        np.testing.assert_array_equal(found, a + b)
        assert found.strides == (a + b).strides
        np.testing.assert_allclose(sigmoid(a), sigmoid(a.copy()), rtol=4 * np.finfo(dtype).eps)
        np.testing.assert_array_equal(add(a, b[..., :1]), a + b[..., :1])
        np.testing.assert_array_equal(add(a[0], b), a[0] + b)
        np.testing.assert_array_equal(add(a, np.broadcast_to(b[..., :1], b.shape)), a + b[..., :1])
    tall = rng.normal(size=(5000, 6)).astype(dtype)[:, 1:4]
    np.testing.assert_array_equal(add(tall, tall), tall + tall)


@pytest.mark.parametrize("dtype", DTYPES)
def test_threads_change_nothing(dtype):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 4001)).astype(dtype)
    row = rng.standard_normal(4001).astype(dtype)
    before = KERNELS.threads()
    try:
        found = []
        for threads in (1, 2, 5):
            KERNELS.set_threads(threads)
            found.append(REGISTRY["mul"].kernel(REGISTRY["tanh"].kernel(x), row))
    finally:
        KERNELS.set_threads(before)
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)


def test_numbers_are_inputs():
    """A new number needs no new program; zeros have signs, and a NaN is no key."""
    leaky = tapegrad.nn.functional.leaky_relu
    x = tapegrad.tensor([-1.0, 2.0, 0.0])
    for slope in [0.1, 0.25, float("nan"), float("nan"), -0.0, 0.0]:
        want = np.where(x.numpy() > 0, x.numpy(), x.numpy() * np.float32(slope))
        got = leaky(x, slope).numpy()
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(np.signbit(got[:2]), np.signbit(want[:2]))
    for exponent in [0.5, 2, 2.0, 3, -1, 0.0, -0.0]:
        y = tapegrad.tensor([1.5, 2.5]) ** exponent
        np.testing.assert_allclose(y.numpy(), np.array([1.5, 2.5]) ** exponent, rtol=1e-6)


def test_real_gradients_of_complex_numbers_are_not_those_of_real_ones():
    z = tapegrad.tensor([1 + 2j, -3 + 0.5j], dtype=tapegrad.complex128, requires_grad=True)
    tapegrad.angle(
        tapegrad.tensor([1.0, 2.0], dtype=tapegrad.float64).requires_grad_()
    ).sum().backward()
    tapegrad.angle(z).sum().backward()
    x, y = z.detach().real.numpy(), z.detach().imag.numpy()
    np.testing.assert_allclose(z.grad.numpy(), (-y + 1j * x) / (x * x + y * y))


# Computed in double and rounded, with all of their branches.
BY_PARTS = """
    special_ndtri i0 special_i0e special_i1 special_i1e special_modified_bessel_k0
    special_modified_bessel_k1 special_scaled_modified_bessel_k0 special_spherical_bessel_j0
""".split()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", BY_PARTS)
def test_functions_by_parts(name, dtype, rng):
    """All branches are computed for all elements, and each element takes its own."""
    x = np.concatenate([rng.uniform(-0.1, 1.1, 3000), rng.uniform(-30, 30, 3001), [0, 1, np.nan]])
    x = x.astype(dtype)
    kernel = REGISTRY[name].kernel
    assert kernel.has_program(x)
    want = quiet(REGISTRY[name].forward, np, x)
    np.testing.assert_allclose(kernel(x), want, rtol=ULPS * np.finfo(dtype).eps)
    pairs = x[:6002].reshape(2, -1)
    np.testing.assert_array_equal(kernel(pairs.T), kernel(x)[:6002].reshape(2, -1).T)
    assert kernel(x[:0]).shape == (0,)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "name", ["digamma", "lgamma", "special_bessel_j0", "special_airy_ai", "special_erfcx"]
)
def test_branches_that_no_element_takes(name, dtype, rng):
    """Blocks in which all elements take one branch, or some of them: their bits are the same."""
    op = REGISTRY[name]
    parts = [rng.uniform(low, high, 2100) for low, high in ((0, 1), (-60, -20), (30, 90), (-9, 9))]
    x = np.concatenate(parts).astype(dtype)
    assert op.kernel.has_program(x)
    found, mixed = op.kernel(x), rng.permutation(x.size)
    np.testing.assert_array_equal(op.kernel(x[mixed]), found[mixed])
    same(found, quiet(op.forward, np, x), name)


def test_erfinv_of_single_precision(rng):
    """A primitive of its own, against the block in double."""
    steps = rng.integers(0, 0x3F800000, 1 << 17, dtype=np.uint32).view(np.float32)
    x = np.concatenate([rng.uniform(-1, 1, 1 << 17).astype(np.float32), steps, -steps])
    op = REGISTRY["erfinv"]
    want = op.forward(host, x.astype(np.float64))
    ulps = np.abs(op.kernel(x) - want) / np.spacing(np.abs(want).astype(np.float32))
    assert ulps.max() < 3
    edges = np.array([1, -1, 1.5, -2, np.inf, np.nan, 0.0, -0.0], np.float32)
    found = op.kernel(edges)
    np.testing.assert_array_equal(found, quiet(op.forward, np, edges))
    assert np.signbit(found[7]) and not np.signbit(found[6])


EDGES = [0.0, -0.0, 1, -1, 1.5, -2, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3.4e38, 88, -89, 100]


def in_all_sizes(rng, count=1 << 16):
    """Floats of every exponent, more of those near one, and the edges."""
    bits = rng.integers(0, 1 << 32, count, dtype=np.uint32).view(np.float32)
    near = rng.uniform(-1, 1, count), 1 + rng.exponential(1e-3, count), rng.normal(0, 20, count)
    return np.concatenate([bits, *near, EDGES]).astype(np.float32)


def one_unit_apart(found, want):
    """Within a unit in the last place of a float, and the same zeros, infinities and NaN."""
    with np.errstate(all="ignore"):
        rounded = want.astype(np.float32)
        np.testing.assert_array_equal(np.isnan(found), np.isnan(want))
        np.testing.assert_array_equal(np.isinf(found), np.isinf(rounded))
        np.testing.assert_array_equal(np.signbit(found)[want == 0], np.signbit(want)[want == 0])
        finite = np.isfinite(rounded)
        apart = np.abs(found[finite] - want[finite])
        assert (apart <= np.spacing(np.abs(rounded[finite]))).all()


@pytest.mark.parametrize("name", "asin acos atan sinh cosh asinh acosh atanh".split())
def test_arcs_and_their_like(name, rng):
    x, op = in_all_sizes(rng), REGISTRY[name]
    assert op.kernel.has_program(x)
    one_unit_apart(op.kernel(x), quiet(op.forward, np, x.astype(np.float64)))


@pytest.mark.parametrize("name", ["atan2", "hypot", "fmod", "remainder"])
def test_pairs_of_single_precision(name, rng):
    """Of floats of all sizes, of edges with edges, and of quotients with few and many digits."""
    x, y = in_all_sizes(rng), rng.permutation(in_all_sizes(rng))
    pairs = np.array([(a, b) for a in EDGES for b in EDGES], np.float32)
    a, b = np.concatenate([x, pairs[:, 0], x]), np.concatenate([y, pairs[:, 1], x * 0.37])
    op = REGISTRY[name]
    found = op.kernel(a, b)
    if name in ("atan2", "hypot"):
        one_unit_apart(found, quiet(op.forward, np, a.astype(np.float64), b.astype(np.float64)))
    else:  # exact
        np.testing.assert_array_equal(found, quiet(op.forward, np, a, b))
        for number in (np.float32(0.7), np.float32(-3e-30)):
            np.testing.assert_array_equal(op.kernel(a, number), quiet(op.forward, np, a, number))


SHORT_ROWS = {
    "a row for all": lambda x: (x((700, 7)), x((7,))),
    "a number for each row": lambda x: (x((700, 7)), x((700, 1))),
    "both": lambda x: (x((90, 1)), x((1, 37))),
    "channels": lambda x: (x((5, 6, 9, 9)), x((6, 1, 1))),
    "in the middle": lambda x: (x((40, 8, 11)), x((40, 1, 11))),
    "turned": lambda x: (x((33, 40)).T, x((40, 33))),
    "part of the columns": lambda x: (x((120, 64))[:, 16:32], x((120, 16))),
    "every other row": lambda x: (x((260, 12))[::2], x((130, 12))),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, "bfloat16"])
@pytest.mark.parametrize("kind", SHORT_ROWS)
def test_short_rows_are_gone_through_as_one(kind, dtype, threads, rng):
    """Values are those of operands that lie in one piece, wherever blocks begin and end."""
    if dtype == "bfloat16":
        dtype = pytest.importorskip("ml_dtypes").bfloat16
    a, b = SHORT_ROWS[kind](lambda shape: rng.normal(size=shape).astype(dtype))
    whole = [np.ascontiguousarray(x) for x in np.broadcast_arrays(a, b)]
    before = KERNELS.threads()
    KERNELS.set_threads(threads)
    try:
        for name, attributes in (
            ("add", ()),
            ("lerp_scalar", (0.3,)),
            ("lt", ()),
            ("maximum", ()),
        ):
            kernel = REGISTRY[name].kernel
            found, wanted = kernel(a, b, *attributes), kernel(*whole, *attributes)
            np.testing.assert_array_equal(found.astype(np.float64), wanted.astype(np.float64))
    finally:
        KERNELS.set_threads(before)


@pytest.mark.parametrize("name", ["exp", "tanh"])
def test_exponentials_of_single_precision(name, rng):
    """About one unit in the last place, against the C library in double."""
    bits = rng.integers(0, 0x42AE0000, 1 << 18, dtype=np.uint32)  # up to 87
    x = np.concatenate([bits.view(np.float32), -bits.view(np.float32)])
    x = np.concatenate([x, rng.normal(size=1 << 17).astype(np.float32)])
    want = getattr(np, name)(x.astype(np.float64))
    found = REGISTRY[name].kernel(x)
    ulps = np.abs(found - want) / np.spacing(np.abs(want).astype(np.float32))
    assert ulps.max() < 1.1
    edges = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-40, -1e-40, 3e38, -3e38], np.float32)
    with np.errstate(all="ignore"):
        want = getattr(np, name)(edges.astype(np.float64)).astype(np.float32)
    found = REGISTRY[name].kernel(edges)
    np.testing.assert_array_equal(found, want)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(want))


def test_gelu_of_single_precision(rng):
    """As exact as single precision goes: within two roundings of what double says."""
    x = np.concatenate([np.linspace(-14, 14, 20001), rng.normal(size=20000)]).astype(np.float32)
    made = []
    for dtype in DTYPES:
        t = tapegrad.tensor(x.astype(dtype)).requires_grad_()
        y = tapegrad.nn.functional.gelu(t)
        y.sum().backward()
        made.append((y.detach().numpy(), t.grad.numpy()))
    (value, slope), (true_value, true_slope) = made
    eps = np.finfo(np.float32).eps
    assert (np.abs(value - true_value) <= 1.5 * eps * np.abs(x)).all()
    assert np.abs(slope - true_slope).max() <= 2 * eps
    corners = tapegrad.tensor([np.inf, -np.inf, np.nan, 0.0])
    found = tapegrad.nn.functional.gelu(corners).numpy()
    np.testing.assert_array_equal(found, [np.inf, np.nan, np.nan, 0.0])


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_expanded_number(dtype):
    """As the gradient of a sum is: it lies as any other operand does, and is read once."""
    mul = REGISTRY["mul"].kernel
    x = np.arange(12, dtype=dtype).reshape(3, 4)
    g = np.broadcast_to(np.array(2.5, dtype), (3, 4))
    for a, b in (
        (x, g),
        (g, x),
        (x.T, g.T),
        (x[0], g),
        (g[:, :1], x),
        (g, g),
        (x[:, ::2], g[:, :2]),
    ):
        found, want = mul(a, b), a * b
        np.testing.assert_array_equal(found, want)
        assert (found.dtype, found.strides) == (want.dtype, want.strides)
    assert mul(x[:0], np.broadcast_to(g[0, 0], (0, 4))).shape == (0, 4)


def test_large_gradients_are_added_up_in_place(rng):
    """The engine's sums, of arrays that are worth a kernel: the result is NumPy's to the bit."""
    array = rng.normal(size=200_001).astype(np.float32)
    x = tapegrad.tensor(array).requires_grad_()
    (x * 2 + x * 3 + x * x).sum().backward()
    want = (np.float32(2) * np.ones_like(array) + np.float32(3)) + 2 * array
    np.testing.assert_allclose(x.grad.numpy(), want, rtol=1e-6, atol=1e-6)
    before, once = x.grad, x.grad.numpy().copy()
    (x * 2 + x * 3 + x * x).sum().backward()
    assert x.grad is before
    np.testing.assert_array_equal(before.numpy(), 2 * once)


@pytest.mark.parametrize("dtype", [tapegrad.float32, tapegrad.float64])
@pytest.mark.parametrize("name", ["silu", "gelu", "mish", "softplus", "elu", "logsigmoid"])
def test_bits_of_gradients_do_not_depend_on_the_layout(name, dtype):
    function = getattr(tapegrad.nn.functional, name)
    tapegrad.manual_seed(0)
    x = tapegrad.randn(40, 50, dtype=dtype)
    seed = tapegrad.randn(40, 50, dtype=dtype)

    def gradient(x, seed):
        x = x.detach().requires_grad_()
        return tapegrad.autograd.grad(function(x), x, seed)[0]

    turned = [t.t().contiguous().t() for t in (x, seed)]
    for pair in ((turned[0], seed), (x, turned[1]), turned):
        assert tapegrad.equal(gradient(*pair), gradient(x, seed))


def test_the_first_tensor_says_in_which_order_a_result_lies():
    a, b = (
        tapegrad.ones(2, 3, 4).permute(2, 0, 1).contiguous().permute(1, 2, 0),
        tapegrad.ones(2, 3, 4),
    )
    for function in (tapegrad.add, tapegrad.mul, tapegrad.maximum, tapegrad.atan2, tapegrad.fmod):
        assert function(a, b).stride() == (3, 1, 6)
        assert function(b, a).stride() == (12, 4, 1)
        assert function(b.permute(2, 1, 0), a.permute(2, 0, 1)[:4].mT).stride() == (1, 4, 12)
