"""Compiled gradients are those of ordinary backward passes, by the same kernels."""

from __future__ import annotations

from typing import Any

import pytest

import tapegrad as torch
from tapegrad.compiler.tapes import Segment
from tapegrad.utils._python_dispatch import TorchDispatchMode
from test_compile_memory import both_ways, needs_kernels

F = torch.nn.functional
ROWS, COLUMNS = 24, 40


def pulled(function: Any) -> Any:
    """A function of one tensor together with the gradient of a weighted sum of what it gives."""

    def work(x: Any, weight: Any) -> Any:
        leaf = x.detach().requires_grad_()
        out = function(leaf)
        (out * weight[: out.numel()].view(out.shape)).sum().backward()
        return out.detach(), leaf.grad

    return work


def draw() -> Any:
    return torch.randn(ROWS, COLUMNS), torch.randn(2 * ROWS * COLUMNS)


def in_python(step: Any) -> list[str]:
    """The ops that a recording calls through Python."""
    (recording,) = step.recordings.values()
    owners = [run.__self__ for run in recording.run_steps]
    return [each.name for each in owners if not isinstance(each, Segment)]


CASES = {
    "group_norm": lambda x: F.group_norm(x.view(4, 8, 30), 2),
    "silu": F.silu,
    "mish": F.mish,
    "gather": lambda x: x.gather(1, (x * 0).long()),
    "clamp": lambda x: x.clamp(-0.5, 0.5),
    "by a truth value": lambda x: x * (x > 0),
    "as a number": lambda x: (x > 0).float() * x,
    "nan_to_num": lambda x: x.nan_to_num(),
    "turned": lambda x: x.t().contiguous().exp(),
    "without weights": lambda x: F.binary_cross_entropy(x.sigmoid(), (x * 2).sigmoid()),
}


@needs_kernels
@pytest.mark.parametrize("kind", CASES)
def test_gradients_have_the_same_bits(kind: str) -> None:
    step = both_ways(pulled(CASES[kind]), draw)
    left = {"gradients", "binary_cross_entropy", "binary_cross_entropy_backward"}
    if kind == "gather":
        left.add("cast")  # to whole numbers
    assert not set(in_python(step)) - left


def recurrent(kind: Any, **options: Any) -> Any:
    torch.manual_seed(0)
    layer = kind(COLUMNS, 16, **options)

    def work(x: Any) -> Any:
        layer.zero_grad()
        out, _ = layer(x)
        (out * out).sum().backward()
        return out.detach(), *[p.grad.clone() for p in layer.parameters()]

    return work


@needs_kernels
@pytest.mark.parametrize("options", [{}, {"bidirectional": True, "num_layers": 2}], ids=str)
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers_run_in_c_and_have_the_same_bits(kind: str, options: Any) -> None:
    work = recurrent(getattr(torch.nn, kind), **options)
    step = both_ways(work, lambda: (torch.randn(5, ROWS, COLUMNS),))
    assert not [name for name in in_python(step) if kind.lower() in name]


def test_a_projection_goes_step_by_step() -> None:
    work = recurrent(torch.nn.LSTM, proj_size=8)
    both_ways(work, lambda: (torch.randn(5, ROWS, COLUMNS),))


@pytest.mark.parametrize("dim", (0, 1, None))
@pytest.mark.parametrize("zeros", (0, 1, 2))
def test_products_with_and_without_zeros(dim: Any, zeros: int) -> None:
    def given() -> Any:
        x, weight = draw()
        x = x.abs() + 0.5
        x.view(-1)[: 3 * zeros : 3] = 0
        return x, weight

    both_ways(pulled(lambda x: x.prod() if dim is None else x.prod(dim)), given)


@pytest.mark.parametrize("weighted", (False, True))
def test_smoothed_labels_are_recorded(weighted: bool) -> None:
    torch.manual_seed(0)
    labels = torch.randint(0, COLUMNS, (ROWS,))
    labels[3] = -100
    weight = torch.rand(COLUMNS) if weighted else None

    def work(x: Any) -> Any:
        leaf = x.detach().requires_grad_()
        loss = F.cross_entropy(leaf, labels, weight, label_smoothing=0.1)
        loss.backward()
        return loss.detach(), leaf.grad

    step = torch.compile(work, fullgraph=True)
    for i in range(6):
        torch.manual_seed(i)
        x = torch.randn(ROWS, COLUMNS)
        for a, b in zip(step(x), work(x), strict=True):  # the weights are summed in another order
            torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)


SUMS = {
    "repeated": lambda x: x.repeat(2, 1),
    "repeated rows": lambda x: x.repeat_interleave(2, 0),
    "windows": lambda x: x.unfold(0, 3, 1).sum(2),
    "turned": lambda x: x.view(4, 6, COLUMNS).permute(2, 0, 1).sum(1),
    "expanded": lambda x: x[:1].expand(3, COLUMNS).sum(0),
}


@needs_kernels
@pytest.mark.parametrize("kind", SUMS)
def test_sums_of_arrays_that_do_not_lie_in_a_row(kind: str) -> None:
    function = SUMS[kind]

    def work(x: Any) -> Any:
        leaf = x.detach().requires_grad_()
        out = function(leaf)
        (out * 1.5).sum().backward()
        return out.detach(), leaf.grad

    step = torch.compile(work, fullgraph=True)
    for i in range(6):
        torch.manual_seed(i)
        x = torch.randn(ROWS, COLUMNS)
        for a, b in zip(step(x), work(x), strict=True):
            assert a.stride() == b.stride()
            torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)


@needs_kernels
def test_zeros_of_rules_are_neither_kept_nor_read() -> None:
    """What a rule fills with zeros first is cleared by the kernel, row by row."""
    x = torch.randn(64, 64, requires_grad=True)
    at = torch.randint(0, 64, (64, 8))

    def work() -> None:
        x.grad = None
        x.gather(1, at).sum().backward()

    step = torch.compile(work, fullgraph=True)
    for _ in range(5):
        step()
    (recording,) = step.recordings.values()
    floats = [t for t, _, _ in recording.externals if t.is_floating_point()]
    assert len(floats) == 1 and floats[0] is x
    calls = sum([len(run.__self__.tape) for run in recording.run_steps[:1]])
    # the forward kernel and its check, the sum, the gradient spread out, its kernel and its check
    assert calls == 6


def test_modes_are_shown_what_pytorch_shows() -> None:
    """Ops that are one for the sake of a recording are PyTorch's own for everybody else."""
    seen: list[str] = []

    class Listens(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    def pull(function: Any) -> list[str]:
        loss = function(torch.rand(4, 6, requires_grad=True)).sum()
        seen.clear()
        with Listens():
            loss.backward()
        return list(seen)

    assert "aten.silu_backward.default" in pull(F.silu)
    assert "aten.native_group_norm_backward.default" in pull(lambda x: F.group_norm(x, 2))
    assert pull(lambda x: x.prod(1)).count("aten.cumprod.default") == 2
    layer = torch.nn.LSTM(6, 3)
    assert all([name.startswith("aten.") for name in pull(lambda x: layer(x)[0])])


def test_conjugate_and_negative_views() -> None:
    """What is read through the bits is the result of an op in the recording, of each call anew."""

    def work(x: Any) -> Any:
        z = torch.complex(x, x * 2).requires_grad_()
        turned = z.conj().t()
        product = turned @ z + (z.conj() * z.conj().imag).sum() + turned[0].conj().sum()
        product.abs().sum().backward()
        return product.detach().real + 0, z.grad.imag + 0, torch.view_as_real(z.grad) + 0

    step = torch.compile(work, fullgraph=True)
    for i in range(6):
        torch.manual_seed(i)
        x = torch.randn(3, 4, dtype=torch.float64)
        for found, wanted in zip(step(x), work(x), strict=True):
            torch.testing.assert_close(found, wanted)
    assert next(iter(step.recordings.values())).replays == 3


def test_a_conjugate_view_that_is_written_is_named() -> None:
    def work(x: Any) -> Any:
        z = torch.complex(x, x)
        z.conj().mul_(2)
        return z.real + 1

    step = torch.compile(work, fullgraph=True)
    step(torch.ones(3))
    with pytest.raises(RuntimeError, match="it uses a conjugate or negative view"):
        step(torch.ones(3))
