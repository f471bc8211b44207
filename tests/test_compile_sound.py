"""Compiled functions compute what ordinary calls do, also where a recording could be misled.

Values are compared with the same function run as ordinary Python, in calls with the same and with
other inputs: what a recording freezes shows in one of the two.
"""

import warnings

import pytest

import tapegrad as torch
import tapegrad.nn.functional as F
from tapegrad import nn


@pytest.fixture(autouse=True)
def quietly():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def random(seed, *shape):
    torch.manual_seed(seed)
    return torch.randn(*shape)


SEEDS = (1, 1, 1, 1, 2, 3, 3, 1)  # the same values while it is recorded, then others


def assert_close(a, b):
    torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def weighted_sum(out):
    return (out * torch.arange(out.numel()).view(out.shape).cos()).sum()


def compare_outside(function, *shape):
    """A function that is differentiated outside of what is compiled."""
    compiled = torch.compile(function)
    for seed in SEEDS:
        x, y = (random(seed, *shape).requires_grad_() for _ in range(2))
        a, b = function(x), compiled(y)
        weighted_sum(a).backward()
        weighted_sum(b).backward()
        assert_close(a, b)
        assert_close(x.grad, y.grad)


def compare_steps(function, *shape):
    """A whole training step."""

    def made():
        p = nn.Parameter(torch.full(shape, 0.7))
        optimizer = torch.optim.SGD([p], lr=0.1)

        def step(x):
            optimizer.zero_grad()
            loss = weighted_sum(function(p * x))
            loss.backward()
            optimizer.step()
            return loss

        return p, step

    (p, step), (q, other) = made(), made()
    compiled = torch.compile(other)
    for seed in SEEDS:
        x = random(seed, *shape)
        assert_close(step(x), compiled(x))
        assert_close(p, q)


def write_rows(h):
    y = h * 2
    y[0] += 1
    y[0] *= h[1]
    y[:, 1] = h[:, 0]
    return y


def differentiated_inside(h):
    padded = F.pad(h.sin(), (1, 1), mode="reflect")
    (g,) = torch.autograd.grad((padded**3).sum(), h, create_graph=True)
    return g * h


SUMS = {  # where several elements add up in a gradient
    "reflect": (lambda h: F.pad(h, (2, 1), mode="reflect"), (2, 3, 6)),
    "replicate": (lambda h: F.pad(h, (2, 1, 1, 2), mode="replicate"), (2, 3, 6, 5)),
    "circular": (lambda h: F.pad(h, (2, 1), mode="circular"), (2, 3, 6)),
    "nearest": (lambda h: F.interpolate(h, size=(7, 4)), (1, 2, 5, 6)),
    "bilinear": (lambda h: F.interpolate(h, size=(7, 4), mode="bilinear"), (1, 2, 5, 6)),
    "bicubic": (lambda h: F.interpolate(h, scale_factor=2, mode="bicubic"), (1, 2, 4, 4)),
    "linear": (lambda h: F.interpolate(h, size=8, mode="linear"), (1, 2, 5)),
    "adaptive_avg_pool1d": (lambda h: F.adaptive_avg_pool1d(h, 4), (2, 3, 10)),
    "adaptive_avg_pool3d": (lambda h: F.adaptive_avg_pool3d(h, (2, 3, 2)), (1, 2, 5, 4, 3)),
    "avg_pool3d": (lambda h: F.avg_pool3d(h, 2, 1), (1, 2, 5, 4, 3)),
    "unfold": (lambda h: h.unfold(1, 3, 1).sin(), (2, 10, 3)),
    "F.unfold": (lambda h: F.unfold(h, 3, padding=1), (1, 2, 5, 5)),
    "fold": (lambda h: F.fold(h, (4, 4), 2), (1, 8, 9)),
    "as_strided": (lambda h: h.as_strided((5, 3), (1, 3), 1).sin(), (3, 4)),
    "local_response_norm": (lambda h: F.local_response_norm(h, 3), (2, 5, 4, 4)),
    "affine_grid": (lambda h: F.affine_grid(h, (1, 1, 3, 3)), (1, 2, 3)),
    "writes": (write_rows, (4, 3)),
    "autograd.grad": (differentiated_inside, (4, 4)),
}


@pytest.mark.parametrize("name", SUMS)
def test_sums_of_several_elements_are_not_frozen(name):
    function, shape = SUMS[name]
    compare_outside(lambda x: function(x.tanh() * 1.3 + 0.1), *shape)
    compare_steps(lambda x: function(x.tanh() * 1.3 + 0.1), *shape)
