"""Snapshots of tensors, optimizers and generators before a call, so that it can be undone.

For a tensor that is only read a fingerprint is enough, which shows whether something changed it
unnoticed. A tensor that is about to be written is copied first. When the call is undone, the copy
and the new values change places; the replay is compared with the latter.
"""

from __future__ import annotations

import math
import pickle
import random
import sys
import weakref
import zlib
from collections.abc import Container
from typing import Any

import numpy as np

from ...core.base import TensorBase
from ...core.strides import memory
from ...kernels.cpu import KERNELS
from ...ops.draws.generators import default_generator
from .reachable import is_scheduler

PIECE = 1 << 16  # elements that change places at a time
LARGE_PIECE = 1 << 20  # bytes
PLAIN = (bool, int, float, complex, str, type(None))


class Earlier:
    """The earlier `.grad` of a leaf, held weakly: a call that drops it may reuse its memory."""

    def __init__(self, gradient: Any) -> None:
        self.known = None if gradient is None else weakref.ref(gradient)

    def now(self) -> Any:
        """The gradient; None if there was none, or if it was forgotten."""
        return None if self.known is None else self.known()

    def is_still(self, gradient: Any) -> bool:
        return self.now() is gradient and (self.known is None) is (gradient is None)


class Looked(weakref.ref[Any]):
    """The fingerprint of memory that is only read, held weakly."""

    __slots__ = ("key", "mark")

    def __new__(cls, owner: Any, gone: Any) -> Looked:
        return super().__new__(cls, owner, gone)

    def __init__(self, owner: Any, gone: Any) -> None:
        super().__init__(owner, gone)
        self.key = id(owner)
        self.mark = fingerprint(owner)


class Print:
    """The fingerprint of an array's values, where it need only be told from other values."""

    def __init__(self, array: Any) -> None:
        # Piece by piece, so that no copy of all is needed to have the elements in order.
        marks = [fingerprint(np.ascontiguousarray(piece)) for piece in pieces_of(array)]
        self.mark = marks, array.shape, array.dtype
        self.owner = id(memory(array))

    @classmethod
    def of(cls, marks: list[int], array: Any) -> Print:
        """The fingerprint of other values for an array, as it was taken of all pieces of them."""
        made = cls.__new__(cls)
        made.mark = marks, array.shape, array.dtype
        made.owner = id(memory(array))
        return made


def pieces_of(array: Any) -> list[Any]:
    """An array in pieces of about a megabyte, which depend on its shape alone."""
    if array.ndim == 0 or array.nbytes <= LARGE_PIECE:
        return [array]
    rows = LARGE_PIECE * len(array) // array.nbytes
    if not rows:
        return [piece for row in array for piece in pieces_of(row)]
    return [array[start : start + rows] for start in range(0, len(array), rows)]


def is_same_as(array: Any, after: Any) -> bool:
    """Whether an array has the values of another one, of which only a Print may be known."""
    if type(after) is Print:
        return Print(array).mark == after.mark
    return same_bits(array, after)


AT_FIRST = 623  # the word of its twister that NumPy begins with


class OtherStreams:
    """Where the random numbers of Python and NumPy were."""

    def __init__(self) -> None:
        self.python = random.getstate()
        self.numpy = numpy_stream()

    def moved(self) -> str:
        """Whose numbers were drawn since, in words; "" if none were."""
        if random.getstate() != self.python:
            return "Python's random numbers"
        return "NumPy's random numbers" if has_moved(self.numpy, numpy_stream()) else ""


def numpy_stream() -> Any:
    """The position of NumPy's global random stream; None if it was never used."""
    found = sys.modules.get("numpy.random")  # importing it takes megabytes
    return found.get_state(legacy=False) if hasattr(found, "get_state") else None


def has_moved(before: Any, now: Any) -> bool:
    """Whether NumPy's numbers were drawn between the two."""
    if before is not None:
        return pickle.dumps(before) != pickle.dumps(now)
    return now is not None and (now["state"]["pos"] < AT_FIRST or bool(now["has_gauss"]))


class Snapshots:
    """Snapshots of everything that existed before a recorded call and that the call used."""

    def __init__(self, limit: float = math.inf) -> None:
        """`limit`: the bytes of copies after which none are kept: the call cannot be undone."""
        self.limit = limit
        self.can_undo = True
        self.arrays: dict[int, tuple[Any, Any]] = {}  # by id of the owner: it, and a copy
        prints: dict[int, Looked] = {}
        self.prints = prints  # likewise, of what is only looked at
        self.gone = lambda known: prints.pop(known.key, None)  # its id may be another's then
        self.met: dict[int, tuple[Any, Any]] = {}  # the tensors, and the arrays that they had
        self.met_weakly: list[tuple[Any, Any]] = []  # references to others, and to their arrays
        self.gradients: list[tuple[Any, Earlier]] = []  # of leaves
        self.objects: dict[int, tuple[Any, Any]] = {}
        self.states: list[tuple[Any, Any]] = []  # the `state` of optimizers, and what was in it
        self.overwritten: set[int] = set()  # ids of owners whose values do not matter
        # By id of the owner: fingerprints of what a step would write there, which does not do it.
        self.rehearsed: dict[int, list[int]] = {}
        self.versions: dict[int, tuple[Any, int]] = {}  # by id: version cells, what they counted
        self.random = default_generator.get_state()
        self.generators: dict[Any, Any] = {}  # others that the call draws from: their states

    def take_generator(self, generator: Any) -> None:
        if generator is not default_generator and generator not in self.generators:
            self.generators[generator] = generator.get_state()

    def has(self, owner: Any) -> bool:
        return id(owner) in self.arrays or id(owner) in self.prints

    def look(self, t: Any) -> None:
        """Take the fingerprint of a tensor that the call reads, or may change unnoticed."""
        self.look_at(memory(t._array))
        self.meet(t)

    def meet(self, t: Any) -> None:
        if id(t) not in self.met:
            self.met[id(t)] = (t, t._array)

    def look_at_gradient(self, gradient: Any) -> None:
        """Look at a gradient that the call may drop: its memory is free then."""
        self.look_at(memory(gradient._array))
        if id(gradient) not in self.met:
            self.met_weakly.append((weakref.ref(gradient), weakref.ref(gradient._array)))

    def has_moved(self) -> bool:
        """Whether something gave a tensor other memory."""
        if any([t._array is not array for t, array in self.met.values()]):
            return True
        alive = [(t(), array()) for t, array in self.met_weakly]
        return any([t is not None and t._array is not array for t, array in alive])

    def look_at(self, owner: Any) -> None:
        if not self.has(owner):
            self.prints[id(owner)] = Looked(owner, self.gone)

    def keep(self, t: Any) -> None:
        """Copy a tensor that is about to be written."""
        self.keep_version(t)
        owner = memory(t._array)
        if self.prints.pop(id(owner), None) is not None:
            self.limit -= owner.nbytes
            if self.limit < 0 and self.can_undo:
                self.can_undo = False
                self.arrays = {key: (known, None) for key, (known, _) in self.arrays.items()}
            self.arrays[id(owner)] = (owner, copy_of(owner) if self.can_undo else None)
            self.meet(t)

    def keep_version(self, t: Any) -> None:
        cell = t._version_cell()
        self.versions.setdefault(id(cell), (cell, cell.n))

    def keep_none_of(self, t: Any) -> None:
        """Note a tensor that is overwritten before it is read: its old values do not matter."""
        self.keep_version(t)
        if self.prints.pop(id(t._array), None) is not None:
            self.arrays[id(t._array)] = (t._array, None)
            self.overwritten.add(id(t._array))
            self.meet(t)

    def expect(self, t: Any) -> None:
        """Note a tensor that only a rehearsed step would write: see `rehearse`."""
        self.keep_version(t)
        self.prints.pop(id(t._array), None)
        self.arrays[id(t._array)] = (t._array, None)
        self.rehearsed[id(t._array)] = []
        self.meet(t)

    def rehearse(self, update: Any) -> None:
        """Take fingerprints of what an optimizer would write; nothing is written, and no copy of
        all is needed."""

        def seen(array: Any, piece: Any) -> None:
            self.rehearsed[id(array)].append(fingerprint(piece))

        update.make_elsewhere(pieces_of, seen)

    def take_gradient(self, t: Any) -> None:
        self.gradients.append((t, Earlier(t._gradient)))
        if t._gradient is not None and not t._gradient._special:
            self.look_at(memory(t._gradient._array))

    def take_object(self, owner: Any) -> None:
        """Take a snapshot of an optimizer or scheduler: numbers, and tensors of its state."""
        if id(owner) in self.objects:
            return
        self.objects[id(owner)] = (owner, remembered(owner))
        state = getattr(owner, "state", None)
        if isinstance(state, dict):
            self.states.append((state, entries_of(state)))
        for t in tensors_of(owner):
            if not t._special:
                self.look(t)
        optimizer = getattr(owner, "optimizer", None)
        if optimizer is not None:
            self.take_object(optimizer)

    def owners(self) -> list[Any]:
        """The optimizers and schedulers, also those that only a hook knew of."""
        return [owner for owner, _ in self.objects.values()]

    def keep_object(self, owner: Any) -> None:
        """Copy what an optimizer is about to change: parameters, and perhaps gradients."""
        for t in tensors_of(owner):
            for each in (t, t._gradient):
                if each is not None and not each._special:
                    self.keep(each)

    def changed_unseen(self, apart: Container[int] = ()) -> str:
        """The name of something that was written unnoticed; "" if nothing was."""
        for key, known in list(self.prints.items()):
            owner = known()
            if owner is not None and key not in apart and fingerprint(owner) != known.mark:
                return f"a tensor of shape {tuple(owner.shape)}"
        return ""

    def undo(self, for_good: bool, by_prints: bool = False) -> Done:
        """Everything as it was; what it is now is returned. Unless `for_good`, it can be undone a
        second time. `by_prints`: it can, once it was kept again, and what is returned cannot be
        done."""
        done = Done(self, by_prints)
        for key, (owner, before) in self.arrays.items():
            if key in self.rehearsed:
                done.arrays[key] = (owner, Print.of(self.rehearsed[key], owner))
            elif key in self.overwritten:
                done.arrays[key] = (owner, Print(owner) if by_prints else copy_of(owner))
            elif before is None or not owner.flags.writeable:
                done.arrays[key] = (owner, owner)
            elif by_prints:
                done.arrays[key] = (owner, Print(owner))
                owner[...] = before
                self.arrays[key] = (owner, None)
            elif for_good:
                change_places(owner, before)
                done.arrays[key] = (owner, before)
            else:
                done.arrays[key] = (owner, copy_of(owner))
                owner[...] = before
        for cell, n in self.versions.values():
            cell.n = n
        for t, earlier in self.gradients:
            t._gradient = earlier.now()
        for known, entries in self.states:
            put_back_state(known, entries)
        for _, values in self.objects.values():
            put_back(values)
        default_generator.set_state(self.random)
        for generator, state in self.generators.items():
            generator.set_state(state)
        return done

    def counts(self) -> list[int]:
        """How many writes are counted into leaves, and into their gradients."""
        found = [t for t, _ in self.gradients]
        found += [t._gradient for t in found if t._gradient is not None]
        return [0 if t._cell is None else t._cell.n for t in found]

    def keep_again(self) -> None:
        """Copy arrays again that are about to be written a second time."""
        for key, (owner, before) in self.arrays.items():
            if before is None and key not in self.overwritten and key not in self.rehearsed:
                self.arrays[key] = (owner, copy_of(owner))


class Reached:
    """The tensors and objects from before a recorded call that it used; comparisons check them."""

    def __init__(self, seen: Any) -> None:
        recorder = seen.recorder
        written = recorder.before.arrays
        self.owners = recorder.before.owners()
        apart = {id(t) for owner in self.owners for t in tensors_of(owner)}
        apart |= {id(g) for _, g in recorder.gradients_before(True)}
        apart |= {id(v) for t, v in zip(seen.inputs, seen.values, strict=True) if t is not None}
        found = [*seen.found.tensors, *recorder.externals.values()]
        every = {id(t): t for t in found if not t._special}
        self.tensors = [t for key, t in every.items() if key not in apart]
        self.written = [t for t in self.tensors if id(memory(t._array)) in written]
        self.stepped = [  # optimizers whose parameters or state are written
            owner
            for owner in self.owners
            if any([id(memory(t._array)) in written for t in tensors_of(owner)])
        ]
        self.generators = list(recorder.before.generators)


class Done:
    """The effects of a call on what existed before it."""

    def __init__(self, before: Snapshots, by_prints: bool) -> None:
        self.before = before
        self.arrays: dict[int, tuple[Any, Any]] = {}  # as those of the snapshots
        self.versions = [(cell, cell.n) for cell, _ in before.versions.values()]
        # A replay makes others: these are kept by somebody else, by us (`GradientStep.let_go`).
        self.gradients = [(t, t._gradient) for t, _ in before.gradients]
        self.counts = before.counts()
        if by_prints:
            self.gradients = [
                (t, None if g is None else Print(g._array)) for t, g in self.gradients
            ]
        objects = before.objects.items()
        self.objects = {key: (owner, remembered(owner)) for key, (owner, _) in objects}
        self.random = default_generator.get_state()
        self.generators = {each: each.get_state() for each in before.generators}

    def do(self) -> None:
        """Apply the effects again, whatever was done in between."""
        for owner, after in self.arrays.values():
            if owner.flags.writeable:
                owner[...] = after
        for cell, n in self.versions:
            cell.n = n
        for t, gradient in self.gradients:
            t._gradient = gradient
        for _, values in self.objects.values():
            put_back(values)
        default_generator.set_state(self.random)
        for generator, state in self.generators.items():
            generator.set_state(state)

    def is_same(self, now: Any, after: Any) -> bool:
        """Whether a gradient has the values that the call gave it."""
        if now is None or after is None:
            return now is after
        if type(after) is Print:
            owner = memory(now._array)
            was_there = id(owner) == after.owner and self.before.has(owner)  # as below
            return was_there or is_same_as(now._array, after)
        if memory(now._array) is memory(after._array):  # it was there, and added to: see `arrays`
            return self.before.has(memory(now._array))
        return same_bits(now._array, after._array)

    def differs(self, apart: Container[int]) -> str:
        """The name of the first thing that differs from these effects now.

        `apart` has the ids of memory that does not count: a replay's own.
        """
        for key, (owner, after) in self.arrays.items():
            if key not in apart and not is_same_as(owner, after):
                return f"a tensor of shape {tuple(owner.shape)}"
        unseen = self.before.changed_unseen(apart)
        if unseen:
            return unseen
        for t, gradient in self.gradients:
            if not self.is_same(t._gradient, gradient):
                return "a gradient"
        if self.before.counts() != self.counts:
            return "the version of a tensor"
        for owner, values in self.objects.values():
            mine, others = [v[2] for v in values], [v[2] for v in remembered(owner)]
            same = [a is b or a == b for a, b in zip(mine, others, strict=False)]
            if len(mine) != len(others) or not all(same):
                return f"the state of {type(owner).__name__}"
        for generator, state in ((default_generator, self.random), *self.generators.items()):
            if not same_bits(state._array, generator.get_state()._array):
                return "the state of the random numbers"
        return ""


def fingerprint(array: Any) -> int:
    """A hash of an array's values; all NaNs count as equal."""
    if KERNELS is not None and array.flags.forc:
        return int(KERNELS.fingerprint(array))
    return zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8))


def copy_of(owner: Any) -> Any:
    """A copy in memory of its own pages, which can go back to the system, unlike malloc's."""
    if KERNELS is not None and type(owner) is np.ndarray and owner.flags.c_contiguous:
        return KERNELS.copied(owner)
    return owner.copy(order="K")


def change_places(a: Any, b: Any) -> None:
    """Exchange the values of two arrays."""
    if a.flags.forc and a.strides == b.strides:
        a, b = a.reshape(-1, order="A"), b.reshape(-1, order="A")
        pieces: Any = [slice(start, start + PIECE) for start in range(0, a.size, PIECE)]
    else:
        pieces = [...]
    for piece in pieces:
        held = a[piece].copy()
        a[piece] = b[piece]
        b[piece] = held


def same_bits(a: Any, b: Any) -> bool:
    """Whether two arrays have the same bits, except that any NaN is as good as another."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a is b:
        return True
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    word = np.uint64 if a.nbytes % 8 == 0 else np.uint8
    if np.array_equal(a.reshape(-1).view(word), b.reshape(-1).view(word)):
        return True
    if a.dtype.kind not in "fcV":
        return False
    other = ~((a != a) & (b != b))  # where one of them is a number
    return bool(np.array_equal(a[other].view(np.uint8), b[other].view(np.uint8)))


def remembered(owner: Any) -> list[tuple[Any, Any, Any]]:
    """(dict, key, value) of every plain number that an optimizer or scheduler keeps."""
    found: list[tuple[Any, Any, Any]] = []
    dicts = [vars(owner), *getattr(owner, "param_groups", ())]
    dicts += [own for own in getattr(owner, "state", {}).values() if isinstance(own, dict)]
    for each in dicts:
        for key, value in each.items():
            if isinstance(value, PLAIN):
                found.append((each, key, value))
            elif isinstance(value, (list, tuple)) and all([isinstance(v, PLAIN) for v in value]):
                found.append((each, key, type(value)(value)))
    for value in vars(owner).values():  # schedulers that this one steps
        for inner in value if isinstance(value, (list, tuple)) else [value]:
            found += remembered(inner) if is_scheduler(inner) and inner is not owner else []
    return found


def put_back(values: list[tuple[Any, Any, Any]]) -> None:
    for each, key, value in values:
        each[key] = list(value) if type(value) is list else value


def entries_of(state: Any) -> list[tuple[Any, Any, Any]]:
    """(key, value, what is in it if it is a dict) of an optimizer's state."""
    return [(k, own, dict(own) if isinstance(own, dict) else own) for k, own in state.items()]


def put_back_state(state: Any, entries: list[tuple[Any, Any, Any]]) -> None:
    """Drop what a step has made in the state of an optimizer, such as that of its first step."""
    if len(state) != len(entries) or any([state.get(k) is not own for k, own, _ in entries]):
        state.clear()
        state.update([(k, own) for k, own, _ in entries])
    for _, own, before in entries:
        if isinstance(own, dict) and own.keys() != before.keys():
            own.clear()
            own.update(before)


def tensors_of(owner: Any) -> list[Any]:
    """The parameters of an optimizer and the tensors of its state."""
    found = [p for group in getattr(owner, "param_groups", ()) for p in group["params"]]
    for own in getattr(owner, "state", {}).values():
        if isinstance(own, dict):
            found += [t for t in own.values() if isinstance(t, TensorBase)]
    return found
