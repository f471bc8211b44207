"""How tensors lie on the ranks of a mesh; DTensor itself is a name only."""

from __future__ import annotations

from ..._absent import absent_class, absent_function
from ..device_mesh import DeviceMesh, init_device_mesh
from .placement_types import Partial, Placement, Replicate, Shard

INSTEAD = "DistributedDataParallel or FullyShardedDataParallel"
NAME = "torch.distributed.tensor."

DTensor = absent_class(NAME + "DTensor", INSTEAD, methods=("from_local",))
distribute_tensor = absent_function(NAME + "distribute_tensor", INSTEAD)
distribute_module = absent_function(NAME + "distribute_module", INSTEAD)

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
