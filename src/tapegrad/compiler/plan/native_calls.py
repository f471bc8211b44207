"""Ops as calls of kernels in C, to be run again without Python.

What an op's kernel computes with the native library alone can be replayed by pointer. Whether it is
the native library alone is not declared anywhere: it is tried. The results and all scratch memory
are overwritten, the recorded calls are run, and the results must be there again, bit for bit.
"""

from __future__ import annotations

import bisect
import itertools
import math
import sys
import weakref
from array import array as packed
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...core.base import TensorBase, Version
from ...core.python_dispatch import leaves_of
from ...core.references import references
from ...core.strides import address, memory
from ...core.tensor_lists import add_writes, count_gradient_writes
from ...expressions.program import BOOL_KIND, COMPUTED, DOUBLE_KIND, FLOAT_KIND
from ...expressions.trace import Tracer
from ...kernels.cpu import KERNELS
from ...kernels.cpu.overrides import HOME
from ...ops.draws.generators import default_generator
from ..capture.undo import fingerprint, same_bits
from .early_release import is_large, release
from .fusion import Shared, fused
from .gather_tables import tape_of_moves

Tape = Any  # kernels/cpu/c/tape/tape.c
Again = Callable[[], list[Any]]  # the results of an op, computed once more

# The families of kernels that do the same whatever the values are, and some of the others' ops.
TABLES = frozenset(("conv", "batch_norm", "recurrent", "attention"))  # with tables of places
CHECKED = frozenset(("gather", "sorting"))  # these look at places before they use them
MOVES = "moves"  # they have a table as well
FAMILIES = TABLES.union(
    CHECKED,
    ("products", "softmax", "norms", "reduce", "losses", "pool2d", "windows", "extremes", "masks"),
)


def taped(function: Callable[..., Any], op: Any, tensors: Any, *rest: Any) -> tuple[Any, Any]:
    """Run a function of ops: its result, and the tape of its kernels (None: Python did more)."""
    home = HOME.get(op.name)

    def again() -> list[Any]:
        answer = as_taped(function, op, tensors, *rest)
        return [t._array for t in ((answer,) if op.single else answer)]

    if KERNELS is None or not (op.native or home in FAMILIES):
        answer = function(op, tensors, *rest)
        if op.view or not op.single or not all([isinstance(t, TensorBase) for t in tensors]):
            return answer, None
        arrays = [t._array for t in tensors]
        return answer, taped_copies(op, arrays, rest[0], answer._array, again)
    KERNELS.tape_begin()
    try:
        answer = function(op, tensors, *rest)
    finally:
        tape = KERNELS.tape_end()
    results = [t._array for t in ((answer,) if op.single else answer)]
    inputs = [t._array for t in tensors if isinstance(t, TensorBase)]
    inputs += [x for x in leaves_of(rest[0]) if isinstance(x, np.ndarray)]
    same = None
    if len(tape):
        given = [None if isinstance(t, TensorBase) else t for t in tensors]
        what = (op.name, spelled(given), spelled(rest[0]))
        same = does_the_same(tape, inputs, results, None, home, what)
    if same:
        return answer, tape
    if same is not None:
        spoilt = [weakref.ref(memory(x)) for x in results]
        del answer, results, tape  # else there would be two of them at a time
        answer = as_taped(function, op, tensors, *rest)
        results = [t._array for t in ((answer,) if op.single else answer)]
        fill_again(spoilt, results)
    if op.native and op.elementwise:  # they lie otherwise, or NumPy cast one of them
        return answer, strided_tape(op, tensors, rest[0], results, again)
    return answer, None


def as_taped(function: Callable[..., Any], op: Any, *rest: Any) -> Any:
    """Run a function by the kernels that `taped` would choose, without recording them."""
    if KERNELS is None or not (op.native or HOME.get(op.name) in FAMILIES):
        return function(op, *rest)
    KERNELS.tape_begin()
    try:
        return function(op, *rest)
    finally:
        KERNELS.tape_end()


def taped_write(op: Any, arrays: list[Any], attrs: Any, before: Any) -> Any:
    """A write as a call of the vector machine; `before`: what the target was. It has been done."""
    into = getattr(op.kernel, "into", None)
    if into is None:
        return None
    target = arrays[0]
    after = target.copy()
    target[...] = before
    KERNELS.tape_begin()
    try:
        done = into(target, *arrays, *attrs)
    finally:
        tape = KERNELS.tape_end()
    if done and len(tape) and same_bits(target, after):
        return tape
    target[...] = after
    return None


LARGE_DRAW = 1 << 20  # bytes


def taped_draw(run: Callable[[], Any], given: Any, target: Any = None) -> tuple[Any, Any]:
    """Run a function that may draw random numbers: its result, and the tape of its kernels.

    The tape is None if Python did more. `given` are the function's arguments, `target` is an array
    that it overwrites.
    """
    stream = default_generator.stream
    if KERNELS is None:
        return run(), None
    before = stream.mark()
    KERNELS.tape_begin()
    try:
        out = run()
    finally:
        tape = KERNELS.tape_end()
    results = [t._array for t in leaves_of(out) if isinstance(t, TensorBase)]
    if not len(tape) or stream.is_at(before):
        return out, None
    arrays = results if target is None else [target]
    if sum([x.nbytes for x in arrays]) > LARGE_DRAW:
        return out, None  # a copy would take memory, and Python does not take the time
    after, wanted = stream.mark(), [x.copy() for x in arrays]
    # What Python made of the arguments, a copy in another order perhaps, is not made anew in a
    # replay: only what the kernels themselves fill may lie in other memory.
    known = [t._array for t in leaves_of(given) if isinstance(t, TensorBase)]
    known += [*arrays, *stream.memory(), *tape.checked]
    owners = {id(memory(x)) for x in known}
    kept = [memory(x) for x in tape.kept if isinstance(x, np.ndarray)]
    between = [x for x in kept if id(x) not in owners and x.flags.writeable]
    if len(between) < len([x for x in kept if id(x) not in owners]):
        return out, None
    stream.go_to(before)
    for x in (*arrays, *between):
        spoil(x)
    done = tape() < 0 and stream.is_at(after)
    stream.go_to(after)
    if done and all(map(same_bits, arrays, wanted)):
        return out, tape
    for x, values in zip(arrays, wanted, strict=True):
        x[...] = values
    return out, None


def taped_copy(target: Any, source: Any) -> Any:
    """The copy of an array, or of one number, into another array; it has been done."""
    if KERNELS is None or type(target) is not np.ndarray or not target.size:
        return None
    if isinstance(source, np.ndarray):
        if type(source) is not np.ndarray or memory(source) is memory(target):
            return None
        tape = copy_tape(np.broadcast_to(source, target.shape), target)
    else:
        number = target[(0,) * target.ndim].copy()
        tape = bytes_tape(np.broadcast_to(number, target.shape), target)
    if tape is None:
        return None
    after = target.copy()
    spoil(target)
    if tape() < 0 and same_bits(target, after):
        return tape
    target[...] = after
    return None


class Tried:
    """Tapes that were tried, by what they do and how all their arrays lie in memory.

    Another tape of which all that is the same consists of the same calls: trying it again would
    say nothing new. (A model has many layers alike; trying took a fifth of recording a GPT.)
    """

    def __init__(self) -> None:
        self.known: set[Any] = set()

    def add(self, key: Any) -> None:
        if len(self.known) >= MOST_TRIED:
            self.known.clear()
        self.known.add(key)


MOST_TRIED = 4096
TRIED = Tried()


def spelled(value: Any) -> Any:
    """Attributes and numbers of an op so that they can be compared; arrays are compared apart."""
    if isinstance(value, (list, tuple)):
        return type(value).__name__, *[spelled(v) for v in value]
    if isinstance(value, dict):
        return "dict", *[(key, spelled(v)) for key, v in value.items()]
    if isinstance(value, np.ndarray) or hasattr(value, "_array"):
        return None
    return type(value).__name__, repr(value)


def layout(x: Any, owners: dict[int, int]) -> Any:
    """The layout of an array, and which of the arrays before it share its memory."""
    if not isinstance(x, np.ndarray):
        return type(x).__name__
    owner = memory(x)
    first = owners.setdefault(id(owner), len(owners))
    if owner is x:
        return x.shape, x.strides, x.dtype.num, first
    at = address(x) - address(owner)
    return x.shape, x.strides, x.dtype.num, x.flags.aligned, owner.shape, first, at


def does_the_same(
    tape: Tape,
    inputs: list[Any],
    results: list[Any],
    again: Again | None,
    home: Any = None,
    what: Any = None,
) -> bool | None:
    """Whether a tape of a kernel of a family computes the results from the inputs; if not, they
    are there `again` all the same, unless the caller sees to that. None: nothing was tried.

    `what` says what the op is, where tapes that are alike in all else do the same.
    """
    given = {id(memory(x)) for x in inputs}
    owners = {id(memory(x)): memory(x) for x in results}
    if not given.isdisjoint(owners):
        return None  # it writes into an input, or looks at one
    key: Any = None
    if what is not None:
        places: dict[int, int] = {}
        key = (what, home, len(tape), len(inputs))
        for some in (inputs, results, tape.kept):
            key = (*key, *[layout(x, places) for x in some])
        if key in TRIED.known:
            kept = [memory(x) for x in tape.kept if isinstance(x, np.ndarray)]
            between = {
                id(x): x
                for x in kept
                if x.dtype.kind == "f" and id(x) not in given and id(x) not in owners
            }
            del kept
            for each in list(between):
                let_go(between.pop(each), tape.kept)
            return True
    wanted = [fingerprint(x) for x in results]
    own = {id(memory(x)) for x in results}
    flags = {id(x) for x in tape.checked}
    for x in tape.kept:
        if not isinstance(x, np.ndarray) or id(memory(x)) in given or id(x) in flags:
            continue
        owner = memory(x)
        if home is None and not owner.ndim and owner.dtype.kind != "f":
            continue  # a number among the operands of an elementwise op: no table
        if id(owner) not in own and owner.dtype.kind != "f" and home not in CHECKED:
            if home not in TABLES and home is not MOVES:
                return None  # a table of places, perhaps made from values: nothing to play with
            continue
        owners[id(owner)] = owner
    for owner in owners.values():
        spoil(owner)
    done = tape() < 0
    same = done and [fingerprint(x) for x in results] == wanted
    if same:
        x = owner = None
        if key is not None:
            TRIED.add(key)
        for each in owners.keys() - own:
            let_go(owners.pop(each), tape.kept)
    elif again is not None:
        for x, values in zip(results, again(), strict=True):
            x[...] = values
    return same


def let_go(owner: Any, kept: list[Any]) -> None:
    """Release a kernel's scratch array if nothing else refers to it."""
    if is_large(owner):
        ours = sum([x is owner or getattr(x, "base", None) is owner for x in kept])
        if references(owner) <= ours + 1:  # the list and the name here
            release(owner)


def fill_again(spoilt: list[Any], results: list[Any]) -> None:
    """Restore overwritten arrays that other code refers to."""
    for known, new in zip(spoilt, results, strict=True):
        owner = known()
        if owner is not None and owner is not memory(new):
            owner[...] = memory(new)


def spoil(array: Any) -> None:
    """Overwrite an array with values that no kernel could take for an index."""
    kind = array.dtype.kind
    array[...] = np.nan if kind == "f" else ~array if kind in "bu" else -1


# ---------------------------------------------------------------------- copies

KINDS = {
    np.dtype(np.float32): FLOAT_KIND,
    np.dtype(np.float64): DOUBLE_KIND,
    np.dtype(bool): BOOL_KIND,
}
DTYPES = {kind: dtype for dtype, kind in KINDS.items()}
I64, BOOL = np.dtype(np.int64), np.dtype(bool)
CONVERTED = {  # c/tape/integers.c
    (I64, np.dtype(np.float32)): 0,
    (I64, np.dtype(np.float64)): 1,
    (BOOL, I64): 2,
    (I64, BOOL): 3,
}
MOST_DIMS = 8
LARGE_TURN = 4096  # elements
COPIES: dict[Any, Any] = {}  # programs, by what is copied: there may be many alike
MOST_COPIES = 16


def copies(op: Any, arrays: list[Any], attrs: Any, result: Any) -> list[tuple[Any, Any]]:
    """The (source, target) pairs that an op consists of; none if it is not made of copies."""
    if op.name in ("clone", "cast"):
        return [(arrays[0], result)]
    if op.name in ("stack_steps", "mkldnn_rnn_layer") and arrays[0].flags.c_contiguous:
        return [(arrays[0].reshape(result.shape), result)]
    if op.name == "flip":
        return [(np.flip(arrays[0], attrs[0]), result)]
    if op.name == "stack":
        return [(x, np.moveaxis(result, attrs[0], 0)[i, ...]) for i, x in enumerate(arrays)]
    if op.name == "cat" and all([x.ndim == result.ndim for x in arrays]):
        ends = np.cumsum([x.shape[attrs[0]] for x in arrays])[:-1].tolist()
        return list(zip(arrays, np.split(result, ends, attrs[0]), strict=True))
    return []


def taped_copies(op: Any, arrays: list[Any], attrs: Any, result: Any, again: Again) -> Any:
    """A tape of an op that only copies, cast or not."""
    pairs = copies(op, arrays, attrs, result)
    if KERNELS is None:
        return None
    if not pairs and len(arrays) == 1:
        tape = tape_of_moves(op, arrays[0], attrs, result)
        same = tape is not None and does_the_same(tape, arrays, [result], again, MOVES)
        return tape if same else None
    tapes = [copy_tape(source, target) for source, target in pairs if target.size]
    if any([tape is None for tape in tapes]):
        return None
    tape = KERNELS.join_tapes(tapes)
    return tape if len(tape) and does_the_same(tape, arrays, [result], again) else None


def strided_tape(op: Any, tensors: Any, attrs: Any, results: list[Any], again: Again) -> Any:
    """A tape of an elementwise op on arrays whose layouts the ordinary call does not take."""
    arrays = [t._array if isinstance(t, TensorBase) else t for t in tensors]
    kinds = {KINDS.get(x.dtype) for x in arrays if isinstance(x, np.ndarray)} - {BOOL_KIND}
    shape = results[0].shape
    if any([isinstance(x, complex) for x in arrays]):
        return None
    if len(kinds) > 1 or None in kinds or len(shape) > MOST_DIMS or not results[0].size:
        return None
    of_truths = not kinds
    kind = FLOAT_KIND if of_truths else kinds.pop()
    if op.name == "pow_scalar" and (*arrays[1:], *attrs) == (1,):
        tape = copy_tape(arrays[0], results[0])
        same = tape is not None and does_the_same(tape, arrays[:1], results, again)
        return tape if same else None
    said = Tracer(op, KERNELS.STEPS).forward(kind, tuple(attrs), 1, of_truths)
    if not isinstance(said, tuple) or len(said[3]) != len(results):
        return None
    if any([arrays[i] is None for i in said[1]]):  # a weight that is not there
        return None
    if any([x.dtype not in KINDS for x in results]):
        return None
    inputs = [operand_of(arrays[i], kind, shape) for i in said[1]]
    outputs = [operand_of(x, kind, shape) for x in results]
    if any([x.dtype != r for x, r in zip(results, map(DTYPES.get, said[3]), strict=True)]):
        return None
    given = [x for x in arrays if isinstance(x, np.ndarray)]
    tape = KERNELS.fused_tape(said, shape, (*inputs, *outputs), [*given, *results])
    return tape if does_the_same(tape, given, results, again) else None


def operand_of(x: Any, kind: Any, shape: Any) -> Any:
    """An array or number as the vector machine takes it, broadcast to a shape."""
    if not isinstance(x, np.ndarray):
        return kind, 0, float(x), (0,) * len(shape)
    return KINDS[x.dtype], address(x), 0.0, np.broadcast_to(x, shape).strides


def copy_tape(source: Any, target: Any) -> Any:
    """One array copied into another of the same shape; floats may be of two kinds."""
    kinds = KINDS.get(source.dtype), KINDS.get(target.dtype)
    goes_back = any([step < 0 for step in source.strides])  # the vector machine does not
    in_parts = not target.flags.c_contiguous  # rows of it, perhaps: nothing to join it with
    if source.dtype == target.dtype and (
        goes_back or in_parts or turns(source) or source.dtype.kind != "f"
    ):
        return bytes_tape(source, target)
    pair = CONVERTED.get((source.dtype, target.dtype))
    if pair is not None and source.flags.c_contiguous and target.flags.c_contiguous:
        KERNELS.tape_begin()
        try:
            KERNELS.KERNELS["convert"]((source, target), (source.size, pair))
        finally:
            tape = KERNELS.tape_end()
        return tape
    if None in kinds or source.ndim > MOST_DIMS or source.shape != target.shape:
        return None
    if kinds[1] == BOOL_KIND or not source.flags.aligned or not target.flags.aligned:
        return None
    kind = DOUBLE_KIND if DOUBLE_KIND in kinds else FLOAT_KIND
    if kinds[0] == BOOL_KIND:  # one or zero: once it is multiplied it is no truth value any more
        constants, steps = (1.0,), ((KERNELS.STEPS["mul"][0], 2, 0, 1),)
    else:
        constants, steps = (), ((KERNELS.STEPS["copy"][0], 1, 0),)
    said = (kind, (0,), constants, (kinds[1],), (COMPUTED,), 2 + len(constants), steps, 0.15)
    operands = (
        (kinds[0], address(source), 0.0, source.strides),
        (kinds[1], address(target), 0.0, target.strides),
    )
    key = said, kinds, source.shape, source.strides, target.strides
    tape = KERNELS.fused_tape(COPIES.get(key, said), source.shape, operands, [source, target])
    if len(COPIES) >= MOST_COPIES:
        COPIES.clear()
    COPIES[key] = tape.kept[0]
    return tape


def turns(source: Any) -> bool:
    """Whether a copy transposes: the fastest dimension is not the last. Those go in tiles."""
    steps = [step for n, step in zip(source.shape, source.strides, strict=True) if n > 1]
    if source.size < LARGE_TURN or source.itemsize not in steps[:-1]:
        return False
    return bool(steps[-1] > source.itemsize)


def bytes_tape(source: Any, target: Any) -> Any:
    """A copy as bytes between arrays of one dtype; a source of None is zeros."""
    if KERNELS is None:
        return None
    KERNELS.tape_begin()
    try:
        done = KERNELS.copy_into(target, source)
    finally:
        tape = KERNELS.tape_end()
    return tape if done else None


class Outline:
    """A description of steps for reports, which keeps no array alive."""

    def __init__(self, name: str, steps: list[Any], is_needed: Any = None) -> None:
        self.name = name
        self.seconds = math.inf  # the least that it took while it was timed
        kept = [x for step in steps for x in step.made if is_needed is None or is_needed(x, steps)]
        self.bytes = sum([x.nbytes for x in kept])  # what it fills, less what nobody else reads
        reads = [id(memory(x)) for step in steps for x in step.reads()]
        self.reads = list(dict.fromkeys(reads))
        made = [x for step in steps for x in step.made]
        self.made = [id(memory(x)) for x in made]
        self.shape = list(made[-1].shape) if made else None
        self.dtype = made[-1].dtype if made else None


class Outlines:
    """The Outlines of a segment's parts, of which there may be thousands, in a few arrays.

    Small objects that outlive a recording would each keep a megabyte of Python's from the system.
    """

    def __init__(self, parts: list[Any], is_needed: Any) -> None:
        self.names: list[str] = []
        self.like: list[Any] = []  # (shape, dtype)
        self.numbers = packed("q")  # bytes, ids of what is read, ids of what is made
        self.ends = packed("q")  # of these three
        known: dict[Any, Any] = {}
        for _, steps in parts:
            name = sys.intern("+".join([step.name for step in steps]))
            each = Outline(name, steps, is_needed if len(steps) > 1 else None)
            like = None if each.shape is None else (tuple(each.shape), each.dtype)
            self.names.append(name)
            self.like.append(known.setdefault(like, like))
            for some in ([each.bytes], each.reads, each.made):
                self.numbers.extend(some)
                self.ends.append(len(self.numbers))
        self.seconds = np.full(len(parts), np.inf)

    def __iter__(self) -> Iterator[Outline]:
        ends = [0, *self.ends]
        for i, name in enumerate(self.names):
            each = Outline(name, [])
            cuts = ends[3 * i : 3 * i + 4]
            pieces = [self.numbers[a:b].tolist() for a, b in itertools.pairwise(cuts)]
            (each.bytes,), each.reads, each.made = pieces
            each.seconds = float(self.seconds[i])
            if self.like[i] is not None:
                each.shape, each.dtype = list(self.like[i][0]), self.like[i][1]
            yield each


class Refused(Exception):
    """A kernel does not take a value, such as an index out of range, or finds no memory.

    Memory of the steps before it has been used again by then, so the op cannot be asked what is
    wrong: the function that was recorded says it, once the replay was undone.
    """


class Segment:
    """Consecutive steps as one call into C."""

    name = "kernels"

    def __init__(self, steps: list[Any], is_needed: Any, shared: Shared, first: int = 0) -> None:
        numbers = {id(step): first + i for i, step in enumerate(steps)}
        parts = fused(steps, is_needed, shared)
        # The steps of the recording that each part does, by number, one part after the other.
        self.sources = packed("l", [numbers[id(step)] for _, some in parts for step in some])
        self.source_ends = packed("l", itertools.accumulate([len(some) for _, some in parts]))
        self.count = len(steps)
        cells = {id(step.cell): step.cell for step in steps if step.cell is not None}
        counts = Counter([id(step.cell) for step in steps if step.cell is not None])
        counted = [(cell, counts[key]) for key, cell in cells.items()]
        # How many writes versions count, and those of the gradients of leaves.
        self.cells = [pair for pair in counted if isinstance(pair[0], Version)]
        self.leaves = [(cell.leaf, n) for cell, n in counted if not isinstance(cell, Version)]
        self.counts = bool(counted)
        self.draws = any([step.draws for step in steps])
        self.has_effects = self.draws or self.counts
        self.outlines = Outlines(parts, is_needed)
        self.names = self.outlines.names
        # In which part a step is run, where one of them may refuse a value.
        self.parts: dict[int, int] = {}
        if any([tape.checked for tape, _ in parts]):
            self.parts = {id(step): i for i, (_, some) in enumerate(parts) for step in some}
        self.ends = packed("q", itertools.accumulate([len(tape) for tape, _ in parts]))
        self.tape = KERNELS.join_tapes([tape for tape, _ in parts])

    def call(self, *from_where: Any) -> int:
        """Run the kernels; the index of the one that refused a value, or -1."""
        if not self.draws:
            return self.tape(*from_where)  # type: ignore[no-any-return]
        with default_generator.stream.drawn_by_others():
            return self.tape(*from_where)  # type: ignore[no-any-return]

    def run(self) -> None:
        stopped = self.call() if self.draws else self.tape()
        if stopped >= 0:
            raise Refused(self.names[bisect.bisect_right(self.ends, stopped)])
        if self.counts:
            self.count_writes()

    def count_writes(self) -> None:
        add_writes(self.cells)
        count_gradient_writes(self.leaves)

    def run_timed(self) -> None:
        """`call` with a clock beside each kernel."""
        taken = np.zeros(len(self.tape))
        stopped = self.call(0, taken)
        if stopped >= 0:
            raise Refused(self.names[bisect.bisect_right(self.ends, stopped)])
        self.count_writes()
        parts = [part.sum() for part in np.split(taken, self.ends[:-1])]
        np.minimum(self.outlines.seconds, parts, out=self.outlines.seconds)


class Readers:
    """Tells whether other steps than some given ones read an array."""

    def __init__(self, steps: list[Any], results: list[Any]) -> None:
        self.pinned = {id(memory(x)) for x in results}
        self.counts = count_readers(steps)  # in all
        self.group: Any = None  # that was asked for last
        self.inside: Counter[int] = Counter()

    def __call__(self, array: Any, by_others_than: list[Any]) -> bool:
        owner = id(memory(array))
        if owner in self.pinned:
            return True
        if self.group is not by_others_than:
            self.group, self.inside = by_others_than, count_readers(by_others_than)
        return self.counts[owner] > self.inside[owner]


def count_readers(steps: list[Any]) -> Counter[int]:
    """The number of steps that read each piece of memory, by its id."""
    counts: Counter[int] = Counter()
    for step in steps:
        counts.update({id(memory(x)) for x in step.reads()})
    return counts


def in_segments(
    steps: list[Any], results: list[Any], numbers: dict[int, float] | None = None
) -> list[Any]:
    """The steps with those that have tapes joined; `results` are arrays that are read at the end,
    `numbers` those of arrays that never change, by address."""
    shared = Shared(numbers or {})
    is_needed = Readers(steps, results)
    found: list[Any] = []
    together: list[Any] = []
    for i, step in enumerate([*steps, None]):
        if step is not None and step.is_taped:
            together.append(step)
            continue
        if together:
            found.append(Segment(together, is_needed, shared, i - len(together)))
            together = []
        if step is not None:
            found.append(step)
    return found
