"""Parts of PyTorch's checkpoints that are not here: names only."""

from ...errors.absent import absent_function

load_sharded_optimizer_state_dict = absent_function(
    "torch.distributed.checkpoint.optimizer.load_sharded_optimizer_state_dict",
    "torch.distributed.checkpoint.save and load",
)
