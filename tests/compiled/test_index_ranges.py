"""Places that were checked by an earlier step need no undo; all others are refused as before."""

import warnings
from typing import Any

import numpy as np
import pytest

import tapegrad as torch
import tapegrad.nn.functional as F
from tapegrad.compiler.program.index_ranges import checked_before
from tapegrad.compiler.program.steps import FillStep, OpStep, Step
from tapegrad.compiler.run.function import Compiled
from tapegrad.kernels.cpu import KERNELS

pytestmark = pytest.mark.skipif(KERNELS is None, reason="kernels in C check places")


class Named:
    """An op that has a name."""

    name = "an op"


class Tape:
    """A tape as far as its calls can be described; (name, sizes) of each."""

    def __init__(self, *calls: tuple[str, tuple[int, ...]]) -> None:
        self.calls = calls
        self.checked = [0] * [name for name, _ in calls].count("check")

    def __len__(self) -> int:
        return len(self.calls)

    def described(self, i: int) -> Any:
        name, sizes = self.calls[i]
        return None if name == "machine" else (name, (), sizes, ())


CHECK = ("check", ())


def step(arrays: Any, *calls: Any, attrs: Any = (), made: Any = ()) -> Step:
    op: Any = Named()
    tape = Tape(*calls) if calls else None
    return OpStep(op, list(arrays), attrs, list(made), tape)


def rows(count: int = 9) -> np.ndarray:
    return np.zeros((count, 4), np.float32)


def places() -> np.ndarray:
    return np.arange(3)


def reads(at: Any, size: int = 9, wraps: int = 0) -> Step:
    return step([rows(), at], ("take", (1, size, 16, 3, wraps)), CHECK)


def adds(at: Any, size: int = 9, wraps: int = 0) -> Step:
    given = ("copy", (4, 12)), ("add_rows_f32", (1, size, 4, 3, wraps, 0, 0)), CHECK
    return step([rows(3), at], *given)


def fine(*steps: Step) -> list[bool]:
    found = checked_before(list(steps))
    return [id(each) in found for each in steps]


def test_a_gradient_at_the_places_of_the_forward_pass() -> None:
    at = places()
    assert fine(reads(at), adds(at)) == [False, True]
    assert fine(adds(at), reads(at)) == [False, True]


def test_another_number_of_rows_is_checked_again() -> None:
    at = places()
    assert fine(reads(at), adds(at, 8), reads(at, 8)) == [False, False, True]


def test_other_places_are_checked_again() -> None:
    assert fine(reads(places()), adds(places())) == [False, False]
    at = places()
    assert fine(reads(at[:2]), reads(at[1:]), reads(at[:2])) == [False, False, True]


def test_negative_places_are_allowed_where_they_count_from_the_end() -> None:
    at = places()
    assert fine(reads(at, wraps=1), adds(at, wraps=1)) == [False, True]
    assert fine(reads(at, wraps=1), adds(at)) == [False, False]
    assert fine(reads(at), adds(at, wraps=1)) == [False, True]


def test_each_dimension_and_their_order_count() -> None:
    a, b = places(), places()

    def both(x: Any, y: Any, *sizes: int) -> Step:
        calls = ("places", (3, 2, *sizes)), CHECK, ("take", (1, 12, 4, 3, 1)), CHECK
        return step([rows()], *calls, attrs=((x, y),))

    assert fine(both(a, b, 3, 4), both(a, b, 3, 4)) == [False, True]
    assert fine(both(a, b, 3, 4), both(b, a, 3, 4)) == [False, False]
    assert fine(both(a, b, 3, 4), both(a, b, 4, 3)) == [False, False]


def test_written_places_are_checked_again() -> None:
    at = places()
    write = step([at, places()], made=[at[1:]])
    assert fine(reads(at), write, reads(at)) == [False, False, False]
    assert fine(reads(at), FillStep("zeros", at), reads(at)) == [False, False, False]
    assert fine(reads(at), step([at, at], made=[rows()]), reads(at)) == [False, False, True]


def test_after_an_unknown_step_nothing_is_known() -> None:
    at = places()
    assert fine(reads(at), Step(), reads(at)) == [False, False, False]


def test_what_is_not_understood_is_not_known() -> None:
    at = places()
    for given in (
        step([rows(), at], ("draws", (1, 9)), CHECK),  # another kernel
        step([rows(), at], ("machine", ()), CHECK),
        step([rows(), at], CHECK),
        step([at, places()], ("take", (1, 9, 8, 3, 0)), CHECK),  # which are the indices?
        step([rows(), at, np.ones(3, bool)], ("take", (1, 9, 8, 3, 0)), CHECK),
        step([rows(), at]),
    ):
        assert fine(given, given, reads(at), given) == [False] * 4


def replayed(work: Any, *args: Any) -> tuple[Compiled, Any]:
    made = Compiled(work, False, False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(5):
            made(*args)
    (recording,) = made.recordings.values()
    assert recording.replays, recording.reason
    return made, recording


def test_a_replay_of_an_embedding_copies_nothing() -> None:
    table = torch.ones(1000, 16, requires_grad=True)
    at = torch.arange(600)

    def work(at: torch.Tensor) -> None:
        table.grad = None
        F.embedding(at, table).sum().backward()

    made, recording = replayed(work, at)
    assert not recording.rollback.copies.arrays
    kept = table.grad
    assert kept is not None
    before = kept.clone()
    at[3] = 1000
    with pytest.raises(IndexError, match="index out of range in self"):
        made(at)
    assert table.grad is None and torch.equal(kept, before)  # as an eager call leaves it
    at[3] = 0
    made(at)
    assert table.grad is not None and table.grad[:, 0].tolist() == [2.0, 1.0, 1.0, 0.0] + (
        [1.0] * 596 + [0.0] * 400
    )


def test_places_that_change_in_between_are_undone() -> None:
    table = torch.ones(1000, 4, requires_grad=True)

    def work(at: torch.Tensor, more: torch.Tensor) -> torch.Tensor:
        there = at.clone()
        (table[there] * 2).sum().backward()
        there += more
        return F.embedding(there, table.detach())

    at, zero = torch.arange(600), torch.zeros(600, dtype=torch.int64)
    made, recording = replayed(work, at, zero)
    assert table.grad is not None
    before = table.grad.clone()
    with pytest.raises(IndexError, match="index out of range in self"):
        made(at, zero + 500)
    # An eager call adds to the gradient before it fails; that is not done twice.
    assert torch.equal(table.grad[:600], before[:600] + 2)
    assert made(at, zero + 400)[0, 0] == 1
