"""Saving, where PyTorch keeps the names."""

from . import async_save, save, save_state_dict

__all__ = ["async_save", "save", "save_state_dict"]
