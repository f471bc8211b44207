"""The settings of FullyShardedDataParallel."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any


class ShardingStrategy(enum.Enum):
    """Which tensors are spread over the ranks. FULL_SHARD: all; SHARD_GRAD_OP: not the parameters
    between forward and backward; NO_SHARD: none.
    """

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
    """The form of the tensors that state_dict() returns."""

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
class OptimStateDictConfig:
    """How an optimizer's state dict is wanted."""

    offload_to_cpu: bool = True


@dataclasses.dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """The shards as they are."""

    offload_to_cpu: bool = False


@dataclasses.dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """Whole tensors; on rank 0 only, if asked for."""

    rank0_only: bool = False


@dataclasses.dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """Parts of every parameter's state."""


@dataclasses.dataclass
class StateDictSettings:
    """The type and options of the dicts that state_dict() returns."""

    state_dict_type: StateDictType
    state_dict_config: StateDictConfig
    optim_state_dict_config: OptimStateDictConfig


class OptimStateKeyType(enum.Enum):
    """How the states of an optimizer are keyed: by names or by numbers of parameters."""

    PARAM_NAME = enum.auto()
    PARAM_ID = enum.auto()
