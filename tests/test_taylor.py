"""Taylor mode against nested forward mode, for the whole table of functions; the operators."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from table import APIS, PURE, call, draw, plain, tensors_in

import tapegrad as torch
from tapegrad import func
from tapegrad.core.base import TensorBase, wrap

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of functions that are outdated


def f64(*values: Any) -> Any:
    return torch.tensor(values, dtype=torch.float64)


def close(got: Any, want: Any, tolerance: float = 1e-9) -> None:
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=tolerance, atol=tolerance)


def as_function(name: str, index: int) -> tuple[Any, list[Any]]:
    """A sample call as a function of its floating point tensors, and their values."""
    _, _, made = draw(name, index, plain)
    moving = [i for i, t in enumerate(made) if t._array.dtype.kind in "fc"]

    def function(*values: Any) -> list[Any]:
        queue = list(values)

        def give(array: Any) -> Any:
            return queue.pop(0) if array.dtype.kind in "fc" else wrap(array)

        args, kwargs, _ = draw(name, index, give)
        return [t for t in tensors_in(call(name, args, kwargs)) if t._array.dtype.kind in "fc"]

    return function, [made[i] for i in moving]


def ways(values: list[Any], order: int) -> list[list[Any]]:
    rng = np.random.default_rng(order)
    return [
        [wrap(rng.standard_normal(v._array.shape).astype(v._array.dtype)) for _ in range(order)]
        for v in values
    ]


def nested(function: Any, values: list[Any], series: list[list[Any]], order: int) -> list[Any]:
    """The derivatives of a function along a path, by forward mode over forward mode."""

    def along(t: Any) -> list[Any]:
        moved = []
        for x, derivatives in zip(values, series, strict=True):
            for k, d in enumerate(derivatives, 1):
                x = x + (t**k / math.factorial(k)).to(d.dtype) * d
            moved.append(x)
        return function(*moved)

    found = []
    for _ in range(order):

        def along(t: Any, before: Any = along) -> list[Any]:
            return func.jvp(before, (t,), (torch.ones_like(t),))[1]

        found.append(along(f64(0.0)[0]))
    return found


def compare(name: str, index: int, order: int) -> None:
    function, values = as_function(name, index)
    if not values or not function(*values):
        return
    series = ways(values, order)
    try:
        want = nested(function, values, series, order)
    except NotImplementedError:
        return  # no derivative of that order
    got = func.jet(function, tuple(values), series)[1]
    for k in range(order):
        for a, b in zip(got[k], want[k], strict=True):
            scale = max(1.0, float(np.abs(b._array).max(initial=0.0)))
            np.testing.assert_allclose(
                a._array / scale, b._array / scale, rtol=1e-8, atol=1e-8,
                err_msg=f"sample {index}, order {k + 1}",
            )


@pytest.mark.parametrize("name", PURE)
def test_like_nested_forward_mode(name):
    compare(name, 0, 3)


@pytest.mark.thorough
@pytest.mark.parametrize("name", PURE)
def test_like_nested_forward_mode_in_all_samples(name):
    for index in range(len(APIS[name].samples)):
        compare(name, index, 4)


@pytest.mark.parametrize("name", PURE)
def test_the_laplacian_is_the_trace_of_the_hessian(name):
    function, values = as_function(name, 0)
    real = [i for i, v in enumerate(values) if v._array.dtype.kind == "f" and v._array.size]
    if not real or not function(*values):
        return
    i = real[0]
    try:
        diagonal = func.hessian_diag(function, i)(*values)
    except (NotImplementedError, RuntimeError):
        return
    for a, b in zip(func.laplacian(function, i)(*values), diagonal, strict=True):
        want = b.flatten(a.ndim).sum(-1)
        scale = max(1.0, float(np.abs(want._array).max(initial=0.0)))
        np.testing.assert_allclose(a._array / scale, want._array / scale, rtol=1e-8, atol=1e-8)
