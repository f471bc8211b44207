"""DistributedDataParallel, which needs a process group that cannot be had here."""

from __future__ import annotations

from typing import Any

from ...distributed import uninitialized
from ..modules.module import Module

__all__ = ["DistributedDataParallel"]


class DistributedDataParallel(Module):
    """Keeps a module equal in several processes: there for isinstance checks.

    It cannot be made: torch.distributed.is_available() is False.
    """

    module: Module

    def __init__(self, module: Module, *args: Any, **kwargs: Any) -> None:
        raise uninitialized()
