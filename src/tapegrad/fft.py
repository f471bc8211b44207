"""Fourier transforms: the functions that ops/ publishes as `fft.<name>`."""

from __future__ import annotations

from ._tensor.tensor import Tensor  # noqa: F401  PyTorch's __all__ has it
from .core.publish import lazy_space

__getattr__, __dir__, __all__ = lazy_space("fft", globals())
