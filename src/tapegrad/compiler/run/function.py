"""A compiled function: decides which calls run as they are, are recorded, or are replayed."""

from __future__ import annotations

import functools
import math
import os
import re
import sys
import threading
import time
import types
import warnings
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.base import COMPILED, STATE, user_frame
from ...core.locks import new_rlock
from ...core.modes import MODES
from ...core.python_dispatch import ACTIVE
from ...core.settings import Settings
from ...core.warned import warn
from ...errors import evidence
from ...kernels.cpu import KERNELS
from ...nn.modules.module import Module
from ...utils import _pytree as pytree
from .. import set_stance
from ..backward.of_results import BEHIND
from ..backward.of_results import CompiledFunctionBackward as Before
from ..backward.upstream import BehindStep
from ..breaks.calls import Place, body_of, in_the_place_of
from ..breaks.cut import Split, cut, returned_at, why_whole
from ..capture.arguments import (
    ANOTHER,
    ANY_FLOAT,
    OVERLAP,
    Same,
    around,
    flat,
    has_stand_in,
    is_float,
    is_tensor,
    signature,
)
from ..capture.branches import IN_A_ROW, MOST_MISSES, OtherAnswer
from ..capture.capture import FIRST_OP, SMALL, Seen, differs_when_replayed, why_not, why_not_between
from ..capture.hooks import HOOKS
from ..capture.instrumented import instrumented
from ..capture.reachable import Reachable
from ..plan.early_release import threshold
from ..plan.memory_plan import forget_memory, sparing_memory
from ..program.recording import MOVED, TO_TIME, NothingDone, Recording
from ..program.steps import (
    FillStep,
    GradientStep,
    OpStep,
    PythonStep,
    WholeStep,
    WriteStep,
    is_zero_grad,
)
from .comparison import Comparison
from .modules import OptimizedModule, parts_of

MOST_RECORDINGS = 8  # of one function, for as many signatures
MOST_RESTING = 3  # for one signature: models are trained and evaluated in turn
REST = 31  # calls, where nothing is recorded: then there may be other arguments
MOST_TRIES = 4  # to record a call, where other threads may be in the way
CHANGES_TO_CUT = 3  # of one variable, after which the function is cut where it is named
# Recordings of fewer steps or ops are not kept: checking guards takes as long as they save. The
# numbers are rough: no benchmark of this repository measures where each of them should be.
FEWEST_STEPS = 5  # of a module in a function that cannot be recorded
FEWEST_OPS = 4  # of a function that runs nothing but small ops
FEWEST_OUTSIDE = 5  # of a piece that is differentiated outside: each call makes an autograd node
FEWEST_IN_A_ROW = 3  # of a piece whose inputs come from another piece: it adds no further node
MOST_LOOKS = 3  # at calls op by op, after a replay was wrong
MOST_REFUSALS = 3  # of values in replays that the function itself takes
FIRST_CALLS = 3  # of a recording, which are no replays
CHEAP_FROM = 64  # calls: later comparisons may take a hundredth of the time
RARELY = 100  # times as long as a comparison, that replays take in between
COMPARED_UNTRIED = 2  # calls, where the recorded one was too large to be undone and tried
MOST_BETWEEN = 4096  # calls that are not compared with an ordinary one
LARGE_HERE = 1 << 17  # bytes that an op makes, on the average
LARGE = 1 << 18  # bytes of an array that is better gone through once than twice


# Kinds of steps that gain nothing from being replayed.
NEXT_TO_NOTHING = (BehindStep, GradientStep, WriteStep, FillStep, WholeStep)

ALL: weakref.WeakSet[Compiled] = weakref.WeakSet()


class Compiled:
    """A compiled function: a call is recorded, another compared with it, later ones are replays."""

    def __init__(
        self, function: Callable[..., Any], fullgraph: bool, check: bool, is_part: bool = False
    ) -> None:
        # Its name, its text, its signature, and what else a function has.
        given = functools.WRAPPER_UPDATES if isinstance(function, types.FunctionType) else ()
        functools.update_wrapper(self, function, updated=given)
        self.function = function
        self.fullgraph = fullgraph
        self.check = check
        self.verifies = os.environ.get("TAPEGRAD_COMPILE_VERIFY", "1") != "0"
        self.recordings: dict[Any, Recording] = {}
        self.resting: dict[Any, list[Recording]] = {}  # those that held before something changed
        self.lock = new_rlock()
        self.changes = 0  # after which something had to be recorded again
        self.last: Recording | None = None  # that was replayed, for arguments without nesting
        self.given: Any = ((), {})  # to the call that is being recorded
        self.rest = 0  # calls that are made without a look at what they are given
        self.graphs: Any = None  # of a GPU: device.GraphedCalls
        self.warned = is_part
        self.is_part = is_part  # of a function that cannot be recorded
        self.is_piece = False  # some statements of it
        self.looks_behind = False  # of a piece: backward passes in it go on behind its arguments
        self.asks_for_gradients = False  # of a piece: somebody may, of what it takes and gives
        self.counting: frozenset[str] = frozenset()  # arguments that loops around it set
        self.split: Split | None = None  # the pieces, where there are some
        self.cut_because = ""  # if no call was refused for it
        self.changed: Counter[str] = Counter()  # what led to other recordings
        self.changing: set[int] = set()  # the places of floats that change from call to call
        self.passing: set[int] = set()  # the places of objects that are others in each call
        self.by_value = False  # somebody looks at them
        self.new_leaves = False  # arguments that require grad are others each time
        self.arrays = True  # NumPy arrays among its arguments are inputs, whatever is in them
        self.as_they_are: dict[int, Any] = {}  # arguments that the function knows otherwise, too
        self.told = False  # that it runs eagerly in the portable mode
        ALL.add(self)

    def forget(self) -> None:
        self.recordings = {}
        self.resting = {}
        self.changes = self.rest = 0
        self.as_they_are = {}
        self.last = self.split = None
        self.changed.clear()
        self.passing.clear()

    def __reduce__(self) -> Any:
        return Compiled, (self.function, self.fullgraph, self.check)

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        return self if owner is None else types.MethodType(self, owner)

    def __getattr__(self, name: str) -> Any:
        # Python 3.14 evaluates annotations when they are asked for: `update_wrapper` copies none.
        if name == "__annotations__":
            return self.function.__annotations__
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.rest > 0:
            self.rest -= 1
            return self.function(*args, **kwargs)
        if ACTIVE.modes or set_stance.current == "force_eager":
            return self.function(*args, **kwargs)
        if Settings.portable:
            return self.not_recorded(args, kwargs)
        if STATE.modes_on and MODES.saved_hooks:
            return self.function(*args, **kwargs)
        if self.split is not None:
            return self.split.run(*args, **kwargs)
        if self.lock._is_owned():  # the function calls itself
            return self.function(*args, **kwargs)
        try:
            if not self.lock.acquire(False):  # another thread is in it
                return self.function(*args, **kwargs)
            last = self.last
            if last is not None and not kwargs and last.suits(args):
                changed = last.still_holds()
                if not changed and last.replays < last.next_stop:
                    try:
                        return last.replay(args)
                    except NothingDone as error:  # the call itself says what is wrong
                        stopped = error.__cause__
                    return self.made_anew(last, stopped, args, kwargs)
            return self.find(args, kwargs)
        finally:
            # Ctrl-C may come right after `acquire`: the lock itself says whether it is held.
            if self.lock._is_owned():
                self.lock.release()

    def not_recorded(self, args: Any, kwargs: Any) -> Any:
        """A call in the portable mode: recordings hold kernels that it does not use."""
        if not self.told:
            self.told = True
            warn(
                f"torch.compile: {getattr(self.function, '__name__', 'the function')} runs eagerly "
                'while torch.use_deterministic_algorithms("portable") is set: same bits, no replays'
            )
        return self.function(*args, **kwargs)

    def find(self, args: Any, kwargs: Any) -> Any:
        """Answer a call by the recording for its arguments, which is made if there is none."""
        values, spec = flat(args, kwargs)
        odd = next((v for v in values if is_tensor(v) and v._special), None)
        if odd is not None:  # on a GPU, or of a class that does something else
            if self.graphs is not None:
                return self.graphs(values, args, kwargs)
            return self.function(*args, **kwargs)
        if self.asks_for_gradients and sum([is_tensor(v) and v._wants_grad for v in values]) > 1:
            self.rest = REST
            return self.function(*args, **kwargs)  # one may be behind another one
        arrays = self.arrays and self.sees_arrays(values)
        parts = signature(values, self.new_leaves, self.looks_behind, self.as_they_are, arrays)
        key = (spec, around(), *parts)
        for i in self.changing:
            if i < len(values) and type(values[i]) is float:
                key = (*key[: i + 2], ANY_FLOAT, *key[i + 3 :])
        for i in self.passing:
            if i < len(values) and type(key[i + 2]) is Same:
                key = (*key[: i + 2], ANOTHER, *key[i + 3 :])
        found = self.recordings.get(key)
        if found is None:
            if self.gets_new_numbers(key, values):
                return self.find(args, kwargs)
            if self.gets_new_leaves(key, values):
                self.new_leaves = True
                return self.find(args, kwargs)
            if self.gets_new_objects(key):
                return self.find(args, kwargs)
            name = self.changing_name(key)
            if name and self.cut_at([], name):
                self.cut_because = f"`{name}`, which is another number in each call"
                return self.function(*args, **kwargs)
            found = self.first_of(key)
            if ANOTHER in key:
                found.parts = [] if self.fullgraph else self.parts_in(values)
                what = type(values[key.index(ANOTHER) - 2]).__name__
                told = f"it is given another {what} in each call; tensors, and tuples and dicts of"
                self.refuse(found, f"{told} them, may be others", None)
        changed = found.still_holds() if found.run_steps else ""
        if changed:
            found = self.again(found, changed)
        shared = found.reachable_among(values) if found.run_steps else []
        if shared and len(self.as_they_are) < MOST_RECORDINGS:
            self.as_they_are.update({id(t): t for t in shared})
            return self.find(args, kwargs)
        if shared:
            return self.function(*args, **kwargs)
        is_profiled = sys.getprofile() is not None  # the recorder needs that hook for itself
        if found.run_steps:
            if not found.confirmed or self.checks(found) or self.is_due(found):
                if is_profiled:
                    return self.function(*args, **kwargs)
                self.given = args, kwargs
                start = time.perf_counter()
                found.follows_call = True
                try:
                    with sparing_memory():
                        answer = self.confirm(found, values, spec)
                finally:
                    found.costs.note_spent(time.perf_counter() - start)
                self.given = ((), {})
                return answer
            if found.replays >= TO_TIME and not found.costs.is_settled:
                return self.called_and_timed(found, args, kwargs)
            found.next_stop = found.next_check if found.replays >= TO_TIME else TO_TIME
            try:
                self.last = found if spec is None else None
                if not found.follows_call:
                    return found.replay(values)
                rollback: Any = found.rollback
                rollback.drop_gradients()
                forget_memory()
                answer = found.replay(values)
                found.follows_call = False
                forget_memory()  # gradients that the replay has dropped
                return answer
            except NothingDone as error:
                stopped = error.__cause__
            return self.made_anew(found, stopped, args, kwargs)
        found.calls += 1
        if found.reason:
            if found.refusal:
                raise RuntimeError(found.refusal)
            if found.calls == REST and not any([part.is_of_use() for _, part in found.parts]):
                found.parts = []  # they are not called, or too small
            if not any([r.parts or not r.reason for r in self.recordings.values()]):
                self.rest = REST
            return in_parts(self.function, found.parts, args, kwargs)
        if found.calls < 2:
            start = time.perf_counter()
            try:
                return self.function(*args, **kwargs)
            finally:
                found.costs.note_ordinary(time.perf_counter() - start, is_first=True)
        if is_profiled:
            return self.function(*args, **kwargs)
        self.given = args, kwargs
        start = time.perf_counter()
        try:
            with sparing_memory():
                answer = self.record(found, values, spec)
        finally:
            found.costs.recording = time.perf_counter() - start
            found.costs.note_spent(found.costs.recording)
        self.given = ((), {})
        return answer

    def called_and_timed(self, recording: Recording, args: Any, kwargs: Any) -> Any:
        """Make a call as it is to know what replays save; it counts as one of them."""
        recording.replays += 1
        recording.follows_call = True
        recording.let_go()  # what the steps fill would be beside what the call allocates
        start = time.perf_counter()
        try:
            with sparing_memory():
                return self.function(*args, **kwargs)
        finally:
            recording.costs.note_ordinary(time.perf_counter() - start)

    def sees_arrays(self, values: Any) -> bool:
        """Whether NumPy arrays are given, and it would be seen that the function looks at them."""
        if np.ndarray not in map(type, values):
            return False
        body = body_of(self.function)
        body = getattr(body, "__func__", body)
        if not isinstance(body, types.FunctionType):
            return False
        return instrumented(body, HOOKS) is not None

    def is_of_use(self) -> bool:
        """Whether the function has a recording, or pieces that have one."""
        found = self.recordings.values()
        return self.split is not None or any([r.run_steps or r.parts for r in found])

    def gets_new_numbers(self, key: Any, values: Any) -> bool:
        """Whether a call differs from an earlier one only in floats; their places are noted."""
        if self.by_value:
            return False
        for known in self.recordings:
            if len(known) == len(key) and known[:2] == key[:2]:
                parts = enumerate(zip(key[2:], known[2:], strict=True))
                places = [i for i, (a, b) in parts if a != b and a is not ANY_FLOAT]
                if OVERLAP in map(first_of_tuple, (*key[-1:], *known[-1:])):
                    continue
                if places and all([is_float(values[i], known[i + 2]) for i in places]):
                    self.changing.update(places)
                    return True
        return False

    def gets_new_leaves(self, key: Any, values: Any) -> bool:
        """Whether a call differs from an earlier one only in which arguments require grad."""
        if self.new_leaves:
            return False
        given = [is_tensor(v) and v._wants_grad and has_stand_in(v, True) for v in values]
        for known in self.recordings:
            if len(known) == len(key) == len(given) + 2 and known[:2] == key[:2]:
                parts = zip(key[2:], known[2:], given, strict=True)
                if all([a == b or (is_new and type(b) is Same) for a, b, is_new in parts]):
                    return True
        return False

    def gets_new_objects(self, key: Any) -> bool:
        """Whether several calls differ only in objects that are compared by identity.

        Their places are noted; what was kept for each of these objects is dropped.
        """
        if len(self.recordings) < MOST_RECORDINGS:
            return False
        alike: list[Any] = []
        places: set[int] = set()
        for known, recording in self.recordings.items():
            if len(known) != len(key) or known[:2] != key[:2] or recording.calls > 1:
                continue
            parts = enumerate(zip(key[2:], known[2:], strict=True))
            others = [(i, a, b) for i, (a, b) in parts if a != b]
            if all(
                [type(a) is type(b) is Same and not is_known_kind(a.value) for _, a, b in others]
            ):
                alike.append(known)
                places.update([i for i, *_ in others])
        if len(alike) < CHANGES_TO_CUT:
            return False
        self.passing |= places
        for known in alike:
            del self.recordings[known]
        return True

    def changing_name(self, key: Any) -> str:
        """The name of the number (a loop's counter …) in which otherwise equal calls differ."""
        places: Counter[int] = Counter()
        for known in self.recordings:
            if len(known) == len(key) and known[:2] == key[:2]:
                others = [i for i, (a, b) in enumerate(zip(key, known, strict=True)) if a != b]
                if len(others) == 1 and all(
                    [self.counts(each[others[0]]) for each in (key, known)]
                ):
                    places[others[0] - 2] += 1
        place, count = places.most_common(1)[0] if places else (0, 0)
        if count < CHANGES_TO_CUT or key[0] is not None:
            return ""
        code = getattr(getattr(self.function, "__func__", self.function), "__code__", None)
        first = hasattr(self.function, "__self__")
        name = str(code.co_varnames[place + first]) if code is not None else ""
        # The variable of a loop has the same few values again and again, unless it has many.
        return "" if name in self.counting and count < MOST_RECORDINGS - 1 else name

    def counts(self, part: Any) -> bool:
        """Whether a part of the cache key is a Python number, each value of which is recorded."""
        return type(part) is tuple and (part[0] is int or (part[0] is float and self.by_value))

    def first_of(self, key: Any) -> Recording:
        """A new recording for arguments with a key that was not seen before."""
        trigger = "other arguments" if self.recordings else "a first call"
        made = Recording(key, trigger)
        if len(self.recordings) >= MOST_RECORDINGS and self.looks_behind:
            # What is behind the arguments was recorded anew: older ones are of no use any more.
            del self.recordings[next(iter(self.recordings))]
        if len(self.recordings) < MOST_RECORDINGS:
            self.recordings[key] = made
        else:  # not kept: there is no end to them
            made.fail(f"there are {MOST_RECORDINGS} recordings already")
            if not any([r.run_steps for r in self.recordings.values()]):
                self.rest = REST
        return made

    def again(self, stale: Recording, changed: str) -> Recording:
        """Replace a recording whose guards fail: by an earlier one that fits, or a new one."""
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
        made.patterns, made.costs = stale.patterns, stale.costs
        if stale.outside is not None:
            made.patterns = stale.patterns | stale.outside.patterns
        self.changes += 1
        self.changed[changed] += 1
        if self.changed[changed] >= CHANGES_TO_CUT:
            if self.cut_at([], name_of(changed)):  # from the next call on
                self.cut_because = f"{changed}, which changes between calls"
        moves = self.changed[MOVED] >= CHANGES_TO_CUT and not stale.replays
        if moves:
            made.fail("tensors get other memory in each call")
        elif self.changes > 4 * MOST_RECORDINGS:
            made.fail(f"{changed} changes all the time")
        return made

    def made_anew(self, recording: Recording, stopped: Any, args: Any, kwargs: Any) -> Any:
        """Call the function after a replay stopped at a value: another decision, or a refusal."""
        if isinstance(stopped, OtherAnswer):
            self.missed(recording)
        out = self.function(*args, **kwargs)
        if stopped is not None and not isinstance(stopped, OtherAnswer):
            recording.refusals += 1
            if recording.refusals >= MOST_REFUSALS:
                self.last = None
                what = f"{type(stopped).__name__}: {stopped}".partition("\n")[0]
                self.refuse(recording, f"replays stop where the call goes on, {what}", None)
        return out

    def missed(self, recording: Recording) -> None:
        recording.missed += 1
        recording.in_a_row += 1
        if recording.missed > MOST_MISSES and recording.missed > recording.replays / 4:
            self.last = None
            where, place = recording.decided.where, recording.decided.place
            if recording.guards is not None and not self.fullgraph:
                self.take_apart(recording, (), [place])
                self.refuse(recording, "what it does depends on a value", where)
        elif recording.in_a_row >= IN_A_ROW:
            self.last = None
            self.again(recording, "what a value decides").calls = 1

    def name(self) -> str:
        """The qualified name of the function; of a module, the name of its class."""
        owner = getattr(self.function, "__self__", None)
        if owner is not None and self.function == getattr(owner, "_call_impl", None):
            return type(owner).__name__
        return str(getattr(self.function, "__qualname__", type(self.function).__name__))

    def refuse(self, recording: Recording, reason: str, where: Any) -> None:
        if (
            recording.suspicion
        ):  # a replay was wrong: that is said, and which op it was if that is known
            known = re.search(f"{FIRST_OP}.*", reason)
            said = recording.suspicion
            reason = said if known is None else f"{said}; {known[0]}"
            where = None if known is None else where
            recording.suspicion = ""
        recording.fail(reason, where)
        if ANY_FLOAT in recording.key:  # then it may be possible for each of them apart
            self.by_value, self.changing = True, set()
            self.recordings.pop(recording.key, None)
            return
        line = "" if where is None else f"\n  at:  {evidence.spell(where)}"
        text = f"{self.name()} cannot be compiled: {reason}{line}"
        if self.fullgraph:
            recording.refusal = text
            raise RuntimeError(text)
        # Of a piece without a line the user would not know what is meant.
        if not self.warned and not (self.is_piece and where is None):
            self.warned = True
            frame = user_frame(1)
            at = ("<unknown>", 1) if frame is None else (frame.f_code.co_filename, frame.f_lineno)
            if self.split is not None:
                text += "\n  That statement is ordinary Python; the others are compiled apart."
            else:
                parts = "with its modules compiled apart" if recording.parts else "as it is"
                text += f"\n  It runs as ordinary Python, {parts}."
                why = why_whole(body_of(self.function)) if where is not None else ""
                if why:
                    text += f"\n  It cannot be cut there, because {why}: do that outside of it."
            warnings.warn_explicit(text, UserWarning, *at)

    def record(self, recording: Recording, values: Any, spec: Any) -> Any:
        """Record a call, then replay its steps and compare, to see that nothing is missing."""
        seen = self.watched(recording, values, spec)
        if seen.is_over:
            return seen.given_back(values)
        better = "it is too small to be worth it" if self.is_too_small(recording, seen) else ""
        if not better and not self.checks(recording) and not self.fullgraph:
            better = better_without(seen.recorder.steps)
        if better:
            recording.fail(better)
            return seen.given_back(values)
        if seen.outside is not None and not seen.recorder.before.can_undo:
            # The results have histories in the memory of the steps: the next call is recorded.
            recording.is_undone, recording.calls = True, 1
            return seen.given_back(values)
        try:
            recording.take(seen, self.checks(recording))
        except Exception as error:  # the call has been made, and its results are of use
            first = (str(error).splitlines() or [""])[0]
            self.refuse(
                recording, f"its steps cannot be joined, {type(error).__name__}: {first}", None
            )
            return seen.given_back(values)
        if not seen.recorder.before.can_undo:
            recording.untried = COMPARED_UNTRIED
            return recording.answer(None)
        stands = seen.has_to_stand(recording.memory)
        again = not self.checks(recording) and not stands
        wrong = differs_when_replayed(recording, seen, values, again, stands)
        if wrong and (stands or self.checks(recording)) and (stands or seen.outside is None):
            if not self.is_tried_again(recording):
                self.doubt(recording, wrong, seen.recorder.where)
            return seen.given_back(values)
        if wrong:
            if seen.outside is not None and not again:
                # The graph behind the results is in memory that the replay has written to.
                seen.recorder.before.undo(for_good=True)
            return self.refused(recording, wrong, values, spec)
        return recording.answer(recording.call_with(values, seen.recorder.before.random))

    def is_too_small(self, recording: Recording, seen: Seen) -> bool:
        """Whether checking the guards of a recording takes longer than what it saves."""
        steps = seen.recorder.steps
        if self.is_piece:
            if all([isinstance(step, NEXT_TO_NOTHING) for step in steps]):
                # A pass and the step of an optimizer are worth it together, else they are not.
                kinds = {isinstance(step, WholeStep) and not is_zero_grad(step) for step in steps}
                return len(kinds) < 2 or not seen.recorder.behind
            ops = [step for step in steps if isinstance(step, OpStep)]
            is_large = any([x.nbytes >= LARGE for step in ops for x in step.made])
            goes_on = any([type(getattr(v, "_node", None)) is Before for v in seen.values])
            least = FEWEST_IN_A_ROW if goes_on else FEWEST_OUTSIDE
            if seen.outside is not None and len(ops) < least and not is_large:
                return not self.checks(recording)
            if seen.outside is not None and goes_on:
                return False
        if self.is_part:
            return len(steps) < FEWEST_STEPS
        if self.checks(recording) or self.fullgraph or len(steps) >= FEWEST_OPS:
            return False
        if any([type(step) not in (OpStep, PythonStep) for step in steps]):
            return False
        # Several passes over large arrays may become one.
        elementwise = [step for step in steps if step.op.elementwise]
        return len(elementwise) < 2 or max([x.nbytes for x in elementwise[0].made]) < LARGE

    def confirm(self, recording: Recording, values: Any, spec: Any) -> Any:
        """Compare a replay with a second call, most likely of other values.

        Later calls are compared with a recording that is in use in the same way.
        """
        start = time.perf_counter()
        if not self.checks(recording) and not recording.behind:
            comparison = Comparison(recording, values, self.given)
            comparison.replay()
            try:
                return comparison.call(self.function)
            finally:
                self.settle(recording, values, comparison, time.perf_counter() - start)
        seen = self.watched(recording, values, spec)
        if seen.is_over:
            return seen.given_back(values)
        if seen.recorder.answers != recording.answers:  # another call will do
            self.missed(recording)
            return seen.given_back(values)
        with recording.has_the_memory():
            wrong = differs_when_replayed(recording, seen, values, False)
            if wrong:
                wrong += self.since(recording)
                if not self.is_tried_again(recording):
                    self.refuse(recording, wrong, seen.recorder.where)
                return seen.given_back(values)
            answer = recording.answer(recording.call_with(values, seen.recorder.before.random))
        seconds = time.perf_counter() - start
        self.note_right(recording, values, seconds)  # may refuse it: then results get no history
        return answer

    def settle(
        self, recording: Recording, values: Any, comparison: Comparison, seconds: float
    ) -> None:
        """Confirm or refuse a recording after a comparison."""
        if comparison.other_answer:
            self.missed(recording)
            return
        if comparison.changes:
            name = name_of(comparison.changes)
            self.cut_at([], name)
            self.refuse(recording, f"it changes {comparison.changes}", None)
        elif comparison.wrong:
            wrong = comparison.wrong + self.since(recording)
            if not self.is_tried_again(recording):
                text = f"a replay gave something else than the call itself: {wrong}"
                self.look_closer(recording, text)
        else:
            self.note_right(recording, values, seconds)

    def checks(self, recording: Recording) -> bool:
        """Whether each call is compared with a recording, op by op."""
        return self.check or bool(recording.suspicion)

    def doubt(self, recording: Recording, reason: str, where: Any) -> None:
        """Refuse a recording whose first replay was wrong, once it is known which op it was."""
        if self.fullgraph or self.checks(recording):
            self.refuse(recording, reason, where)
        else:
            self.look_closer(recording, reason)

    def look_closer(self, recording: Recording, reason: str) -> None:
        """Compare the next calls op by op, so that the refusal can name the first that differs."""
        self.last = None
        recording.fail("")
        recording.suspicion, recording.looks = reason, MOST_LOOKS
        recording.calls = 1

    def note_right(self, recording: Recording, values: Any, seconds: float) -> None:
        """Note that a replay gave what the call did."""
        if recording.suspicion:
            recording.looks -= 1
            if not recording.looks:
                self.refuse(recording, recording.suspicion, None)
            return
        if recording.was_confirmed:
            self.note_verified(recording, seconds)
            return
        before = [float.__pos__(number) for number in recording.numbers.values()]
        recording.untried = max(0, recording.untried - 1)
        recording.confirmed = not recording.untried and all(
            [values[i] != n for i, n in zip(recording.numbers, before, strict=True)]
        )
        recording.was_confirmed = recording.confirmed and not self.check

    def is_due(self, recording: Recording) -> bool:
        """Whether a replay is compared with an ordinary call once more; rarely, and ever rarer."""
        if recording.replays < recording.next_check:
            return False
        if self.verifies and recording.draws and threading.active_count() > 1:
            # Another thread may draw from the same numbers between the call and its replay.
            recording.next_check = recording.replays + MOST_BETWEEN
            return False
        if self.verifies:
            return True
        recording.next_check = math.inf
        return False

    def note_verified(self, recording: Recording, seconds: float) -> None:
        """Note that a replay gave what an ordinary call did: the next comparison is much later.

        That is after as many calls again, at most 4,096, and from the 64th on not before replays
        have taken a hundred times as long as a comparison does.
        """
        recording.replays += 1
        recording.last_right = recording.replays
        calls = recording.replays + FIRST_CALLS
        interval = min(calls, MOST_BETWEEN)
        if calls >= CHEAP_FROM and sum(recording.times) > 0:
            interval = max(interval, int(RARELY * seconds / sum(recording.times)))
        recording.next_check = recording.replays + interval - 1

    def since(self, recording: Recording) -> str:
        """Up to which replay a wrong recording was right, in words."""
        if not recording.was_confirmed:
            return ""
        return (
            f"; {recording.replays} calls came from it, of which the first {recording.last_right} "
            "were compared and right, so later ones may have been wrong"
        )

    def is_tried_again(self, recording: Recording) -> bool:
        """Whether the next call is to be recorded: another thread may have been in the way.

        It may have drawn random numbers, or written into a tensor, while the call was recorded.
        """
        recording.tries += 1
        if threading.active_count() == 1 or recording.tries > MOST_TRIES:
            return False
        recording.fail("")
        recording.calls = 1
        return True

    def refused(self, recording: Recording, reason: str, values: Any, spec: Any) -> Any:
        """Refuse a recording, and make the call again that was undone for its replay."""
        if not self.is_tried_again(recording):
            self.doubt(recording, reason, None)
        args, kwargs = (values, {}) if spec is None else pytree.tree_unflatten(values, spec)
        return self.function(*args, **kwargs)

    def watched(self, recording: Recording, values: Any, spec: Any) -> Seen:
        """Run the call under a recorder; the recording says if it cannot be repeated."""
        places = [i for i, part in enumerate(recording.key[2:]) if part is ANY_FLOAT]
        # Of a call that is only compared with a recording, what comes of it is enough.
        keeps_all = self.checks(recording)
        keeps_steps = not recording.run_steps or keeps_all
        seen = Seen(
            *(self.function, values, spec, list(recording.key[2:]), recording.patterns, places),
            keeps_steps,
            keeps_all,
            [] if keeps_steps else recording.let_go(),
            self.given,
            self.is_piece,
            recording.learned,
            math.inf if keeps_all or recording.is_undone or self.looks_behind else threshold(SMALL),
        )
        if seen.shared and len(self.as_they_are) < MOST_RECORDINGS:
            # The next call with these arguments is a first one, in which nothing stands for them.
            self.as_they_are.update({id(t): t for t in seen.shared})
            self.recordings.pop(recording.key, None)
            seen.is_over = True
            return seen
        reason, where = why_not(seen)
        if reason and seen.recorder.looks_at_arrays:
            # The next call is a first one, in which arrays are what they are.
            seen.is_over, self.arrays = True, False
            self.recordings.clear()
            return seen
        if not reason and self.is_piece:
            reason = why_not_between(seen, self.asks_for_gradients)
        if self.is_piece and not self.looks_behind and (seen.recorder.behind or reason == BEHIND):
            # What is behind the arguments counts from here on: the next call is a first one.
            seen.is_over = self.looks_behind = True
            self.recordings.clear()
            return seen
        if not reason and seen.makes_state():
            recording.tries += 1
            if recording.tries <= MOST_TRIES:  # the next call will find it there
                seen.is_over = True
                return seen
            reason = "an optimizer makes another state in each call"
        if reason and seen.state.learned and recording.tries < MOST_TRIES:
            # Functions ran whose reads were not seen: in the next call they are.
            recording.tries += 1
            recording.learned += seen.state.learned
            recording.fail("")
            recording.calls = 1
            seen.is_over = True
            return seen
        if reason:
            seen.is_over = True
            if seen.is_disturbed and self.is_tried_again(recording):
                return seen
            name = changed_name(reason)
            # Other arguments may have less behind them.
            places = [] if reason == BEHIND else seen.recorder.places
            if name and not places and not self.cut_at([], name):
                places = seen.noticing.places_of(name)  # in functions that this one calls
            if reason.startswith("it returns ") and not places and not self.is_piece:
                places, where = returned_at(body_of(self.function))
            self.take_apart(recording, values, places)
            self.refuse(recording, reason, where)
        return seen

    def take_apart(self, recording: Recording, values: Any, places: list[Place]) -> None:
        """Compile the parts of a function that cannot be recorded as a whole."""
        if not self.cut_at(places, ""):
            recording.parts = self.parts_in(values)

    def cut_at(self, places: list[Place], name: str) -> bool:
        """Cut the function into pieces at some lines, or at those that name a variable."""
        if self.split is None and (places or name) and not self.fullgraph:
            piece = functools.partial(self.piece, is_told=bool(places))
            self.asks_for_gradients |= Reachable(self.function).asks_for_gradients
            self.split = cut(body_of(self.function), places, name, piece, self.counting)
            if self.split is not None:
                self.split.run = in_the_place_of(self.function, self.split.run)
        return self.split is not None

    def piece(self, function: Any, counting: frozenset[str], is_told: bool) -> Compiled:
        made = Compiled(function, False, self.check)
        made.is_piece, made.warned = True, self.warned or is_told
        made.verifies = self.verifies
        made.counting = counting
        made.asks_for_gradients = self.asks_for_gradients
        made.looks_behind = "backward" in function.__code__.co_names
        made.is_part = isinstance(getattr(function, "__self__", None), Module)
        return made

    def parts_in(self, values: Any) -> list[tuple[Any, Compiled]]:
        """The modules of a function that cannot be recorded, each compiled by itself."""
        own = getattr(self.function, "__self__", self.function)
        found: list[tuple[Any, Compiled]] = []
        for module in Reachable(self.function, values).modules:
            for part in parts_of(module) if module is own else [module]:
                is_known = isinstance(part, OptimizedModule) or any([part is p for p, _ in found])
                if part._compiled_call_impl is None and not is_known:
                    made = Compiled(part._call_impl, False, self.check, True)
                    made.verifies = self.verifies
                    found.append((part, made))
        return found


def better_without(steps: list[Any]) -> str:
    """Why ordinary calls are as fast as replays (NumPy does the work in both), or ""."""
    if KERNELS is not None:
        return ""
    if COMPILED:
        return "there are no kernels in C, and what calls NumPy is compiled already"
    ops = [step for step in steps if isinstance(step, OpStep)]
    size = sum([x.nbytes for step in ops for x in step.made])
    if ops and size >= LARGE_HERE * len(ops):
        return "there are no kernels in C, and its arrays are so large that nothing else counts"
    return ""


def is_known_kind(value: Any) -> bool:
    """Whether an argument is a tensor or a model: of these there are as many as the user has."""
    return is_tensor(value) or isinstance(value, Module)


def first_of_tuple(part: Any) -> Any:
    return part[0] if type(part) is tuple else None


def changed_name(reason: str) -> str:
    """The variable or `.attribute` that a call changes, where that is the reason."""
    what = re.match(r"it changes (.*)", reason)
    return "" if what is None else name_of(what[1])


def name_of(changed: str) -> str:
    """The name in the user's code for something that a guard reports as changed."""
    attributes = re.findall(r"\.([A-Za-z_]\w*)", changed)
    variable = re.match(r"`(\w+)`", changed)
    return f".{attributes[-1]}" if attributes else variable[1] if variable else ""


def in_parts(function: Any, parts: list[tuple[Any, Compiled]], args: Any, kwargs: Any) -> Any:
    """Call a function with some of its modules replaced by their compiled versions."""
    before = [module._compiled_call_impl for module, _ in parts]
    for module, compiled in parts:
        module._compiled_call_impl = compiled
    try:
        return function(*args, **kwargs)
    finally:
        for (module, _), own in zip(parts, before, strict=True):
            module._compiled_call_impl = own
