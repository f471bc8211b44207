"""Optimizers on the GPU: one launch for all parameters of a dtype.

The addresses of parameters, gradients and states travel with the launch, LIMIT tensors at a time.
While a CUDA graph is captured, step count and learning rate are read from memory on the GPU, so
that a replay goes on counting and a scheduler is heard.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .cublas import NAMES

LIMIT = 72  # 72 * (5 * 8 + 8) bytes: below the 4 KB that a launch may carry
TENSORS = np.dtype([("p", np.uint64, (5, LIMIT)), ("n", np.int64, (LIMIT,))])
I32 = np.int32
NOTHING = np.uint64(0)


class Counters:
    """Numbers that a captured step reads on the GPU: steps taken, learning rate."""

    def __init__(self, xp: Any, dtype: Any, step: float, lr: float) -> None:
        self.memory = xp.zeros(2, dtype)
        self.host = np.array([step, lr], dtype)
        self.memory.set(self.host)

    @property
    def step(self) -> Any:
        return self.memory[0:1]

    @property
    def lr(self) -> Any:
        return self.memory[1:2]

    def advance(self) -> None:
        """Count a step, as part of what is captured."""
        self.memory[0:1] += 1

    def set_lr(self, lr: float) -> None:
        """Between replays."""
        if self.host[1] != lr:
            self.host[1] = lr
            self.memory[1:2].set(self.host[1:2])


def register(backend: Any, gpu: Any) -> None:
    def launch(
        name: str, arrays: Sequence[Sequence[Any]], options: tuple[Any, ...], kind: str
    ) -> None:
        run = gpu.kernel("OPTIMIZERS", kind, name, limit=LIMIT)
        count = len(arrays[0])
        for start in range(0, count, LIMIT):
            some = range(start, min(start + LIMIT, count))
            table = np.zeros((), TENSORS)
            for row, tensors in enumerate(arrays):
                table["p"][row, : len(some)] = [tensors[i].data.ptr for i in some]
            sizes = [arrays[0][i].size for i in some]
            table["n"][: len(some)] = sizes
            blocks = min((max(sizes) + 1023) // 1024, 256) or 1
            run((blocks, len(some)), (256,), (table, *options))

    def adam(
        params: Sequence[Any],
        grads: Sequence[Any],
        averages: Sequence[Any],
        squares: Sequence[Any],
        largest: Sequence[Any] | None,
        *,
        lr: float,
        betas: tuple[float, float],
        eps: float,
        decay: float,
        decoupled: bool,
        maximize: bool,
        step: float,
        counters: Counters | None = None,
    ) -> None:
        """One Adam (or AdamW: `decoupled`) step of contiguous arrays of one dtype."""
        kind = NAMES[params[0].dtype]
        real = np.float64 if kind == "float64" else np.float32
        arrays = [params, grads, averages, squares]
        if largest is not None:
            arrays.append(largest)
        options = (
            *(real(lr), NOTHING if counters is None else counters.lr),
            *(real(betas[0]), real(betas[1]), real(eps), real(decay)),
            *(I32(decoupled), I32(largest is not None), I32(maximize)),
            *(real(step), NOTHING if counters is None else counters.step),
        )
        launch("adam", arrays, options, kind)

    def sgd(
        params: Sequence[Any],
        grads: Sequence[Any],
        buffers: Sequence[Any] | None,
        *,
        lr: float,
        momentum: float,
        dampening: float,
        decay: float,
        nesterov: bool,
        maximize: bool,
        first: bool,
        counters: Counters | None = None,
    ) -> None:
        """One SGD step; `first` when the momentum buffers hold nothing yet."""
        kind = NAMES[params[0].dtype]
        real = np.float64 if kind == "float64" else np.float32
        arrays = [params, grads] if buffers is None else [params, grads, buffers]
        options = (
            *(real(lr), NOTHING if counters is None else counters.lr),
            *(real(momentum), real(dampening), real(decay)),
            *(I32(nesterov), I32(maximize), I32(first)),
        )
        launch("sgd", arrays, options, kind)

    backend.optimizers = {"adam": adam, "sgd": sgd}
    backend.counters = lambda dtype, step, lr: Counters(gpu.xp, dtype, step, lr)
