"""Variances, norms and logarithms of sums on the GPU: one launch each (sources/folds.cu).

Few very long rows are left to CuPy, who has several blocks for a row.
"""

from __future__ import annotations

import math
from typing import Any

from ....core.devices import DEVICE
from ..cublas import NAMES
from ..library import reduced_shape
from .kernels import I64, SQUARE, Gpu, folded, real
from .moves import Plans
from .rows import dense

LONG = 1 << 16  # elements of a row that one block may have
TALL = 1 << 13  # elements of a column
MANY = 128  # rows or blocks that keep a GPU busy, however long they are

SIZE = "fabs(x)"
VARIANCE = {"MOMENTS": 1, "ENDED(a, s)": "(a.square / s)"}
DEVIATION = {"MOMENTS": 1, "ENDED(a, s)": "sqrt(a.square / s)"}
ALL_OF_IT = {"ENDED(a, s)": "a.total"}
# By the name of a reduction: what sources/folds.cu wants to be defined.
KINDS: dict[str, dict[str, Any]] = {
    "var": VARIANCE,
    "std": DEVIATION,
    "var_mean": {**VARIANCE, "TWO_RESULTS": 1},
    "std_mean": {**DEVIATION, "TWO_RESULTS": 1},
    "logsumexp": {
        "LOGARITHM": 1,
        "ENDED(a, s)": "(a.total == 0 ? a.most : a.most + log(a.total))",
    },
    "norm0": {"TAKEN(x, s)": "(A)(x != 0)", **ALL_OF_IT},
    "norm1": {"TAKEN(x, s)": SIZE, **ALL_OF_IT},
    "norm2": {"TAKEN(x, s)": "x * x", "ENDED(a, s)": "sqrt(a.total)"},
    "norm": {"TAKEN(x, s)": f"pow({SIZE}, s)", "ENDED(a, s)": "pow(a.total, 1 / s)"},
    "norm_max": {"LARGEST": 1, "TAKEN(x, s)": SIZE, **ALL_OF_IT},
    "norm_min": {"SMALLEST": 1, "TAKEN(x, s)": SIZE, **ALL_OF_IT},
}


class Fold:
    """The plan of a reduction: kernel, grid, block, shape of the result and sizes."""

    __slots__ = ("block", "grid", "run", "shape", "sizes")

    def __init__(self, run: Any, grid: Any, block: Any, shape: Any, sizes: Any) -> None:
        self.run = run
        self.grid = grid
        self.block = block
        self.shape = shape
        self.sizes = sizes


class Folds:
    def __init__(self, backend: Any, gpu: Gpu) -> None:
        self.backend = backend
        self.gpu = gpu
        self.plans = Plans(self.plan)

    def kernel(self, kind: str, dtype: str, name: str) -> Any:
        return self.gpu.kernel("folds.cu", dtype, name, **KINDS[kind])

    def plan(self, shape: Any, dim: Any, keepdim: bool, dtype: Any, kind: str) -> Fold | None:
        found = folded(shape, dim)
        if found is None:
            return None
        down, rows, n = found
        made = reduced_shape(shape, dim, keepdim) if shape else ()
        if down:
            blocks = (n + 31) // 32
            if rows > TALL and blocks < MANY:
                return None
            run = self.kernel(kind, NAMES[dtype], "fold_columns")
            return Fold(run, (blocks,), SQUARE, made, (I64(rows), I64(n)))
        if n > LONG and rows < MANY:
            return None
        threads = min(1024, max(32, 1 << (max(n, 1) // 2).bit_length()))
        run = self.kernel(kind, NAMES[dtype], "fold_rows")
        return Fold(run, (rows,), (threads,), made, (I64(n),))

    def run(
        self, kind: str, x: Any, number: float, dim: Any, keepdim: Any, two: bool = False
    ) -> Any:
        """The reduction, or both results of one that has `two`; None where CuPy has to do it."""
        dtype = x.dtype
        if type(x) is not self.gpu.xp.ndarray or dtype not in NAMES or type(dim) is list:
            return None
        x = dense(self.backend, x)
        plan = self.plans.get((x.shape, dim, bool(keepdim), dtype, kind))
        if plan is None:
            return None
        out = self.gpu.xp.ndarray(plan.shape, dtype)
        if two:
            second = self.gpu.xp.ndarray(plan.shape, dtype)
            plan.run(plan.grid, plan.block, (x, out, second, real(dtype, number), *plan.sizes))
            return out, second
        plan.run(plan.grid, plan.block, (x, out, real(dtype, number), *plan.sizes))
        return out


def register(backend: Any, gpu: Gpu, reference: Any) -> None:
    from . import fold_gradients  # which looks at these

    folds = Folds(backend, gpu)
    for name in ("var", "std", "var_mean", "std_mean"):
        backend.override(name)(spread(folds, name, reference(name)))
    fold_gradients.register(backend, folds)
    other, other_norm = reference("logsumexp"), reference("linalg_vector_norm")
    other_along = reference("norm_along")

    @backend.override("logsumexp")
    def logsumexp(input: Any, dim: Any, keepdim: Any) -> Any:
        out = folds.run("logsumexp", input, 0.0, dim, keepdim)
        return other(input, dim, keepdim) if out is None else out

    @backend.override("linalg_vector_norm")
    def vector_norm(input: Any, ord: float, dim: Any, keepdim: Any, dtype: Any) -> Any:
        x = input
        if dtype is not None and dtype != input.dtype:
            x = DEVICE.space.cast(input, dtype)
        out = length(folds, x, ord, dim, keepdim)
        return other_norm(input, ord, dim, keepdim, dtype) if out is None else out

    @backend.override("norm_along")
    def norm_along(input: Any, ord: float, dim: Any, keepdim: Any) -> Any:
        out = length(folds, input, ord, dim, keepdim)
        return other_along(input, ord, dim, keepdim) if out is None else out


def spread(folds: Folds, name: str, other: Any) -> Any:
    def run(input: Any, dim: Any, correction: Any, keepdim: Any) -> Any:
        shape = input.shape
        dims = range(len(shape)) if dim is None else dim
        n = math.prod([shape[d] for d in dims]) if type(dims) in (tuple, range) else 0
        out = None
        if n and type(correction) in (int, float):
            freedom = n - correction if n > correction else 0
            out = folds.run(name, input, freedom, dim, keepdim, two=name.endswith("mean"))
        return other(input, dim, correction, keepdim) if out is None else out

    return run


def length(folds: Folds, x: Any, ord: float, dim: Any, keepdim: Any) -> Any:
    """A norm; None where CuPy has to do it."""
    shape = x.shape
    dims = range(len(shape)) if dim is None else dim
    if type(dims) not in (tuple, range) or not x.size:
        return None
    if ord != 0 and math.prod([shape[d] for d in dims]) == 1:
        ord = 1  # the size itself, whose powers may be too large or too small
    kinds = {0: "norm0", 1: "norm1", 2: "norm2", math.inf: "norm_max", -math.inf: "norm_min"}
    return folds.run(kinds.get(ord, "norm"), x, float(ord), dim, keepdim)
