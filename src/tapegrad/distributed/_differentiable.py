"""Collectives that gradients pass through."""

from __future__ import annotations

from typing import Any

import tapegrad as tg

from ..autograd import Function
from ._collectives import all_gather, all_reduce


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


class _GatherOverRanks(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Any, group: Any) -> Any:
        ctx.group = group
        parts = [tg.empty_like(tensor) for _ in range(group.size())]
        all_gather(parts, tensor.contiguous(), group=group)
        return tuple(parts)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        total = tg.stack(grads)
        all_reduce(total, group=ctx.group)
        return total[ctx.group.rank()], None


def gather_over_ranks(tensor: Any, group: Any) -> tuple[Any, ...]:
    """The tensors of all ranks; the gradient is the sum of what the ranks have for this one."""
    found: tuple[Any, ...] = _GatherOverRanks.apply(tensor, group)
    return found
