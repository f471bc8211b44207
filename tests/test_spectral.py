"""Derivatives of decompositions, of losses that see no sign and no phase, real and complex."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as torch
from tapegrad.core.base import wrap

STEP = 1e-6
RNG = np.random.default_rng(7)
WEIGHTS = RNG.uniform(0.5, 1.5, (2, 4, 4))


def weights(*shape: int) -> Any:
    return wrap(WEIGHTS[(slice(None), *[slice(n) for n in shape[1:]])].copy())


def hermitian(x: Any) -> Any:
    return (x + x.mH) / 2


def of_eigh(x: Any) -> Any:
    values, vectors = torch.linalg.eigh(hermitian(x))
    first = vectors[..., :1] @ vectors[..., :1].mH
    return (values**2).sum() + (first.real * weights(*first.shape)).sum()


def of_eigvalsh(x: Any) -> Any:
    return (torch.linalg.eigvalsh(hermitian(x), UPLO="U") ** 3).sum()


def of_eig(x: Any) -> Any:
    values, vectors = torch.linalg.eig(x)
    return (values**2).abs().sum() + (vectors.abs() ** 2 * weights(*vectors.shape)).sum()


def of_svd(x: Any) -> Any:
    left, values, right = torch.linalg.svd(x, full_matrices=False)
    scale = weights(*left.shape)[..., :1, :]
    turned = (left * scale) @ right
    return (values**2).sum() + (turned.real * weights(*turned.shape)).sum()


def of_svdvals(x: Any) -> Any:
    values = torch.linalg.svdvals(x)
    return (values**3 * weights(*values.shape, 4)[..., 0]).sum()


def of_qr(x: Any) -> Any:
    q, r = torch.linalg.qr(x)
    return (q.real * weights(*q.shape)).sum() + (r.abs() ** 2 * weights(*r.shape)).sum()


def of_pinv(x: Any) -> Any:
    inverse = torch.linalg.pinv(x)
    return (inverse.abs() ** 2 * weights(*inverse.shape)).sum()


def of_cond(x: Any) -> Any:
    return torch.linalg.cond(x, "fro").sum() + torch.linalg.cond(x, 1).log().sum()


SQUARE = [(2, 3, 3)]
ANY = [(2, 3, 3), (2, 4, 2), (2, 2, 4)]
CASES = [
    (loss, shape, kind)
    for loss, shapes in (
        (of_eigh, SQUARE),
        (of_eigvalsh, SQUARE),
        (of_eig, SQUARE),
        (of_svd, ANY),
        (of_svdvals, ANY),
        (of_qr, ANY),
        (of_pinv, ANY),
        (of_cond, SQUARE),
    )
    for shape in shapes
    for kind in ("real", "complex")
]


def drawn(shape: tuple[int, ...], kind: str) -> Any:
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, shape)
    if kind == "complex":
        x = x + 1j * rng.uniform(-1, 1, shape)
    # Far from singular, and from equal eigenvalues or singular values.
    return x + np.eye(*shape[-2:]) * np.arange(2, 2 + shape[-1])


def inner(a: Any, b: Any) -> float:
    return float(np.sum(np.real(np.conj(a) * b)))


def gradient(loss: Any, x: Any) -> Any:
    leaf = wrap(x).requires_grad_()
    return torch.autograd.grad(loss(leaf), leaf)[0]._array


@pytest.mark.parametrize(("loss", "shape", "kind"), CASES)
def test_first_and_second_gradient(loss, shape, kind):
    x, way, other = drawn(shape, kind), *np.random.default_rng(5).uniform(-1, 1, (2, *shape))
    if kind == "complex":
        way, other = way - 0.5j * other, other + 0.25j * way
    slope = (loss(wrap(x + STEP * way)).item() - loss(wrap(x - STEP * way)).item()) / (2 * STEP)
    leaf = wrap(x).requires_grad_()
    (first,) = torch.autograd.grad(loss(leaf), leaf, create_graph=True)
    assert inner(way, first._array) == pytest.approx(slope, rel=1e-5, abs=1e-6)
    bend = (gradient(loss, x + STEP * way) - gradient(loss, x - STEP * way)) / (2 * STEP)
    (second,) = torch.autograd.grad(first, leaf, wrap(other))
    assert inner(way, second._array) == pytest.approx(inner(other, bend), rel=1e-4, abs=1e-5)


@pytest.mark.parametrize(("loss", "shape", "kind"), CASES)
def test_forward_mode(loss, shape, kind):
    x, way = drawn(shape, kind), np.random.default_rng(5).uniform(-1, 1, shape)
    way = way.astype(x.dtype)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(wrap(x), wrap(way))
        pushed = torch.autograd.forward_ad.unpack_dual(loss(dual)).tangent
    assert pushed.item() == pytest.approx(inner(way, gradient(loss, x)), rel=1e-7)


def test_values_of_a_degenerate_matrix_have_a_gradient():
    for function in (torch.linalg.eigvalsh, torch.linalg.svdvals):
        x = torch.eye(3).requires_grad_()
        function(x).sum().backward()
        np.testing.assert_allclose(x.grad._array, np.eye(3), atol=1e-6)


@pytest.mark.parametrize("name", ["eig", "eigh", "svd"])
def test_a_loss_that_sees_the_phase_is_refused(name):
    x = wrap(hermitian(wrap(drawn((3, 3), "complex")))._array).requires_grad_()
    found = getattr(torch.linalg, name)(x)
    vectors = found[0] if name == "svd" else found[1]
    with pytest.raises(RuntimeError, match=r"specified up to multiplication by e\^{i phi}"):
        (vectors * (1 + 1j)).imag.sum().backward()


def test_qr_that_is_not_determined():
    x = torch.ones(3, 2).requires_grad_()
    with pytest.raises(RuntimeError, match="not computed when mode='r'"):
        torch.linalg.qr(x, "r").R.sum().backward()
    with pytest.raises(RuntimeError, match="not differentiable when mode='complete'"):
        torch.linalg.qr(x, "complete").Q.sum().backward()
