"""Random numbers in compiled functions: drawn anew by each call, by kernels in C alone."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import tapegrad as torch
from tapegrad.kernels.cpu import KERNELS
from test_compile_kernels import in_python
from test_compile_memory import needs_kernels

F = torch.nn.functional
DRAWS: dict[str, Any] = {
    "rand": lambda x: torch.rand(3, 4),
    "rand_like": lambda x: torch.rand_like(x),
    "randn": lambda x: torch.randn(4, 8),
    "randn, a few": lambda x: torch.randn(5),  # an odd number: one waits for the next call
    "randn_like": lambda x: torch.randn_like(x),
    "randn, double": lambda x: torch.randn(5, dtype=torch.float64),
    "randint": lambda x: torch.randint(-3, 9, (7,)),
    "randperm": lambda x: torch.randperm(9),
    "normal": lambda x: torch.normal(1.0, 2.0, (20,)),
    "normal_": lambda x: torch.empty(20).normal_(1.0, 2.0),
    "uniform_": lambda x: torch.empty(3).uniform_(-1, 1),
    "bernoulli_": lambda x: torch.empty(3, 4, dtype=torch.float64).bernoulli_(0.3),
    "dropout": lambda x: F.dropout(x, 0.4),
    "chances": lambda x: torch.bernoulli(x.sigmoid()),
    "multinomial": lambda x: torch.multinomial(x + 0.1, 1),
    "categorical": lambda x: torch.distributions.Categorical(logits=x).sample(),
    "normal sample": lambda x: torch.distributions.Normal(x, x + 1).rsample(),
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.4, True),
}
OTHERS: dict[str, Any] = {
    "bfloat16": lambda x: torch.randn(20, dtype=torch.bfloat16),
    "in order of memory": lambda x: torch.randn_like(x.t()),
    "written across": lambda x: torch.empty(4, 6).t().normal_(),
    "int32": lambda x: torch.randint(5, (3,), dtype=torch.int32),
    "complex": lambda x: torch.randn(3, dtype=torch.complex64),
    "exponential_": lambda x: torch.empty(5).exponential_(),
    "exponential_, double": lambda x: torch.empty(5, dtype=torch.float64).exponential_(),
    "cauchy_, double": lambda x: torch.empty(20, dtype=torch.float64).cauchy_(),
}


def results(draw: Any, is_compiled: bool) -> Any:
    torch.manual_seed(3)
    x = torch.arange(24.0).view(4, 6) / 24

    def work(x: Any) -> Any:
        made = draw(x)
        return made, torch.rand(2)  # what is drawn next is the same, too

    step: Any = torch.compile(work) if is_compiled else work
    values = [[t.clone() for t in step(x)] for _ in range(8)]
    return step, values, torch.get_rng_state()


@pytest.mark.parametrize("name", [*DRAWS, *OTHERS])
def test_a_compiled_draw_is_the_next_one(name: str) -> None:
    draw = {**DRAWS, **OTHERS}[name]
    step, values, state = results(draw, True)
    _, expected, expected_state = results(draw, False)
    assert all(
        torch.equal(a, b)
        for p, q in zip(values, expected, strict=True)
        for a, b in zip(p, q, strict=True)
    )
    assert torch.equal(state, expected_state)
    if KERNELS is not None:  # without them it is too small to be worth it
        (recording,) = step.recordings.values()
        assert recording.replays > 0
        assert in_python(step) == [] or name in OTHERS


@needs_kernels
def test_a_parameter_that_is_drawn_again_counts_it() -> None:
    weight = torch.zeros(20)

    @torch.compile
    def again() -> Any:
        weight.normal_()
        return weight * 2

    torch.manual_seed(1)
    seen = [again().clone() for _ in range(6)]
    assert in_python(again) == []
    before = weight._version
    seen.append(again().clone())
    assert weight._version == before + 1
    torch.manual_seed(1)
    assert [torch.equal(t, torch.randn(20) * 2) for t in seen] == [True] * 7


@needs_kernels
def test_a_seed_between_calls_and_a_generator_of_its_own() -> None:
    own = torch.Generator().manual_seed(5)

    @torch.compile
    def noise() -> Any:
        return torch.rand(4), torch.rand(4, generator=own)

    for _ in range(5):
        torch.manual_seed(2)
        first, other = (t.clone() for t in noise())
        assert torch.equal(first, torch.manual_seed(2) and torch.rand(4))
        assert not torch.equal(first, other)
    again = torch.Generator().manual_seed(5)
    expected = [torch.rand(4, generator=again) for _ in range(5)]
    assert torch.equal(other, expected[-1])


@needs_kernels
def test_threads_share_the_numbers_out() -> None:
    """No word is drawn twice: what all threads get together is what one would have got."""

    @torch.compile
    def noise() -> Any:
        return torch.randint(0, 1 << 27, (600,))

    for _ in range(4):
        noise()
    torch.manual_seed(0)
    found: list[Any] = []

    def work() -> None:
        found.extend([torch.randint(0, 1 << 27, (600,)) for _ in range(40)])

    others = [threading.Thread(target=work) for _ in range(2)]
    for each in others:
        each.start()
    found += [noise().clone() for _ in range(40)]
    for each in others:
        each.join()
    torch.manual_seed(0)
    expected = {tuple(torch.randint(0, 1 << 27, (600,)).tolist()) for _ in range(120)}
    assert {tuple(t.tolist()) for t in found} == expected


@pytest.mark.parametrize("kind", ["complex64", "int32"])
def test_a_result_that_looks_at_numbers_of_another_kind(kind: str) -> None:
    @torch.compile
    def other(x: Any) -> Any:
        y = x * 2
        return torch.view_as_complex(y) if kind == "complex64" else y.view(torch.int32)

    for i in range(6):
        x = torch.full((300, 2), float(i))
        made = other(x)
        assert made.dtype is getattr(torch, kind)
        back = torch.view_as_real(made) if kind == "complex64" else made.view(torch.float32)
        assert torch.equal(back, 2 * x)


@needs_kernels
def test_chances_that_are_none() -> None:
    """A replay that is given what is no chance raises what the function itself does."""

    @torch.compile
    def thrown(p: Any, w: Any) -> Any:
        return torch.bernoulli(p), torch.multinomial(w, 1)

    good, weights = torch.full((4,), 0.5), torch.ones(2, 3)
    for _ in range(5):
        thrown(good, weights)
    assert in_python(thrown) == []
    before = torch.get_rng_state()
    with pytest.raises(RuntimeError, match="Expected p_in >= 0 && p_in <= 1 to be true"):
        thrown(good * 3, weights)
    assert torch.equal(torch.get_rng_state(), before)
    with pytest.raises(RuntimeError, match="contains either `inf`, `nan` or element < 0"):
        thrown(good, -weights)
    torch.manual_seed(0)
    found = thrown(good, weights)
    torch.manual_seed(0)
    assert torch.equal(found[0], torch.bernoulli(good))
    assert torch.equal(found[1], torch.multinomial(weights, 1))


def test_a_refused_write_draws_nothing() -> None:
    """As in PyTorch: a leaf that requires grad is refused before its values are gone."""
    leaf = torch.ones(20, requires_grad=True)
    before = torch.get_rng_state()
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        leaf.normal_()
    assert torch.equal(leaf, torch.ones(20))
    assert torch.equal(torch.get_rng_state(), before)
