"""Version numbers: of the PyTorch that this behaves like, and of what it was built with."""

from __future__ import annotations

import tapegrad as tg

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "rocm", "xpu"]

__version__: str = str(tg.__version__)
debug = False
cuda: str | None = None
hip: str | None = None
rocm: str | None = None
xpu: str | None = None
git_version: str | None = None  # a wheel does not know from which commit it was made
