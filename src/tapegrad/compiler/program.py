"""A recorded call: its steps, what has to hold for them, and how they are run again."""

from __future__ import annotations

import functools
import threading
import time
import types
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import dtypes
from .._random.generators import default_generator
from ..core import modes
from ..core.base import TensorBase, user_frame, wrap
from ..core.layout import address, memory, strided
from ..core.modes import MODES
from ..core.python_dispatch import ACTIVE
from ..core.upward import TENSOR, VIEWS
from ..errors import evidence
from ..utils import _pytree as pytree
from . import set_stance
from .guards import Guards
from .memory import Plan, gifts
from .modules import OptimizedModule, parts_of
from .outside import Call, Outside, Pattern, standing_for
from .recorder import Recorder
from .scalars import LARGEST, Number, now, number
from .snapshots import same_bits
from .steps import GradientStep, timed
from .tapes import in_segments

FLAT = (TensorBase, int, float, str, type(None))
MOST_RECORDINGS = 8  # of one function, for as many signatures
MOST_RESTING = 3  # for one signature: models are trained and evaluated in turn
MOVED = "a tensor"
ANY_FLOAT = "any float"  # in the place of one
FEWEST_STEPS = 5  # of a part that is worth its guards


class NothingDone(Exception):
    """A replay failed before it had changed anything that was there before."""


ALL: weakref.WeakSet[Compiled] = weakref.WeakSet()


class Recording:
    """One signature of a compiled function: seen once, recorded, or not to be recorded."""

    def __init__(self, key: Any, trigger: str) -> None:
        self.key = key
        self.trigger = trigger  # what led to it
        self.called = evidence.here()  # and where
        self.calls = 0
        self.reason = ""  # why it runs as ordinary Python
        self.where: Any = None
        self.guards: Guards | None = None
        self.inputs: list[Any] = []  # tensors at fixed places, or None for what is no tensor
        self.run_steps: list[Callable[[], Any]] = []
        self.all_steps: list[Any] = []  # where each call is checked
        self.gradient_steps: list[GradientStep] = []
        self.externals: list[tuple[Any, Any, bool]] = []  # tensors that were there before
        self.optimizers: list[tuple[Any, int]] = []  # and how many parameters they have
        # That the steps fill, by id; what was only needed in between is gone.
        self.memory: Any = weakref.WeakValueDictionary()
        self.filled: Any = weakref.WeakValueDictionary()  # the same without constants and results
        self.plan: Plan | None = None  # of what only kernels in C look at
        self.gifts: dict[int, Any] = {}  # results that are handed out without a copy, by id
        self.given: list[Any] = []  # those that were
        self.results: list[Any] = []
        self.spec: Any = None
        self.outside: Outside | None = None  # where results are differentiated later
        self.seconds = 0.0  # that recording took
        self.first_effect = 0  # the first step after which the call could not be made anew
        self.replays = 0
        self.times: list[float] = []  # of the steps, when they were last timed
        self.confirmed = False  # by a second recording, of other values
        self.numbers: dict[int, Number] = {}  # among the arguments, by their places
        self.parts: list[tuple[Any, Compiled]] = []  # modules that are compiled apart
        self.patterns: set[Pattern] = set()  # which results were differentiated together

    def fail(self, reason: str, where: Any = None) -> None:
        self.reason = reason
        self.where = where
        self.confirmed = False
        self.run_steps, self.gradient_steps, self.inputs = [], [], []
        self.guards = None
        self.externals = []
        self.outside = None

    def take(self, seen: Seen, keeps_all: bool) -> None:
        """Make a recorded call ready to be run; `keeps_all`: every value, to be compared later."""
        recorder = seen.recorder
        self.guards = seen.guards
        self.inputs = seen.inputs
        self.numbers = seen.numbers
        fills = list(recorder.number_arrays.values())
        needed = [*fills, *recorder.needed_steps(recorder.steps)]
        self.memory = weakref.WeakValueDictionary(recorder.made)
        passes = () if seen.outside is None else seen.outside.passes.values()
        for step in [*needed, *[step for each in passes for step in each.steps]]:
            self.filled.update({id(memory(x)): memory(x) for x in step.made})
        found = recorder.externals.values()
        self.externals = [(t, t.array, t.wants_grad) for t in found]
        owners = [each for each in seen.guards.kept_apart if hasattr(each, "param_groups")]
        self.optimizers = [(each, count_params(each)) for each in owners]
        self.results = [as_result(recorder, r) for r in seen.results]
        self.spec = seen.spec
        self.gradient_steps = [step for step in needed if isinstance(step, GradientStep)]
        self.outside = seen.outside
        read = [] if seen.outside is None else seen.outside.take(needed, seen.inputs)
        if keeps_all:
            self.all_steps = needed
            read += [array for step in needed for array in step.made]
        made = [r for r in self.results if type(r) is Result]
        kept = [*[r.array for r in made], *read]
        steps = in_segments(needed, kept)
        self.plan = Plan(needed, steps, kept)
        for r in made:  # soon somebody else's
            self.filled.pop(id(r.owner), None)
        self.gifts = gifts(needed, steps, made, read)
        self.given = []
        for step in needed:
            step.tape = None  # joined ones have taken its place
        self.run_steps = [step.run for step in steps]
        effects = [i for i, step in enumerate(steps) if step.has_effects]
        self.first_effect = effects[0] if effects else len(steps)

    def suits(self, args: Any) -> bool:
        """Whether arguments are like those that were recorded: `described`, a little faster."""
        inputs = self.inputs
        if len(args) != len(inputs) or not self.confirmed or around() != self.key[1]:
            return False
        for value, static, part in zip(args, inputs, self.key[2:], strict=True):
            if static is None:
                if part is not ANY_FLOAT or type(value) is not float:
                    if described(value, True) != part:
                        return False
                continue
            if not isinstance(value, TensorBase) or not has_stand_in(value, True):
                return False
            if value.wants_grad is not part[4]:
                return False
            a, b = value.array, static.array
            if a.shape != b.shape or a.dtype is not b.dtype or a.strides != part[3]:
                return False
        return True

    def still_holds(self) -> str:
        """What has changed since the recording; "" if nothing that matters has."""
        guards: Any = self.guards
        changed: str = guards.changed()
        if changed:
            return changed
        if self.outside is not None and self.outside.patterns:
            return "which of its results are used"
        for t, array, wants_grad in self.externals:
            if t.array is not array or t.wants_grad is not wants_grad:
                return MOVED
        for optimizer, count in self.optimizers:
            if count_params(optimizer) != count:
                return "the parameters of an optimizer"
        return ""

    def replay(self, values: list[Any]) -> Any:
        if self.outside is None:
            self.run(values)
            return self.answer(None)
        with self.outside.busy:
            call = self.call_with(values, None)
            self.run(values)
            return self.answer(call)

    def call_with(self, values: Any, random: Any) -> Call | None:
        """What results that are differentiated later know about their call."""
        if self.outside is None:
            return None
        if not self.outside.draws:
            random = None
        elif random is None:
            random = default_generator.get_state()
        return Call(self.outside.function, values, self.outside.spec, random)

    def run(self, values: Any) -> None:
        self.fill(values)
        done = 0
        try:
            for run in self.run_steps:
                run()
                done += 1
        except Exception as error:
            if done < self.first_effect:
                raise NothingDone from error
            raise
        self.replays += 1

    def fill(self, values: Any) -> None:
        """Copy the arguments to where the steps read them. The steps have their memory again."""
        if self.outside is not None:
            self.outside.leave()
        for step in self.gradient_steps:
            step.let_go()
        while self.given:
            self.given.pop().find_room()
        for static, value in zip(self.inputs, values, strict=True):
            if static is not None:
                static.array[...] = value.array
        for i, argument in self.numbers.items():
            if not -LARGEST < values[i] < LARGEST:
                raise NothingDone
            argument.current = values[i]

    def spoil(self, before: Any) -> None:
        """Leave nothing in the steps' memory that one of them could take for a result of its call.

        `before` has what was there before that call: some of it may be here by now.
        """
        for owner in self.filled.values():
            if not before.has(owner) and owner.dtype.kind == "f" and owner.flags.writeable:
                owner[...] = np.nan

    def replay_timed(self, values: list[Any], before: Any) -> None:
        """The steps with a clock beside them, from memory that says nothing."""
        self.fill(values)
        self.spoil(before)
        self.times = timed(self.run_steps)

    def answer(self, call: Call | None) -> Any:
        """What the call returns, in new tensors."""
        copies: dict[int, Any] = {}
        made = [self.fresh(r, copies) for r in self.results]
        if call is not None and self.outside is not None:
            self.outside.attach(made, call)
        return made[0] if self.spec is None else pytree.tree_unflatten(made, self.spec)

    def fresh(self, result: Any, copies: dict[int, Any]) -> Any:
        """A result as a new tensor; what was there before is returned as it is."""
        if type(result) is not Result:
            return now(result)
        gift = self.gifts.get(id(result))
        if gift is None:
            return result.as_tensor(result.copy(copies))
        self.given.append(gift)
        return result.as_tensor(gift.give())


class Result:
    """A tensor that a recorded call returned."""

    def __init__(self, t: Any) -> None:
        self.held, self.at = [t.array], 0
        self.owner = memory(t.array)
        self.offset = address(t.array) - address(self.owner)
        self.node = t.node  # of no use any more, or replaced
        self.slot = t.slot
        self.wants_grad = t.wants_grad

    @property
    def array(self) -> Any:
        return self.held[self.at]

    def as_tensor(self, array: Any) -> Any:
        """A new tensor with the values of now; its history is over, as after any backward pass."""
        made = wrap(array)
        made.wants_grad = self.wants_grad
        made.node = self.node
        made.slot = self.slot
        return made

    def copy(self, copies: dict[int, Any]) -> Any:
        """It lies in its memory as the recorded one does: views of the same memory stay that."""
        owner = copies.get(id(self.owner))
        if owner is None:
            owner = copies[id(self.owner)] = self.owner.copy(order="K")
        array = self.array
        if array is not self.owner or owner.strides != array.strides:
            owner = strided(np, owner, array.shape, array.strides, self.offset)
        return owner


def count_params(optimizer: Any) -> int:
    return sum([len(group["params"]) for group in optimizer.param_groups])


def is_tensor(value: Any) -> bool:
    return isinstance(value, TensorBase)


def flat(args: Any, kwargs: Any) -> tuple[Any, Any]:
    """The arguments in a row, and how they were nested; None: they were not."""
    if not kwargs and all([isinstance(a, FLAT) for a in args]):
        return args, None
    return pytree.tree_flatten((args, kwargs))


def has_stand_in(t: Any, leaves_too: bool) -> bool:
    """Whether a tensor at a fixed place may stand for an argument; others are used as they are."""
    if type(t) is not TENSOR.cls or t.special:
        return False
    if not t.wants_grad:
        return True
    return t.gradient is None and (leaves_too or not is_leaf(t))


def is_leaf(t: Any) -> bool:
    if t.view_of is not None:
        VIEWS.refresh(t)
    return t.node is None or t.node.is_leaf


def described(value: Any, leaves_too: bool) -> Any:
    """What has to be the same for a recording to fit an argument."""
    if isinstance(value, TensorBase):
        if not has_stand_in(value, leaves_too):
            return id(value)
        array = value.array
        return type(value), array.shape, array.dtype, array.strides, value.wants_grad
    if type(value) is float:
        return float, value.hex()  # zeros have signs
    try:
        hash(value)
    except TypeError:
        return id(value)
    return type(value), value


def is_float(value: Any, part: Any) -> bool:
    return type(value) is float and type(part) is tuple and part[0] is float


def around() -> Any:
    """The switches that ops look at."""
    default = dtypes.default_np().num
    return MODES.grad, MODES.inference, MODES.autocast, modes.ANOMALY.enabled, default


class Compiled:
    """A function whose calls are recorded twice, and replayed from the fourth one on."""

    def __init__(
        self, function: Callable[..., Any], fullgraph: bool, check: bool, is_part: bool = False
    ) -> None:
        # Its name, its text, its signature, and what else a function has.
        given = functools.WRAPPER_UPDATES if isinstance(function, types.FunctionType) else ()
        functools.update_wrapper(self, function, updated=given)
        self.function = function
        self.fullgraph = fullgraph
        self.check = check
        self.recordings: dict[Any, Recording] = {}
        self.resting: dict[Any, list[Recording]] = {}  # those that held before something changed
        self.lock = threading.Lock()
        self.changes = 0  # after which something had to be recorded again
        self.last: Recording | None = None  # that was replayed, for arguments without nesting
        self.graphs: Any = None  # of a GPU: device.GraphedCalls
        self.warned = is_part
        self.is_part = is_part  # of a function that cannot be recorded
        self.changing: set[int] = set()  # the places of floats that change from call to call
        self.by_value = False  # somebody looks at them
        self.new_leaves = False  # arguments that require grad are others each time
        ALL.add(self)

    def forget(self) -> None:
        self.recordings = {}
        self.resting = {}
        self.changes = 0
        self.last = None

    def __reduce__(self) -> Any:
        return Compiled, (self.function, self.fullgraph, self.check)

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        return self if owner is None else types.MethodType(self, owner)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if ACTIVE.modes or MODES.saved_hooks or set_stance.current == "force_eager":
            return self.function(*args, **kwargs)
        if not self.lock.acquire(blocking=False):
            return self.function(*args, **kwargs)
        try:
            last = self.last
            if last is not None and not kwargs and last.suits(args):
                changed = last.still_holds()
                if not changed:
                    try:
                        return last.replay(args)
                    except NothingDone:  # the call itself says what is wrong
                        return self.function(*args, **kwargs)
            return self.find(args, kwargs)
        finally:
            self.lock.release()

    def find(self, args: Any, kwargs: Any) -> Any:
        """The call by the recording for such arguments, which may have to be made."""
        values, spec = flat(args, kwargs)
        odd = next((v for v in values if is_tensor(v) and v.special), None)
        if odd is not None:  # on a GPU, or of a class that does something else
            if self.graphs is not None:
                return self.graphs(values, args, kwargs)
            return self.function(*args, **kwargs)
        key = (spec, around(), *[described(v, self.new_leaves) for v in values])
        for i in self.changing:
            if i < len(values) and type(values[i]) is float:
                key = (*key[: i + 2], ANY_FLOAT, *key[i + 3 :])
        found = self.recordings.get(key)
        if found is None:
            if self.gets_new_numbers(key, values):
                return self.find(args, kwargs)
            if self.gets_new_leaves(key, values):
                self.new_leaves = True
                return self.find(args, kwargs)
            found = self.first_of(key)
        changed = found.still_holds() if found.run_steps else ""
        if changed:
            found = self.again(found, changed)
        if found.run_steps:
            if not found.confirmed or self.check:
                return self.confirm(found, values, spec)
            try:
                self.last = found if spec is None else None
                return found.replay(values)
            except NothingDone:
                return self.function(*args, **kwargs)
        found.calls += 1
        if found.reason:
            return in_parts(self.function, found.parts, args, kwargs)
        if found.calls < 2:
            return self.function(*args, **kwargs)
        return self.record(found, values, spec)

    def gets_new_numbers(self, key: Any, values: Any) -> bool:
        """Whether a call differs from an earlier one in the floats that it gets: note which."""
        if self.by_value:
            return False
        for known in self.recordings:
            if len(known) == len(key) and known[:2] == key[:2]:
                parts = enumerate(zip(key[2:], known[2:], strict=True))
                places = [i for i, (a, b) in parts if a != b and a is not ANY_FLOAT]
                if places and all([is_float(values[i], known[i + 2]) for i in places]):
                    self.changing.update(places)
                    return True
        return False

    def gets_new_leaves(self, key: Any, values: Any) -> bool:
        """Whether a call differs from an earlier one in which tensors it wants gradients of."""
        if self.new_leaves:
            return False
        given = [is_tensor(v) and v.wants_grad and has_stand_in(v, True) for v in values]
        for known in self.recordings:
            if len(known) == len(key) and known[:2] == key[:2]:
                parts = zip(key[2:], known[2:], given, strict=True)
                if all([a == b or (is_new and type(b) is int) for a, b, is_new in parts]):
                    return True
        return False

    def first_of(self, key: Any) -> Recording:
        """A recording for arguments that were not seen before."""
        trigger = "other arguments" if self.recordings else "a first call"
        made = Recording(key, trigger)
        if len(self.recordings) < MOST_RECORDINGS:
            self.recordings[key] = made
        else:  # not kept: there is no end to them
            made.fail(f"there are {MOST_RECORDINGS} recordings already")
        return made

    def again(self, stale: Recording, changed: str) -> Recording:
        """A recording in the place of one that no longer fits: one that does, or a new one."""
        resting = self.resting.setdefault(stale.key, [])
        back = next((r for r in resting if not r.still_holds()), None)
        if changed != MOVED:
            resting.append(stale)
        if back is not None:
            resting.remove(back)
            self.recordings[stale.key] = back
            return back
        del resting[:-MOST_RESTING]
        made = self.recordings[stale.key] = Recording(stale.key, f"a change of {changed}")
        # A parameter that is new to an optimizer has no state yet: a call first that makes it.
        made.calls = 0 if stale.optimizers else 1
        made.patterns = stale.patterns
        if stale.outside is not None:
            made.patterns = stale.patterns | stale.outside.patterns
        self.changes += 1
        if self.changes > 4 * MOST_RECORDINGS:
            made.fail(f"{changed} changes all the time")
        return made

    def name(self) -> str:
        """What the function is called; a module, by its class."""
        owner = getattr(self.function, "__self__", None)
        if owner is not None and self.function == getattr(owner, "_call_impl", None):
            return type(owner).__name__
        return str(getattr(self.function, "__qualname__", type(self.function).__name__))

    def refuse(self, recording: Recording, reason: str, where: Any) -> None:
        recording.fail(reason, where)
        if ANY_FLOAT in recording.key:  # then it may be possible for each of them apart
            self.by_value, self.changing = True, set()
            self.recordings.pop(recording.key, None)
            return
        line = "" if where is None else f"\n  at:  {evidence.spell(where)}"
        text = f"{self.name()} cannot be compiled: {reason}{line}"
        if self.fullgraph:
            raise RuntimeError(text)
        if not self.warned:
            self.warned = True
            frame = user_frame(1)
            at = ("<unknown>", 1) if frame is None else (frame.f_code.co_filename, frame.f_lineno)
            parts = "with its modules compiled apart" if recording.parts else "as it is"
            text += f"\n  It runs as ordinary Python, {parts}."
            warnings.warn_explicit(text, UserWarning, *at)

    def record(self, recording: Recording, values: Any, spec: Any) -> Any:
        """Run the call and write it down; then once more from the list, to see that it is whole."""
        start = time.perf_counter()
        seen = self.watched(recording, values, spec)
        if recording.reason:
            return seen.given_back(values)
        if self.is_part and len(seen.recorder.steps) < FEWEST_STEPS:
            recording.fail("it is too small to be worth it")
            return seen.given_back(values)
        recording.take(seen, self.check)
        wrong = differs_when_replayed(recording, seen, values)
        if wrong:
            self.refuse(recording, wrong, None)
            if seen.outside is None:
                return seen.given_back(values)
            # The graph behind the results is in memory that the replay has written to.
            seen.recorder.before.restore()
            args, kwargs = (values, {}) if spec is None else pytree.tree_unflatten(values, spec)
            return self.function(*args, **kwargs)
        recording.seconds = time.perf_counter() - start
        return recording.answer(recording.call_with(values, seen.recorder.before.random))

    def confirm(self, recording: Recording, values: Any, spec: Any) -> Any:
        """Record a second call, most likely with other values: the list must do what it did."""
        seen = self.watched(recording, values, spec)
        if recording.reason:
            return seen.given_back(values)
        wrong = differs_when_replayed(recording, seen, values)
        if wrong:
            self.refuse(recording, wrong, None)
            return seen.given_back(values)
        before = [float.__pos__(number) for number in recording.numbers.values()]
        recording.confirmed = all(
            [values[i] != n for i, n in zip(recording.numbers, before, strict=True)]
        )
        return recording.answer(recording.call_with(values, seen.recorder.before.random))

    def watched(self, recording: Recording, values: Any, spec: Any) -> Seen:
        """Run the call under a recorder; the recording says if it cannot be repeated."""
        places = [i for i, part in enumerate(recording.key[2:]) if part is ANY_FLOAT]
        seen = Seen(self.function, values, spec, self.new_leaves, recording.patterns, places)
        reason, where = why_not(seen)
        if reason:
            recording.parts = self.parts_in(seen.guards)
            self.refuse(recording, reason, where)
        return seen

    def parts_in(self, guards: Guards) -> list[tuple[Any, Compiled]]:
        """The modules of a function that cannot be recorded, each compiled by itself."""
        own = getattr(self.function, "__self__", self.function)
        found: list[tuple[Any, Compiled]] = []
        for module in guards.modules:
            for part in parts_of(module) if module is own else [module]:
                is_known = isinstance(part, OptimizedModule) or any([part is p for p, _ in found])
                if part._compiled_call_impl is None and not is_known:
                    found.append((part, Compiled(part._call_impl, False, self.check, True)))
        return found


def in_parts(function: Any, parts: list[tuple[Any, Compiled]], args: Any, kwargs: Any) -> Any:
    """A call in which some modules are called by their recordings."""
    before = [module._compiled_call_impl for module, _ in parts]
    for module, compiled in parts:
        module._compiled_call_impl = compiled
    try:
        return function(*args, **kwargs)
    finally:
        for (module, _), own in zip(parts, before, strict=True):
            module._compiled_call_impl = own


class Seen:
    """A call that ran under a recorder."""

    def __init__(
        self,
        function: Any,
        values: Any,
        spec: Any,
        leaves_too: bool,
        patterns: set[Pattern],
        places: list[int],
    ) -> None:
        self.values = values
        self.inputs = [static_input(v, leaves_too) for v in values]
        self.guards = Guards(function, values)
        fixed = [t for t in self.inputs if t is not None]
        owners = self.guards.kept_apart
        self.recorder = recorder = Recorder(fixed, self.guards.tensors, owners)
        given = [v if t is None else t for t, v in zip(self.inputs, values, strict=True)]
        self.numbers = {i: number(values[i], recorder) for i in places}
        recorder.has_numbers = bool(places)
        for i, value in self.numbers.items():
            given[i] = value
        args, kwargs = (given, {}) if spec is None else pytree.tree_unflatten(given, spec)
        schedulers = [each for each in owners if hasattr(each, "last_epoch")]
        with recorder.hearing_output():
            with (
                recorder,
                recorder.listening_to(schedulers),
                recorder.listening_to_options(owners),
            ):
                self.out = function(*args, **kwargs)
            recorder.note_gradients()
            if is_tensor(self.out):
                self.results, self.spec = [self.out], None
            else:
                self.results, self.spec = pytree.tree_flatten(self.out)
            self.outside: Outside | None = None
            self.refused = ""
            if not recorder.trouble:
                self.record_backward(function, spec, patterns)

    def looks_at_numbers(self) -> bool:
        """Whether the call depends on its floats in ways that are not seen."""
        if not self.numbers:
            return False
        return self.recorder.looks_at_numbers or self.guards.calls_others

    def record_backward(self, function: Any, spec: Any, patterns: set[Pattern]) -> None:
        """The backward passes of results that are differentiated later."""
        outside = Outside(self.recorder, self.results, self.inputs)
        if not outside.results:
            return
        self.refused = outside.why_not(self.inputs)
        if not self.refused:
            outside.record(patterns)
            outside.function, outside.spec, outside.numbers = function, spec, self.numbers
            self.outside = outside

    def given_back(self, values: Any) -> Any:
        """What the call returned, with its effects on the arguments, for which others stood in."""
        pairs = [(s, v) for s, v in zip(self.inputs, values, strict=True) if s is not None]
        for static, value in pairs:
            if static.cell is not None and static.cell.n:
                value.array[...] = static.array
                value.version_cell().n += static.cell.n
            if static.wants_grad and (static.node is None or static.node.is_leaf):
                value.requires_grad_()
                value.gradient = static.gradient
        own = {id(static): value for static, value in pairs}
        if self.spec is None:
            return own.get(id(self.out), self.out)
        return pytree.tree_unflatten([now(own.get(id(r), r)) for r in self.results], self.spec)


def static_input(value: Any, leaves_too: bool) -> Any:
    """A tensor at a fixed place for an argument; None where the argument itself is used."""
    if not isinstance(value, TensorBase) or not has_stand_in(value, leaves_too):
        return None
    return standing_for(value, value.array.copy(order="K"))


def as_result(recorder: Recorder, value: Any) -> Any:
    """What is returned by later calls: new tensors, except for those that were there before."""
    if not isinstance(value, TensorBase) or not recorder.is_made(value.array):
        return value
    return Result(value)


def why_not(seen: Seen) -> tuple[str, Any]:
    """Why a recorded call cannot stand for later ones, and the line; "" if it can."""
    recorder, guards, inputs, results = seen.recorder, seen.guards, seen.inputs, seen.results
    if recorder.trouble:
        return recorder.trouble, recorder.where
    if guards.trouble or seen.refused:
        return guards.trouble or seen.refused, None
    if seen.looks_at_numbers():
        return "it looks at a number that changes", None
    changed = guards.changed()
    if changed:
        return f"it changes {changed}", None
    drawn = guards.drew()
    if drawn:
        return f"it draws {drawn}", None
    if any([t is not None and t.cell is not None and t.cell.n for t in inputs]):
        return "it writes into an argument", None
    pairs = zip(inputs, seen.values, strict=True)
    if any([t is not None and t.wants_grad is not v.wants_grad for t, v in pairs]):
        return "it lets an argument require grad", None
    for t, array in recorder.before.met:
        if t.array is not array:
            return "it gives a tensor other memory", None
    for r in results:
        if not isinstance(r, TensorBase):
            continue
        if r.special or (type(r) is not TENSOR.cls and recorder.is_made(r.array)):
            return f"it returns a {type(r).__name__}", None
        if any([r is t for t in inputs]):
            return "it returns an argument", None
    return "", None


def differs_when_replayed(recording: Recording, seen: Seen, values: Any) -> str:
    """Put everything back, run the steps, compare: what comes out otherwise than before."""
    expected = [r.array.copy() if is_tensor(r) else r for r in seen.results]
    passes = {} if seen.outside is None else seen.outside.expected()
    before = seen.recorder.before
    after = before.restore()
    try:
        recording.replay_timed(values, before)
        wrong = after.differs(before.now(), recording.memory)
        if not wrong and not all(map(is_same_result, recording.results, expected)):
            wrong = "a result"
        if not wrong and recording.outside is not None and recording.outside.differs(passes):
            wrong = "a gradient"
        if wrong:
            wrong += first_difference(recording.all_steps, seen.recorder)
    except Exception as error:
        wrong = f"{type(error).__name__}: {error}"
    if not wrong:
        if seen.outside is not None:
            seen.outside.forget()
        return ""
    after.restore()
    for r, values in zip(seen.results, expected, strict=True):
        if is_tensor(r):
            r.array[...] = values
    return f"a replay gave something else than the call itself: {wrong}"


def first_difference(steps: list[Any], recorder: Recorder) -> str:
    """Which step of a replay has another result than it had in a call; "" if that is not known."""
    fills = list(recorder.number_arrays.values())
    called = [*fills, *recorder.needed_steps(recorder.steps)]
    for i, (step, other) in enumerate(zip(steps, called, strict=False)):
        place = f"step {i + 1} of {len(steps)}"
        if step.name != other.name:
            return f"; the call runs {other.name} where {step.name} was recorded, {place}"
        if not all(map(same_bits, step.made, other.made)):
            return f"; the first op that differs is {step.name}, {place}"
    return ""


def is_same_result(result: Any, expected: Any) -> bool:
    if type(result) is Result or is_tensor(result):
        return same_bits(result.array, expected)
    result, expected = now(result), now(expected)
    return result is expected or bool(result == expected)
