"""How DDP communicates a bucket: hooks for `register_comm_hook`."""

from __future__ import annotations

import enum
from typing import Any

from . import default_hooks, powerSGD_hook

__all__ = ["DDPCommHookType", "register_ddp_comm_hook"]


class DDPCommHookType(enum.Enum):
    """The hooks by name."""

    ALLREDUCE = "allreduce_hook"
    FP16_COMPRESS = "fp16_compress_hook"
    BF16_COMPRESS = "bf16_compress_hook"
    POWER_SGD = "powerSGD_hook"
    BATCHED_POWER_SGD = "batched_powerSGD_hook"
    NOOP = "noop_hook"


def register_ddp_comm_hook(comm_hook_type: DDPCommHookType, model: Any, state: Any = None) -> None:
    """Register a hook by its name."""
    name = comm_hook_type.value
    module: Any = powerSGD_hook if hasattr(powerSGD_hook, name) else default_hooks
    model.register_comm_hook(state=state, hook=getattr(module, name))
