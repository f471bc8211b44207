"""Run one call under a recorder, and decide whether its steps may replace later calls."""

from __future__ import annotations

import enum
import operator
import types
from typing import Any

import numpy as np

from ... import dtypes
from ...autograd.copies import assign_data
from ...core import lazy_conj
from ...core.base import TensorBase, Version, wrap
from ...core.late_bound import TENSOR
from ...core.modes import grad_set_to
from ...core.references import references
from ...core.strides import memory
from ...device import device
from ...errors import evidence
from ...utils import _pytree as pytree
from ..backward.of_results import Doorway, Outside, Pattern
from ..backward.upstream import join, separate
from ..breaks.cut import Absent
from ..plan.memory_plan import forget_memory
from ..program.dead_steps import without_dead_steps
from ..program.recording import Recording, Result
from ..program.steps import GradientStep
from . import intercepts
from .arguments import around, array_of, is_tensor, same_as, stand_ins
from .branches import Decision, decided_first
from .python_state import PythonState
from .reachable import Reachable, is_scheduler
from .reads import Reads
from .recorder import Recorder
from .side_effects import Noticing
from .symbolic_floats import Number, Read, now, number
from .undo import PLAIN, OtherStreams, Print, is_same_as, same_bits, tensors_of

# Classes of values that have no tensors in them, and that nobody changes.
ALWAYS_THE_SAME = (
    *(type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, enum.Enum, bytes),
    *(np.generic, np.dtype, dtypes.dtype, device, Absent, Read),
)


SMALL = 1 << 20  # bytes that a call may keep twice for a moment


class Seen:
    """One recorded call: arguments, stand-ins, result, effects, and why it cannot be replayed."""

    def __init__(
        self,
        function: Any,
        values: Any,
        spec: Any,
        parts: list[Any],
        patterns: set[Pattern],
        places: list[int],
        keeps_steps: bool,
        keeps_values: bool,
        idle: list[Any],
        original: Any,
        histories: bool,
        learned: list[Any],
        limit: float,
    ) -> None:
        self.function = function
        self.values = values
        self.is_over = False  # it cannot replace later calls
        self.is_disturbed = False  # by what another thread may have done
        self.switches = around()
        self.streams = OtherStreams()
        self.found = found = Reachable(function, values)
        self.inputs = stand_ins(values, parts)
        known = {id(memory(t._array)) for t in self.known_tensors() if not t._special}
        known |= {id(memory(x)) for x in found.arrays}
        pairs = [(t, v) for t, v in zip(self.inputs, values, strict=True) if t is not None]
        # Of the arguments that have memory in common with something that the function can reach.
        self.shared = [v for _, v in pairs if id(memory(array_of(v))) in known]
        if self.shared:
            self.inputs = [None] * len(values)
        behind = join(self.inputs, values) if histories else None
        given = [v for v in (*found.tensors, *values) if is_tensor(v)]
        given += [] if behind is None else behind.leaves
        given += [t for owner in found.owners for t in tensors_of(owner)]
        given = list({id(t): t for t in given}.values())
        leaves = [t for t in given if t._wants_grad and not t._special]
        fixed = [t for t in self.inputs if t is not None]
        owners = found.owners
        again = same_as(parts)
        as_they_are = [v for i, v in enumerate(values) if self.inputs[i] is None and i not in again]
        there = [*found.tensors, *[v for v in as_they_are if is_tensor(v)]]
        there += [] if behind is None else behind.leaves
        self.recorder = recorder = Recorder(
            function, fixed, there, leaves, owners, keeps_steps, keeps_values, limit
        )
        recorder.idle = idle
        recorder.stand_for(pairs if not self.shared else [])
        self.places = {id(t): t._array for t, _ in pairs}
        given = [
            v if t is None else t if is_tensor(v) else t._array
            for t, v in zip(self.inputs, values, strict=True)
        ]
        for i, first in same_as(parts).items():
            given[i] = given[first]
        self.numbers = {i: number(values[i], recorder) for i in places}
        recorder.has_numbers = bool(places)
        for i, value in self.numbers.items():
            given[i] = value
        args, kwargs = (given, {}) if spec is None else pytree.tree_unflatten(given, spec)
        # Lists and dicts among the arguments, those that stand for them, and what was in these.
        self.lists = [] if spec is None else paired(original, (args, kwargs))
        schedulers = [each for each in owners if is_scheduler(each)]
        self.noticing = Noticing(recorder)
        self.state = recorder.state = PythonState(recorder, function, values, learned, is_told=True)
        with intercepts.to_output(recorder), self.state, self.noticing:
            self.state.guard_hooks(leaves, owners)
            with (
                recorder,
                intercepts.to_schedulers(recorder, schedulers),
                intercepts.to_options(recorder, owners),
            ):
                self.out = self.state.run(function, args, kwargs)
            with self.state.at_work():
                recorder.note_gradients()
            if is_tensor(self.out) or self.out is None:
                self.results, self.spec = [self.out], None
            else:
                self.results, self.spec = pytree.tree_flatten(self.out)
            self.outside: Outside | None = None
            self.refused = ""
            if not recorder.trouble:
                self.record_backward(function, spec, patterns)
            if self.outside is None:  # else the leaves get their gradients later
                self.state.guard_nodes()
        recorder.state = None
        if behind is not None:
            separate(behind)

    def known_tensors(self, with_gradients: bool = True) -> list[Any]:
        """The tensors that the function can reach without its arguments."""
        state = [t for each in self.found.owners for t in tensors_of(each)]
        found = [*self.found.tensors, *state]
        gradients = [t._gradient for t in found if t._gradient is not None]
        return [*found, *gradients] if with_gradients else found

    @property
    def reads(self) -> Reads:
        """The guards on what the call read, which later calls have to check."""
        return self.state.reads

    def has_to_stand(self, own: Any) -> bool:
        """Whether the call's effects must be kept, instead of undoing them and calling again.

        Python may have had effects that nobody noticed, which would happen twice. Calling again
        saves memory, which is not worth it where values are small.
        """
        if self.recorder.behind:
            return True
        copies = [x for pair in self.recorder.before.arrays.values() for x in pair if x is not None]
        results = [r._array for r in self.results if is_tensor(r)]
        return sum([x.nbytes for x in (*own.values(), *copies, *results)]) < SMALL

    def makes_state(self) -> bool:
        """Whether an optimizer made its state in the call, where a replay would find it."""
        owners = [each for each in self.recorder.before.owners() if hasattr(each, "param_groups")]
        found = [t for each in owners for t in tensors_of(each) if not t._special]
        return not all([self.recorder.is_known(t._array) for t in found])

    def looks_at_gradients(self) -> bool:
        """Whether the code names `.grad`, so that it matters whether there is a gradient."""
        return self.state.looks_at_gradients

    def changes_lists(self) -> bool:
        """Whether the call does something to a list or dict among its arguments."""
        return any([not same_items(other, before) for _, other, before in self.lists])

    def looks_at_numbers(self) -> bool:
        """Whether code may read the values of float arguments without being noticed."""
        if not self.numbers:
            return False
        return self.recorder.looks_at_numbers or self.state.calls_others

    def record_backward(self, function: Any, spec: Any, patterns: set[Pattern]) -> None:
        """Record the backward passes of results that are differentiated outside of the call."""
        with self.noticing.paused():
            outside = Outside(self.recorder, self.results, self.inputs)
        if not outside.results:
            return
        self.refused = outside.why_not(self.inputs)
        if not self.refused:
            try:
                outside.record(patterns)
            except Exception as error:  # the results are of use all the same
                first = (str(error).splitlines() or [""])[0]
                self.refused = f"its backward pass fails, {type(error).__name__}: {first}"
                return
            outside.function, outside.spec, outside.numbers = function, spec, self.numbers
            self.outside = outside

    def given_back(self, values: Any) -> Any:
        """Copy writes into stand-ins to the real arguments; returns the result of the call."""
        pairs = [(s, v) for s, v in zip(self.inputs, values, strict=True) if s is not None]
        arrays = [(s._array, v) for s, v in pairs if not is_tensor(v)]
        for array, value in arrays:
            if not same_bits(array, value):
                value[...] = array
        pairs = [(s, v) for s, v in pairs if is_tensor(v)]
        counted = [(s._cell, v) for s, v in pairs if s._cell is not None]
        for static, value in pairs:
            before = self.places[id(static)]
            if static._array is not before:  # `value.data` was set
                value._array[...] = before
                assign_data(value, wrap(static._array))
            if static._cell is not None and static._cell.n:
                write_back(static, value)
            if static._wants_grad and (static._node is None or static._node._is_leaf):
                value.requires_grad_()
                value._gradient = static._gradient
        watch_writes([r for r in self.results if is_tensor(r)], counted)
        own = {id(static): value for static, value in (*pairs, *arrays)}
        for r in self.results:
            if isinstance(r, np.ndarray) and id(r) not in own:
                own[id(r)] = self.recorder.in_argument(r)
            if is_tensor(r) and id(r) not in own:
                seen = self.recorder.seen_in_argument(r)
                if seen is not r:  # a view of an argument, as anyone who keeps both expects
                    r._array, r._cell, r._view_of = seen._array, seen._cell, seen._view_of
        if self.changes_lists():
            own |= {id(other): each for each, other, _ in self.lists}
            for each, other, _ in self.lists:
                write_over(each, other, own)
        if self.spec is None:
            return own.get(id(self.out), self.out)
        if not any([id(r) in own or type(r) in (Number, Read) for r in self.results]):
            return self.out  # with the very lists that are in it
        return pytree.tree_unflatten([now(own.get(id(r), r)) for r in self.results], self.spec)


def watch_writes(results: list[Any], pairs: list[tuple[Any, Any]]) -> None:
    """Let the graph of a call notice later writes into arguments, whose stand-ins it has kept.

    `pairs` are version cells of stand-ins with the arguments. A write between the call and its
    backward pass is an error, as it is in a graph that has kept the arguments themselves.
    """
    moved = {id(cell): (value._version_cell(), cell.n) for cell, value in pairs}
    stack = [r._node for r in results if moved and r._node is not None]
    seen = set(stack)
    while stack:
        node = stack.pop()
        cells = list(node._cells)
        for k in range(1, len(cells), 3):
            if id(cells[k]) in moved:
                cell, count = moved[id(cells[k])]
                cells[k : k + 2] = cell, cell.n - (count - cells[k + 1])
        node._cells = tuple(cells)
        for edge in node._edges:
            if edge is not None and edge not in seen and type(edge) is not Doorway:
                seen.add(edge)
                stack.append(edge)


def write_back(static: Any, value: Any) -> None:
    """Copy what was written into a stand-in, and its history, to the real argument."""
    cell = value._version_cell()
    version = cell.n + static._cell.n
    node = static._node
    if node is None or node._is_leaf or type(node) is Doorway:
        value._array[...] = static._array
    elif value._view_of is None:
        # What was written is part of the history, which begins where it was before.
        value._array[...] = static._array
        value._node, value._slot, value._wants_grad = node, static._slot, True
    else:  # the base of a view has the write in its history, too
        written = wrap(static._array.copy())
        written._node, written._slot, written._wants_grad = node, static._slot, True
        with grad_set_to(True):
            value.copy_(written)
        value._view_of.seen = version
    cell.n = version


def why_not(seen: Seen) -> tuple[str, Any]:
    """Why a recorded call cannot be replayed, and the user's line; "" if it can."""
    recorder, inputs, results = seen.recorder, seen.inputs, seen.results
    if recorder.trouble:
        return recorder.trouble, recorder.where
    if seen.shared:
        return "an argument shares memory with a tensor that it reaches in another way", None
    if any([isinstance(step, Decision) for step in recorder.steps]):
        ordered = decided_first(recorder.steps, recorder.is_made)
        if ordered is None:
            last = [step for step in recorder.steps if isinstance(step, Decision)][-1]
            recorder.places = [last.place]
            return "a value is handed to Python", last.where
        recorder.steps = ordered
    if seen.refused:
        return seen.refused, None
    if seen.looks_at_numbers():
        return "it looks at a number that changes", None
    if around() != seen.switches:
        return "it leaves the grad mode, or another switch, changed", None
    changed = seen.reads.changed()
    if changed:
        return f"it changes {changed}", None
    drawn = seen.streams.moved()
    if drawn:
        seen.is_disturbed = True
        return f"it draws {drawn}", None
    if seen.changes_lists():
        return "it changes a list or dict among its arguments", None
    if any([t is not None and t._cell is not None and t._cell.n for t in inputs]):
        return "it writes into an argument", None
    pairs = [(t, v) for t, v in zip(inputs, seen.values, strict=True) if t is not None]
    if not all([is_tensor(v) or same_bits(t._array, v) for t, v in pairs]):
        return "it writes into an argument", None
    if any([is_tensor(v) and t._wants_grad is not v._wants_grad for t, v in pairs]):
        return "it lets an argument require grad", None
    arrays = [v for _, v in pairs if not is_tensor(v)]
    if any([value is v for *_, value, _ in guards_of(seen) for v in arrays]):
        return "it also reaches an argument in another way (a global, an attribute)", None
    if recorder.before.has_moved():
        return "it gives a tensor other memory", None
    for t in {**recorder.others, **recorder.leaves}.values():
        g = t._gradient
        if g is not None and g._wants_grad and not g._special and recorder.is_made(g._array):
            return "it leaves a gradient that has a history", None
    if has_shared_list(seen):
        return "it returns a list or dict that is also kept elsewhere", None
    unseen = recorder.before.changed_unseen()
    if unseen:
        seen.is_disturbed = True
        return f"it changes {unseen} in a way that is not seen", None
    for r in results:
        if not isinstance(r, TensorBase):
            if is_new_object(r, seen.found):
                return f"it returns a {type(r).__name__}", None
            continue
        if not r._special and not recorder.is_known(r._array):
            return "it returns a tensor that was computed outside of ops", None
        if r._special or (type(r) is not TENSOR.cls and recorder.is_made(r._array)):
            return f"it returns {kind_of(r)}", None
        if any([r is t for t in inputs]):
            return "it returns an argument", None
        if id(memory(r._array)) in recorder.originals:
            return "it returns a view of an argument", None
        is_leaf = r._wants_grad and (r._node is None or r._node._is_leaf)
        if is_leaf and recorder.is_made(r._array) and seen.outside is not None:
            return "it returns a leaf that it made, and what was computed from it", None
    return "", None


def kind_of(t: Any) -> str:
    """The property that makes a tensor special (its class, layout or device), in words."""
    if type(t) is not TENSOR.cls:
        return f"a {type(t).__name__}"
    if lazy_conj.has(t._array):
        return "a conjugate or negative view: `resolve_conj()` makes a tensor of it"
    return "a sparse tensor" if t.is_sparse else f"a tensor on {t.device}"


def why_not_between(seen: Seen, asks_for_gradients: bool) -> str:
    """Why a replay cannot set the variables that some statements set."""
    tensors = [r for r in seen.results if isinstance(r, TensorBase)]
    if len({id(t) for t in tensors}) < len(tensors):
        return "two variables are one tensor"
    if asks_for_gradients and sum([t._wants_grad for t in tensors]) > 1:
        return "somebody may ask for the gradient of one variable with respect to another"
    for r in seen.results:
        if isinstance(r, TensorBase):
            if seen.recorder.is_made(r._array) and r._gradient is not None:
                return "a tensor that it makes has a gradient"
    return ""


def guards_of(seen: Seen) -> list[Any]:
    """The guards on dict entries and variables that instrumented code read: (..., value, name)."""
    return [*seen.reads.entries, *seen.reads.cells]


def paired(value: Any, other: Any) -> list[tuple[Any, Any, Any]]:
    """Pairs of lists and dicts at the same positions in two nested values."""
    if not isinstance(value, (list, dict, tuple)) or type(value) is not type(other):
        return []
    found = [] if isinstance(value, tuple) else [(value, other, other.copy())]
    keys: Any = value if isinstance(value, dict) else range(len(value))
    return found + [pair for key in keys for pair in paired(value[key], other[key])]


def same_items(now: Any, before: Any) -> bool:
    if isinstance(now, dict):
        same = list(now) == list(before)
        return same and all(map(operator.is_, now.values(), before.values()))
    return len(now) == len(before) and all(map(operator.is_, now, before))


def write_over(target: Any, source: Any, own: dict[int, Any]) -> None:
    """Overwrite a list or dict with the items of another one, stand-ins replaced by arguments."""
    if isinstance(source, dict):
        items = {key: own.get(id(value), value) for key, value in source.items()}
        target.clear()
        target.update(items)
    else:
        target[:] = [own.get(id(value), value) for value in source]


def has_shared_list(seen: Seen) -> bool:
    """Whether other code refers to a list or dict in a result: a replay makes a new one."""
    parts: list[Any] = [[seen.out]]
    while parts:
        for part in parts.pop():
            if not isinstance(part, (list, dict, tuple)):
                continue
            # Known are: what it is part of, the copy of that, and the name here.
            if not isinstance(part, tuple) and references(part) > 3:
                return True
            parts.append(list(part.values() if isinstance(part, dict) else part))
    return False


def is_new_object(value: Any, found: Reachable) -> bool:
    """Whether the call itself made an object that may hold tensors: each call needs its own."""
    known = (*PLAIN, *ALWAYS_THE_SAME)
    if isinstance(value, types.FunctionType):  # there may be tensors in what it knows
        knows = value.__closure__ or value.__defaults__ or value.__kwdefaults__
        return bool(knows) and id(value) not in found.seen
    return not isinstance(value, known) and id(value) not in found.seen


def differs_when_replayed(
    recording: Recording, seen: Seen, values: Any, again: bool, stands: bool = False
) -> str:
    """Undo the call, run its steps, and compare: the first difference in words, or "".

    After a difference everything is as the call left it; or as it was before the call, if that
    can be made `again`: then only fingerprints of its effects were kept. If the call `stands`, the
    memory of its steps is restored as well: a graph may refer to it.
    """
    if stands:
        for step in recording.gradient_steps:
            part_with_gradients(step)
    kept_memory = list(recording.memory.values()) if stands else []
    held = [(owner, owner.copy(order="K")) for owner in kept_memory if owner.flags.writeable]
    cells = [(cell, cell.n) for cell in cells_behind(seen.results)] if stands else []
    del kept_memory
    kept: Any = Print if again else np.copy
    expected = [kept(r._array) if is_tensor(r) else r for r in seen.results]
    called = values_of_steps(seen.recorder) if recording.all_steps else []
    passes = {} if seen.outside is None else seen.outside.expected()
    before = seen.recorder.before
    done = before.undo(for_good=seen.outside is None, by_prints=again)
    if again:
        seen.out, seen.results = None, []
        seen.recorder.forget()
        if seen.outside is not None:
            seen.outside.forget()
    forget_memory()
    if len(recording.behind) != len(seen.recorder.behind):
        done.do()
        return "a replay gave something else than the call itself: the history of its arguments"
    for step, other in zip(recording.behind, seen.recorder.behind, strict=True):
        step.rehearsed = other.was
    try:
        recording.replay_timed(values, before)
        wrong = done.differs(recording.memory)
        if not wrong and not all(map(is_same_result, recording.results, expected)):
            wrong = "a result"
        if not wrong and recording.outside is not None and recording.outside.differs(passes):
            wrong = "a gradient"
        if wrong:
            wrong += first_difference(recording.all_steps, called, seen.recorder)
    except Exception as error:
        wrong = f"{type(error).__name__}: {error}"
    finally:
        for step in recording.behind:
            step.rehearsed = step.was = None
    if not wrong:
        if seen.outside is not None:
            seen.outside.forget()
        return ""
    if again:
        before.undo(for_good=True)
        return f"a replay gave something else than the call itself: {wrong}"
    done.do()
    for owner, copy in held:
        owner[...] = copy
    for cell, n in cells:
        cell.n = n
    for r, values in zip(seen.results, expected, strict=True):
        if is_tensor(r) and r._array.flags.writeable:
            r._array[...] = values
    return f"a replay gave something else than the call itself: {wrong}"


def part_with_gradients(step: GradientStep) -> None:
    """Copy the gradients that the call left: their memory belongs to the steps."""
    for i, (leaf, gradient) in enumerate(step.gradients):
        if gradient is not None:
            step.gradients[i] = (leaf, wrap(gradient._array))
            gradient._array = gradient._array.copy(order="K")


def cells_behind(results: list[Any]) -> list[Any]:
    """The version cells that the autograd history of results depends on."""
    stack = [r._node for r in results if is_tensor(r) and r._node is not None]
    seen = set(stack)
    found: list[Any] = []
    while stack:
        node = stack.pop()
        found += [each for each in node._cells if isinstance(each, Version)]
        found += [each.cell for each in getattr(node, "_saved", ()) if each is not None]
        for edge in node._edges:
            if edge is not None and edge not in seen:
                seen.add(edge)
                stack.append(edge)
    return found


FIRST_OP = "the first op that differs is"


def values_of_steps(recorder: Recorder) -> list[tuple[Any, list[Any]]]:
    """The steps of a call with copies of what they made, which a replay may overwrite."""
    fills = list(recorder.number_arrays.values())
    steps = [*fills, *without_dead_steps(recorder.steps, recorder.written, recorder.lines)]
    return [(step, [x.copy() for x in step.made]) for step in steps]


def first_difference(
    steps: list[Any], called: list[tuple[Any, list[Any]]], recorder: Recorder
) -> str:
    """The first step whose replay differs from what it did in the call; "" if not known.

    The recorder gets the user's line of that step.
    """
    for i, (step, (other, made)) in enumerate(zip(steps, called, strict=False)):
        place = f"step {i + 1} of {len(steps)}"
        if step.name == other.name and all(map(same_bits, step.made, made)):
            continue
        known = recorder.lines.get(id(other))
        recorder.where = None if known is None else evidence.place(*known)
        if step.name != other.name:
            return f"; the call runs {other.name} where {step.name} was recorded, {place}"
        name = step.name.removeprefix("aten.").removesuffix(".default")
        return f"; {FIRST_OP} {name}, {place}"
    return ""


def is_same_result(result: Any, expected: Any) -> bool:
    if type(result) is Result or is_tensor(result):
        return is_same_as(result._array, expected)
    result, expected = now(result), now(expected)
    if isinstance(result, float) and result != result:
        return bool(expected != expected)
    return result is expected or bool(result == expected)
