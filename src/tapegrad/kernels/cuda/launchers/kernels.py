"""The compiled kernels of one GPU module, and the registration of all launchers.

An override looks at dtypes and memory first; what it was not written for goes to the block's own
forward, which CuPy runs. Kernels are compiled on first use, and CuPy keeps them on disk.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ....core.op import REGISTRY
from .. import cublas, cublaslt
from ..cublas import NAMES
from ..formulas import NUMBERS, Formula
from ..library import reduced_shape
from ..programs import compiled, formula_file
from .moves import MANY, U32, Plans, contiguous

NOTHING = np.uint64(0)  # a null pointer
I32, I64 = np.int32, np.int64
BLOCK = (256,)
WARPS = (32, 8)
SQUARE = (32, 32)
TALL = 4096  # rows up to which one block adds up a column by itself
LARGEST = float(np.finfo(np.float32).max)
LONG = 1 << 16  # elements up to which one block adds up a row by itself


class Gpu:
    """Compiled kernels and cuBLAS, for one array module."""

    joins: Any = None  # of ../joins.py, while a graph is recorded

    def __init__(self, xp: Any) -> None:
        self.xp = xp
        cublas.learn_bfloat16()  # plans are made for the dtypes that are known
        self.compiled: dict[tuple[str, ...], Any] = {}
        self.spreads = Plans(plan_spread)
        self.sums = Plans(self.plan_sum)
        properties = xp.cuda.runtime.getDeviceProperties(0)
        self.blocks = int(properties["multiProcessorCount"]) * 16

    @functools.cached_property
    def blas(self) -> cublas.Library:
        return cublas.Library(self.xp)

    @functools.cached_property
    def hopper(self) -> Any:
        from .conv_hopper import Hopper

        return Hopper(self)

    @functools.cached_property
    def lt(self) -> cublaslt.Lt:
        return cublaslt.Lt(self, self.blas)

    def kernel(self, source: str, kind: str, name: str, **words: Any) -> Any:
        """A kernel by its file, its dtype, its own name and the words that are defined for it."""
        key = (source, kind, name, *words.items()) if words else (source, kind, name)
        found = self.compiled.get(key)
        if found is None:
            found = self.compiled[key] = compiled(self.xp, source, kind, name, words)
        return found

    def empty(self, shape: Any, dtype: Any) -> Any:
        return self.xp.ndarray(shape, dtype)

    def grid(self, count: int) -> tuple[int]:
        return (min((count + 255) // 256, self.blocks) or 1,)

    def fours(self, count: int) -> tuple[int]:
        """The grid of kernels whose threads take four elements."""
        return (min((count + 1023) // 1024, self.blocks),)

    def elementwise(self, form: str, formula: Formula) -> Any:
        """Compile the kernel around a formula; the form "binary_once" is binary's `once`."""
        name, _, once = form.partition("_")
        made = formula_file(formula.text, NUMBERS[: len(formula.numbers)])
        words = {name.upper(): 1, "ONCE": int(bool(once))}
        run = compiled(self.xp, "elementwise.cu", NAMES[formula.dtype], name, words, made)
        formula.kernels[form] = run
        return run

    def unary(self, formula: Formula, x: Any, *numbers: float) -> Any:
        """A formula of contiguous floats, and of numbers."""
        dtype = x.dtype
        out = self.xp.ndarray(x.shape, dtype)
        n = x.size
        if n:
            run = formula.kernels.get("unary") or self.elementwise("unary", formula)
            if numbers:
                run(self.fours(n), BLOCK, (x, out, n, *map(real_of(dtype), numbers)))
            else:
                run(self.fours(n), BLOCK, (x, out, n))
        return out

    def binary(self, formula: Formula, x: Any, y: Any, *numbers: float) -> Any:
        """A formula of contiguous floats of one shape and dtype, and of numbers."""
        dtype = x.dtype
        out = self.xp.ndarray(x.shape, dtype)
        n = x.size
        if n:
            run = formula.kernels.get("binary") or self.elementwise("binary", formula)
            if numbers:
                run(self.fours(n), BLOCK, (x, y, out, n, *map(real_of(dtype), numbers)))
            else:
                run(self.fours(n), BLOCK, (x, y, out, n))
        return out

    def combined(
        self,
        form: str,
        formula: Formula,
        arrays: Any,
        numbers: tuple[float, ...],
        out: Any = None,
    ) -> Any:
        """A formula in any form of elementwise.cu; the last array has the shape of the result.

        `out` may be one of the arrays: each element is read before it is written.
        """
        last = arrays[-1]
        dtype = last.dtype
        if out is None:
            out = self.xp.ndarray(last.shape, dtype)
        n = last.size
        if n:
            run = formula.kernels.get(form) or self.elementwise(form, formula)
            run(self.fours(n), BLOCK, (*arrays, out, n, *map(real_of(dtype), numbers)))
        return out

    def binary_broadcast(self, formula: Formula, x: Any, y: Any, *numbers: float) -> Any:
        """`binary` with broadcasting; None if it is not of the simple kind."""
        plan = self.spreads.get((x.shape, y.shape))
        if plan is None:
            return None
        dtype = x.dtype
        shape, sizes = plan
        out = self.xp.ndarray(shape, dtype)
        run = formula.kernels.get("spread") or self.elementwise("spread", formula)
        run(self.grid(out.size), BLOCK, (x, y, out, *sizes, *map(real_of(dtype), numbers)))
        return out

    def rows(self, name: str, kind: str, rows: int, args: tuple[Any, ...]) -> None:
        """Run a kernel that gives each row of a matrix a warp."""
        if rows:
            self.kernel("rows.cu", kind, name)(((rows + 7) // 8,), (32, 8), args)

    def summed(self, x: Any, dim: Any, keepdim: bool, mean: bool) -> Any:
        """Sums or means of contiguous floats; None where CuPy has to do it."""
        plan = self.sums.get((x.shape, dim, keepdim, x.dtype, mean))
        return None if plan is None else self.add_up(plan, x)

    def add_up(self, plan: Sum, x: Any) -> Any:
        """The sums of an array that a plan was made for."""
        dtype = x.dtype
        out = self.xp.ndarray(plan.shape, dtype)
        if plan.end is None:
            plan.run(plan.grid, plan.block, (x, NOTHING, out, *plan.sizes))
        else:
            parts = self.xp.ndarray(plan.parts, accumulator(dtype))
            plan.run(plan.grid, plan.block, (x, parts, NOTHING, *plan.sizes))
            plan.end(plan.end_grid, plan.block, (parts, out, *plan.end_sizes))
        return out

    def plan_sum(
        self, shape: tuple[int, ...], dim: Any, keepdim: bool, dtype: Any, mean: bool
    ) -> Sum | None:
        found = folded(shape, dim)
        if found is None:
            return None
        down, rows, n = found
        kind = NAMES[dtype]
        plan = Sum(reduced_shape(shape, dim, keepdim) if shape else ())
        by = real(dtype, (rows if down else n) if mean else 1)
        count = 1
        if down:
            chunk = rows if rows <= TALL else max(1024, -(-rows // 128))
            count = -(-rows // chunk)
            name, plan.block, plan.sizes = "columns", SQUARE, (by, I64(rows), I32(n), I32(chunk))
            across = (n + 31) // 32
            plan.grid, plan.end_grid, plan.parts = (across, count), (across, 1), (count, n)
            plan.end_sizes = (NOTHING, by, I32(count), I32(n))
        elif n <= 256 or (n <= 8192 and rows >= 64):
            name, plan.block, plan.sizes = "short_rows", WARPS, (by, I64(rows), I32(n))
            plan.grid = ((rows + 7) // 8,)
        else:
            if n > LONG and rows < 128:
                count = min(-(-n // 16384), 512 // rows)
            chunk = -(-n // count)
            count = -(-n // chunk)
            name, plan.block, plan.sizes = "long_rows", (1024,), (by, I64(n), I64(chunk))
            plan.grid, plan.end_grid, plan.parts = (rows, count), (rows,), (rows, count)
            plan.end_sizes = (by, I32(count))
        plan.run = self.kernel("sums.cu", kind, name)
        if count > 1:
            plan.end = self.kernel("sums.cu", kind, f"{name}_end")
        return plan


class Sum:
    """How a sum is formed: one launch, or a second one (`end`) for the parts of the first."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.run: Any = None
        self.grid: tuple[int, ...] = ()
        self.block: tuple[int, ...] = ()
        self.sizes: tuple[Any, ...] = ()
        self.parts: tuple[int, ...] = ()
        self.end: Any = None
        self.end_grid: tuple[int, ...] = ()
        self.end_sizes: tuple[Any, ...] = ()


def folded(shape: tuple[int, ...], dim: Any) -> tuple[bool, int, int] | None:
    """A sum as that of a matrix: down its columns or along its rows? how many rows, columns?"""
    dims = range(len(shape)) if dim is None else dim
    if not isinstance(dims, (tuple, range)) or min(dims, default=0) < 0 or 0 in shape:
        return None
    gone = [d for d in dims if shape[d] != 1]
    left = [d for d in range(len(shape)) if d not in dims and shape[d] != 1]
    rows = math.prod([shape[d] for d in left])
    n = math.prod([shape[d] for d in gone])
    if gone and left and max(gone) < min(left):
        return (True, n, rows) if rows < MANY else None
    if gone and left and max(left) > min(gone):
        return None
    return (False, rows, n) if rows < MANY else None


def plan_spread(x: tuple[int, ...], y: tuple[int, ...]) -> Any:
    """The shape that two arrays broadcast to, and sizes for the kernel: the number of elements,
    and per array for how many elements each of its own stays, and how many it has.

    None unless an array's dimensions are neighbours in the result.
    """
    try:
        shape = np.broadcast_shapes(x, y)
    except ValueError:
        return None
    sizes = [math.prod(shape)]
    if not 0 < sizes[0] < MANY:
        return None
    for own in (x, y):
        whole = (*(1,) * (len(shape) - len(own)), *own)
        dims = [d for d, n in enumerate(whole) if n != 1] or [len(shape) - 1]
        some = slice(dims[0], dims[-1] + 1)
        if whole[some] != shape[some] and math.prod(own) != 1:
            return None
        sizes += [math.prod(shape[dims[-1] + 1 :]), math.prod(own)]
    return shape, tuple([U32(n) for n in sizes])


SINGLE, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)


def real_of(dtype: Any) -> Any:
    """The type that numbers are passed to kernels in, for arrays of a dtype."""
    return np.float64 if dtype.itemsize == 8 else float32_number


def float32_number(number: float) -> Any:
    """A number in single precision: infinite if it is too large, without NumPy's warning."""
    if number > LARGEST or number < -LARGEST:
        number = math.copysign(math.inf, number)
    return np.float32(number)


def real(dtype: Any, number: float) -> Any:
    """A number as kernels compute with it, for arrays of a dtype."""
    return np.float64(number) if dtype.itemsize == 8 else float32_number(number)


def accumulator(dtype: Any) -> Any:
    """The dtype that kernels compute in, for arrays of a dtype."""
    return DOUBLE if dtype.itemsize == 8 else SINGLE


def is_float(x: Any) -> bool:
    return x.dtype in NAMES


def contiguous_floats(x: Any, y: Any = None) -> bool:
    """Whether these are contiguous floats; if there are two, of one shape and dtype."""
    if x.dtype not in NAMES or not contiguous(x):
        return False
    return y is None or (y.dtype is x.dtype and y.shape == x.shape and contiguous(y))


def register(backend: Any) -> None:
    """Give a backend the kernels of this file and of the others."""
    gpu = Gpu(backend.xp)
    backend.gpu = gpu

    def reference(name: str) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            return REGISTRY[name].forward(backend.xp, *args)

        return run

    from . import (
        attention,
        conv,
        counts,
        draws,
        elementwise,
        folds,
        move_launchers,
        norm_launchers,
        optim,
        optim_matrices,
        products,
        ranges,
        recurrent,
        rows,
        sums,
        unfold,
    )

    every_file: tuple[Any, ...] = (
        *(products, sums, elementwise, rows, folds, norm_launchers, attention, draws, counts),
        *(move_launchers, conv, unfold, recurrent, optim, optim_matrices),
    )
    for file in every_file:
        file.register(backend, gpu, reference)
    backend.ranges = ranges.RangeWatch(gpu, backend)
