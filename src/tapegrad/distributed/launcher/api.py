"""torchrun as a function: names only."""

from __future__ import annotations

from ...errors.absent import absent_class, absent_function

INSTEAD = "python -m tapegrad torchrun, or torch.multiprocessing.spawn"

LaunchConfig = absent_class("torch.distributed.launcher.api.LaunchConfig", INSTEAD)
elastic_launch = absent_class("torch.distributed.launcher.api.elastic_launch", INSTEAD)
launch_agent = absent_function("torch.distributed.launcher.api.launch_agent", INSTEAD)
