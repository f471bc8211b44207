"""`torch.onnx`: models as ONNX graphs, through the `onnx` package (the extra `onnx`)."""

from __future__ import annotations

from .errors import OnnxExporterError, UnsupportedOperatorError
from .exporting import ONNXProgram, export, is_in_onnx_export

__all__ = [
    "ONNXProgram",
    "OnnxExporterError",
    "UnsupportedOperatorError",
    "export",
    "is_in_onnx_export",
]
