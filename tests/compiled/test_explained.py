"""What `tapegrad.compile` says about a function is true, and names what is in the way."""

from __future__ import annotations

import dataclasses
import warnings
import weakref
from typing import Any

import pytest

import tapegrad as T
from tapegrad import nn


@dataclasses.dataclass(eq=False)
class Counted:
    x: Any

    def __post_init__(self):
        self.n = 1


def first_line(compiled: Any) -> str:
    return str(T.compile.explain(compiled)).partition("\n")[0]


def network() -> Any:
    layers = [nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)]
    return nn.Sequential(*layers).double()


@dataclasses.dataclass(eq=False)
class Batch:
    x: Any


def test_object_that_is_another_one_in_each_call():
    net = network()
    kept = []

    @T.compile
    def f(batch):
        return net(batch.x).pow(2).sum()

    with pytest.warns(UserWarning, match="it is given another Batch in each call"):
        for i in range(20):
            batch = Batch(T.full((5, 3), 0.1 * i, dtype=T.float64))
            assert f(batch).equal(net(batch.x).pow(2).sum())
            kept.append(weakref.ref(batch))
            del batch
    assert all([each() is None for each in kept])
    assert "ordinary Python around compiled modules because of" in first_line(f)


def test_each_of_some_objects_is_recorded():
    losses = [lambda y, k=k: (y - k).pow(2).sum() for k in range(6)]
    net = network()

    @T.compile
    def f(x, loss):
        return loss(net(x))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for i in range(60):
            f(T.full((5, 3), 0.1 * i, dtype=T.float64), losses[i % 6])
    assert "compiled as a whole, 6 recordings" in first_line(f)


def test_number_of_results_changes_after_some_were_differentiated():
    net = nn.ModuleList([network(), network(), network()])
    count = [2]

    @T.compile
    def f(x):
        return [each(x) for each in net[: count[0]]]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for i in range(16):
            count[0] = 2 if i < 8 else 3
            f(T.full((5, 3), 0.1 * i, dtype=T.float64))[0].sum().backward()
    assert "compiled as a whole" in first_line(f)
    assert "other calls" not in first_line(f)


def test_some_calls_are_not_compiled():
    net = network()

    @T.compile
    def f(x, in_place):
        return net(x.add_(1) if in_place else x).pow(2).sum()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i in range(12):
            f(T.full((5, 3), 0.1 * i, dtype=T.float64), i % 2 == 1)
    said = first_line(f)
    assert "in part compiled as a whole, 1 recording; other calls are not, because of" in said
    assert "it writes into an argument" in said


def test_wrong_replay_names_the_op_and_the_line():
    """A function that sets the random numbers back and is called pure is found out by a draw."""
    w = nn.Parameter(T.ones(3, 3))
    start = T.default_generator.stream.get_state()

    @T.compiler.pure
    def rewind():
        T.default_generator.stream.set_state(start)

    @T.compile
    def f(x):
        h = (x @ w).tanh()
        rewind()
        mask = T.rand(5, 3)
        loss = (h * mask).exp().sum()
        w.grad = None
        loss.backward()
        return loss.detach()

    with pytest.warns(UserWarning, match="a replay gave something else") as warned:
        for _ in range(14):
            f(T.ones(5, 3))
    assert "the first op that differs is rand" in str(warned[0].message)
    assert "mask = T.rand(5, 3)" in str(warned[0].message)
    assert len(warned) == 1


def train(returned: Any) -> tuple[Any, Any]:
    """A compiled training step that returns `returned(loss, prediction)`, and how it is warned."""
    net = network()
    opt = T.optim.SGD(net.parameters(), lr=0.1)
    scheduler = T.optim.lr_scheduler.StepLR(opt, 5)

    @T.compile
    def step(x):
        y = net(x)
        loss = y.pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        scheduler.step()
        return returned(loss.detach(), y.detach(), scheduler)

    with pytest.warns(UserWarning) as warned:
        for i in range(12):
            step(T.full((5, 3), 0.1 * i, dtype=T.float64))
    (only,) = warned
    return first_line(step), str(only.message)


@pytest.mark.parametrize(
    ("returned", "reason"),
    [
        (lambda loss, y, s: (loss, s.get_last_lr()), "a list or dict that is also kept elsewhere"),
        (lambda loss, y, s: (loss, T.complex(y, y).conj()), "a conjugate or negative view"),
        (lambda loss, y, s: Batch(loss), "it returns a Batch"),
    ],
    ids=["list", "conjugate", "object"],
)
def test_what_is_returned_is_in_the_way(returned, reason):
    said, warned = train(returned)
    assert "compiled in 2 pieces because of line" in said
    assert "return returned(" in said
    assert reason in said
    assert "return returned(" in warned


def test_dataclass_with_code_of_its_own_names_the_users_line():
    net = network()

    @T.compile
    def f(x):
        made = Counted(net(x))
        return made.x.pow(2).sum()

    with pytest.warns(UserWarning, match=r"Counted.__init__ reads is not seen\n.*made = Count"):
        for i in range(8):
            f(T.full((5, 3), 0.1 * i, dtype=T.float64))
    assert "`made = Counted(net(x))`" in first_line(f)


def test_counter_that_cuts_a_function():
    net = network()
    opt = T.optim.SGD(net.parameters(), lr=0.1)

    @T.compile
    def step(x, i):
        loss = net(x).pow(2).mean() / 4
        loss.backward()
        if i % 4 == 3:
            opt.step()
            opt.zero_grad()
        return loss.detach()

    for i in range(20):
        step(T.full((5, 3), 0.1 * i, dtype=T.float64), i)
    said = first_line(step)
    assert "compiled in 3 pieces because of `i`, which is another number in each call" in said
