"""The array module of the CPU: NumPy, with some of its functions replaced.

`host` is what a block gets as `xp` for arrays in the host's memory. It has all of NumPy's names.
kernels/cpu/blas.py replaces those that use BLAS, whose results depend on the number of its threads;
docs/notes/same-bits.md has what else differs between machines.
"""

from __future__ import annotations

import types
from typing import Any

import numpy as np


class HostArrays(types.ModuleType):
    """NumPy's names; what NumPy loads on demand is looked up there."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


host = HostArrays("numpy")
vars(host).update({name: value for name, value in vars(np).items() if name[:2] != "__"})
