"""FullyShardedDataParallel: parameters, gradients and optimizer state spread over ranks."""

from __future__ import annotations

from ...errors.absent import absent_class, absent_function
from . import wrap
from .api import (
    BackwardPrefetch,
    CPUOffload,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    LocalOptimStateDictConfig,
    LocalStateDictConfig,
    MixedPrecision,
    OptimStateDictConfig,
    OptimStateKeyType,
    ShardedOptimStateDictConfig,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictConfig,
    StateDictSettings,
    StateDictType,
)
from .fully_sharded_data_parallel import FullyShardedDataParallel

fully_shard = absent_function(
    "torch.distributed.fsdp.fully_shard", "FullyShardedDataParallel(module)"
)
FSDPModule = absent_class("torch.distributed.fsdp.FSDPModule", "FullyShardedDataParallel(module)")
MixedPrecisionPolicy = absent_class(
    "torch.distributed.fsdp.MixedPrecisionPolicy", "MixedPrecision, of FSDP"
)
CPUOffloadPolicy = absent_class(
    "torch.distributed.fsdp.CPUOffloadPolicy", "parameters are on the CPU already"
)
OffloadPolicy = absent_class(
    "torch.distributed.fsdp.OffloadPolicy", "parameters are on the CPU already"
)
register_fsdp_forward_method = absent_function(
    "torch.distributed.fsdp.register_fsdp_forward_method", "FullyShardedDataParallel(module)"
)
share_comm_ctx = absent_function(
    "torch.distributed.fsdp.share_comm_ctx", "FullyShardedDataParallel(module)"
)
UnshardHandle = absent_class(
    "torch.distributed.fsdp.UnshardHandle", "FullyShardedDataParallel.summon_full_params"
)
DataParallelMeshDims = absent_class(
    "torch.distributed.fsdp.DataParallelMeshDims", "FullyShardedDataParallel(device_mesh=)"
)

__all__ = [
    "BackwardPrefetch",
    "CPUOffload",
    "FullOptimStateDictConfig",
    "FullStateDictConfig",
    "FullyShardedDataParallel",
    "LocalOptimStateDictConfig",
    "LocalStateDictConfig",
    "MixedPrecision",
    "OptimStateDictConfig",
    "OptimStateKeyType",
    "ShardedOptimStateDictConfig",
    "ShardedStateDictConfig",
    "ShardingStrategy",
    "StateDictConfig",
    "StateDictSettings",
    "StateDictType",
    "fully_shard",
]
