"""Tensors without values, against those with: every function of the table gives the same shapes."""

import resource

import pytest

import tapegrad as torch
from table import PURE, call, draw, plain, tensors_in
from tapegrad.core import meta
from tapegrad.core.base import wrap
from tapegrad.core.op import REGISTRY
from tapegrad.ops.block.definition import APIS

# Their results depend on values, so PyTorch refuses them on meta as we do (tests/programs).
VALUES = {
    *("allclose", "argwhere", "bincount", "combinations", "corrcoef", "cov", "equal", "histogram"),
    *(
        "histogramdd",
        "is_nonzero",
        "istft",
        "masked_select",
        "nn.functional.gaussian_nll_loss",
        "nonzero",
    ),
    *("repeat_interleave", "unique", "unique_consecutive", "nn.functional.one_hot"),
    # PyTorch has no kernels for these on meta.
    *("geqrf", "gru", "linalg.lstsq", "lstm", "rnn_tanh", "nn.functional.embedding_bag"),
}
# What they return as it is lies denser in memory after a move to meta.
SAME = {"conj", "conj_physical", "positive"}
# PyTorch's results of these lie otherwise on meta than on the CPU.
OTHERWISE = {"linalg.eig", "linalg.svd", "nonzero_static", "pca_lowrank", "svd", "svd_lowrank"}


def facts(t):
    return tuple(t.shape), t.stride(), t.dtype


def without_values(array):
    return wrap(array).to("meta")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name in PURE if name not in VALUES])
def test_shapes_without_values(name):
    for index in range(len(APIS[name].samples)):
        args, kwargs, _ = draw(name, index, plain)
        expected = tensors_in(call(name, args, kwargs))
        args, kwargs, made = draw(name, index, without_values)
        if not made:
            continue
        found = tensors_in(call(name, args, kwargs))
        assert all(t.is_meta for t in found)
        if name in SAME or name in OTHERWISE:
            assert [facts(t)[::2] for t in found] == [facts(t)[::2] for t in expected]
        else:
            assert [facts(t) for t in found] == [facts(t) for t in expected]


def patches(x, size):
    weight = torch.ones(8, 3, size, size, device=x.device)
    return torch.nn.functional.conv2d(x, weight, stride=size)


LARGE = [
    (lambda x: x.sum(1), (70, 90)),
    (lambda x: x.t().exp(), (70, 90)),
    (lambda x: x @ x.t(), (70, 90)),
    (lambda x: torch.cat([x, x[:, :50]], 1), (70, 90)),
    (lambda x: torch.nn.functional.pad(x, (1, 5)), (70, 90)),
    (lambda x: torch.kron(x, torch.ones(3, 2, device=x.device)), (70, 90)),
    (lambda x: torch.nn.functional.max_pool2d(x, 3, 2, 1), (2, 3, 101, 77)),
    (lambda x: torch.nn.functional.avg_pool2d(x, 5, 3), (2, 3, 101, 77)),
    (lambda x: torch.nn.functional.unfold(x, 3, stride=2), (2, 3, 101, 77)),
    (lambda x: torch.nn.functional.interpolate(x, scale_factor=2.5), (2, 3, 101, 77)),
    (
        lambda x: torch.nn.functional.conv2d(
            x, torch.ones(8, 3, 16, 16, device=x.device), stride=16
        ),
        (2, 3, 224, 224),
    ),
    (
        lambda x: torch.nn.functional.conv2d(
            x, torch.ones(8, 3, 14, 14, device=x.device), stride=14
        ),
        (2, 3, 224, 224),
    ),
    (lambda x: torch.nn.functional.max_pool2d(x, 5, 5), (2, 3, 101, 102)),
    (lambda x: torch.nn.functional.pixel_unshuffle(x, 7), (2, 3, 98, 77)),
    (lambda x: torch.nn.functional.adaptive_avg_pool2d(x, (7, 5)), (2, 3, 98, 77)),
    (lambda x: torch.fft.rfft(x), (70, 91)),
    (lambda x: x.unfold(0, 10, 3).contiguous(), (101, 77)),
    (lambda x: torch.combinations(torch.arange(70)).shape[0] * x, (70,)),
    (lambda x: torch.diag_embed(x, 1), (70, 90)),
    (lambda x: x.repeat_interleave(3, 1), (70, 90)),
    (lambda x: torch.tensordot(x, x, 2), (70, 90)),
    (lambda x: x.reshape(90, 70).t().reshape(-1), (70, 90)),
]


@pytest.mark.parametrize("case", range(len(LARGE)))
def test_large_shapes_are_those_of_values(case):
    function, size = LARGE[case]
    meta.KNOWN.clear()
    assert facts(function(torch.empty(size, device="meta"))) == facts(function(torch.ones(size)))


def test_nothing_is_computed():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    x = torch.empty(10**6, 10**6, device="meta", requires_grad=True)
    ((x @ x).relu() + torch.rand(10**6, device="meta")).softmax(1).sum().backward()
    assert x.grad.shape == x.shape
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert after - before < 100 * 1024  # kilobytes; one of these tensors has 4 terabytes


def is_without_values(x):
    if isinstance(x, (tuple, list)):
        return any(map(is_without_values, x))
    return type(x) is meta.MetaArray


@pytest.mark.filterwarnings("ignore")
def test_kernels_never_see_arrays_without_values(monkeypatch):
    """They are made for memory: in C they would read it, or write to it."""
    calls = []

    def watched(kernel):
        def run(*args, **kwargs):
            assert not any(map(is_without_values, (*args, *kwargs.values())))
            calls.append(kernel)
            return kernel(*args, **kwargs)

        return run

    for record in REGISTRY.values():
        monkeypatch.setattr(record, "kernel", watched(record.kernel))
    meta.KNOWN.clear()
    for name in PURE:
        if name not in VALUES:
            for index in range(len(APIS[name].samples)):
                args, kwargs, _ = draw(name, index, without_values)
                call(name, args, kwargs)
    layers = [torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU()]
    layers += [torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(16, 5)]
    model = torch.nn.Sequential(*layers).to("meta")
    optimizer = torch.optim.AdamW(model.parameters())
    scores = model(torch.empty(2, 3, 6, 6, device="meta"))
    target = torch.empty(2, dtype=torch.int64, device="meta")
    torch.nn.functional.cross_entropy(scores, target).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    assert all(p.is_meta and p.grad.is_meta for p in model.parameters())
    assert calls


@pytest.mark.parametrize("name", ["exp", "mul", "sum_all", "softmax", "mm"])
def test_kernels_decline_them(name):
    """Were they asked, they would leave it to NumPy's functions, which carry shapes over."""
    array = meta.empty((4, 4), "float32")
    pair = array, array
    given = {"mul": pair, "mm": pair, "softmax": (array, 1), "sum_all": (array, None)}
    out = REGISTRY[name].kernel(*given.get(name, (array,)))
    assert type(out) is meta.MetaArray
    assert out.dtype == "float32"
    assert out.shape == (() if name == "sum_all" else (4, 4))
