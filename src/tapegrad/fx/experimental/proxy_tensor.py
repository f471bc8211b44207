"""Tracing ops: `torch.compile` records them, `torch.fx.symbolic_trace` traces calls."""

from __future__ import annotations

from typing import Any

from ..._absent import absent_class, absent_function
from ..._tensor.tensor import Tensor

INSTEAD = "use torch.fx.symbolic_trace"

ProxyTorchDispatchMode = absent_class(
    "torch.fx.experimental.proxy_tensor.ProxyTorchDispatchMode", INSTEAD
)
make_fx = absent_function("torch.fx.experimental.proxy_tensor.make_fx", INSTEAD)


def is_fake(x: Tensor) -> bool:
    """Whether a tensor is a fake one: never."""
    return False


def get_proxy_mode() -> Any:
    """What traces ops at the moment: nothing."""
    return None
