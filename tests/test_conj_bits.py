"""Conjugate and negative views: a tensor that shows the same values in another way is the same.

What PyTorch answers to small programs with them stands in programs/prog_conj.py.
"""

import numpy as np
import pytest

import tapegrad as torch
from table import PURE, SAMPLED, call, draw, seed_of, tensors_in
from tapegrad.core.base import wrap
from tapegrad.ops.block.definition import APIS

# What they return depends on the layout in memory, or is a view that a bit forbids.
MEMORY = {"empty_like", "new_empty", "new_empty_strided", "from_dlpack", "view_as_real"}


def as_complex(array):
    """The array with imaginary parts, where it has real ones only."""
    if array.dtype.kind != "f":
        return array
    return np.asarray(array + 1j * np.cos(np.arange(array.size)).reshape(array.shape) / 2)


def conjugate(array):
    """A tensor with these values that is a conjugate view."""
    array = as_complex(array)
    return wrap(np.asarray(np.conj(array))).conj() if array.dtype.kind == "c" else wrap(array)


def negative(array):
    """A tensor with these values that is a negative view."""
    return wrap(np.asarray(-array))._neg_view() if array.dtype.kind in "fc" else wrap(array)


KINDS = {
    "conj": (lambda array: wrap(as_complex(array)), conjugate),
    "neg": (wrap, negative),
}


def outcome(name, index, make):
    """What a call gives, as plain arrays; the error, if it is one."""
    args, kwargs, made = draw(name, index, make)
    try:
        result = tensors_in(call(name, args, kwargs))
    except Exception as error:
        return type(error), [], made
    return None, [np.asarray(t.detach().numpy(force=True)) for t in result], made


def compare(found, expected):
    assert found[0] == expected[0]
    assert len(found[1]) == len(expected[1])
    for got, want in zip(found[1], expected[1], strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, 1e-6, 1e-12)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [name for name in SAMPLED if name not in MEMORY])
def test_every_function(name, kind):
    """Whatever a function makes of some values it makes of a view that shows them."""
    usual, turned = KINDS[kind]
    for index in range(len(APIS[name].samples)):
        expected = outcome(name, index, usual)
        found = outcome(name, index, turned)
        compare(found, expected)
        for got, want in zip(found[2], expected[2], strict=True):  # as they are after the call
            np.testing.assert_allclose(got.numpy(force=True), want.numpy(force=True), 1e-6, 1e-12)


def leaf_behind(kind, array):
    """A leaf, and a view of it that shows `array`: the second makes gradients go through bits."""
    if kind == "conj":
        array = as_complex(array)
    if array.dtype.kind not in ("fc" if kind == "neg" else "c"):
        return None, wrap(array)
    turned = np.asarray(np.conj(array) if kind == "conj" else -array)
    leaf = wrap(turned).requires_grad_()
    return leaf, leaf.conj() if kind == "conj" else leaf._neg_view()


def gradients(name, index, make):
    """The gradients of a weighted sum of the results for the leaves; None where there are none."""
    leaves = []

    def collect(array):
        leaf, seen = make(array)
        leaves.append(leaf)
        return seen

    args, kwargs, _ = draw(name, index, collect)
    asked = [leaf for leaf in leaves if leaf is not None]
    if not asked:
        return None
    try:
        result = tensors_in(call(name, args, kwargs))
    except Exception:
        return None  # test_every_function has seen it
    result = [t for t in result if t.requires_grad]
    rng = np.random.default_rng(seed_of(name, index))
    seeds = [wrap(rng.normal(size=tuple(t.shape)).astype(dtype_of(t))) for t in result]
    try:
        return torch.autograd.grad(result, asked, seeds, allow_unused=True) if result else None
    except (RuntimeError, NotImplementedError):
        return None  # it has no gradient, or depends on a phase


def dtype_of(t):
    return t.detach().numpy(force=True).dtype


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [name for name in PURE if name not in MEMORY])
def test_every_gradient(name, kind):
    """Gradients through such a view are those of its values, conjugated or negated."""

    def usual(array):
        array = as_complex(array) if kind == "conj" else array
        t = wrap(array)
        ours = array.dtype.kind in ("c" if kind == "conj" else "fc")
        return (t.requires_grad_(), t) if ours else (None, t)

    for index in range(len(APIS[name].samples)):
        expected = gradients(name, index, usual)
        found = gradients(name, index, lambda array: leaf_behind(kind, array))
        assert (found is None) == (expected is None)
        for got, want in zip(found or (), expected or (), strict=True):
            assert (got is None) == (want is None)
            if want is not None:
                turned = np.conj(want.numpy()) if kind == "conj" else -want.numpy()
                np.testing.assert_allclose(got.numpy(), turned, 1e-6, 1e-10)


# The one write that lets its target grow, unless it is a view.
GROWS = "addbmm"
WRITES = [name for name in PURE if name != GROWS and hasattr(torch.Tensor, f"{name}_")]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", WRITES)
def test_every_write(name, kind):
    """A write to such a view is seen in the memory that it was made from, turned round."""
    usual, turned = KINDS[kind]
    write = getattr(torch.Tensor, f"{name}_")
    for index in range(len(APIS[name].samples)):
        expected = written(write, *draw(name, index, usual)[:2])
        args, kwargs, _ = draw(name, index, turned)
        found = written(write, args, kwargs)
        if isinstance(expected, tuple):
            assert found == expected
            continue
        np.testing.assert_allclose(found, expected, 1e-6, 1e-12)
        base = args[0]._base
        if base is not None:
            assert base._version == 1
        if base is not None and base.shape == args[0].shape:
            np.testing.assert_array_equal(base.numpy(), found.conj() if kind == "conj" else -found)


def written(write, args, kwargs):
    """The target after a write; class and first line of the error, if it is one."""
    torch.manual_seed(0)
    try:
        assert write(*args, **kwargs) is args[0]
    except Exception as error:
        return type(error), str(error).partition("\n")[0]
    return args[0].numpy(force=True)


# ---------------------------------------------------------------------- memory


Z = [1 + 2j, 3 - 4j, -0.5 - 1j]


def test_shares_memory():
    x = torch.tensor(Z)
    c = x.conj()
    assert c.is_conj() and not x.is_conj() and not c.conj().is_conj()
    assert c.data_ptr() == x.data_ptr() and c._base is x
    c[0] = 5j
    assert x[0].item() == -5j and x._version == c._version == 1
    x[1] = 1 + 1j
    assert c[1].item() == 1 - 1j
    i = c.imag
    assert i.is_neg() and i.data_ptr() == x.imag.data_ptr()
    i.fill_(3.0)
    np.testing.assert_array_equal(x.imag.numpy(), [-3, -3, -3])


def test_two_bits():
    """A conjugated and negated view, seen in every part."""
    x = torch.tensor(Z)
    both = x.conj()._neg_view()
    value = -np.conj(np.array(Z, np.complex64))
    np.testing.assert_array_equal(both.numpy(force=True), value)
    np.testing.assert_array_equal(both.real.numpy(force=True), value.real)
    np.testing.assert_array_equal(both.imag.numpy(force=True), value.imag)
    assert (both.real.is_neg(), both.imag.is_neg()) == (True, False)
    both.mul_(2j)
    np.testing.assert_array_equal(x.numpy(), -np.conj(value * np.complex64(2j)))


def test_nothing_is_copied_for_backward():
    """A node keeps the memory of a conjugate view, not a copy of its values."""
    x = torch.tensor(Z, requires_grad=True)
    y = x.conj() * x
    assert y.grad_fn._saved_self.data_ptr() == x.data_ptr()
    y.real.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.array(Z))


def test_write_through_differentiates():
    """x' = conj(conj(x) w): the gradient of Re(sum(u x')) is conj(u) w."""
    leaf = torch.tensor(Z, dtype=torch.complex128, requires_grad=True)
    w, u = torch.tensor([1 - 1j, 2j, 0.5], dtype=torch.complex128), 3 - 2j
    x = leaf * 1
    x.conj().mul_(w)
    (x * u).real.sum().backward()
    np.testing.assert_allclose(leaf.grad.numpy(), np.conj(u) * w.numpy())


def test_gradients_have_no_bits():
    """Unlike PyTorch's, so that `x.grad.numpy()` always works."""
    x = torch.tensor(Z, requires_grad=True)
    x.conj().clone().real.sum().backward()
    assert not x.grad.is_conj()
    assert x.grad.numpy().tolist() == [1, 1, 1]


def test_batches():
    """vmap of negative views, which PyTorch refuses."""
    x = torch.tensor([Z, Z])
    found = torch.func.vmap(lambda t: t.conj().imag * 2)(x)
    np.testing.assert_array_equal(found.numpy(), -2 * np.imag([Z, Z]))


def test_array_protocols():
    """Whoever reads the array of such a tensor with NumPy gets the values."""
    array = torch.tensor(Z).conj()._array
    value = np.conj(np.array(Z, np.complex64))
    for found in (
        np.asarray(array),
        array.copy(),
        array + 0,
        np.multiply(array, 1),
        array.reshape(-1),
    ):
        np.testing.assert_array_equal(found, value)
    assert array.tolist() == value.tolist() and array.sum() == value.sum()
    assert np.asarray(array, np.complex128).dtype == np.complex128
    out = np.add(array, 1, out=array)
    assert out is array
    np.testing.assert_array_equal(array, value + 1)


def test_no_copy_means_no_copy():
    with pytest.raises(ValueError, match="copy"):
        np.asarray(torch.tensor(Z).conj()._array, copy=False)
