"""Writes in which a sparse tensor takes part: other entries for it, or its own added to a dense."""

from __future__ import annotations

from typing import Any

from ..autograd.inplace import bump, refuse, write
from ..core.modes import MODES
from ..ops.pointwise.arithmetic import Add, AddAlpha, Sub, SubAlpha
from .coo import SparseTensor
from .functions import FUNCTIONS, WRITTEN
from .history import could_not_run

SUMS = (Add, AddAlpha, Sub, SubAlpha)


def write_sparse(op: Any, tensors: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
    """`op` with its result in place of its first tensor."""
    target = tensors[0]
    name = f"{op.name.removesuffix('_alpha')}_"
    if not isinstance(target, SparseTensor):
        if op not in SUMS:
            raise could_not_run(name)
        FUNCTIONS[op.name](target.detach(), *tensors[1:], *attrs)  # refuses other shapes
        return write(op, (target, tensors[1].to_dense()), attrs)
    if name not in WRITTEN:
        raise could_not_run(name)
    refuse(target._entries, target.requires_grad and MODES.records)
    made = FUNCTIONS[op.name](*tensors, *attrs)
    target._places, target._entries = made._places, made._entries
    target._coalesced = made._coalesced
    bump(target, name)
    return target
