"""Collectives that gradients pass through: torch.distributed.nn."""

from __future__ import annotations

from typing import Any

from ._differentiable import sum_over_ranks
from ._groups import default_group
from ._reduce_op import ReduceOp

__all__ = ["all_reduce"]


def all_reduce(tensor: Any, op: Any = ReduceOp.SUM, group: Any = None) -> Any:
    """The sum over ranks as a new tensor, with a gradient."""
    if op is not ReduceOp.SUM:
        raise ValueError(f"only ReduceOp.SUM has a gradient here, got {op}")
    return sum_over_ranks(tensor, group or default_group())
