"""Parts of PyTorch's checkpoints that are not here: names only."""

from ..._absent import absent_class

DefaultLoadPlanner = absent_class(
    "torch.distributed.checkpoint.default_planner.DefaultLoadPlanner",
    "torch.distributed.checkpoint.save and load",
)
DefaultSavePlanner = absent_class(
    "torch.distributed.checkpoint.default_planner.DefaultSavePlanner",
    "torch.distributed.checkpoint.save and load",
)
