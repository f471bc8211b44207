"""A process that has used a GPU runs backward passes of CPU tensors exactly as before."""

from __future__ import annotations

import collections
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tapegrad as torch
from tapegrad import nn
from tapegrad.core import devices
from tapegrad.cuda import runtime

F = nn.functional
PACKAGE = torch.__file__.rpartition("/")[0]


def calls_in(work: Callable[[], Any]) -> collections.Counter[str]:
    """How often each Python function of the library is called."""
    found: collections.Counter[str] = collections.Counter()

    def count(frame: Any, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE):
            found[f"{code.co_filename[len(PACKAGE) + 1 :]}:{code.co_name}"] += 1

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


@pytest.fixture
def never_used() -> Iterator[Any]:
    """As if no GPU had been used yet; calling it uses one."""
    module = runtime.Found.module
    runtime.forget()

    def use() -> None:
        runtime.use(module)
        x = torch.ones(3, 3, device="cuda", requires_grad=True)
        (x * 2).sum().backward()

    yield use
    if devices.DEVICE.xp is None:
        runtime.use(module)


def perceptron() -> Any:
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    return F.cross_entropy(net(torch.rand(6, 4)), torch.tensor([0, 1, 2, 0, 1, 2])), net


def images() -> Any:
    net = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2))
    return net(torch.rand(2, 2, 6, 6)).square().sum(), net


def sequences() -> Any:
    net = nn.LSTM(4, 5)
    return net(torch.rand(3, 2, 4))[0].sum(), net


def views_and_writes() -> Any:
    net = nn.Linear(4, 4)
    a, b = (net.weight * 2).split(2, 1)
    written = net.weight[1:2, :2].mul(3).add_(a[:1])
    return (a * b + written).sum() + net.bias.sort()[0][1], net


def low_precision() -> Any:
    net = nn.Linear(4, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return net(torch.rand(2, 4)).float().sum(), net


@pytest.mark.parametrize(
    "program", [perceptron, images, sequences, views_and_writes, low_precision]
)
def test_a_backward_pass_on_the_cpu_is_the_same_after_a_gpu_was_used(
    program: Callable[[], Any], never_used: Any
) -> None:
    def run() -> tuple[collections.Counter[str], list[bytes]]:
        for _ in range(2):  # the first pass may import or compile something
            torch.manual_seed(0)
            loss, net = program()
            calls = calls_in(loss.backward)
        return calls, [p.grad.numpy().tobytes() for p in net.parameters()]

    calls, grads = run()
    never_used()
    assert run() == (calls, grads)


def test_dropout_on_the_cpu_is_the_same_after_a_gpu_was_used(never_used: Any) -> None:
    def run() -> tuple[list[str], bytes, str]:
        torch.manual_seed(0)
        x = torch.ones(20, requires_grad=True)
        out = F.dropout(x, 0.3)
        calls = calls_in(lambda: F.dropout(x, 0.3))
        drawing = [name for name in calls if "dropout" in name]
        return drawing, out.detach().numpy().tobytes(), str(out.grad_fn)[:15]

    before = run()
    never_used()
    assert run() == before
