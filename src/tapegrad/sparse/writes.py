"""Writes in which a sparse tensor takes part: other entries for it, or its own added to a dense."""

from __future__ import annotations

from typing import Any

from ..autograd.inplace import bump, refuse, write
from ..core.modes import MODES
from ..ops.pointwise.arithmetic import Add, AddAlpha, Sub, SubAlpha
from ..ops.shape.copying import Copy
from .coo import SparseTensor
from .functions import FUNCTIONS, WRITTEN
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
        FUNCTIONS[op.name](target.detach(), *tensors[1:], *attrs)  # refuses other shapes
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
