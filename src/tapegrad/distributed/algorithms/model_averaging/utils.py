"""Averages of parameters over ranks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tapegrad as tg

from ..._combining import all_reduce
from ..._reduce_op import ReduceOp

__all__ = ["average_parameters", "average_parameters_or_parameter_groups"]


def average_parameters(params: Iterable[Any], process_group: Any) -> None:
    """Average them in place, all of a dtype in one message."""
    kinds: dict[Any, list[Any]] = {}
    for p in params:
        kinds.setdefault((p.dtype, p.device), []).append(p.detach())
    for same in kinds.values():
        flat = tg.cat([p.reshape(-1) for p in same])
        all_reduce(flat, ReduceOp.AVG, process_group)
        for p, part in zip(same, flat.split([p.numel() for p in same]), strict=True):
            p.copy_(part.view(p.shape))


def average_parameters_or_parameter_groups(params: Any, process_group: Any) -> None:
    """`average_parameters`, also for an optimizer's groups: the parameters in them that have
    gradients.
    """
    params = list(params)
    if params and isinstance(params[0], dict):
        params = [p for group in params for p in group["params"] if p.grad is not None]
    average_parameters(params, process_group)
