"""Reductions of neighbouring pieces of a dimension."""

from __future__ import annotations

from typing import Any

from ...core.transforms.batched import is_batched
from ..block import Case, api
from ..block.checks import not_implemented
from ..block.public import public
from ..block.samples import Draw, Index

# What a reduction is called here, and what it starts from.
KINDS = {
    "sum": ("sum", 0.0),
    "mean": ("sum", 0.0),
    "max": ("amax", -float("inf")),
    "amax": ("amax", -float("inf")),
    "min": ("amin", float("inf")),
    "amin": ("amin", float("inf")),
    "prod": ("prod", 1.0),
}


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
    if not data.dtype.is_floating_point:
        raise not_implemented("_segment_reduce_cpu", data.dtype)
    axis = axis + data.dim() if axis < 0 else axis
    if axis != counts.dim() - 1:
        raise RuntimeError("segment_reduce(): Expected axis to be the last dimension of lengths.")
    if not unsafe and offsets is None and has_values(counts):
        if int(counts.min()) < 0:
            raise RuntimeError("lengths contains negative value!")
        if not bool((counts.sum(-1) == data.shape[axis]).all()):
            raise RuntimeError(
                "segment_reduce(): Expected all rows of lengths along axis to sum to "
                "data.size(lengths.dim()-1) when !unsafe."
            )
    kind, start = KINDS[reduce]
    start = start if initial is None else initial
    rows, many = counts.shape[:-1], counts.shape[-1]
    rest = (1,) * (data.dim() - axis - 1)
    places = public.arange(data.shape[axis], device=data.device).expand(*rows, -1).contiguous()
    index = public.searchsorted(counts.cumsum(-1), places, right=True)
    index = index.reshape(*index.shape, *rest).expand(data.shape)
    counts = counts.reshape(*counts.shape, *rest)
    # Extrema share no gradient with what they start from, so that this is no number at first.
    joins = kind in ("sum", "prod")
    # One place more, for what lies behind the last piece.
    shape = (*rows, many + 1, *data.shape[axis + 1 :])
    made = data.new_full(shape, start if joins else float("nan"))
    made = made.scatter_reduce(axis, index, data, kind, include_self=joins).narrow(axis, 0, many)
    if not joins:
        below = made < start if kind == "amax" else made > start
        made = public.where(below | (counts == 0), start, made)
    if reduce == "mean":
        made = made / (counts if initial is None else counts.clamp(min=1))
    return made.contiguous()


def has_values(t: Any) -> bool:
    """Whether one can look at the values of a tensor: not in a batch, not on meta."""
    return not (is_batched(t) or t.is_meta)


_segment_reduce = segment_reduce  # the name that PyTorch's own programs use
