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


def register(backend: Any, gpu: Any) -> None:
    def kernel(name: str, kind: str) -> Any:
        return gpu.kernel("rejection.cu", kind, name, **{WORDS.get(name, name.upper()): 1})

    def run(
        name: str, start: Any, arrays: tuple[Any, ...], options: Any = (), blocks: int = 0
    ) -> Any:
        """A contiguous result of the shape and dtype of the arrays."""
        kind = NAMES[arrays[0].dtype]
        lines = [x if x.flags.c_contiguous else backend.copied(x) for x in arrays]
        out = gpu.empty(arrays[0].shape, arrays[0].dtype)
        if out.size:  # a launch of nothing is an error
            grid = (blocks,) if blocks else gpu.grid(out.size)
            args = (*lines, out, *options, *place(start), I64(out.size))
            kernel(name, kind)(grid, THREADS, args)
        return out

    def philox_poisson(start: Any, rates: Any) -> Any:
        return run("poisson", start, (rates,))

    def philox_gamma(start: Any, shapes: Any) -> Any:
        return run("standard_gamma", start, (shapes,), (LEAST[NAMES[shapes.dtype]],))

    def philox_binomial(start: Any, count: Any, prob: Any) -> Any:
        return run("binomial", start, (count, prob))

    def philox_slopes(start: Any, x: Any, lower: float, upper: float) -> Any:
        # The threads are a part of the numbers, so there are as many as the start says.
        options = (F64(lower), F64(upper - lower))
        return run("slopes", start, (x,), options, start.threads // 256)

    backend.draws.update(
        philox_poisson=philox_poisson,
        philox_gamma=philox_gamma,
        philox_binomial=philox_binomial,
        philox_slopes=philox_slopes,
    )
