"""Copies, casts and concatenations on the GPU, one launch each.

What a launch needs besides addresses follows from shapes, strides and dtypes. It is worked out once
(a plan) and looked up afterwards: a training step repeats the same shapes.
"""

from __future__ import annotations

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
    """A table as bytes without fields: CuPy would look at the fields in every launch."""
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
