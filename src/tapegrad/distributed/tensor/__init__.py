"""DTensor and its placements: names only."""

from __future__ import annotations

from .._not_here import missing_class, missing_function
from ..device_mesh import DeviceMesh, init_device_mesh

INSTEAD = "DistributedDataParallel or FullyShardedDataParallel"

DTensor = missing_class("tensor.DTensor", INSTEAD)
Placement = missing_class("tensor.Placement", INSTEAD)
Shard = missing_class("tensor.Shard", INSTEAD)
Replicate = missing_class("tensor.Replicate", INSTEAD)
Partial = missing_class("tensor.Partial", INSTEAD)
distribute_tensor = missing_function("tensor.distribute_tensor", INSTEAD)
distribute_module = missing_function("tensor.distribute_module", INSTEAD)

__all__ = [
    "DTensor",
    "DeviceMesh",
    "Partial",
    "Placement",
    "Replicate",
    "Shard",
    "distribute_module",
    "distribute_tensor",
    "init_device_mesh",
]
