"""Poisson, binomial and gamma numbers and rrelu's slopes on the GPU, in one launch each.

They are PyTorch's numbers: its threads and its words, as in draws.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..cublas import NAMES
from .draws import I64, THREADS, place

F64 = np.float64
# The least numbers that are not subnormal.
LEAST = {
    "float16": np.float32(2.0**-14),
    "bfloat16": np.float32(2.0**-126),
    "float32": np.float32(2.0**-126),
    "float64": np.float64(2.0**-1022),
}

WORDS = {"standard_gamma": "GAMMA"}  # of a kernel that is not called as its part of the file is


def register(backend: Any, gpu: Any, reference: Any) -> None:
    counts = Counts(backend, gpu)
    for draw in (
        counts.philox_poisson,
        counts.philox_gamma,
        counts.philox_binomial,
        counts.philox_slopes,
    ):
        backend.draws[draw.__name__] = draw


class Counts:
    """Draws for arrays of parameters. `start` says where in the random stream a draw begins."""

    def __init__(self, backend: Any, gpu: Any) -> None:
        self.backend = backend
        self.gpu = gpu

    def philox_poisson(self, start: Any, rates: Any) -> Any:
        return self.run("poisson", start, (rates,))

    def philox_gamma(self, start: Any, shapes: Any) -> Any:
        return self.run("standard_gamma", start, (shapes,), (LEAST[NAMES[shapes.dtype]],))

    def philox_binomial(self, start: Any, count: Any, prob: Any) -> Any:
        return self.run("binomial", start, (count, prob))

    def philox_slopes(self, start: Any, x: Any, lower: float, upper: float) -> Any:
        # The threads are a part of the numbers, so there are as many as the start says.
        options = (F64(lower), F64(upper - lower))
        return self.run("slopes", start, (x,), options, start.threads // 256)

    def run(
        self, name: str, start: Any, arrays: tuple[Any, ...], options: Any = (), blocks: int = 0
    ) -> Any:
        """A contiguous result of the shape and dtype of the arrays."""
        lines = [x if x.flags.c_contiguous else self.backend.copied(x) for x in arrays]
        out = self.gpu.empty(arrays[0].shape, arrays[0].dtype)
        if out.size:  # a launch of nothing is an error
            grid = (blocks,) if blocks else self.gpu.grid(out.size)
            args = (*lines, out, *options, *place(start), I64(out.size))
            self.kernel(name, NAMES[arrays[0].dtype])(grid, THREADS, args)
        return out

    def kernel(self, name: str, kind: str) -> Any:
        defined = {WORDS.get(name, name.upper()): 1}
        return self.gpu.kernel("rejection.cu", kind, name, **defined)
