"""What `tapegrad.compile` says about a function is true, and names what is in the way."""

from __future__ import annotations

import dataclasses
import warnings
import weakref
from typing import Any

import pytest

import tapegrad as T
from tapegrad import nn


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
        for i in range(12):
            batch = Batch(T.full((5, 3), 0.1 * i, dtype=T.float64))
            assert f(batch).equal(net(batch.x).pow(2).sum())
            kept.append(weakref.ref(batch))
            del batch
    assert all([each() is None for each in kept])
    assert "ordinary Python around compiled modules because of" in first_line(f)


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
    """A function that is called pure, and sets the random numbers back, is found out by its draw."""
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
