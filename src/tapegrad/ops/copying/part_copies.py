"""Parts and pieces in memory of their own; and pieces that are views without a tape.

Each checks its arguments by making the view of the detached input.
"""

from __future__ import annotations

from typing import Any

from ...core.arguments import bounds, wrap_dim
from ...core.op import REGISTRY
from ..block import Case, Linear, api, apply, op
from ..block.checks import as_int
from ..block.samples import Draw
from ..shape.part_views import chunk, narrow, part, pieces, split, split_with_sizes, unfold_windows
from .view_copies import CopyOp, looked

# ruff: noqa: N805

# ------------------------------------------------------------------ parts


@op
class SelectCopy(CopyOp):
    """select_copy(input, dim, index) -> Tensor: the part at one index; `dim` goes away.

    >>> select_copy(tensor([[1, 2], [3, 4]]), 1, 0)
    tensor([1, 3])
    """

    node = "SelectBackward0_copy"
    aten = "select_copy.int"
    samples = (Case(Draw(3, 4), 1, 2), Case(Draw(3, 4), -2, -1))
    dims = ("dim",)

    def fwd(xp, input, dim, index):
        return looked(xp, "select", input, dim, index)

    def d_input(F, grad, input_shape, dim, index):
        return F.select_backward(grad, input_shape, dim, index)

    def call(input, dim, index):
        input.detach().select(dim, index)
        shape = input._array.shape
        d = wrap_dim(dim, len(shape))
        return apply(SelectCopy, (input,), (d, index % shape[d]))


@op
class SliceCopy(CopyOp):
    """slice_copy(input, dim=0, start=None, end=None, step=1) -> Tensor: a range of one dimension.

    >>> slice_copy(arange(5), 0, 1, 4, 2)
    tensor([1, 3])
    """

    node = "SliceBackward0_copy"
    aten = "slice_copy.Tensor"
    samples = (Case(Draw(5, 2)), Case(Draw(5, 2), 0, 1, 4, 2), Case(Draw(2, 4), 1, -3))
    dims = ("dim",)

    def fwd(xp, input, dim, start, end, step):
        return part(xp, xp.asarray(input), dim, start, end, step).copy()

    def d_input(F, grad, input_shape, dim, start, end, step):
        return F.slice_backward(grad, input_shape, dim, start, end, step)

    def call(input, dim=0, start=None, end=None, step=1):
        shape = input._array.shape
        if not shape:
            raise IndexError("slice() cannot be applied to a 0-dim tensor.")
        d = wrap_dim(as_int("slice_copy", "dim", 2, dim), len(shape))
        if step <= 0:
            raise RuntimeError("slice step must be positive")
        return apply(SliceCopy, (input,), (d, *bounds(slice(start, end, step), shape[d])))


@op
class NarrowCopy(CopyOp):
    """narrow_copy(input, dim, start, length) -> Tensor: a range of one dimension.

    >>> narrow_copy(tensor([1, 2, 3, 4]), 0, 1, 2)
    tensor([2, 3])
    """

    method = True
    samples = (Case(Draw(4, 3), 0, 1, 2), Case(Draw(4, 3), -1, -2, 1))
    dims = ("dim",)

    def fwd(xp, input, dim, start, length):
        return part(xp, xp.asarray(input), dim, start, start + length, 1).copy()

    def d_input(F, grad, input_shape, dim, start, length):
        return F.slice_backward(grad, input_shape, dim, start, start + length, 1)

    def call(input, dim, start, length):
        shape = input._array.shape
        if shape and hasattr(dim, "__index__") and dim >= len(shape):
            raise RuntimeError(
                "Expected dim < static_cast<int64_t>(self_sizes.size()) to be true, but got "
                "false.  (Could this error message be improved?  If so, please report an "
                "enhancement request to PyTorch.)"
            )
        if shape and hasattr(length, "__index__") and length < 0:
            raise RuntimeError(
                f"start ({start}) + length ({length}) exceeds dimension size ({shape[dim]})."
            )
        narrow(input.detach(), dim, start, length)
        d = wrap_dim(dim, len(shape))
        first = as_int("narrow_copy", "start", 2, start)
        return apply(NarrowCopy, (input,), (d, first % max(shape[d], 1), int(length)))


@api(method=False, samples=[Case(Draw(3, 4)), Case(Draw(3, 4), -2), Case(Draw(2, 3, 3), 0, 1, 2)])
def diagonal_copy(input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """diagonal_copy(input, offset=0, dim1=0, dim2=1) -> Tensor: a diagonal.

    >>> diagonal_copy(tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    """
    input.detach().diagonal(offset, dim1, dim2)
    ndim = input._array.ndim
    return apply(REGISTRY["diagonal_copy"], (input,), (offset, dim1 % ndim, dim2 % ndim))


@op
class UnfoldCopy(CopyOp):
    """unfold_copy(input, dimension, size, step) -> Tensor: all windows of `size`.

    >>> unfold_copy(arange(4), 0, 2, 1)
    tensor([[0, 1],
            [1, 2],
            [2, 3]])
    """

    node = "UnfoldBackward0_copy"
    samples = (Case(Draw(7), 0, 3, 2), Case(Draw(2, 4), 1, 2, 1))
    dims = ("dim",)

    def fwd(xp, input, dim, size, step):
        return looked(xp, "unfold", input, dim, size, step)

    def d_input(F, grad, input_shape, dim, size, step):
        return F.unfold_backward(grad, input_shape, dim, size, step)

    def call(input, dimension, size, step):
        unfold_windows(input.detach(), dimension, size, step)
        d = wrap_dim(dimension, input._array.ndim)
        return apply(UnfoldCopy, (input,), (d, size, step))


# ------------------------------------------------------------------ pieces


class PiecesOp(Linear):
    several = True
    public = False
    dims = ("dim",)


class CopiedPieces(PiecesOp):
    def fwd(xp, input, sizes, dim):
        return tuple([piece.copy() for piece in pieces(xp, xp.asarray(input), sizes, dim)])

    def d_input(F, grad, dim):
        return F.cat(grad, dim)


@op
class SplitCopy(CopiedPieces):
    """split_copy(input, sizes, dim) -> tuple of Tensors: pieces of one size."""

    node = "SplitBackward0_copy"
    aten = "split_copy.Tensor"


@op
class SplitWithSizesCopy(CopiedPieces):
    """split_with_sizes_copy(input, sizes, dim) -> tuple of Tensors: pieces of the given sizes."""

    node = "SplitWithSizesBackward0_copy"
    aten = "split_with_sizes_copy"


@op
class UnbindCopy(PiecesOp):
    """unbind_copy(input, dim=0) -> tuple of Tensors: a copy for each index of one dimension.

    >>> unbind_copy(tensor([[1, 2], [3, 4]]))
    (tensor([1, 2]), tensor([3, 4]))
    """

    node = "UnbindBackward0_copy"
    aten = "unbind_copy.int"
    public = True
    method = False
    samples = (Case(Draw(2, 3)), Case(Draw(2, 3), -1))

    def fwd(xp, input, dim):
        views = REGISTRY["unbind"].forward(xp, xp.asarray(input), dim)
        return tuple([x.copy() for x in views])

    def d_input(F, grad, dim):
        return F.stack(grad, dim)

    def call(input, dim=0):
        input.detach().unbind(dim)
        return apply(UnbindCopy, (input,), (wrap_dim(dim, input._array.ndim),))


class SharedPieces(PiecesOp):
    """Parts of a tensor that share its memory without being views to autograd: nothing notices
    writes into them.
    """

    def fwd(xp, input, sizes, dim):
        return pieces(xp, xp.asarray(input), sizes, dim)

    def d_input(F, grad, dim):
        return F.cat(grad, dim)


@op
class UnsafeSplit(SharedPieces):
    """unsafe_split(input, sizes, dim) -> tuple of Tensors: copies of pieces of one size."""

    aten = "unsafe_split.Tensor"


@op
class UnsafeSplitWithSizes(SharedPieces):
    """unsafe_split_with_sizes(input, sizes, dim) -> tuple of Tensors: pieces of given sizes."""

    aten = "unsafe_split_with_sizes"


def sizes_along(found: tuple[Any, ...], d: int) -> tuple[int, ...]:
    return tuple([piece._array.shape[d] for piece in found])


SPLIT_CASES = [Case(Draw(5, 2), 2), Case(Draw(2, 4), 3, -1)]
SIZES_CASES = [Case(Draw(5, 2), [1, 4]), Case(Draw(2, 4), [0, 4], 1)]


def cut(record: Any, view: Any, input: Any, how: Any, dim: Any) -> Any:
    """Apply `record` with the sizes and the dimension that the function `view` cuts with."""
    found = view(input.detach(), how, dim)
    d = wrap_dim(dim, input._array.ndim)
    return apply(record, (input,), (sizes_along(found, d), d))


@api(name="split_copy", method=False, samples=SPLIT_CASES)
def split_into_copies(input: Any, split_size: Any, dim: Any = 0) -> Any:
    """split_copy(input, split_size, dim=0) -> tuple of Tensors: pieces of one size.

    >>> split_copy(arange(3), 2)
    (tensor([0, 1]), tensor([2]))
    """
    return cut(SplitCopy, split, input, split_size, dim)


@api(name="split_with_sizes_copy", method=False, samples=SIZES_CASES)
def split_with_sizes_into_copies(input: Any, split_sizes: Any, dim: Any = 0) -> Any:
    """split_with_sizes_copy(input, split_sizes, dim=0) -> tuple of Tensors: of the given sizes.

    >>> split_with_sizes_copy(arange(3), [1, 2])
    (tensor([0]), tensor([1, 2]))
    """
    return cut(SplitWithSizesCopy, split_with_sizes, input, split_sizes, dim)


@api(name="unsafe_split", samples=SPLIT_CASES)
def split_unsafely(tensor: Any, split_size: Any, dim: Any = 0) -> Any:
    """unsafe_split(tensor, split_size, dim=0) -> tuple of Tensors: `split` behind autograd's back.

    >>> unsafe_split(arange(3), 2)
    (tensor([0, 1]), tensor([2]))
    """
    return cut(UnsafeSplit, split, tensor, split_size, dim)


@api(name="unsafe_split_with_sizes", samples=SIZES_CASES)
def split_with_sizes_unsafely(input: Any, split_sizes: Any, dim: Any = 0) -> Any:
    """unsafe_split_with_sizes(input, split_sizes, dim=0) -> tuple of Tensors: of the given sizes.

    >>> unsafe_split_with_sizes(arange(3), [1, 2])
    (tensor([0]), tensor([1, 2]))
    """
    return cut(UnsafeSplitWithSizes, split_with_sizes, input, split_sizes, dim)


@api(samples=[Case(Draw(5, 2), 2), Case(Draw(2, 5), 3, 1), Case(Draw(0, 2), 2)])
def unsafe_chunk(input: Any, chunks: Any, dim: Any = 0) -> Any:
    """unsafe_chunk(input, chunks, dim=0) -> tuple of Tensors: `chunk` behind autograd's back.

    >>> unsafe_chunk(arange(3), 2)
    (tensor([0, 1]), tensor([2]))
    """
    found = chunk(input.detach(), chunks, dim)
    d = wrap_dim(dim, input._array.ndim)
    record = UnsafeSplit if input._array.shape[d] else UnsafeSplitWithSizes
    return apply(record, (input,), (sizes_along(found, d), d))
