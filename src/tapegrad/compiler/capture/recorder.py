"""Recording a step: every op that runs, in order, with the arrays that it read and made.

A `Recorder` is a mode below autograd, as `__torch_dispatch__` modes are, so it sees the ops of the
forward pass, those of the gradient rules and every write. The call that is being recorded runs as
usual. What comes of it is a list of steps over arrays that stay where they are: views need no step,
and running the steps again computes the same things in the same memory.

What Python does with a value (`.item()`, `if loss > 1`) is not in such a list. The recorder notes
the first line that does it, and the call ends as any other call.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import _ops  # noqa: F401 - calls are told by their names in torch.ops
from ...api.tensor.conversion import the_element
from ...autograd.dispatched import above, wanting
from ...core import lazy_conj
from ...core.base import WITH_BITS, TensorBase, View, next_seq, user_frame, wrap
from ...core.dispatch import apply
from ...core.op import REGISTRY, Op
from ...core.python_dispatch import Call, OpMode, below_autograd, leaves_of, modes_set_to
from ...core.strides import address, memory, strided
from ...kernels.cpu import KERNELS
from ...ops.draws.generators import Generator
from ...ops.draws.sampling import NormalMean
from ...optim._native import WATCHING
from ..breaks.calls import Place, body_of, place_in, users_frame, users_line
from ..plan.early_release import Dying, is_large, release
from ..plan.memory_plan import forget_memory
from ..plan.native_calls import as_taped, taped, taped_copy, taped_draw, taped_write
from ..program.steps import (
    CallStep,
    CopyStep,
    FillStep,
    GradientStep,
    OpStep,
    PythonStep,
    RedrawStep,
    Step,
    UpdateStep,
    WholeStep,
    WriteStep,
    arrays_in,
    has_mask,
    in_memory_order,
    is_all_of,
    is_ordinary_write,
    to_none,
)
from .branches import Check, Decision
from .returned_values import is_returned
from .side_effects import unnoticed
from .symbolic_floats import Number, NumberFill, NumberStep, OptionStep, Read, ReadStep, number
from .undo import Earlier, Snapshots

OTHER_MEMORY = "it gives a tensor other memory"
ONE_NUMBER = frozenset(("aten::zero_", "aten::fill_"))  # everywhere in a tensor

# Ops that hand a value to Python, by their names in PyTorch.
ITEM = "aten::_local_scalar_dense"
READS = frozenset((ITEM, "aten::equal"))
# Functions that always make the same, likewise.
SAME_ALWAYS = frozenset(
    f"aten::{name}"
    for name in (
        *("ones", "zeros", "full", "empty", "ones_like", "zeros_like", "full_like", "empty_like"),
        *("new_ones", "new_zeros", "new_full", "new_empty", "arange", "eye", "linspace"),
        *("scalar_tensor", "logspace", "empty_strided", "tril_indices", "triu_indices"),
        "lift_fresh",  # of Python's values: those are looked at by the guards
    )
)
# Its result has the history of what it is given, which no step would give it.
NORMAL = f"aten::{NormalMean.aten.partition('.')[0]}"
MOST_PLACES = 16  # in the way of recording a call, that are noted


class Recorder(OpMode):
    """A `with` block whose ops are recorded as steps."""

    records_steps = True
    hook: Any = None  # what Python tells of the functions that are called
    state: Any = None  # PythonState: what instrumented code reads and changes

    def __init__(
        self,
        function: Any,
        inputs: list[Any],
        tensors: list[Any],
        leaves: list[Any],
        owners: list[Any],
        keeps_steps: bool,
        keeps_values: bool,
        limit: float,
    ) -> None:
        self.function = function
        self.body = body_of(function)
        # Else the memory behind values that the call is done with is given back.
        self.dying = Dying() if keeps_steps and not keeps_values and KERNELS is not None else None
        self.lines: dict[int, Any] = {}  # by id of a step: the code and instruction of the user's
        self.keeps_steps = keeps_steps  # else only what comes of them is of interest
        self.idle: list[Any] = []  # gradients of the recording that such a call is compared with
        self.answers: list[bool] = []  # that decided what to do next
        self.steps: list[Step] = []
        self.behind: list[Any] = []  # those of them that go on behind the arguments
        self.trouble: str = ""  # why this cannot be done again
        self.where: Any = None  # and the user's line
        self.is_foreign = False  # because of a value from elsewhere
        self.places: list[Place] = []  # in the function itself; others of the kind come after
        # By id: memory that the recorded call fills.
        self.made: Any = {} if keeps_steps else weakref.WeakValueDictionary()
        self.externals: dict[int, Any] = {}  # by id: tensors that were there before
        self.before = Snapshots(limit)
        self.written: set[int] = set()  # ids of memory that something writes into
        self.kept: list[Any] = []
        self.zeros: dict[int, Any] = {}  # by id: memory that was filled with zeros
        self.leaves: dict[int, Any] = {}  # tensors whose .grad may change
        self.gradients: dict[int, Earlier] = {}  # what it was when a step last said so
        self.at_start = [(t, Earlier(t._gradient)) for t in leaves]
        self.cleared: set[int] = set()  # ids of those whose .grad an optimizer forgot first
        self.first = next_seq()  # the nodes of this call come after it
        self.has_numbers = False  # among the arguments
        self.has_returned = False  # values that are only to be returned
        self.is_quiet = False  # what looks at numbers now is no decision
        self.looks_at_numbers = False
        self.number_arrays: dict[Any, Any] = {}  # by number and dtype: it, its array
        self.is_inside = False  # a function that is called as a whole
        self.originals: dict[int, tuple[Any, Any]] = {}  # by id of memory: stand-ins, arguments
        self.stood_for: dict[int, Any] = {}  # by id of a stand-in: the argument
        # By id: arrays that stand for NumPy arrays among the arguments, and those.
        self.arrays: dict[int, tuple[Any, Any]] = {}
        self.looks_at_arrays = False  # at values in these, which may be others in the next call
        self.has_histories = False  # a tensor that was there before is no leaf
        self.take_over([t._array for t in inputs])
        for t in tensors:
            self.was_there(t)
        for each in owners:
            self.before.take_object(each)
        # Leaves that no op may meet: their `.grad` may be set all the same.
        self.others = {id(t): t for t in leaves}
        self.optimizers: dict[int, Any] = {}  # by id: those of which a method is called
        for t in leaves:
            self.gradients[id(t)] = Earlier(t._gradient)
            self.before.take_gradient(t)

    # ------------------------------------------------------------------ what is seen

    def stand_for(self, pairs: list[tuple[Any, Any]]) -> None:
        """Tensors that stand for arguments, with those arguments."""
        tensors = [(t, value) for t, value in pairs if isinstance(value, TensorBase)]
        self.originals = {id(memory(t._array)): (t, value) for t, value in tensors}
        self.stood_for = {id(t): value for t, value in tensors}
        arrays = [(t._array, v) for t, v in pairs if not isinstance(v, TensorBase)]
        self.arrays = {id(array): (array, value) for array, value in arrays}

    def stands_for_array(self, value: Any) -> bool:
        """Whether an array looks at the values of an argument."""
        return bool(self.arrays) and id(memory(value)) in self.arrays

    def in_argument(self, array: Any) -> Any:
        """An array that looks at a stand-in, as one that looks at the argument."""
        known = self.arrays.get(id(memory(array)))
        if known is None:
            return array
        return known[1] if array is known[0] else at_the_same_place(array, *known)

    def look_at_array(self) -> None:
        self.looks_at_arrays = True
        self.give_up("it looks at the values of a NumPy array that it is given")

    def asked(self, t: Any, what: str) -> Any:
        """The tensor that answers a question about data, place, layout or history.

        That is the real argument where its stand-in would answer otherwise.
        """
        if what == "data":
            if id(t) in self.stood_for or not self.is_made(t._array):
                self.give_up(OTHER_MEMORY)
            return t
        if what == "place" and not t._special and self.stands_for_array(t._array):
            self.give_up("it asks where an argument lies in memory")
        known = self.originals.get(id(memory(t._array)))
        if known is None or (t._special and lazy_conj.has(t._array)):
            return t
        stand_in, value = known
        same = stand_in._array.strides == value._array.strides
        if (what == "layout" and same) or (what == "history" and not value._wants_grad):
            return t
        self.give_up("it asks how an argument lies in memory, or where it comes from")
        if id(t) in self.stood_for:
            return self.stood_for[id(t)]
        return t if what == "history" else self.seen_in_argument(t)

    def seen_in_argument(self, t: Any) -> Any:
        """For a view of a stand-in: the same view of the argument, if their layouts agree."""
        known = None if t._special else self.originals.get(id(memory(t._array)))
        if known is None:
            return t
        stand_in, value = known
        if id(t) in self.stood_for:
            return self.stood_for[id(t)]
        if stand_in._array.strides != value._array.strides:
            return t
        view = wrap(at_the_same_place(t._array, stand_in._array, value._array))
        view._cell = value._version_cell()
        if t._view_of is not None:
            view._view_of = view_of_argument(t._view_of, stand_in, value)
        return view

    def give_up(self, reason: str) -> None:
        """Note why this call cannot be replayed; the first reason counts."""
        if not self.trouble:
            self.trouble = reason
            self.where = users_line()
        if len(self.places) < MOST_PLACES:
            place = place_in(self.body)
            if place.line and all([place.line != known.line for known in self.places]):
                self.places.append(place)

    def give_up_at(self, reason: str, where: Any, places: list[Place]) -> None:
        """Refuse the recording because of something that happened at an earlier line."""
        if not self.trouble:
            self.trouble, self.where = reason, where
            self.places += [place for place in places if place.line]

    def was_there(self, t: Any) -> None:
        """Note a tensor that the call can reach and did not make, and its gradient.

        Steps may read these, arguments, and what earlier steps made; nothing else is known to have
        the same values in each replay. They must not change unseen, so it is noted what they hold.
        """
        if not t._special:
            self.before.look(t)
        if t._gradient is not None and not t._gradient._special:
            self.before.look_at_gradient(t._gradient)

    def check_origin(self, array: Any, what: str) -> bool:
        """Give up on memory that was not there before the call, and that no step fills.

        Something that is no op has computed it, and a replay would find the values of this call.
        """
        if self.is_known(array):
            return True
        self.is_foreign |= not self.trouble
        self.give_up(
            f"{what}, which was computed outside of ops or cannot be found before the call"
        )
        return False

    def meet(self, t: Any, user: str = "it") -> None:
        """Called for each tensor that is used: take a snapshot if it existed before the call."""
        if t._special:
            lazy = t._special == WITH_BITS  # the values are those of another, with other signs
            what = "conjugate or negative view" if lazy else f"{type(t).__name__} on {t.device}"
            self.give_up(f"it uses a {what}")
            return
        if not self.is_made(t._array):
            if not self.check_origin(t._array, f"{user} uses a tensor of shape {tuple(t.shape)}"):
                return
            self.before.look(t)
            self.externals[id(t)] = t
            node = t._node if t._wants_grad else None
            if node is not None and not node._is_leaf and node._seq < self.first:
                self.has_histories = True
        if t._wants_grad and (t._node is None or t._node._is_leaf) and id(t) not in self.leaves:
            self.leaves[id(t)] = t
            if id(t) not in self.gradients:
                self.gradients[id(t)] = Earlier(t._gradient)
                if not self.is_made(t._array):
                    self.before.take_gradient(t)

    def is_made(self, array: Any) -> bool:
        """Whether the memory of an array is filled by the steps, or with the arguments."""
        return id(memory(array)) in self.made

    def is_known(self, array: Any) -> bool:
        return self.is_made(array) or self.before.has(memory(array))

    def check_attributes(self, op: Op, attrs: Any) -> None:
        """Arrays among the attributes must be those of tensors: others hold values of this call."""
        for value in leaves_of(attrs):
            if isinstance(value, TensorBase):
                self.meet(value, op.name)
            elif isinstance(value, np.ndarray) and not self.is_known(value):
                self.give_up(f"{op.name} depends on values that were computed outside of ops")

    @unnoticed
    def run(
        self, op: Op, tensors: tuple[Any, ...], attrs: tuple[Any, ...], watch: tuple[Any, ...]
    ) -> Any:
        tensors = tuple(tensors)
        if self.trouble:
            return self.unseen(op, tensors, attrs, watch)
        self.let_go()
        plain = tensors
        if lazy_conj.has_bits(tensors):
            plain = tuple([self.without_bits(t) for t in tensors])
            if op.view:
                return self.unseen(op, tensors, attrs, watch)
        for t in (*plain, *watch):
            if isinstance(t, TensorBase):
                self.meet(t, op.name)
        self.check_attributes(op, attrs)
        self.refuse_returned((tensors, attrs))
        if op.dynamic_shape or (op.name == "index" and has_mask(attrs)):
            self.give_up(f"the shape of the result of {op.name} depends on values")
        if self.trouble:
            return self.unseen(op, tensors, attrs, watch)
        mask = wanting(tensors)
        given = self.in_arrays(op, plain) if self.has_numbers else plain
        arrays = [t._array if isinstance(t, TensorBase) else t for t in given]
        self.is_quiet = True
        tape = None
        with below_autograd():
            if self.keeps_steps:
                answer, tape = taped(apply, op, given, attrs, watch)
            else:
                answer = as_taped(apply, op, given, attrs, watch)
        self.is_quiet = False
        results = [answer] if op.single else list(answer)
        made = [r._array for r in results]
        if not all([self.is_known(array) for array in made]):
            self.take_over(made)
            for key in {id(memory(x)) for x in arrays if isinstance(x, np.ndarray)} - self.written:
                if tape is not None and key in self.zeros:
                    tape.knows_zeros(self.zeros[key])
            if self.keeps_steps:
                step = (
                    PythonStep(op, arrays, attrs, made)
                    if tape is None
                    else OpStep(op, arrays, attrs, made, tape)
                )
                self.add(step, arrays, attrs)
            if self.dying is not None:
                self.dying.made(made)
                kept = [] if tape is None else tape.kept
                self.dying.used([x for x in (*arrays, *made, *kept) if isinstance(x, np.ndarray)])
        above(op, tensors, attrs, watch, mask, results)
        if op.single:
            return answer
        return tuple(results) if op.result is None else op.result(tuple(results))

    def without_bits(self, t: Any) -> Any:
        """The values of a conjugate or negative view, as results of an op."""
        if not isinstance(t, TensorBase) or not lazy_conj.has(t._array):
            return t
        array = t._array
        made = wrap(array.memory)
        with below_autograd():
            if lazy_conj.is_conjugated(array):
                made = self.run(REGISTRY["conj_physical"], (made,), (), ())
            if lazy_conj.is_negated(array):
                made = self.run(REGISTRY["neg"], (made,), (), ())
        return made

    def let_go(self) -> None:
        """Release the memory of values that only the steps refer to, until they are run."""
        if self.dying is not None:
            self.dying.let_go()
        if self.idle:
            self.idle = [each for each in self.idle if not each.rests(self.before)]

    def forget(self) -> None:
        """Drop everything, once a recording has taken the steps."""
        self.steps, self.made, self.kept = [], {}, []
        self.zeros, self.dying = {}, None

    def unseen(self, op: Op, tensors: Any, attrs: Any, watch: Any) -> Any:
        """Run an op as if there were no recorder."""
        mask = wanting(tensors)
        with below_autograd():
            answer = apply(op, tensors, attrs, watch)
        results = [answer] if op.single else list(answer)
        above(op, tensors, attrs, watch, mask, results)
        return answer

    def ask(self, call: Call) -> Any:
        given = leaves_of((call.args, call.kwargs))
        name = call.overload.name().split(".")[0]
        if name == NORMAL and wanting(tuple(given)):
            self.give_up("it draws normal numbers by a tensor that requires grad")
            with modes_set_to(()):
                return call.run(call.args, call.kwargs)
        if name in SAME_ALWAYS and not self.trouble:
            return self.fill(name, call)
        if self.trouble and name in READS and not self.may_decide(call.args[0]):
            self.give_up(self.trouble)  # here as well
        if not self.trouble:
            if name in READS:
                returned = self.read_to_return(call) if name == ITEM else None
                if returned is not None:
                    return returned
                if name == ITEM and self.may_decide(call.args[0]):
                    return self.decide(call.args[0])
                self.give_up("a value is handed to Python")
            self.refuse_returned(given)
            for t in given:
                if isinstance(t, TensorBase):
                    self.meet(t, name)
                    if call.written is None:
                        self.may_write(t)
                elif isinstance(t, Generator):
                    self.before.take_generator(t)
                elif isinstance(t, np.ndarray):
                    self.check_origin(t, f"{name} is given an array")
        if call.written is not None and not self.trouble:
            return self.write(call, *call.written)
        with below_autograd():
            out, tape = taped_draw(lambda: call.run(call.args, call.kwargs), given)
        if self.trouble:
            return out
        made = [r._array for r in leaves_of(out) if isinstance(r, TensorBase)]
        if any([out is t for t in given]):
            for t in given:
                if isinstance(t, TensorBase):
                    self.write_into(t)
            is_alone = len([t for t in given if isinstance(t, TensorBase)]) == 1
            if name in ONE_NUMBER and is_alone and self.add_copy(call, out, None):
                return out
            made, tape = [], None
        elif made and all([self.is_known(array) for array in made]):
            return out  # a view
        self.take_over(made)
        step = CallStep(call, *self.without_history((call.args, call.kwargs)), made, tape)
        self.add(step, step.args, step.kwargs)
        return out

    def read_to_return(self, call: Call) -> Any:
        """A Read if the function only returns this value: replays return theirs. None if not."""
        t = call.args[0]
        if t._special:
            return None
        value = the_element(wrap(t._array))
        is_float = type(value) is float
        if not is_returned(user_frame(1), self.function, is_float):
            return None
        self.meet(t)
        place: Any = number(value, self) if is_float else Read()
        self.has_returned = True
        self.write_down(ReadStep(t._array, value, place))
        return place

    def may_decide(self, t: Any) -> bool:
        return not t._special and t._array.dtype == np.bool_

    def decide(self, t: Any) -> bool:
        """Record a bool that Python asks for: the recording is for calls with this answer."""
        self.meet(t)
        answer = bool(the_element(wrap(t._array)))
        self.answers.append(answer)
        self.write_down(Decision(t._array, answer, users_line(), place_in(self.body)))
        return answer

    def look(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Record a check of values, which a replay repeats before it changes anything."""
        if self.trouble:
            return function(*args, **kwargs)
        for t in leaves_of((args, kwargs)):
            if isinstance(t, TensorBase):
                self.meet(t, function.__name__)
        try:
            with modes_set_to(()):
                answer = function(*args, **kwargs)
        except Exception:
            self.give_up("a value is the reason for an error")
            raise
        given = self.without_history((args, kwargs))
        if self.keeps_steps:
            step = Check(function, given, answer, users_line(), place_in(self.body))
            self.add(step, given)
        return answer

    def refuse_returned(self, given: Any) -> None:
        """Give up if an op gets a number that was taken to be only returned."""
        if self.has_returned and any([type(v) is Number for v in leaves_of(given)]):
            self.give_up("a value is handed to Python")

    def fill(self, name: str, call: Call) -> Any:
        """Record a new tensor that has the same values every time."""
        given = [t for t in leaves_of((call.args, call.kwargs)) if isinstance(t, TensorBase)]
        has_model = name.endswith(("_like", "lift_fresh")) or name.startswith("aten::new_")
        self.looks_at_numbers |= name.endswith("lift_fresh")  # there may be some in its list
        if len(given) > has_model:
            self.give_up("a value is handed to Python")  # as a size or a number to fill with
        with below_autograd():
            out = call.run(call.args, call.kwargs)
        if self.trouble:
            return out
        if out._special:
            self.give_up(f"it makes a {type(out).__name__} on {out.device}")
        elif not self.is_known(out._array):
            self.add_fill(name, out._array)
        return out

    def constant(self, t: Any) -> None:
        if not self.trouble and not t._special:
            self.add_fill("a constant", t._array)

    def add_fill(self, name: str, array: Any) -> None:
        self.take_over([array])
        step = FillStep(name, array)
        self.write_down(step)
        if step.is_zero and array is memory(array) and array.flags.forc:
            self.zeros[id(array)] = array
            if is_large(array):
                release(array)  # it reads as zeros all the same

    def write(self, call: Call, op: Op, tensors: Any, attrs: Any) -> Any:
        """An op in place: its kernel, a copy and a count, where nothing is peculiar about it."""
        target = tensors[0]
        self.write_into(target)
        self.check_attributes(op, attrs)
        before = target._array.copy()
        self.is_quiet = True
        with below_autograd():
            out = call.run(call.args, call.kwargs)
        self.is_quiet = False
        if self.trouble:
            return out
        arrays = [t._array if isinstance(t, TensorBase) else t for t in tensors]
        if is_ordinary_write(op, arrays):
            arrays, before = in_memory_order(arrays, before)
            plain = Number not in map(type, (*arrays, *leaves_of(attrs))) and self.keeps_steps
            tape = taped_write(op, arrays, attrs, before) if plain else None
            self.add(WriteStep(op, arrays, attrs, target._version_cell(), tape), arrays, attrs)
        elif op.name != "copy" or not self.add_copy(call, target, arrays[1]):
            step = CallStep(call, *self.without_history((call.args, call.kwargs)), [])
            self.add(step, step.args, step.kwargs)
        return out

    def add_copy(self, call: Call, target: Any, source: Any) -> bool:
        """A write of nothing but values, as a step without Python, if it can be one."""
        given = leaves_of((call.args, call.kwargs))
        if target._special or Number in map(type, given) or not self.keeps_steps:
            return False
        tape = taped_copy(target._array, source)
        if tape is None:
            return False
        step = CopyStep(call, *self.without_history((call.args, call.kwargs)), target, tape)
        self.write_down(step)
        return True

    def write_down(self, step: Step) -> None:
        """Append a step, and note which line led to it."""
        self.steps.append(step)
        if self.keeps_steps:
            frame = users_frame()
            if frame is not None:
                self.lines[id(step)] = frame.f_code, frame.f_lasti

    def add(self, step: Step, *given: Any) -> None:
        """Append a step; what it is given may have numbers in it."""
        if self.has_numbers and any([type(v) is Number for v in leaves_of(given)]):
            step = NumberStep(step)
        self.write_down(step)

    def in_arrays(self, op: Op, tensors: tuple[Any, ...]) -> tuple[Any, ...]:
        """Operands with arrays in the place of numbers, where that comes to the same."""
        dtypes = {t._array.dtype for t in tensors if isinstance(t, TensorBase)}
        dtype = dtypes.pop() if len(dtypes) == 1 else None
        if not op.elementwise or dtype not in (np.float32, np.float64):
            return tensors
        return tuple([self.as_array(t, dtype) if type(t) is Number else t for t in tensors])

    def as_array(self, value: Number, dtype: Any) -> Any:
        key = id(value), dtype
        if key not in self.number_arrays:
            array = np.array(float.__pos__(value), dtype)
            self.take_over([array])
            self.number_arrays[key] = NumberFill(value, array)
        return wrap(self.number_arrays[key].made[0])

    def option(self, group: Any, key: str, value: Any) -> None:
        """Record that the call sets an option of an optimizer."""
        if not self.is_inside and not self.trouble:
            if isinstance(value, TensorBase):
                self.give_up("it sets an option of an optimizer to a tensor")
            self.write_down(OptionStep(group, key, value))

    def may_write(self, t: Any) -> None:
        """Take a copy of a tensor that the next operation may change."""
        if not t._special:
            self.before.keep(t)

    def write_into(self, t: Any) -> None:
        self.may_write(t)
        self.written.add(id(memory(t._array)))
        self.kept.append(memory(t._array))  # another one would get its id

    def take_over(self, made: list[Any]) -> None:
        for array in made:
            self.made[id(memory(array))] = memory(array)

    # ------------------------------------------------------------------ whole functions

    def read(self, t: TensorBase) -> None:
        self.give_up("a value is handed to Python")

    def whole(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Run a function that is to be called again as it is."""
        args = tuple([list(a) if hasattr(a, "__next__") else a for a in args])
        places = getattr(function, "overwrites", None)
        target = None if places is None or self.trouble else args[places[0]]
        if not self.trouble:
            self.note_gradients()
            if target is not None:
                self.forget_values(target)
            owner = getattr(function, "__self__", None)
            for value in (owner, *leaves_of(args), *leaves_of(kwargs)):
                if isinstance(value, TensorBase):
                    self.meet(value, function.__name__)
                    if getattr(function, "only_reads", False):
                        continue
                    if not getattr(function, "only_gradients", False):
                        self.write_into(value)
                    if value._gradient is not None:
                        self.write_into(value._gradient)
                elif isinstance(value, Generator):
                    self.before.take_generator(value)
                elif isinstance(value, np.ndarray):
                    self.check_origin(value, f"{function.__name__} is given an array")
                elif hasattr(value, "param_groups") or hasattr(value, "optimizer"):
                    self.before.take_object(value)
                    if hasattr(value, "param_groups"):
                        self.optimizers[id(value)] = value
                    if function.__name__ != "zero_grad" or not to_none(args, kwargs):
                        forget_memory()  # there is room for copies in what was dropped
                        self.before.keep_object(value)
            is_optimizer = bool(args) and hasattr(args[0], "param_groups")
            if is_optimizer and function.__name__ == "zero_grad" and to_none(args, kwargs):
                self.note_cleared(args[0])
            if is_optimizer and any([callable(a) for a in (*args[1:], *kwargs.values())]):
                self.give_up("an optimizer is given a closure")
        before, WATCHING.done = WATCHING.done, []
        self.is_inside = self.is_quiet = True
        try:
            with modes_set_to(()):
                if target is not None:
                    given = leaves_of((args, kwargs))
                    out, tape = taped_draw(lambda: function(*args, **kwargs), given, target._array)
                elif hasattr(function, "draws") and not self.trouble:
                    given = leaves_of((args, kwargs))
                    out, tape = taped_draw(lambda: function(*args, **kwargs), given)
                else:
                    out, tape = function(*args, **kwargs), None
        finally:
            updates, WATCHING.done = WATCHING.done, before
            self.is_inside = self.is_quiet = False
        if not self.trouble:
            given = self.without_history((args, kwargs))
            step = WholeStep(function, *given)
            if target is not None and tape is not None:
                step = RedrawStep(function, *given, target, tape)
                step.name = args[places[1]]
            elif updates and is_all_of(args[0], updates):
                step = UpdateStep(function, args, kwargs)
                step.updates = updates
            if not isinstance(step, RedrawStep):
                step.tape, step.draws = tape, tape is not None
                step.made = [array for array in arrays_in(out) if not self.is_known(array)]
                self.take_over(step.made)
            self.add(step, args, kwargs)
            for t in (*self.others.values(), *self.leaves.values()):
                self.gradients[id(t)] = Earlier(t._gradient)
        return out

    def forget_values(self, t: Any) -> None:
        """Note that a tensor is overwritten: its old values matter only if they were read."""
        if not self.is_known(t._array):
            self.take_over([t._array])  # made for this
        elif not t._special and t._array is memory(t._array) and not self.is_made(t._array):
            used = [memory(each._array) for each in self.externals.values()]
            if not any([owner is t._array for owner in used]):
                self.before.keep_none_of(t)

    def note_cleared(self, optimizer: Any) -> None:
        """Note that an optimizer drops gradients that were not read: their values do not matter."""
        was = {id(t): earlier for t, earlier in self.at_start}
        for group in optimizer.param_groups:
            for p in group["params"]:
                if id(p) not in was or was[id(p)].is_still(p._gradient):
                    self.cleared.add(id(p))

    def note_gradients(self) -> None:
        """Add a step for the leaves whose `.grad` was replaced by another tensor."""
        changed = []
        for key, t in {**self.others, **self.leaves}.items():
            if not self.gradients[key].is_still(t._gradient):
                self.gradients[key] = Earlier(t._gradient)
                changed.append((t, t._gradient))
                if t._gradient is not None and t._gradient._special:
                    self.give_up("a gradient is no ordinary tensor")
                elif t._gradient is not None:
                    self.check_origin(t._gradient._array, "a leaf gets a gradient")
        if changed:
            self.write_down(GradientStep(changed))

    def gradients_before(self, looks: bool) -> list[tuple[Any, Any]]:
        """The leaves for which it matters what `.grad` was before: it was read, added to, or set.
        `looks`: somebody names `.grad`, and may ask whether there is one."""
        found = []
        for t, earlier in self.at_start:
            before = earlier.now()
            is_plain = before is not None and not before._special
            if is_plain and id(before) in self.externals:
                found.append((t, before))
                continue
            if id(t) in self.cleared:
                continue
            if earlier.known is None:
                matters = looks or t._gradient is not None
            else:  # what was written into is still there
                matters = is_plain and id(memory(before._array)) in self.written
            if matters:
                found.append((t, before))
        return found

    def known_numbers(self) -> dict[int, float]:
        """The values of arrays of one float that are filled and never written again, by address."""
        fills = [step.made[0] for step in self.steps if isinstance(step, FillStep)]
        return {
            address(x): x.item()
            for x in fills
            if memory(x).size == 1 and x.dtype.char in "fd" and id(memory(x)) not in self.written
        }

    def without_history(self, value: Any) -> Any:
        """Tensors of this call replaced by others with the same memory."""
        if isinstance(value, TensorBase):
            return wrap(value._array) if self.is_made(value._array) else value
        if isinstance(value, (list, tuple)):
            made = [self.without_history(v) for v in value]
            return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
        if isinstance(value, dict):
            return {key: self.without_history(v) for key, v in value.items()}
        return value


def at_the_same_place(array: Any, stand_in: Any, argument: Any) -> Any:
    """The part of an argument's memory that an array looks at in that of its stand-in."""
    if not array.size:
        return array
    start = argument
    if array.dtype != argument.dtype:
        n = max(1, array.dtype.itemsize // argument.dtype.itemsize)
        start = strided(np, argument, (n,), (argument.dtype.itemsize,)).view(array.dtype)
    offset = address(array) - address(stand_in)
    return strided(np, start, array.shape, array.strides, offset)


def view_of_argument(view: View, stand_in: Any, value: Any) -> View:
    """How a view of a stand-in came from its base, as a view of the argument."""
    moved = [
        (at_the_same_place(source, stand_in._array, value._array), op, attrs)
        for source, op, attrs in view.steps
    ]
    made = view.twin()
    parent = value._view_of
    made.base = value if parent is None else parent.base
    made.steps = (*(() if parent is None else parent.steps), *moved)
    # As many writes ago as in the stand-in's memory.
    made.seen = value._version_cell().n - (stand_in._version_cell().n - view.seen)
    return made
