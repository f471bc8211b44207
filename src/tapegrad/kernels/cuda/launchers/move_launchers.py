"""The ops that copy, cast and put together arrays on the GPU (moves.py, sources/moves.cu)."""

from __future__ import annotations

import functools
import itertools
import math
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....core.strides import contiguous_strides
from ..cublas import NAMES
from .launcher import Launcher
from .moves import (
    BLOCK,
    PARTS,
    SOURCE,
    Moves,
    Piece,
    Plans,
    Shape,
    apart,
    contiguous,
    widened_at,
    zeros_piece,
)

CASTS = 160  # arrays that are cast at once: 24 bytes each, below the 4 KB that a launch may carry
CAST_TABLE = np.dtype([(name, np.uint64, (CASTS,)) for name in ("x", "y", "n")])
CAST_BYTES = np.dtype((np.void, CAST_TABLE.itemsize))


def register(backend: Any, gpu: Any, reference: Any) -> None:
    """Give a backend the ops of this file, and functions for those who have arrays in their hands.

    `add_into`, `copied`, `cast` and `assign` take everything: what has no plan is left to CuPy.
    """
    moves = Moves(gpu)
    cat = Cat(moves, reference)
    for launcher in (Cast, Clone, View, ReshapeAlias, UnsafeView, SelectBackward, SliceBackward):
        launcher(moves, reference).register(backend)
    cat.register(backend)
    Stack(moves, reference, cat).register(backend)
    for_arrays = ArrayMoves(gpu, moves)
    backend.overrides["reshape"] = for_arrays.reshape
    backend.overrides["rejoin"] = Rejoin(gpu.xp, cat)
    backend.add_into, backend.copied = for_arrays.add_into, for_arrays.copied
    backend.assign, backend.casts = for_arrays.assign, for_arrays.casts


class ArrayMoves:
    """Copies, casts and sums of arrays for the backward pass, writes and the backend itself."""

    def __init__(self, gpu: Any, moves: Moves) -> None:
        self.gpu = gpu
        self.moves = moves
        self.adding: dict[Any, Any] = {}  # kernels by dtype
        self.together = Plans(functools.partial(CastTogether, gpu))

    def add_into(self, target: Any, other: Any) -> None:
        """`target += other`."""
        dtype = target.dtype
        same = other.dtype is dtype and target.shape == other.shape and dtype in NAMES
        if not same or not contiguous(target) or not contiguous(other):
            self.gpu.xp.add(target, other, out=target, casting="unsafe")
            return
        run = self.adding.get(dtype)
        if run is None:
            run = self.gpu.kernel(SOURCE, NAMES[dtype], "accumulate", ACCUMULATE=1)
            self.adding[dtype] = run
        n = target.size
        if n:
            run(self.gpu.fours(n), BLOCK, (target, other, n))

    def copied(self, x: Any) -> Any:
        """A contiguous copy."""
        out = self.moves.copied(x, x.dtype, "contiguous")
        return x.copy() if out is None else out

    def assign(self, target: Any, source: Any) -> None:
        """`target[...] = source`; the source may be a number."""
        own = type(source) is type(target) and source.data.mem is not target.data.mem
        if not own or not self.moves.write(target, source):
            target[...] = source

    def casts(self, arrays: list[Any], dtype: Any, apart: bool) -> list[Any] | None:
        """Cast arrays of one dtype in few launches: a model's parameters, or their gradients."""
        given = arrays[0].dtype
        kinds = NAMES.get(given), NAMES.get(dtype)
        if None in kinds:
            return None
        if not all([x.dtype is given and contiguous(x) and x.size for x in arrays]):
            return None
        ndarray, alloc = self.gpu.xp.ndarray, self.gpu.xp.cuda.alloc
        made: list[Any] = []
        for start in range(0, len(arrays), CASTS):
            some = arrays[start : start + CASTS]
            shapes = tuple([x.shape for x in some])
            plan = self.together.get((shapes, given, dtype))
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

    def reshape(self, x: Any, shape: Shape) -> Any:
        """`reshape` in gradient rules, where a copy is as good as a view."""
        if not contiguous(x):
            shape = tuple(shape)
            if not self.moves.views.get((x.shape, x.strides, x.itemsize, shape)):
                dense = self.moves.copied(x, x.dtype, "contiguous")
                if dense is not None:
                    return dense.reshape(shape)
        return x.reshape(shape)


class CastTogether:
    """The plan of a launch that casts arrays of some shapes."""

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


class MoveLauncher(Launcher):
    """A launcher of copies. Their plans depend on dtypes, shapes and strides: `Moves` has them."""

    def __init__(self, moves: Moves, reference: Any) -> None:
        super().__init__(reference)
        self.moves = moves

    def plan(self, *args: Any) -> Any:
        return self.moves


class Cast(MoveLauncher):
    op = "cast"

    def fits(self, input: Any, dtype: Any) -> bool:
        return type(input) is self.moves.gpu.xp.ndarray

    def run(self, plan: Moves, input: Any, dtype: Any) -> Any:
        return plan.copied(input, dtype, "preserve")


class Clone(MoveLauncher):
    op = "clone"

    def fits(self, input: Any, format: str) -> bool:
        return format in ("preserve", "contiguous")

    def run(self, plan: Moves, input: Any, format: str) -> Any:
        return plan.copied(input, input.dtype, format)


class View(MoveLauncher):
    """CuPy's `reshape` where it shows the same memory, and there is only one way to do that."""

    op = "view"

    def fits(self, input: Any, shape: Shape) -> bool:
        return bool(1 not in input.shape and 1 not in shape and input.size)

    def run(self, plan: Moves, input: Any, shape: Shape) -> Any:
        out = input.reshape(shape)
        return out if out.data.ptr == input.data.ptr else None


class ReshapeAlias(View):
    op = "reshape_alias"


class UnsafeView(View):
    op = "unsafe_view"


class Cat(MoveLauncher):
    """Arrays one after the other; many of them in groups: CuPy would copy a table from the host."""

    op = "cat"

    def fits(self, tensors: Sequence[Any], dim: int) -> bool:
        return alike(tensors)

    def run(self, plan: Moves, tensors: Sequence[Any], dim: int) -> Any:
        if len(tensors) > PARTS:
            return self([self(group, dim) for group in in_groups(tensors)], dim)
        pieces = [(x.data.ptr, x.shape, x.strides) for x in tensors if x.size]
        if not pieces or not len(pieces[0][1]) > dim >= 0:
            return None
        return plan.joined(pieces, tensors[0].dtype, dim)


class Stack(MoveLauncher):
    """Arrays one after the other in a new dimension."""

    op = "stack"

    def __init__(self, moves: Moves, reference: Any, cat: Cat) -> None:
        super().__init__(moves, reference)
        self.cat = cat

    def fits(self, tensors: Sequence[Any], dim: int) -> bool:
        return dim >= 0 and alike(tensors)

    def run(self, plan: Moves, tensors: Sequence[Any], dim: int) -> Any:
        if len(tensors) > PARTS:
            return self.cat([self(group, dim) for group in in_groups(tensors)], dim)
        pieces = [widened_at(x, dim) for x in tensors]
        return plan.joined(pieces, tensors[0].dtype, dim)


class Rejoin:
    """Parts put together: the array that they are slices of, if they are that, else a new one."""

    def __init__(self, xp: Any, cat: Cat) -> None:
        self.xp = xp
        self.cat = cat

    def __call__(self, parts: Sequence[Any], dim: int) -> Any:
        whole = seen_as_one(self.xp, parts, dim) if alike(parts) else None
        return self.cat(parts, dim) if whole is None else whole


class SelectBackward(MoveLauncher):
    """Zeros with the gradient in one place of a dimension."""

    op = "select_backward"

    def fits(self, input: Any, shape: Shape, dim: int, index: int) -> bool:
        return bool(dim >= 0 and 0 <= index < shape[dim] and input.size)

    def run(self, plan: Moves, input: Any, shape: Shape, dim: int, index: int) -> Any:
        return surrounded(plan, widened_at(input, dim), input.dtype, tuple(shape), dim, index)


class SliceBackward(MoveLauncher):
    """Zeros with the gradient in some neighbouring places of a dimension."""

    op = "slice_backward"

    def fits(self, input: Any, shape: Shape, dim: int, start: int, end: int, step: int) -> bool:
        if step != 1 or dim < 0 or not 0 <= start < end <= shape[dim]:
            return False
        return bool(input.size and input.shape[dim] == end - start)

    def run(
        self, plan: Moves, input: Any, shape: Shape, dim: int, start: int, end: int, step: int
    ) -> Any:
        piece = (input.data.ptr, input.shape, input.strides)
        return surrounded(plan, piece, input.dtype, tuple(shape), dim, start)


def alike(arrays: Sequence[Any]) -> bool:
    """Whether arrays have one dtype."""
    dtype = arrays[0].dtype
    return all([x.dtype is dtype for x in arrays])


def surrounded(moves: Moves, piece: Piece, dtype: Any, shape: Shape, dim: int, start: int) -> Any:
    """Zeros of a shape with a piece in them, from `start` on."""
    pieces = [piece]
    after = shape[dim] - start - piece[1][dim]
    if start:
        pieces.insert(0, zeros_piece(shape, dim, start, dtype.itemsize))
    if after:
        pieces.append(zeros_piece(shape, dim, after, dtype.itemsize))
    return moves.joined(pieces, dtype, dim)


def in_groups(tensors: Sequence[Any]) -> list[Sequence[Any]]:
    """Groups of as many tensors as one launch concatenates."""
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
