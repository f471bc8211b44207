"""Sharded tensors, as far as `isinstance` goes: there are none."""

from ..._absent import absent_class, absent_function
from ..._tensor.tensor import Tensor
from ..device_mesh import DeviceMesh, init_device_mesh
from .placement_types import Partial, Placement, Replicate, Shard

INSTEAD = "run one process per replica with DistributedDataParallel"

DTensor = absent_class("torch.distributed.tensor.DTensor", INSTEAD, Tensor)
distribute_module = absent_function("torch.distributed.tensor.distribute_module", INSTEAD)
distribute_tensor = absent_function("torch.distributed.tensor.distribute_tensor", INSTEAD)

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
