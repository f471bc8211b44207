"""unfold and fold on the GPU: windows of images as columns, and back, one launch each."""

from __future__ import annotations

import math
from typing import Any

from ...geometry import out_size
from ..cublas import NAMES
from .kernels import BLOCK, I64, Gpu, accumulator
from .launcher import Launcher
from .moves import MANY, U32, Plans
from .pool import compiled, cut, windows
from .rows import dense, pointer

Ints = tuple[int, ...]


def register(backend: Any, gpu: Gpu, reference: Any) -> None:
    found = Windows(backend, gpu)
    Im2Col(found, reference).register(backend)
    Col2Im(found, reference).register(backend)


class Windows:
    """How windows of images become columns: the plans of both ways."""

    def __init__(self, backend: Any, gpu: Gpu) -> None:
        self.backend = backend
        self.gpu = gpu
        self.plans = Plans(self.plan)

    def plan(self, shape: Ints, kernel: Ints, dilation: Ints, padding: Ints, stride: Ints) -> Any:
        """Shape of the columns, and what both kernels are told; None where they do not fit."""
        *lead, channels, height, width = shape
        size = (height, width)
        out = out_size(size, kernel, stride, padding, dilation)
        rows, length = channels * math.prod(kernel), math.prod(out)
        made = (*lead, rows, length)
        if min(math.prod(shape), *out) <= 0 or max(math.prod(shape), math.prod(made)) >= MANY:
            return None
        table = windows(out, size, stride, kernel, padding, dilation)
        return made, (table, cut(channels), I64(length), I64(rows * length))


class WindowLauncher(Launcher):
    """A launcher of unfold or fold by themselves, without the product of a convolution."""

    def __init__(self, found: Windows, reference: Any) -> None:
        super().__init__(reference)
        self.windows = found
        self.backend = found.backend
        self.gpu = found.gpu


class Im2Col(WindowLauncher):
    """Windows of images as columns."""

    op = "im2_col"

    def fits(self, input: Any, kernel: Ints, *rest: Ints) -> bool:
        return input.dtype in NAMES

    def plan(self, input: Any, kernel: Ints, dilation: Ints, padding: Ints, stride: Ints) -> Any:
        return self.windows.plans.get((input.shape, kernel, dilation, padding, stride))

    def run(self, plan: Any, input: Any, kernel: Ints, *rest: Ints) -> Any:
        made, sizes = plan
        cols = self.gpu.xp.ndarray(made, input.dtype)
        n = cols.size // math.prod(kernel)
        run = compiled(self.gpu, NAMES[input.dtype], "gather", "conv")
        run(self.gpu.grid(n), BLOCK, (dense(self.backend, input), cols, U32(n), *sizes))
        return cols


class Col2Im(WindowLauncher):
    """Columns added up into the images that they are windows of."""

    op = "col2_im"

    def fits(self, input: Any, size: Ints, kernel: Ints, *rest: Ints) -> bool:
        return input.dtype in NAMES and accumulator(input.dtype) is input.dtype

    def plan(
        self, input: Any, size: Ints, kernel: Ints, dilation: Ints, padding: Ints, stride: Ints
    ) -> Any:
        *lead, rows, _ = input.shape
        shape = (*lead, rows // math.prod(kernel), *size)
        found = self.windows.plans.get((shape, kernel, dilation, padding, stride))
        return None if found is None or found[0] != input.shape else (shape, found[1])

    def run(self, plan: Any, input: Any, *rest: Ints) -> Any:
        shape, sizes = plan
        x = self.gpu.xp.ndarray(shape, input.dtype)
        run = compiled(self.gpu, NAMES[input.dtype], "scatter", "conv")
        args = (dense(self.backend, input), pointer(None), x, U32(x.size), *sizes)
        run(self.gpu.grid(x.size), BLOCK, args)
        return x
