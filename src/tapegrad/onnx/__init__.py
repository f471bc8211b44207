"""torch.onnx, as far as libraries ask for it when they are imported."""

from ._names import is_in_onnx_export, register_custom_op_symbolic, unregister_custom_op_symbolic

__all__ = ["is_in_onnx_export", "register_custom_op_symbolic", "unregister_custom_op_symbolic"]
