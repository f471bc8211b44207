"""torch.distributed: groups of processes that compute together, on MPI. See docs/distributed.md."""

from __future__ import annotations

import importlib
from typing import Any

from .distributed_c10d import *  # noqa: F403
from .distributed_c10d import (  # noqa: F401
    __all__,
    _all_gather_base,
    _coalescing_manager,
    _get_default_group,
    _rank_not_in_group,
    _reduce_scatter_base,
)

SUBMODULES = """
    algorithms autograd checkpoint device_mesh distributed_c10d elastic fsdp launch launcher nn
    optim pipelining rpc run tensor
""".split()


def __getattr__(name: str) -> Any:
    """Submodules are imported when asked for."""
    if name in SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name == "GradBucket":
        return importlib.import_module(f"{__name__}._reducer").GradBucket
    if name in ("DeviceMesh", "init_device_mesh"):
        return getattr(importlib.import_module(f"{__name__}.device_mesh"), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
