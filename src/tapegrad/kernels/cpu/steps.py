"""One LSTM step for ops/nn/lstm_step.py: all results by one call of c/kernels/recurrent.c."""

from __future__ import annotations

from typing import Any

from .overrides.rows import empty, for_dtypes, is_dense, pick

RESULTS = 9  # i, f, g, o, f c, i g, cells, their tanh, h


def lstm_step_kernel() -> Any:
    kernels = for_dtypes("lstm_step")

    def step(sums: Any, cells: Any) -> Any:
        """None: not for the kernel."""
        run = pick(kernels, sums)
        if run is None or cells.dtype is not sums.dtype or cells.ndim != 2 or not cells.size:
            return None
        rows, width = cells.shape
        if sums.shape != (rows, 4 * width) or not is_dense(sums) or not is_dense(cells):
            return None
        made = [empty(cells.shape, cells) for _ in range(RESULTS)]
        run((sums, cells, *made), (rows, width))
        return made

    return step
