"""Shapes as tensors."""

from __future__ import annotations

from typing import Any

import tapegrad as tg


def shape_as_tensor(x: Any) -> Any:
    """The shape of a tensor, as a tensor.

    >>> torch.onnx.operators.shape_as_tensor(ones(2, 3))
    tensor([2, 3])
    """
    return tg.tensor(x.shape)


def reshape_from_tensor_shape(x: Any, shape: Any) -> Any:
    """`reshape` to a shape that is a tensor."""
    return x.reshape(shape.tolist())
