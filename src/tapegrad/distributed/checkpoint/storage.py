"""Where checkpoints are, where PyTorch keeps the names."""

from . import StorageReader, StorageWriter

__all__ = ["StorageReader", "StorageWriter"]
