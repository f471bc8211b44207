"""Resizing of images on the GPU: one launch for all dimensions, forwards and backwards.

The tables that say which elements are read, and with which weights, are those of the CPU
(kernels/resampling_taps.py). They are copied to the GPU when a size first comes up, and stay there:
graphs that were captured read them in every replay.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....core.devices import uploaded
from ...geometry import laid_out_like
from ...resampling_taps import backward_name, forward_name, table, transposed
from ..cublas import NAMES
from .kernels import BLOCK, Gpu, accumulator
from .moves import MANY, U32, Plans
from .pool import CUT, compiled, divisor
from .rows import dense

Ints = tuple[int, ...]
AXES = np.dtype(
    [("out", CUT, (3,)), *[(name, np.uint32, (3,)) for name in ("size", "width", "start")]]
)
MOST = 1024  # elements that one may be made of: a thread adds them up
MODES = {
    1: ("nearest", "nearest-exact", "linear"),
    2: ("nearest", "nearest-exact", "bilinear", "bicubic", "bilinear-aa", "bicubic-aa"),
    3: ("nearest", "nearest-exact", "trilinear"),
}


class Resize:
    """A resizing of volumes from one size to another: its tables, on one GPU."""

    def __init__(self, sizes: Ints, out: Ints, tables: list[Any], dtype: Any) -> None:
        more = 3 - len(sizes)
        self.axes = np.zeros((), AXES)
        places, weights = [np.zeros((1, 1), np.int32)] * more, [np.ones((1, 1))] * more
        for at, by in tables:
            places.append(at)
            weights.append(np.ones(at.shape) if by is None else by)
        start = 0
        for d, (n, o) in enumerate(zip((*(1,) * more, *sizes), (*(1,) * more, *out), strict=True)):
            self.axes["out"][d] = divisor(o)
            self.axes["size"][d] = n
            self.axes["width"][d] = places[d].shape[1]
            self.axes["start"][d] = start
            start += places[d].size
        flat = np.concatenate([p.reshape(-1) for p in places])
        self.places = uploaded(flat.astype(np.int32))
        factors = np.concatenate([w.reshape(-1) for w in weights])
        self.weights = uploaded(factors.astype(accumulator(dtype)))


class Resizes:
    """All that were asked for."""

    def __init__(self, backend: Any, gpu: Gpu) -> None:
        self.backend = backend
        self.gpu = gpu
        self.found = Plans(lambda *key: self.plan(*key[:-1]))

    def resized(self, x: Any, mode: str, out: Ints, scales: Any, align: bool, back: bool) -> Any:
        """x with `out` for its last sizes; None where the kernel is not for it."""
        dtype = x.dtype
        lead = x.ndim - len(out)
        shape = x.shape[:lead]
        count = math.prod(shape) * math.prod(out)
        if dtype not in NAMES or not x.size or not count or max(x.size, count) >= MANY:
            return None
        key = (mode, x.shape[lead:], out, scales, align, back, dtype, x.device.id)
        plan = self.found.get(key)
        if plan is None:
            return None
        made = self.gpu.xp.ndarray((*shape, *out), dtype)
        args = (dense(self.backend, x), plan.places, plan.weights, made, U32(count), plan.axes)
        run = compiled(self.gpu, NAMES[dtype], "resize", "resize")
        run(self.gpu.grid(count), BLOCK, args)
        return made

    def plan(
        self, mode: str, sizes: Ints, out: Ints, scales: Any, align: bool, back: bool, dtype: Any
    ) -> Resize | None:
        kind = np.float64 if dtype.itemsize == 8 else np.float32
        small = len(sizes) == 2 and sum(out) <= 128
        tables = []
        for n, o, scale in zip(sizes, out, scales, strict=True):
            if back:
                tables.append(transposed(mode, o, n, scale, align, kind))
            else:
                tables.append(table(mode, n, o, scale, align, kind, small))
        if math.prod([places.shape[1] for places, _ in tables]) > MOST:
            return None
        return Resize(sizes, out, tables, dtype)


def register(backend: Any, gpu: Gpu, reference: Any) -> None:
    resizes = Resizes(backend, gpu)
    for n, modes in MODES.items():
        for mode in modes:
            for name, make in ((forward_name, forward), (backward_name, backward)):
                op = name(mode, n)
                backend.override(op)(make(resizes, reference(op)))


def forward(resizes: Resizes, other: Any) -> Any:
    def run(input: Any, mode: str, out_sizes: Ints, scales: Any, align: bool) -> Any:
        out = resizes.resized(input, mode, out_sizes, scales, align, False)
        if out is None:
            return other(input, mode, out_sizes, scales, align)
        if input.ndim == 3:
            return out
        return laid_out_like(resizes.gpu.xp, input, out, len(out_sizes))

    return run


def backward(resizes: Resizes, other: Any) -> Any:
    def run(grad: Any, mode: str, sizes: Ints, scales: Any, align: bool) -> Any:
        out = resizes.resized(grad, mode, sizes, scales, align, True)
        return other(grad, mode, sizes, scales, align) if out is None else out

    return run
