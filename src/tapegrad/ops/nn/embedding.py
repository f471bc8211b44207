"""Rows of a table by their numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd.dispatched import noted_sparse
from ...autograd.inplace import bump, refuse, write
from ...core.arguments import cast_value
from ...core.base import TensorBase, wrap
from ...core.devices import where_is, xp_of
from ...core.host_arrays import host
from ...core.late_bound import ON_DEMAND
from ...core.modes import MODES
from ...core.python_dispatch import same_always
from ...core.rounding import half_as_single
from ...core.transforms.batched import known_values, left_to_device, physical_array
from ...errors import must_be_tensor
from ..block import Block, Case, api, apply, noted, op
from ..block.batching import join, lift, part
from ..block.checks import is_number, only_tensors
from ..block.public import public
from ..block.samples import Draw, Index
from ..index.advanced import sum_rows

# Kernels get row numbers that are in range: `call` looked.
# ruff: noqa: N805

# ---------------------------------------------------------------------- embedding
# `entries` tables may stand on top of each other, as a batch puts them: each has a padding row.


@op
class Embedding(Block):
    """embedding(weight, indices, padding_idx, scale_grad_by_freq, entries, sparse) -> Tensor."""

    aten = "embedding"
    tensors = ("weight", "indices")
    plain_tensors = ("indices",)
    linear = True
    public = False
    gradient_text = {"weight": "zeros(weight.shape) with grad added at [index]"}

    def fwd(xp, weight, indices, padding_idx, scale_grad_by_freq, entries, sparse):
        return weight.take(indices, 0)

    def d_weight(F, grad, weight_shape, indices, padding_idx, scale_grad_by_freq, entries, sparse):
        if sparse and F.recorded:
            refuse_scaled(scale_grad_by_freq)
            return sparse_rows(grad, indices, weight_shape, padding_idx)
        return F.embedding_dense_backward(
            grad, indices, weight_shape[0], padding_idx, scale_grad_by_freq, entries
        )

    def batch(F, size, batched, weight, indices, padding_idx, scale_grad_by_freq, entries, sparse):
        attrs = padding_idx, scale_grad_by_freq
        if not batched[0]:
            return F.embedding(weight, indices, *attrs, entries, sparse)
        places = stacked(F, size, indices, batched[1], weight.shape[1])
        return F.embedding(join(F, weight), places, *attrs, entries * size, False)


@op
class EmbeddingDenseBackward(Block):
    """embedding_dense_backward(grad_output, indices, rows, …) -> Tensor: embedding's gradient."""

    tensors = ("grad_output", "indices")
    plain_tensors = ("indices",)
    node = "EmbeddingDenseBackwardBackward0"
    aten = "embedding_dense_backward"
    linear = True
    public = False

    def fwd(xp, grad_output, indices, rows, padding_idx, scale_grad_by_freq, entries):
        where = indices.reshape(-1)
        width = grad_output.shape[-1]
        lines = grad_output.reshape(where.size, width)
        if padding_idx is not None:
            kept = where % (rows // entries) != padding_idx if where.size else where != 0
            if xp is host:
                where, lines = where[kept], lines[kept]
            else:
                lines = xp.where(kept[:, None], lines, 0)  # how many are kept, the GPU alone knows
        if not where.size:
            return xp.zeros((rows, width), grad_output.dtype)
        if scale_grad_by_freq:
            lines = cast_value(lines / times_named(xp, where, rows)[where][:, None], lines.dtype)
        return cast_value(sum_rows(xp, half_as_single(lines), where, rows), lines.dtype)

    def d_grad_output(F, grad, indices, rows, padding_idx, scale_grad_by_freq, entries):
        found = F.embedding(grad, indices, None, False, entries, False)
        if padding_idx is not None:
            other = indices % (rows // entries) != padding_idx
            found = found * F.reshape(other, (*indices.shape, 1))
        if scale_grad_by_freq:
            found = found / F.reshape(F.embedding_counts(indices, rows), (*indices.shape, 1))
        return found

    def batch(
        F, size, batched, grad_output, indices, rows, padding_idx, scale_grad_by_freq, entries
    ):
        places = stacked(F, size, indices, batched[1], rows)
        out = F.embedding_dense_backward(
            lift(F, grad_output, size, batched[0]),
            places,
            rows * size,
            padding_idx,
            scale_grad_by_freq,
            entries * size,
        )
        return part(F, size, out)


@op
class EmbeddingCounts(Block):
    """embedding_counts(indices, rows) -> Tensor: for each index, how often it is there."""

    aten = None
    tensors = ("indices",)
    public = False
    undifferentiable = "the results are counts"

    def fwd(xp, indices, rows):
        where = indices.reshape(-1)
        return times_named(xp, where, rows)[where].reshape(indices.shape)

    def batch(F, size, batched, indices, rows):
        return F.embedding_counts(stacked(F, size, indices, batched[0], rows), rows * size)


def times_named(xp: Any, where: Any, rows: int) -> Any:
    if xp is host:
        return xp.bincount(where, minlength=rows)
    counts = xp.zeros(rows, np.int64)
    xp.add.at(counts, where, 1)  # without asking how large the largest is
    return counts


def stacked(F: Any, size: int, indices: Any, batched: bool, rows: int) -> Any:
    """Row numbers of each entry of a batch, in tables of `rows` on top of each other."""
    whole = lift(F, indices, size, batched)
    return whole + numbers(F, size, rows, len(whole.shape), indices)


def numbers(F: Any, size: int, step: int, ndim: int, like: Any) -> Any:
    """0, `step`, 2 `step` … for the entries of a batch, where `like` is."""
    made = where_is(like, (np.arange(size) * step).reshape(size, *(1,) * (ndim - 1)))
    return same_always(wrap(made)) if F.recorded else made


def check_indices(function: str, indices: Any, position: int = 1) -> None:
    if indices.dtype not in (public.int64, public.int32):
        name = indices.dtype.scalar_type
        # The older dtypes have the older names.
        old = name in ("Byte", "Char", "Short", "Half", "Float", "Double")
        found = f"torch.{name}Tensor" if old else f"CPU{name}Type"
        raise RuntimeError(
            f"Expected tensor for argument #{position} 'indices' to have one of the following "
            f"scalar types: Long, Int; but got {found} instead "
            f"(while checking arguments for {function})"
        )


@noted
def first_outside(indices: Any, rows: int) -> int | None:
    """The place of the first row number that is none."""
    if left_to_device(indices, 0, rows):
        return None
    x = physical_array(indices)
    # Negative numbers are large ones when read as unsigned: one look finds both.
    if not x.size or np.maximum.reduce(x.view(f"u{x.itemsize}"), None) < rows:
        return None
    return int(np.flatnonzero((x < 0) | (x >= rows))[0])


def refuse_scaled(scale_grad_by_freq: bool) -> None:
    if scale_grad_by_freq:
        raise RuntimeError(
            "embedding_backward: scale_grad_by_freq not supported with sparse gradients"
        )


def sparse_rows(lines: Any, indices: Any, shape: Any, padding_idx: int | None) -> Any:
    """The gradient of a table as a sparse tensor that has one entry for every index."""
    if padding_idx is not None:
        kept = indices != padding_idx
        indices, lines = indices[kept], lines[kept]
    values = lines.reshape(indices.numel(), shape[1])
    return ON_DEMAND.sparse_gradient(indices.reshape(1, -1), values, tuple(shape))


@api(
    name="embedding",
    method=False,
    samples=[
        Case(Draw(4, 3), Index([[1, 3], [1, 0]])),
        Case(Draw(4, 3, layout="T"), Index(2)),
        Case(Draw(4, 3), Index([1, 3, 1]), 2),
    ],
)
def embedding_rows(
    weight: Any,
    indices: Any,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """embedding(weight, indices, padding_idx=-1, scale_grad_by_freq=False) -> Tensor: the rows of a
    table that `indices` numbers.

    `nn.functional.embedding` takes the indices first.

    >>> embedding(tensor([[1.0, 2.0], [3.0, 4.0]]), tensor([1, 0, 1]))
    tensor([[3., 4.],
            [1., 2.],
            [3., 4.]])
    """
    for position, (name, value) in enumerate((("weight", weight), ("indices", indices)), 1):
        if not isinstance(value, TensorBase):
            raise must_be_tensor("embedding", name, position, value)
    if weight._array.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    check_indices("embedding", indices)
    rows, width = weight._array.shape
    wrong = first_outside(indices, rows)
    if wrong is not None:
        if not rows:
            raise RuntimeError("index_select(): self indexing axis dim should be positive")
        if not width:
            found = physical_array(indices).reshape(-1)[wrong]
            raise RuntimeError(f"INDICES element is out of DATA bounds, id={found} axis_dim={rows}")
        raise IndexError("index out of range in self")
    padding = None if padding_idx < 0 else padding_idx
    attrs = (padding, bool(scale_grad_by_freq), 1, bool(sparse))
    return noted_sparse(apply(Embedding, (weight, indices), attrs), sparse)


@api(
    name="nn.functional.embedding",
    method=False,
    samples=[
        Case(Index([[1, 3], [1, 0]]), Draw(4, 3)),
        Case(Index([1, 2, 1]), Draw(4, 3), -1),
    ],
)
def embedding(
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """embedding(input, weight, padding_idx=None, max_norm=None, …) -> Tensor: the row of `weight`
    for each index in `input`.

    The row `padding_idx` gets no gradient; rows longer than `max_norm` are first shortened, in
    place.

    >>> nn.functional.embedding(tensor([1, 0, 1]), tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[3., 4.],
            [1., 2.],
            [3., 4.]])
    """
    only_tensors("embedding", weight=weight)
    if padding_idx is None:
        padding_idx = -1
    else:
        rows = weight.size(0) if weight.dim() else 0
        if isinstance(padding_idx, TensorBase):
            padding_idx = padding_idx.item()  # type: ignore[attr-defined]
        if not -rows <= padding_idx < max(rows, 1):
            raise AssertionError("Padding_idx must be within num_embeddings")
        if padding_idx < 0:
            padding_idx += rows
    if max_norm is not None:
        with public.no_grad():
            embedding_renorm_(weight, input.contiguous(), max_norm, norm_type)
    return embedding_rows(weight, input, padding_idx, scale_grad_by_freq, sparse)


# ---------------------------------------------------------------------- shortening rows


def shortened(xp: Any, weight: Any, indices: Any, max_norm: float, norm_type: float) -> Any:
    """The named rows that are too long, and what they become."""
    rows = xp.unique(indices)
    lines = half_as_single(weight[rows])
    lengths = xp.linalg.norm(lines, norm_type, axis=1)
    long = lengths > max_norm
    scale = max_norm / (lengths[long] + lengths.dtype.type(1e-7))
    return rows[long], cast_value(lines[long] * scale[:, None], weight.dtype)


@op
class EmbeddingRenorm(Block):
    """embedding_renorm(weight, indices, max_norm, norm_type) -> Tensor: rows shortened."""

    aten = "embedding_renorm"
    tensors = ("weight", "indices")
    plain_tensors = ("indices",)
    public = False
    nearest = "norm the weight yourself, under torch.no_grad()"

    def fwd(xp, weight, indices, max_norm, norm_type):
        out = weight.copy()
        rows, lines = shortened(xp, weight, indices, max_norm, norm_type)
        out[rows] = lines
        return out

    def batch(F, size, batched, weight, indices, max_norm, norm_type):
        # One tall table, in which every entry names rows of its own.
        table = lift(F, weight, size, batched[0])
        places = stacked(F, size, indices, batched[1], table.shape[1])
        return part(F, size, F.embedding_renorm(join(F, table), places, max_norm, norm_type))

    def d_weight(F, grad):
        raise NotImplementedError("the derivative for 'embedding_renorm' is not implemented.")

    def jvp(F, weight):
        raise NotImplementedError(
            "Trying to use forward AD with embedding_renorm_ that does not support it because it "
            "has not been implemented yet."
        )


@api(
    name="embedding_renorm_",
    method=False,
    samples=[Case(Draw(4, 3), Index([1, 3, 1]), 0.5, 2.0), Case(Draw(4, 3), Index(2), 0.5, 1.0)],
)
def embedding_renorm_(weight: Any, indices: Any, max_norm: float, norm_type: float) -> Any:
    """embedding_renorm_(weight, indices, max_norm, norm_type) -> Tensor: rows shortened in place.

    >>> embedding_renorm_(tensor([[3.0, 4.0], [6.0, 8.0]]), tensor([0]), 1.0, 2.0)
    tensor([[0.6000, 0.8000],
            [6.0000, 8.0000]])
    """
    for place, (name, value) in enumerate((("max_norm", max_norm), ("norm_type", norm_type)), 3):
        if isinstance(value, complex) or not (is_number(value) or isinstance(value, TensorBase)):
            raise TypeError(
                f"embedding_renorm_(): argument '{name}' (position {place}) must be float, "
                f"not {type(value).__name__}"
            )
    max_norm, norm_type = float(max_norm), float(norm_type)
    x = weight._array
    if x.ndim != 2:
        raise RuntimeError(
            f"Expected 2-dimensional tensor, but got {x.ndim}-dimensional tensor for argument #1 "
            "'self' (while checking arguments for embedding_renorm_)"
        )
    check_indices("embedding_renorm_", indices, 2)
    if x.dtype.kind not in "fVc":
        raise RuntimeError(
            "norm(): input dtype should be either floating point or complex. Got "
            f"{weight.dtype.scalar_type} instead."
        )
    place = first_outside(indices, x.shape[0])
    if place is not None:
        raise IndexError(
            f"select(): index {known_values(indices).flat[place]} out of range for tensor of size "
            f"{list(x.shape)} at dimension 0"
        )
    if MODES.records and weight.requires_grad or weight._special or indices._special:
        return write(EmbeddingRenorm, (weight, indices), (max_norm, norm_type))
    # Without a history to keep only the rows have to be touched.
    refuse(weight, False)
    rows, lines = shortened(xp_of(x), x, indices._array, max_norm, norm_type)
    x[rows] = lines
    bump(weight, "embedding_renorm_")
    return weight
