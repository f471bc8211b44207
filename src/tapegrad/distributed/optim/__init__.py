"""Optimizers that share their work between ranks."""

from __future__ import annotations

from ...errors.absent import absent_class
from .zero_redundancy_optimizer import ZeroRedundancyOptimizer

__all__ = ["DistributedOptimizer", "PostLocalSGDOptimizer", "ZeroRedundancyOptimizer"]

DistributedOptimizer = absent_class(
    "torch.distributed.optim.DistributedOptimizer", "ZeroRedundancyOptimizer"
)
PostLocalSGDOptimizer = absent_class(
    "torch.distributed.optim.PostLocalSGDOptimizer", "DDP with no_sync()"
)
