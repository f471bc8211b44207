"""Functions that libraries call when they are imported, to register translations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def register_custom_op_symbolic(
    symbolic_name: str, symbolic_fn: Callable[..., Any], opset_version: int
) -> None:
    """Say how an op is written in ONNX by PyTorch's old exporter, which is not here."""


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Take it back."""
