"""Random numbers on the GPU in one launch: the functions of cuda/philox.py, and dropout.

They are PyTorch's, so threads take the numbers that PyTorch's threads do. Seed and first round
travel with the launch; in a CUDA graph they are read from memory: a replay draws new numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...geometry import ordered
from ..cublas import NAMES
from ..programs import compiled
from .launcher import Launcher

U64, I64 = np.uint64, np.int64
NOTHING = np.uint64(0)  # a null pointer
MASK = 0xFFFF_FFFF_FFFF_FFFF
THREADS = (256,)
BOOL = np.dtype(np.bool_)


DISTRIBUTIONS = ("exponential", "cauchy", "log_normal", "geometric")
# Of the file, by kernel.
PARTS = {
    **dict.fromkeys(["words", "long_words", "fours", "untied", "fill_cell"], "WORDS"),
    **dict.fromkeys(["uniform", "between", "normal", "bernoulli", *DISTRIBUTIONS], "FLOATS"),
    **dict.fromkeys(["dropout", "masked"], "DROPOUT"),
}


class Draws:
    """The kernels, compiled when they are first used."""

    def __init__(self, gpu: Any) -> None:
        self.gpu = gpu
        self.compiled: dict[tuple[str, str, int], Any] = {}

    def kernel(self, name: str, kind: str, side: int = 1) -> Any:
        found = self.compiled.get((name, kind, side))
        if found is None:
            words = {PARTS[name]: 1, "SIDE": side}
            found = compiled(self.gpu.xp, "philox.cu", kind, name, words)
            self.compiled[(name, kind, side)] = found
        return found

    def drawn(self, name: str, kind: str, out: Any, start: Any, options: Any = ()) -> Any:
        """Fill a contiguous array by as many threads as the start says."""
        if out.size:  # a launch of nothing is an error
            args = (out, *place(start), *options, I64(out.size))
            self.kernel(name, kind)((start.threads // 256,), THREADS, args)
        return out

    # The functions of cuda/philox.py, by the same names without `philox_`.

    def words(self, xp: Any, count: int, start: Any, long: bool) -> Any:
        out = self.gpu.empty((count,), np.dtype(np.uint64 if long else np.uint32))
        return self.drawn("long_words" if long else "words", "float32", out, start)

    def uniform(self, xp: Any, shape: Any, dtype: Any, start: Any) -> Any:
        return self.drawn("uniform", NAMES[dtype], self.gpu.empty(shape, dtype), start)

    def between(self, xp: Any, shape: Any, dtype: Any, low: float, high: float, start: Any) -> Any:
        kind = NAMES[dtype]
        work = real(kind)
        closed, open_end = work(dtype.type(low)), work(dtype.type(high))
        options = (closed, open_end - closed, closed, open_end)
        return self.drawn("between", kind, self.gpu.empty(shape, dtype), start, options)

    def normal(self, xp: Any, shape: Any, dtype: Any, mean: float, std: float, start: Any) -> Any:
        kind = NAMES[dtype]
        options = (real(kind)(mean), real(kind)(std))
        return self.drawn("normal", kind, self.gpu.empty(shape, dtype), start, options)

    def bernoulli(self, xp: Any, shape: Any, dtype: Any, p: float, start: Any) -> Any:
        kind = NAMES.get(dtype, "bool")
        out = self.gpu.empty(shape, dtype if dtype in NAMES else BOOL)
        drawn = self.drawn("bernoulli", kind, out, start, (real(kind)(p),))
        return drawn.astype(dtype, copy=False)

    def mapped(
        self, xp: Any, start: Any, name: str, shape: Any, dtype: Any, *numbers: float
    ) -> Any:
        """`philox_map`: one of DISTRIBUTIONS."""
        kind = NAMES[dtype]
        options = [real(kind)(v) for v in (*numbers, 0.0)[:2]]
        return self.drawn(name, kind, self.gpu.empty(shape, dtype), start, options)

    def untied(self, xp: Any, order: Any, keys: Any, start: Any) -> Any:
        found = order.astype(np.int64, copy=False)
        args = (keys[found], found, *place(start), I64(order.size))
        self.kernel("untied", "float32")(self.gpu.grid(order.size), THREADS, args)
        return found

    def fours(self, xp: Any, count: int, start: Any) -> Any:
        out = self.gpu.empty((count,), np.dtype(np.float32))
        if count:
            args = (out, *place(start), I64(count))
            self.kernel("fours", "float32")(self.gpu.grid((count + 3) // 4), THREADS, args)
        return out

    def fill_cell(self, cell: Any, seed: int, round: int) -> None:
        run = self.kernel("fill_cell", "float32")
        run((1,), (1,), (cell, U64(seed & MASK), U64(round & MASK)))


def place(start: Any) -> tuple[Any, Any, Any]:
    """Where a draw starts, as kernels take it."""
    cell = NOTHING if start.cell is None else start.cell
    return cell, U64(start.seed & MASK), U64(start.round & MASK)


def real(kind: str) -> Any:
    return np.float64 if kind == "float64" else np.float32


def register(backend: Any, gpu: Any, reference: Any) -> None:
    draws = Draws(gpu)
    backend.draws.update(
        philox_words=draws.words,
        philox_uniform=draws.uniform,
        philox_between=draws.between,
        philox_normal=draws.normal,
        philox_bernoulli=draws.bernoulli,
        philox_fours=draws.fours,
        philox_map=draws.mapped,
        philox_untied=draws.untied,
        fill_cell=draws.fill_cell,
    )
    for launcher in (DrawnDropout, Dropout, DropoutBackward):
        launcher(backend, draws, reference).register(backend)


class DropoutLauncher(Launcher):
    """A launcher with the kernels of random numbers."""

    def __init__(self, backend: Any, draws: Draws, reference: Any) -> None:
        super().__init__(reference)
        self.backend = backend
        self.draws = draws
        self.gpu = draws.gpu


class DrawnDropout(DropoutLauncher):
    """Draws a mask and applies it; both are results."""

    op = "drawn_dropout"

    def fits(self, input: Any, keep: float, scale: float, start: Any) -> bool:
        return input.dtype in NAMES

    def plan(self, input: Any, keep: float, scale: float, start: Any) -> Any:
        return self.draws.kernel("dropout", NAMES[input.dtype], start.side_by_side)

    def run(self, plan: Any, input: Any, keep: float, scale: float, start: Any) -> Any:
        x, back = ordered(input)
        if not x.flags.c_contiguous:
            x = self.backend.copied(x)
        out, mask = self.gpu.empty(x.shape, x.dtype), self.gpu.empty(x.shape, BOOL)
        number = real(NAMES[x.dtype])
        options = (number(keep), number(scale), I64(x.size))
        plan((start.threads // 256,), THREADS, (x, out, mask, *place(start), *options))
        return (out, mask) if x is input else (out.transpose(back), mask.transpose(back))


class Dropout(DropoutLauncher):
    """Applies a mask that is given."""

    op = "native_dropout"

    def fits(self, x: Any, mask: Any, scale: float) -> bool:
        if x.dtype not in NAMES or mask.dtype != BOOL or x.shape != mask.shape:
            return False
        return bool(x.flags.c_contiguous and mask.flags.c_contiguous)

    def plan(self, x: Any, mask: Any, scale: float) -> Any:
        return self.draws.kernel("masked", NAMES[x.dtype])

    def run(self, plan: Any, x: Any, mask: Any, scale: float) -> Any:
        out = self.gpu.empty(x.shape, x.dtype)
        if x.size:
            args = (x, mask, out, real(NAMES[x.dtype])(scale), I64(x.size))
            plan(self.gpu.grid((x.size + 3) // 4), THREADS, args)
        return out


class DropoutBackward(Dropout):
    op = "native_dropout_backward"
