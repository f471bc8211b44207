"""Undo of a replay that stops halfway, because a step refuses a value that it is given.

A kernel refuses an index out of range, chances above one, a matrix that is not positive definite.
The error is raised by the function itself, which is then called as it is. So everything that the
replay has changed by then must be as it was. Which steps can refuse is known, and so is what is
written before the last one of them: only that is copied when a replay begins. Most training steps
look up their rows and classes before they write anything, and copy nothing.
"""

from __future__ import annotations

from typing import Any

from ...core.base import TensorBase
from ...core.python_dispatch import leaves_of
from ...core.strides import address, memory
from ...core.tensor_lists import same_tensors
from ...kernels.cpu import KERNELS
from ...ops.draws.generators import default_generator
from ..backward.upstream import BehindStep
from ..capture.branches import Decision, touched_by
from ..capture.reachable import is_kept_apart
from ..capture.symbolic_floats import OptionStep
from ..capture.undo import put_back, remembered, tensors_of
from ..plan.native_calls import Segment, bytes_tape
from .steps import CallStep, GradientStep, OpStep, WholeStep, is_zero_grad

Place = tuple[int, int]  # of a step as it is run: the number of the call, the part of a segment
NOWHERE: Place = (-1, 0)
AFTER: Place = (1 << 62, 0)


class Copies:
    """Copies of arrays, made and put back by one call of C where that is possible."""

    def __init__(self, arrays: list[Any]) -> None:
        self.arrays = arrays
        self.copies = [x.copy(order="K") for x in arrays]
        pairs = list(zip(self.arrays, self.copies, strict=True))
        self.out = joined_copies(pairs)
        self.back = joined_copies([(b, a) for a, b in pairs])

    def take(self) -> None:
        if self.out is not None:
            self.out()
            return
        for x, copy in zip(self.arrays, self.copies, strict=True):
            copy[...] = x

    def put_back(self) -> None:
        if self.back is not None:
            self.back()
            return
        for x, copy in zip(self.arrays, self.copies, strict=True):
            x[...] = copy


def joined_copies(pairs: list[tuple[Any, Any]]) -> Any:
    """One tape that copies each source to its target; None if a pair has no kernel."""
    tapes = [bytes_tape(source, target) for source, target in pairs if source.size]
    if KERNELS is None or any([tape is None for tape in tapes]):
        return None
    return KERNELS.join_tapes(tapes)


class Optimizers:
    """Copies of the state of optimizers and schedulers: tensors and numbers.

    What `before` knows of the recorded call tells which numbers of an optimizer a step changes; a
    scheduler may change any.
    """

    def __init__(self, owners: list[Any], before: dict[int, tuple[Any, Any]]) -> None:
        self.owners = owners
        self.changing: set[int] = set()  # ids of those of which all numbers are copied
        for each in owners:
            if hasattr(each, "optimizer"):
                self.changing |= {id(each), id(each.optimizer)}
            elif id(each) not in before or remembered(each) != before[id(each)][1]:
                self.changing.add(id(each))
        self.numbers: list[Any] = []
        self.counts: list[int] = []
        self.prepare()

    def prepare(self) -> None:
        """Note the present tensors: a user may have loaded others."""
        tensors = [t for each in self.owners for t in tensors_of(each)]
        self.known = [(t, t._array, t._wants_grad) for t in tensors]
        self.cells = list(
            {id(cell): cell for cell in [t._version_cell() for t in tensors]}.values()
        )
        self.copies = Copies([t._array for t in tensors])
        self.entries: list[Any] = []
        for each in self.owners:
            for key in ("state", "param_groups"):
                if key in vars(each):
                    self.entries.append((vars(each), key, vars(each)[key]))
            for p, own in getattr(each, "state", {}).items():
                self.entries.append((each.state, p, own))
                if isinstance(own, dict):
                    items = own.items()
                    self.entries += [(own, k, v) for k, v in items if isinstance(v, TensorBase)]
        self.entries += [
            (group, "params", group["params"])
            for each in self.owners
            for group in getattr(each, "param_groups", ())
        ]
        held = [entry[2] for entry in self.entries if isinstance(entry[2], (dict, list))]
        self.lengths = [(each, len(each)) for each in held]

    def fits(self) -> bool:
        if KERNELS is None:
            return False
        return KERNELS.as_before(self.entries, self.lengths) and same_tensors(self.known)

    def take(self) -> None:
        if not self.fits():
            self.prepare()
        self.copies.take()
        self.counts = [cell.n for cell in self.cells]
        self.numbers = [remembered(each) for each in self.owners if id(each) in self.changing]

    def put_back(self) -> None:
        self.copies.put_back()
        for cell, n in zip(self.cells, self.counts, strict=True):
            cell.n = n
        for values in self.numbers:
            put_back(values)


class Rollback:
    """Copies of what a replay changes before the last step that may refuse a value, to undo it."""

    def __init__(
        self, steps: list[Any], needed: list[Any], recorder: Any, draws: bool, fine: set[int]
    ) -> None:
        places = list(placed(steps, needed))
        order = {id(step): i for i, step in enumerate(recorder.steps)}
        refusing = {
            order.get(id(step), -1): place
            for step, place in places
            if may_refuse(step) and id(step) not in fine
        }
        self.last: Place = max(refusing.values(), default=NOWHERE)
        self.cells: list[Any] = []  # versions
        self.leaves: list[Any] = []  # tensors whose `.grad` is replaced
        self.owners: Any = []  # optimizers and schedulers
        self.options: list[Any] = []  # groups of an optimizer, in which a call sets something
        self.forgotten: list[Any] = []  # leaves whose `.grad` is dropped before a step may refuse
        self.generators: list[Any] = []
        self.behind: list[Any] = []  # steps that free a graph, which waits until the replay is over
        found: dict[Any, Any] = {}
        for step, place in places:
            if place <= self.last:
                self.note(getattr(step, "step", step), recorder.before, found)
        self.note_old_gradients(places, refusing, recorder, found)
        if self.last is not NOWHERE:
            self.generators = list(recorder.before.generators)
        self.cells = list({id(cell): cell for cell in self.cells}.values())
        self.leaves = list({id(t): t for t in self.leaves}.values())
        self.draws = draws and self.last is not NOWHERE
        self.stream = default_generator.stream
        self.drawn: list[Any] = []  # its memory, where kernels know it
        if self.draws and KERNELS is not None:
            self.drawn = self.stream.memory()
        self.copies = Copies([*found.values(), *self.drawn])
        owners = list({id(each): each for each in self.owners}.values())
        self.owners = Optimizers(owners, recorder.before.objects) if owners else None
        self.is_idle = not any(
            [found, self.cells, self.leaves, owners, self.options, self.generators, self.draws]
        )
        for run in steps:
            if isinstance(run, Segment):
                run.parts = {}
        self.counts: list[int] = []
        self.gradients: list[Any] = []
        self.states: list[Any] = []  # of other generators
        self.numbers: list[Any] = []
        self.mark: Any = None  # where random numbers go on from, unless the copies tell
        self.was_drawn = False

    def note(self, step: Any, before: Any, found: dict[Any, Any]) -> None:
        """Note what a step changes of the state that existed before the call."""
        if isinstance(step, BehindStep):
            step.keeps_graph = step.releases
            self.behind.append(step)
        if not step.has_effects:
            return
        if isinstance(step, GradientStep):
            self.leaves += [t for t, _ in step.gradients]
            return
        if isinstance(step, OptionStep):
            self.options.append(step.group)
            return
        if step.cell is not None:
            self.cells.append(step.cell)
        given = given_to(step)
        self.cells += [t._version_cell() for t in given if isinstance(t, TensorBase)]
        objects = [value for value in given if is_kept_apart(value)]
        objects += [each.optimizer for each in objects if hasattr(each, "optimizer")]
        if is_zero_grad(step):
            self.leaves += [p for each in objects for p in tensors_of(each)]
            return
        self.owners += objects
        own = {id(t._array) for each in objects for t in tensors_of(each)}
        for x in touched_by(step):
            if id(memory(x)) in before.arrays and id(x) not in own:
                found[address(x), x.shape, x.strides, x.dtype] = x

    def note_old_gradients(
        self, places: list[Any], refusing: dict[int, Place], recorder: Any, found: dict[Any, Any]
    ) -> None:
        """Note gradients that the previous replay left in memory which this one fills anew.

        A call that forgets them first, by `zero_grad`, does so before it is refused: it does not
        matter what they were.
        """
        cleared: dict[int, int] = {}  # by id of a leaf: the step that forgets its gradient
        for i, step in enumerate(recorder.steps):
            if is_zero_grad(step):
                for p in tensors_of(step.args[0]):
                    if id(p) in recorder.cleared:
                        cleared.setdefault(id(p), i)
        filled: dict[int, Place] = {}  # by id of memory: where it is filled first
        for step, place in places:
            for x in step.made:
                filled.setdefault(id(memory(x)), place)
                filled[id(memory(x))] = min(place, filled[id(memory(x))])
        for step, _ in places:
            for t, gradient in step.gradients if isinstance(step, GradientStep) else ():
                if gradient is None:
                    continue
                x, end = gradient._array, cleared.get(id(t), len(recorder.steps))
                last = max([p for i, p in refusing.items() if i < end], default=NOWHERE)
                if id(t) in cleared and last is NOWHERE:
                    self.forgotten.append(t)
                if filled.get(id(memory(x)), AFTER) <= last and x.flags.writeable:
                    found[address(x), x.shape, x.strides, x.dtype] = x

    def drop_gradients(self) -> None:
        """Drop gradients of another call than a replay, as the call itself does: this replay does
        not overwrite them, so both would be in memory."""
        for t in self.forgotten:
            t._gradient = None

    def keep(self) -> None:
        """Copy what has to be restored; called when a replay begins."""
        if self.is_idle:
            return
        if self.copies.arrays:
            self.copies.take()
        if self.owners is not None:
            self.owners.take()
        if self.options:
            self.numbers = [[(group, k, v) for k, v in group.items()] for group in self.options]
        self.counts = [cell.n for cell in self.cells]
        if self.leaves:
            self.gradients = [t._gradient for t in self.leaves]
        if self.draws:
            stream = default_generator.stream
            self.was_drawn = stream._drawn
            if stream is not self.stream or not self.drawn:  # else its memory is among the copies
                self.mark = stream, stream.get_state()
        if self.generators:
            self.states = [each.get_state() for each in self.generators]

    def done(self) -> None:
        """After a completed replay: drop the old gradients, free the graphs that were kept."""
        if self.leaves:
            self.gradients = []
        for step in self.behind:
            step.free_graph()

    def undo(self) -> None:
        """Restore everything to what it was when the replay began."""
        for step in self.behind:
            step.values = []
        if self.is_idle:
            return
        self.copies.put_back()
        if self.owners is not None:
            self.owners.put_back()
        for values in self.numbers:
            put_back(values)
        for cell, n in zip(self.cells, self.counts, strict=True):
            cell.n = n
        for t, gradient in zip(self.leaves, self.gradients, strict=True):
            t._gradient = gradient
        self.gradients = []
        if self.mark is not None:
            stream, mark = self.mark
            stream.set_state(mark)
            self.mark = None
        elif self.draws:
            default_generator.stream._drawn = self.was_drawn
        for generator, state in zip(self.generators, self.states, strict=True):
            generator.set_state(state)


def given_to(step: Any) -> list[Any]:
    """The arguments of a step, and the object whose method it calls."""
    owner = getattr(getattr(step, "function", None), "__self__", None)
    return [owner, *leaves_of((getattr(step, "args", ()), getattr(step, "kwargs", ())))]


def placed(steps: list[Any], needed: list[Any]) -> Any:
    """(step, place) of the steps of a recording, `steps` being how they are run."""
    left = iter(needed)
    for i, run in enumerate(steps):
        if not isinstance(run, Segment):
            yield next(left), (i, 0)
            continue
        for _ in range(run.count):
            step = next(left)
            yield step, (i, run.parts.get(id(step), 0))


def may_refuse(step: Any) -> bool:
    """Whether a step may raise an error because of the values that it is given."""
    step = getattr(step, "step", step)  # of one with numbers in it
    if step.is_taped:
        return bool(step.tape.checked)
    if isinstance(step, (Decision, BehindStep)):
        return True
    if isinstance(step, OpStep):
        # Elementwise floats are never refused; a whole number may be divided by zero.
        return not step.op.elementwise or any([x.dtype.kind in "iu" for x in step.made])
    if isinstance(step, WholeStep):
        return not any(map(is_kept_apart, given_to(step)))
    return isinstance(step, CallStep)
