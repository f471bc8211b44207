"""Programs of recordings, as text: what a recording of an ordinary step consists of.

The listings in `listings/` say what is recorded today, so that a change of it is seen in a diff;
that the steps compute the right thing is held by the other tests of `tapegrad.compile`.
`python tests/test_compile_listings.py` writes them anew.
"""

from __future__ import annotations

import pathlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad import nn
from tapegrad.kernels.cpu import KERNELS
from tapegrad.nn import functional as F

FOLDER = pathlib.Path(__file__).parent / "listings"
CALLS = 5
Case = tuple[Any, Callable[[], tuple[Any, ...]]]
CASES: dict[str, Callable[[], Case]] = {}


def case(build: Callable[[], Case]) -> Callable[[], Case]:
    CASES[build.__name__] = build
    return build


def training(model: Any, opt: Any, loss: Any, *shapes: Any) -> Case:
    def step(x: Any, y: Any) -> Any:
        opt.zero_grad()
        out = loss(model(x), y)
        out.backward()
        opt.step()
        return out

    return step, lambda: tuple([tg.randn(*shape) for shape in shapes])


@case
def mlp_with_sgd() -> Case:
    model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2))
    return training(model, tg.optim.SGD(model.parameters(), lr=0.1), F.mse_loss, (3, 6), (3, 2))


@case
def linear_with_adam() -> Case:
    model = nn.Linear(3, 2)
    return training(model, tg.optim.Adam(model.parameters()), F.l1_loss, (4, 3), (4, 2))


@case
def convolution() -> Case:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
    opt = tg.optim.SGD(model.parameters(), lr=0.1)
    return training(model, opt, F.mse_loss, (2, 1, 6, 6), (2, 8))


@case
def attention() -> Case:
    q = nn.Linear(4, 4, bias=False)

    def f(x: Any) -> Any:
        with tg.no_grad():
            h = q(x)
            return F.scaled_dot_product_attention(h, x, x).softmax(-1)

    return f, lambda: (tg.randn(2, 3, 4),)


@case
def embedding() -> Case:
    model = nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 2))
    opt = tg.optim.SGD(model.parameters(), lr=0.1)
    step, _ = training(model, opt, F.cross_entropy)
    return step, lambda: (tg.randint(0, 5, (4,)), tg.randint(0, 2, (4,)))


@case
def dropout_in_a_module() -> Case:
    model = nn.Sequential(nn.Linear(6, 5), nn.Dropout(0.5), nn.ReLU())
    return model, lambda: (tg.randn(3, 6),)


@case
def batch_norm() -> Case:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    return training(model, tg.optim.SGD(model.parameters(), lr=0.1), F.mse_loss, (5, 3), (5, 4))


@case
def a_view_written_in_place() -> Case:
    def f(x: Any) -> Any:
        h = x.sin().exp()
        h[0].mul_(2)
        h.view(-1)[1:3] = 0.5
        return h.cos().sum(), h.T

    return f, lambda: (tg.randn(2, 3),)


@case
def random_numbers_apart() -> Case:
    def f(x: Any) -> Any:
        y = (x.sin().exp() * 2).cos().tanh()
        with tg.random.fork_rng():
            tg.manual_seed(0)
            z = tg.rand(3)
        return (y * z).exp().sin().cos().tanh()

    return f, lambda: (tg.randn(3),)


@case
def cut_where_a_value_is_read() -> Case:
    model = nn.Linear(3, 2)
    opt = tg.optim.SGD(model.parameters(), lr=0.1)
    seen: list[float] = []

    def f(x: Any) -> Any:
        opt.zero_grad()
        loss = model(x).sin().exp().sum()
        loss.backward()
        opt.step()
        seen.append(loss.item())
        return loss

    return f, lambda: (tg.randn(4, 3),)


@case
def a_value_that_decides() -> Case:
    def f(x: Any) -> Any:
        y = x.sin().exp().cos()
        if y.isnan().any():
            raise FloatingPointError
        return (y * 2).tanh().sum().item()

    return f, lambda: (tg.randn(3),)


@case
def gradients_that_are_clipped() -> Case:
    w = tg.randn(3, 2, requires_grad=True)
    opt = tg.optim.SGD([w], lr=0.1)

    def f(x: Any) -> Any:
        opt.zero_grad()
        (x @ w).pow(2).sum().backward()
        norm = nn.utils.clip_grad_norm_([w], 1.0)
        opt.step()
        return norm

    return f, lambda: (tg.randn(4, 3),)


@case
def gradients_that_add_up() -> Case:
    w = tg.randn(3, requires_grad=True)

    def f(x: Any) -> Any:
        loss = (x * w).sin().exp().sum()
        loss.backward()
        return loss

    w.grad = tg.zeros(3)
    return f, lambda: (tg.randn(4, 3),)


@case
def rows_by_a_numpy_array() -> Case:
    data = tg.randn(6, 3)

    def f(rows: Any, scale: Any) -> Any:
        return (data[rows] * scale).sin().exp().sum(0)

    drawn = np.random.default_rng(0)
    return f, lambda: (drawn.integers(0, 6, 4), drawn.uniform())


@case
def a_recurrent_layer() -> Case:
    cell = nn.GRUCell(2, 3)

    def f(x: Any) -> Any:
        h = tg.zeros(1, 3)
        with tg.no_grad():
            for row in x:
                h = cell(row[None], h)
        return h

    return f, lambda: (tg.randn(2, 2),)


def listing(name: str) -> str:
    tg.manual_seed(0)
    function, args = CASES[name]()
    compiled = tg.compile(function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(CALLS):
            out = compiled(*args())
            if isinstance(function, nn.Module):
                out.sum().backward()
    return f"{tg.compile.explain(compiled).program()}\n"


needs_kernels = pytest.mark.skipif(KERNELS is None, reason="the steps are those of kernels in C")


@needs_kernels
@pytest.mark.parametrize("name", CASES)
def test_listing(name: str) -> None:
    assert listing(name) == (FOLDER / f"{name}.txt").read_text()


@needs_kernels
@pytest.mark.parametrize("name", CASES)
def test_a_program_is_in_order(name: str) -> None:
    """What a step reads was there before, or was made by an earlier step; equal calls are equal."""
    programs = []
    for _ in range(2):
        tg.manual_seed(0)
        function, args = CASES[name]()
        compiled = tg.compile(function)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(CALLS):
                compiled(*args())
        programs.append(tg.compile.explain(compiled).program())
    program = programs[0]
    assert programs[1] == program and hash(programs[1]) == hash(program)
    owner = [i if v.alias_of is None else v.alias_of for i, v in enumerate(program.values)]
    known = {i for i, v in enumerate(program.values) if v.origin}
    for step in (*program.steps, *program.backward):
        draws = "writes in place" in step.effects  # into memory that is made for it
        assert draws or {owner[i] for i in step.reads} <= {owner[i] for i in known}, step
        known.update(step.writes)
    assert {owner[i] for i in program.results} <= {owner[i] for i in known}


def test_programs_of_other_calls_differ() -> None:
    f = tg.compile(lambda x: (x.sin().exp() * 2).cos().tanh())
    for shape in ((2,), (3,)):
        for _ in range(4):
            f(tg.randn(*shape))
    said = tg.compile.explain(f)
    assert said.program(0) != said.program(1)
    assert [step.op for step in said.program(0).steps] == [s.op for s in said.program(1).steps]
    with pytest.raises(RuntimeError, match="there is no recording"):
        tg.compile.explain(tg.compile(lambda x: x)).program()


if __name__ == "__main__":
    for each in CASES:
        (FOLDER / f"{each}.txt").write_text(listing(each))
