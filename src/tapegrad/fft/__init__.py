"""Fourier transforms: the functions that ops/ publishes as `fft.<name>`."""

from __future__ import annotations

from ..api.publish import lazy_space
from ..api.tensor.tensor import Tensor  # noqa: F401  PyTorch's __all__ has it

__getattr__, __dir__, __all__ = lazy_space("fft", globals())
