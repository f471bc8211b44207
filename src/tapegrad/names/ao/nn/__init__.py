"""Layers that work on quantized tensors, as far as they have a meaning in floating point."""

from . import quantized

__all__ = ["quantized"]
