"""Random numbers on a GPU: the generator, the functions that draw from it, seeds and states."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
from watching import CUDA, gpu, staying_on_device

import tapegrad as torch
from tapegrad import nn
from tapegrad.core import devices
from tapegrad.cuda import draws, philox

F = nn.functional


def test_philox_is_philox() -> None:
    xp = devices.DEVICE.xp

    def words(seed: int, offset: int) -> list[int]:
        return [int(w) for w in devices.to_host(philox.philox_words(xp, 4, seed, offset))]

    # The known answer of the authors of Philox 4x32-10, and one from NumPy's integers.
    assert words(0, 0) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert words(5 << 32 | 7, 1 << 40) == reference(5 << 32 | 7, 1 << 40)


def reference(seed: int, block: int) -> list[int]:
    c = [block & philox.LOW, block >> 32, 0, 0]
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
    with staying_on_device(9 if name in ASKING else 0):
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


def test_streams_take_whole_blocks() -> None:
    stream = draws.DeviceStream(0, 1)
    assert [stream.take(n) for n in (1, 4, 5, 0, 1)] == [0, 1, 2, 4, 4]
