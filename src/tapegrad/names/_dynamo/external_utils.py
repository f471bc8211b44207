"""Questions of libraries that PyTorch traces: nothing is traced here."""

from . import is_compiling

__all__ = ["is_compiling"]
