"""How tensors lie on the ranks of a mesh; DTensor itself is a name only."""

from __future__ import annotations

from ...errors.absent import absent_class, absent_function
from ..device_mesh import DeviceMesh, init_device_mesh
from .placement_types import Partial, Placement, Replicate, Shard

INSTEAD = "DistributedDataParallel or FullyShardedDataParallel"

DTensor = absent_class("torch.distributed.tensor.DTensor", INSTEAD, methods=("from_local",))
distribute_tensor = absent_function("torch.distributed.tensor.distribute_tensor", INSTEAD)
distribute_module = absent_function("torch.distributed.tensor.distribute_module", INSTEAD)
ones, zeros, empty, full, rand, randn = (
    absent_function(f"torch.distributed.tensor.{name}", INSTEAD)
    for name in ("ones", "zeros", "empty", "full", "rand", "randn")
)

__all__ = [
    "DTensor",
    "DeviceMesh",
    "Partial",
    "Placement",
    "Replicate",
    "Shard",
    "distribute_module",
    "distribute_tensor",
    "empty",
    "full",
    "init_device_mesh",
    "ones",
    "rand",
    "randn",
    "zeros",
]
