"""Which outputs of a function depend on which inputs, found by running the function once.

A `Tracer` is a mode below autograd, so it sees every op and every write, those of gradient rules
and of vmap included. It keeps, for each element of memory, the set of inputs that the element
depends on. Views need no rule: they look at the same memory. The result of any other op follows
from what kind of function the op is. No list of ops says so; the kernel itself is asked:

- an elementwise op (its block says so) relates elements at the same place after broadcasting;
- an op that is affine in each tensor that may change (its kernel is tried at random points) is a
  matrix whose non-zero places are found by applying the kernel to parts of a random input;
- any other op is tried on slices: a dimension along which the result of a slice is the slice of the
  result is independent, and along all others every element depends on every element.

A pattern never gets too small by the values at hand: tensors that depend on an argument, and all
that require grad, are replaced by random numbers in these trials. Indices that are computed from
the arguments are not trusted: what they select from is taken to be used as a whole.
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..autograd.view_history import CopySlices
from ..core.base import TensorBase, wrap
from ..core.dispatch import apply, run_as
from ..core.host_arrays import host
from ..core.node import AccumulateGrad, OpNode
from ..core.op import Op
from ..core.python_dispatch import Call, OpMode, leaves_of
from ..core.record import FLOATS
from ..core.rule_functions import RECORDED
from ..core.strides import address, memory
from ..sparse.history import NamedNode

Piece = tuple[Any, "Sets", Any]  # places of results, the sets of an operand, places in it

MOST_PARTS = 32  # kernel calls per halving of an affine op's input
MOST_PAIRS = 20_000_000
LARGE = 64  # elements, for which it pays to look at slices
FACTORIES = ("_like", "detach")  # endings of functions whose results have no new dependence


class Sets:
    """A set of inputs per element, in compressed rows. A `full` set holds all, and lists none."""

    def __init__(self, start: Any, inputs: Any, full: Any) -> None:
        self.start = start
        self.inputs = inputs
        self.full = full

    def none(self) -> bool:
        return not len(self.inputs) and not self.full.any()

    def listed(self, count: int) -> tuple[Any, Any]:
        """(element, input) of every member, in order; `count` inputs there are."""
        sizes = np.where(self.full, count, np.diff(self.start))
        members = np.empty(int(sizes.sum()), np.int64)
        whole = np.repeat(self.full, sizes)
        members[~whole] = self.inputs
        members[whole] = np.tile(np.arange(count), int(self.full.sum()))
        return np.repeat(np.arange(len(sizes)), sizes), members


def empty(count: int, full: bool = False) -> Sets:
    start = np.zeros(count + 1, np.int64)
    return Sets(start, np.zeros(0, np.int64), np.full(count, full))


def united(count: int, pieces: list[Piece], width: int) -> Sets:
    """For each of `count` results, the union of the sets at its places in the pieces."""
    full = np.zeros(count, bool)
    keys = []
    ordered = len(pieces) == 1
    for places, sets, at in pieces:
        full[places[sets.full[at]]] = True
        sizes = sets.start[at + 1] - sets.start[at]
        total = int(sizes.sum())
        if total:
            first = np.repeat(sets.start[at] - (np.cumsum(sizes) - sizes), sizes)
            found = sets.inputs[first + np.arange(total)]
            keys.append(np.repeat(places, sizes) * width + found)
            ordered = ordered and bool((np.diff(places) > 0).all())
    key = np.concatenate(keys) if keys else np.zeros(0, np.int64)
    if not ordered:
        key.sort()  # np.unique would hash, which takes longer
        key = key[np.diff(key, prepend=-1) > 0]
    owner = key // width if width else key
    full |= np.bincount(owner, minlength=count) == max(width, 1)
    if full.any():
        listed = ~full[owner]
        key, owner = key[listed], owner[listed]
    start = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(owner, minlength=count), out=start[1:])
    return Sets(start, key - owner * width, full)


class Memory:
    """A piece of memory and which inputs its elements depend on, in units of one element."""

    def __init__(self, array: Any, unit: int, sets: Sets, varies: bool) -> None:
        self.array = array  # held, so that no other memory gets its id
        self.unit = unit
        self.sets = sets
        self.varies = varies  # other arguments give other values


class Operand:
    """A tensor in a call of an op: its sets, and whether its values are the same in each call."""

    def __init__(self, t: Any, sets: Sets, varies: bool) -> None:
        self.tensor = t
        self.sets = sets
        self.varies = varies
        self.depends = not sets.none()


class Tracer(OpMode):
    """A block in which dependence on the elements of some tensors is followed."""

    def __init__(self, width: int) -> None:
        self.width = width  # how many inputs there are
        self.known: dict[int, Memory] = {}

    def give(self, t: Any, sets: Sets) -> None:
        """An argument, and which inputs its elements are; none of them if it is not followed."""
        array = memory(t._array)
        self.known[id(array)] = Memory(array, t._array.itemsize, sets, True)

    # ------------------------------------------------------------------ memory

    def known_memory(self, t: Any) -> Memory | None:
        return self.known.get(id(memory(bare(t))))

    def meet(self, t: Any) -> Operand:
        """The sets of the elements of a tensor, in row-major order."""
        array = bare(t)
        found = self.known_memory(t)
        if comes_from_elsewhere(t):
            self.put(t, empty(array.size, full=True), True)
            found = self.known_memory(t)
        if found is None:
            return Operand(t, empty(array.size), bool(t._wants_grad))
        if is_whole(array, found):
            return Operand(t, found.sets, found.varies)
        units = units_of(array, found)
        places = np.repeat(np.arange(array.size), units.shape[1])
        return Operand(
            t, united(array.size, [(places, found.sets, units.reshape(-1))], self.width), True
        )

    def put(self, t: Any, sets: Sets, varies: bool) -> None:
        """The elements of a tensor have been written."""
        array = bare(t)
        found = self.known_memory(t)
        root = memory(array)
        if found is None:
            unit = root.itemsize
            count = max(root.nbytes // max(unit, 1), 1)
            found = self.known[id(root)] = Memory(root, unit, empty(count), varies)
        found.varies |= varies
        count = len(found.sets.full)
        if is_whole(array, found):
            found.sets = sets
            return
        units = units_of(array, found)
        stays = np.ones(count, bool)
        if array.itemsize >= found.unit:  # else an element is a part of what it is in
            stays[units] = False
        old = np.flatnonzero(stays)
        places = np.repeat(np.arange(array.size), units.shape[1])
        pieces: list[Piece] = [(old, found.sets, old), (units.reshape(-1), sets, places)]
        found.sets = united(count, pieces, self.width)

    # ------------------------------------------------------------------ what runs

    def run(self, op: Op, tensors: Any, attrs: Any, watch: Any) -> Any:
        tensors = tuple(tensors)
        given = self.operands(tensors)
        out = apply(op, tensors, attrs, watch)
        if varying(given) or self.vary((attrs, watch)):
            outs = [out] if isinstance(out, TensorBase) else list(out)
            self.note(op, given, attrs, watch, outs)
        return out

    def operands(self, tensors: Any) -> list[Any]:
        """An `Operand` for each tensor; numbers and None stay."""
        return [self.meet(t) if isinstance(t, TensorBase) else t for t in tensors]

    def vary(self, values: Any) -> bool:
        """Whether one of the tensors and arrays in a value depends on the arguments."""
        for value in leaves_of(values):
            array = bare(value) if isinstance(value, TensorBase) else value
            if isinstance(array, np.ndarray):
                found = self.known.get(id(memory(array)))
                if found is not None and found.varies:
                    return True
        return False

    def note(self, op: Op, given: Any, attrs: Any, watch: Any, outs: list[Any]) -> None:
        """Give results of an op their sets; views have those of the memory that they show."""
        roots = [id(memory(bare(given[i].tensor))) for i in tensors_among(given)]
        if all([id(memory(bare(t))) in roots for t in outs]):
            return
        shapes = [t._array.shape for t in outs]
        blind = self.vary((attrs, watch))
        for k, sets in enumerate(self.result(op, given, attrs, shapes, blind)):
            moves = op.differentiable and outs[k]._array.dtype.kind in FLOATS
            moves = moves and k not in op.plain_outs
            self.put(outs[k], sets if moves else empty(outs[k]._array.size), True)

    def result(self, op: Op, given: Any, attrs: Any, shapes: Any, blind: bool) -> list[Sets]:
        """The sets of the results of an op."""
        depends = depending(given)
        sizes = [math.prod(shape) for shape in shapes]
        if not depends or not op.differentiable:
            return [empty(size) for size in sizes]
        if op.elementwise:
            return [self.at_same_places(given, depends, shape) for shape in shapes]
        for i in tensors_among(given):
            blind |= given[i].varies and bare(given[i].tensor).dtype.kind not in FLOATS
        links = None if blind else links_of(op, given, attrs, shapes)
        made = []
        for k, size in enumerate(sizes):
            pieces: list[Piece] = []
            for i in depends:
                sets: Sets = given[i].sets
                places, at, groups = everything(size, sets) if links is None else links(k, i)
                if groups is not None:  # sets that many elements use are united once
                    count = int(max(groups.max(initial=-1), at.max(initial=-1))) + 1
                    sets = united(count, [(groups, sets, np.arange(len(groups)))], self.width)
                pieces.append((places, sets, at))
            made.append(united(size, pieces, self.width))
        return made

    def at_same_places(self, given: Any, depends: list[int], shape: Any) -> Sets:
        size = math.prod(shape)
        pieces: list[Piece] = []
        for i in depends:
            own = bare(given[i].tensor).shape
            numbers = np.arange(math.prod(own)).reshape(own)
            pieces.append(
                (np.arange(size), given[i].sets, np.broadcast_to(numbers, shape).reshape(-1))
            )
        return united(size, pieces, self.width)

    def ask(self, call: Call) -> Any:
        shown = [t for t in leaves_of((call.args, call.kwargs)) if isinstance(t, TensorBase)]
        if call.written is not None:
            op, tensors, attrs = call.written
            target, given = tensors[0], self.operands(tensors)
            varies = varying(given) or self.vary((attrs, shown))
            size = bare(target).size
            sets = empty(size)
            if varies:
                watched = [t for t in shown if not any([t is x for x in tensors])]
                blind = self.vary((attrs, watched))
                (sets,) = self.result(op, given, attrs, [bare(target).shape], blind)
            out = call.run(call.args, call.kwargs)
            self.put(target, sets, varies)
            return out
        given = self.operands(shown)
        out = call.run(call.args, call.kwargs)
        name = call.overload.name().partition(".")[0]
        if name.endswith(FACTORIES) or "::new_" in name or not self.vary(shown):
            return out
        for t in leaves_of(out):
            if isinstance(t, TensorBase) and self.known_memory(t) is None:
                self.put(t, self.all_of(given, t), True)
            elif isinstance(t, TensorBase) and any([t is x for x in shown]):
                before = self.meet(t).sets
                every = np.arange(bare(t).size)
                pieces: list[Piece] = [
                    (every, before, every),
                    (every, self.all_of(given, t), every),
                ]
                self.put(t, united(bare(t).size, pieces, self.width), True)
        return out

    def all_of(self, given: Any, t: Any) -> Sets:
        """Each element depends on all that the operands depend on."""
        size = bare(t).size
        pieces: list[Piece] = []
        for x in given:
            count = len(x.sets.full)
            one = united(1, [(np.zeros(count, np.int64), x.sets, np.arange(count))], self.width)
            pieces.append((np.arange(size), one, np.zeros(size, np.int64)))
        return united(size, pieces, self.width)


def tensors_among(given: list[Any]) -> list[int]:
    return [i for i, x in enumerate(given) if isinstance(x, Operand)]


def depending(given: list[Any]) -> list[int]:
    return [i for i in tensors_among(given) if given[i].depends]


def varying(given: list[Any]) -> bool:
    return any([given[i].varies for i in tensors_among(given)])


def bare(t: Any) -> Any:
    """The array of a tensor; the memory behind a conjugate or negative view."""
    array = t._array
    if not isinstance(array, np.ndarray):
        array = getattr(array, "memory", array)
    if not isinstance(array, np.ndarray):
        raise NotImplementedError(
            f"sparsity: a {type(t).__name__} on {t.device} cannot be followed; only tensors with "
            "values on the CPU can"
        )
    return array


def comes_from_elsewhere(t: Any) -> bool:
    """Whether something that is no op gave a tensor its history: a custom Function's backward."""
    node = t._node if t._wants_grad else None
    if isinstance(node, CopySlices):
        node = node.inner
    return node is not None and not isinstance(node, (OpNode, AccumulateGrad, NamedNode))


def is_whole(array: Any, found: Memory) -> bool:
    """Whether an array is a piece of memory from its first element to its last one."""
    alike: bool = array.flags.c_contiguous and array.itemsize == found.unit
    return alike and len(found.sets.full) == array.size


def units_of(array: Any, found: Memory) -> Any:
    """For each element, the units of memory that it is in or is made of."""
    offset: Any = np.int64(address(array) - address(found.array))
    for size, stride in zip(array.shape, array.strides, strict=True):
        offset = np.add.outer(offset, np.arange(size) * stride)
    each = max(array.itemsize // max(found.unit, 1), 1)
    return (np.asarray(offset).reshape(-1, 1) // max(found.unit, 1)) + np.arange(each)


# ---------------------------------------------------------------------- kinds of ops

Links = Callable[[int, int], tuple[Any, Any, Any]]


def everything(size: int, sets: Sets) -> tuple[Any, Any, Any]:
    zeros = np.zeros(size, np.int64)
    return np.arange(size), zeros, np.zeros(len(sets.full), np.int64)


class Trial:
    """The forward of an op on NumPy, to be called with other values for tensors that may change.

    Not by the kernels in C: slices of operands are tried that do not fit each other, which NumPy
    refuses, while a kernel would read and write beyond their ends.
    """

    def __init__(self, op: Op, given: Any, attrs: Any, shapes: Any, kind: int = 0) -> None:
        self.op = op
        self.forward = functools.partial(op.forward, host)
        self.kind = kind  # how values are drawn: normal, positive, near those of the call
        self.shapes = [tuple(shape) for shape in shapes]
        self.attrs = attrs
        self.random = np.random.default_rng(0)
        self.moving = []
        self.arrays: list[Any] = list(given)
        for i in tensors_among(given):
            array = bare(given[i].tensor)
            if array.dtype.kind in FLOATS:
                dtype = np.complex128 if array.dtype.kind == "c" else np.float64
                array = RECORDED.cast(wrap(array), np.dtype(dtype))._array
                if given[i].varies:
                    self.moving.append(i)
                    array = self.drawn(array, kind)
            self.arrays[i] = array

    def draw_again(self) -> dict[int, Any]:
        """Other values for the tensors that may change."""
        for i in self.moving:
            self.arrays[i] = self.drawn(self.arrays[i], self.kind)
        return {}

    def drawn(self, array: Any, kind: int = 0) -> Any:
        shape, noise = array.shape, self.random.standard_normal
        if kind == 1:
            return 0.5 + self.random.random(shape).astype(array.dtype)
        if kind == 2:
            return array * (1 + 0.01 * self.random.random(shape))
        return noise(shape) + 1j * noise(shape) if array.dtype.kind == "c" else noise(shape)

    def call(self, changes: dict[int, Any]) -> list[Any] | None:
        """The results; None where the kernel refuses the values or gives no finite numbers."""
        arrays = [changes.get(i, x) for i, x in enumerate(self.arrays)]
        try:
            with np.errstate(all="ignore"):
                out = run_as(self.forward, self.op, arrays, self.attrs)
        except Exception:  # whatever it is, nothing is known of the op then
            return None
        outs = [np.asarray(o) for o in ((out,) if self.op.single else out)]
        return outs if all([o.dtype.kind in "fcbiu" for o in outs]) else None

    def flat(self, changes: dict[int, Any]) -> Any:
        """All results that can depend on something, as one vector."""
        outs = self.call(changes)
        if outs is None or [o.shape for o in outs] != self.shapes:
            return None
        kept = [o.reshape(-1) if o.dtype.kind in "fc" else np.zeros(o.size) for o in outs]
        return np.concatenate(kept)


def links_of(op: Op, given: Any, attrs: Any, shapes: Any) -> Links | None:
    """Which elements of an operand each element of a result depends on; None: on all."""
    trial = Trial(op, given, attrs, shapes)
    sizes = [math.prod(shape) for shape in shapes]
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    pairs = {}
    if is_affine(trial):
        pairs = {i: places_of_affine(trial, i) for i in depending(given)}
        if not all([len(found[0]) for found in pairs.values()]):
            pairs = {}  # the rules have a derivative that the kernel does not show: a random draw
    exact = bool(pairs) and all([found[2] for found in pairs.values()])
    boxes = {} if exact else independent_dims(op, given, attrs, shapes)

    def links(k: int, i: int) -> tuple[Any, Any, Any]:
        in_shape = bare(given[i].tensor).shape
        own = [(dims[i], at) for dims, at in boxes.get(k, []) if i in dims]
        groups = labels(in_shape, [d for d, _ in own])
        at = labels(shapes[k], [d for _, d in own])
        if not pairs:
            return np.arange(sizes[k]), at, groups
        results, elements, _ = pairs[i]
        here = (results >= bounds[k]) & (results < bounds[k + 1])
        results, elements = results[here] - bounds[k], elements[here]
        inside = at[results] == groups[elements]
        count = int(max(at.max(initial=0), groups.max(initial=0))) + 1
        block = [np.bincount(each, minlength=count) for each in (at, groups)]
        if inside.sum() == block[0] @ block[1]:  # each slice is used as a whole
            return np.arange(sizes[k]), at, groups
        return results[inside], elements[inside], None

    return links


def labels(shape: Any, dims: list[int]) -> Any:
    """A number per element that tells the positions along some dimensions."""
    found = np.zeros(shape, np.int64)
    for d in dims:
        along = np.arange(shape[d]).reshape([-1 if k == d else 1 for k in range(len(shape))])
        found = found * shape[d] + along
    return found.reshape(-1)


def is_affine(trial: Trial) -> bool:
    """Whether the op is affine in each tensor that may change, while the others are fixed."""
    op = trial.op
    for i in trial.moving:
        if op.linear and (op.variadic or len(op.tensors) - len(op.plain_tensors) == 1):
            continue
        x = trial.arrays[i]
        least = trial.flat({i: np.zeros_like(x)})
        if least is None:
            return False
        # Selections of few elements may look affine at some points, not at so many.
        for _ in range(2 + 200 // max(least.size, 1)):
            a, b = trial.drawn(x), trial.drawn(x)
            found = [trial.flat({i: v}) for v in (a, b, a + b)]
            if any([f is None for f in found]):
                return False
            found.append(least)
            if not all([np.isfinite(f).all() for f in found]):
                return False
            size = sum([np.abs(f).max(initial=0) for f in found])
            if np.abs(found[2] - found[0] - found[1] + least).max(initial=0) > 1e-5 * size:
                return False
    return True


def places_of_affine(trial: Trial, i: int) -> tuple[Any, Any, bool]:
    """The (result, element) pairs with a coefficient that is not zero, and whether no other is."""
    x = trial.arrays[i]
    least = trial.flat({i: np.zeros_like(x)})
    numbers = np.arange(1, x.size + 1, dtype=np.float64)
    if least is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), False
    if x.dtype.kind == "c":
        return by_halving(trial, i, least)
    # Do results copy single elements? Then other numbers tell the same places.
    order = trial.random.permutation(x.size) + 1.0
    copied, again = [
        trial.flat({i: each.reshape(x.shape).astype(x.dtype)}) for each in (numbers, order)
    ]
    if copied is None or again is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), False
    source = np.real(copied - least)
    natural = (source == np.floor(source)) & (source >= 0) & (source <= x.size)
    if np.all(natural & (np.imag(copied) == 0)):
        known = np.concatenate([[0.0], order])[source.astype(np.int64)]
        if np.array_equal(known, again - least):
            results = np.flatnonzero(source)
            return results, source[results].astype(np.int64) - 1, True
    return by_slices(trial, i, least)


def by_slices(trial: Trial, i: int, least: Any) -> tuple[Any, Any, bool]:
    """`by_halving`, of one slice where the op does the same to each slice of its input."""
    x, full = trial.arrays[i], trial.call({})
    if len(trial.shapes) > 1 or x.size < LARGE or full is None:
        return by_halving(trial, i, least)
    part = copy.copy(trial)
    part.arrays = list(trial.arrays)
    alike = []
    for dim, size in enumerate(x.shape):
        at = along(trial, {i: dim}, size, full, 0) if size > 1 else -1
        if at >= 0 and at not in [other for _, other in alike]:
            alike.append((dim, at))
            part.arrays[i] = part.arrays[i].take([0], dim)
            part.shapes = [(*part.shapes[0][:at], 1, *part.shapes[0][at + 1 :])]
    least = part.flat({i: np.zeros_like(part.arrays[i])})
    if not alike or least is None:
        return by_halving(trial, i, trial.flat({i: np.zeros_like(x)}))
    results, elements, exact = by_halving(part, i, least)
    places = list(np.unravel_index(results, part.shapes[0]))
    sources = list(np.unravel_index(elements, part.arrays[i].shape))
    for dim, at in alike:
        count, size = len(places[0]), x.shape[dim]
        places, sources = [[np.tile(v, size) for v in each] for each in (places, sources)]
        places[at] = sources[dim] = np.repeat(np.arange(size), count)
    return (
        np.ravel_multi_index(places, trial.shapes[0]),
        np.ravel_multi_index(sources, x.shape),
        exact,
    )


def by_halving(trial: Trial, i: int, least: Any) -> tuple[Any, Any, bool]:
    """The places of an affine op: parts of its input are halved as long as results use them.

    Parts that no result uses together are tried in one call of the kernel.
    """
    x = trial.arrays[i]
    values: Any = 0.5 + trial.random.random(x.size)
    if x.dtype.kind == "c":
        values = values + 1j * (0.5 + trial.random.random(x.size))
    length = 1 << max(x.size - 1, 0).bit_length()
    results, parts = np.arange(len(least)), np.zeros(len(least), np.int64)
    while length > 1 and len(results) < MOST_PAIRS:
        smaller = length // 2
        owners = np.repeat(results, 2)
        halves = (parts[:, None] * 2 + np.arange(2)).reshape(-1)
        inside = halves * smaller < x.size
        owners, halves = owners[inside], halves[inside]
        colors = by_remainder(owners, halves, len(least), MOST_PARTS)
        if colors == 0:
            break
        used = np.zeros(len(owners), bool)
        part_of = np.arange(x.size) // smaller % colors
        for color in range(min(colors, int(halves.max(initial=0)) + 1)):
            tried = np.where(part_of == color, values, 0).reshape(x.shape).astype(x.dtype)
            found = trial.flat({i: tried})
            if found is None:
                return results, parts, False
            here = halves % colors == color
            used[here] = (found != least)[owners[here]]
        results, parts, length = owners[used], halves[used], smaller
    elements = (parts[:, None] * length + np.arange(length)).reshape(-1)
    inside = elements < x.size
    return np.repeat(results, length)[inside], elements[inside], length == 1


def by_remainder(rows: Any, columns: Any, count: int, most: int) -> int:
    """The least number for which columns of a row have different remainders; 0: above `most`."""
    least = int(np.bincount(rows, minlength=1).max(initial=0))
    for colors in range(max(least, 1), most + 1):
        if np.bincount(rows * colors + columns % colors, minlength=1).max() <= 1:
            return colors
    return 0


def independent_dims(op: Op, given: Any, attrs: Any, shapes: Any) -> dict[int, list[Any]]:
    """Per result, the dimensions along which its slices depend on slices of operands alone.

    Each is ({operand: its dimension}, dimension of the result).
    """
    trial, full = working_trial(op, given, attrs, shapes)
    if full is None:
        return {}
    found: dict[int, list[Any]] = {}
    for i in depending(given):
        for dim, size in enumerate(trial.arrays[i].shape):
            if size < 2:
                continue
            for dims in candidates(trial.arrays, i, dim):
                known = [own for each in found.values() for own, _ in each]
                if dims in known:
                    break
                kept = [k for k in range(len(full)) if k not in op.plain_outs]
                agreed = {k: along(trial, dims, size, full, k) for k in kept}
                if any([at >= 0 for at in agreed.values()]):
                    for k, at in agreed.items():
                        used = [other for _, other in found.get(k, [])]
                        if at >= 0 and at not in used:
                            found.setdefault(k, []).append((dims, at))
                    break
    # Few elements may agree by chance (what is sorted already): then many points are tried.
    for _ in range(80 // max(sum([o.size for o in full]), 1)):
        full = trial.call(trial.draw_again())
        for k, each in found.items():
            found[k] = [
                (dims, at)
                for dims, at in each
                if full is not None and agrees(trial, dims, full[k], k, at)
            ]
    return found


def working_trial(op: Op, given: Any, attrs: Any, shapes: Any) -> tuple[Any, Any]:
    """A trial with values that the kernel takes, and its results."""
    for kind in range(3):
        trial = Trial(op, given, attrs, shapes, kind)
        full = trial.call({})
        if full is not None and all([np.isfinite(o).all() for o in full]):
            return (trial, full) if [o.shape for o in full] == trial.shapes else (trial, None)
    return None, None


def candidates(arrays: list[Any], i: int, dim: int) -> Iterator[dict[int, int]]:
    """Operands that may have to be sliced together: dimensions counted from either end, or none."""
    size, rank = arrays[i].shape[dim], arrays[i].ndim
    ends = []
    for from_end in (False, True):
        together = {i: dim}
        for j, x in enumerate(arrays):
            if isinstance(x, np.ndarray):
                d = dim - rank + x.ndim if from_end else dim
                if 0 <= d < x.ndim and x.shape[d] == size:
                    together[j] = d
        ends.append(together)
    for k, each in enumerate((*ends, {i: dim})):
        if each not in (*ends, {})[:k]:
            yield each


def along(trial: Trial, dims: dict[int, int], size: int, full: Any, k: int) -> int:
    """The dimension of a result that goes along with these dimensions of operands; -1: none."""
    for d, n in enumerate(full[k].shape):
        if n == size and agrees(trial, dims, full[k], k, d):
            return d
    return -1


def agrees(trial: Trial, dims: dict[int, int], full: Any, k: int, at: int) -> bool:
    """Whether some slices of a result are the results of slices."""
    size = full.shape[at]
    for j in sorted({0, size - 1, size // 2, *trial.random.integers(0, size, 5).tolist()}):
        sliced = {i: trial.arrays[i].take([j], d) for i, d in dims.items()}
        outs = trial.call(sliced)
        if outs is None or not same(full.take([j], at), outs[k]):
            return False
    return True


def same(a: Any, b: Any) -> bool:
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=1e-7, atol=1e-10))
