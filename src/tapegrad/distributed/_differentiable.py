"""Collectives that gradients pass through."""

from __future__ import annotations

from typing import Any

from ..autograd import Function
from ._combining import all_reduce


class _SumOverRanks(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Any, group: Any) -> Any:
        ctx.group = group
        total = tensor.clone()
        all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        total = grad.clone()
        all_reduce(total, group=ctx.group)
        return total, None


def sum_over_ranks(tensor: Any, group: Any) -> Any:
    """The sum of the tensors of all ranks, with a gradient: the sum of the ranks' gradients."""
    return _SumOverRanks.apply(tensor, group)
