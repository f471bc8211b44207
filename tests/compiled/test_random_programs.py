"""Random programs of ops, writes, views and gradients, compiled and eager: the same numbers.

Each program makes values from two matrices by steps that a seed chooses. Besides the ops of
tests/test_compile_random.py there are layers whose gradients are sums of several contributions
(padding, interpolation, windows, pools), writes into parts of values, complex numbers, random
numbers, and `autograd.grad` inside of the program, also of gradients.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from harness import difference, frozen, quiet, replays

import tapegrad as T
from tapegrad.nn import functional as F

CALLS = 7
VALUES = (0, 0, 0, 0, 1, 2, 2)
LARGEST = 400  # elements of a value that is kept


def wide(x: Any) -> Any:
    """A matrix as a batch of one row of channels, which layers take."""
    return x.unsqueeze(0)


def flat(x: Any) -> Any:
    return x.flatten(0, -2)


# Ops of one value. Those that do not fit its shape raise, and are left out.
UNARY: list[Callable[[Any], Any]] = [
    *(T.neg, T.tanh, T.sigmoid, T.sin, T.cos, F.relu, F.gelu, F.silu, F.softplus, T.abs, T.sgn),
    *(lambda x: x * 0.5, lambda x: 1.0 - x, lambda x: x / 3, lambda x: x.clamp(-1, 1)),
    *(lambda x: (x * x + 1).sqrt(), lambda x: x.clone(), lambda x: x.exp().log1p()),
    *(lambda x: T.where(x > 0, x, x * 0.1), lambda x: x.masked_fill(x > 0.5, 0.25)),
    *(lambda x: x.detach() * 2 + x, lambda x: F.dropout(x, 0.3), lambda x: F.leaky_relu(x, 0.2)),
]
VIEWS: list[Callable[[Any], Any]] = [
    *(lambda x: x.t(), lambda x: x[1:], lambda x: x[:, :2], lambda x: x[:, ::2]),
    *(lambda x: x.reshape(-1, 2), lambda x: x[0].expand(3, -1), lambda x: x.flip(0)),
    *(lambda x: x.roll(1, 1), lambda x: x[:, [0, 0, 1]], lambda x: x.diagonal()[None]),
    *(lambda x: x.as_strided((2, 3), (1, 1)), lambda x: flat(x.unfold(1, 2, 1))),
    *(lambda x: x.repeat(2, 1), lambda x: x.repeat_interleave(2, 1), lambda x: x.tril()),
    lambda x: x.gather(1, T.tensor([[0, 1, 0]]).expand(x.shape[0], 3)),
]
LAYERS: list[Callable[[Any], Any]] = [
    *(lambda x: F.pad(x, (1, 2)), lambda x: F.pad(x, (-1, 1), value=0.5)),
    *(lambda x: F.pad(x, (1, 1), mode="reflect"), lambda x: F.pad(x, (2, 1), mode="replicate")),
    *(lambda x: F.pad(x, (1, 1), mode="circular"), lambda x: F.avg_pool1d(x, 2, 1)),
    *(lambda x: F.max_pool1d(x, 2, 1), lambda x: F.adaptive_avg_pool1d(x, 3)),
    *(lambda x: F.adaptive_max_pool1d(x, 2), lambda x: F.lp_pool1d(x * x + 1, 2, 2, 1)),
    lambda x: F.interpolate(wide(x), size=5, mode="linear")[0],
    lambda x: F.interpolate(wide(x), size=3, mode="linear", align_corners=True)[0],
    lambda x: F.interpolate(wide(x), scale_factor=1.5, mode="nearest")[0],
    lambda x: F.interpolate(wide(wide(x)), size=(3, 4), mode="bilinear")[0, 0],
    lambda x: F.unfold(wide(wide(x)), 2, padding=1)[0],
    lambda x: F.fold(wide(x).expand(1, *x.shape)[:, :4, :4].contiguous(), (3, 3), 2)[0, 0],
    lambda x: F.local_response_norm(wide(x), 2)[0],
    lambda x: F.conv1d(wide(x), x[:, :2].unsqueeze(0))[0],
    *(lambda x: F.layer_norm(x, x.shape[-1:]), lambda x: F.normalize(x + 2, dim=1)),
    *(lambda x: x.softmax(-1), lambda x: x.log_softmax(0), lambda x: x.cumsum(0)),
    *(lambda x: x.logcumsumexp(1), lambda x: (x + 3).cumprod(1), lambda x: x.sort(1).values),
    *(lambda x: x.sum(0, keepdim=True), lambda x: x.mean(1, keepdim=True)),
    *(lambda x: x.amax(1, keepdim=True), lambda x: x.std(1, keepdim=True), lambda x: x @ x.t()),
    *(lambda x: T.cat([x, x * 2]), lambda x: T.stack([x, -x]).sum(0), lambda x: T.cdist(x, x + 1)),
    *(lambda x: x.norm(dim=1, keepdim=True), lambda x: x.logsumexp(1, keepdim=True)),
]
COMPLEX: list[Callable[[Any], Any]] = [
    *(lambda x: T.fft.rfft(x).abs(), lambda x: T.fft.irfft(T.fft.rfft(x) * 2, n=x.shape[-1])),
    *(lambda x: T.complex(x, x * 2).angle(), lambda x: (T.complex(x, x + 1) * 1j).real),
    *(lambda x: T.view_as_real(T.polar(x * x, x)).sum(-1), lambda x: T.fft.fft2(x).imag),
    lambda x: (T.complex(x, -x) @ T.complex(x, x).t().conj()).abs(),
]
BINARY: list[Callable[[Any, Any], Any]] = [
    *(T.add, T.sub, T.mul, T.maximum, T.minimum, T.atan2, T.hypot, T.logaddexp),
    *(lambda a, b: a / (b * b + 1), lambda a, b: a @ b.t(), lambda a, b: T.lerp(a, b, 0.3)),
    *(lambda a, b: T.where(a > b, a, b), lambda a, b: a.addcmul(b, b, value=0.5)),
]


def add_to_a_row(y: Any) -> None:
    y[0] += 1


def scale_a_column(y: Any) -> None:
    y[:, 0] *= 1.5


def write_a_row(y: Any) -> None:
    y[-1] = y[0] * 2


def write_by_a_mask(y: Any) -> None:
    y[y > 0.5] = 0.25


def write_by_indices(y: Any) -> None:
    y[[0, 0], [0, 1]] = y[0, :1].detach() + 1


def write_through_a_view(y: Any) -> None:
    y.t()[:1].mul_(2)


def add_by_an_index(y: Any) -> None:
    y.index_add_(0, T.zeros(1, dtype=T.long), y[-1:] * 0.5)


def scatter_into(y: Any) -> None:
    y.scatter_(1, T.zeros(y.shape[0], 1, dtype=T.long), y[:, -1:] * 2)


def fill_the_diagonal(y: Any) -> None:
    y.diagonal().fill_(0.5)


WRITES: list[Callable[[Any], None]] = [
    *(add_to_a_row, scale_a_column, write_a_row, write_by_a_mask, write_by_indices),
    *(write_through_a_view, add_by_an_index, scatter_into, fill_the_diagonal),
]


def gradient_inside(x: Any) -> Any:
    """The gradient of a value as a value, which can be differentiated again."""
    leaf = x if x.requires_grad else x.detach().requires_grad_()
    out = F.pad(leaf.sin() * leaf, (1, 1), mode="reflect").tanh().sum()
    (grad,) = T.autograd.grad(out, leaf, create_graph=True)
    return grad


def gradient_inside_once(x: Any) -> Any:
    leaf = x.detach().requires_grad_()
    (grad,) = T.autograd.grad((leaf.cos() * leaf).cumsum(1).sum(), leaf)
    return grad


GRADIENTS: list[Callable[[Any], Any]] = [gradient_inside, gradient_inside_once]
KINDS = (UNARY, VIEWS, LAYERS, COMPLEX, BINARY, WRITES, GRADIENTS)
SHARES = (5, 3, 5, 1, 3, 2, 1)


def random_values(seed: int) -> Callable[[list[Any]], list[Any]]:
    """A function that adds values to a list of matrices."""
    chosen = random.Random(seed)
    steps = []
    for _ in range(chosen.randint(4, 14)):
        kind = chosen.choices(KINDS, SHARES)[0]
        steps.append((kind, chosen.choice(kind), chosen.random(), chosen.random()))

    def function(values: list[Any]) -> list[Any]:
        for kind, op, first, second in steps:
            a, b = values[int(first * len(values))], values[int(second * len(values))]
            try:
                if kind is BINARY:
                    made = op(a, b)
                elif kind is WRITES:
                    made = a * 1.0
                    op(made)
                else:
                    made = op(a)
            except (RuntimeError, IndexError, ValueError, AssertionError):
                continue  # shapes that do not go together
            if made.dim() == 2 and 0 < made.numel() <= LARGEST and made.requires_grad:
                values = [*values, made]
        return values

    return function


def whole(seed: int) -> Callable[[Any, Any], Any]:
    """A program with its backward pass inside."""
    values_of = random_values(seed)

    def program(x: Any, y: Any) -> Any:
        leaves = [x.detach().clone().requires_grad_(), y.detach().clone().requires_grad_()]
        values = values_of([leaf * 1.0 for leaf in leaves])
        loss = sum([(v * v.detach().cos()).sum() for v in values[-4:]])
        loss.backward()
        return [v.detach() for v in values[2:]], [leaf.grad for leaf in leaves], loss.detach()

    return program


def forward(seed: int) -> Callable[[Any, Any], Any]:
    """A program that its caller differentiates."""
    values_of = random_values(seed)

    def program(x: Any, y: Any) -> Any:
        return [v * 1.5 for v in values_of([x * 1.0, y * 1.0])[-3:]]

    return program


def run(make: Any, seed: int, compile: Any) -> tuple[list[Any], Any]:
    program = compile(make(seed))
    seen = []
    for k in VALUES:
        drawn = T.Generator().manual_seed(seed * 10 + k)
        x = T.randn(3, 4, dtype=T.float64, generator=drawn).requires_grad_()
        y = T.randn(1, 4, dtype=T.float64, generator=drawn).requires_grad_()
        T.manual_seed(k)
        out = program(x, y)
        if make is forward:
            sum([(v * v.detach().sin()).sum() for v in out]).backward()
        # Whether a pass copies a gradient, which its version counts, depends on how rules lay it
        # out in memory; here values meet gradients that are laid out otherwise.
        seen.append(frozen([out, x, y, T.rand(())], counts=make is forward))
    return seen, program


def compare(make: Any, seed: int) -> tuple[str, bool]:
    """The first difference, and whether anything was replayed."""
    with quiet():
        expected, _ = run(make, seed, lambda program: program)
        found, compiled = run(make, seed, T.compile)
        replayed = replays(compiled) > 0
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        told = difference(a, b)
        if told:
            return f"seed {seed}, call {i}: {told}", replayed
    return "", replayed


COUNT = 25  # programs of a test


@pytest.mark.parametrize(
    "start",
    [0, *[pytest.param(i, marks=pytest.mark.thorough) for i in range(COUNT, 1000, COUNT)]],
)
@pytest.mark.parametrize("make", [whole, forward])
def test_random_programs(make, start):
    outcomes = [compare(make, seed) for seed in range(start, start + COUNT)]
    told = [difference for difference, _ in outcomes if difference]
    assert not told, f"{len(told)} of {COUNT} differ; {told[0]}"
