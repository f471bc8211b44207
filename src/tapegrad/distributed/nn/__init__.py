"""Collectives that gradients pass through, and modules elsewhere: torch.distributed.nn."""

from __future__ import annotations

from ...errors.absent import absent_class
from .._groups import group
from .._reduce_op import ReduceOp
from .functional import (
    all_gather,
    all_reduce,
    all_to_all,
    all_to_all_single,
    broadcast,
    gather,
    reduce,
    reduce_scatter,
    scatter,
)

RemoteModule = absent_class("torch.distributed.nn.RemoteModule", "DistributedDataParallel")

__all__ = [
    "ReduceOp",
    "RemoteModule",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "gather",
    "group",
    "reduce",
    "reduce_scatter",
    "scatter",
]
