"""Tensor parallelism: names only."""

from __future__ import annotations

from ....errors.absent import absent_class, absent_function

INSTEAD = "DistributedDataParallel or FullyShardedDataParallel"

ParallelStyle = absent_class("torch.distributed.tensor.parallel.ParallelStyle", INSTEAD)
ColwiseParallel = absent_class("torch.distributed.tensor.parallel.ColwiseParallel", INSTEAD)
RowwiseParallel = absent_class("torch.distributed.tensor.parallel.RowwiseParallel", INSTEAD)
SequenceParallel = absent_class("torch.distributed.tensor.parallel.SequenceParallel", INSTEAD)
PrepareModuleInput = absent_class("torch.distributed.tensor.parallel.PrepareModuleInput", INSTEAD)
PrepareModuleOutput = absent_class("torch.distributed.tensor.parallel.PrepareModuleOutput", INSTEAD)
loss_parallel = absent_function("torch.distributed.tensor.parallel.loss_parallel", INSTEAD)
parallelize_module = absent_function(
    "torch.distributed.tensor.parallel.parallelize_module", INSTEAD
)

__all__ = [name for name in dir() if name[0] != "_" and name not in ("INSTEAD", "annotations")]
