"""Writes in which a sparse tensor takes part: other entries for it, or its own added to a dense."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..autograd.inplace import bump, refuse, write
from ..core.base import STATE
from ..core.dispatch import is_written_plainly, number_as
from ..core.modes import MODES
from ..ops.index.advanced import IndexPut
from ..ops.pointwise.arithmetic import Add, AddAlpha, Sub, SubAlpha
from ..ops.shape.copying import Copy
from .coo import SparseTensor, check_places
from .functions import FUNCTIONS, WRITTEN, check_dense_shape
from .history import NoElements, could_not_run, no_strides

ALONE = ("add_", "sub_", "mul_", "div_", "neg_")  # entry by entry, or with another tensor
SUMS = (Add, AddAlpha, Sub, SubAlpha)


def write_sparse(op: Any, tensors: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
    """`op` with its result in place of its first tensor."""
    target = tensors[0]
    name = f"{op.name.removesuffix('_alpha')}_"
    if not isinstance(target, SparseTensor):
        if op is Copy:
            raise mixed_copy(target, tensors[1])
        if op not in SUMS:
            raise could_not_run(name)
        check_dense_shape(target, tensors[1])
        if adds_at_places(op, target, tensors[1], attrs, name):
            return target
        return write(op, (target, tensors[1].to_dense()), attrs)
    if name not in WRITTEN:
        raise could_not_run(name)
    if name not in ALONE and not target._coalesced:
        raise RuntimeError(f"{name} requires coalesced input")
    refuse(target._entries, target.requires_grad and MODES.records)
    made = FUNCTIONS[op.name](*tensors, *attrs)
    target._places, target._entries = made._places, made._entries
    target._coalesced = made._coalesced
    bump(target, name)
    return target


def write_output(out: SparseTensor, made: Any) -> SparseTensor:
    """`out=`: all of a result, shape included."""
    if not isinstance(made, SparseTensor):
        raise no_strides()
    check_castable(made, out)
    exchange(out, made)
    bump(out, "out")
    return out


def copy_(target: SparseTensor, source: Any) -> SparseTensor:
    """`target.copy_(source)`, both of which have to be sparse."""
    if not isinstance(source, SparseTensor):
        raise mixed_copy(target, source)
    if target.sparse_dim() != source.sparse_dim() and target._nnz():
        raise RuntimeError(
            f"changing the number of sparse dimensions (from {target.sparse_dim()} to "
            f"{source.sparse_dim()}) on a non-empty sparse tensor is not supported."
        )
    refuse(target._entries, target.requires_grad and MODES.records)
    exchange(target, source.clone())
    bump(target, "copy_")
    return target


def mixed_copy(target: Any, source: Any) -> Exception:
    return RuntimeError(
        "copy_() between dense and sparse Tensors is not implemented! Found self type = "
        f"{target.type()} and src type = {source.type()}"
    )


def exchange(target: SparseTensor, made: SparseTensor) -> None:
    """Let `target` have the parts of `made`, in its own dtype."""
    entries = made._entries
    if entries._array.dtype != target._entries._array.dtype:
        entries = entries.to(target.dtype)
    target._places, target._entries = made._places, entries
    target._shape, target._coalesced = made._shape, made._coalesced
    target._array = NoElements(made._shape, entries._array.dtype)


def check_castable(made: SparseTensor, out: SparseTensor) -> None:
    if made.dtype.category > out.dtype.category:
        raise RuntimeError(
            f"result type {made.dtype.scalar_type} can't be cast to the desired output type "
            f"{out.dtype.scalar_type}"
        )


def adds_at_places(op: Any, target: Any, other: SparseTensor, attrs: Any, name: str) -> bool:
    """Add the entries where they belong, without a dense tensor; False where it is recorded."""
    records = not STATE.modes_on or MODES.records
    if target._special or (records and other.requires_grad):
        return False
    if not is_written_plainly(target, records):
        return False
    array, values, places = target._array, other._entries._array, other._places._array
    if type(array) is not np.ndarray or values.dtype != array.dtype or not array.size:
        return False
    if not array.flags.c_contiguous or not len(places) or np.may_share_memory(array, values):
        return False
    check_places(places, other._shape)
    factor = attrs[0] if attrs else 1
    if op in (Sub, SubAlpha):
        factor = -factor
    if factor != 1:
        values = values * number_as(factor, array.dtype)
    IndexPut.into(array, values, tuple(places), True)
    bump(target, name)
    return True
