"""Kernels made from blocks against the blocks themselves: the same formulas, on NumPy."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import tapegrad
from table import APIS, SAMPLED, call, draw
from tapegrad.core.base import quiet
from tapegrad.core.op import REGISTRY
from tapegrad.core.spaces import RAW
from tapegrad.native import KERNELS

pytestmark = [
    pytest.mark.skipif(KERNELS is None, reason="the kernels in C are not built"),
    pytest.mark.filterwarnings("ignore"),
]
# Both sides are within a unit or two in the last place of each step; formulas are short.
ULPS = 16
DTYPES = ["float32", "float64"]


class OnNumPy:
    """F for rules: the forwards of the blocks, on NumPy."""

    recorded = False

    def __getattr__(self, name):
        op = REGISTRY.get(name)
        return getattr(RAW, name) if op is None else functools.partial(op.forward, np)


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


CORNERS = [0.0, 1.0, 0.5, 2.0, 3.7, 20.0, 88.0, 110.0, 1e10, 1e38, 1e-10, 1e-38, 1e-45, np.inf]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "name", [op.name for op in REGISTRY.values() if op.native and not op.attrs and op.width < 3]
)
def test_corners(name, dtype):
    """NaN, infinities, signed zeros, and numbers that overflow or are subnormal."""
    op = REGISTRY[name]
    line = np.array([*CORNERS, *[-x for x in CORNERS], np.nan], dtype)
    args = [line] if op.width == 1 else [a.reshape(-1) for a in np.meshgrid(line, line)]
    if not op.kernel.has_program(*args):
        pytest.skip("runs on NumPy")
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
