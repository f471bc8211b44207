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

    def __init__(self, name: str) -> None:
        self.name = name


def op(name: str, arrays: Any, attrs: Any = (), made: Any = ()) -> Step:
    given: Any = Named(name)
    return OpStep(given, list(arrays), attrs, list(made), "a tape")


def rows(count: int) -> np.ndarray:
    return np.zeros((count, 4), np.float32)


def fine(*steps: Step) -> list[bool]:
    found = checked_before(list(steps))
    return [id(step) in found for step in steps]


def places() -> np.ndarray:
    return np.arange(3)


def test_a_gradient_at_the_places_of_the_forward_pass() -> None:
    at = places()
    forward = op("embedding", [rows(9), at])
    backward = op("embedding_dense_backward", [rows(3), at], (9, None, False, 1))
    assert fine(forward, backward) == [False, True]
    assert fine(backward, forward) == [False, True]


def test_fewer_rows_are_checked_again() -> None:
    at = places()
    forward = op("embedding", [rows(9), at])
    backward = op("embedding_dense_backward", [rows(3), at], (8, None, False, 1))
    again = op("embedding", [rows(9), at])
    assert fine(forward, backward, again) == [False, False, True]


def test_other_places_are_checked_again() -> None:
    forward = op("embedding", [rows(9), places()])
    backward = op("embedding_dense_backward", [rows(3), places()], (9, None, False, 1))
    assert fine(forward, backward) == [False, False]


def test_negative_places_are_allowed_by_an_advanced_index_alone() -> None:
    at = places()
    indexed = op("index", [rows(9)], ((at,),))
    put = op("index_put", [rows(9), rows(3)], ((at,), True))
    picked = op("index_select", [rows(9), at], (0,))
    assert fine(indexed, put) == [False, True]
    assert fine(indexed, picked) == [False, False]
    assert fine(picked, indexed) == [False, True]


def test_each_dimension_of_an_advanced_index_counts() -> None:
    a, b = places(), places()
    indexed = op("index", [rows(9)], ((slice(None), a),))
    both = op("index_put", [rows(9), rows(3)], ((b, a), True))
    assert fine(indexed, both) == [False, False]
    assert fine(indexed, op("index", [rows(9)], ((b, slice(None)),)), both) == [False, False, True]


def test_written_places_are_checked_again() -> None:
    at = places()
    forward, again = op("gather", [rows(9), at], (0,)), op("gather", [rows(9), at], (0,))
    write = op("add_", [at, places()], (), [at[1:]])
    assert fine(forward, again) == [False, True]
    assert fine(forward, write, again) == [False, False, False]
    assert fine(forward, FillStep("zeros", at), again) == [False, False, False]
    assert fine(forward, op("mul", [at, at], (), [rows(3)]), again) == [False, False, True]


def test_after_an_unknown_step_nothing_is_known() -> None:
    at = places()
    forward, again = op("gather", [rows(9), at], (0,)), op("gather", [rows(9), at], (0,))
    assert fine(forward, Step(), again) == [False, False, False]


def test_masks_and_steps_without_kernels_are_not_known() -> None:
    mask = np.ones(9, bool)
    indexed = op("index", [rows(9)], ((mask,),))
    assert fine(indexed, indexed) == [False, False]
    slow: Any = op("embedding", [rows(9), places()])
    slow.tape = None
    assert fine(slow, slow) == [False, False]


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
