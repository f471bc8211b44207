"""The switches of PyTorch's backends: what programs ask and set about the libraries it can use.

None of those libraries is used: the switches keep their values, and only the precision of
products and of convolutions on a GPU is obeyed. Kernels are in kernels/.
"""

from __future__ import annotations

import importlib
from types import ModuleType

__all__ = ["cpu", "cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp", "opt_einsum", "quantized"]


def __getattr__(name: str) -> ModuleType:
    if name in __all__:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module 'torch.backends' has no attribute '{name}'")
