"""Optimizers on the GPU, and what is done to all gradients: one launch for many tensors of a dtype.

The addresses of the tensors travel with the launch, as many as fit. While a CUDA graph is captured,
the numbers that change from step to step are read from memory on the GPU, so that a replay keeps
counting and follows a scheduler.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....core.base import ON_DEVICE, STATE, TensorBase, wrap
from ..cublas import NAMES
from ..programs import FUNCTIONS, compiled
from ..update_sources import Update, switches
from .kernels import accumulator, real_of
from .moves import contiguous, opaque

THREADS = 256
SHARE = 1024  # elements that a block takes at least: four for each thread
ROOM = 4096 - 64  # bytes that a launch may carry, less what else it carries
U64, I64, I32, F64 = np.uint64, np.int64, np.int32, np.float64
BLOCK = (THREADS,)
# What a product of two elements rounds to zero at (Rprop): its sign counts, and CuPy's compiler
# takes numbers for zero sooner than PyTorch's does.
TINY = {"float32": 2.0**-150, "float64": 0.0, "float16": 2.0**-25, "bfloat16": 2.0**-134}
# Of a norm, by its order: what sources/gradients.cu wants to be defined. A NaN is the largest.
ORDERS = {
    2.0: {"SIZE(a)": "(a * a)", "JOINED(a, b)": "(a + b)", "END(total)": "sqrt(total)"},
    1.0: {"SIZE(a)": "(a < 0 ? -a : a)", "JOINED(a, b)": "(a + b)", "END(total)": "total"},
    math.inf: {
        "SIZE(a)": "(a < 0 ? -a : a)",
        "JOINED(a, b)": "(b > a || b != b ? b : a)",
        "END(total)": "total",
    },
}
PLACE = I64().itemsize + I32().itemsize  # what a launch holds of a tensor besides addresses


def register(backend: Any, gpu: Any, reference: Any) -> None:
    backend.optimizers = FusedRules(gpu, backend.copied)
    backend.counters = lambda values: Counters(gpu.xp, values)
    backend.gradients = Gradients(gpu)


@functools.lru_cache(256)
def divided(sizes: tuple[int, ...], most: int) -> tuple[Any, Any, int, int]:
    """Blocks for tensors of these sizes, about `most` of them or less.

    The sizes, the first block of each tensor, how many elements a block takes, how many there are.
    """
    chunk = max(-(-sum(sizes) // (most * SHARE)), 1) * SHARE
    ends = list(itertools.accumulate([-(-n // chunk) for n in sizes]))
    return np.array(sizes, I64), np.array([0, *ends[:-1]], I32), chunk, ends[-1]


# ---------------------------------------------------------------------- optimizers


class Counters:
    """Numbers that a captured step reads on the GPU: the learning rate, then the state's own."""

    def __init__(self, xp: Any, values: Sequence[float]) -> None:
        self.memory = xp.zeros(len(values), F64)
        self.set(values)

    def set(self, values: Sequence[float]) -> None:
        """Between replays."""
        self.memory.set(np.array(values, F64))


class FusedRules:
    """The kernels of the optimizers' rules."""

    def __init__(self, gpu: Any, copied: Any) -> None:
        self.gpu = gpu
        self.copied = copied
        self.known: dict[Any, FusedRule] = {}

    def fits(self, arrays: Sequence[Any]) -> bool:
        """Whether a parameter, its gradient and its state are floats of one dtype and size.

        All but the gradient have to be contiguous, and on the current GPU.
        """
        first = arrays[0]
        dtype, size = first.dtype, first.size
        if dtype not in NAMES or not contiguous(first):
            return False
        if STATE.several and first.device.id != self.gpu.xp.cuda.runtime.getDevice():
            return False
        grad = arrays[1]
        if grad.dtype is not dtype or grad.size != size:
            return False
        for x in arrays[2:]:
            if x.dtype is not dtype or x.size != size or not contiguous(x):
                return False
        return True

    def contiguous(self, arrays: Sequence[Any]) -> list[Any]:
        """The arrays, with copies in the place of those that are not contiguous."""
        return [x if contiguous(x) else self.copied(x) for x in arrays]

    def kernel(
        self, rule: Any, dtype: Any, present: tuple[str, ...], options: Sequence[float]
    ) -> FusedRule:
        """The kernel of a rule (`Fused` in optim/_on_device.py) with these rows of state."""
        key = rule.kernel, dtype, present, switches(options)
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = FusedRule(self.gpu, rule, NAMES[dtype], present, options)
        return found

    @staticmethod
    def fit_options(kernel: FusedRule, options: Sequence[float]) -> bool:
        """Whether options go the way that a kernel was made for."""
        return switches(options) == kernel.switches


class FusedRule:
    """One rule for tensors of one dtype, and the way that its options go (`switches`)."""

    def __init__(
        self, gpu: Any, rule: Any, kind: str, present: tuple[str, ...], options: Sequence[float]
    ) -> None:
        self.gpu, self.kind = gpu, kind
        names = ["lr", *rule.numbers]
        lengths = [int(name[:-1].partition("[")[2] or 1) for name in rule.options]
        rows = 2 + len(present)
        fixed = 8 * (len(names) + sum(lengths))
        self.limit = (ROOM - fixed) // (8 * rows + PLACE)
        self.words = {
            "ROWS": rows,
            "NUMBERS": ", ".join(names),
            "OPTIONS": ", ".join(rule.options),
            "LIMIT": self.limit,
            "TINY": repr(TINY[kind]),
        }
        update = Update(rule, present, options)
        self.switches = switches(options)
        self.made = {"rule.cu": FUNCTIONS + update.text}
        self.table = np.dtype(
            [
                ("p", U64, (rows, self.limit)),
                ("n", I64, (self.limit,)),
                ("first", I32, (self.limit,)),
                ("now", F64, (len(names),)),
                ("options", F64, (sum(lengths),)),
                ("device", U64),
                ("sizes", I32, (3,)),
            ],
            align=True,
        )
        self.options = np.dtype([("options", F64, (sum(lengths),))])
        self.counts = update.counts
        self.run = self.kernel("update")

    def kernel(self, name: str) -> Any:
        return compiled(self.gpu.xp, "optim.cu", self.kind, name, self.words, self.made)

    @functools.cached_property
    def run_advance(self) -> Any:
        return self.kernel("next_numbers")

    def update(
        self,
        sizes: tuple[int, ...],
        pointers: Sequence[Sequence[int]],
        now: Sequence[float],
        options: Sequence[float],
        narrow: bool,
        counters: Counters | None,
    ) -> None:
        """One step of contiguous arrays of these sizes, at the addresses of parameters, gradients,
        then the rows of state."""
        for start in range(0, len(sizes), self.limit):
            some = sizes[start : start + self.limit]
            n, first, chunk, blocks = divided(some, self.gpu.blocks)
            if not blocks:
                continue
            count = len(some)
            table = np.zeros((), self.table)
            places = table["p"]
            for row, own in enumerate(pointers):
                places[row, :count] = own[start : start + count]
            table["n"][:count] = n
            table["first"][:count] = first
            table["now"] = now
            table["options"] = options
            if counters is not None:
                table["device"] = counters.memory.data.ptr
            table["sizes"] = count, chunk, narrow
            self.run((blocks,), BLOCK, (opaque(table),))

    def advance(self, counters: Counters, options: Sequence[float], narrow: bool) -> None:
        """Update the numbers on the GPU for the next step, as part of the captured graph."""
        table = np.zeros((), self.options)
        table["options"] = options
        self.run_advance((1,), (1,), (counters.memory, opaque(table), I32(narrow)))


# ---------------------------------------------------------------------- gradients


class Gradients:
    """Operations on all gradients at once: their norm, clipping, dividing by a scale."""

    limit = (ROOM - 64) // (U64().itemsize + PLACE)
    table = np.dtype(
        [
            ("p", U64, (limit,)),
            ("n", I64, (limit,)),
            ("first", I32, (limit,)),
            ("sizes", I32, (2,)),
        ],
        align=True,
    )

    def __init__(self, gpu: Any) -> None:
        self.gpu = gpu
        self.known: dict[Any, Any] = {}

    def arrays_of(self, tensors: Sequence[Any]) -> list[Any] | None:
        """The arrays of tensors that these kernels take.

        Contiguous floats of one dtype, on the current GPU, each with memory of its own.
        """
        if not tensors:
            return None
        if not all([isinstance(t, TensorBase) and t._special == ON_DEVICE for t in tensors]):
            return None
        arrays = [t._array for t in tensors]
        dtype = arrays[0].dtype
        if dtype not in NAMES or not all([x.dtype is dtype and contiguous(x) for x in arrays]):
            return None
        if len({x.data.ptr for x in arrays}) != len(arrays):
            return None
        if STATE.several:
            here = self.gpu.xp.cuda.runtime.getDevice()
            if not all([x.device.id == here for x in arrays]):
                return None
        return arrays

    def kernel(self, kind: str, part: str, name: str, **words: str) -> Any:
        key = (kind, name, *words.values())
        found = self.known.get(key)
        if found is None:
            given = {part: 1, "LIMIT": self.limit, **words}
            found = compiled(self.gpu.xp, "gradients.cu", kind, name, given)
            self.known[key] = found
        return found

    def launches(self, arrays: Sequence[Any]) -> list[tuple[int, Any]]:
        """Arrays in as many tables as they need, each with its number of blocks."""
        found = []
        for start in range(0, len(arrays), self.limit):
            some = arrays[start : start + self.limit]
            n, first, chunk, blocks = divided(tuple([x.size for x in some]), self.gpu.blocks)
            if not blocks:
                continue
            count = len(some)
            table = np.zeros((), self.table)
            table["p"][:count] = [x.data.ptr for x in some]
            table["n"][:count] = n
            table["first"][:count] = first
            table["sizes"] = count, chunk
            found.append((blocks, opaque(table)))
        return found

    def total_norm(self, arrays: Sequence[Any], order: float) -> Any:
        """The norm of all elements together, a tensor; None where there is no kernel for it."""
        parts = ORDERS.get(order)
        if parts is None or (order == math.inf and not all([x.size for x in arrays])):
            return None
        dtype = arrays[0].dtype
        kind = NAMES[dtype]
        launches = self.launches(arrays)
        count = sum([blocks for blocks, _ in launches])
        sums = self.gpu.xp.ndarray((count,), accumulator(dtype))
        run = self.kernel(kind, "NORMS", "norm_parts", **parts)
        start = 0
        for blocks, table in launches:
            run((blocks,), BLOCK, (table, sums[start:] if start else sums))
            start += blocks
        out = self.gpu.xp.ndarray((), dtype)
        end = self.kernel(kind, "NORMS", "norm_end", **parts)
        end((1,), BLOCK, (sums, out, I32(count)))
        return wrap(out)

    def change(self, name: str, arrays: Sequence[Any], *args: Any) -> None:
        run = self.kernel(NAMES[arrays[0].dtype], "CHANGES", name)
        for blocks, table in self.launches(arrays):
            run((blocks,), BLOCK, (table, *args))

    def shorten(self, arrays: Sequence[Any], norm: Any, most: float) -> bool:
        """Scale all by `most / (norm + 1e-6)`, if that is less than one.

        False, and nothing is done, unless the norm is a tensor on the GPU of their dtype.
        """
        if not isinstance(norm, TensorBase) or norm._special != ON_DEVICE:
            return False
        length, dtype = norm._array, arrays[0].dtype
        if length.dtype is not dtype or length.size != 1:
            return False
        self.change("shorten", arrays, length, real_of(dtype)(most))
        return True

    def limit_elements(self, arrays: Sequence[Any], most: float) -> None:
        """Limit every element to [-most, most]."""
        self.change("limit", arrays, real_of(arrays[0].dtype)(most))

    def unscale(self, arrays: Sequence[Any], inverse: Any, found: Any) -> None:
        """Multiply by `inverse`; `found` is one where something was not finite. Both float32."""
        self.change("unscale", arrays, inverse, found)

    def next_scale(
        self, scale: Any, tracker: Any, found: Any, growth: float, backoff: float, interval: int
    ) -> None:
        """The scale of a GradScaler after a step."""
        run = self.kernel("float32", "SCALE", "next_scale")
        numbers = np.float32(growth), np.float32(backoff), I32(interval)
        run((1,), (1,), (scale, tracker, found, *numbers))
