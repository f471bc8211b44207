"""Random numbers on a GPU: the generator, the functions that draw from it, seeds and states."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from watching import CUDA, gpu, staying_on_device

import tapegrad as torch
from tapegrad import nn
from tapegrad.core import devices
from tapegrad.core.op import REGISTRY
from tapegrad.cuda import draws, philox

F = nn.functional


def test_philox_is_philox() -> None:
    xp = devices.DEVICE.xp

    def words(start: philox.Start, thread: int, rounds: int = 1) -> list[int]:
        """Those of one thread of a block of 256."""
        found = devices.to_host(philox.philox_words(xp, 1024 * rounds, start, False))
        return [int(w) for w in found[thread::256]]

    # The known answer of the authors of Philox 4x32-10, and one from NumPy's integers.
    first = [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert words(philox.Start(0, 0, 256), 0) == first
    far = philox.Start(5 << 32 | 7, 1 << 40, 256)
    assert words(far, 9) == reference(5 << 32 | 7, 1 << 40, 9)
    longer = devices.to_host(philox.philox_words(xp, 512, philox.Start(0, 0, 256), True))
    assert [int(w) for w in longer[::256]] == [first[0] << 32 | first[1], first[2] << 32 | first[3]]
    # The same with seed and first round in the memory of the GPU, as in a CUDA graph.
    cell = xp.zeros(2, np.uint64)
    for seed, block in ((5 << 32 | 7, 1 << 40), (philox.MASK, 3)):
        philox.fill_cell(cell, seed, block)
        found = words(philox.Start(0, 2, 256, cell), 3, 2)
        assert found == [*reference(seed, block + 2, 3), *reference(seed, block + 3, 3)]


def reference(seed: int, block: int, thread: int) -> list[int]:
    c = [block & philox.LOW, block >> 32, thread, 0]
    k = [seed & philox.LOW, seed >> 32]
    for _ in range(10):
        a, b = c[0] * philox.MULTIPLIERS[0], c[2] * philox.MULTIPLIERS[1]
        c = [(b >> 32) ^ c[1] ^ k[0], b & philox.LOW, (a >> 32) ^ c[3] ^ k[1], a & philox.LOW]
        k = [(k[i] + philox.WEYL[i]) & philox.LOW for i in range(2)]
    return c


DRAWN: dict[str, Callable[[], Any]] = {
    "rand": lambda: torch.rand(5, device="cuda"),
    "rand float64": lambda: torch.rand(5, dtype=torch.float64, device="cuda"),
    "rand float16": lambda: torch.rand(5, dtype=torch.float16, device="cuda"),
    "rand complex": lambda: torch.rand(5, dtype=torch.complex64, device="cuda"),
    "randn": lambda: torch.randn(3, 3, device="cuda"),
    "randn float64": lambda: torch.randn(5, dtype=torch.float64, device="cuda"),
    "randint": lambda: torch.randint(-3, 9, (5,), device="cuda"),
    "randint long": lambda: torch.randint(1 << 40, (5,), device="cuda"),
    "randperm": lambda: torch.randperm(7, device="cuda"),
    "rand_like": lambda: torch.rand_like(gpu(1.0, 2.0)),
    "randn_like": lambda: torch.randn_like(torch.ones(2, 3, device="cuda").t()),
    "normal_": lambda: torch.ones(3, device="cuda").normal_(1, 2),
    "uniform_": lambda: torch.ones(2, 3, device="cuda").t().uniform_(2, 3),
    "bernoulli_": lambda: torch.ones(3, device="cuda").bernoulli_(0.5),
    "bernoulli": lambda: torch.bernoulli(gpu(0.5, 0.5)),
    "exponential_": lambda: torch.ones(3, device="cuda").exponential_(),
    "cauchy_": lambda: torch.ones(3, device="cuda").cauchy_(),
    "log_normal_": lambda: torch.ones(3, device="cuda").log_normal_(),
    "geometric_": lambda: torch.ones(3, device="cuda").geometric_(0.5),
    "random_": lambda: torch.ones(3, device="cuda").random_(9),
    "normal": lambda: torch.normal(0.0, 1.0, (3,), device="cuda"),
    "normal of a tensor": lambda: torch.normal(gpu(1.0, 2.0), 0.5),
    "dropout": lambda: F.dropout(torch.ones(9, device="cuda")),
    "dropout2d": lambda: F.dropout2d(torch.ones(1, 3, 2, 2, device="cuda")),
    "alpha_dropout": lambda: F.alpha_dropout(torch.ones(9, device="cuda"), training=True),
    "rrelu": lambda: F.rrelu(-torch.ones(5, device="cuda"), training=True),
    "gumbel_softmax": lambda: F.gumbel_softmax(torch.ones(4, device="cuda")),
}
ASKING: dict[str, Callable[[], Any]] = {
    "multinomial": lambda: torch.multinomial(gpu(1.0, 2.0, 3.0), 2),
    "multinomial again": lambda: torch.multinomial(torch.ones(2, 4, device="cuda"), 9, True),
    "normal of two": lambda: torch.normal(gpu(1.0, 2.0), gpu(0.5, 0.5)),
    "poisson": lambda: torch.poisson(gpu(1.0, 20.0)),
    "binomial": lambda: torch.binomial(gpu(5.0), gpu(0.5)),
}


@pytest.mark.parametrize("name", [*DRAWN, *ASKING])
def test_random_numbers(name: str) -> None:
    draw = {**DRAWN, **ASKING}[name]
    torch.manual_seed(3)
    # Without kernels the host shuffles the places of equal keys.
    asks = name in ASKING or (name == "randperm" and not hasattr(devices.DEVICE.xp, "RawKernel"))
    with staying_on_device(9 if asks else 0):
        first = draw()
    assert first.device == CUDA
    second = draw()
    torch.manual_seed(3)
    again = draw()
    assert torch.equal(first, again)
    wide = first.numel() > 2 and not name.startswith(("bernoulli", "dropout", "geo", "random_"))
    assert not wide or name in ASKING or not torch.equal(first, second)


def test_distributions_of_the_numbers() -> None:
    torch.manual_seed(1)
    n = 20_000
    for dtype in (torch.float32, torch.float64):
        u = torch.rand(n, dtype=dtype, device="cuda").cpu()
        assert u.min() >= 0 and u.max() < 1
        assert abs(u.mean() - 0.5) < 0.01 and abs(u.var() - 1 / 12) < 0.003
        z = torch.randn(n, dtype=dtype, device="cuda").cpu()
        assert abs(z.mean()) < 0.03 and abs(z.std() - 1) < 0.03
        assert abs((z[0::2] * z[1::2]).mean()) < 0.03
    k = torch.randint(0, 7, (n,), device="cuda").cpu()
    assert k.min() == 0 and k.max() == 6
    assert sorted(torch.randperm(99, device="cuda").tolist()) == list(range(99))
    assert abs(torch.ones(n, device="cuda").bernoulli_(0.3).mean().item() - 0.3) < 0.02
    assert abs(torch.ones(n, device="cuda").exponential_(2.0).mean().item() - 0.5) < 0.02
    picked = torch.multinomial(gpu(1.0, 0.0, 3.0), n, True).cpu()
    assert abs((picked == 2).double().mean() - 0.75) < 0.02 and not (picked == 1).any()
    kept = torch.multinomial(torch.ones(50, device="cuda"), 50).cpu()
    assert sorted(kept.tolist()) == list(range(50))


def test_generators() -> None:
    own = torch.Generator("cuda").manual_seed(7)
    assert own.device == CUDA and own.initial_seed() == 7
    a = torch.rand(4, generator=own, device="cuda")
    state = own.get_state()
    assert state.shape == (16,) and own.get_offset() == 4
    b = torch.rand(4, generator=own, device="cuda")
    own.set_state(state)
    assert torch.equal(b, torch.rand(4, generator=own, device="cuda"))
    own.set_offset(0)
    assert torch.equal(a, torch.rand(4, generator=own, device="cuda"))
    other = pickle.loads(pickle.dumps(own.clone_state()))
    expected = torch.rand(2, generator=own, device="cuda")
    assert torch.equal(torch.rand(2, generator=other, device="cuda"), expected)
    with pytest.raises(RuntimeError, match="Expected a 'cpu' device type for generator"):
        torch.rand(2, generator=own)
    with pytest.raises(RuntimeError, match="Expected a 'cuda' device type for generator"):
        torch.rand(2, generator=torch.Generator(), device="cuda")


def test_the_random_state() -> None:
    cuda = torch.cuda
    cuda.manual_seed_all(5)
    state = cuda.get_rng_state()
    assert cuda.initial_seed() == 5 and len(cuda.get_rng_state_all()) == cuda.device_count()
    a = torch.rand(3, device="cuda")
    cuda.set_rng_state(state)
    assert torch.equal(a, torch.rand(3, device="cuda"))
    with torch.random.fork_rng([0]):
        inside = torch.rand(3, device="cuda")
    assert torch.equal(inside, torch.rand(3, device="cuda"))
    cuda.manual_seed(5)
    assert torch.equal(a, torch.rand(3, device="cuda"))
    assert cuda.default_generators[0].initial_seed() == 5
    before = torch.rand(1)
    torch.manual_seed(0)
    cpu = torch.rand(1)
    torch.manual_seed(0)
    torch.rand(9, device="cuda")  # does not move the CPU's numbers
    assert torch.equal(cpu, torch.rand(1)) and before.shape == (1,)


def test_streams_take_whole_rounds() -> None:
    stream = draws.DeviceStream(0, 1)
    whole = stream.most * 256 * 4
    assert [stream.take(n).round for n in (1, whole, whole + 1, 0, 1)] == [0, 1, 2, 4, 4]
    assert [stream.take(n, 2).round for n in (whole // 2 + 1, 1)] == [5, 7]
    assert [stream.take(n).threads for n in (1, 256, 257, whole)] == [256, 256, 512, whole // 4]


@pytest.mark.parametrize("kind", ["float32", "float64", "float16", "bfloat16"])
def test_fused_numbers_are_those_of_the_formulas(kind: str, monkeypatch: Any) -> None:
    if not hasattr(devices.DEVICE.xp, "RawKernel"):
        pytest.skip("fused kernels need CuPy and a GPU")
    dtype = getattr(torch, kind)

    def draw() -> list[Any]:
        torch.manual_seed(-5)
        x = torch.linspace(-1, 1, 1027, device="cuda").to(dtype).requires_grad_()
        dropped = F.dropout(x, 0.3)
        dropped.backward(x.detach())
        some = torch.empty(1027, dtype=dtype, device="cuda")
        coins = some.clone().bernoulli_(0.3)
        exact = [torch.rand_like(some), some.clone().uniform_(-3, 5), coins, dropped, x.grad]
        return [t.detach().cpu() for t in (*exact, torch.randn_like(some))]

    fused = draw()
    monkeypatch.setattr(devices.DEVICE.backend, "draws", {})
    for name in ("drawn_dropout", "native_dropout_backward"):
        formula = functools.partial(REGISTRY[name].forward, devices.DEVICE.xp)
        monkeypatch.setattr(REGISTRY[name].device, "kernel", formula)
    *same, normals = zip(fused, draw(), strict=True)
    assert all([torch.equal(a, b) for a, b in same])
    torch.testing.assert_close(*normals)


def test_dropout_is_one_op() -> None:
    x = torch.ones(4, 5, device="cuda", requires_grad=True)
    torch.manual_seed(0)
    with staying_on_device():
        out = F.dropout(x, 0.25)
        out.sum().backward()
    assert out.grad_fn.name() == "NativeDropoutBackward0"
    assert torch.equal(out, x.grad)
    torch.manual_seed(0)
    again, mask = torch.native_dropout(x, 0.25, True)
    assert torch.equal(again, out) and torch.equal(mask, out != 0) and mask.dtype == torch.bool
    torch.manual_seed(0)
    # Numbers are drawn in the order of the memory.
    turned = F.dropout(x.reshape(5, 4).t(), 0.25)
    assert torch.equal(turned.t().reshape(-1), out.reshape(-1))
    (first,) = torch.autograd.grad(F.dropout(x, 0.5).pow(2).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert torch.equal(first, second)
