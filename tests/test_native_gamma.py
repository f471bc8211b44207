"""Relatives of the gamma function in C, each against its form on NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tapegrad.core.host_arrays import host
from tapegrad.kernels.cpu import KERNELS

if KERNELS is None:
    pytest.skip("the native kernels are not built", allow_module_level=True)

from tapegrad.kernels.cpu.gamma_functions import BY_C, FUNCTIONS, computed
from tapegrad.ops.random import gamma_kernels
from tapegrad.ops.special import kernels_gamma, kernels_incomplete

FORMS = {
    "lower_fraction": (kernels_incomplete.lower_fraction, 2),
    "upper_fraction": (kernels_incomplete.upper_fraction_of, 2),
    "zeta": (kernels_gamma.zeta, 2),
    "log_gamma": (kernels_gamma.log_gamma, 1),
    "gamma_derivative": (gamma_kernels.gamma_derivative, 2),
    "dirichlet_derivative": (gamma_kernels.dirichlet_derivative, 3),
}
ODD = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, 2.0, 3.0, 20.0, 25.0, -1.0, -0.5, 1e300, 1e-300]


def operands(name: str, count: int) -> list[Any]:
    """Values of all sizes, close to each other and far apart, and the odd ones."""
    rng = np.random.default_rng(0)
    x = np.concatenate([10 ** rng.uniform(-6, 6, 500), rng.uniform(0, 40, 500), ODD * 8])
    first = rng.permutation(x)
    near = np.where(rng.uniform(size=x.size) < 0.5, rng.permutation(x), first * rng.uniform(0.5, 2))
    if name == "zeta":
        return [np.where(rng.uniform(size=x.size) < 0.5, np.floor(first), first), -near]
    if name == "dirichlet_derivative":
        # The series cancel where one parameter is large: both forms have fewer digits there.
        first = rng.uniform(0.05, 8, x.size)
        places = np.concatenate([rng.uniform(size=x.size - 4), [0.0, 1.0, np.nan, -0.1]])
        return [places, first, first + rng.uniform(0.05, 8, x.size)]
    return [first, near][:count]


def test_every_form_is_here() -> None:
    assert {BY_C[form]: form for form, _ in FORMS.values()} == {n: f for n, (f, _) in FORMS.items()}
    assert {*FORMS, "log_gamma_of_many"} == {*FUNCTIONS}


@pytest.mark.parametrize("name", FORMS)
def test_values(name: str) -> None:
    form, count = FORMS[name]
    given = operands(name, count)
    with np.errstate(all="ignore"):
        expected = form(host, *[x.copy() for x in given])
        found = computed(name, *given)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    with np.errstate(all="ignore"):
        single = [x.astype(np.float32) for x in given]
        expected = form(host, *[x.astype(np.float64) for x in single]).astype(np.float32)
    found = computed(name, *single)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_shapes_and_numbers() -> None:
    a, x = np.array([[0.5], [3.0]]), np.array([1.0, 2.0, 4.0])
    found = computed("lower_fraction", a, x)
    assert found.shape == (2, 3)
    assert found[1, 2] == computed("lower_fraction", np.array(3.0), np.array(4.0))
    assert computed("zeta", 2, x).tolist() == computed("zeta", np.full(3, 2.0), x).tolist()
    # A number that float32 would round, another order, another dtype: not for the kernel.
    assert computed("zeta", 2.1, x.astype(np.float32)) is None
    assert computed("zeta", a, x[::-1]) is None
    assert computed("zeta", a, x.astype(np.float32)) is None
    assert computed("zeta", np.zeros(2), x) is None
