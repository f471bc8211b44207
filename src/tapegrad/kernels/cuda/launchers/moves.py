"""Copies, casts and concatenations on the GPU, one launch each.

What a launch needs besides addresses follows from shapes, strides and dtypes. It is worked out once
(a plan) and looked up afterwards: a training step repeats the same shapes.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....core.strides import contiguous_strides, empty, kept_strides, viewed_strides
from ..cublas import NAMES
from ..programs import MOVED

SOURCE = "moves.cu"
I64 = np.int64
U32 = np.uint32
BLOCK = (256,)
CASTS = 160  # arrays that are cast at once: 24 bytes each, below the 4 KB that a launch may carry
CAST_TABLE = np.dtype([(name, np.uint64, (CASTS,)) for name in ("x", "y", "n")])
CAST_BYTES = np.dtype((np.void, CAST_TABLE.itemsize))
RANK = 5  # dimensions that a layout may have, after merging
PARTS = 16  # arrays that are put together at once
MANY = 1 << 31  # positions are computed with 32 bits
PLANS = 4096  # plans that are kept
LAYOUT = np.dtype([("rank", np.int32), ("size", np.uint32, (RANK,)), ("stride", np.int64, (RANK,))])
TABLE = np.dtype(
    [
        ("p", np.uint64, (PARTS,)),
        ("n", np.uint32, (PARTS,)),
        ("width", np.uint32, (PARTS,)),
        ("start", np.int64, (PARTS,)),
        ("rank", np.int32, (PARTS,)),
        ("size", np.uint32, (PARTS, RANK)),
        ("stride", np.int64, (PARTS, RANK)),
    ]
)
AS_BYTES = np.dtype((np.void, TABLE.itemsize))
Shape = tuple[int, ...]
Piece = tuple[int, Shape, Shape]  # address (0: zeros), shape, strides
Steps = list[tuple[int, int]]  # (size, stride) of dimensions, from the slowest to the fastest


class Found(dict[Any, Any]):
    """A cache of plans by key, which makes those that are missing."""

    def __init__(self, make: Callable[..., Any]) -> None:
        super().__init__()
        self.make = make

    def __missing__(self, key: tuple[Any, ...]) -> Any:
        if len(self) >= PLANS:
            self.clear()
        plan = self[key] = self.make(*key)
        return plan


class Plans:
    """The plan for a key, made if it is not cached."""

    def __init__(self, make: Callable[..., Any]) -> None:
        # Of a key: the plan; None if there is no way to do this in one launch.
        self.found = Found(make)
        self.get: Callable[[tuple[Any, ...]], Any] = self.found.__getitem__


class Copy:
    """How a copy is made: kernel, size of the launch, the strides of the result if not in order."""

    def __init__(self, run: Any, grid: tuple[int], rest: tuple[Any, ...], strides: Any) -> None:
        self.run = run
        self.grid = grid
        self.rest = rest
        self.strides = strides


class Join:
    """How arrays are put together."""

    def __init__(self, run: Any, grid: tuple[int, int], table: Any, row: int, shape: Shape) -> None:
        self.run = run
        self.grid = grid
        self.table: bytes = table.tobytes()
        self.packer = struct.Struct(f"{grid[1]}Q")  # the addresses, with which the table begins
        self.row = row
        self.shape = shape


def merged(steps: Steps) -> Steps:
    """Merge dimensions that are contiguous with each other, and drop those of size 1."""
    found: Steps = []
    for size, stride in steps:
        if size == 1:
            continue
        if found and found[-1][1] == size * stride:
            found[-1] = (found[-1][0] * size, stride)
        else:
            found.append((size, stride))
    return found


def together(first: Steps, second: Steps) -> tuple[Steps, Steps]:
    """`merged`, of two arrays of one shape whose dimensions have to stay the same."""
    one: Steps = []
    two: Steps = []
    for (size, a), (_, b) in zip(first, second, strict=True):
        if size == 1:
            continue
        if one and one[-1][1] == size * a and two[-1][1] == size * b:
            one[-1], two[-1] = (one[-1][0] * size, a), (two[-1][0] * size, b)
        else:
            one.append((size, a))
            two.append((size, b))
    return one, two


def plan_order(shape: tuple[int, ...], strides: tuple[int, ...], item: int) -> Any:
    """The dimensions from the slowest in memory to the fastest, and the way back; None if memory
    has gaps.
    """
    order = sorted(range(len(shape)), key=lambda d: (-strides[d], d))
    turned = tuple([shape[d] for d in order])
    dense = contiguous_strides(turned, item)
    for d, stride in zip(order, dense, strict=True):
        if shape[d] != 1 and strides[d] != stride:
            return None
    return order, [order.index(d) for d in range(len(shape))]


def fits_wide(steps: Steps, item: int) -> bool:
    """Whether an array can be seen as one of items of 16 bytes, if its address can."""
    if not steps or steps[-1][1] != item or steps[-1][0] * item % 16:
        return False
    return all([stride % 16 == 0 for _, stride in steps[:-1]])


def wide(steps: Steps, item: int) -> Steps:
    return [*steps[:-1], (steps[-1][0] * item // 16, 16)]


def in_items(steps: Steps, item: int) -> Steps | None:
    """With strides in items; None if a kernel cannot take them."""
    if len(steps) > RANK or any([stride % item for _, stride in steps]):
        return None
    return [(size, stride // item) for size, stride in steps] or [(1, 1)]


def filled(steps: Steps) -> Any:
    """The Layout of a kernel."""
    layout = np.zeros((), LAYOUT)
    layout["rank"] = len(steps)
    for d, (size, stride) in enumerate(reversed(steps)):
        layout["size"][d] = size
        layout["stride"][d] = stride
    return layout


def opaque(table: Any) -> Any:
    """A table as an argument: CuPy asks every time for the fields of one that has some."""
    return table.view(np.dtype((np.void, table.dtype.itemsize)))


# Of a device array: `x.flags.c_contiguous`, which takes five times as long.
contiguous: Callable[[Any], bool] = operator.attrgetter("_c_contiguous")


class Moves:
    """Copies and concatenations of one array module."""

    def __init__(self, gpu: Any) -> None:
        self.gpu = gpu
        self.copies = Plans(self.plan_copy)
        self.writes = Plans(self.plan_write)
        self.joins = Plans(self.plan_join)
        self.views = Plans(self.plan_view)

    def kernel(self, name: str, source: Any, target: Any, item: int) -> Any:
        """A kernel of moves.cu; None for dtypes that it does not know."""
        kernel = self.gpu.kernel
        if source == target:
            if item not in MOVED:
                return None
            return kernel(SOURCE, f"raw{item}", name, COPIES=1, GIVEN_DTYPE=f"raw{item}")
        if source not in NAMES or target not in NAMES:
            return None
        return kernel(SOURCE, NAMES[target], name, COPIES=1, GIVEN_DTYPE=NAMES[source])

    def grid(self, count: int) -> tuple[int]:
        return (min((count + 255) // 256, self.gpu.blocks * 4) or 1,)

    # ------------------------------------------------------------------ copies

    def copied(self, x: Any, dtype: Any, order: str) -> Any:
        """A copy in a dtype, "contiguous" or (as "preserve" says) laid out like `x`.

        None for what has no plan.
        """
        shape = x.shape
        key = (shape, x.strides, x.dtype, dtype, order, x.data.ptr % 16 == 0)
        plan = self.copies.get(key)
        if plan is None:
            return None
        xp = self.gpu.xp
        if plan.strides is None:
            out = xp.ndarray(shape, dtype)
        else:
            out = empty(xp, shape, plan.strides, dtype)
        plan.run(plan.grid, BLOCK, (x, out, *plan.rest))
        return out

    def plan_copy(
        self, shape: Shape, strides: Shape, source: Any, target: Any, order: str, aligned: bool
    ) -> Copy | None:
        n = math.prod(shape)
        if not n or min(strides, default=0) < 0:
            return None
        item = source.itemsize
        ordered = contiguous_strides(shape, target.itemsize)
        kept = ordered
        if order == "preserve":
            like = Geometry(shape, strides, item)
            kept = tuple([s // item * target.itemsize for s in kept_strides(like)])
        # In the memory order of the result.
        dims = sorted(range(len(shape)), key=lambda d: -kept[d])
        steps = merged([(shape[d], strides[d]) for d in dims])
        if source == target and aligned and fits_wide(steps or [(1, item)], item):
            steps, n, item = wide(steps or [(1, item)], item), n * item // 16, 16
        line = in_items(steps, item)
        if line is None:
            return None
        straight = len(line) == 1 and line[0][1] == 1
        run = self.kernel("copy_line" if straight else "copy_from", source, target, item)
        if run is None or (n >= MANY and not straight):
            return None
        rest = (I64(n),) if straight else (opaque(filled(line)), U32(n))
        many = (n + 3) // 4 if straight else n
        return Copy(run, self.grid(many), rest, None if kept == ordered else kept)

    def write(self, target: Any, source: Any) -> bool:
        """`target[...] = source`, of arrays of one shape in different memory; False if not done."""
        if target.shape != source.shape:
            return False
        aligned = (target.data.ptr | source.data.ptr) % 16 == 0
        plan = self.writes.get(
            (target.shape, source.strides, target.strides, source.dtype, target.dtype, aligned)
        )
        if plan is None:
            return False
        plan.run(plan.grid, BLOCK, (source, target, *plan.rest))
        return True

    def plan_write(
        self, shape: Shape, strides: Shape, to: Shape, source: Any, target: Any, aligned: bool
    ) -> Copy | None:
        n = math.prod(shape)
        if not 0 < n < MANY or min((*strides, *to), default=0) < 0:
            return None
        dims = sorted(range(len(shape)), key=lambda d: -to[d])
        one, two = together(*[[(shape[d], s[d]) for d in dims] for s in (strides, to)])
        item, there = source.itemsize, target.itemsize
        if source == target and aligned and fits_wide(one, item) and fits_wide(two, item):
            one, two = wide(one, item), wide(two, item)
            n, item, there = n * item // 16, 16, 16
        first, second = in_items(one, item), in_items(two, there)
        run = self.kernel("copy_between", source, target, item)
        if first is None or second is None or run is None:
            return None
        layouts = [opaque(filled(steps)) for steps in (first, second)]
        return Copy(run, self.grid(n), (*layouts, U32(n)), None)

    def plan_view(self, shape: Shape, strides: Shape, item: int, new: Shape) -> bool:
        """Whether `reshape` shows the same memory."""
        return -1 in new or viewed_strides(shape, strides, new, item) is not None

    # ------------------------------------------------------------------ concatenations

    def joined(self, pieces: Sequence[Piece], dtype: Any, dim: int) -> Any:
        """Pieces of memory one after the other along `dim`; None for what has no plan."""
        addresses = [address for address, _, _ in pieces]
        near = 0
        for address in addresses:
            near |= address
        forms = tuple([(shape, strides) for _, shape, strides in pieces])
        plan = self.joins.get((forms, dtype, dim, near % 16 == 0))
        if plan is None:
            return None
        out = self.gpu.xp.ndarray(plan.shape, dtype)
        memory = bytearray(plan.table)  # a copy: another thread may be here too
        plan.packer.pack_into(memory, 0, *addresses)
        plan.run(plan.grid, BLOCK, (np.ndarray((), AS_BYTES, memory), out, plan.row))
        return out

    def plan_join(
        self, forms: tuple[tuple[Shape, Shape], ...], dtype: Any, dim: int, aligned: bool
    ) -> Join | None:
        shapes = [shape for shape, _ in forms]
        first, item = shapes[0], dtype.itemsize
        alike = [len(s) == len(first) and apart(s, dim) == apart(first, dim) for s in shapes]
        sizes = [math.prod(s) for s in shapes]
        if not all(alike) or not all([0 < n < MANY for n in sizes]) or item not in MOVED:
            return None
        inner = math.prod(first[dim + 1 :])
        widths = [s[dim] * inner for s in shapes]
        steps = [merged(list(zip(*form, strict=True))) for form in forms]
        unit = item
        if aligned and all([w * item % 16 == 0 for w in widths]):
            if all([fits_wide(s, item) for s in steps]):
                steps, unit = [wide(s, item) for s in steps], 16
        table = np.zeros((), TABLE)
        start = 0
        for k, (own, size, width) in enumerate(zip(steps, sizes, widths, strict=True)):
            line = in_items(own, unit)
            if line is None:
                return None
            table["n"][k] = size * item // unit
            table["width"][k] = width * item // unit
            table["start"][k] = start
            start += width * item // unit
            layout = filled(line)
            for name in ("rank", "size", "stride"):
                table[name][k] = layout[name]
        run = self.gpu.kernel(SOURCE, f"raw{unit}", "join", JOIN=1, LIMIT=PARTS)
        grid = (*self.grid(int(table["n"].max())), len(forms))
        shape = (*first[:dim], sum([s[dim] for s in shapes]), *first[dim + 1 :])
        return Join(run, grid, table, start, shape)


class Geometry:
    """A shape and strides, as functions of core/strides.py ask for them."""

    def __init__(self, shape: Shape, strides: Shape, item: int) -> None:
        self.shape = shape
        self.strides = strides
        self.itemsize = item
        self.size = math.prod(shape)
        self.flags = self
        self.c_contiguous = self.f_contiguous = False


def apart(shape: Shape, dim: int) -> tuple[Shape, Shape]:
    return shape[:dim], shape[dim + 1 :]


def zeros_piece(shape: Shape, dim: int, count: int, item: int) -> Piece:
    size = (*shape[:dim], count, *shape[dim + 1 :])
    return 0, size, contiguous_strides(size, item)


def widened_at(x: Any, dim: int) -> Piece:
    """An array with a new dimension of size 1."""
    shape, strides = x.shape, x.strides
    return x.data.ptr, (*shape[:dim], 1, *shape[dim:]), (*strides[:dim], 0, *strides[dim:])


class CastTogether:
    """How arrays of some shapes are cast by one launch."""

    def __init__(self, gpu: Any, shapes: tuple[Shape, ...], given: Any, dtype: Any) -> None:
        words = {"CASTS": 1, "GIVEN_DTYPE": NAMES[given], "LIMIT": CASTS}
        self.run = gpu.kernel(SOURCE, NAMES[dtype], "cast_together", **words)
        sizes = [math.prod(shape) for shape in shapes]
        self.grid = (gpu.fours(max(sizes))[0], len(shapes))
        # In one piece of memory they are 512 bytes apart at least, as arrays of their own are.
        bytes_of = [(dtype.itemsize * n + 511) // 512 * 512 for n in sizes]
        self.places = [0, *itertools.accumulate(bytes_of)]
        table = np.zeros((), CAST_TABLE)
        table["n"][: len(shapes)] = sizes
        self.table: bytes = table.tobytes()
        self.packer = struct.Struct(f"{len(shapes)}Q")  # addresses


def register(backend: Any, gpu: Any, reference: Any) -> None:
    """Give a backend the ops of this file, and functions for those who have arrays in their hands.

    `add_into`, `copied`, `cast` and `assign` take everything: what has no plan is left to CuPy.
    """
    moves = Moves(gpu)
    register_copies(backend, gpu, moves, reference)
    register_joins(backend, gpu, moves, reference)
    runs: dict[Any, Any] = {}
    add = gpu.xp.add

    def add_into(target: Any, other: Any) -> None:
        """`target += other`."""
        dtype = target.dtype
        same = other.dtype is dtype and target.shape == other.shape and dtype in NAMES
        if not same or not contiguous(target) or not contiguous(other):
            add(target, other, out=target, casting="unsafe")
            return
        run = runs.get(dtype)
        if run is None:
            run = runs[dtype] = gpu.kernel(SOURCE, NAMES[dtype], "accumulate", ACCUMULATE=1)
        n = target.size
        if n:
            run(gpu.fours(n), BLOCK, (target, other, n))

    def copied(x: Any) -> Any:
        """A contiguous copy."""
        out = moves.copied(x, x.dtype, "contiguous")
        return x.copy() if out is None else out

    def assign(target: Any, source: Any) -> None:
        """`target[...] = source`; the source may be a number."""
        own = type(source) is type(target) and source.data.mem is not target.data.mem
        if not own or not moves.write(target, source):
            target[...] = source

    def casts(arrays: list[Any], dtype: Any, apart: bool) -> list[Any] | None:
        """As autocast wants all parameters of a model, and the backward pass their gradients."""
        given = arrays[0].dtype
        kinds = NAMES.get(given), NAMES.get(dtype)
        if None in kinds:
            return None
        if not all([x.dtype is given and contiguous(x) and x.size for x in arrays]):
            return None
        ndarray, alloc = gpu.xp.ndarray, gpu.xp.cuda.alloc
        made: list[Any] = []
        for start in range(0, len(arrays), CASTS):
            some = arrays[start : start + CASTS]
            shapes = tuple([x.shape for x in some])
            plan = together_plans.get((shapes, given, dtype))
            if apart:
                new = [ndarray(shape, dtype) for shape in shapes]
            else:
                memory = alloc(plan.places[-1])
                pairs = zip(shapes, plan.places, strict=False)
                new = [ndarray(shape, dtype, memory + place) for shape, place in pairs]
            table = bytearray(plan.table)  # a copy: another thread may be here too
            plan.packer.pack_into(table, 0, *[x.data.ptr for x in some])
            plan.packer.pack_into(table, 8 * CASTS, *[x.data.ptr for x in new])
            plan.run(plan.grid, BLOCK, (np.ndarray((), CAST_BYTES, table),))
            made += new
        return made

    together_plans = Plans(functools.partial(CastTogether, gpu))
    backend.add_into, backend.copied, backend.assign = add_into, copied, assign
    backend.casts = casts


def register_copies(backend: Any, gpu: Any, moves: Moves, reference: Any) -> None:
    device_array = gpu.xp.ndarray
    other_cast, other_clone = reference("cast"), reference("clone")

    @backend.override("cast")
    def cast(input: Any, dtype: Any) -> Any:
        if type(input) is device_array:
            out = moves.copied(input, dtype, "preserve")
            if out is not None:
                return out
        return other_cast(input, dtype)

    @backend.override("clone")
    def clone(input: Any, format: str) -> Any:
        if format == "preserve" or format == "contiguous":
            out = moves.copied(input, input.dtype, format)
            if out is not None:
                return out
        return other_clone(input, format)

    for name in ("view", "reshape_alias", "unsafe_view"):
        backend.override(name)(view_kernel(reference(name)))

    @backend.override("reshape")
    def reshape(x: Any, shape: Shape) -> Any:
        """Of arrays in gradient rules, where a copy is as good as a view."""
        if not contiguous(x):
            shape = tuple(shape)
            if not moves.views.get((x.shape, x.strides, x.itemsize, shape)):
                dense = moves.copied(x, x.dtype, "contiguous")
                if dense is not None:
                    return dense.reshape(shape)
        return x.reshape(shape)


def register_joins(backend: Any, gpu: Any, moves: Moves, reference: Any) -> None:
    other_cat, other_stack = reference("cat"), reference("stack")
    other_select, other_slice = reference("select_backward"), reference("slice_backward")

    def alike(arrays: Sequence[Any]) -> bool:
        dtype = arrays[0].dtype
        return all([x.dtype is dtype for x in arrays])

    @backend.override("cat")
    def cat(tensors: Sequence[Any], dim: int) -> Any:
        if alike(tensors):
            if len(tensors) > PARTS:  # CuPy would copy a table from the host
                return cat([cat(group, dim) for group in in_groups(tensors)], dim)
            pieces = [(x.data.ptr, x.shape, x.strides) for x in tensors if x.size]
            if 0 < len(pieces) <= PARTS and len(pieces[0][1]) > dim >= 0:
                out = moves.joined(pieces, tensors[0].dtype, dim)
                if out is not None:
                    return out
        return other_cat(tensors, dim)

    @backend.override("rejoin")
    def rejoin(parts: Sequence[Any], dim: int) -> Any:
        whole = seen_as_one(gpu.xp, parts, dim) if alike(parts) else None
        return cat(parts, dim) if whole is None else whole

    @backend.override("stack")
    def stack(tensors: Sequence[Any], dim: int) -> Any:
        if dim >= 0 and alike(tensors):
            if len(tensors) > PARTS:
                return cat([stack(group, dim) for group in in_groups(tensors)], dim)
            pieces = [widened_at(x, dim) for x in tensors]
            out = moves.joined(pieces, tensors[0].dtype, dim)
            if out is not None:
                return out
        return other_stack(tensors, dim)

    def surrounded(piece: Piece, dtype: Any, shape: Shape, dim: int, start: int) -> Any:
        """Zeros of a shape with a piece in them, from `start` on."""
        pieces = [piece]
        after = shape[dim] - start - piece[1][dim]
        if start:
            pieces.insert(0, zeros_piece(shape, dim, start, dtype.itemsize))
        if after:
            pieces.append(zeros_piece(shape, dim, after, dtype.itemsize))
        return moves.joined(pieces, dtype, dim)

    @backend.override("select_backward")
    def select_backward(input: Any, shape: Shape, dim: int, index: int) -> Any:
        shape = tuple(shape)
        if dim >= 0 and 0 <= index < shape[dim] and input.size:
            out = surrounded(widened_at(input, dim), input.dtype, shape, dim, index)
            if out is not None:
                return out
        return other_select(input, shape, dim, index)

    @backend.override("slice_backward")
    def slice_backward(input: Any, shape: Shape, dim: int, start: int, end: int, step: int) -> Any:
        shape = tuple(shape)
        inside = step == 1 and dim >= 0 and 0 <= start < end <= shape[dim]
        if inside and input.size and input.shape[dim] == end - start:
            piece = (input.data.ptr, input.shape, input.strides)
            out = surrounded(piece, input.dtype, shape, dim, start)
            if out is not None:
                return out
        return other_slice(input, shape, dim, start, end, step)


def in_groups(tensors: Sequence[Any]) -> list[Sequence[Any]]:
    """As many as are put together at once."""
    return [tensors[i : i + PARTS] for i in range(0, len(tensors), PARTS)]


def seen_as_one(xp: Any, parts: Sequence[Any], dim: int) -> Any:
    """The array that the parts are slices of, one after the other; None if they are not."""
    first = parts[0]
    shape, strides, start = first.shape, first.strides, first.data
    if len(shape) <= dim or strides[dim] <= 0:
        return None
    length = 0
    for x in parts:
        if x.strides != strides or apart(x.shape, dim) != apart(shape, dim):
            return None
        if x.data.mem is not start.mem or x.data.ptr != start.ptr + length * strides[dim]:
            return None
        length += x.shape[dim]
    whole = (*shape[:dim], length, *shape[dim + 1 :])
    if contiguous_strides(whole, first.dtype.itemsize) != strides:
        return None
    return xp.ndarray(whole, first.dtype, start)


def view_kernel(other: Any) -> Any:
    """CuPy's `reshape` where it shows the same memory, and there is only one way to do that."""

    def view(input: Any, shape: Shape) -> Any:
        if 1 not in input.shape and 1 not in shape and input.size:
            out = input.reshape(shape)
            if out.data.ptr == input.data.ptr:
                return out
        return other(input, shape)

    return view
