"""FullyShardedDataParallel: parameters, gradients and optimizer state spread over ranks."""

from __future__ import annotations

from ..._absent import absent_class, absent_function
from . import wrap
from .api import (
    BackwardPrefetch,
    CPUOffload,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    LocalStateDictConfig,
    MixedPrecision,
    OptimStateKeyType,
    ShardedOptimStateDictConfig,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictConfig,
    StateDictType,
)
from .fully_sharded_data_parallel import FullyShardedDataParallel

fully_shard = absent_function(
    "torch.distributed.fsdp.fully_shard", "FullyShardedDataParallel(module)"
)
register_fsdp_forward_method = absent_function(
    "torch.distributed.fsdp.register_fsdp_forward_method", "FullyShardedDataParallel(module)"
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

__all__ = [
    "BackwardPrefetch",
    "CPUOffload",
    "FullOptimStateDictConfig",
    "FullStateDictConfig",
    "FullyShardedDataParallel",
    "LocalStateDictConfig",
    "MixedPrecision",
    "ShardedOptimStateDictConfig",
    "ShardedStateDictConfig",
    "ShardingStrategy",
    "StateDictConfig",
    "StateDictType",
    "fully_shard",
]
