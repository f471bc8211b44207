"""Exceptions of `torch.onnx.export`."""

from __future__ import annotations

__all__ = ["OnnxExporterError", "UnsupportedOperatorError"]


class OnnxExporterError(RuntimeError):
    """A model cannot be written as an ONNX graph."""


class UnsupportedOperatorError(OnnxExporterError):
    """The model uses an op that has no translation."""
