"""A GradScaler whose ranks agree: if one of them overflowed, all skip the step."""

from __future__ import annotations

from typing import Any

from ...amp import GradScaler
from .._combining import all_reduce
from .._reduce_op import ReduceOp
from .._world import WORLD

__all__ = ["ShardedGradScaler"]


class ShardedGradScaler(GradScaler):
    """The scaler for sharded gradients, of which every rank sees a part."""

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
        options = {"backoff_factor": backoff_factor, "growth_factor": growth_factor}
        super().__init__(
            device,
            init_scale=init_scale,
            growth_interval=growth_interval,
            enabled=enabled,
            **options,
        )
        self.process_group = process_group

    def unscale_(self, optimizer: Any) -> None:
        """Unscale, and learn whether any rank found infinities or NaN."""
        super().unscale_(optimizer)
        group = self.process_group or WORLD.group
        if not self._enabled or group is None:
            return
        found = self._per_optimizer_states[id(optimizer)]["found_inf_per_device"]
        for flag in found.values():
            all_reduce(flag, ReduceOp.MAX, group)
