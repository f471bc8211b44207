"""A recorded call: its steps, the guards on which they depend, and their replay."""

from __future__ import annotations

import contextlib
import time
import weakref
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.base import TensorBase, Version, View, wrap
from ...core.late_bound import TENSOR
from ...core.strides import address, memory, strided
from ...core.tensor_lists import same_gradients, same_tensors
from ...errors import evidence
from ...kernels.cpu import KERNELS
from ...ops.draws.generators import default_generator
from ...utils import _pytree as pytree
from ..backward.of_results import Call, Outside, Pattern
from ..backward.upstream import BehindStep, history, is_history
from ..capture.arguments import (
    ANY_FLOAT,
    OVERLAP,
    SAME_AS,
    around,
    array_of,
    described,
    is_array_input,
)
from ..capture.branches import Decision, touched_by
from ..capture.recorder import Recorder, at_the_same_place
from ..capture.symbolic_floats import LARGEST, Number, now
from ..capture.undo import Reached, same_bits
from ..plan.early_release import is_large, release
from ..plan.memory_plan import Plan, gifts, hand_on, movable, owners_of, settle
from ..plan.native_calls import Segment, in_segments
from .costs import Costs
from .dead_steps import without_dead_steps
from .guard_table import GuardTable
from .index_ranges import checked_before
from .listing import Packed
from .rollback import Rollback
from .steps import GradientStep, UpdateStep, timed

if TYPE_CHECKING:
    from ..capture.capture import Seen
    from ..run.function import Compiled

TIMED = 4  # replays with a clock beside each step
TO_TIME = 2  # replays, after which ordinary calls are timed: from the 6th call on
MOVED = "a tensor"
HISTORY = 5  # where the key of an argument has what is behind it
GRADIENTS = "what gradients there are before it"


class NothingDone(Exception):
    """Raised when a replay stopped and was undone: nothing has changed."""


class Recording:
    """One cache key of a compiled function: seen once, recorded, or refused."""

    def __init__(self, key: Any, trigger: str) -> None:
        self.key = key
        self.trigger = trigger  # what led to it
        self.called = evidence.here()  # and where
        self.calls = 0
        self.tries = 0  # that came to nothing
        self.learned: list[Any] = []  # functions that Python calls unasked, to be instrumented
        self.reason = ""  # why it runs as ordinary Python
        self.suspicion = ""  # a replay was wrong: it is refused for that, once the op is known
        self.looks = 0  # at calls, op by op, after which it is refused without
        self.refusal = ""  # the error, where that is not wanted
        self.where: Any = None
        self.guards: GuardTable | None = None
        self.known: Any = None  # Reached: what it met that was there before
        self.inputs: list[Any] = []  # tensors at fixed places, or None for what is no tensor
        self.run_steps: list[Callable[[], Any]] = []
        self.all_steps: list[Any] = []  # where each call is checked
        self.gradient_steps: list[GradientStep] = []
        self.behind: list[BehindStep] = []  # what goes on behind the arguments
        self.externals: list[tuple[Any, Any, bool]] = []  # tensors that were there before
        self.gradients_before: list[tuple[Any, Any]] = []  # of leaves, where that matters
        self.optimizers: list[Groups] = []
        # That the steps fill, by id; what was only needed in between is gone.
        self.memory: Any = weakref.WeakValueDictionary()
        self.answers: list[bool] = []  # of values, that decided what it did
        self.decided: Any = None  # the last one
        self.missed = self.in_a_row = 0  # calls with other ones
        self.refusals = 0  # of values that the function itself takes
        self.filled: Any = weakref.WeakValueDictionary()  # the same without constants and results
        self.rollback: Rollback | None = None
        self.rehearsable: list[UpdateStep] = []  # that comparisons need not do
        self.listing: Packed | None = None  # its program, for those who ask
        self.plan: Plan | None = None  # of what only kernels in C look at
        self.gifts: dict[int, Any] = {}  # results that are handed out without a copy, by id
        self.given: list[Any] = []  # those that were
        self.results: list[Any] = []
        self.aliases: list[Aliases] = []  # results that look at one memory
        self.repeated: dict[int, int] = {}  # places of results that are earlier ones, and of those
        self.spec: Any = None
        self.outside: Outside | None = None  # where results are differentiated later
        self.costs = Costs()
        self.first_effect = 0  # the first step that changes what was there before
        self.replays = 0
        self.times: list[float] = []  # of the steps, the least while they were timed
        self.confirmed = False  # by a second recording, of other values
        self.follows_call = True  # the next replay does: there is memory to be freed after it
        self.untried = 0  # comparisons that are left, where the recorded call was not tried
        self.is_undone = False  # a call is recorded such that it can be undone, whatever it writes
        self.reachable: dict[int, Any] = {}  # by id: memory of tensors that the function knows
        self.draws = False  # random numbers
        self.was_confirmed = False  # it has been in use: what differs now was wrong before
        self.next_check: float = 4  # replays, after which a call is compared: that is the 8th
        self.next_stop: float = TO_TIME  # or after which something else than a replay is due
        self.last_right = 0  # replay that was compared
        self.has_aliases = False  # arguments that are one tensor, or that overlap
        self.numbers: dict[int, Number] = {}  # among the arguments, by their places
        self.parts: list[tuple[Any, Compiled]] = []  # modules that are compiled apart
        self.patterns: set[Pattern] = set()  # which results were differentiated together

    def fail(self, reason: str, where: Any = None) -> None:
        self.reason = reason
        self.where = where
        self.confirmed = False
        self.run_steps, self.gradient_steps, self.inputs, self.behind = [], [], [], []
        self.guards = self.known = None
        self.externals, self.reachable = [], {}
        self.outside = self.rollback = self.listing = None

    def take(self, seen: Seen, keeps_all: bool) -> None:
        """Make a recorded call ready to be run; `keeps_all`: every value, to be compared later."""
        recorder = seen.recorder
        recorder.let_go()
        recorder.dying = None
        self.guards = GuardTable(seen.reads)
        self.known = Reached(seen)
        random = default_generator.get_state()._array
        self.draws = not same_bits(recorder.before.random._array, random)
        self.answers = recorder.answers
        self.inputs = seen.inputs
        known = [memory(t._array) for t in seen.known_tensors(False) if not t._special]
        self.reachable = {id(owner): owner for owner in known}
        self.has_aliases = any([type(p) is tuple and p[0] in (SAME_AS, OVERLAP) for p in self.key])
        self.numbers = seen.numbers
        fills = list(recorder.number_arrays.values())
        needed = [*fills, *without_dead_steps(recorder.steps, recorder.written, recorder.lines)]
        found = recorder.externals.values()
        before = recorder.gradients_before(seen.looks_at_gradients())
        self.gradients_before = [(t, None if g is None else g._array) for t, g in before]
        held = {id(g) for _, g in before}
        self.externals = [(t, t._array, t._wants_grad) for t in found if id(t) not in held]
        self.optimizers = [Groups(each) for each in recorder.optimizers.values()]
        self.results = [as_result(recorder, r) for r in seen.results]
        self.repeated = {}
        places: dict[int, int] = {}
        for i, r in enumerate(seen.results):
            first = places.setdefault(id(r), i)
            if first != i and isinstance(r, TensorBase):
                self.repeated[i] = first
                self.results[i] = self.results[first]
        self.aliases = [
            Aliases(group) for group in aliased(self.results, seen.results) if len(group) > 1
        ]
        self.spec = seen.spec
        self.gradient_steps = [step for step in needed if isinstance(step, GradientStep)]
        for step in self.gradient_steps:
            step.note_versions(recorder.is_made)
        leaves = {id(g._cell): t for t, g in before if g is not None and g._cell is not None}
        for step in needed:
            step.count_apart(recorder.is_made, leaves)
        self.behind = recorder.behind
        self.outside = seen.outside
        for i in () if seen.outside is None else seen.outside.slots:
            self.results[i]._node = None  # each call gets another one
        read = [] if seen.outside is None else seen.outside.take(needed, seen.inputs)
        if keeps_all:
            self.all_steps = needed
            read += [array for step in needed for array in step.made]
        self.rehearsable = [] if keeps_all or seen.outside is not None else rehearsable(needed)
        self.listing = Packed(self, seen, needed)
        own = [r for i, r in enumerate(self.results) if i not in self.repeated]
        made = [r for r in own if type(r) is Result]
        kept = [*[r._array for r in made], *read]
        moves = movable(needed, kept)
        fine = checked_before(needed)  # while they have their tapes
        steps = in_segments(needed, kept, recorder.known_numbers())
        self.rollback = Rollback(steps, needed, recorder, self.draws, fine)
        self.plan = Plan(moves, steps)
        passes = [] if seen.outside is None else list(seen.outside.passes.values())
        settle([self.plan, *[each.plan for each in passes]])
        for each in passes:
            each.settle()
        self.plan.forget()
        del moves
        self.note_memory(seen, needed, steps, made)
        for each in passes:
            each.steps = []
        self.gifts = gifts(needed, steps, made, read)
        hand_on(needed, kept)
        self.given = []
        for step in needed:
            step.tape = None  # joined ones have taken its place
        self.run_steps = [step.run for step in steps]
        self.times = []
        if not keeps_all:
            recorder.forget()
        effects = [i for i, step in enumerate(steps) if step.has_effects]
        places = [i for i, step in enumerate(steps) if isinstance(step, Decision)]
        self.first_effect = effects[0] if effects else len(steps)
        if places:  # before the last of them nothing is done but that numbers are drawn
            self.first_effect = max(self.first_effect, places[-1] + 1)
            self.decided = steps[places[-1]]

    def note_memory(self, seen: Seen, needed: list[Any], steps: list[Any], made: Any) -> None:
        """Which memory is left that the steps fill, of which they know now what they need."""
        passes = [] if seen.outside is None else list(seen.outside.passes.values())
        known = [x for step in steps for x in arrays_of(step)]
        known += [x for each in passes for run in each.run_steps for x in arrays_of(run.__self__)]
        known += [x for each in passes for x in (*each.seeds, *each.gradients) if x is not None]
        known += [x for step in self.all_steps for x in step.made]
        known += [*[r.owner for r in made], *[t._array for t in seen.inputs if t is not None]]
        owners = owners_of(known)
        all_made = seen.recorder.made
        self.memory = weakref.WeakValueDictionary(
            {key: owner for key, owner in owners.items() if key in all_made}
        )
        fills = [*needed, *[step for each in passes for step in each.steps]]
        filled = {id(memory(x)) for step in fills for x in step.made}
        filled -= {id(r.owner) for r in made}  # soon somebody else's
        # Not what was there before and is written in place, such as a buffer: it keeps its values.
        self.filled = weakref.WeakValueDictionary(
            {key: owner for key, owner in self.memory.items() if key in filled}
        )

    def suits(self, args: Any) -> bool:
        """Whether arguments are like those that were recorded: `described`, a little faster."""
        inputs = self.inputs
        if len(args) != len(inputs) or not self.confirmed or around() != self.key[1]:
            return False
        if not args:
            return True
        if self.has_aliases:
            return False  # `signature` looks closer
        owners: list[int] = []
        reachable, cls, ndarray = self.reachable, TENSOR.cls, np.ndarray
        for value, static, part in zip(args, inputs, self.key[2:], strict=True):
            if static is None:
                if part is not ANY_FLOAT or type(value) is not float:
                    if described(value, True) != part:
                        return False
                continue
            if part[0] is ndarray:
                if not is_array_input(value) or (value.shape, value.dtype) != part[1:]:
                    return False
                owner = memory(value)
                if id(owner) in reachable or id(owner) in owners:
                    return False
                owners.append(id(owner))
                continue
            # `has_stand_in`, without a call.
            if type(value) is not cls or value._special or value.__dict__:
                return False
            if value._wants_grad is not part[4] or (part[4] and value._gradient is not None):
                return False
            if len(part) > HISTORY and (not is_history(value) or history(value) != part[HISTORY]):
                return False
            a, b = value._array, static._array
            if a.shape != b.shape or a.dtype is not b.dtype or a.strides != part[3]:
                return False
            owner = a.base  # as in `memory`
            while owner.__class__ is ndarray:
                a, owner = owner, owner.base
            if id(a) in reachable or id(a) in owners:
                return False  # they may overlap
            owners.append(id(a))
        return True

    def reachable_among(self, values: Any) -> list[Any]:
        """Arguments in memory that the function can also reach: nothing may stand for them."""
        found = []
        for value, static in zip(values, self.inputs, strict=True):
            if static is not None and isinstance(value, (TensorBase, np.ndarray)):
                array = array_of(value)
                if id(array if array.base is None else memory(array)) in self.reachable:
                    found.append(value)
        return found

    def still_holds(self) -> str:
        """The name of a guarded thing that changed since the recording; "" if none did."""
        guards: Any = self.guards
        changed: str = guards.changed()
        if changed:
            return changed
        if self.outside is not None and self.outside.patterns:
            return "which of its results are used"
        if not same_tensors(self.externals):
            return MOVED
        if self.gradients_before and not same_gradients(self.gradients_before):
            return GRADIENTS
        for optimizer in self.optimizers:
            if not optimizer.holds():
                return "the parameters of an optimizer"
        return ""

    def has_the_memory(self) -> Any:
        """A `with` block in which no other thread runs the backward pass of an earlier call.

        Such a pass puts the values of its call back into the memory that the steps fill.
        """
        return contextlib.nullcontext() if self.outside is None else self.outside.busy

    def replay(self, values: list[Any]) -> Any:
        start = 0.0
        if self.replays >= self.costs.next_replay:
            start = time.perf_counter()
            self.suits(values)  # once more, to be measured: the caller has asked before
            self.still_holds()
        if self.outside is None:
            self.run(values)
            answer = self.answer(None)
        else:
            with self.has_the_memory():
                call = self.call_with(values, None)
                self.run(values)
                answer = self.answer(call)
        if start:
            self.costs.note_replay(time.perf_counter() - start, self.replays)
        return answer

    def call_with(self, values: Any, random: Any) -> Call | None:
        """The Call that results keep which are differentiated later."""
        if self.outside is None:
            return None
        if not self.outside.draws:
            random = None
        elif random is None:
            random = default_generator.get_state()
        return Call(self.outside.function, values, self.outside.spec, random)

    def run(self, values: Any) -> None:
        self.fill(values)
        rollback: Any = self.rollback
        rollback.keep()
        done = 0
        try:
            if self.replays < TIMED:
                for _ in timed(self.run_steps, self.times):
                    done += 1
            else:
                for run in self.run_steps:
                    run()
                    done += 1
        except Exception as error:
            if done > rollback.last[0]:
                raise  # a hook of the user's, say: eager calls are no further than this one, too
            rollback.undo()
            raise NothingDone from error
        rollback.done()
        self.count_writes()
        self.replays += 1
        self.in_a_row = 0

    def fill(self, values: Any) -> None:
        """Copy the arguments to where the steps read them. The steps have their memory again."""
        if self.outside is not None:
            self.outside.leave()
        for step in self.gradient_steps:
            step.let_go()
        while self.given:
            self.given.pop().find_room()
        if not self.inputs:
            return
        for static, value in zip(self.inputs, values, strict=True):
            if static is not None:
                static._array[...] = array_of(value)
        for i, argument in self.numbers.items():
            if not -LARGEST < values[i] < LARGEST:
                raise NothingDone
            argument.current = values[i]
        for step in self.behind:
            if step.rehearsed is None and not step.bind(values):
                raise NothingDone

    def spoil(self, before: Any) -> None:
        """Fill the steps' memory with NaN, so that a step that fails to write its output is caught.

        `before` has what was there before that call: some of it may be here by now.
        """
        for owner in self.filled.values():
            if not before.has(owner) and owner.dtype.kind == "f" and owner.flags.writeable:
                owner[...] = np.nan

    def let_go(self) -> list[Any]:
        """Release the steps' memory during a call without them; the next replay fills it again.

        Gradients may be looked at before they are forgotten. Those that may go then are returned.
        """
        if self.outside is not None:
            with self.outside.busy:
                self.outside.leave()
        if self.plan is not None:
            self.plan.let_go()
        gradients = [x for step in self.gradient_steps for x in step.reads()]
        apart = {id(memory(x)) for x in gradients}
        for key, owner in self.filled.items():
            if key not in apart and is_large(owner):
                release(owner)
        return [each for step in self.gradient_steps for each in step.idle(self.filled)]

    def give_back_memory(self, before: Any) -> None:
        """After a replay that was undone: nobody looks at what the steps have filled, except for
        what was there `before` the call."""
        if self.plan is not None:
            self.plan.let_go()
        for owner in self.filled.values():
            if not before.has(owner) and is_large(owner):
                release(owner)

    def replay_timed(self, values: list[Any], before: Any) -> None:
        """Run the steps with a clock beside each, from memory without meaningful values."""
        self.fill(values)
        self.spoil(before)
        steps = timed(self.run_steps, self.times)
        for _ in range(self.first_effect):
            next(steps)
        rest = self.run_steps[self.first_effect :]
        if self.plan is not None and not any(map(is_segment, rest)):
            self.plan.let_go()  # nothing in it is needed any more
        before.keep_again()
        for _ in steps:
            pass
        self.count_writes()

    def count_writes(self) -> None:
        """The steps came to their end: have versions as after an eager call."""
        for step in self.gradient_steps:
            step.count_writes()

    def answer(self, call: Call | None) -> Any:
        """The return value of a replay, made of new tensors."""
        if self.spec is None and self.results[0] is None:
            return None
        copies: dict[int, Any] = {}
        made: list[Any] = []
        for i, r in enumerate(self.results):
            first = self.repeated.get(i)
            made.append(self.fresh(r, copies) if first is None else made[first])
        for each in self.aliases:
            each.join(made, copies)
        if call is not None and self.outside is not None:
            self.outside.attach(made, call)
        return made[0] if self.spec is None else pytree.tree_unflatten(made, self.spec)

    def fresh(self, result: Any, copies: dict[int, Any]) -> Any:
        """A result as a new tensor; a tensor from before the call, or another value, as it is."""
        if type(result) is not Result:
            return now(result)
        gift = self.gifts.get(id(result))
        if gift is None:
            return result.as_tensor(result.copy(copies))
        self.given.append(gift)
        return result.as_tensor(gift.give())


class Result:
    """How a tensor that a recorded call returned is made again from the steps' memory."""

    def __init__(self, t: Any) -> None:
        self.held, self.at = [t._array], 0
        self.owner = memory(t._array)
        self.offset = address(t._array) - address(self.owner)
        # Of no use any more, or replaced; a leaf has one of its own.
        self._node = None if t._node is not None and t._node._is_leaf else t._node
        self._slot = t._slot
        self._wants_grad = t._wants_grad
        # A tensor that was never written and is no inference tensor has no cell.
        self.cell = None if t._cell is None else twin(t._cell)

    @property
    def _array(self) -> Any:
        return self.held[self.at]

    def as_tensor(self, array: Any) -> Any:
        """A new tensor with the present values; its graph is freed, as after a backward pass."""
        made = wrap(array)
        made._wants_grad = self._wants_grad
        made._node = self._node
        made._slot = self._slot
        if self.cell is not None:
            made._cell = twin(self.cell)
        return made

    def copy(self, copies: dict[int, Any]) -> Any:
        """A copy with the layout of the recorded result: views of one memory stay views of one."""
        owner = copies.get(id(self.owner))
        if owner is None:
            owner = copies[id(self.owner)] = self.owner.copy(order="K")
        array = self._array
        if array.dtype is not owner.dtype:  # the parts of complex numbers, say
            return np.ndarray(array.shape, array.dtype, owner, self.offset, array.strides)
        if array is not self.owner or owner.strides != array.strides:
            owner = strided(np, owner, array.shape, array.strides, self.offset)
        return owner


def twin(cell: Version) -> Version:
    """A new version cell that continues from the count of another one."""
    made = Version()
    made.n, made.inference, made.counts = cell.n, cell.inference, cell.counts
    return made


class Aliases:
    """Results that look at one memory: a write into one is counted by all, and a view knows its
    base, so that the base has the write in its history."""

    def __init__(self, group: list[tuple[int, Result, Any]]) -> None:
        self.places = [i for i, _, _ in group]
        self.cells = [id(t._version_cell()) for _, _, t in group]
        self.bases = {id(t): i for i, _, t in group}
        views = [(i, t._view_of) for i, _, t in group if t._view_of is not None]
        # By id: bases that the call does not return, which views find among themselves.
        bases = {id(view.base): view.base for _, view in views}
        self.hidden = {key: Result(t) for key, t in bases.items() if key not in self.bases}
        self.views = [(i, id(view.base), without_base(view)) for i, view in views]
        self.owner = group[0][1].owner

    def join(self, made: list[Any], copies: dict[int, Any]) -> None:
        cells = {}
        for i, key in zip(self.places, self.cells, strict=True):
            cell = cells.setdefault(key, made[i]._version_cell())
            made[i]._cell = cell
        bases = {key: made[i] for key, i in self.bases.items()}
        for key, hidden in self.hidden.items():
            bases[key] = hidden.as_tensor(hidden.copy(copies))
        for i, key, recorded in self.views:
            view = recorded.twin()
            view.base = bases[key]
            view.base._cell = made[i]._cell
            view.steps = tuple([(self.moved(x, copies), *how) for x, *how in recorded.steps])
            made[i]._view_of = view

    def moved(self, array: Any, copies: dict[int, Any]) -> Any:
        """An array of the recorded call, moved to the same place in the memory of these results."""
        return at_the_same_place(array, self.owner, copies[id(self.owner)])


def without_base(view: View) -> View:
    """A recipe without the history of its base."""
    made = view.twin()
    made.base = wrap(view.base._array)
    return made


def aliased(results: list[Any], tensors: list[Any]) -> list[list[tuple[int, Result, Any]]]:
    """Results by their memory: their places, and the tensors that the recorded call returned."""
    found: dict[int, dict[int, tuple[int, Result, Any]]] = {}
    for i, (r, t) in enumerate(zip(results, tensors, strict=True)):
        if type(r) is Result:
            found.setdefault(id(r.owner), {}).setdefault(id(t), (i, r, t))
    return [list(group.values()) for group in found.values()]


def rehearsable(steps: list[Any]) -> list[UpdateStep]:
    """The steps of optimizers that a comparison need not do: no step after them touches what they
    write, and no other step writes it."""
    found: list[UpdateStep] = []
    touched: set[int] = set()  # ids of memory, by later steps
    writers: Counter[int] = Counter()
    for step in reversed(steps):
        inner = getattr(step, "step", step)  # of one with numbers in it
        if isinstance(inner, UpdateStep):
            own = [t._array for t in inner.written()[0]]
            is_plain = inner is step and all([x is memory(x) for x in own])
            if is_plain and touched.isdisjoint([id(x) for x in own]):
                found.append(step)
        here = {id(memory(x)) for x in touched_by(inner)}
        touched |= here
        if inner.writes_in_place:
            here = {id(memory(x)) for x in inner.made}
        if inner.has_effects or inner.writes_in_place:
            writers.update(here)
    return [step for step in found if all([writers[id(t._array)] == 1 for t in step.written()[0]])]


def as_result(recorder: Recorder, value: Any) -> Any:
    """How replays return a value: a Result, from which new tensors are made.

    A tensor that existed before the call, and what is no tensor, is returned as it is.
    """
    if not isinstance(value, TensorBase) or not recorder.is_made(value._array):
        return value
    return Result(value)


def arrays_of(step: Any) -> list[Any]:
    """All arrays that a step refers to."""
    if isinstance(step, Segment):
        return list(step.tape.kept)
    return [*step.made, *step.reads()]


def is_segment(run: Any) -> bool:
    return isinstance(run.__self__, Segment)


class Groups:
    """A guard on the number of an optimizer's parameters."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer
        self.count = self.count_now()
        self.look()

    def count_now(self) -> int:
        return sum([len(group["params"]) for group in self.optimizer.param_groups])

    def look(self) -> None:
        groups = self.optimizer.param_groups
        self.entries = [(vars(self.optimizer), "param_groups", groups)]
        self.entries += [(group, "params", group["params"]) for group in groups]
        self.lengths = [(each[2], len(each[2])) for each in self.entries]

    def holds(self) -> bool:
        if KERNELS is not None and KERNELS.as_before(self.entries, self.lengths):
            return True
        if self.count_now() != self.count:
            return False
        self.look()  # the lists are others: a state was loaded
        return True
