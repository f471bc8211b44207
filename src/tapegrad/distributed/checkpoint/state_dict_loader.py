"""Parts of PyTorch's checkpoints that are not here: names only."""

from ..._absent import absent_function

_load_state_dict = absent_function(
    "torch.distributed.checkpoint.state_dict_loader._load_state_dict",
    "torch.distributed.checkpoint.save and load",
)
