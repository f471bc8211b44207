"""Adafactor and Muon on the GPU: a few launches for all parameters of a dtype.

Adafactor takes four (sources/matrices.cu). Muon takes three, and between them the products
of matrices, those of one shape together. Nothing is asked by the host, so that steps can be
captured, and numbers that change are then read on the GPU, as in optim.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import cublas
from ..cublas import NAMES
from ..programs import compiled
from .kernels import accumulator
from .moves import contiguous, opaque
from .optim import BLOCK, F64, I32, I64, ROOM, THREADS, U64, divided

LINE = 1024  # elements of a vector that a warp takes, as if they were a row
WARPS = THREADS // 32
WIDE = (32, WARPS)
MOST = 1 << 31  # elements of a tensor, less one
ALIGNED = 64  # elements between the places of stacks


def register(backend: Any, gpu: Any, reference: Any) -> None:
    backend.adafactor = Adafactor(gpu, backend)
    backend.muon = Muon(gpu, backend)


class ManyTensors:
    """Base of Adafactor and Muon: tables of tensors passed with a launch, as many as fit."""

    program = ""
    pointers: tuple[str, ...] = ()  # rows of addresses, the parameters' first
    longs: tuple[str, ...] = ()
    doubles: tuple[str, ...] = ()
    ints: tuple[str, ...] = ()
    numbers = options = 0

    def __init__(self, gpu: Any, backend: Any) -> None:
        self.gpu = gpu
        self.backend = backend
        wide = [*self.pointers, *self.longs, *self.doubles]
        each = 8 * len(wide) + 4 * len(self.ints)
        self.limit = (ROOM - 8 * (self.numbers + self.options + 2)) // each
        kinds = [(self.pointers, U64), (self.longs, I64), (self.doubles, F64), (self.ints, I32)]
        fields: list[Any] = [(name, kind, (self.limit,)) for names, kind in kinds for name in names]
        fields += [("now", F64, (self.numbers,)), ("options", F64, (self.options,))]
        fields += [("device", U64), ("sizes", I32, (2,))]
        self.table = np.dtype(fields, align=True)
        self.kernels: dict[tuple[Any, str], Any] = {}

    def kernel(self, dtype: Any, name: str) -> Any:
        found = self.kernels.get((dtype, name))
        if found is None:
            words = {self.program: 1, "LIMIT": self.limit, "LINE": LINE}
            found = compiled(self.gpu.xp, "matrices.cu", NAMES[dtype], name, words)
            self.kernels[dtype, name] = found
        return found

    def fits(self, arrays: Sequence[Any], sizes: Sequence[int]) -> bool:
        """Whether these are floats of one dtype and of these sizes on the GPU.

        All but the second, the gradient, are contiguous.
        """
        dtype = arrays[0].dtype
        if dtype not in NAMES or not 0 < arrays[0].size < MOST:
            return False
        for i, (x, size) in enumerate(zip(arrays, sizes, strict=True)):
            if type(x) is not self.gpu.xp.ndarray or x.dtype is not dtype or x.size != size:
                return False
            if i != 1 and not contiguous(x):
                return False
        return True

    def filled(self, now: Sequence[float], options: Sequence[float], counters: Any) -> Any:
        table = np.zeros((), self.table)
        table["now"] = now
        table["options"] = options
        if counters is not None:
            table["device"] = counters.memory.data.ptr
        return table

    def placed(self, table: Any, rows: Sequence[Sequence[Any]]) -> list[Sequence[Any]]:
        """Addresses into the table; gradients that have gaps are copied first, and returned."""
        grads = [x if contiguous(x) else self.backend.copied(x) for x in rows[1]]
        kept = [rows[0], grads, *rows[2:]]
        for name, arrays in zip(self.pointers, kept, strict=True):
            table[name][: len(arrays)] = [0 if x is None else x.data.ptr for x in arrays]
        return kept

    def divide(self, table: Any, sizes: tuple[int, ...]) -> int:
        """Share elements out to blocks; how many there are."""
        n, first, chunk, blocks = divided(sizes, self.gpu.blocks)
        count = len(sizes)
        table["n"][:count] = n
        table["first"][:count] = first
        table["sizes"] = count, chunk
        return blocks


def firsts(counts: Sequence[int]) -> tuple[list[int], int]:
    """The first of each and how many there are, of things that come in these numbers."""
    ends = list(itertools.accumulate(counts))
    return [0, *ends[:-1]], ends[-1]


class Adafactor(ManyTensors):
    program = "ADAFACTOR"
    pointers = ("p", "g", "rows_at", "columns_at")
    longs = ("n",)
    ints = ("rows", "columns", "first_row", "first_column", "first", "first_mean")
    numbers, options = 2, 6

    def takes(self, arrays: Sequence[Any]) -> bool:
        """A parameter, its gradient, and mean squares: rows and columns, or of every element."""
        p = arrays[0]
        sizes = [p.size, p.size, p.size]
        if len(arrays) == 4:
            sizes[2:] = [p.size // p.shape[-1], p.size // p.shape[-2]] if p.size else [0, 0]
        return self.fits(arrays, sizes)

    def update(
        self,
        each: Sequence[Sequence[Any]],
        now: Sequence[float],
        options: Sequence[float],
        counters: Any,
    ) -> None:
        """One step of parameters of one dtype, each with its arrays."""
        for start in range(0, len(each), self.limit):
            self.launch(each[start : start + self.limit], now, options, counters)

    def launch(self, each: Any, now: Any, options: Any, counters: Any) -> None:
        ndarray = self.gpu.xp.ndarray
        dtype = each[0][0].dtype
        shapes = [arrays[0].shape if len(arrays) == 4 else (1, 0) for arrays in each]
        sizes = tuple([arrays[0].size for arrays in each])
        table = self.filled(now, options, counters)
        some = [[*arrays, None][:4] for arrays in each]
        kept = self.placed(table, list(zip(*some, strict=True)))
        blocks = self.divide(table, sizes)
        pairs = list(zip(sizes, shapes, strict=True))
        lines = [-(-n // (shape[-1] or LINE)) for n, shape in pairs]
        stacks = [n // (shape[-2] * shape[-1]) if shape[-1] else 1 for n, shape in pairs]
        across = [m * (1 + -(-shape[-1] // 32)) for m, shape in zip(stacks, shapes, strict=True)]
        first_row, row_blocks = firsts([-(-n // WARPS) for n in lines])
        first_column, column_blocks = firsts(across)
        first_mean, matrices = firsts(stacks)
        count = len(each)
        table["rows"][:count] = [shape[-2] for shape in shapes]
        table["columns"][:count] = [shape[-1] for shape in shapes]
        table["first_row"][:count] = first_row
        table["first_column"][:count] = first_column
        table["first_mean"][:count] = first_mean
        given = opaque(table)
        own_parts, parts = ndarray((row_blocks,), F64), ndarray((blocks,), F64)
        means, steps = ndarray((matrices,), accumulator(dtype)), ndarray((count,), F64)
        self.kernel(dtype, "squares")((row_blocks,), BLOCK, (given, own_parts))
        self.kernel(dtype, "columns")((column_blocks,), WIDE, (given, own_parts, means, steps))
        self.kernel(dtype, "steps")((blocks,), BLOCK, (given, means, parts))
        self.kernel(dtype, "update")((blocks,), BLOCK, (given, means, parts, steps))
        del kept

    def advance(self, dtype: Any, counters: Any) -> None:
        """Update the step count on the GPU, as part of the captured graph."""
        self.kernel(dtype, "next_numbers")((1,), (1,), (counters.memory,))


class Muon(ManyTensors):
    program = "MUON"
    pointers = ("p", "g", "buffer")
    longs = ("n", "place")
    doubles = ("factor",)
    ints = ("rows", "columns", "first")
    numbers, options = 1, 4

    def takes(self, arrays: Sequence[Any]) -> bool:
        """A matrix of parameters, its gradient and the mean of gradients."""
        return arrays[0].ndim == 2 and self.fits(arrays, [arrays[0].size] * 3)

    def update(
        self,
        each: Sequence[Sequence[Any]],
        factors: Sequence[float],
        polynomial: tuple[Sequence[float], int],
        now: Sequence[float],
        options: Sequence[float],
        counters: Any,
    ) -> None:
        """One step of matrices of one dtype; `factors` are by how much `lr` is larger for each.

        `polynomial` are its coefficients, and how often it is applied.
        """
        order = sorted(range(len(each)), key=lambda i: wide(each[i][0].shape))
        for start in range(0, len(order), self.limit):
            some = order[start : start + self.limit]
            arrays = [each[i] for i in some]
            self.launch(arrays, [factors[i] for i in some], polynomial, now, options, counters)

    def launch(
        self, each: Any, factors: Any, polynomial: Any, now: Any, options: Any, counters: Any
    ) -> None:
        ndarray = self.gpu.xp.ndarray
        dtype = each[0][0].dtype
        shapes = [arrays[0].shape for arrays in each]
        table = self.filled(now, options, counters)
        kept = self.placed(table, list(zip(*each, strict=True)))
        blocks = self.divide(table, tuple([rows * columns for rows, columns in shapes]))
        places, stacks, size = stacked([wide(shape) for shape in shapes])
        count = len(each)
        table["place"][:count] = places
        table["factor"][:count] = factors
        table["rows"][:count] = [rows for rows, _ in shapes]
        table["columns"][:count] = [columns for _, columns in shapes]
        given = opaque(table)
        x, parts = ndarray((size,), bfloat16()), ndarray((blocks,), F64)
        self.kernel(dtype, "momentum")((blocks,), BLOCK, (given, x, parts))
        self.kernel(dtype, "shorten")((blocks,), BLOCK, (given, x, parts))
        for place, shape in stacks:
            stack = x[place : place + shape[0] * shape[1] * shape[2]].reshape(shape)
            self.made_orthogonal(stack, *polynomial)
        self.kernel(dtype, "update")((blocks,), BLOCK, (given, x))
        del kept

    def made_orthogonal(self, x: Any, coefficients: Sequence[float], times: int) -> None:
        """Newton and Schulz's iteration, in place, of a stack of wide matrices."""
        a, b, c = coefficients
        blas, copied = self.gpu.blas, self.backend.copied
        for _ in range(times):
            gram = cublas.stack_product(blas, x, x.transpose(0, 2, 1))
            factor = cublas.stack_product(blas, gram, gram, copied(gram), c, beta=b)
            cublas.stack_product(blas, factor, copied(x), x, beta=a)


def wide(shape: tuple[int, int]) -> tuple[int, int]:
    """The shape of a matrix with its shorter side first."""
    return (min(shape), max(shape))


def stacked(shapes: Sequence[tuple[int, int]]) -> tuple[list[int], list[Any], int]:
    """Where matrices go, of which those of one shape follow each other.

    Their places, each stack's place and shape, and how many elements there are.
    """
    places: list[int] = []
    stacks = []
    at = 0
    for shape, alike in itertools.groupby(shapes):
        at = -(-at // ALIGNED) * ALIGNED
        many = len(list(alike))
        size = shape[0] * shape[1]
        stacks.append((at, (many, *shape)))
        places += [at + i * size for i in range(many)]
        at += many * size
    return places, stacks, at


def bfloat16() -> Any:
    from ....dtypes import bfloat16

    return bfloat16.np
