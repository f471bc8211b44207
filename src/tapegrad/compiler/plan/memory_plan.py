"""The memory of a compiled step's values: one block, in which dead values make room.

A recorded call leaves all its arrays where they were made. Those that only kernels in C look at are
moved into one block afterwards: two of them may share a place if the last call that is given the
one comes before the first call that is given the other. The pointers in the tapes are changed.
Large results are handed out as they are, and the kernels get other memory for the next call.
"""

from __future__ import annotations

import contextlib
import heapq
from collections.abc import Container, Iterator
from typing import Any

import numpy as np

from ...core.python_dispatch import leaves_of
from ...core.strides import address, memory
from ...kernels.cpu import KERNELS
from ..program.steps import FillStep, GradientStep, OpStep, PythonStep, ViewOf
from .early_release import release, threshold
from .native_calls import Segment

LEAST = 256  # bytes that are worth looking for the best place
MOST = 2000  # arrays that get one: the large ones count
LINE = 64  # bytes: places begin with a line of the cache
WORTH_GIVING = 1 << 16  # bytes of a result


def forget_memory() -> None:
    """Free the memory that earlier calls dropped and that is cached for reuse."""
    if KERNELS is not None:
        KERNELS.forget_memory()


@contextlib.contextmanager
def sparing_memory() -> Iterator[None]:
    """A `with` block for a call that needs other memory: caches of earlier calls are freed."""
    if KERNELS is None:
        yield
        return
    KERNELS.spare_memory(1)
    try:
        yield
    finally:
        KERNELS.spare_memory(-1)
        KERNELS.forget_memory()


def model_of(array: Any) -> Any:
    """The shape, dtype and strides of an array without its memory."""
    return np.broadcast_to(np.empty((), array.dtype), array.shape)


def is_owner(array: Any) -> bool:
    return type(array) is np.ndarray and bool(array.flags.owndata)


def owners_of(arrays: Any) -> dict[int, Any]:
    """The memory of arrays, by id."""
    return {id(memory(x)): memory(x) for x in arrays if isinstance(x, np.ndarray)}


def at_other_place(array: Any, owner: Any, place: Any, begin: int = 0) -> Any:
    """The array at another place, `begin` bytes into which its memory now starts."""
    offset = begin + address(array) - address(owner)
    return np.ndarray(array.shape, array.dtype, place, offset, array.strides)


def ranges(owners: list[Any], moves: list[int]) -> Any:
    """(begin, end, move) of arrays in the order of their addresses, as tapes want them."""
    rows = [
        (address(owner), address(owner) + owner.nbytes, move)
        for owner, move in zip(owners, moves, strict=True)
    ]
    return np.array(rows, np.int64).reshape(-1, 3)


class Plan:
    """Offsets in one block for the values of some steps; `kept`: ids of those read afterwards."""

    def __init__(self, owners: list[Any], steps: list[Any], kept: Container[int] = ()) -> None:
        self.block: Any = None
        self.total = 0  # bytes that it needs
        self.before = 0  # bytes that lie in it, one after the other
        self.segments = [step for step in steps if isinstance(step, Segment)]
        owners = sorted(owners, key=address)
        spans = spans_of(owners, self.segments)
        used = [i for i, (first, _) in enumerate(spans) if first >= 0]
        self.owners, spans = [owners[i] for i in used], spans[used]
        self.places: list[int] = []
        self.homes: dict[int, int] = {}  # by id of memory: where it is in the block
        if self.owners:
            end = sum([len(segment.tape) for segment in self.segments])
            spans[[id(owner) in kept for owner in self.owners], 1] = end
            sizes = [owner.nbytes for owner in self.owners]
            self.before = sum(sizes)
            self.places, self.total = placed(sizes, spans)

    def settle(self, block: Any) -> None:
        """Move all planned arrays into a block."""
        if not self.owners:
            return
        self.block = block
        skipped = -address(block) % LINE
        start = address(block) + skipped
        pairs = list(zip(self.owners, self.places, strict=True))
        self.homes = {id(x): skipped + at for x, at in pairs}
        table = ranges(self.owners, [start + at - address(x) for x, at in pairs])
        for segment in self.segments:
            tape = segment.tape
            kept = [x for x in tape.kept if not self.has_moved(x)]
            tape.move(table, [*kept, block])

    def forget(self) -> None:
        """Drop the notes on arrays that were moved."""
        self.owners, self.places, self.segments, self.homes = [], [], [], {}

    def let_go(self) -> None:
        """Release the pages of the block until the next replay."""
        if self.block is not None:
            release(self.block)

    def has_moved(self, array: Any) -> bool:
        return isinstance(array, np.ndarray) and id(memory(array)) in self.homes

    def moved(self, array: Any) -> Any:
        if not self.has_moved(array):
            return array
        owner = memory(array)
        return at_other_place(array, owner, self.block, self.homes[id(owner)])


def settle(plans: list[Plan]) -> None:
    """Allocate one block for several plans; no two of them are in use at the same time."""
    total = max([plan.total for plan in plans])
    if total:
        forget_memory()  # so that it is new, and nothing of it there before it is filled
        block = KERNELS.room(np.broadcast_to(np.uint8(0), (total + LINE,)))
        for plan in plans:
            plan.settle(block)


def movable(needed: list[Any], results: list[Any]) -> list[Any]:
    """The arrays that only kernels in C use, with the scratch arrays of these kernels."""
    found: dict[int, Any] = {}
    pinned = set(owners_of(results))
    for step in needed:
        made, reads = owners_of(step.made), owners_of(step.reads())
        if not step.is_taped:
            pinned |= set(made) | set(reads)
            continue
        if step.has_effects:
            continue
        found.update(made)
        if isinstance(step, OpStep):
            pinned |= set(owners_of(leaves_of(step.attrs)))
            between = owners_of(step.tape.kept)
            found.update(
                {
                    key: owner
                    for key, owner in between.items()
                    if key not in reads and key not in made and owner.dtype.kind == "f"
                }
            )
    return [
        owner
        for key, owner in found.items()
        if key not in pinned and is_owner(owner) and owner.nbytes
    ]


def spans_of(owners: list[Any], segments: list[Any]) -> Any:
    """For each array the first and the last kernel call that uses it, over all tapes; -1: none."""
    spans = np.full((len(owners), 2), -1, np.int64)
    table = ranges(owners, [0] * len(owners))
    start = 0
    for segment in segments:
        found = segment.tape.uses(table)
        here = found[:, 0] >= 0
        first = here & (spans[:, 0] < 0)
        spans[first, 0] = found[first, 0] + start
        spans[here, 1] = found[here, 1] + start
        start += len(segment.tape)
    return spans


def placed(sizes: list[int], spans: Any) -> tuple[list[int], int]:
    """Places in one block: by `packed` for large arrays, by `handed_down` for the others."""
    order = sorted(range(len(sizes)), key=lambda i: -sizes[i])
    count = len([i for i in order[:MOST] if sizes[i] >= LEAST])
    places = [0] * len(sizes)
    total = 0
    for some, find in ((order[:count], packed), (order[count:], handed_down)):
        found, room = find([sizes[i] for i in some], spans[some]) if some else ([], 0)
        for i, at in zip(some, found, strict=True):
            places[i] = total + at
        total += room
    return places, total


def handed_down(sizes: list[int], spans: Any) -> tuple[list[int], int]:
    """Places in one block by lifetimes alone, and the room they take.

    Each array takes the place of an array of equal size that is no longer needed, or a new place.
    """
    sizes = [-(-size // LINE) * LINE for size in sizes]
    places = [0] * len(sizes)
    total = 0
    free: dict[int, list[int]] = {}  # by size
    alive: list[tuple[int, int, int]] = []  # a heap of when they end, and where they are
    for i in np.argsort(spans[:, 0], kind="stable").tolist():
        first, last = spans[i].tolist()
        while alive and alive[0][0] < first:
            _, size, at = heapq.heappop(alive)
            free.setdefault(size, []).append(at)
        known = free.get(sizes[i])
        if known:
            places[i] = known.pop()
        else:
            places[i] = total
            total += sizes[i]
        heapq.heappush(alive, (last, sizes[i], places[i]))
    return places, total


def packed(sizes: list[int], spans: Any) -> tuple[list[int], int]:
    """Places such that what is alive at the same time does not overlap, and the room they take.

    Large ones first, each at the lowest place that is free as long as it lives; equal ones in the
    order in which they are made, or there would be gaps that none of them fits into.
    """
    sizes = [-(-size // LINE) * LINE for size in sizes]
    order = sorted(range(len(sizes)), key=lambda i: (-sizes[i], spans[i][0]))
    places = np.zeros(len(sizes), np.int64)
    ends = np.zeros(len(sizes), np.int64)
    begins, lasts = spans[:, 0], spans[:, 1]
    is_placed = np.zeros(len(sizes), bool)
    for i in order:
        beside = np.flatnonzero(is_placed & (begins <= lasts[i]) & (lasts >= begins[i]))
        beside = beside[np.argsort(places[beside], kind="stable")]
        taken = np.maximum.accumulate(ends[beside])  # up to where, below each that comes next
        gaps = places[beside[1:]] - taken[:-1] >= sizes[i]
        if not len(beside) or places[beside[0]] >= sizes[i]:
            at = 0
        else:
            at = int(taken[gaps.argmax() if gaps.any() else -1])
        places[i], ends[i] = at, at + sizes[i]
        is_placed[i] = True
    return places.tolist(), int(ends.max())


class Gift:
    """A large result: it is handed out as it is, and the kernels find other memory next time.

    That is found when the next call begins: by then the one before may be free again.
    """

    def __init__(self, result: Any, segments: list[Any]) -> None:
        owner = result.owner
        self.result = result
        self.place = address(owner)
        self.model = np.lib.stride_tricks.as_strided(
            np.empty(1, owner.dtype), owner.shape, owner.strides
        )
        spans = [(s.tape, *s.tape.uses(ranges([owner], [0]))[0].tolist()) for s in segments]
        self.spans = [span for span in spans if span[1] >= 0]
        x = result.held[0]
        self.how = x.shape, x.dtype
        self.offset, self.strides = address(x) - address(owner), x.strides
        result.owner = None
        for tape, _, _ in self.spans:
            kept = [x for x in tape.kept if id(owner) not in owners_of([x])]
            tape.move(ranges([], []), kept)

    def give(self) -> Any:
        array = self.result.held[0]
        self.result.held[0] = None
        return array

    def find_room(self) -> None:
        room = KERNELS.room(self.model)
        before = self.place
        for tape, first, last in self.spans:
            self.place = tape.move_to(before, room, first, last + 1)
        self.result.held[0] = np.ndarray(*self.how, room, self.offset, self.strides)


class NewEachTime:
    """A result that an op in Python makes and nobody else looks at: it is never stored."""

    def __init__(self, result: Any, step: PythonStep) -> None:
        self.step = step
        self.i = [x is result._array for x in step.made].index(True)
        step.keeps_new = True
        self.model = model_of(result._array)
        result.held, result.at, result.owner = step.made, self.i, None

    def give(self) -> Any:
        array = self.step.made[self.i]
        self.step.made[self.i] = self.model
        return array

    def find_room(self) -> None:
        """No-op: the op allocates its own output."""


def gifts(
    needed: list[Any], steps: list[Any], results: list[Any], read: list[Any]
) -> dict[int, Any]:
    """The results that can be given away, by their ids; what is `read` afterwards cannot."""
    segments = [step for step in steps if isinstance(step, Segment)]
    owners = [*[id(result.owner) for result in results], *owners_of(read)]
    found: dict[int, Any] = {}
    least = threshold(WORTH_GIVING)
    for result in results:
        owner = result.owner
        if owners.count(id(owner)) > 1 or owner.nbytes < least or not is_owner(owner):
            continue
        users = [step for step in needed if id(owner) in owners_of([*step.made, *step.reads()])]
        if is_only_made(users, result._array):
            found[id(result)] = NewEachTime(result, users[0])
        elif owner.flags.forc and are_kernels(users, owner):
            found[id(result)] = Gift(result, segments)
    return found


def hand_on(needed: list[Any], kept: list[Any]) -> None:
    """Pass results from op to op without a copy, where ops in Python make and read them.

    A result stays where it was allocated, which is memory that was just freed: it is in the cache.
    With kernels in C, small results are copied to where those kernels expect them.
    """
    in_python = [step for step in needed if is_in_python(step)]
    users: dict[int, list[Any]] = {}
    for step in needed if in_python else ():
        for owner in owners_of([*step.made, *step.reads()]):
            users.setdefault(owner, []).append(step)
    pinned = owners_of(kept)
    least = 0 if KERNELS is None else threshold(WORTH_GIVING)
    for step in in_python:
        if KERNELS is not None and len(step.made) > 1:
            continue
        for k, array in enumerate(step.made):
            readers = [each for each in users[id(memory(array))] if each is not step]
            is_read = bool(readers) and all([may_get(each, array) for each in readers])
            if is_owner(array) and id(array) not in pinned and array.nbytes >= least and is_read:
                give(step, k, readers)
            else:
                step.stored = [*step.stored, k]


def give(step: Any, k: int, readers: list[Any]) -> None:
    """Pass a result of a step directly to the steps that read it."""
    array = step.made[k]
    step.made[k] = model = model_of(array)
    for reader in readers:
        if isinstance(reader, GradientStep):
            places = reader.takes_new(array)
            step.handed = [*step.handed, *[(k, reader.arrays, i, None) for i in places]]
            continue
        for i, x in enumerate(reader.arrays):
            if isinstance(x, np.ndarray) and memory(x) is array:
                view = None if x is array else ViewOf(x, array)
                step.handed = [*step.handed, (k, reader.arrays, i, view)]
                if array.nbytes >= threshold(WORTH_GIVING):
                    reader.borrowed = [*reader.borrowed, (i, model)]
                reader.arrays[i] = model


def is_in_python(step: Any) -> bool:
    return type(step) is PythonStep


def may_get(step: Any, array: Any) -> bool:
    """Whether a step can be given an array each time anew: an op in Python, or one for `.grad`."""
    if isinstance(step, GradientStep):
        views = [x for x in step.reads() if memory(x) is array]
        return KERNELS is None and all([x is array for x in views])
    if not is_in_python(step) or id(array) in owners_of([*step.made, *leaves_of(step.attrs)]):
        return False
    views = [x for x in step.arrays if isinstance(x, np.ndarray) and memory(x) is array]
    return array.flags.c_contiguous or all([x is array for x in views])


def is_only_made(users: list[Any], array: Any) -> bool:
    """Whether one op in Python makes an array, and no other step uses it."""
    return (
        len(users) == 1
        and is_in_python(users[0])
        and len(users[0].made) == 1
        and users[0].made[0] is array
    )


def are_kernels(users: list[Any], owner: Any) -> bool:
    """Whether kernels in C make an array and nobody else looks at it."""
    kept = [not step.is_taped or step.has_effects or type(step) is FillStep for step in users]
    return not any(kept) and any([id(owner) in owners_of(step.made) for step in users])
