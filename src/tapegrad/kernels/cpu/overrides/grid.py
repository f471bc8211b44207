"""Images and volumes read at points: grid_sample, its transpose, and the slopes of samples."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .rows import F32, dense, empty, for_dtypes, pick

Ints = tuple[int, ...]

AXES = 3
SAMPLE, ADD, SLOPE = [for_dtypes(f"grid_{name}") for name in ("sample", "add", "slope")]


def chosen(kernels: Any, x: Any, grid: Any, sizes: Ints) -> Any:
    """The kernel, if it takes these: of one dtype, none without elements."""
    run = pick(kernels, x)
    if run is None or type(grid) is not np.ndarray or x.dtype is not grid.dtype:
        return None
    return run if x.size and grid.size and math.prod(sizes) else None


def question(
    x: Any, grid: Any, sizes: Ints, mode: int, padding: int, align: bool, order: Ints
) -> Ints:
    """The sizes that the sampling kernels take, in the order of c/kernels/grid_sampling.c."""
    rest = (0,) * (AXES - len(order))
    points = math.prod(grid.shape[1:-1])
    how = (len(order), mode, padding, align)
    return (*x.shape[:2], points, *how, *sizes, *rest, *order, *rest)


def sample(reference: Any) -> Any:
    def kernel(input: Any, grid: Any, mode: int, padding: int, align: bool, order: Ints) -> Any:
        sizes = input.shape[2:]
        run = chosen(SAMPLE, input, grid, sizes)
        if run is None:
            return reference(input, grid, mode, padding, align, order)
        out = empty((*input.shape[:2], *grid.shape[1:-1]), input)
        asked = question(input, grid, sizes, mode, padding, align, order)
        run((dense(input), dense(grid), out), asked)
        return out

    return kernel


def add(reference: Any) -> Any:
    def kernel(
        values: Any, grid: Any, sizes: Ints, mode: int, padding: int, align: bool, order: Ints
    ) -> Any:
        run = chosen(ADD, values, grid, sizes)
        if run is None:
            return reference(values, grid, sizes, mode, padding, align, order)
        total = np.zeros((*values.shape[:2], *sizes))
        asked = question(values, grid, sizes, mode, padding, align, order)
        run((dense(values), dense(grid), total), asked)
        return total.astype(F32) if values.dtype is F32 else total

    return kernel


def slope(reference: Any) -> Any:
    def kernel(
        values: Any, input: Any, grid: Any, mode: int, padding: int, align: bool, order: Ints
    ) -> Any:
        sizes = input.shape[2:]
        run = chosen(SLOPE, input, grid, sizes)
        if run is None or type(values) is not np.ndarray or values.dtype is not input.dtype:
            return reference(values, input, grid, mode, padding, align, order)
        out = empty(grid.shape, grid)
        asked = question(input, grid, sizes, mode, padding, align, order)
        run((dense(values), dense(input), dense(grid), out), asked)
        return out

    return kernel


OVERRIDES = {
    f"grid_{name}_{n}d": make
    for n in (2, 3)
    for name, make in (("sampler", sample), ("adder", add), ("slope", slope))
}
