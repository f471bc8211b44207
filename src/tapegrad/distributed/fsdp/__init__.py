"""FullyShardedDataParallel: parameters, gradients and optimizer state spread over ranks."""

from __future__ import annotations

from .._not_here import missing_class, missing_function
from . import wrap
from .api import (
    BackwardPrefetch,
    CPUOffload,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    LocalStateDictConfig,
    MixedPrecision,
    ShardedOptimStateDictConfig,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictConfig,
    StateDictType,
)
from .fully_sharded_data_parallel import FullyShardedDataParallel

fully_shard = missing_function("fsdp.fully_shard", "FullyShardedDataParallel(module)")
FSDPModule = missing_class("fsdp.FSDPModule", "FullyShardedDataParallel(module)")
MixedPrecisionPolicy = missing_class("fsdp.MixedPrecisionPolicy", "MixedPrecision, of FSDP")
CPUOffloadPolicy = missing_class("fsdp.CPUOffloadPolicy", "parameters are on the CPU already")
OffloadPolicy = missing_class("fsdp.OffloadPolicy", "parameters are on the CPU already")

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
