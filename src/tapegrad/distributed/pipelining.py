"""Pipeline parallelism: names only."""

from __future__ import annotations

import enum

from ..errors.absent import absent_class, absent_function

INSTEAD = "DistributedDataParallel or FullyShardedDataParallel"

Pipe = absent_class("torch.distributed.pipelining.Pipe", INSTEAD)
PipelineStage = absent_class("torch.distributed.pipelining.PipelineStage", INSTEAD)


class SplitPoint(enum.Enum):
    """Where a model is split, seen from a submodule."""

    BEGINNING = 1
    END = 2


ScheduleGPipe = absent_class("torch.distributed.pipelining.ScheduleGPipe", INSTEAD)
Schedule1F1B = absent_class("torch.distributed.pipelining.Schedule1F1B", INSTEAD)
pipeline = absent_function("torch.distributed.pipelining.pipeline", INSTEAD)
pipe_split = absent_function("torch.distributed.pipelining.pipe_split", INSTEAD)
