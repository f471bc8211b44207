"""Where kernels run, and the switches of PyTorch's backends.

`base` is our own: the forward in an op's block, written against `xp`, is the reference, and a
backend holds the exceptions. The other modules answer what programs ask and set about libraries
that PyTorch can use; none of them is used here, so the switches keep their values and do nothing.
"""

from __future__ import annotations

import importlib
from types import ModuleType

__all__ = ["cpu", "cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp", "opt_einsum", "quantized"]


def __getattr__(name: str) -> ModuleType:
    if name in __all__:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module 'torch.backends' has no attribute '{name}'")
