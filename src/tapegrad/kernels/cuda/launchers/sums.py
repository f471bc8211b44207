"""Sums and means on the GPU: contiguous floats over neighbouring dimensions, by `Gpu.summed`."""

from __future__ import annotations

from typing import Any

from .kernels import Gpu, contiguous_floats
from .launcher import Launcher


def register(backend: Any, gpu: Gpu, reference: Any) -> None:
    for launcher in (Sum, Mean, SumAll, MeanAll):
        launcher(gpu, reference).register(backend)


class SumLauncher(Launcher):
    """A launcher of sums and means over dimensions."""

    mean = False

    def __init__(self, gpu: Gpu, reference: Any) -> None:
        super().__init__(reference)
        self.gpu = gpu

    def fits(self, input: Any, dim: Any, keepdim: bool, dtype: Any) -> bool:
        if not contiguous_floats(input) or type(dim) is list:
            return False
        return dtype is None or dtype is input.dtype

    def plan(self, input: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
        return self.gpu.sums.get((input.shape, dim, bool(keepdim), input.dtype, self.mean))

    def run(self, plan: Any, input: Any, *args: Any) -> Any:
        return self.gpu.add_up(plan, input)


class Sum(SumLauncher):
    op = "sum"


class Mean(SumLauncher):
    op = "mean"
    mean = True


class WholeSumLauncher(SumLauncher):
    """A launcher of the sum, or mean, of all elements."""

    def fits(self, input: Any, dtype: Any) -> bool:  # type: ignore[override]
        return super().fits(input, None, False, dtype)

    def plan(self, input: Any, dtype: Any) -> Any:  # type: ignore[override]
        return super().plan(input, None, False, dtype)


class SumAll(WholeSumLauncher):
    op = "sum_all"


class MeanAll(WholeSumLauncher):
    op = "mean_all"
    mean = True
