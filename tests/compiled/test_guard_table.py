"""Guards are compared by C in one pass over a flat table, and each kind of change is seen."""

import sys
import types
import warnings
from typing import Any

import pytest

import tapegrad as torch
from tapegrad.compiler.capture.reads import ABSENT, Reads
from tapegrad.compiler.program.guard_table import GuardTable
from tapegrad.compiler.run.function import Compiled
from tapegrad.kernels.cpu import KERNELS


class Base:
    """A class of which another one inherits."""


class Other(Base):
    """A class that an object may be given."""


class Config(Base):
    """An object with an attribute."""

    def __init__(self) -> None:
        self.width = 1000.5


def cell_of(value: Any) -> types.CellType:
    return types.CellType(value)


def function(x: int = 1, *, y: int = 2) -> int:
    return x + y


class State:
    """One thing of each kind that guards compare."""

    def __init__(self) -> None:
        self.config = Config()
        self.cell = cell_of("text")
        self.list = [1000.5, "a"]
        self.dict: dict[str, Any] = {"a": 1}
        self.function = types.FunctionType(
            function.__code__, {}, "function", function.__defaults__, None
        )
        self.function.__kwdefaults__ = {"y": 2}
        self.kind = type("Kind", (Other,), {"level": 3})
        reads = Reads()
        reads.entry(vars(self.config), "width", self.config.width, "width")
        reads.entry(self.dict, "missing", ABSENT, "missing")
        reads.length(self.dict, "the dict")
        reads.list_items(self.list, "the list")
        reads.kind(self.config)
        reads.order(self.kind)
        reads.class_entry(self.kind, "level", "level")
        reads.function(self.function)
        reads.cells.append((self.cell, self.cell.cell_contents, "`cell`"))
        reads.settle()
        self.table = GuardTable(reads)


def grow(s: State) -> None:
    s.dict["b"] = 1


def fill(s: State) -> None:
    del s.dict["a"]
    s.dict["missing"] = 1  # as many as before


CHANGES: dict[str, tuple[Any, str]] = {
    "entry": (lambda s: setattr(s.config, "width", 2), "width"),
    "absent": (fill, "missing"),
    "length": (grow, "the dict"),
    "item": (lambda s: s.list.__setitem__(1, "b"), "the list"),
    "shorter list": (lambda s: s.list.pop(), "the list"),
    "class": (lambda s: setattr(s.config, "__class__", Other), "the class of an object"),
    "order": (lambda s: setattr(s.kind, "__bases__", (Config,)), "the bases of a class"),
    "class attribute": (lambda s: setattr(s.kind, "level", 4), "level"),
    "cell": (lambda s: setattr(s.cell, "cell_contents", "other"), "`cell`"),
    "empty cell": (lambda s: delattr(s.cell, "cell_contents"), "`cell`"),
    "defaults": (lambda s: setattr(s.function, "__defaults__", (5,)), "`function`"),
    "keyword defaults": (lambda s: setattr(s.function, "__kwdefaults__", {"y": 5}), "`function`"),
    "code": (lambda s: setattr(s.function, "__code__", cell_of.__code__), "`function`"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_each_kind_of_change_is_seen(name: str) -> None:
    change, told = CHANGES[name]
    state = State()
    assert state.table.changed() == ""
    change(state)
    assert told in state.table.changed()


@pytest.mark.skipif(KERNELS is None, reason="guards are compared in C")
def test_an_equal_value_is_no_change_and_found_at_once_the_next_time() -> None:
    state = State()
    assert state.table.changed() == ""
    before = state.table.table
    state.config.width = float("1000.5")
    assert not KERNELS.guards_hold(*before)
    assert state.table.changed() == ""
    assert KERNELS.guards_hold(*state.table.table)


@pytest.mark.skipif(KERNELS is None, reason="guards are compared in C")
@pytest.mark.parametrize("kind", range(7))
def test_a_wrong_table_is_refused(kind: int) -> None:
    table: list[Any] = [()] * 7
    table[kind] = (1,)
    with pytest.raises(TypeError, match="seven flat tuples"):
        KERNELS.guards_hold(*table)
    with pytest.raises(TypeError, match="seven flat tuples"):
        KERNELS.guards_hold(*table[1:])
    if kind != 4:  # any object has a class
        table[kind] = (1,) * (4 if kind == 6 else 3 if kind == 0 else 2)
        with pytest.raises(TypeError):
            KERNELS.guards_hold(*table)


def compiled(function: Any) -> tuple[Compiled, Any]:
    made = Compiled(function, False, False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(6):
            made()
    (recording,) = made.recordings.values()
    assert recording.replays, recording.reason
    return made, recording


@pytest.mark.skipif(KERNELS is None, reason="guards are compared in C")
def test_guards_of_a_model_take_no_python_call_each() -> None:
    model = torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(8)])
    x = torch.ones(2, 4)

    def step() -> None:
        model.zero_grad()
        model(x).sum().backward()

    _, recording = compiled(step)
    calls: list[str] = []
    sys.setprofile(lambda frame, event, _: calls.append(frame.f_code.co_name))
    try:
        changed = recording.guards.changed()
    finally:
        sys.setprofile(None)
    assert changed == "" and len(calls) < 10
    assert sum(map(len, recording.guards.table)) > 100


@pytest.mark.skipif(KERNELS is None, reason="segments are calls of kernels")
def test_nothing_counts_writes_into_tensors_that_the_call_made() -> None:
    start = torch.tensor([1.0, 2.0])

    def work() -> torch.Tensor:
        x = start * 2
        for _ in range(50):
            x.sub_(0.125)
        return x

    made, recording = compiled(work)
    (segment,) = [run.__self__ for run in recording.run_steps]
    assert not segment.cells and not segment.leaves
    assert made().tolist() == [2 - 50 / 8, 4 - 50 / 8] and made()._version == work()._version


def test_writes_into_gradients_that_were_there_are_counted() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)

    def work() -> None:
        (x * 3).sum().backward()

    work()
    _, recording = compiled(work)
    assert x.grad is not None
    eager, before = x.grad._version, x.grad.clone()
    work()
    counted = x.grad._version - eager
    made, eager = recording, x.grad._version
    made.replay([])
    made.replay([])
    assert x.grad._version - eager == 2 * counted
    assert x.grad.tolist() == (before + 9).tolist()
