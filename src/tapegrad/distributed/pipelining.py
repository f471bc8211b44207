"""Pipeline parallelism: names only."""

from __future__ import annotations

from .._absent import absent_class, absent_function

INSTEAD = "DistributedDataParallel or FullyShardedDataParallel"

Pipe = absent_class("torch.distributed.pipelining.Pipe", INSTEAD)
PipelineStage = absent_class("torch.distributed.pipelining.PipelineStage", INSTEAD)
SplitPoint = absent_class("torch.distributed.pipelining.SplitPoint", INSTEAD)
ScheduleGPipe = absent_class("torch.distributed.pipelining.ScheduleGPipe", INSTEAD)
Schedule1F1B = absent_class("torch.distributed.pipelining.Schedule1F1B", INSTEAD)
pipeline = absent_function("torch.distributed.pipelining.pipeline", INSTEAD)
pipe_split = absent_function("torch.distributed.pipelining.pipe_split", INSTEAD)
