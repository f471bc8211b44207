"""Reductions of neighbouring pieces of a dimension."""

from __future__ import annotations

from typing import Any

import tapegrad as tg

from ..block import Case, api
from ..block.checks import not_implemented
from ..block.samples import Draw, Index

# What a reduction is called here, and what it gives for nothing.
KINDS = {
    "sum": ("sum", 0.0),
    "mean": ("mean", float("nan")),
    "max": ("amax", -float("inf")),
    "amax": ("amax", -float("inf")),
    "min": ("amin", float("inf")),
    "amin": ("amin", float("inf")),
    "prod": ("prod", 1.0),
}


def one(piece: Any, kind: str, empty: float, initial: Any) -> Any:
    """The reduction of the first dimension of a piece, which `initial` takes part in."""
    if not piece.shape[0]:
        return piece.new_full(piece.shape[1:], empty if initial is None else initial)
    found = getattr(tg, "sum" if kind == "mean" else kind)(piece, 0)
    if initial is not None:
        if kind in ("sum", "mean"):
            found = found + initial
        elif kind == "prod":
            found = found * initial
        else:
            found = getattr(tg, kind)(tg.stack([found, tg.full_like(found, initial)]), 0)
    return found / piece.shape[0] if kind == "mean" else found


@api(
    method=False,
    samples=[
        Case(Draw(4, 2), "sum", lengths=Index([1, 0, 3])),
        Case(Draw(4, 2), "mean", lengths=Index([1, 3]), initial=1.0),
        Case(Draw(4), "max", offsets=Index([0, 3, 4])),
        Case(Draw(2, 3), "prod", lengths=Index([[1, 2], [3, 0]]), axis=1),
    ],
)
def segment_reduce(
    data: Any,
    reduce: str,
    *,
    lengths: Any = None,
    indices: Any = None,
    offsets: Any = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: Any = None,
) -> Any:
    """segment_reduce(data, reduce, *, lengths=None, …) -> Tensor: of pieces of one dimension.

    >>> segment_reduce(tensor([1.0, 2.0, 3.0]), "sum", lengths=tensor([1, 2]))
    tensor([1., 5.])
    """
    if reduce not in KINDS:
        raise RuntimeError(
            f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"
        )
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet.")
    if lengths is None and offsets is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    counts = lengths if offsets is None else offsets.diff(dim=-1)
    if counts.dtype.is_floating_point:
        raise not_implemented("_segment_reduce_lengths_cpu_kernel1", counts.dtype)
    axis = axis + data.dim() if axis < 0 else axis
    if axis != counts.dim() - 1:
        raise RuntimeError("segment_reduce(): Expected axis to be the last dimension of lengths.")
    if not unsafe and offsets is None:
        if int(counts.min()) < 0:
            raise RuntimeError("lengths contains negative value!")
        if not bool((counts.sum(-1) == data.shape[axis]).all()):
            raise RuntimeError(
                "segment_reduce(): Expected all rows of lengths along axis to sum to "
                "data.size(lengths.dim()-1) when !unsafe."
            )
    kind, empty = KINDS[reduce]
    shape = counts.shape[:-1]
    rows = data.reshape(-1, *data.shape[axis:])
    made = [
        tg.stack([one(piece, kind, empty, initial) for piece in row[: sum(n)].split(n)])
        for row, n in zip(rows, counts.reshape(-1, counts.shape[-1]).tolist(), strict=True)
    ]
    return tg.stack(made).reshape(*shape, *made[0].shape)
