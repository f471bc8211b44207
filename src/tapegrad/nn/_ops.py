"""Blocks of ops that only `nn.functional` uses."""

from __future__ import annotations

import math
from typing import Any

from ..core.base import F32, F64
from ..ops.block import PROMOTE, Block, apply, op

__all__ = ["MseLoss", "apply"]


@op
class MseLoss(Block):
    """mse_loss(input, target, reduction) -> Tensor: squared differences, or their mean or sum."""

    tensors = ("input", "target")
    dtype = PROMOTE
    public = False

    def fwd(xp: Any, input: Any, target: Any, reduction: str) -> Any:
        difference = input - target
        squares = difference * difference
        if reduction == "mean" and (squares.dtype is F32 or squares.dtype is F64):
            return xp.add.reduce(squares, None) / squares.size
        if reduction == "none":
            return squares
        # Half precision is summed in single precision.
        wide = xp.promote_types(squares.dtype, xp.float32)
        total = squares.sum(dtype=wide)
        return (total / squares.size if reduction == "mean" else total).astype(squares.dtype)

    def d_input(F: Any, grad: Any, input: Any, target: Any, reduction: str) -> Any:
        return slope(grad, input.shape, reduction) * (input - target)

    def d_target(F: Any, grad: Any, input: Any, target: Any, reduction: str) -> Any:
        return slope(grad, input.shape, reduction) * (target - input)

    def jvp(F: Any, input: Any, t_input: Any, target: Any, t_target: Any, reduction: str) -> Any:
        difference = input - target
        change = -t_target if t_input is None else t_input
        if t_input is not None and t_target is not None:
            change = t_input - t_target
        product = 2 * difference * change
        if reduction == "none":
            return product
        total = F.sum(product, None, False, None)
        return total / size(input.shape) if reduction == "mean" else total


def slope(grad: Any, shape: tuple[int, ...], reduction: str) -> Any:
    """What the difference is multiplied by."""
    return grad * (2.0 / max(size(shape), 1)) if reduction == "mean" else grad * 2.0


def size(shape: tuple[int, ...]) -> int:
    return math.prod(shape)
