"""Loading, where PyTorch keeps the names."""

from . import load, load_state_dict

__all__ = ["load", "load_state_dict"]
