"""Tensor parallelism: names only."""

from __future__ import annotations

from ..._not_here import missing_class, missing_function

INSTEAD = "DistributedDataParallel or FullyShardedDataParallel"

ParallelStyle = missing_class("tensor.parallel.ParallelStyle", INSTEAD)
ColwiseParallel = missing_class("tensor.parallel.ColwiseParallel", INSTEAD)
RowwiseParallel = missing_class("tensor.parallel.RowwiseParallel", INSTEAD)
SequenceParallel = missing_class("tensor.parallel.SequenceParallel", INSTEAD)
PrepareModuleInput = missing_class("tensor.parallel.PrepareModuleInput", INSTEAD)
PrepareModuleOutput = missing_class("tensor.parallel.PrepareModuleOutput", INSTEAD)
loss_parallel = missing_function("tensor.parallel.loss_parallel", INSTEAD)
parallelize_module = missing_function("tensor.parallel.parallelize_module", INSTEAD)

__all__ = [name for name in dir() if name[0] != "_" and name not in ("INSTEAD", "annotations")]
