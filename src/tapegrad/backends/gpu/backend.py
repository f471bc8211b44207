"""The backend of tensors on a GPU: CuPy runs the blocks' own forwards, except what stands here."""

from __future__ import annotations

from typing import Any

from ...core import devices
from ...core.op import REGISTRY
from ..base import Backend
from .library import Library


def backend_for(xp: Any) -> Backend:
    """The backend around CuPy (or what a test puts in its place)."""
    backend = Backend("cuda", Library(xp))
    # A helper of rules that is made of an op.
    backend.override("rejoin")(lambda parts, dim: devices.kernel_of(REGISTRY["cat"])(parts, dim))
    if hasattr(xp, "RawKernel"):
        from .launchers import kernels as cupy_kernels

        cupy_kernels.register(backend)
    return backend
