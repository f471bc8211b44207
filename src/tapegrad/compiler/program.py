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
from ..core import modes
from ..core.base import TensorBase, user_frame, wrap
from ..core.layout import address, memory, strided
from ..core.modes import MODES
from ..core.python_dispatch import ACTIVE
from ..core.upward import TENSOR
from ..errors import evidence
from ..utils import _pytree as pytree
from .guards import Guards
from .memory import Plan, gifts
from .recorder import Recorder
from .snapshots import same_bits
from .steps import GradientStep
from .tapes import in_segments

FLAT = (TensorBase, int, float, str, type(None))
OUTSIDE = "what it returns is differentiated outside of it"
MOST_RECORDINGS = 8  # of one function, for as many signatures


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
        self.gradient_steps: list[GradientStep] = []
        self.externals: list[tuple[Any, Any, bool]] = []  # tensors that were there before
        self.optimizers: list[tuple[Any, int]] = []  # and how many parameters they have
        # That the steps fill, by id; what was only needed in between is gone.
        self.memory: Any = weakref.WeakValueDictionary()
        self.plan: Plan | None = None  # of what only kernels in C look at
        self.gifts: dict[int, Any] = {}  # results that are handed out without a copy, by id
        self.given: list[Any] = []  # those that were
        self.results: list[Any] = []
        self.spec: Any = None
        self.seconds = 0.0  # that recording took
        self.first_effect = 0  # the first step after which the call could not be made anew
        self.replays = 0
        self.times: list[float] = []  # of the steps, when they were last timed
        self.confirmed = False  # by a second recording, of other values

    def fail(self, reason: str, where: Any = None) -> None:
        self.reason = reason
        self.where = where
        self.confirmed = False
        self.run_steps, self.gradient_steps, self.inputs = [], [], []
        self.guards = None
        self.externals = []

    def take(self, seen: Seen) -> None:
        recorder = seen.recorder
        self.guards = seen.guards
        self.inputs = seen.inputs
        needed = recorder.needed_steps()
        self.memory = weakref.WeakValueDictionary(recorder.made)
        found = recorder.externals.values()
        self.externals = [(t, t.array, t.wants_grad) for t in found]
        owners = [each for each in seen.guards.kept_apart if hasattr(each, "param_groups")]
        self.optimizers = [(each, count_params(each)) for each in owners]
        self.results = [as_result(recorder, r) for r in seen.results]
        self.spec = seen.spec
        self.gradient_steps = [step for step in needed if isinstance(step, GradientStep)]
        made = [r for r in self.results if type(r) is Result]
        steps = in_segments(needed, [r.array for r in made])
        self.plan = Plan(needed, steps, [r.array for r in made])
        self.gifts = gifts(needed, steps, made)
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
                if described(value) != part:
                    return False
                continue
            if not isinstance(value, TensorBase) or not has_stand_in(value):
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
        for t, array, wants_grad in self.externals:
            if t.array is not array or t.wants_grad is not wants_grad:
                return "a tensor"
        for optimizer, count in self.optimizers:
            if count_params(optimizer) != count:
                return "the parameters of an optimizer"
        return ""

    def replay(self, values: list[Any]) -> Any:
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
        return self.answer()

    def fill(self, values: Any) -> None:
        """Copy the arguments to where the steps read them. The steps have their memory again."""
        for step in self.gradient_steps:
            step.let_go()
        while self.given:
            self.given.pop().find_room()
        for static, value in zip(self.inputs, values, strict=True):
            if static is not None:
                static.array[...] = value.array

    def replay_timed(self, values: list[Any]) -> None:
        """The steps with a clock beside them."""
        self.fill(values)
        self.times = []
        for run in self.run_steps:
            start = time.perf_counter()
            run()
            self.times.append(time.perf_counter() - start)

    def answer(self) -> Any:
        """What the call returns, in new tensors."""
        copies: dict[int, Any] = {}
        if self.spec is None:
            return self.fresh(self.results[0], copies)
        return pytree.tree_unflatten([self.fresh(r, copies) for r in self.results], self.spec)

    def fresh(self, result: Any, copies: dict[int, Any]) -> Any:
        """A result as a new tensor; what was there before is returned as it is."""
        if type(result) is not Result:
            return result
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
        self.node = t.node
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


def has_stand_in(t: Any) -> bool:
    """Whether a tensor at a fixed place may stand for an argument; others are used as they are."""
    return type(t) is TENSOR.cls and not t.wants_grad and not t.special


def described(value: Any) -> Any:
    """What has to be the same for a recording to fit an argument."""
    if isinstance(value, TensorBase):
        if not has_stand_in(value):
            return id(value)
        array = value.array
        return type(value), array.shape, array.dtype, array.strides, value.special
    if type(value) is float:
        return float, value.hex()  # zeros have signs
    try:
        hash(value)
    except TypeError:
        return id(value)
    return type(value), value


def around() -> Any:
    """The switches that ops look at."""
    default = dtypes.default_np().num
    return MODES.grad, MODES.inference, MODES.autocast, modes.ANOMALY.enabled, default


class Compiled:
    """A function whose calls are recorded twice, and replayed from the fourth one on."""

    def __init__(self, function: Callable[..., Any], fullgraph: bool, check: bool) -> None:
        functools.update_wrapper(self, function)  # its name, its text, its signature
        self.function = function
        self.fullgraph = fullgraph
        self.check = check
        self.recordings: dict[Any, Recording] = {}
        self.lock = threading.Lock()
        self.changes = 0  # after which something had to be recorded again
        self.last: Recording | None = None  # that was replayed, for arguments without nesting
        self.warned = False
        ALL.add(self)

    def forget(self) -> None:
        self.recordings = {}
        self.changes = 0
        self.last = None

    def __reduce__(self) -> Any:
        return Compiled, (self.function, self.fullgraph, self.check)

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        return self if owner is None else types.MethodType(self, owner)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if ACTIVE.modes or MODES.saved_hooks or not self.lock.acquire(blocking=False):
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
            return self.function(*args, **kwargs)
        key = (spec, around(), *[described(v) for v in values])
        found = self.recordings.get(key)
        if found is None:
            found = self.first_of(key)
        if found.run_steps:
            changed = found.still_holds()
            if not changed:
                if not found.confirmed or self.check:
                    return self.confirm(found, values, spec)
                try:
                    self.last = found if spec is None else None
                    return found.replay(values)
                except NothingDone:
                    return self.function(*args, **kwargs)
            found = self.again(found, changed)
        found.calls += 1
        if found.reason or found.calls < 2:
            return self.function(*args, **kwargs)
        return self.record(found, values, spec)

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
        """A recording in the place of one that no longer fits."""
        made = self.recordings[stale.key] = Recording(stale.key, f"a change of {changed}")
        # A parameter that is new to an optimizer has no state yet: a call first that makes it.
        made.calls = 0 if stale.optimizers else 1
        self.changes += 1
        if self.changes > 4 * MOST_RECORDINGS:
            made.fail(f"{changed} changes all the time")
        return made

    def refuse(self, recording: Recording, reason: str, where: Any) -> None:
        recording.fail(reason, where)
        line = "" if where is None else f"\n  at:  {evidence.spell(where)}"
        name = getattr(self.function, "__qualname__", type(self.function).__name__)
        text = f"{name} cannot be compiled: {reason}{line}"
        if reason == OUTSIDE:  # as programs for PyTorch have it; nothing is wrong with that
            return
        if self.fullgraph:
            raise RuntimeError(text)
        if not self.warned:
            self.warned = True
            frame = user_frame(1)
            at = ("<unknown>", 1) if frame is None else (frame.f_code.co_filename, frame.f_lineno)
            text += "\n  It runs as ordinary Python."
            warnings.warn_explicit(text, UserWarning, *at)

    def record(self, recording: Recording, values: Any, spec: Any) -> Any:
        """Run the call and write it down; then once more from the list, to see that it is whole."""
        start = time.perf_counter()
        seen = self.watched(recording, values, spec)
        if recording.reason:
            return seen.given_back(values)
        recording.take(seen)
        wrong = differs_when_replayed(recording, seen, values)
        if wrong:
            self.refuse(recording, wrong, None)
            return seen.given_back(values)
        recording.seconds = time.perf_counter() - start
        return recording.answer()

    def confirm(self, recording: Recording, values: Any, spec: Any) -> Any:
        """Record a second call, most likely with other values: the list must do what it did."""
        seen = self.watched(recording, values, spec)
        if recording.reason:
            return seen.given_back(values)
        wrong = differs_when_replayed(recording, seen, values)
        if wrong:
            self.refuse(recording, wrong, None)
            return seen.given_back(values)
        recording.confirmed = True
        return recording.answer()

    def watched(self, recording: Recording, values: Any, spec: Any) -> Seen:
        """Run the call under a recorder; the recording says if it cannot be repeated."""
        seen = Seen(self.function, values, spec)
        reason, where = why_not(seen)
        if reason:
            self.refuse(recording, reason, where)
        return seen


class Seen:
    """A call that ran under a recorder."""

    def __init__(self, function: Callable[..., Any], values: Any, spec: Any) -> None:
        self.inputs = [static_input(v) for v in values]
        self.guards = Guards(function, values)
        fixed = [t for t in self.inputs if t is not None]
        owners = self.guards.kept_apart
        self.recorder = recorder = Recorder(fixed, self.guards.tensors, owners)
        given = [v if t is None else t for t, v in zip(self.inputs, values, strict=True)]
        args, kwargs = (given, {}) if spec is None else pytree.tree_unflatten(given, spec)
        schedulers = [each for each in owners if hasattr(each, "last_epoch")]
        with recorder, recorder.listening_to(schedulers), recorder.hearing_output():
            self.out = function(*args, **kwargs)
        recorder.note_gradients()
        if is_tensor(self.out):
            self.results, self.spec = [self.out], None
        else:
            self.results, self.spec = pytree.tree_flatten(self.out)

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
        return pytree.tree_unflatten([own.get(id(r), r) for r in self.results], self.spec)


def static_input(value: Any) -> Any:
    """A tensor at a fixed place for an argument; None where the argument itself is used."""
    if not isinstance(value, TensorBase) or not has_stand_in(value):
        return None
    return wrap(value.array.copy(order="K"))


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
    if guards.trouble:
        return guards.trouble, None
    changed = guards.changed()
    if changed:
        return f"it changes {changed}", None
    drawn = guards.drew()
    if drawn:
        return f"it draws {drawn}", None
    if any([t is not None and t.cell is not None and t.cell.n for t in inputs]):
        return "it writes into an argument", None
    if any([t is not None and t.wants_grad for t in inputs]):
        return "it lets an argument require grad", None
    for t, array in recorder.before.met:
        if t.array is not array:
            return "it gives a tensor other memory", None
    for r in results:
        if not isinstance(r, TensorBase):
            continue
        if r.special:
            return f"it returns a {type(r).__name__}", None
        if any([r is t for t in inputs]):
            return "it returns an argument", None
        if is_alive(r.node, recorder):
            return OUTSIDE, None
    return "", None


def is_alive(node: Any, recorder: Recorder) -> bool:
    """Whether a backward pass could still go through a result."""
    if node is None or node.is_leaf:
        return False
    saves = False
    stack, seen = [node], {node}
    while stack:
        node = stack.pop()
        if node.frees:
            saves = True
            if node.kept is not None:
                return True
        for edge in node.edges:
            if edge is not None and edge not in seen:
                seen.add(edge)
                stack.append(edge)
    return not saves and not any([isinstance(s, GradientStep) for s in recorder.steps])


def differs_when_replayed(recording: Recording, seen: Seen, values: Any) -> str:
    """Put everything back, run the steps, compare: what comes out otherwise than before."""
    expected = [r.array.copy() if is_tensor(r) else r for r in seen.results]
    before = seen.recorder.before
    after = before.restore()
    try:
        recording.replay_timed(values)
        wrong = after.differs(before.now(), recording.memory)
        if not wrong and not all(map(is_same_result, recording.results, expected)):
            wrong = "a result"
    except Exception as error:
        wrong = f"{type(error).__name__}: {error}"
    if not wrong:
        return ""
    after.restore()
    return f"a replay gave something else than the call itself: {wrong}"


def is_same_result(result: Any, expected: Any) -> bool:
    if type(result) is Result or is_tensor(result):
        return same_bits(result.array, expected)
    return result is expected or bool(result == expected)
