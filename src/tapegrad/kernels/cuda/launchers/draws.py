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


def place(start: Any) -> tuple[Any, Any, Any]:
    """Where a draw starts, as kernels take it."""
    cell = NOTHING if start.cell is None else start.cell
    return cell, U64(start.seed & MASK), U64(start.round & MASK)


def real(kind: str) -> Any:
    return np.float64 if kind == "float64" else np.float32


def register(backend: Any, gpu: Any, reference: Any) -> None:
    draws = Draws(gpu)

    def philox_words(xp: Any, count: int, start: Any, long: bool) -> Any:
        out = gpu.empty((count,), np.dtype(np.uint64 if long else np.uint32))
        return draws.drawn("long_words" if long else "words", "float32", out, start)

    def philox_uniform(xp: Any, shape: Any, dtype: Any, start: Any) -> Any:
        return draws.drawn("uniform", NAMES[dtype], gpu.empty(shape, dtype), start)

    def philox_between(xp: Any, shape: Any, dtype: Any, low: float, high: float, start: Any) -> Any:
        kind = NAMES[dtype]
        work = real(kind)
        closed, open_end = work(dtype.type(low)), work(dtype.type(high))
        options = (closed, open_end - closed, closed, open_end)
        return draws.drawn("between", kind, gpu.empty(shape, dtype), start, options)

    def philox_normal(xp: Any, shape: Any, dtype: Any, mean: float, std: float, start: Any) -> Any:
        kind = NAMES[dtype]
        options = (real(kind)(mean), real(kind)(std))
        return draws.drawn("normal", kind, gpu.empty(shape, dtype), start, options)

    def philox_bernoulli(xp: Any, shape: Any, dtype: Any, p: float, start: Any) -> Any:
        kind = NAMES.get(dtype, "bool")
        out = gpu.empty(shape, dtype if dtype in NAMES else BOOL)
        return draws.drawn("bernoulli", kind, out, start, (real(kind)(p),)).astype(
            dtype, copy=False
        )

    def philox_map(xp: Any, start: Any, name: str, shape: Any, dtype: Any, *numbers: float) -> Any:
        kind = NAMES[dtype]
        options = [real(kind)(v) for v in (*numbers, 0.0)[:2]]
        return draws.drawn(name, kind, gpu.empty(shape, dtype), start, options)

    def philox_untied(xp: Any, order: Any, keys: Any, start: Any) -> Any:
        found = order.astype(np.int64, copy=False)
        args = (keys[found], found, *place(start), I64(order.size))
        draws.kernel("untied", "float32")(gpu.grid(order.size), THREADS, args)
        return found

    def philox_fours(xp: Any, count: int, start: Any) -> Any:
        out = gpu.empty((count,), np.dtype(np.float32))
        if count:
            args = (out, *place(start), I64(count))
            draws.kernel("fours", "float32")(gpu.grid((count + 3) // 4), THREADS, args)
        return out

    def fill_cell(cell: Any, seed: int, round: int) -> None:
        run = draws.kernel("fill_cell", "float32")
        run((1,), (1,), (cell, U64(seed & MASK), U64(round & MASK)))

    backend.draws.update(
        philox_words=philox_words,
        philox_uniform=philox_uniform,
        philox_between=philox_between,
        philox_normal=philox_normal,
        philox_bernoulli=philox_bernoulli,
        philox_fours=philox_fours,
        philox_map=philox_map,
        philox_untied=philox_untied,
        fill_cell=fill_cell,
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
