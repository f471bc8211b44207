"""What libraries ask while PyTorch traces them."""

from . import is_compiling

__all__ = ["is_compiling"]
