"""Kernels that become one while a graph is recorded.

What they compute is compared on a GPU, with the same step that is not recorded, bit for bit. Which
kernel ends up where is seen without one, in a graph that notes what it is told.
"""

from __future__ import annotations

import functools
import itertools
import types
from typing import Any

import numpy as np
import pytest

import tapegrad
from tapegrad.api.publish import load_everything
from tapegrad.core import devices
from tapegrad.core.op import REGISTRY
from tapegrad.kernels.backend import Backend
from tapegrad.kernels.cuda import join_sources
from tapegrad.kernels.cuda import joins as gpu_joins
from tapegrad.kernels.cuda.formulas import ARRAY, Formulas, of_forward
from tapegrad.kernels.cuda.launchers import elementwise, norm_launchers, norms
from tapegrad.kernels.cuda.launchers.kernels import Gpu

load_everything()
torch: Any = tapegrad
nn, F = torch.nn, torch.nn.functional
real_gpu = pytest.mark.skipif(
    not hasattr(devices.DEVICE.xp, "RawKernel"), reason="fused kernels need CuPy and a GPU"
)
F32 = np.dtype(np.float32)


# ---------------------------------------------------------------------- without a GPU


class Memory:
    def __init__(self) -> None:
        self.gone: Any = None

    def __del__(self) -> None:
        if self.gone is not None:
            self.gone()


class Array:
    """Shape, dtype and address: kernels do not run here."""

    addresses = itertools.count(1 << 12, 1 << 12)
    _c_contiguous = True

    def __init__(self, shape: Any, dtype: Any) -> None:
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)
        self.ndim, self.size = len(self.shape), int(np.prod(self.shape))
        self.strides = np.empty(self.shape, self.dtype).strides
        self.data = types.SimpleNamespace(ptr=next(self.addresses), mem=Memory())


class Graph:
    """Kernels in the order in which they were started, with their names and arguments."""

    def __init__(self) -> None:
        self.nodes: list[tuple[str, str, list[Any]]] = []
        graph = self

        class RawKernel:
            def __init__(self, code: str, name: str, options: Any) -> None:
                self.code, self.name = code, name

            def __call__(self, grid: Any, block: Any, args: Any) -> None:
                graph.nodes.append((self.name, self.code, addresses(args)))

        runtime = types.SimpleNamespace(
            getDeviceProperties=lambda i: {"multiProcessorCount": 132, "major": 9, "minor": 0}
        )
        self.xp = types.SimpleNamespace(
            ndarray=Array, RawKernel=RawKernel, cuda=types.SimpleNamespace(runtime=runtime)
        )

    def last(self) -> int | None:
        return len(self.nodes) - 1 if self.nodes else None

    def waiting(self, node: int) -> int:
        return int(node != self.last())

    def set(self, node: int, kernel: Any, grid: Any, block: Any, args: Any) -> bool:
        self.nodes[node] = kernel.name, kernel.code, addresses(args)
        return True

    def names(self) -> list[str]:
        return [name for name, _, _ in self.nodes]

    def stores(self, array: int) -> list[bool]:
        """Whether each kernel is told of an address."""
        return [array in args for _, _, args in self.nodes]


def addresses(args: Any) -> list[int]:
    found = [gpu_joins.as_pointer(a) for a in args]
    return [int(a) for a in found if isinstance(a, np.uint64)]


class Recorded:
    """Ops of a backend whose kernels are only noted, while a graph is recorded."""

    def __init__(self) -> None:
        self.graph = Graph()
        self.gpu: Any = Gpu(self.graph.xp)
        backend = Backend("cuda", self.graph.xp)
        norm_launchers.register_batch(backend, norms.Norms(backend, self.gpu), lambda name: None)
        self.overrides = backend.overrides
        backend.gpu = self.gpu
        backend.assign = lambda target, source: self.copy((source, target))
        self.backend: Any = backend
        self.copy = functools.partial(self.graph.xp.RawKernel("", "copy", ()), (1,), (1,))
        self.joins = gpu_joins.Joins(backend, self.graph)
        self.joins.begin()

    def array(self, *shape: int) -> Any:
        return Array(shape, F32)

    def norm(self, x: Any) -> Any:
        weight, bias = self.array(x.shape[1]), self.array(x.shape[1])
        return self.overrides["native_batch_norm"](x, weight, bias, 1e-5, F32)

    def norm_back(self, grad: Any, x: Any, stats: Any) -> Any:
        weight = self.array(x.shape[1])
        kernel = self.overrides["native_batch_norm_backward"]
        return kernel(grad, x, weight, stats, True, 1e-5, True)

    def apply(self, name: str, *arrays: Any) -> Any:
        formula = of_forward(REGISTRY[name]).of(F32, (ARRAY,) * len(arrays))[0]
        return (self.gpu.unary if len(arrays) == 1 else self.gpu.binary)(formula, *arrays)

    def relu_back(self, grad: Any, out: Any, version: int = 0) -> Any:
        """Of what was saved after so many writes over it."""
        formula = Formulas(elementwise.masked).of(F32, (ARRAY, ARRAY))[0]
        self.joins.versions = (version,)
        found = self.gpu.binary(formula, grad, out)
        self.joins.versions = ()
        return found


SMALL, LARGE = (4, 6, 4, 4), (64, 6, 32, 32)  # one kernel for a channel, and two


@pytest.mark.parametrize(("shape", "last"), [(SMALL, "norm_whole"), (LARGE, "norm_apply")])
def test_relu_behind_a_norm_is_a_part_of_it(shape: Any, last: str) -> None:
    r = Recorded()
    y, _ = r.norm(r.array(*shape))
    kernels = r.graph.names()
    out = r.apply("relu", y)
    assert r.graph.names() == kernels and kernels[-1] == last
    assert out.shape == shape
    between, made = y.data.ptr, out.data.ptr
    assert r.graph.stores(between)[-1]
    assert r.graph.stores(made)[-1]
    assert "maximum" in r.graph.nodes[-1][1]
    del y
    assert not r.graph.stores(between)[-1]
    assert r.graph.stores(made)[-1]


def test_what_somebody_keeps_is_stored() -> None:
    r = Recorded()
    y, _ = r.norm(r.array(*SMALL))
    out = r.apply("relu", y)
    r.apply("exp", r.array(3))  # another kernel, which may have read it
    between = y.data.ptr
    del y
    assert r.graph.stores(between)[0]
    r.apply("exp", out)
    assert r.graph.names() == ["norm_whole", "unary", "unary"]


def test_nothing_joins_what_is_not_the_last() -> None:
    r = Recorded()
    y, _ = r.norm(r.array(*SMALL))
    r.apply("exp", r.array(3))
    r.apply("relu", y)
    assert r.graph.names() == ["norm_whole", "unary", "unary"]
    other = Recorded()
    y, _ = other.norm(other.array(*SMALL))
    other.apply("relu", other.array(*SMALL))  # of something else
    assert other.graph.names() == ["norm_whole", "unary"]


@pytest.mark.parametrize("first", [True, False])
def test_a_sum_and_relu_behind_a_norm(first: bool) -> None:
    r = Recorded()
    beside = r.array(*SMALL)
    y, _ = r.norm(r.array(*SMALL))
    total = r.apply("add", *((y, beside) if first else (beside, y)))
    out = r.apply("relu", total)
    assert r.graph.names() == ["norm_whole"]
    pointers = [a.data.ptr for a in (y, total)]
    assert r.graph.stores(beside.data.ptr) == [True]
    del y, total
    assert [r.graph.stores(p) for p in pointers] == [[False], [False]]
    assert r.graph.stores(out.data.ptr) == [True]


def test_memory_of_a_norm_is_not_given_to_what_joins_it() -> None:
    """While something may join, what the kernel reads is kept."""
    r = Recorded()
    x = r.array(*SMALL)
    gone: list[int] = []
    x.data.mem.gone = lambda: gone.append(1)
    y, stats = r.norm(x)
    del x
    out = r.apply("relu", y)
    assert not gone
    r.apply("exp", r.array(3))
    r.apply("relu", out)
    assert gone
    del stats


@pytest.mark.parametrize("shape", [SMALL, LARGE])
def test_gradients_of_both_are_one(shape: Any) -> None:
    r = Recorded()
    x = r.array(*shape)
    y, stats = r.norm(x)
    out = r.apply("relu", y)
    del y
    r.apply("exp", r.array(3))
    before = len(r.graph.nodes)
    grad = r.array(*shape)
    masked = r.relu_back(grad, out)
    r.norm_back(masked, x, stats)
    names = r.graph.names()[before:]
    assert names == (["back_whole"] if shape == SMALL else ["back_parts", "back_apply"])
    between = masked.data.ptr
    assert r.graph.stores(grad.data.ptr)[before:] == [True] * len(names)
    assert r.graph.stores(between)[before:] == [True] + [False] * (len(names) - 1)
    assert not r.graph.stores(out.data.ptr)[before]  # it is computed again
    del masked
    assert not any(r.graph.stores(between)[before:])


def test_gradients_that_others_read_are_apart() -> None:
    r = Recorded()
    x, grad = r.array(*SMALL), r.array(*SMALL)
    y, stats = r.norm(x)
    out = r.apply("relu", y)
    r.apply("exp", r.array(3))
    masked = r.relu_back(grad, out)
    r.apply("exp", masked)
    r.norm_back(masked, x, stats)
    assert r.graph.names() == ["norm_whole", "unary", "binary", "unary", "back_whole"]
    assert r.graph.stores(masked.data.ptr)[2:] == [True] * 3
    again = r.relu_back(grad, out)
    r.norm_back(again, r.array(*SMALL), stats)  # of another input
    assert r.graph.names()[5:] == ["binary", "back_whole"]


def test_in_place() -> None:
    """What is written over is not stored before; the gradient goes by what is there then."""
    r = Recorded()
    x, grad = r.array(*SMALL), r.array(*SMALL)
    y, stats = r.norm(x)
    made = r.apply("relu", y)
    between = made.data.ptr
    r.backend.assign(y, made)
    del made
    assert r.graph.names() == ["norm_whole"]
    assert r.graph.nodes[0][2].count(y.data.ptr) == 1
    assert r.graph.stores(between) == [False]
    r.apply("exp", r.array(3))
    r.norm_back(r.relu_back(grad, y, 1), x, stats)
    assert r.graph.names() == ["norm_whole", "unary", "back_whole"]
    r.norm_back(r.relu_back(grad, y, 2), x, stats)  # after another write
    assert r.graph.names()[3:] == ["binary", "back_whole"]


def test_a_sum_in_the_place_of_the_other() -> None:
    """`out += norm(x)`, and relu in its place."""
    r = Recorded()
    beside, _ = r.norm(r.array(*SMALL))
    r.apply("exp", r.array(3))
    y, _ = r.norm(r.array(*SMALL))
    for name, arrays in (("add", (beside, y)), ("relu", (beside,))):
        made = r.apply(name, *arrays)
        r.backend.assign(beside, made)
        del made
    assert r.graph.names() == ["norm_whole", "unary", "norm_whole"]
    pointers = y.data.ptr, beside.data.ptr
    del y, arrays
    # One argument to read it, and one to write it.
    assert [r.graph.nodes[-1][2].count(p) for p in pointers] == [0, 2]


def test_other_writes_are_apart() -> None:
    r = Recorded()
    y, _ = r.norm(r.array(*SMALL))
    made = r.apply("relu", y)
    r.backend.assign(r.array(*SMALL), made)  # to somewhere else
    assert r.graph.names() == ["norm_whole", "copy"]
    r.backend.assign(y, made)
    assert r.graph.names() == ["norm_whole", "copy", "copy"]
    r.joins.end()
    assert r.backend.assign is not r.joins.assign


def test_a_value_that_was_written_over_is_not_computed_again() -> None:
    r = Recorded()
    x, grad = r.array(*SMALL), r.array(*SMALL)
    y, stats = r.norm(x)
    r.apply("relu", y)
    r.copy((x, y))
    r.norm_back(r.relu_back(grad, y, 1), x, stats)
    assert r.graph.names() == ["norm_whole", "copy", "binary", "back_whole"]


@pytest.mark.parametrize(
    ("name", "values", "may"),
    [
        ("relu", (ARRAY,), False),
        ("add", (ARRAY, ARRAY), False),
        ("mul", (ARRAY, ARRAY), True),
        ("exp", (ARRAY,), True),
        ("leaky_relu", (ARRAY, 0.1), True),
    ],
)
def test_products_are_not_fused_with_the_next_sum(name: str, values: Any, may: bool) -> None:
    formula = of_forward(REGISTRY[name]).of(F32, values)[0]
    text = join_sources.tail([(formula, [True] * len(formula.arrays))])
    assert ("settle(f.v[c], one);" in text) is may


def test_the_end() -> None:
    r = Recorded()
    y, _ = r.norm(r.array(*SMALL))
    r.joins.end()
    assert r.gpu.joins is None
    r.apply("relu", y)
    assert r.graph.names() == ["norm_whole", "unary"]
    between = y.data.ptr
    del y
    assert r.graph.stores(between)[0]


# ---------------------------------------------------------------------- on any device


class Block(nn.Module):
    def __init__(self, channels: int, act: Any, kept: Any = None, affine: bool = True) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 1)
        self.norm1 = nn.BatchNorm2d(channels, affine=affine)
        self.norm2 = nn.BatchNorm2d(channels)
        self.act, self.kept = act, kept

    def forward(self, x: Any) -> Any:
        y = self.norm1(self.first(x))
        if self.kept is not None:
            self.kept(y)
        y = self.norm2(self.second(self.act(y)))
        return self.act(y + x)


class Hook:
    """Looks at the intermediate result, or at its gradient."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.seen: list[Any] = []

    def __call__(self, y: Any) -> None:
        if not y.requires_grad:
            return
        self.seen.clear()
        if self.what == "values":
            self.seen.append(y)
        elif self.what == "gradients":
            y.register_hook(self.seen.append)
        elif self.what == "changes":
            y.register_hook(lambda g: g * 2)
        elif self.what == "sums":
            self.seen.append(y.detach().sum())


ACTIVATIONS = {
    "relu": torch.relu,
    "silu": F.silu,
    "leaky": lambda y: F.leaky_relu(y, 0.1),
    "scaled": lambda y: y * 0.3 + 0.7,
    "relu_": torch.relu_,
    "elu_": lambda y: F.elu(y, inplace=True),
}


class Aside(nn.Module):
    """As networks for images mostly have it: sums and activations in place."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(channels, channels, 1), nn.BatchNorm2d(channels)
        self.aside = nn.Sequential(nn.Conv2d(channels, channels, 1), nn.BatchNorm2d(channels))
        self.act = nn.ReLU(inplace=True)

    def forward(self, x: Any) -> Any:
        out = self.norm(self.conv(x))
        beside = self.aside(x)
        out += beside
        return self.act(out)


def losses(recorded: bool, kind: str, last: bool, name: str, what: str, shape: Any) -> Any:
    torch.manual_seed(0)
    act = ACTIVATIONS[name]
    hook = Hook(what) if what else None
    blocks = [Block(shape[1], act, hook), Block(shape[1], act, affine=False), Aside(shape[1])]
    model = nn.Sequential(*blocks).cuda()
    model = model.to(getattr(torch, kind))
    x = torch.randn(*shape).to(getattr(torch, kind)).cuda()
    if last:
        model, x = [t.to(memory_format=torch.channels_last) for t in (model, x)]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    run = torch.cuda.make_graphed_step(step) if recorded else step
    found = [run(x).detach().clone().cpu() for _ in range(5)]
    found += [t.detach().float().cpu() for t in (*model.parameters(), *model.buffers())]
    found += [p.grad.float().cpu() for p in model.parameters()]
    if hook is not None:
        found += [t.detach().float().cpu() for t in hook.seen]
    model.eval()
    with torch.no_grad():
        infer = torch.cuda.make_graphed_step(model.forward) if recorded else model.forward
        found += [infer(x).float().cpu().clone() for _ in range(4)]
    return found


CASES = [
    ("float32", False, "relu", "", (4, 8, 6, 6)),
    ("float32", True, "relu", "", (4, 8, 6, 6)),
    ("float32", False, "relu", "", (2, 3, 5, 5)),
    ("float64", False, "relu", "", (4, 8, 6, 6)),
    ("float32", False, "silu", "", (4, 8, 6, 6)),
    ("float32", False, "leaky", "", (4, 8, 6, 6)),
    ("float32", False, "scaled", "", (4, 8, 6, 6)),
    ("float32", False, "relu_", "", (4, 8, 6, 6)),
    ("float32", True, "elu_", "", (4, 8, 6, 6)),
    *[("float32", False, "relu", what, (4, 8, 6, 6)) for what in ("values", "gradients")],
    *[("float32", False, "relu", what, (4, 8, 6, 6)) for what in ("changes", "sums")],
]
MORE = [
    ("bfloat16", False, "relu", "", (8, 8, 12, 12)),
    ("float16", True, "relu", "values", (8, 8, 12, 12)),
    ("bfloat16", True, "silu", "", (8, 8, 12, 12)),
    ("float32", False, "relu", "", (64, 16, 24, 24)),
    ("float32", True, "relu", "", (64, 16, 24, 24)),
    ("bfloat16", False, "relu", "gradients", (64, 16, 24, 24)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
def test_recorded_steps_are_the_same(case: Any) -> None:
    for a, b in zip(losses(False, *case), losses(True, *case), strict=True):
        assert torch.equal(a, b)


@real_gpu
@pytest.mark.parametrize("case", MORE, ids=lambda case: "-".join(map(str, case)))
def test_recorded_steps_are_the_same_on_a_gpu(case: Any) -> None:
    for a, b in zip(losses(False, *case), losses(True, *case), strict=True):
        assert torch.equal(a, b)


class Tagged(torch.Tensor):
    pass


def test_with_a_subclass() -> None:
    def step(x: Any) -> Any:
        return torch.relu(norm(x.as_subclass(Tagged)))

    torch.manual_seed(0)
    norm = nn.BatchNorm2d(4).cuda()
    x = torch.randn(3, 4, 5, 5).cuda()
    run = torch.cuda.make_graphed_step(step)
    found = [run(x) for _ in range(4)]
    assert type(found[-1]) is Tagged
    assert torch.equal(found[0].cpu(), found[-1].cpu())


@real_gpu
def test_kernels_of_a_recorded_step(launches: list[str]) -> None:
    """Neither the activations nor their gradients start a kernel of their own."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.BatchNorm2d(8), nn.ReLU(), nn.BatchNorm2d(8), nn.ReLU()).cuda()
    x = torch.randn(16, 8, 8, 8).cuda().requires_grad_()

    def step(x: Any) -> Any:
        model.zero_grad()
        out = model(x)
        out.backward(torch.ones_like(out))
        return out

    run = torch.cuda.make_graphed_step(step)
    for _ in range(2):
        launches.clear()
        run(x)
    eager = list(launches)
    launches.clear()
    run(x)
    kernels = ["norm_whole", "unary"] * 2 + ["binary", "back_whole"] * 2
    assert [name for name in eager if name in kernels] == kernels
    # The gradients of the activations have become those of the norms.
    kernels = ["norm_whole"] * 2 + ["binary"] * 2
    assert [name for name in launches if name in (*kernels, "unary", "back_whole")] == kernels
