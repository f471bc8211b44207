"""Collectives that gradients pass through, as functions."""

from __future__ import annotations

from typing import Any

from .._differentiable import gather_over_ranks, sum_over_ranks
from .._groups import default_group
from .._reduce_op import ReduceOp

__all__ = ["all_gather", "all_reduce"]


def all_reduce(tensor: Any, op: Any = ReduceOp.SUM, group: Any = None) -> Any:
    """The sum over ranks as a new tensor, with a gradient."""
    if op is not ReduceOp.SUM:
        raise ValueError(f"only ReduceOp.SUM has a gradient here, got {op}")
    return sum_over_ranks(tensor, group or default_group())


def all_gather(tensor: Any, group: Any = None) -> tuple[Any, ...]:
    """The tensors of all ranks, with a gradient."""
    return gather_over_ranks(tensor, group or default_group())
