"""Pipeline parallelism: names only."""

from __future__ import annotations

from ._not_here import missing_class, missing_function

INSTEAD = "DistributedDataParallel or FullyShardedDataParallel"

Pipe = missing_class("pipelining.Pipe", INSTEAD)
PipelineStage = missing_class("pipelining.PipelineStage", INSTEAD)
SplitPoint = missing_class("pipelining.SplitPoint", INSTEAD)
ScheduleGPipe = missing_class("pipelining.ScheduleGPipe", INSTEAD)
Schedule1F1B = missing_class("pipelining.Schedule1F1B", INSTEAD)
pipeline = missing_function("pipelining.pipeline", INSTEAD)
pipe_split = missing_function("pipelining.pipe_split", INSTEAD)
