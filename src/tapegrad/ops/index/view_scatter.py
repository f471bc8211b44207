"""A copy with one part replaced: the counterparts of `select`, slicing and `diagonal`."""

from __future__ import annotations

from typing import Any

from ... import errors
from ...core.arguments import bounds, wrap_dim
from ...core.base import TensorBase
from ...core.strides import empty_like
from ..block import Case, apply, op
from ..block.checks import OUT_EXACT, as_int
from ..block.samples import Draw
from ..shape.part_views import along, diagonal_view, two_dims
from .advanced import Move

# ruff: noqa: N805


def copied(xp: Any, input: Any) -> Any:
    """A copy with the memory order of `input`."""
    out = empty_like(xp, input)
    out[...] = input
    return out


def check_part(function: str, src: Any, shape: tuple[int, ...]) -> None:
    """`src` must have exactly the shape of the part that it replaces."""
    if not isinstance(src, TensorBase):
        raise errors.must_be_tensor(function, "src", 2, src)
    if src._array.shape != shape:
        raise RuntimeError(
            "expected src to have a size equal to the slice of self. src size = "
            f"{list(src._array.shape)}, slice size = {list(shape)}"
        )


class Scatter(Move):
    tensors = ("input", "src")


@op
class SelectScatter(Scatter):
    """select_scatter(input, src, dim, index) -> Tensor: `input` with `src` at one index of `dim`.

    >>> select_scatter(zeros(2, 2), ones(2), 0, 1)
    tensor([[0., 0.],
            [1., 1.]])
    """

    samples = (Case(Draw(3, 4), Draw(4), 0, 1), Case(Draw(3, 4), Draw(3), -1, -2))
    dims = ("dim",)

    def fwd(xp, input, src, dim, index):
        out = copied(xp, input)
        out[along(dim, index)] = src
        return out

    def d_input(F, grad, dim, index):
        return F.select_scatter(grad, F.zeros_like(F.select(grad, dim, index)), dim, index)

    def d_src(F, grad, dim, index):
        return F.select(grad, dim, index)

    def jvp(F, input, src, t_input, t_src, dim, index):
        a = F.zeros_like(input) if t_input is None else t_input
        return F.select_scatter(a, F.zeros_like(src) if t_src is None else t_src, dim, index)

    def call(input, src, dim, index):
        shape = input._array.shape
        d = wrap_dim(as_int("select_scatter", "dim", 3, dim), len(shape))
        i = as_int("select_scatter", "index", 4, index)
        if not shape:
            raise IndexError("select() cannot be applied to a 0-dim tensor.")
        if not -shape[d] <= i < shape[d]:
            raise IndexError(
                f"select(): index {i} out of range for tensor of size {list(shape)} at "
                f"dimension {d}"
            )
        check_part("select_scatter", src, shape[:d] + shape[d + 1 :])
        return apply(SelectScatter, (input, src), (d, i if i >= 0 else i + shape[d]))


@op
class SliceScatter(Scatter):
    """slice_scatter(input, src, dim=0, start=None, end=None, step=1) -> Tensor: a copy in which a
    slice along `dim` is `src`.

    >>> slice_scatter(zeros(4), ones(2), start=1, end=3)
    tensor([0., 1., 1., 0.])
    """

    out_dtype = OUT_EXACT
    samples = (
        Case(Draw(3, 4), Draw(1, 4), 0, 1, 2),
        Case(Draw(3, 4), Draw(3, 2), 1, 0, None, 2),
        Case(Draw(3, 4), Draw(1, 4), start=-1),
    )
    dims = ("dim",)

    def fwd(xp, input, src, dim, start, end, step):
        out = copied(xp, input)
        out[along(dim, slice(start, end, step))] = src
        return out

    def d_input(F, grad, dim, start, end, step):
        part = F.zeros_like(F.slice(grad, dim, start, end, step))
        return F.slice_scatter(grad, part, dim, start, end, step)

    def d_src(F, grad, dim, start, end, step):
        return F.slice(grad, dim, start, end, step)

    def jvp(F, input, src, t_input, t_src, dim, start, end, step):
        a = F.zeros_like(input) if t_input is None else t_input
        b = F.zeros_like(src) if t_src is None else t_src
        return F.slice_scatter(a, b, dim, start, end, step)

    def call(input, src, dim=0, start=None, end=None, step=1):
        shape = input._array.shape
        d = wrap_dim(as_int("slice_scatter", "dim", 3, dim), len(shape))
        if not shape:
            raise RuntimeError("slice() cannot be applied to a 0-dim tensor.")
        if step <= 0:
            raise RuntimeError("slice step must be positive")
        first, last, step = bounds(slice(start, end, step), shape[d])
        count = len(range(first, last, step))
        check_part("slice_scatter", src, (*shape[:d], count, *shape[d + 1 :]))
        return apply(SliceScatter, (input, src), (d, first, last, step))


@op
class DiagonalScatter(Scatter):
    """diagonal_scatter(input, src, offset=0, dim1=0, dim2=1) -> Tensor: a copy in which a diagonal
    is `src`.

    >>> diagonal_scatter(zeros(2, 2), ones(2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    samples = (Case(Draw(3, 4), Draw(3)), Case(Draw(3, 4), Draw(2), -1), Case(Draw(2, 3), Draw(2)))
    dims = ("dim1", "dim2")

    def fwd(xp, input, src, offset, dim1, dim2):
        out = copied(xp, input)
        diagonal_view(xp, out, offset, dim1, dim2)[...] = src
        return out

    def d_input(F, grad, offset, dim1, dim2):
        part = F.zeros_like(F.diagonal(grad, offset, dim1, dim2))
        return F.diagonal_scatter(grad, part, offset, dim1, dim2)

    def d_src(F, grad, offset, dim1, dim2):
        return F.diagonal(grad, offset, dim1, dim2)

    def jvp(F, input, src, t_input, t_src, offset, dim1, dim2):
        a = F.zeros_like(input) if t_input is None else t_input
        b = F.zeros_like(src) if t_src is None else t_src
        return F.diagonal_scatter(a, b, offset, dim1, dim2)

    def call(input, src, offset=0, dim1=0, dim2=1):
        shape = input._array.shape
        first, second = two_dims("diagonal_scatter", dim1, dim2, len(shape))
        k = as_int("diagonal_scatter", "offset", 3, offset)
        count = max(min(shape[first] + min(k, 0), shape[second] - max(k, 0)), 0)
        rest = [n for d, n in enumerate(shape) if d != first and d != second]
        check_part("diagonal_scatter", src, (*rest, count))
        return apply(DiagonalScatter, (input, src), (k, first, second))
