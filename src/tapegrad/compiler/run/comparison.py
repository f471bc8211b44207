"""A replay compared, bit for bit, with an ordinary call of the function.

The replay comes first and is undone; then the function itself runs, and what it does stands,
whatever the comparison says. So nothing has to be put back after a difference, an exception of the
function is the caller's, and Python's effects happen once. Of the replay only fingerprints are kept
while the function runs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from ...autograd.api import grad
from ...autograd.dispatched import above, wanting
from ...autograd.starts import edge_of
from ...core.base import TensorBase, wrap
from ...core.dispatch import apply
from ...core.modes import autocast_set_to
from ...core.op import Op
from ...core.python_dispatch import Call, OpMode, below_autograd, modes_set_to
from ...kernels.cpu import KERNELS
from ...utils import _pytree as pytree
from ..backward.of_results import closed
from ..capture.arguments import around, is_array_input, is_tensor
from ..capture.branches import OtherAnswer
from ..capture.capture import is_same_result, paired, same_items
from ..capture.symbolic_floats import now
from ..capture.undo import (
    Earlier,
    OtherStreams,
    Print,
    Snapshots,
    is_same_as,
    same_bits,
    tensors_of,
)
from ..plan.memory_plan import forget_memory
from ..plan.native_calls import as_taped
from ..program.recording import NothingDone, Recording, Result
from ..program.steps import CannotRehearse, UpdateStep


class AsRecorded(OpMode):
    """A `with` block whose ops run by the kernels that a recording uses; nothing is recorded.

    Gradient rules run op by op, as they do while a call is recorded. The bits are those of an
    ordinary call but for the exceptions in docs/notes/compiled-steps.md.
    """

    records_steps = True

    def run(
        self, op: Op, tensors: tuple[Any, ...], attrs: tuple[Any, ...], watch: tuple[Any, ...]
    ) -> Any:
        tensors = tuple(tensors)
        mask = wanting(tensors)
        with below_autograd():
            answer = as_taped(apply, op, tensors, attrs, watch)
        results = [answer] if op.single else list(answer)
        above(op, tensors, attrs, watch, mask, results)
        if op.single:
            return answer
        return tuple(results) if op.result is None else op.result(tuple(results))

    def ask(self, call: Call) -> Any:
        with below_autograd(), native_kernels(call.written is None):
            return call.run(call.args, call.kwargs)

    def look(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        with modes_set_to(()):
            return function(*args, **kwargs)

    def whole(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        draws = hasattr(function, "draws") or hasattr(function, "overwrites")
        with modes_set_to(()), native_kernels(draws):
            return function(*args, **kwargs)


@contextlib.contextmanager
def native_kernels(wanted: bool) -> Iterator[None]:
    """A `with` block that uses the kernels which a tape can call."""
    if not wanted or KERNELS is None:
        yield
        return
    KERNELS.tape_begin()
    try:
        yield
    finally:
        KERNELS.tape_end()


class Comparison:
    """Compares one call by a recording with one by the function itself."""

    def __init__(self, recording: Recording, values: Any, given: Any) -> None:
        self.recording = recording
        self.values = values
        self.given = given  # args, kwargs
        self.other_answer = False  # a value decides otherwise: there is nothing to compare
        self.wrong = ""  # what came out otherwise
        self.changes = ""  # what the function changes of Python's state
        forget_memory()  # there is room for copies in what earlier calls have dropped
        self.look(recording.rehearsable)

    def look(self, rehearsed: list[UpdateStep]) -> None:
        """Take snapshots of all that the replay may change, except by the `rehearsed` steps."""
        recording, values = self.recording, self.values
        self.rehearsed = rehearsed
        self.before = before = Snapshots()
        known = recording.known
        objects = [t for owner in known.owners for t in tensors_of(owner)]
        tensors = {id(t): t for t in (*known.tensors, *objects)}
        for t in tensors.values():
            if not t._special:
                before.look(t)
        tensors.update({id(v): v for v in values if is_tensor(v)})
        for owner in known.owners:
            before.take_object(owner)
        for step in rehearsed:
            large, counters = step.written()
            for t in large:
                before.expect(t)
            for t in counters:
                before.keep(t)
        apart = {id(step.args[0]) for step in rehearsed}
        for owner in known.stepped:
            if id(owner) not in apart:
                before.keep_object(owner)
        for t in known.written:
            before.keep(t)
        for t, array in recording.gradients_before:
            if array is not None and t._gradient is not None:
                before.look(t._gradient)
                before.keep(t._gradient)
        for generator in known.generators:
            before.take_generator(generator)
        leaves = [t for t in tensors.values() if t._wants_grad and is_leaf(t)]
        # The recording gives gradients that somebody holds other memory.
        self.gradients = [t._gradient for t in leaves]
        before.gradients = [(t, Earlier(t._gradient)) for t in leaves]

    def replay(self) -> None:
        """Run the steps, keep fingerprints of their results, and undo everything."""
        with self.recording.has_the_memory():
            try:
                self.replay_and_undo()
            except CannotRehearse:
                self.before.undo(for_good=True, by_prints=True)
                self.look([])
                self.replay_and_undo()

    def replay_and_undo(self) -> None:
        recording = self.recording
        failed = ""
        try:
            for step in self.rehearsed:
                step.rehearsal = self.before
            recording.replay_timed(self.values, self.before)
        except CannotRehearse:
            raise
        except (OtherAnswer, NothingDone):
            self.other_answer = True
        except Exception as error:
            failed = f"{type(error).__name__}: {error}"
        finally:
            for step in recording.rehearsable:
                step.rehearsal = None
        self.failed = failed
        is_done = not failed and not self.other_answer
        self.results = [expected_of(r) for r in recording.results] if is_done else []
        outside = recording.outside
        self.passes: dict[Any, Any] = {}
        if is_done and outside is not None:
            for pattern, each in outside.passes.items():
                seeds = [None if seed is None else seed.copy() for seed in each.seeds]
                each.run(seeds)
                found = [None if g is None else Print(g) for g in each.gradients]
                self.passes[pattern] = seeds, found
        self.done = self.before.undo(for_good=True, by_prints=True)
        self.gradients = []
        if outside is not None:
            outside.holder = None
        recording.give_back_memory(self.before)
        forget_memory()

    def call(self, function: Callable[..., Any]) -> Any:
        """Run the function, whose effects stand, and compare."""
        args, kwargs = self.given
        if self.other_answer:
            return function(*args, **kwargs)
        tensors = [v for v in self.values if is_tensor(v)]
        arrays = [(v, v.copy()) for v in self.values if is_array_input(v)]
        marks = [(t._version_cell().n, t._wants_grad) for t in tensors]
        lists = paired(self.given, self.given)
        switches, streams = around(), OtherStreams()
        try:
            with AsRecorded():
                out = function(*args, **kwargs)
        except BaseException as error:
            if not self.failed:
                self.wrong = f"the call raises {type(error).__name__}"
            raise
        for t, (version, wants_grad) in zip(tensors, marks, strict=True):
            if t._version_cell().n != version:
                self.wrong = "it writes into an argument"
            if t._wants_grad is not wants_grad:
                self.wrong = "it lets an argument require grad"
        if not all([same_bits(x, before) for x, before in arrays]):
            self.wrong = "it writes into an argument"
        if any([not same_items(each, items) for each, _, items in lists]):
            self.wrong = "it changes a list or dict among its arguments"
        if around() != switches:
            self.wrong = "it leaves the grad mode, or another switch, changed"
        if streams.moved():
            self.wrong = f"it draws {streams.moved()}"
        guards: Any = self.recording.guards
        self.changes = guards.changed()
        self.wrong = self.wrong or self.failed or self.differs(out)
        return out

    def differs(self, out: Any) -> str:
        """Name the first value that differs between call and replay; "" if none does."""
        recording = self.recording
        found, spec = ([out], None) if recording.spec is None else pytree.tree_flatten(out)
        if spec != recording.spec or len(found) != len(self.results):
            return "how its results are nested"
        wrong = self.done.differs(recording.memory)
        if wrong:
            return str(wrong)
        for i, (r, expected) in enumerate(zip(found, self.results, strict=True)):
            first = recording.repeated.get(i)
            if first is not None and r is not found[first]:
                return "a result"
            if not is_as_expected(r, expected):
                return "a result" if len(found) == 1 else f"result {i + 1} of {len(found)}"
        return self.gradients_differ(found) if self.passes else ""

    def gradients_differ(self, found: list[Any]) -> str:
        """Whether a backward pass from the results gives other gradients."""
        outside: Any = self.recording.outside
        results = [found[i] for i in outside.slots]
        if not all([is_tensor(r) and r._wants_grad and r._node is not None for r in results]):
            return "a result"
        ends = [*[self.values[i] for i in outside.doors], *outside.leaves]
        nodes = [edge[0] for edge in map(edge_of, ends) if edge is not None]
        with AsRecorded(), closed(nodes), autocast_set_to(None):
            for seeds, expected in self.passes.values():
                pairs = [(t, g) for t, g in zip(results, seeds, strict=True) if g is not None]
                gradients = grad(
                    [t for t, _ in pairs],
                    ends,
                    [wrap(seed) for _, seed in pairs],
                    retain_graph=True,
                    allow_unused=True,
                )
                for g, wanted in zip(gradients, expected, strict=True):
                    if (g is None) != (wanted is None):
                        return "which gradients there are"
                    if g is not None and not is_same_as(g._array, wanted):
                        return "a gradient"
        return ""


def is_leaf(t: Any) -> bool:
    return t._node is None or bool(t._node._is_leaf)


def expected_of(result: Any) -> Any:
    """A fingerprint of a result, to compare a replay with; it does not keep the result's memory."""
    if type(result) is Result:
        return Print(result._array), result._wants_grad, counted(result.cell)
    return now(result)


def counted(cell: Any) -> tuple[int, bool]:
    """The count of writes in a version cell, and whether it belongs to an inference tensor."""
    return (0, False) if cell is None else (cell.n, cell.inference)


def is_as_expected(found: Any, expected: Any) -> bool:
    if type(expected) is tuple and expected and type(expected[0]) is Print:
        mark, *others = expected
        if not isinstance(found, TensorBase) or found._special:
            return False
        told = [found._wants_grad, counted(found._cell)]
        return told == others and is_same_as(found._array, mark)
    if is_tensor(expected):
        return found is expected
    return not is_tensor(found) and is_same_result(expected, found)
