"""`explain` says after how many calls compiling has paid off, from what was measured."""

import math
import re
import time
import warnings
from typing import Any

import pytest

import tapegrad as torch
from tapegrad.compiler.program.costs import Costs
from tapegrad.compiler.run.function import Compiled


def test_calls_until_paid() -> None:
    costs = Costs()
    costs.note_ordinary(90.0, is_first=True)  # it imports modules, say
    costs.note_spent(40.0)
    costs.note_spent(10.0)
    costs.note_replay(3.0, 1)
    costs.note_replay(2.0, 2)
    assert costs.calls_until_paid() == 0  # the first call alone says nothing
    costs.note_ordinary(6.0)
    costs.note_ordinary(5.0)
    # 40 + 10 for two calls that take 5 each: 40 too much, 3 of which each replay brings back.
    assert costs.calls_until_paid() == pytest.approx(5 + 40 / 3)
    before = 3 * 5.0 + 40.0 + 10.0
    assert before + 13 * 2.0 > (5 + 13) * 5.0 and before + 14 * 2.0 <= (5 + 14) * 5.0


def test_later_comparisons_count() -> None:
    costs = Costs()
    costs.note_ordinary(5.0)
    costs.note_ordinary(5.0)
    costs.note_replay(1.0, 1)
    costs.note_spent(25.0)
    assert costs.calls_until_paid() == pytest.approx(4 + 20 / 4)
    costs.note_spent(13.0)
    assert costs.calls_until_paid() == pytest.approx(5 + 28 / 4)


def test_replays_that_save_nothing_never_pay() -> None:
    costs = Costs()
    costs.note_ordinary(5.0)
    costs.note_ordinary(5.0)
    costs.note_spent(25.0)
    costs.note_replay(5.0, 1)
    assert costs.calls_until_paid() == math.inf


def step_of_a_model() -> Any:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x, y = torch.randn(8, 8), torch.randn(8, 1)

    def step() -> None:
        optimizer.zero_grad()
        (model(x) - y).square().mean().backward()
        optimizer.step()

    return step


def test_replays_are_timed_ever_rarer() -> None:
    costs, timed = Costs(), []
    for number in range(1, 130):
        if number - 1 >= costs.next_replay:
            costs.note_replay(1.0, number)
            timed.append(number)
    assert timed == [*range(1, 9), 17, 35, 71]


def test_two_calls_after_the_first_replays_are_ordinary() -> None:
    made = Compiled(step_of_a_model(), False, False)
    for i in range(1, 8):
        made()
        (recording,) = made.recordings.values()
        assert recording.replays == max(0, i - 3)
        assert recording.costs.timed == max(0, i - 5) and recording.costs.is_settled is (i == 7)
    for _ in range(20):
        made()
    assert recording.replays == 24 and recording.costs.is_settled
    assert recording.costs.calls == 4  # recorded, confirmed, compared in the 8th and in the 16th
    assert recording.costs.spent > recording.costs.recording > 0


def seconds_of(function: Any) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def test_explain_agrees_with_the_clock() -> None:
    """What all calls took is compared with as many ordinary ones; both are measured here.

    Small calls get faster for a while, so `explain` may be a little too early, as it says. What the
    first call took, which was believed once, is ten to a thousand times as much.
    """
    ordinary = step_of_a_model()
    ordinary()
    usual = min([seconds_of(ordinary) for _ in range(200)])
    compiled = Compiled(step_of_a_model(), False, False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        taken = [seconds_of(compiled) for _ in range(16)]
        later = min([seconds_of(compiled) for _ in range(200)])
    found = re.search(r"pays off after about (\d+) calls", str(torch.compile.explain(compiled)))
    assert found is not None
    # Of the first call all but an ordinary one is no matter of compiling.
    extra = sum(taken[1:]) - 15 * usual
    measured = 16 + extra / (usual - later)
    assert measured / 4 < int(found[1]) < 4 * measured, (int(found[1]), measured)
