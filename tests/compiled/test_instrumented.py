"""Instrumented code does what the code itself does; its hooks tell what it reads and changes."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import sys
import types
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.compiler.capture.hooks import HOOKS
from tapegrad.compiler.capture.instrumented import (
    instrumented,
    is_instrumented,
    original_of,
)
from tapegrad.compiler.capture.python_state import PythonState
from tapegrad.compiler.capture.swapped_code import CURRENT, SWAPS


class Config:
    width = 3

    def __init__(self) -> None:
        self.__secret = 5
        self.scale = 2.0

    def secret(self) -> int:
        return self.__secret

    @property
    def doubled(self) -> float:
        return self.scale * 2


class Child(Config):
    def secret(self) -> int:
        return super().secret() + 1


class Slots:
    __slots__ = ("n",)

    def __init__(self, n: int) -> None:
        self.n = n


@dataclasses.dataclass
class Point:
    x: float
    y: float = 1.0


def everything(values: Any, *rest: Any, flag: bool = True, **more: Any) -> Any:
    """A text that stays."""
    first, (second, *others) = values[0], values[1:]
    box = {"a": first, **more}
    box["b"] = second
    box["b"] += 10
    shown = [f"{x:>3}" for x in (*others, *rest) if x is not None]
    owner = types.SimpleNamespace(n=1, items=[3, 2, 1])
    owner.n, owner.items[0] = owner.n + 1, 7
    owner.n += 1
    del owner.items[1]

    def inner(y: int, k: int = 2) -> int:
        nonlocal first
        first = first + y
        return first * k

    total = inner(3) + sum(x * 2 for x in range(4) if x in {1, 3})
    with contextlib.suppress(ZeroDivisionError):
        total /= 0
    try:
        box["missing"]
    except KeyError as error:
        shown.append(str(error))
    match flag:
        case True:
            total += 0.5
    while total > 100 and not flag:
        total -= 1
    pairs = sorted({"z": 1, "y": 2}.items(), key=lambda pair: pair[1], reverse=True)
    middle = values[1:-1], first if flag else second, not flag, 1 < second <= 9
    return box, shown, vars(owner), total, pairs, middle, Child().secret(), (lambda: first)()


def counted(n: int) -> Any:
    i = 0
    while i < n:
        got = yield i
        i += got or 1


@pytest.mark.parametrize("function", [everything, counted, Child.secret, Config.secret])
def test_instrumented_code_has_the_same_variables_and_lines(function: Any) -> None:
    code = function.__code__
    made = instrumented(function, HOOKS)
    assert made is not None and is_instrumented(made) and original_of(made) == code
    assert made.co_freevars == code.co_freevars and made.co_filename == code.co_filename
    assert made.co_varnames[: code.co_argcount] == code.co_varnames[: code.co_argcount]
    lines = [{line for *_, line in each.co_lines() if line} for each in (code, made)]
    assert lines[0] <= lines[1]


def swapped(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a function with instrumented code, and without anybody who listens."""
    SWAPS.put(function, instrumented(function, HOOKS))
    try:
        return function(*args, **kwargs)
    finally:
        SWAPS.take_back(function)


def test_instrumented_code_does_the_same() -> None:
    args: Any = ([1, 2, 3, 4], 5, None)
    expected = everything(*args, flag=True, extra=9)
    before = everything.__code__
    assert swapped(everything, *args, flag=True, extra=9) == expected
    assert everything.__code__ is before
    generator = swapped(counted, 5)
    assert [next(generator), generator.send(2), *generator] == [0, 2, 3, 4]


class Told:
    """In the place of a recorder."""

    trouble = ""
    looks_at_numbers = False

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def give_up(self, reason: str) -> None:
        self.reasons.append(reason)

    def is_made(self, array: Any) -> bool:
        return False

    def meet(self, t: Any) -> None:
        pass

    def stands_for_array(self, value: Any) -> bool:
        return False


def told(function: Any, *args: Any) -> tuple[list[str], Any]:
    """What a call changes, in words, and the guards on what it reads."""
    recorder = Told()
    with PythonState(recorder, function, args) as state:
        state.run(function, args, {})
    assert CURRENT.state is None and not SWAPS.held
    return recorder.reasons, state.reads


def changed(reads: Any) -> str:
    """What is not as it was read, by the same comparison as of a recording."""
    found: str = reads.changed()
    return found


config, slots = Config(), Slots(3)
nested: Any = {"a": [{"b": (1, [2, 3])}], "n": 1}
array = np.arange(3.0)
queue: Any = collections.deque([1, 2])


def reads_nested() -> Any:
    return nested["a"][0]["b"][1][0]


CHANGES: Any = [
    (lambda: config.scale, config.__dict__, "scale", 3.0),
    (lambda: config.doubled, config.__dict__, "scale", 3.0),
    (lambda: getattr(config, "late", 1), config.__dict__, "late", 3.0),
    (reads_nested, nested["a"][0]["b"][1], 0, 5),
    (lambda: list(nested), nested, "new", 5),
    (lambda: "other" in nested, nested, "other", 5),
    (lambda: nested.get("other", 1), nested, "other", 5),
    (lambda: len(nested), nested, "new", 5),
    (lambda: array[0] * 2, array, 0, 7.0),
    (lambda: array.sum(), array, 0, 7.0),
    (lambda: [x for x in queue], queue, 0, 7.0),
    (lambda: sum(queue), queue, 0, 7.0),
]


@pytest.mark.parametrize("i", range(len(CHANGES)))
def test_what_is_read_is_guarded(i: int) -> None:
    function, owner, key, value = CHANGES[i]
    reasons, reads = told(function)
    assert reasons == [] and not changed(reads)
    missing = object()
    before = owner.get(key, missing) if isinstance(owner, dict) else owner[key]
    owner[key] = value
    try:
        assert changed(reads)
    finally:
        if before is missing:
            del owner[key]
        else:
            owner[key] = before
    assert not changed(reads)


def test_slots_classes_and_methods_are_guarded() -> None:
    _, reads = told(lambda: slots.n * config.width)
    assert not changed(reads)
    slots.n = 4
    assert changed(reads)
    slots.n = 3
    Config.width = 4
    assert changed(reads)
    Config.width = 3
    plain = Config.secret
    _, reads = told(lambda: config.secret())
    Config.secret = lambda self: 1  # type: ignore[method-assign]
    assert changed(reads)
    Config.secret = plain  # type: ignore[method-assign]
    assert not changed(reads)


def test_what_is_not_read_is_not_guarded() -> None:
    _, reads = told(reads_nested)
    nested["n"] = 2
    nested["more"] = 3
    assert not changed(reads)
    del nested["more"]
    nested["n"] = 1


def sets_attribute() -> None:
    config.scale = 2.0


def sets_slot() -> None:
    slots.n += 1


def sets_item() -> None:
    nested["a"][0]["c"] = 1


def appends() -> None:
    keep = nested["a"].append
    keep(1)


def writes_array() -> None:
    array[0] += 1


def extends_in_place() -> None:
    kept = nested["a"]
    kept += [1]


def sets_global() -> None:
    global unused
    unused = 1


def sets_function_attribute() -> None:
    sets_function_attribute.calls = 1  # type: ignore[attr-defined]


def draws() -> None:
    np.random.default_rng(1).random()


EFFECTS = [
    *(sets_attribute, sets_slot, sets_item, appends, writes_array, extends_in_place, sets_global),
    *(sets_function_attribute, draws),
]


@pytest.mark.parametrize("function", EFFECTS)
def test_what_is_changed_is_told(function: Any) -> None:
    kept = [dict(vars(config)), slots.n, list(nested["a"]), dict(nested["a"][0]), array.copy()]
    reasons, _ = told(function)
    assert reasons and reasons[0].startswith(("it changes", "it draws", "it calls", "it makes"))
    config.__dict__.update(kept[0])
    slots.n, array[:] = kept[1], kept[4]
    nested["a"][:] = kept[2]
    nested["a"][0].clear()
    nested["a"][0].update(kept[3])


def test_what_a_call_makes_is_its_own() -> None:
    def makes() -> Any:
        made = Config()
        made.scale = 5.0
        found = [made.scale, *[i for i in range(3)]]
        found.append(made.doubled)
        box = dict(a=found)
        box["b"] = Point(1.0, 2.0)
        box["b"].x = 3.0
        values = np.zeros(3)
        values[0] = 1
        return box

    reasons, reads = told(makes)
    assert reasons == [] and not changed(reads)


def test_pure_functions_are_believed() -> None:
    def adds() -> None:
        nested["a"].append(1)

    assert told(lambda: adds())[0]
    assert told(lambda: tg.compiler.pure(adds))[0] == []
    marked = tg.compiler.pure(adds)
    assert told(lambda: marked())[0] == []
    del nested["a"][1:]
    with pytest.raises(TypeError, match="pure\\(\\) is given a int"):
        tg.compiler.pure(3)  # type: ignore[arg-type]


def test_nothing_is_recorded_while_a_profiler_is_on() -> None:
    """Recording needs Python's hook for profilers; what is recorded already is replayed."""
    rows, calls = [1.0, 2.0], 9

    def work(x: Any) -> Any:
        return (x.sin().exp().cos() + 1).tanh() * sum(rows)

    step = tg.compile(work)

    def run() -> None:
        x = tg.ones(3)
        assert tg.allclose(step(x), work(x))

    sys.setprofile(lambda *event: None)
    try:
        for _ in range(calls):
            run()
    finally:
        sys.setprofile(None)
    (recording,) = step.recordings.values()
    assert not recording.run_steps and not recording.reason
    for _ in range(calls):
        run()
    before = recording.replays
    sys.setprofile(lambda *event: None)
    try:
        run()
        rows.append(3.0)
        run()
    finally:
        sys.setprofile(None)
    assert before > 0 and recording.replays == before + 1
