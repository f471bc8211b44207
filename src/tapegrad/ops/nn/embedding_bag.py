"""Bags of rows of a table: summed, averaged or maximised."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd.dispatched import noted_sparse
from ...core.arguments import cast_value, is_index
from ...core.base import TensorBase
from ...core.devices import to_host
from ...core.host_arrays import host
from ...core.python_dispatch import cannot_be_repeated
from ...core.rounding import half_as_single
from ...core.transforms.batched import known_values, physical_array, refusal
from ...core.warned import warn
from ...errors import must_be_tensor
from ..block import Block, Case, api, apply, looks_at_values, op
from ..block.batching import join, lift, part
from ..block.checks import only_bool
from ..block.public import public
from ..block.samples import Draw, Index
from .embedding import (
    check_indices,
    embedding_renorm_,
    first_outside,
    numbers,
    refuse_scaled,
    sparse_rows,
    stacked,
    times_named,
)

# Kernels get row numbers that are in range and offsets that do not decrease: `call` looked.
# `entries` tables may stand on top of each other, as a batch puts them.
# ruff: noqa: N805

SUM, MEAN, MAX = 0, 1, 2
UNEVEN_BAGS = (
    "vmap: embedding_bag with include_last_offset=True needs the same last offset in every entry "
    "of the batch"
)


def starts_of(xp: Any, sizes: Any) -> tuple[Any, Any]:
    """The bags that are not empty, and where they begin."""
    filled = xp.flatnonzero(sizes)
    return filled, (xp.cumsum(sizes) - sizes)[filled]


@op
class EmbeddingBag(Block):
    """embedding_bag(weight, indices, offsets, sample_weights, mode, …) -> four Tensors.

    The bags, the bag of each index, how many indices count in each bag, and for maxima the row
    that each element came from.
    """

    aten = "_embedding_bag"
    tensors = ("weight", "indices", "offsets", "sample_weights")
    plain_tensors = ("indices", "offsets")
    outs = ("out", "bag_of", "sizes", "rows")
    plain_outs = positions = (1, 2, 3)
    public = False

    def fwd(
        xp,
        weight,
        indices,
        offsets,
        sample_weights,
        mode,
        scale_grad_by_freq,
        padding_idx,
        entries,
        sparse,
    ):
        bags = offsets.shape[0]
        if xp is not host:
            return bags_on_device(
                xp, weight, indices, offsets, sample_weights, mode, padding_idx, entries
            )
        offsets = offsets.astype(np.intp, copy=False)
        ends = xp.append(offsets[1:], indices.shape[0])
        bag_of = xp.repeat(xp.arange(bags), ends - offsets)
        kept = counting(indices, padding_idx, weight.shape[0] // entries)
        where = indices if kept is None else indices[kept]
        sizes = ends - offsets if kept is None else xp.bincount(bag_of[kept], minlength=bags)
        lines = half_as_single(weight.take(where, 0))
        if sample_weights is not None:
            factor = half_as_single(sample_weights if kept is None else sample_weights[kept])
            lines = lines * factor[:, None]
        out = xp.zeros((bags, weight.shape[1]), lines.dtype)
        rows = xp.zeros((bags, weight.shape[1]) if mode == MAX else (0,), np.int64)
        filled, starts = starts_of(xp, sizes)
        if filled.size and lines.size:
            if mode == MAX:
                best = xp.maximum.reduceat(lines, starts, 0)
                out[filled] = best
                # The first line that has the maximum.
                behind = xp.where(lines == xp.repeat(best, sizes[filled], 0), 0, lines.shape[0])
                first = xp.minimum.reduceat(behind + xp.arange(lines.shape[0])[:, None], starts, 0)
                rows[filled] = where[xp.minimum(first, lines.shape[0] - 1)]
            else:
                out[filled] = xp.add.reduceat(lines, starts, 0)
        if mode == MEAN:
            # The sum is rounded before it is divided, as in PyTorch.
            out = half_as_single(cast_value(out, weight.dtype))
            out = out / xp.maximum(sizes, 1)[:, None].astype(out.dtype)
        return cast_value(out, weight.dtype), bag_of, sizes, rows

    def d_weight(
        F,
        grad,
        weight_shape,
        indices,
        sample_weights,
        bag_of,
        sizes,
        rows,
        mode,
        scale_grad_by_freq,
        padding_idx,
        entries,
        sparse,
    ):
        g = grad[0]
        if mode == MAX:
            return F.scatter_add(F.blank(g, weight_shape), rows, g * (column(F, sizes) > 0), 0)
        if mode == MEAN:
            g = g / F.cast(column(F, F.maximum(sizes, F.ones_like(sizes))), dtype_of(g))
        lines = F.index_select(g, bag_of, 0)
        if sample_weights is not None:
            lines = lines * column(F, sample_weights)
        if sparse and F.recorded:
            refuse_scaled(scale_grad_by_freq)
            return sparse_rows(lines, indices, weight_shape, padding_idx)
        if scale_grad_by_freq:
            rows = weight_shape[0] // entries
            each = F.reshape(indices % rows, (entries, indices.shape[0] // entries))
            named = F.reshape(F.embedding_bag_counts(each, rows), (*indices.shape, 1))
            lines = lines / F.cast(named, dtype_of(g))
        return F.embedding_dense_backward(
            lines, indices, weight_shape[0], padding_idx, False, entries
        )

    def d_sample_weights(F, grad, weight, indices, bag_of, padding_idx, entries):
        lines = F.embedding(weight, indices, None, False, entries, False)
        own, into = dtype_of(lines), F.index_select(grad[0], bag_of, 0)
        if own.itemsize == 2:  # products of halves are not rounded before they are summed
            lines, into = F.cast(lines, np.dtype(np.float32)), F.cast(into, np.dtype(np.float32))
        found = F.cast(F.sum(into * lines, (1,), False, None), own)
        kept = counting(indices, padding_idx, weight.shape[0] // entries)
        return found if kept is None else found * kept

    def jvp(
        F,
        weight,
        t_weight,
        indices,
        offsets,
        sample_weights,
        t_sample_weights,
        sizes,
        rows,
        mode,
        scale_grad_by_freq,
        padding_idx,
        entries,
        sparse,
    ):
        attrs = (mode, scale_grad_by_freq, padding_idx, entries, sparse)
        total = None
        if t_weight is not None and mode == MAX:
            total = F.gather(t_weight, rows, 0) * (column(F, sizes) > 0)
        elif t_weight is not None:
            total = F.embedding_bag(t_weight, indices, offsets, sample_weights, *attrs)[0]
        if t_sample_weights is not None:
            moved = F.embedding_bag(weight, indices, offsets, t_sample_weights, *attrs)[0]
            total = moved if total is None else total + moved
        return total, None, None, None

    def batch(
        F,
        size,
        batched,
        weight,
        indices,
        offsets,
        sample_weights,
        mode,
        scale_grad_by_freq,
        padding_idx,
        entries,
        sparse,
    ):
        table = join(F, lift(F, weight, size, batched[0]))
        height = table.shape[0] // size
        places = join(F, stacked(F, size, indices, batched[1], height))
        starts = join(F, stacked(F, size, offsets, batched[2], places.shape[0] // size))
        by = sample_weights
        by = by if by is None else join(F, lift(F, by, size, batched[3]))
        out, bag_of, sizes, rows = F.embedding_bag(
            table, places, starts, by, mode, scale_grad_by_freq, padding_idx, entries * size, False
        )
        bags = starts.shape[0] // size
        bag_of = part(F, size, bag_of) - numbers(F, size, bags, 2, bag_of)
        rows = part(F, size, rows) if mode == MAX else F.reshape(rows, (size, 0))
        sizes = part(F, size, sizes)
        if mode == MAX:
            # Empty bags name row 0 of every table.
            filled = F.reshape(sizes > 0, (size, bags, 1))
            rows = rows - numbers(F, size, height, 3, rows) * filled
        return part(F, size, out), bag_of, sizes, rows


def bags_on_device(
    xp: Any,
    weight: Any,
    indices: Any,
    offsets: Any,
    sample_weights: Any,
    mode: int,
    padding_idx: int | None,
    entries: int,
) -> tuple[Any, ...]:
    """The forward where every line is added to its bag, without asking how long the bags are."""
    bags, width = offsets.shape[0], weight.shape[1]
    count = indices.shape[0]
    bag_of = xp.searchsorted(offsets, xp.arange(count), side="right") - 1
    kept = counting(indices, padding_idx, weight.shape[0] // entries)
    sizes = xp.zeros(bags, np.int64)
    xp.add.at(sizes, bag_of, xp.ones(count, np.int64) if kept is None else kept.astype(np.int64))
    lines = half_as_single(weight.take(indices, 0))
    if sample_weights is not None:
        lines = lines * half_as_single(sample_weights)[:, None]
    rows = xp.zeros((bags, width) if mode == MAX else (0,), np.int64)
    if mode == MAX:
        if kept is not None:
            lines = xp.where(kept[:, None], lines, -xp.inf)
        best = xp.full((bags, width), -xp.inf, lines.dtype)
        xp.maximum.at(best, bag_of, lines)
        # The first line that has the maximum.
        at = xp.where(lines == best[bag_of], xp.arange(count)[:, None], count)
        first = xp.full((bags, width), count, np.int64)
        xp.minimum.at(first, bag_of, at)
        filled = sizes[:, None] > 0
        out = xp.where(filled, best, 0)
        if count:
            rows = xp.where(filled, indices.take(xp.minimum(first, count - 1)), 0)
    else:
        if kept is not None:
            lines = xp.where(kept[:, None], lines, 0)
        out = xp.zeros((bags, width), lines.dtype)
        xp.add.at(out, bag_of, lines)
    if mode == MEAN:
        out /= xp.maximum(sizes, 1)[:, None].astype(out.dtype)
    return cast_value(out, weight.dtype), bag_of, sizes, rows


def column(F: Any, x: Any) -> Any:
    return F.reshape(x, (*x.shape, 1))


def dtype_of(x: Any) -> Any:
    """The NumPy dtype of an array or a tensor."""
    return x._array.dtype if isinstance(x, TensorBase) else x.dtype


def counting(indices: Any, padding_idx: int | None, rows: int) -> Any:
    """Which indices are not the padding; None if all count."""
    return None if padding_idx is None else indices % rows != padding_idx


@op
class EmbeddingBagCounts(Block):
    """embedding_bag_counts(indices, rows) -> Tensor: what PyTorch divides bag gradients by.

    For the k-th distinct row number, in order, it is how often the k-th of all sorted row numbers
    is there: PyTorch's kernel looks up one by the place of the other.
    """

    aten = None
    tensors = ("indices",)
    leading = (1,)
    public = False
    undifferentiable = "the results are counts"

    def fwd(xp, indices, rows):
        each = indices.reshape(-1, indices.shape[-1])
        at = xp.arange(each.shape[0])[:, None]
        counts = times_named(xp, (each + at * rows).reshape(-1), each.shape[0] * rows)
        counts = counts.reshape(-1, rows)
        rank = xp.cumsum(counts > 0, 1) - 1
        return counts[at, xp.sort(each, 1)[at, rank[at, each]]].reshape(indices.shape)


def is_by_row(weight: Any, mode: int, padding_idx: int | None) -> bool:
    """Whether PyTorch looks up one row after the other, and not many by one call."""
    return mode == MAX or padding_idx is not None or weight.dtype is public.float64


@looks_at_values
def check_bags(offsets: Any, indices: Any, rows: int, by_row: bool) -> None:
    """Raise for bags that begin nowhere, and for indices without a row."""
    at, length = known_values(offsets), indices.numel()
    if at.size and (at[..., 0] != 0).any():
        raise RuntimeError(
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from "
            f"position 0. However, got {at[..., 0].flat[0]}"
        )
    if at.size and (at[..., -1] > length).any():
        raise RuntimeError(
            f"offsets[-1] can not be greater than input's length {length} but got offsets[-1] of "
            f"{at[..., -1].max()}"
        )
    if (at[..., 1:] < at[..., :-1]).any():
        raise RuntimeError("embedding_bag: offsets must not decrease")
    place = first_outside(indices, rows)
    if place is not None:
        value = known_values(indices).flat[place]
        if by_row:
            raise RuntimeError(
                "embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be "
                f"{value}"
            )
        raise RuntimeError(
            f"Index {place} of input takes value {value} which is not in the valid range "
            f"[0, {rows})"
        )


def checked_bags(
    weight: Any,
    indices: Any,
    offsets: Any,
    mode: int,
    sample_weights: Any,
    include_last_offset: bool,
    padding_idx: int | None,
) -> tuple[Any, ...]:
    """The arguments of the op, after PyTorch's refusals."""
    for name, t in (("weight", weight), ("indices", indices), ("offsets", offsets)):
        if not isinstance(t, TensorBase):
            raise must_be_tensor("embedding_bag", name, 1, t)
    if not is_index(mode):
        kind = type(mode).__name__
        raise TypeError(f"embedding_bag(): argument 'mode' (position 5) must be int, not {kind}")
    if weight.dim() != 2:
        raise RuntimeError(
            f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.dim()}"
        )
    if not indices.dim():
        raise RuntimeError("input has to be a 1D or 2D Tensor, but got Tensor of dimension 0")
    common = public.promote_types(indices.dtype, offsets.dtype)
    indices, offsets = indices.to(common), offsets.to(common)
    check_indices("embedding_bag", indices)
    if mode not in (SUM, MEAN, MAX):
        raise RuntimeError("`mode` must be sum, mean, or max.")
    if sample_weights is not None and mode != SUM:
        raise RuntimeError("embedding_bag: per_sample_weights only supported with mode='sum'")
    kind = "torch.{}Tensor"
    if not weight.dtype.is_floating_point:
        raise RuntimeError(
            "Expected tensor for argument #1 'weight' to have one of the following scalar types: "
            f"Half, BFloat16, Float, Double; but got {kind.format(weight.dtype.scalar_type)} "
            "instead (while checking arguments for embedding_bag)"
        )
    if sample_weights is not None and sample_weights.dtype is not weight.dtype:
        raise RuntimeError(
            "Expected tensor for argument #1 'weight' to have the same type as tensor for argument "
            f"#1 'per_sample_weights'; but type {kind.format(weight.dtype.scalar_type)} does not "
            f"equal {kind.format(sample_weights.dtype.scalar_type)} (while checking arguments for "
            "embedding_bag)"
        )
    rows = weight.size(0)
    if padding_idx is not None:
        if not -rows <= padding_idx < rows:
            raise RuntimeError(
                f"padding_idx must be within the number of embeddings, {-rows} through {rows - 1}, "
                f"but got {padding_idx}"
            )
        padding_idx = padding_idx + rows if padding_idx < 0 else padding_idx
    length = indices.numel()
    if include_last_offset and not offsets.numel():
        raise RuntimeError("include_last_offset: number of offset should be at least 1")
    by_row = is_by_row(weight, mode, padding_idx)
    check_bags(offsets, indices, rows, by_row)
    # What follows the last bag, or stands in none, is not looked at.
    end = length if offsets.numel() else 0
    if include_last_offset and offsets.numel() and not offsets.is_meta:
        cannot_be_repeated("a shape depends on offsets")
        at = to_host(physical_array(offsets))
        if by_row:
            at = np.where(True, length, at)  # what the last offset says is not looked at
        end = int(at[..., -1].flat[0])
        if (at[..., -1] != end).any():
            raise refusal(UNEVEN_BAGS)
    if end < length:
        indices = indices[:end]
        sample_weights = None if sample_weights is None else sample_weights[:end]
    if include_last_offset:
        offsets = offsets[:-1]
    return weight, indices, offsets, sample_weights, padding_idx


@api(
    name="embedding_bag",
    method=False,
    samples=[
        Case(Draw(4, 3), Index([1, 3, 1, 0]), Index([0, 1])),
        Case(Draw(4, 3), Index([1, 3, 1, 0]), Index([0, 1]), False, 1),
        Case(Draw(4, 3), Index([1, 3, 1, 0]), Index([0, 1]), mode=2),
    ],
)
def embedding_bag_parts(
    weight: Any,
    indices: Any,
    offsets: Any,
    scale_grad_by_freq: bool = False,
    mode: int = SUM,
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Any, Any, Any, Any]:
    """embedding_bag(weight, indices, offsets, …, mode=0, …) -> four Tensors: sums, means or maxima
    of rows of a table.

    The bags, and what PyTorch keeps for their gradient. `nn.functional.embedding_bag` gives the
    bags alone.

    >>> embedding_bag(tensor([[1.0], [2.0]]), tensor([0, 1, 1]), tensor([0, 2]))[0]
    tensor([[3.],
            [2.]])
    """
    for position, flag, given in (
        (4, "scale_grad_by_freq", scale_grad_by_freq),
        (6, "sparse", sparse),
        (8, "include_last_offset", include_last_offset),
    ):
        only_bool("embedding_bag", flag, position, given)
    count = offsets.numel() if isinstance(offsets, TensorBase) else 0
    *tensors, padding = checked_bags(
        weight, indices, offsets, mode, per_sample_weights, include_last_offset, padding_idx
    )
    attrs = (mode, bool(scale_grad_by_freq), padding, 1, bool(sparse))
    out, bag_of, sizes, rows = apply(EmbeddingBag, tuple(tensors), attrs)
    noted_sparse(out, sparse)
    dtype = tensors[1].dtype
    if mode == SUM:
        sizes = public.zeros(count, dtype=dtype, device=weight.device)
        if weight.dtype is not public.float64 and padding is None:
            bag_of = public.zeros(0, dtype=dtype)
    shown = [t.to(dtype) for t in (bag_of, sizes, rows)]
    if mode != MAX:
        shown[2] = shown[1].clone()
    return (out, *shown)


@api(
    name="nn.functional.embedding_bag",
    method=False,
    samples=[
        Case(Index([1, 3, 1, 0]), Draw(4, 3), Index([0, 1])),
        Case(Index([1, 3, 1, 0]), Draw(4, 3), Index([0, 0, 3]), mode="sum", padding_idx=3),
        Case(Index([[1, 3], [2, 0]]), Draw(4, 3), mode="max"),
        Case(
            Index([1, 3, 1, 0]),
            Draw(4, 3),
            Index([0, 2, 4]),
            mode="sum",
            per_sample_weights=Draw(4),
            include_last_offset=True,
        ),
        Case(Index([1, 3, 1, 0]), Draw(4, 3), Index([0, 2]), padding_idx=1),
    ],
)
def embedding_bag(
    input: Any,
    weight: Any,
    offsets: Any = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """embedding_bag(input, weight, offsets=None, …, mode="mean", …) -> Tensor: the sum, mean or
    maximum of rows of `weight`, for each bag of indices.

    Sums, means or maxima of the rows that each bag names: a row of a matrix `input`, or what
    stands between two `offsets` of a vector.

    >>> nn.functional.embedding_bag(tensor([[0, 1], [1, 1]]), tensor([[1.0], [2.0]]))
    tensor([[1.5000],
            [2.0000]])
    """
    if weight.dtype is public.int64 and input.is_floating_point():
        warn(
            "Argument order of nn.functional.embedding_bag was changed. Usage "
            "`embedding_bag(weight, input, ...)` is deprecated, and should now be "
            "`embedding_bag(input, weight, ...)`.",
        )
        input, weight = weight, input
    if per_sample_weights is not None and input.size() != per_sample_weights.size():
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({per_sample_weights.shape}) is not None, then "
            f"it must have the same shape as the input ({input.shape})"
        )
    if weight.dim() != 2:
        raise ValueError(
            f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.dim()}"
        )
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch "
                "of fixed length sequences. However, found offsets of type <class 'torch.Tensor'>"
            )
        offsets = public.arange(
            0, input.numel(), input.size(1), dtype=input.dtype, device=input.device
        )
        include_last_offset = False
        input = input.reshape(-1)
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape(-1)
    elif input.dim() != 1:
        raise ValueError(
            f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}"
        )
    elif offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    elif offsets.dim() != 1:
        raise ValueError("offsets has to be a 1D Tensor")
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if max_norm is not None:
        with public.no_grad():
            embedding_renorm_(weight, input, max_norm, norm_type)
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported "
            f"for mode='sum' (got mode='{mode}'). Please open a feature request on GitHub."
        )
    number = ("sum", "mean", "max").index(mode)
    *tensors, padding = checked_bags(
        weight, input, offsets, number, per_sample_weights, include_last_offset, padding_idx
    )
    attrs = (number, bool(scale_grad_by_freq), padding, 1, bool(sparse))
    return noted_sparse(apply(EmbeddingBag, tuple(tensors), attrs)[0], sparse)
