"""Checkpoints in a folder, where PyTorch keeps the names."""

from . import FileSystemReader, FileSystemWriter

__all__ = ["FileSystemReader", "FileSystemWriter"]
