"""tapegrad: PyTorch's autograd, and the library people use it through, on NumPy.

>>> import tapegrad as torch
>>> x = torch.tensor([1.0, 2.0], requires_grad=True)
>>> (x ** 2).sum().backward()
>>> x.grad
tensor([2., 4.])
"""

from __future__ import annotations

import importlib
import math
from typing import Any

from . import dtypes as _dtypes
from . import printing as _tensor_str
from ._tensor import Tensor
from .autograd.anomaly_mode import is_anomaly_check_nan_enabled, is_anomaly_enabled
from .autograd.grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from .core.promote import can_cast, promote_types
from .core.publish import publish as _publish
from .creation import *  # noqa: F403 (its __all__ is partly computed)
from .device import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    device,
    layout,
    memory_format,
    preserve_format,
    strided,
)
from .dtypes import dtype, finfo, get_default_dtype, iinfo, set_default_dtype
from .printing import set_printoptions
from .size import Size

# The version of PyTorch whose behaviour this is; tapegrad's own is in __config__.
__version__ = "2.13.0+tapegrad.0.1.0"

e, inf, nan, newaxis, pi = math.e, math.inf, math.nan, None, math.pi

_publish(globals(), Tensor)
globals().update(_dtypes.NAMES)

# The ops have to be there before the functions that draw random numbers with them.
from .random import Generator, default_generator  # noqa: E402

_SUBMODULES = frozenset(
    {"__config__", "autograd", "compat", "cuda", "datasets", "nn", "optim", "random", "utils"}
)


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module 'torch' has no attribute '{name}' (as of tapegrad 0.1.0)")
