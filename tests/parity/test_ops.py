"""The table of functions under PyTorch and tapegrad: the same samples, the same everything."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import tapegrad
from table import APIS, SAMPLED, call, draw, find, tensors_in
from tapegrad.core.base import wrap

torch.set_num_threads(1)
pytestmark = pytest.mark.filterwarnings("ignore")

TOLERANCE = {
    "float64": (1e-9, 1e-11),
    "float32": (2e-5, 2e-6),
    "float16": (4e-3, 2e-3),
    "complex64": (2e-5, 2e-6),
    "complex128": (1e-9, 1e-11),
}
# Vectors whose sign or phase LAPACK chooses: opdb.py compares what is well defined.
UP_TO_SIGN = {"linalg.eig", "linalg.eigh", "linalg.svd", "pca_lowrank", "svd", "svd_lowrank"}
# PyTorch's gradient is that of the part that was replaced; its own tests expect it to be wrong.
# The second one takes norms for constants, which its gradgradcheck notices.
WRONG_IN_PYTORCH = {"_weight_norm", "as_strided_scatter"}
# Products of many rotations: each entry of their gradients has the error of the largest ones, and
# which one it is depends on the machine's LAPACK.
ROTATIONS = {"linalg.householder_product", "linalg.qr", "orgqr", "ormqr", "qr"}
# PyTorch has no gradient for it, and says so when it is called.
ONLY_OURS_HAS_A_GRADIENT = {"view_as_complex_copy"}
# Made of other ops here, so that their nodes have other names.
COMPOSED = {"frobenius_norm", "segment_reduce"}
CASTS: dict[str, Any] = {
    "int64": lambda a: (a * 3).astype("int64"),
    "bool": lambda a: a > 0,
    "float16": lambda a: a.astype("float16"),
    "complex64": lambda a: (a + 1j * a[..., ::-1] if a.ndim else a + 0.5j).astype("complex64"),
}


def attempt(function: Any, *args: Any, **kwargs: Any) -> Any:
    """The result of a call, or the exception that it raised."""
    try:
        return function(*args, **kwargs)
    except Exception as error:
        return error


class Library:
    """One of the two, with what differs between them."""

    def __init__(self, module: Any, wrapped: Any) -> None:
        self.module = module
        self.wrapped = wrapped

    def draw(self, name: str, index: int, cast: Any, grad: bool) -> Any:
        def make(array: Any) -> Any:
            floats = array.dtype.kind == "f"
            t = self.wrapped(np.asarray(cast(array)) if floats else array)
            return t.requires_grad_() if grad and floats else t

        return draw(name, index, make)

    def run(self, name: str, args: Any, kwargs: Any) -> Any:
        if self.module is tapegrad:
            return attempt(call, name, args, kwargs)
        torch.manual_seed(0)
        return attempt(find(torch, APIS[name]), *args, **kwargs)

    def seeds(self, outs: list[Any]) -> list[Any]:
        made = []
        for t in outs:
            w = np.linspace(0.5, 1.5, t.numel()).reshape(tuple(t.shape))
            made.append(self.wrapped(w.astype(str(t.dtype)[6:])).requires_grad_())
        return made


REAL = Library(torch, torch.from_numpy)
OURS = Library(tapegrad, wrap)


def array(t: Any) -> Any:
    return t._array if isinstance(t, tapegrad.Tensor) else t.numpy(force=True)


def same_tensor(got: Any, want: Any, what: str, strides: bool = True, largest: float = 0.0) -> None:
    assert str(got.dtype) == str(want.dtype), what
    assert tuple(got.shape) == tuple(want.shape), what
    rtol, atol = TOLERANCE.get(str(want.dtype)[6:], (0, 0))
    atol = max(atol, rtol * largest)
    np.testing.assert_allclose(array(got), array(want), rtol=rtol, atol=atol, err_msg=what)
    if strides and want.numel():
        wide = [d for d in range(want.dim()) if want.shape[d] > 1]
        assert [got.stride(d) for d in wide] == [want.stride(d) for d in wide], what


def same_result(got: Any, want: Any, what: str, strides: bool = True) -> None:
    """Equal results, or exceptions of one class."""
    if isinstance(want, Exception):
        assert type(got).__name__ == type(want).__name__, f"{what}: {want} / {got!r}"
        return
    if any([t.dtype is torch.complex32 for t in tensors_in(want, torch.Tensor)]):
        # NumPy has no such dtype: it is refused, not answered in another one.
        assert isinstance(got, NotImplementedError) and "complex32" in str(got), f"{what}: {got!r}"
        return
    if isinstance(got, Exception):
        raise AssertionError(f"{what}: {got!r}") from got
    ours, theirs = tensors_in(got), tensors_in(want, torch.Tensor)
    assert len(ours) == len(theirs), what
    if not theirs:
        assert got == want, what
    for g, w in zip(ours, theirs, strict=True):
        same_tensor(g, w, what, strides)
        assert g.requires_grad == w.requires_grad, what
        if w.grad_fn is not None and what.split(",")[0] not in COMPOSED:
            assert g.grad_fn.name() == w.grad_fn.name(), what


def sampled(name: str) -> range:
    return range(len(APIS[name].samples))


@pytest.mark.parametrize("name", [n for n, a in APIS.items() if a.function or a.method])
def test_exists(name):
    assert find(torch, APIS[name]) is not None, "not a PyTorch name"


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("name", [n for n in SAMPLED if n not in UP_TO_SIGN])
def test_values_and_gradients(name, precision):
    writes = name.endswith("_") or name in ONLY_OURS_HAS_A_GRADIENT
    for index in sampled(name):
        found = []
        for library in (OURS, REAL):
            args, kwargs, made = library.draw(
                name, index, lambda a: a.astype(precision), not writes
            )
            found.append((library, made, library.run(name, args, kwargs)))
        what = f"{name}, sample {index}"
        same_result(found[0][2], found[1][2], what)
        if not isinstance(found[1][2], Exception) and name not in WRONG_IN_PYTORCH:
            same_gradients(found, what, by_norm=name in ROTATIONS)


def same_gradients(found: list[Any], what: str, by_norm: bool = False) -> None:
    rows = []
    for library, made, result in found:
        cls = library.module.Tensor
        leaves = [t for t in made if t.requires_grad]
        outs = [t for t in tensors_in(result, cls) if t.requires_grad]
        if not outs:
            return
        seeds = library.seeds(outs)
        grad = library.module.autograd.grad
        first = attempt(grad, outs, leaves, seeds, create_graph=True, allow_unused=True)
        if isinstance(first, Exception):
            rows.append(first)
            continue
        rooted = [g for g in first if g is not None and g.requires_grad]
        second: Any = [None] * (len(leaves) + len(seeds))
        if rooted:
            weights = library.seeds(rooted)
            second = attempt(grad, rooted, [*leaves, *seeds], weights, allow_unused=True)
        if isinstance(second, Exception) and "not implemented" in str(second):
            # PyTorch ends here; where only tapegrad does, the rows are not of one length below.
            rows, second = [row[: len(first)] for row in rows], []
        rows.append([*first, *second])
    if isinstance(rows[1], Exception) or isinstance(rows[0], Exception):
        assert type(rows[0]) is type(rows[1]), f"{what}: {rows}"
        return
    largest = 0.0
    if by_norm:
        largest = max(
            [float(np.abs(array(t)).max(initial=0)) for t in rows[1] if t is not None], default=0.0
        )
    for got, want in zip(*rows, strict=True):
        if got is None or want is None:
            # PyTorch leaves some zeros out and makes others.
            other = want if got is None else got
            assert other is None or not array(other).any(), f"{what}: gradients"
        else:
            same_tensor(got, want, f"{what}: gradients", strides=False, largest=largest)


@pytest.mark.parametrize("kind", list(CASTS))
@pytest.mark.parametrize("name", [n for n in SAMPLED if n not in UP_TO_SIGN])
def test_other_dtypes(name, kind):
    if (name, kind) == ("_neg_view", "bool"):
        pytest.skip("PyTorch makes such a view, and cannot read it")
    for index in sampled(name):
        results = []
        for library in (OURS, REAL):
            args, kwargs, _ = library.draw(name, index, CASTS[kind], False)
            results.append(library.run(name, args, kwargs))
        same_result(results[0], results[1], f"{name}, sample {index}, {kind}")


@pytest.mark.parametrize("name", [n for n in SAMPLED if APIS[n].inplace])
def test_in_place_form(name):
    for index in sampled(name):
        results = []
        for library in (OURS, REAL):
            args, kwargs, made = library.draw(name, index, lambda a: a.astype("float32"), True)
            if args[0] is not made[0]:
                break  # the sample does not begin with a tensor
            target = args[0].clone()
            library.module.manual_seed(0)
            method = getattr(library.module.Tensor, name + "_", None)
            results.append((library, made, attempt(method, target, *args[1:], **kwargs)))
        if not results:
            continue
        what = f"{name}_, sample {index}"
        same_result(results[0][2], results[1][2], what)
        if not isinstance(results[1][2], Exception):
            same_gradients(results, what)


def test_in_place_functions():
    """`torch.exp_(x)`: the in-place methods that PyTorch also has as functions."""
    written = [n for n in dir(torch) if n.endswith("_") and not n.startswith("_")]
    missing = [n for n in written if hasattr(tapegrad.Tensor, n) and not hasattr(tapegrad, n)]
    assert not missing
    x = tapegrad.tensor([-1.0, 2.0])
    assert tapegrad.relu_(x) is x and x.tolist() == [0.0, 2.0]
