"""The backend of tensors on a GPU: CuPy runs the blocks' forwards unless a launcher does."""

from __future__ import annotations

from typing import Any

from ...core import devices
from ...core.op import REGISTRY, Op
from ..backend import Backend
from .library import Library


class Cuda(Backend):
    """Runs an op by its launcher, an elementwise op by a kernel from its block, else by CuPy."""

    elementwise: Any = None  # launchers/elementwise.py, where there are kernels

    def kernel(self, op: Op) -> Any:
        made = super().kernel(op)
        if self.elementwise is None or op.name in self.overrides:
            return made
        return self.elementwise.kernel(op, made)

    def pull(self, op: Op) -> Any:
        made = super().pull(op)
        if self.elementwise is None or made is not None:
            return made
        return self.elementwise.pull(op)


def backend_for(xp: Any) -> Backend:
    """The backend around CuPy (or what a test puts in its place)."""
    backend = Cuda("cuda", Library(xp))
    # A helper of rules that is made of an op.
    backend.override("rejoin")(lambda parts, dim: devices.kernel_of(REGISTRY["cat"])(parts, dim))
    if hasattr(xp, "RawKernel"):
        from . import denormals
        from .launchers import kernels as cupy_kernels

        denormals.keep(xp)
        cupy_kernels.register(backend)
    return backend
