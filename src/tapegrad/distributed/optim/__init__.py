"""Optimizers that share their work between ranks."""

from __future__ import annotations

from .._not_here import missing_class
from .zero_redundancy_optimizer import ZeroRedundancyOptimizer

__all__ = ["DistributedOptimizer", "PostLocalSGDOptimizer", "ZeroRedundancyOptimizer"]

DistributedOptimizer = missing_class("optim.DistributedOptimizer", "ZeroRedundancyOptimizer")
PostLocalSGDOptimizer = missing_class("optim.PostLocalSGDOptimizer", "DDP with no_sync()")
