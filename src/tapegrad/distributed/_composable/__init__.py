"""Parallelism by functions on modules: names only."""

from __future__ import annotations

from ...errors.absent import absent_function

checkpoint = absent_function(
    "torch.distributed._composable.checkpoint",
    "checkpoint_wrapper of torch.distributed.algorithms._checkpoint.checkpoint_wrapper",
)
contract = absent_function("torch.distributed._composable.contract", "a function of your own")
replicate = absent_function(
    "torch.distributed._composable.replicate", "DistributedDataParallel(module)"
)
