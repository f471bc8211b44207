"""Quantization, as far as libraries import it: there are no quantized tensors here."""

from . import nn, quantization

__all__ = ["nn", "quantization"]
