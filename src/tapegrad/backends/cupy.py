"""The backend of tensors on a GPU: CuPy runs the blocks' own forwards, except what stands here."""

from __future__ import annotations

from typing import Any

from .base import Backend
from .cupy_library import Library


def backend_for(xp: Any) -> Backend:
    """The backend around CuPy (or what a test puts in its place)."""
    backend = Backend("cuda", Library(xp))
    if hasattr(xp, "RawKernel"):
        from . import cupy_kernels

        cupy_kernels.register(backend)
    return backend
