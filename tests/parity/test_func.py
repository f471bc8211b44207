"""Transforms of transforms of functions: every pair and triple that makes sense, as PyTorch's."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tapegrad

torch.set_num_threads(1)
pytestmark = pytest.mark.filterwarnings("ignore")  # PyTorch's, about itself

SIZE = 3
START = np.array([0.3, -0.7, 1.1])
DIRECTION = np.array([1.0, 0.5, -2.0])
MATRIX = np.array([[2.0, 0.3, -0.5], [0.1, 1.5, 0.4], [-0.2, 0.6, 1.8]])


def constant(lib: Any, values: Any) -> Any:
    return lib.tensor(np.asarray(values).tolist(), dtype=lib.float64)


# --- functions: a vector of three numbers to a number or to a vector ------------------------------


def cubic(lib: Any, x: Any) -> Any:
    return (x**3 - 2 * x * x.flip(0)).sum()


def products(lib: Any, x: Any) -> Any:
    a = constant(lib, MATRIX)
    return (a @ x).tanh() * (x @ a)


def attention(lib: Any, x: Any) -> Any:
    scores = lib.outer(x, x * 0.5)
    return scores.softmax(-1) @ x.sin()


def picking(lib: Any, x: Any) -> Any:
    places = lib.tensor([2, 0, 2, 1])
    picked = x[places] * x[:1]
    return picked[1:] + x[[0, 1, 0]] ** 2


def writing(lib: Any, x: Any) -> Any:
    y = x * x
    y[1:] += y[:2].clone()
    y.mul_(x)
    y[0] = x[1] * x[2]
    return y.sin_()


def choosing(lib: Any, x: Any) -> Any:
    y = lib.where(x > 0, x.exp(), -(x**2))
    return y.clamp(min=-0.4) * lib.maximum(x, x.roll(1))


def scanning(lib: Any, x: Any) -> Any:
    return x.cumsum(0).sin() * x.cumprod(0) + lib.logcumsumexp(x, 0)


def lengths(lib: Any, x: Any) -> Any:
    rows = lib.stack([x, x**2, x.cos()])
    return lib.linalg.norm(rows, dim=1) + rows.norm()


def solving(lib: Any, x: Any) -> Any:
    a = constant(lib, MATRIX) + lib.diag(x**2)
    return lib.linalg.solve(a, x.sin()) + lib.linalg.inv(a).diagonal()


def convolving(lib: Any, x: Any) -> Any:
    signal = lib.cat([x, x**2, x.sin()]).view(1, 1, 9)
    return lib.nn.functional.conv1d(signal, (x * 0.5).view(1, 1, 3), stride=2)[0, 0, :3]


def normalizing(lib: Any, x: Any) -> Any:
    rows = lib.stack([x, x * x, x.exp()])
    weight = constant(lib, [0.5, 1.5, -1.0])
    return lib.nn.functional.layer_norm(rows, (3,), weight).pow(2).sum(0)


def entropy(lib: Any, x: Any) -> Any:
    logits = lib.outer(x, x.cos())
    loss = lib.nn.functional.cross_entropy(logits, lib.tensor([0, 2, 1]))
    return loss + lib.logsumexp(x * 2, 0)


def network(lib: Any, x: Any) -> Any:
    a = constant(lib, MATRIX)
    hidden = lib.nn.functional.gelu(lib.nn.functional.linear(x, a, x[0] * x))
    return lib.einsum("i,ij,j->i", hidden, a, lib.nn.functional.softplus(x))


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    f.__name__: f
    for f in (
        cubic,
        products,
        attention,
        picking,
        writing,
        choosing,
        scanning,
        lengths,
        solving,
        convolving,
        normalizing,
        entropy,
        network,
    )
}


# --- transforms: of a function of x into another function of x --------------------------------


def grad_of_sum(lib: Any, f: Any) -> Any:
    return lib.func.grad(lambda x: (f(x) * weights(lib, f(x))).sum())


def weights(lib: Any, like: Any) -> Any:
    """Different for every element, so that no mixed-up order goes unnoticed."""
    count = like.numel()
    return constant(lib, np.linspace(0.5, 1.5, count)).reshape(like.shape)


def mapped(lib: Any, f: Any) -> Any:
    """f at three points around x."""
    shifts = constant(lib, [[0.0, 0.0, 0.0], [0.1, 0.0, -0.1], [0.0, 0.2, 0.1]])
    return lambda x: lib.func.vmap(f)(x + shifts)


def along_x(lib: Any, f: Any) -> Any:
    return lambda x: lib.func.jvp(f, (x,), (x,))[1]


def with_ones(lib: Any, f: Any) -> Any:
    def pulled(x: Any) -> Any:
        out, pull = lib.func.vjp(f, x)
        return pull(lib.ones_like(out))[0]

    return pulled


TRANSFORMS: dict[str, Callable[[Any, Any], Any]] = {
    "grad": grad_of_sum,
    "vmap": mapped,
    "jacrev": lambda lib, f: lib.func.jacrev(f),
    "jacfwd": lambda lib, f: lib.func.jacfwd(f),
    "jvp": along_x,
    "vjp": with_ones,
    "hessian": lambda lib, f: lib.func.hessian(f),
}
SINGLE = [name for name in TRANSFORMS if name != "hessian"]
PAIRS = [(a, b) for a, b in itertools.product(TRANSFORMS, repeat=2) if a != b or a != "hessian"]
TRIPLES = list(itertools.product(SINGLE, repeat=3))


def built(
    lib: Any, name: str, chain: tuple[str, ...], transforms: Any = TRANSFORMS, instead: Any = ()
) -> Any:
    """The transforms of a chain around a function, the first one outermost."""
    f: Any = functools.partial({**FUNCTIONS, **dict(instead)}[name], lib)
    for each in reversed(chain):
        f = transforms[each](lib, f)
    return f


def outcome(lib: Any, name: str, chain: tuple[str, ...], *rest: Any) -> tuple[str, Any]:
    """(an error, None) or ("", values)."""
    try:
        return "", built(lib, name, chain, *rest)(constant(lib, START)).detach().numpy()
    except RuntimeError as error:
        return str(error).splitlines()[0], None


def normalizing_by_hand(lib: Any, x: Any) -> Any:
    rows = lib.stack([x, x * x, x.exp()])
    centred = rows - rows.mean(1, keepdim=True)
    deviation = ((centred**2).mean(1, keepdim=True) + 1e-5).sqrt()
    return (centred / deviation * constant(lib, [0.5, 1.5, -1.0])).pow(2).sum(0)


# The same derivatives by reverse mode alone, and of simple steps alone.
BY_HAND = {"normalizing": normalizing_by_hand}
REVERSE: dict[str, Callable[[Any, Any], Any]] = {
    **TRANSFORMS,
    "jacfwd": TRANSFORMS["jacrev"],
    "jvp": lambda lib, f: lambda x: lib.func.jacrev(f)(x) @ x,
    "hessian": lambda lib, f: lib.func.jacrev(lib.func.jacrev(f)),
}


def check(name: str, chain: tuple[str, ...]) -> None:
    _, want = outcome(torch, name, chain)
    if want is None:
        return  # what PyTorch cannot do (writes in a batch, mostly) is no standard
    error, got = outcome(tapegrad, name, chain)
    assert not error, (name, chain, error)
    assert got.shape == want.shape, (name, chain)
    if agree(got, want):
        return
    # PyTorch is wrong in places: forward mode in the second derivatives of layer_norm and inv and
    # in batches of solve, reverse mode in the third derivative of layer_norm. Where it disagrees
    # with itself, reverse mode on simple steps decides.
    _, want = outcome(torch, name, chain, REVERSE, BY_HAND)
    assert want is not None and agree(got, want), (name, chain, got, want)


def agree(a: Any, b: Any) -> bool:
    scale = max(1.0, np.nanmax(np.abs(b), initial=0.0))
    return np.allclose(a, b, rtol=1e-10, atol=1e-10 * scale, equal_nan=True)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_transform(name: str) -> None:
    for each in TRANSFORMS:
        check(name, (each,))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("outer", TRANSFORMS)
def test_two_transforms(name: str, outer: str) -> None:
    for chain in PAIRS:
        if chain[0] == outer:
            check(name, chain)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("outer", SINGLE)
def test_three_transforms(name: str, outer: str) -> None:
    for chain in TRIPLES:
        if chain[0] == outer:
            check(name, chain)
