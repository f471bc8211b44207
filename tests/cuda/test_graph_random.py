"""Random numbers in CUDA graphs: every replay draws what the same step without a graph would."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tapegrad
from tapegrad.cuda import graphs

torch: Any = tapegrad
nn = torch.nn
F = nn.functional


def captured(draw: Callable[[], Any], *generators: Any) -> tuple[Any, Any]:
    """A graph that draws, and the tensor that it fills."""
    draw()  # kernels are compiled
    graph = torch.cuda.CUDAGraph()
    for generator in generators:
        graph.register_generator_state(generator)
    with torch.cuda.graph(graph):
        out = draw()
    return graph, out


def training(graphed: bool, make_step: Callable[[], Callable[..., Any]], steps: int) -> Any:
    torch.manual_seed(0)
    step = make_step()
    run = torch.cuda.make_graphed_step(step, warm_up=1) if graphed else step
    losses = []
    for i in range(steps):
        x = torch.sin(torch.arange(48.0).reshape(4, 12) + i).cuda()
        losses.append(run(x).item())
    return losses, torch.cuda.get_rng_state().tolist()


def dropping_step() -> Callable[..., Any]:
    layers = [nn.Linear(12, 16), nn.Dropout(0.3), nn.AlphaDropout(0.2), nn.Linear(16, 3)]
    model = nn.Sequential(*layers).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        noisy = x + 0.1 * torch.randn_like(x)
        loss = (F.dropout(model(noisy), 0.5, inplace=True) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    return step


def test_a_step_with_dropout_is_the_same_captured() -> None:
    eager, graphed = [training(g, dropping_step, 6) for g in (False, True)]
    assert eager == graphed
    assert len(set(eager[0])) == 6


DRAWS: dict[str, Callable[[], Any]] = {
    "rand": lambda: torch.rand(5, device="cuda"),
    "rand float64": lambda: torch.rand(5, dtype=torch.float64, device="cuda"),
    "rand bfloat16": lambda: torch.rand(9, dtype=torch.bfloat16, device="cuda"),
    "randn": lambda: torch.randn(3, 3, device="cuda"),
    "randn float64": lambda: torch.randn(3, dtype=torch.float64, device="cuda"),
    "randint": lambda: torch.randint(0, 1000, (9,), device="cuda"),
    "randint long": lambda: torch.randint(1 << 40, (3,), device="cuda"),
    "rand_like": lambda: torch.rand_like(torch.ones(2, 3, device="cuda").t()),
    "randn_like": lambda: torch.randn_like(torch.ones(4, device="cuda")),
    "normal_": lambda: torch.ones(3, device="cuda").normal_(1, 2),
    "uniform_": lambda: torch.ones(2, 3, device="cuda").t().uniform_(2, 3),
    "bernoulli_": lambda: torch.ones(40, device="cuda").bernoulli_(0.5),
    "bernoulli": lambda: torch.bernoulli(torch.full((40,), 0.5, device="cuda")),
    "exponential_": lambda: torch.ones(3, device="cuda").exponential_(),
    "cauchy_": lambda: torch.ones(3, device="cuda").cauchy_(),
    "log_normal_": lambda: torch.ones(3, device="cuda").log_normal_(),
    "geometric_": lambda: torch.ones(40, device="cuda").geometric_(0.1),
    "random_": lambda: torch.ones(9, device="cuda").random_(1000),
    "dropout": lambda: F.dropout(torch.ones(40, device="cuda")),
    "dropout of a transpose": lambda: F.dropout(torch.ones(8, 5, device="cuda").t()),
    "native_dropout": lambda: torch.native_dropout(torch.ones(40, device="cuda"), 0.5, True)[1],
    "dropout_": lambda: torch.dropout_(torch.ones(40, device="cuda"), 0.5, True),
    "dropout1d": lambda: F.dropout1d(torch.ones(2, 20, 2, device="cuda")),
    "dropout2d": lambda: F.dropout2d(torch.ones(2, 20, 2, 2, device="cuda")),
    "alpha_dropout": lambda: F.alpha_dropout(torch.ones(40, device="cuda"), training=True),
    "feature_alpha_dropout": lambda: F.feature_alpha_dropout(
        torch.ones(2, 20, 2, device="cuda"), training=True
    ),
    "rrelu": lambda: F.rrelu(-torch.ones(5, device="cuda"), training=True),
    "gumbel_softmax": lambda: F.gumbel_softmax(torch.ones(4, device="cuda")),
    "attention": lambda: F.scaled_dot_product_attention(
        *[torch.ones(1, 2, 5, 4, device="cuda")] * 3, dropout_p=0.5
    ),
}


@pytest.mark.parametrize("name", DRAWS)
def test_replays_draw_what_calls_do(name: str) -> None:
    draw = DRAWS[name]
    graph, out = captured(draw)
    torch.manual_seed(5)
    expected = [draw().tolist() for _ in range(3)]
    after = torch.cuda.get_rng_state().tolist()
    torch.manual_seed(5)
    found = []
    for _ in range(3):
        graph.replay()
        found.append(out.tolist())
    assert found == expected
    assert found[0] != found[1] != found[2]
    assert torch.cuda.get_rng_state().tolist() == after


def test_recording_draws_nothing() -> None:
    torch.manual_seed(1)
    before = torch.cuda.get_rng_state()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        torch.rand(9, device="cuda")
    assert torch.equal(torch.cuda.get_rng_state(), before)
    graph.replay()
    assert torch.cuda.default_generators[0].get_offset() == 4


def test_seeds_and_states_between_replays() -> None:
    graph, out = captured(lambda: torch.rand(5, device="cuda"))

    def replay() -> Any:
        graph.replay()
        return out.tolist()

    torch.manual_seed(8)
    first = replay()
    state = torch.cuda.get_rng_state()
    second = replay()
    torch.cuda.manual_seed(8)
    assert replay() == first
    torch.cuda.set_rng_state(state)
    assert replay() == second
    # Numbers drawn in between are not drawn again.
    torch.manual_seed(8)
    third = torch.rand(5, device="cuda").tolist()
    assert third == first and replay() == second
    torch.manual_seed(-1)  # the largest seed
    assert replay() not in (first, second)


def test_two_graphs_draw_from_one_generator() -> None:
    one, a = captured(lambda: torch.rand(3, device="cuda"))
    two, b = captured(lambda: torch.randn(7, device="cuda"))
    torch.manual_seed(2)
    expected = [
        torch.rand(3, device="cuda").tolist(),
        torch.randn(7, device="cuda").tolist(),
        torch.rand(3, device="cuda").tolist(),
    ]
    torch.manual_seed(2)
    found = []
    for graph, out in ((one, a), (two, b), (one, a)):
        graph.replay()
        found.append(out.tolist())
    assert found == expected


def test_generators_are_registered() -> None:
    own = torch.Generator("cuda").manual_seed(4)

    def draw() -> Any:
        return torch.rand(5, generator=own, device="cuda")

    with pytest.raises(RuntimeError, match="CUDA generator not in capture mode"):
        captured(draw)
    graph, out = captured(draw, own, own)
    own.manual_seed(4)
    expected = [draw().tolist() for _ in range(2)]
    own.manual_seed(4)
    for values in expected:
        graph.replay()
        assert out.tolist() == values
    # A generator that shares the state is the same.
    shared = own.graphsafe_get_state()
    assert shared.get_offset() == own.get_offset() == 8
    own.set_offset(0)
    assert torch.rand(5, generator=shared, device="cuda").tolist() == expected[0]
    with pytest.raises(RuntimeError, match="Expected a 'cuda' device type for generator"):
        graph.register_generator_state(torch.Generator())
    with pytest.raises(TypeError, match="torch.Generator"):
        graph.register_generator_state(3)


def test_generators_of_a_graphed_step() -> None:
    own = torch.Generator("cuda")

    def step(x: Any) -> Any:
        return x + torch.rand(3, generator=own, device="cuda")

    x = torch.zeros(3, device="cuda")
    own.manual_seed(6)
    expected = [step(x).tolist() for _ in range(4)]
    own.manual_seed(6)
    run = torch.cuda.make_graphed_step(step, warm_up=1, generators=[own])
    assert [run(x).tolist() for _ in range(4)] == expected


ASKED: dict[str, Callable[[Any], Any]] = {
    "seed": lambda g: g.seed(),
    "current_seed": lambda g: g.initial_seed(),
    "get_offset": lambda g: g.get_offset(),
    "set_offset": lambda g: g.set_offset(4),
    "set_current_seed": lambda g: g.manual_seed(99),
    "register_graph": lambda g: torch.cuda.CUDAGraph().register_generator_state(g),
}


@pytest.mark.parametrize("name", ASKED)
def test_the_state_is_not_known_while_recording(name: str) -> None:
    generator = torch.cuda.default_generators[0].manual_seed(1)
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        with pytest.raises(RuntimeError, match=f"CUDAGeneratorImpl::{name}"):
            ASKED[name](generator)
        generator.manual_seed(1)  # the seed that it has
    assert not graphs.capturing()


def test_cpu_generators_share_nothing() -> None:
    with pytest.raises(NotImplementedError, match="graphsafe_get_state is not supported"):
        torch.Generator().graphsafe_get_state()
    with pytest.raises(NotImplementedError, match="graphsafe_set_state is not supported"):
        torch.Generator().graphsafe_set_state(torch.Generator())
