"""The steps of a recorded call: the work that each repeats, the arrays it reads and writes."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...core.base import TensorBase, Version, as_array, quiet, wrap
from ...core.dispatch import run_kernel, unify
from ...core.op import Op
from ...core.python_dispatch import Call, below_autograd, leaves_of
from ...core.references import references
from ...core.strides import address, memory
from ...core.tensor_lists import set_gradients, set_versions
from ...kernels.cpu import KERNELS
from ...optim._native import WATCHING, Again
from ...optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks
from ..plan.early_release import is_large, release, threshold
from ..plan.native_calls import Tape, bytes_tape


class Step:
    """One operation of a recorded call, to be repeated by replays."""

    __slots__ = ()  # there are many of some kinds
    has_effects = False  # on what was there before the call
    name: str
    made: list[Any]  # the arrays that it fills
    tape: Any = None  # the same as calls of kernels in C; None: there is no such
    # The version that counts its write into a tensor: a Version, or a GradientVersion.
    cell: Any = None
    writes_in_place = False
    draws = False  # whether these go on from the state of the random numbers

    @property
    def is_taped(self) -> bool:
        return self.tape is not None

    def run(self) -> None:
        raise NotImplementedError

    def reads(self) -> list[Any]:
        """The arrays that the step reads."""
        return []

    def count_apart(self, is_made: Callable[[Any], bool], leaves: dict[int, Any]) -> None:
        """Leave the versions of tensors alone that the recorded call made: nothing counts them.

        Somebody may keep them, such as a gradient, and a replay writes into others. `leaves`, by
        the ids of cells: those whose gradients were there before.
        """
        if self.cell is None:
            return
        if is_made(self.made[0]):
            self.cell = None
        elif id(self.cell) in leaves:
            self.cell = GradientVersion(leaves[id(self.cell)])


class GradientVersion:
    """A version counter that always counts for the current gradient of a leaf.

    Nothing of ours keeps the cell, so it can be seen whether somebody else does.
    """

    def __init__(self, leaf: Any) -> None:
        self.leaf = leaf

    @property
    def n(self) -> int:
        return int(self.leaf._gradient._version_cell().n)

    @n.setter
    def n(self, value: int) -> None:
        self.leaf._gradient._version_cell().n = value


def timed(run_steps: list[Callable[[], Any]], times: list[float]) -> Iterator[None]:
    """Steps with a clock beside them, one by one; the least that each of them took is noted."""
    times += [float("inf")] * (len(run_steps) - len(times))
    for i, run in enumerate(run_steps):
        run = getattr(getattr(run, "__self__", None), "run_timed", run)
        start = time.perf_counter()
        run()
        times[i] = min(times[i], time.perf_counter() - start)
        yield


WORTH_LENDING = 1 << 14  # bytes


class Lent:
    """A Python function whose results are allocated in the memory that later steps read.

    The first call shows which requests for memory become its results. Those are answered with the
    memory of the recorded ones from then on; what comes to lie elsewhere after all is copied.
    """

    def __init__(self, made: list[Any]) -> None:
        self.lender = None if KERNELS is None or is_small(made) else KERNELS.Lender()
        self.is_new = True

    def run(self, step: Step, function: Callable[..., Any], *args: Any) -> None:
        """Call a function that returns the arrays of a step."""
        if self.lender is None:
            store(step, function(*args))
            return
        if self.is_new:  # until it is told where they go, its results lie elsewhere
            read = {id(memory(x)) for x in step.reads()}
            for each in step.made:
                owner = memory(each)
                if is_large(owner) and owner.nbytes == each.nbytes and id(owner) not in read:
                    release(owner)
        arrays = quiet(self.lender, function, *args)  # who allocates is a matter of the context
        if all(map(KERNELS.is_at, arrays, step.made)) and len(arrays) == len(step.made):
            return
        if self.is_new:
            self.is_new = False
            self.learn(step.made, arrays)
        else:  # one may lie where another one belongs
            arrays = [new.copy() for new in arrays]
        store(step, arrays)

    def learn(self, made: list[Any], arrays: list[Any]) -> None:
        for static, new in zip(made, arrays, strict=True):
            if lies_as(new, static):
                self.lender.lend(memory(new), memory(static))


def is_small(made: list[Any]) -> bool:
    return sum([array.nbytes for array in made]) < threshold(WORTH_LENDING)


NOT_LENT = Lent([])


def lies_as(new: Any, static: Any) -> bool:
    """Whether two arrays have the same shape, strides and offset in their memory."""
    a, b = memory(new), memory(static)
    offset = address(new) - address(a)
    return new.strides == static.strides and offset == address(static) - address(b)


def store(step: Step, arrays: list[Any]) -> None:
    """Copy results to the memory that later steps read."""
    if len(arrays) != len(step.made):
        raise RuntimeError(f"a compiled step cannot go on: {step.name} gave {len(arrays)} arrays")
    for i, static in enumerate(step.made):
        new = arrays[i]  # not by zip, which would know it, too
        check_shape(step, static, new)
        owner = memory(new)
        if is_large(owner) and is_like(owner, new, static):
            # Known are: the list and the names here; the view.
            if references(new) + references(owner) <= (6 if owner is new else 4):
                KERNELS.move_into(static, owner)
                continue
        static[...] = new


def is_like(owner: Any, new: Any, static: Any) -> bool:
    """Whether an array is all of its memory, in the order and dtype of another one."""
    dtypes, arrays = {owner.dtype, new.dtype, static.dtype}, (owner, new, static)
    same = owner.nbytes == static.nbytes and len(dtypes) == 1
    return same and all([x.flags.c_contiguous for x in arrays])


def check_shape(step: Step, static: Any, new: Any) -> None:
    if static.shape != new.shape:
        raise RuntimeError(
            f"a compiled step cannot go on: {step.name} gave {new.shape} instead of {static.shape}"
        )


def is_ordinary_write(op: Op, arrays: list[Any]) -> bool:
    """Whether an in-place op only copies the result of its kernel to the target."""
    target = arrays[0]
    if not op.elementwise or op.name in ("copy", "fill_tensor") or not is_dense(target):
        return False
    given = [x for x in arrays[1:] if isinstance(x, np.ndarray)]
    return all([x.dtype == target.dtype for x in given])


def is_dense(array: Any) -> bool:
    """Whether an array fills its memory, in whatever order its dimensions lie."""
    return array.flags.forc or bool(array.transpose(order_of(array)).flags.c_contiguous)


def order_of(array: Any) -> list[int]:
    return sorted(range(array.ndim), key=lambda d: -array.strides[d])


def in_memory_order(arrays: list[Any], before: Any) -> tuple[list[Any], Any]:
    """The operands of an elementwise write, and what the target was, seen as the target lies."""
    target = arrays[0]
    if target.flags.forc:
        return arrays, before
    order = order_of(target)

    def turned(x: Any) -> Any:
        if not isinstance(x, np.ndarray) or not x.ndim:
            return x
        return np.broadcast_to(x, target.shape).transpose(order)

    return [target.transpose(order), *map(turned, arrays[1:])], before.transpose(order)


def has_memory(value: Any) -> bool:
    return isinstance(value, (np.ndarray, TensorBase))


def has_mask(attrs: Any) -> bool:
    """Whether an index chooses elements by their values."""
    return any([isinstance(v, np.ndarray) and v.dtype.kind == "b" for v in leaves_of(attrs)])


class ViewOf:
    """An array as a view of a C-ordered array that fills the same memory."""

    def __init__(self, view: Any, owner: Any) -> None:
        self.shape, self.dtype, self.strides = view.shape, view.dtype, view.strides
        self.offset = address(view) - address(owner)

    def of(self, new: Any) -> Any:
        if not new.flags.c_contiguous:
            new = np.ascontiguousarray(new)
        return np.ndarray(self.shape, self.dtype, new, self.offset, self.strides)


class OpStep(Step):
    """An op whose kernel returns new arrays, which are copied to the memory later steps read."""

    __slots__ = ("arrays", "attrs", "made", "op", "tape")  # no more: there may be many of them

    def __init__(self, op: Op, arrays: list[Any], attrs: Any, made: list[Any], tape: Any) -> None:
        self.op = op
        self.arrays = arrays[:]  # with no room to grow
        self.attrs = attrs
        self.made = made[:]
        self.tape: Tape | None = tape

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.op.name

    def reads(self) -> list[Any]:
        given = (*self.arrays, *leaves_of(self.attrs))
        return [x._array if isinstance(x, TensorBase) else x for x in given if has_memory(x)]

    def run(self) -> None:
        store(self, self.results())

    def results(self) -> list[Any]:
        out = run_kernel(self.op, list(self.arrays), self.attrs)
        return [as_array(new) for new in ((out,) if self.op.single else out)]


class PythonStep(OpStep):
    """An op run by Python. Its results may be passed directly to other steps of this kind."""

    __slots__ = ("borrowed", "handed", "is_ready", "keeps_new", "lent", "shape", "stored")

    def __init__(self, op: Op, arrays: list[Any], attrs: Any, made: list[Any]) -> None:
        super().__init__(op, arrays, attrs, made, None)
        self.lent = NOT_LENT if is_small(made) else Lent(made)
        self.keeps_new = False  # its results are nobody else's: they stay where they are made
        # Which result goes into which list, where, and how that looks at it (None: as it is).
        self.handed: Sequence[tuple[int, list[Any], int, Any]] = ()
        self.shape = made[0].shape if made else ()
        self.stored: Sequence[int] = ()  # those of them that nobody gets
        self.is_ready: bool | None = None  # the kernel can be called as it is; None: to be seen
        self.borrowed: Sequence[tuple[int, Any]] = ()  # where it got some, and what they are like

    def run(self) -> None:
        if self.handed:
            if self.is_ready is None:
                self.prepare()
            if self.is_ready:
                out = quiet(self.op.kernel, *self.arrays, *self.attrs)
            else:
                out = run_kernel(self.op, self.arrays[:], self.attrs)
            if self.op.single:
                self.hand_on(out)
            else:
                self.hand_all_on(out)
        elif self.keeps_new:
            self.made[:] = self.results()
        else:
            self.lent.run(self, self.results)
        for i, model in self.borrowed:
            self.arrays[i] = model

    def prepare(self) -> None:
        """See whether the arrays have one dtype; the numbers beside them get it once for all."""
        op = self.op
        given = self.arrays[:]
        down = unify(op, given) if op.dtype_rule else None
        pairs = zip(given, self.arrays, strict=True)
        same = all([a is b or not isinstance(b, np.ndarray) for a, b in pairs])
        self.is_ready = same and down is None and op.guard is None and not op.variadic
        if self.is_ready:
            self.arrays[:] = given

    def hand_on(self, new: Any) -> None:
        """Pass the result to the steps that read it; it is freed after the last of them."""
        if type(new) is not np.ndarray:
            new = as_array(new)
        if new.shape != self.shape:
            check_shape(self, self.made[0], new)
        for _, arrays, i, view in self.handed:
            arrays[i] = new if view is None else view.of(new)

    def hand_all_on(self, found: Any) -> None:
        """Pass results to the steps that read them, and store those that no step receives."""
        found = [as_array(new) for new in found]
        for new, model in zip(found, self.made, strict=True):
            check_shape(self, model, new)
        for k, arrays, i, view in self.handed:
            arrays[i] = found[k] if view is None else view.of(found[k])
        for k in self.stored:
            self.made[k][...] = found[k]


class CallStep(Step):
    """A function that is no op (`zeros`, `rand`), or that writes into a tensor."""

    has_effects = True

    def __init__(
        self, call: Call, args: Any, kwargs: Any, made: list[Any], tape: Any = None
    ) -> None:
        self.name = str(call.overload)
        self.function = call.run
        self.args = args
        self.kwargs = kwargs
        self.made = made
        self.tape = tape  # of kernels that draw
        self.draws = tape is not None
        self.lent = Lent(made)

    def reads(self) -> list[Any]:
        return arrays_in((self.args, self.kwargs))

    def run(self) -> None:
        self.lent.run(self, self.results)

    def results(self) -> list[Any]:
        with below_autograd():
            out = self.function(self.args, self.kwargs)
        return arrays_in(out) if self.made else []


class CopyStep(CallStep):
    """A write of another tensor's values, or of one number, into a tensor: copies in C."""

    writes_in_place = True

    def __init__(self, call: Call, args: Any, kwargs: Any, target: Any, tape: Any) -> None:
        super().__init__(call, args, kwargs, [])
        self.made = [target._array]
        self.cell = target._version_cell()
        self.tape = tape

    def run(self) -> None:
        with below_autograd():
            self.function(self.args, self.kwargs)


class WriteStep(OpStep):
    """An op whose result is written into its first tensor, whose version counts it."""

    __slots__ = ("cell",)
    has_effects = True
    writes_in_place = True

    def __init__(self, op: Op, arrays: list[Any], attrs: Any, cell: Any, tape: Any) -> None:
        super().__init__(op, arrays, attrs, [arrays[0]], tape)
        self.cell = cell

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"{self.op.name}_"

    def run(self) -> None:
        super().run()
        if self.cell is not None:
            self.cell.n += 1


def is_zero(array: Any) -> bool:
    """Whether all bytes are zero: -0.0 is something else."""
    return not np.ascontiguousarray(array).reshape(-1).view(np.uint8).any()


class FillStep(Step):
    """A tensor that always has the same values when it is made."""

    def __init__(self, name: str, array: Any) -> None:
        self.name = name
        self.made = [array]
        self.is_zero = is_zero(array)
        self.values = 0 if self.is_zero else array.copy()
        self.tape = bytes_tape(None if self.is_zero else self.values, array)

    def run(self) -> None:
        self.made[0][...] = self.values


class WholeStep(Step):
    """A function that is called again as it is: the step of an optimizer or of a scheduler."""

    has_effects = True

    def __init__(self, function: Callable[..., Any], args: Any, kwargs: Any) -> None:
        self.name = getattr(function, "__qualname__", str(function))
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.made: list[Any] = []

    def reads(self) -> list[Any]:
        return arrays_in((self.args, self.kwargs))

    def run(self) -> None:
        out = self.function(*self.args, **self.kwargs)
        store(self, arrays_in(out) if self.made else [])


class RedrawStep(WholeStep):
    """A function that overwrites a tensor with random numbers, by kernels in C."""

    draws = True
    writes_in_place = True

    def __init__(self, function: Any, args: Any, kwargs: Any, target: Any, tape: Any) -> None:
        super().__init__(function, args, kwargs)
        self.made = [target._array]
        self.cell = target._version_cell()
        self.tape = tape


class CannotRehearse(Exception):
    """Raised by the step of an optimizer of which something was loaded or replaced."""


class UpdateStep(WholeStep):
    """The step of an optimizer as the calls of kernels in C of which it consists."""

    updates: list[Any]
    prepared: list[Again] | None = None
    rehearsal: Any = None  # the Snapshots that get fingerprints of the new values, in comparisons

    def run(self) -> None:
        prepared = self.prepared
        if prepared is None:
            prepared = self.prepare()
        fits = len(prepared) == 1 and prepared[0].fits()  # as most of them are
        if (fits or all([each.fits() for each in prepared])) and not has_hooks(self.args[0]):
            if self.rehearsal is not None:
                for each in prepared:
                    self.rehearsal.rehearse(each)
                return
            for each in prepared:
                each.make()
            return
        if self.rehearsal is not None:
            raise CannotRehearse
        # Something was loaded or replaced: the step itself, then again with what there is now.
        before, WATCHING.done = WATCHING.done, []
        try:
            super().run()
        finally:
            updates, WATCHING.done = WATCHING.done, before
        is_first = any([each.makes_state for each in updates])  # the next one does other writes
        if updates and is_all_of(self.args[0], updates) and not is_first:
            self.updates = updates
            self.prepare()

    def written(self) -> tuple[list[Any], list[Any]]:
        """The tensors that the kernels write, and the counters of steps."""
        large = [p for update in self.updates for p in update.params]
        counters: list[Any] = []
        for update in self.updates:
            rule, rows = update.rule, update.rows[2:]
            names = [name for name, row in zip(rule.rows, rows, strict=True) if row is not None]
            large += [own[name] for own in update.owns for name in names]
            counters += [own[name] for own in update.owns for name in rule.scalars]
        return large, counters

    def prepare(self) -> list[Again]:
        self.prepared = [Again(update, self.args[0]) for update in self.updates]
        return self.prepared


class Idle:
    """A gradient whose memory may be released during a call that does not need it."""

    def __init__(self, leaf: Any, gradient: Any, owner: Any) -> None:
        self.leaf = leaf
        self.gradient = weakref.ref(gradient)
        self.owner = owner

    def rests(self, before: Any) -> bool:
        """Release the gradient's memory if the call dropped it; whether that was done."""
        gradient = self.gradient()
        # Known are: the list of the step, and the name here.
        if gradient is None or self.leaf._gradient is gradient or references(gradient) > 2:
            return gradient is None
        before.prints.pop(id(self.owner), None)
        release(self.owner)
        return True


class GradientStep(Step):
    """Sets `.grad` of the leaves to what it is at this point of the call."""

    has_effects = True

    name = "gradients"

    def __init__(self, gradients: list[tuple[Any, Any]]) -> None:
        self.gradients = gradients
        self.made: list[Any] = []
        self.arrays: list[Any] = []  # in the places of some, where an op in Python makes them
        self.new_ones: set[int] = set()  # which of them
        # How many writes into each of them eager calls count in the end; -1: it was there before.
        self.versions: list[int] = []
        self.is_written = False  # some of these are more than none
        self.has_cells = True  # or are written: there are counts to be set

    def run(self) -> None:
        for i, new in enumerate(self.arrays):
            if new is not None:
                self.gradients[i] = (self.gradients[i][0], wrap(new))
                self.arrays[i] = None
        set_gradients(self.gradients)

    def note_versions(self, is_made: Callable[[Any], bool]) -> None:
        """The recorded call has ended, and all that it wrote into its gradients is counted."""
        self.versions = [
            -1 if g is None or not is_made(g._array) else 0 if g._cell is None else g._cell.n
            for _, g in self.gradients
        ]
        self.is_written = any([n > 0 for n in self.versions])

    def count_writes(self) -> None:
        """A replay has ended: its gradients are other tensors in an eager call, with own counts."""
        if self.has_cells:
            set_versions(self.gradients, self.versions)

    def reads(self) -> list[Any]:
        return [gradient._array for _, gradient in self.gradients if gradient is not None]

    def let_go(self) -> None:
        """Give gradients that somebody keeps new memory: this one is about to be overwritten.

        Whoever else looks at ours, such as a graph that a gradient was given to, is told by its
        version that it was overwritten.
        """
        if KERNELS is not None:
            ours = KERNELS.only_ours(self.gradients)
            self.has_cells = ours < 2 or self.is_written
            if ours:
                return
        for i, (leaf, gradient) in enumerate(self.gradients):
            if gradient is None or i in self.new_ones:
                continue
            cell = gradient._cell
            # Known are: the gradient, and the name here.
            if cell is not None and references(cell) > 2:
                gradient._cell = Version()
                gradient._cell.n = cell.n
                cell.n += 1
            # Known are: the pair above, the name here, and the leaf.
            if references(gradient) > 2 + (leaf._gradient is gradient):
                self.gradients[i] = (leaf, wrap(gradient._array))
                gradient._array = gradient._array.copy(order="K")

    def takes_new(self, array: Any) -> list[int]:
        """The places of gradients that are an array; others are made each time from now on."""
        found = [
            i for i, (_, g) in enumerate(self.gradients) if g is not None and g._array is array
        ]
        if not self.arrays:
            self.arrays = [None] * len(self.gradients)
        self.new_ones |= set(found)
        return found

    def idle(self, filled: Any) -> list[Idle]:
        """The large gradients whose memory a replay overwrites."""
        found = [(t, g, memory(g._array)) for t, g in self.gradients if g is not None]
        return [Idle(t, g, x) for t, g, x in found if id(x) in filled and is_large(x)]


def is_zero_grad(step: Step) -> Any:
    """Whether a step forgets the gradients of an optimizer's parameters."""
    if not isinstance(step, WholeStep) or step.function.__name__ != "zero_grad":
        return False
    return to_none(step.args, step.kwargs) and hasattr(step.args[0], "param_groups")


def to_none(args: Any, kwargs: Any) -> bool:
    """Whether a call of `zero_grad` forgets the gradients, instead of filling them with zeros."""
    return bool(args[1] if len(args) > 1 else kwargs.get("set_to_none", True))


def sees_gradients(step: Step) -> bool:
    """Whether a step may look at `.grad` of something."""
    step = getattr(step, "step", step)  # of one with numbers in it
    if isinstance(step, WholeStep):
        given = leaves_of((step.args, step.kwargs))
        return any([not isinstance(v, TensorBase) or v._wants_grad for v in given if is_object(v)])
    return isinstance(step, GradientStep)


def is_object(value: Any) -> bool:
    return isinstance(value, TensorBase) or hasattr(value, "param_groups") or callable(value)


def has_hooks(optimizer: Any) -> bool:
    return bool(
        optimizer._optimizer_step_pre_hooks
        or optimizer._optimizer_step_post_hooks
        or _global_optimizer_pre_hooks
        or _global_optimizer_post_hooks
    )


def is_all_of(optimizer: Any, updates: list[Any]) -> bool:
    """Whether the kernels did the whole of a step."""
    given = [p for group in optimizer.param_groups for p in group["params"]]
    wanted = {id(p) for p in given if p._gradient is not None}
    return wanted == {id(p) for update in updates for p in update.params} and not has_hooks(
        optimizer
    )


def arrays_in(value: Any) -> list[Any]:
    return [t._array for t in leaves_of(value) if isinstance(t, TensorBase)]
