"""PyTorch's hook into Python's frames: asked for, never in use."""

from . import OptimizedModule, is_dynamo_supported

__all__ = ["OptimizedModule", "is_dynamo_supported"]
