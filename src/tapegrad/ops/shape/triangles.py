"""Triangles of matrices, and grids of points."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import dtypes
from ...autograd.inplace import ONLY_ZEROS
from ...core.base import wrap
from ...core.warned import warn
from ..block import Case, api, apply, op
from ..block.checks import OUT_EXACT, as_int, check_room, not_implemented
from ..block.samples import Draw
from ..index.advanced import LinearMove

# ruff: noqa: N805


def check_matrix(function: str, input: Any) -> None:
    if input._array.ndim < 2:
        raise RuntimeError(f"{function}: input tensor must have at least 2 dimensions")


class Triangle(LinearMove):
    """A part of every matrix; the rest becomes zero."""

    inplace = True
    out_dtype = OUT_EXACT
    samples = [Case(Draw(3, 3)), Case(Draw(2, 2, 3), 1), Case(Draw(3, 2, layout="T"), diagonal=-1)]
    leading = (2,)


def part_kept(xp: Any, input: Any, kept: Any) -> Any:
    """One triangle of every matrix, zeros elsewhere, in new memory."""
    out = xp.zeros(input.shape, input.dtype)
    xp.copyto(out, input, where=kept)
    return out


@op
class Tril(Triangle):
    """tril(input, diagonal=0) -> Tensor: the lower triangle, zeros above it.

    >>> tril(ones(2, 2))
    tensor([[1., 0.],
            [1., 1.]])
    """

    def fwd(xp, input, diagonal):
        return part_kept(xp, input, xp.tri(*input.shape[-2:], diagonal, dtype=bool))

    def d_input(F, grad, diagonal):
        return F.tril(grad, diagonal)

    def call(input, diagonal=0, run=apply):
        check_matrix("tril", input)
        return run(Tril, (input,), (near_diagonal(diagonal),))


@op
class Triu(Triangle):
    """triu(input, diagonal=0) -> Tensor: the upper triangle, zeros below it.

    >>> triu(ones(2, 2))
    tensor([[1., 1.],
            [0., 1.]])
    """

    def fwd(xp, input, diagonal):
        return part_kept(xp, input, ~xp.tri(*input.shape[-2:], diagonal - 1, dtype=bool))

    def d_input(F, grad, diagonal):
        return F.triu(grad, diagonal)

    def call(input, diagonal=0, run=apply):
        check_matrix("triu", input)
        return run(Triu, (input,), (near_diagonal(diagonal),))


ONLY_ZEROS.update((Tril.name, Triu.name))


def near_diagonal(diagonal: Any) -> Any:
    """Beyond the matrix all diagonals are alike, and NumPy adds to the numbers of these."""
    huge = isinstance(diagonal, int) and abs(diagonal) > 1 << 62
    return (1 << 62) * (1 if diagonal > 0 else -1) if huge else diagonal


def triangle(function: str, row: int, col: int, offset: int, dtype: Any) -> Any:
    """Rows and columns of a triangle, without a mask of the whole matrix: it may be huge."""
    for place, (name, n) in enumerate((("row", row), ("col", col)), 1):
        as_int(function, name, place, n)
        if n < 0:
            raise RuntimeError(f"{name} must be non-negative, got{n}")
    kind = np.dtype(np.int64) if dtype is None else dtypes.as_dtype(dtype).np
    if kind not in (np.int64, np.int32):
        raise not_implemented(function, dtypes.as_dtype(dtype))
    # The rows that have elements, where each of them begins and how many it has.
    if function == "tril_indices":
        first, last = max(-offset, 0), max(row, 0)
        total = corner(last - first, first + offset + 1, col)
    else:
        first, last = 0, min(row, max(col - offset, 0))
        total = corner(last, col - offset - last + 1, col)
    check_room(total * 2 * kind.itemsize)
    rows = np.arange(first, max(last, first)) if total else np.arange(0)
    if function == "tril_indices":
        begins = np.zeros_like(rows)
        counts = np.minimum(rows + (offset + 1), col)
    else:
        begins = np.maximum(rows + offset, 0)
        counts = col - begins
    starts = np.cumsum(counts) - counts
    columns = np.arange(int(total)) - np.repeat(starts - begins, counts)
    return wrap(np.stack([np.repeat(rows, counts), columns]).astype(kind))


def corner(rows: int, least: int, most: int) -> int:
    """The sum of the lengths of `rows` rows, `least`, `least` + 1 …, but at most `most` each."""
    if rows <= 0 or most <= 0:
        return 0
    short = min(max(most - least, 0), rows)
    return short * least + short * (short - 1) // 2 + (rows - short) * most


@api(method=False, samples=[Case(3, 3), Case(2, 4, 1)])
def tril_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: Any = None,
    device: Any = None,
    layout: Any = None,
) -> Any:
    """tril_indices(row, col, offset=0) -> Tensor: rows and columns of a lower triangle.

    >>> tril_indices(2, 2)
    tensor([[0, 1, 1],
            [0, 0, 1]])
    """
    return triangle("tril_indices", row, col, offset, dtype)


@api(method=False, samples=[Case(3, 3), Case(2, 4, 1)])
def triu_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: Any = None,
    device: Any = None,
    layout: Any = None,
) -> Any:
    """triu_indices(row, col, offset=0) -> Tensor: rows and columns of an upper triangle.

    >>> triu_indices(2, 2)
    tensor([[0, 0, 1],
            [0, 1, 1]])
    """
    return triangle("triu_indices", row, col, offset, dtype)


@api(
    method=False,
    samples=[Case(Draw(2), Draw(3), indexing="ij"), Case(Draw(2), Draw(), indexing="xy")],
    python=True,
)
def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Any, ...]:
    """meshgrid(*tensors, indexing="ij") -> Tensor: coordinates of every point of a grid.

    >>> meshgrid(tensor([1, 2]), tensor([3, 4]), indexing="ij")
    (tensor([[1, 1],
            [2, 2]]), tensor([[3, 4],
            [3, 4]]))
    """
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tuple(tensors[0])
    if not tensors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    if indexing is None:
        warn(
            "torch.meshgrid: in an upcoming release, it will be required to pass the indexing "
            "argument.",
            UserWarning,
        )
    elif not isinstance(indexing, str):
        raise TypeError(
            f"meshgrid(): argument 'indexing' must be str, not {type(indexing).__name__}"
        )
    elif indexing not in ("ij", "xy"):
        raise RuntimeError(
            f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}'
        )
    if any([t._array.dtype != tensors[0]._array.dtype for t in tensors]):
        raise RuntimeError("meshgrid expects all tensors to have the same dtype")
    for t in tensors:
        if t._array.ndim > 1:
            raise RuntimeError(
                f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {t}"
            )
    swap = indexing == "xy" and len(tensors) > 1
    order = (1, 0, *range(2, len(tensors))) if swap else tuple(range(len(tensors)))
    sizes = [tensors[i]._array.size for i in order]
    made = []
    for i, t in enumerate(tensors):
        flat = [1] * len(tensors)
        flat[order.index(i)] = t._array.size
        made.append(t.reshape(flat).expand(sizes))
    return tuple(made)
