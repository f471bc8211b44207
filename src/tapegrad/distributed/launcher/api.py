"""Starting ranks from a program: names only."""

from ..._absent import absent_class

INSTEAD = "python -m tapegrad torchrun"

LaunchConfig = absent_class("torch.distributed.launcher.api.LaunchConfig", INSTEAD)
elastic_launch = absent_class("torch.distributed.launcher.api.elastic_launch", INSTEAD)
