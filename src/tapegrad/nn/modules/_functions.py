"""Layers with a gradient written by hand."""

from __future__ import annotations

from typing import Any

import tapegrad as tg

from ...autograd import Function
from .. import functional as F

__all__ = ["CrossMapLRN2d"]


def windows(input: Any, before: int, after: int) -> Any:
    """For every channel the sum from `before` channels earlier to `after` later."""
    padded = F.pad(input, (0, 0, 0, 0, before, after))
    return padded.unfold(1, before + after + 1, 1).sum(-1)


class CrossMapLRN2d(Function):
    """Local response normalization with the windows that PyTorch's Python version has.

    Going forward, the first channel is never dropped from the running sum of squares; going back,
    the window lies one channel earlier than the mathematics ask for. Both are PyTorch's numbers.
    """

    @staticmethod
    def forward(
        ctx: Any, input: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1
    ) -> Any:
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        share = alpha / size
        reach = (size - 1) // 2
        squares = input.pow(2)
        first = squares[:, :1]
        others = tg.cat([tg.zeros_like(first), squares[:, 1:]], 1)
        scale = (first + windows(others, reach, reach)) * share + k
        output = input * scale.pow(-beta)
        ctx.numbers = size, alpha, beta
        ctx.save_for_backward(input, output, scale)
        return output

    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        input, output, scale = ctx.saved_tensors
        size, alpha, beta = ctx.numbers
        before = (size + 1) // 2
        if size == 1:
            n = input.size(1)
            raise RuntimeError(f"start (1) + length ({n}) exceeds dimension size ({n}).")
        ratios = windows(grad_output * output / scale, before, size - 1 - before)
        grad = grad_output * scale.pow(-beta) - input * ratios * (2 * alpha * beta / size)
        return grad, None, None, None, None
