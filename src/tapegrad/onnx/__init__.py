"""`torch.onnx`: models as ONNX graphs, through the `onnx` package (the extra `onnx`)."""

from __future__ import annotations

from .. import __version__
from ._names import register_custom_op_symbolic, unregister_custom_op_symbolic
from .errors import OnnxExporterError, UnsupportedOperatorError
from .exporting import ONNXProgram, export, is_in_onnx_export

producer_version = __version__.partition("+")[0]  # of PyTorch, whose functions these are

__all__ = [
    "ONNXProgram",
    "OnnxExporterError",
    "UnsupportedOperatorError",
    "export",
    "is_in_onnx_export",
    "register_custom_op_symbolic",
    "unregister_custom_op_symbolic",
]
