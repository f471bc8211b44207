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
from .launcher import Launcher
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

    def planned(self, kind: str, x: Any, dim: Any, keepdim: Any) -> tuple[Fold, Any] | None:
        """The plan for an array, and the array laid out for it; None where CuPy has to do it."""
        dtype = x.dtype
        if type(x) is not self.gpu.xp.ndarray or dtype not in NAMES or type(dim) is list:
            return None
        x = dense(self.backend, x)
        plan = self.plans.get((x.shape, dim, bool(keepdim), dtype, kind))
        return None if plan is None else (plan, x)

    def run(self, plan: Fold, x: Any, number: float, two: bool = False) -> Any:
        """The reduction, or both results of one that has `two`."""
        dtype = x.dtype
        out = self.gpu.xp.ndarray(plan.shape, dtype)
        results = (out, self.gpu.xp.ndarray(plan.shape, dtype)) if two else (out,)
        plan.run(plan.grid, plan.block, (x, *results, real(dtype, number), *plan.sizes))
        return results if two else out


def register(backend: Any, gpu: Gpu, reference: Any) -> None:
    from . import fold_gradients  # which looks at these

    folds = Folds(backend, gpu)
    for launcher in (Variance, Deviation, VarianceMean, DeviationMean, LogSumExp, Norm, NormAlong):
        launcher(folds, reference).register(backend)
    fold_gradients.register(backend, folds)


class FoldLauncher(Launcher):
    """A launcher of reductions. Its plan is a Fold, with the array that is reduced."""

    def __init__(self, folds: Folds, reference: Any) -> None:
        super().__init__(reference)
        self.folds = folds


class Variance(FoldLauncher):
    """Variances, and their roots and means in the classes below."""

    op = "var"
    two = False  # the mean is a result too

    def fits(self, input: Any, dim: Any, correction: Any, keepdim: Any) -> bool:
        return type(correction) in (int, float) and count_of(input.shape, dim) > 0

    def plan(self, input: Any, dim: Any, correction: Any, keepdim: Any) -> Any:
        return self.folds.planned(self.op, input, dim, keepdim)

    def run(self, plan: Any, input: Any, dim: Any, correction: Any, keepdim: Any) -> Any:
        fold, x = plan
        n = count_of(input.shape, dim)
        return self.folds.run(fold, x, n - correction if n > correction else 0, self.two)


class Deviation(Variance):
    op = "std"


class VarianceMean(Variance):
    op = "var_mean"
    two = True


class DeviationMean(Variance):
    op = "std_mean"
    two = True


class LogSumExp(FoldLauncher):
    """The logarithm of the sum of exponentials."""

    op = "logsumexp"

    def fits(self, input: Any, dim: Any, keepdim: Any) -> bool:
        return True

    def plan(self, input: Any, dim: Any, keepdim: Any) -> Any:
        return self.folds.planned(self.op, input, dim, keepdim)

    def run(self, plan: Any, input: Any, dim: Any, keepdim: Any) -> Any:
        fold, x = plan
        return self.folds.run(fold, x, 0.0)


NORMS = {0: "norm0", 1: "norm1", 2: "norm2", math.inf: "norm_max", -math.inf: "norm_min"}


class NormAlong(FoldLauncher):
    """Norms of any order along dimensions."""

    op = "norm_along"

    def fits(self, input: Any, ord: float, dim: Any, keepdim: Any) -> bool:
        return bool(input.size and count_of(input.shape, dim))

    def plan(self, input: Any, ord: float, dim: Any, keepdim: Any) -> Any:
        if ord != 0 and count_of(input.shape, dim) == 1:
            ord = 1  # the size itself, whose powers may be too large or too small
        found = self.folds.planned(NORMS.get(ord, "norm"), input, dim, keepdim)
        return None if found is None else (*found, float(ord))

    def run(self, plan: Any, *args: Any) -> Any:
        return self.folds.run(*plan)


class Norm(NormAlong):
    """Norms in a dtype that may be another than the input's."""

    op = "linalg_vector_norm"

    def tried(self, input: Any, ord: float, dim: Any, keepdim: Any, dtype: Any) -> Any:
        if dtype is not None and dtype != input.dtype:
            input = DEVICE.space.cast(input, dtype)
        return super().tried(input, ord, dim, keepdim)


def count_of(shape: tuple[int, ...], dim: Any) -> int:
    """How many elements each result is made of; 0 for dimensions that no kernel takes."""
    dims = range(len(shape)) if dim is None else dim
    return math.prod([shape[d] for d in dims]) if type(dims) in (tuple, range) else 0
