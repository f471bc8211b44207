"""Every public function with sample inputs, on the device against the CPU: values and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad
from table import APIS, PURE, call, draw, leaf, tensors_in
from tapegrad import autograd
from tapegrad.core import devices

pytestmark = pytest.mark.filterwarnings("ignore")


# What these draw on a GPU comes from another generator: only kinds and shapes are the same.
RANDOM = """
alpha_dropout bernoulli dropout feature_alpha_dropout feature_dropout gumbel_softmax multinomial
native_dropout pca_lowrank poisson svd_lowrank normal binomial _standard_gamma _sample_dirichlet
fractional_max_pool2d fractional_max_pool2d_with_indices fractional_max_pool3d
fractional_max_pool3d_with_indices rrelu dropout1d dropout2d dropout3d
scaled_dot_product_attention
""".split()


# Of these vectors LAPACK and cuSOLVER may give the opposite: their squares are the same.
WITH_VECTORS = {"linalg.eigh": (1,), "linalg.svd": (0, 2), "svd": (0, 2)}


def unique_parts(name: str, results: list[Any]) -> list[Any]:
    """The results, and instead of what is free to choose what is not."""
    if name not in WITH_VECTORS:
        return results
    parts = list(results)
    if name != "linalg.eigh":
        # Vectors beyond the singular values span what is left in any way.
        count = parts[1].shape[-1]
        parts[0] = parts[0][..., :count]
        parts[2] = parts[2][..., :count, :] if name == "linalg.svd" else parts[2][..., :count]
    for at in WITH_VECTORS[name]:
        parts[at] = parts[at].abs() if parts[at].is_complex() else parts[at] * parts[at]
    return parts


def on_device(t: Any) -> Any:
    made = tapegrad.Tensor.cuda(t.detach())
    return made.requires_grad_() if t.requires_grad else made


def drawn(name: str, index: int, move: bool) -> Any:
    def make(array: Any) -> Any:
        t = leaf(array)
        return on_device(t) if move else t

    return draw(name, index, make)


def close(got: Any, want: Any, what: str, values: bool = True) -> None:
    assert got.dtype == want.dtype, what
    assert got.shape == want.shape, what
    if not values:
        return
    a, b = got.detach().cpu()._array, want.detach()._array
    if a.dtype.kind in "fcV":
        wide = np.float64 if a.dtype.kind != "c" else np.complex128
        scale = 1e-9 if a.dtype.itemsize >= 8 else 1e-4
        np.testing.assert_allclose(
            a.astype(wide), b.astype(wide), rtol=scale, atol=scale, err_msg=what
        )
    else:
        np.testing.assert_array_equal(a, b, err_msg=what)


def seeds_for(outs: list[Any]) -> list[Any]:
    seeds = []
    for out in outs:
        values = np.linspace(0.5, 1.5, out._array.size).reshape(out._array.shape)
        seed = tapegrad.from_numpy(np.ascontiguousarray(values)).to(out.dtype)
        seeds.append(seed.to(out.device))
    return seeds


def gradients(outs: list[Any], leaves: list[Any]) -> Any:
    return autograd.grad(outs, leaves, seeds_for(outs), allow_unused=True)


@pytest.mark.parametrize("name", PURE)
def test_same_as_cpu(name: str) -> None:
    values = name.rpartition(".")[2] not in RANDOM
    for index in range(len(APIS[name].samples)):
        args, kwargs, tensors = drawn(name, index, False)
        want = unique_parts(name, tensors_in(call(name, args, kwargs)))
        args, kwargs, moved = drawn(name, index, True)
        if not moved:
            continue
        got = unique_parts(name, tensors_in(call(name, args, kwargs)))
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            assert devices.is_device(g), "the result left the device"
            close(g, w, f"{name}, sample {index}", values)
        outs = [(g, w) for g, w in zip(got, want, strict=True) if w.requires_grad]
        leaves = [(m, t) for m, t in zip(moved, tensors, strict=True) if t.requires_grad]
        if not outs or not leaves:
            continue
        try:
            expected = gradients([w for _, w in outs], [t for _, t in leaves])
        except (RuntimeError, NotImplementedError):
            continue
        found = gradients([g for g, _ in outs], [m for m, _ in leaves])
        for g, w in zip(found, expected, strict=True):
            assert (g is None) == (w is None)
            if g is not None:
                close(g, w, f"gradient of {name}, sample {index}", values)
