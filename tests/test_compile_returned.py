"""`tapegrad.compile`: values that a step reads only to return them."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import pytest

import tapegrad as tg
from tapegrad import nn
from tapegrad.compiler.capture.returned_values import goes_straight
from tapegrad.nn import functional as F

KEPT: list[Any] = []


class Asked:
    """Notes whether what it is asked for is only returned."""

    shape = (3,)

    def __init__(self) -> None:
        self.answers: list[bool] = []

    def note(self) -> None:
        frame = sys._getframe(2)
        self.answers.append(goes_straight(frame.f_code, frame.f_lasti, True))

    def item(self) -> float:
        self.note()
        return 2.0

    def __bool__(self) -> bool:
        self.note()
        return True

    def __float__(self) -> float:
        self.note()
        return 2.0

    def __gt__(self, other: Any) -> Any:
        return self


def alone(t: Any) -> Any:
    return t.item()


def together(t: Any) -> Any:
    return {"a": t.item(), "n": len(t.shape)}, [t.item() / t.shape[0], -t.item()]


def in_a_variable(t: Any) -> Any:
    value = t.item()
    twice = value * 2 + len(t.shape)
    t.answers.count(True)
    return value, twice, t


def given_to_a_function(t: Any) -> Any:
    return abs(t.item())


def kept(t: Any) -> Any:
    value = t.item()
    KEPT.append(value)
    return value


def compared(t: Any) -> Any:
    return t.item() > 1


def decided_by(t: Any) -> Any:
    value = t.item()
    if value > 1:
        return 0
    return value


def written(t: Any) -> Any:
    KEPT[:] = [t.item()]
    return KEPT


def given_beside_a_constant(t: Any) -> Any:
    return [print(t.item(), (1, 2), end="")]


def spelled(t: Any) -> Any:
    return f"{t.item()}"


def asked_further(t: Any) -> Any:
    return t.item().hex()


def truth(t: Any) -> Any:
    if t > 1:
        return 1
    return 2


def negated(t: Any) -> Any:
    return not t


def as_float(t: Any) -> Any:
    return float(t)


@pytest.mark.parametrize("function", [alone, together, in_a_variable])
def test_values_that_are_only_returned(function: Callable[..., Any]) -> None:
    asked = Asked()
    function(asked)
    assert asked.answers and all(asked.answers)


@pytest.mark.parametrize(
    "function",
    [
        *(
            given_to_a_function,
            given_beside_a_constant,
            kept,
            compared,
            decided_by,
            written,
            spelled,
            asked_further,
        ),
        *(truth, negated, as_float),
    ],
)
def test_values_that_are_used(function: Callable[..., Any]) -> None:
    asked = Asked()
    function(asked)
    assert asked.answers == [False]


def classifier(compiled: bool, answer: Callable[..., Any]) -> tuple[list[Any], Any]:
    tg.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    optimizer = tg.optim.Adam(model.parameters(), lr=0.1)

    step = answer(model, optimizer)
    step = tg.compile(step) if compiled else step
    data = [(tg.randn(6, 4), tg.randint(0, 3, (6,))) for _ in range(3)]
    return [step(*data[i % 3]) for i in range(9)], step


def losses_and_counts(model: Any, optimizer: Any) -> Any:
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        out = model(x)
        loss = F.cross_entropy(out, y)
        before = loss.item()
        loss.backward()
        optimizer.step()
        right = (out.argmax(1) == y).sum()
        return {"loss": before, "sum": before * len(y), "right": right.item()}, right.bool().item()

    return step


def test_a_step_that_returns_numbers_is_recorded() -> None:
    expected, _ = classifier(False, losses_and_counts)
    found, step = classifier(True, losses_and_counts)
    assert next(iter(step.recordings.values())).replays == 6
    for (ours, some), (theirs, others) in zip(found, expected, strict=True):
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-5)
        assert ours["sum"] == pytest.approx(theirs["sum"], rel=1e-5)
        assert (ours["right"], some) == (theirs["right"], others)
        assert [type(v) for v in ours.values()] == [float, float, int] and type(some) is bool


def test_values_are_read_at_their_place() -> None:
    total = tg.zeros(())

    @tg.compile
    def step(x: Any) -> Any:
        total.add_(x.sum())
        value = total.item()
        total.zero_()
        return value

    assert [step(tg.full((3,), float(i))) for i in range(7)] == [3.0 * i for i in range(7)]
    assert next(iter(step.recordings.values())).replays == 4


def test_a_number_that_an_op_gets_is_no_part_of_a_recording() -> None:
    def step(x: Any) -> Any:
        return x.sum().item() * x.exp()

    compiled = tg.compile(step)
    with pytest.warns(UserWarning, match="a value is handed to Python"):
        for i in range(6):
            assert (
                compiled(tg.full((2,), float(i))).tolist() == step(tg.full((2,), float(i))).tolist()
            )


def test_counts_in_arithmetic_are_no_part_of_a_recording() -> None:
    """A float and an int of ours would be added up without a word."""

    def step(x: Any) -> Any:
        return 0.5 + (x > 2).sum().item()

    compiled = tg.compile(step)
    with pytest.warns(UserWarning, match="a value is handed to Python"):
        assert [compiled(tg.full((2,), float(i))) for i in range(6)] == [0.5] * 3 + [2.5] * 3


def test_a_loss_that_is_no_number() -> None:
    @tg.compile
    def step(x: Any) -> Any:
        return (x.log() + 1).sum().item()

    for _ in range(6):
        assert math.isnan(step(-tg.ones(3)))
    assert next(iter(step.recordings.values())).replays == 3
    assert step(tg.ones(3)) == 3.0
