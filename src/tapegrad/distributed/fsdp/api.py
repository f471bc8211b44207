"""The settings of FullyShardedDataParallel."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any


class ShardingStrategy(enum.Enum):
    """What is spread: all; all but the parameters between forward and backward; nothing."""

    FULL_SHARD = enum.auto()
    SHARD_GRAD_OP = enum.auto()
    NO_SHARD = enum.auto()
    HYBRID_SHARD = enum.auto()
    _HYBRID_SHARD_ZERO2 = enum.auto()


class BackwardPrefetch(enum.Enum):
    """Accepted; parameters are gathered when they are needed."""

    BACKWARD_PRE = enum.auto()
    BACKWARD_POST = enum.auto()


class StateDictType(enum.Enum):
    """What state_dict() gives."""

    FULL_STATE_DICT = enum.auto()
    LOCAL_STATE_DICT = enum.auto()
    SHARDED_STATE_DICT = enum.auto()


@dataclasses.dataclass
class MixedPrecision:
    """The dtypes in which a module computes and gradients are averaged."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True


@dataclasses.dataclass
class CPUOffload:
    """Accepted: arrays are on the CPU."""

    offload_params: bool = False


@dataclasses.dataclass
class StateDictConfig:
    """How a state dict is wanted."""

    offload_to_cpu: bool = False


@dataclasses.dataclass
class FullStateDictConfig(StateDictConfig):
    """Whole tensors; on rank 0 only, if asked for."""

    rank0_only: bool = False


@dataclasses.dataclass
class LocalStateDictConfig(StateDictConfig):
    """The shards as they are."""


@dataclasses.dataclass
class ShardedStateDictConfig(StateDictConfig):
    """Parts of every parameter, for distributed.checkpoint."""


@dataclasses.dataclass
class FullOptimStateDictConfig(StateDictConfig):
    """Whole tensors; on rank 0 only, if asked for."""

    rank0_only: bool = False


@dataclasses.dataclass
class ShardedOptimStateDictConfig(StateDictConfig):
    """Parts of every parameter's state."""


class OptimStateKeyType(enum.Enum):
    """What the state of an optimizer is keyed by."""

    PARAM_NAME = enum.auto()
    PARAM_ID = enum.auto()
