"""Scales the loss of a model whose gradients are spread over ranks."""

from __future__ import annotations

from typing import Any

from ...amp import GradScaler
from .._collectives import all_reduce
from .._groups import default_group
from .._reduce_op import ReduceOp

__all__ = ["ShardedGradScaler"]


class ShardedGradScaler(GradScaler):
    """GradScaler; a gradient that is not finite on one rank stops the step on all of them."""

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        backoff_factor: float = 0.5,
        growth_factor: float = 2.0,
        growth_interval: int = 2000,
        enabled: bool = True,
        process_group: Any = None,
    ) -> None:
        super().__init__(
            device, init_scale, growth_factor, backoff_factor, growth_interval, enabled
        )
        self.process_group = process_group

    def _unscale_grads_(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        found: dict[Any, Any] = super()._unscale_grads_(*args, **kwargs)
        for infinite in found.values():
            all_reduce(infinite, ReduceOp.MAX, self.process_group or default_group())
        return found
