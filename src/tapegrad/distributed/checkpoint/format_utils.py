"""Parts of PyTorch's checkpoints that are not here: names only."""

from ...errors.absent import absent_class

_EmptyStateDictLoadPlanner = absent_class(
    "torch.distributed.checkpoint.format_utils._EmptyStateDictLoadPlanner",
    "torch.distributed.checkpoint.save and load",
)
