"""Loading, where PyTorch keeps the names."""

from ...errors.absent import absent_function
from . import load, load_state_dict

_load_state_dict = absent_function(
    "torch.distributed.checkpoint.state_dict_loader._load_state_dict",
    "torch.distributed.checkpoint.save and load",
)

__all__ = ["load", "load_state_dict"]
