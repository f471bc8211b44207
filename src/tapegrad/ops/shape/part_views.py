"""Views of parts: one index, a range, pieces, diagonals, windows; and the ops that go back."""

from __future__ import annotations

from typing import Any

from ... import dtypes
from ...core.arguments import is_index, wrap_dim
from ...core.base import TensorBase
from ...core.python_dispatch import read_values
from ...core.rule_functions import RAW, RECORDED
from ...core.strides import settled, strided, strides_of
from ..block import Case, Linear, ViewOp, api, apply, helper, op
from ..block.checks import OUT_EXACT, as_int, as_ints, check_room
from ..block.samples import Draw

# ruff: noqa: N805


def along(dim: int, index: Any) -> tuple[Any, ...]:
    """A NumPy index that applies `index` to one dimension (and never gives a scalar)."""
    return (*[slice(None)] * dim, index, ...) if dim else (index, ...)


# ------------------------------------------------------------------ select


@op
class Select(ViewOp):
    """select(input, dim, index) -> Tensor: the part at one index; `dim` goes away.

    >>> tensor([[1, 2], [3, 4]]).select(1, 0)
    tensor([1, 3])
    """

    aten = "select.int"
    gradient_text = {"input": "zeros(input.shape) with grad at [index]"}
    samples = (Case(Draw(3, 4), 1, 2), Case(Draw(3, 4), -2, -1), Case(Draw(3), 0, 1))
    dims = ("dim",)

    def fwd(xp, input, dim, index):
        return settled(xp, input)[along(dim, index)]

    def d_input(F, grad, input_shape, dim, index):
        return F.select_backward(grad, input_shape, dim, index)

    def call(input, dim, index):
        shape = input._array.shape
        if not shape:
            raise IndexError("select() cannot be applied to a 0-dim tensor.")
        d = wrap_dim(as_int("select", "dim", 1, dim), len(shape))
        i = as_int("select", "index", 2, index)
        if not -shape[d] <= i < shape[d]:
            raise IndexError(
                f"select(): index {i} out of range for tensor of size {list(shape)} at "
                f"dimension {d}"
            )
        return apply(Select, (input,), (d, i if i >= 0 else i + shape[d]))


def select(input: Any, dim: Any, index: Any) -> Any:
    return apply(Select, (input,), (wrap_dim(dim, input._array.ndim), index))


@op
class SelectBackward(Linear):
    """select_backward(input, shape, dim, index) -> Tensor: zeros with `input` at one index."""

    aten = "select_backward"
    public = False
    dims = ("dim",)
    shapes = ("shape",)

    def fwd(xp, input, shape, dim, index):
        out = xp.zeros(shape, input.dtype)
        out[along(dim, index)] = input
        return out

    def d_input(F, grad, dim, index):
        return F.select(grad, dim, index)


# ------------------------------------------------------------------ slice, narrow


def part(xp: Any, x: Any, dim: int, start: int, end: int, step: int) -> Any:
    if start < end and x.size:
        return x[along(dim, slice(start, end, step))]
    # NumPy would forget the strides of what is empty and where it began.
    strides = list(strides_of(x))
    first = start * strides[dim]
    strides[dim] *= step
    count = max(0, -(-(end - start) // step))
    return strided(xp, x, (*x.shape[:dim], count, *x.shape[dim + 1 :]), tuple(strides), first)


@op
class Slice(ViewOp):
    """slice(input, dim, start, end, step) -> Tensor: every `step`-th part of a range."""

    aten = "slice.Tensor"
    public = False
    dims = ("dim",)
    gradient_text = {"input": "zeros(input.shape) with grad at [start:end:step]"}

    def fwd(xp, input, dim, start, end, step):
        return part(xp, input, dim, start, end, step)

    def d_input(F, grad, input_shape, dim, start, end, step):
        return F.slice_backward(grad, input_shape, dim, start, end, step)

    def aten_call(input, dim=0, start=None, end=None, step=1):
        before = (slice(None),) * (dim % max(input.ndim, 1))
        return input[(*before, slice(start, end, step))]


@op
class SliceBackward(Linear):
    """slice_backward(input, shape, dim, start, end, step) -> Tensor: zeros, but for a range."""

    aten = "slice_backward"
    public = False
    dims = ("dim",)
    shapes = ("shape",)

    def fwd(xp, input, shape, dim, start, end, step):
        out = xp.zeros(shape, input.dtype)
        out[along(dim, slice(start, end, step))] = input
        return out

    def d_input(F, grad, dim, start, end, step):
        return F.slice(grad, dim, start, end, step)


def sliced(input: Any, dim: int, start: int, end: int) -> Any:
    return apply(Slice, (input,), (dim, start, end, 1))


# The parts of a tensor put together again: a GPU looks whether they lie that way already.
helper(
    "rejoin",
    lambda parts, dim: RAW.cat(parts, dim),
    lambda parts, dim: RECORDED.cat(parts, dim),
)

helper(
    "narrow",
    lambda x, dim, start, length: x[along(dim, slice(start, start + length))],
    lambda t, dim, start, length: sliced(t, dim, start, start + length),
)


@api(samples=[Case(Draw(4, 3), 0, 1, 2), Case(Draw(4, 3), -1, -2, 1), Case(Draw(4, 3), 0, 4, 0)])
def narrow(input: Any, dim: Any, start: Any, length: Any) -> Any:
    """narrow(input, dim, start, length) -> Tensor: a range of one dimension.

    >>> tensor([1, 2, 3, 4]).narrow(0, 1, 2)
    tensor([2, 3])
    """
    shape = input._array.shape
    if not shape:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    if isinstance(start, TensorBase) and (start._array.ndim or start._array.dtype.kind not in "iu"):
        raise RuntimeError("start must be an 0-dim integral Tensor.")
    if not hasattr(start, "__index__") or not hasattr(length, "__index__"):
        got = ", ".join([type(a).__name__ for a in (dim, start, length)])
        raise TypeError(
            f"narrow() received an invalid combination of arguments - got ({got}), but "
            "expected one of:"
        )
    count = as_int("narrow", "length", 3, length)
    first = as_int("narrow", "start", 2, start)
    if count < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    d = wrap_dim(as_int("narrow", "dim", 1, dim), len(shape))
    size = shape[d]
    if not -size <= first <= size:
        raise IndexError(
            f"start out of range (expected to be in range of [{-size}, {size}], but got {first})"
        )
    if first < 0:
        first += size
    if first + count > size:
        raise RuntimeError(f"start ({first}) + length ({count}) exceeds dimension size ({size}).")
    return sliced(input, d, first, first + count)


# ------------------------------------------------------------------ split, chunk, unbind


class Pieces(ViewOp):
    several = True
    multi_view = True
    public = False
    dims = ("dim",)


def pieces(xp: Any, x: Any, sizes: tuple[int, ...], dim: int) -> Any:
    found, start = [], 0
    for n in sizes:
        found.append(part(xp, x, dim, start, start + n, 1))
        start += n
    return tuple(found)


@op
class Split(Pieces):
    """split(input, sizes, dim) -> tuple of Tensors: pieces of one size, the last maybe smaller."""

    aten = "split.Tensor"

    def fwd(xp, input, sizes, dim):
        return pieces(xp, input, sizes, dim)

    def d_input(F, grad, dim):
        return F.rejoin(grad, dim)


@op
class SplitWithSizes(Pieces):
    """split_with_sizes(input, sizes, dim) -> tuple of Tensors: pieces of the given sizes."""

    aten = "split_with_sizes"

    def fwd(xp, input, sizes, dim):
        return pieces(xp, input, sizes, dim)

    def d_input(F, grad, dim):
        return F.rejoin(grad, dim)


def even_sizes(size: int, piece: int) -> tuple[int, ...]:
    if piece == 0 or size == 0:
        return (size,)
    count = -(-size // piece)
    return (*[piece] * (count - 1), size - piece * (count - 1))


@api(
    samples=[
        Case(Draw(5, 2), 2),
        Case(Draw(5, 2), [1, 4]),
        Case(Draw(2, 4), 3, -1),
        Case(Draw(5), (2, 0, 3)),
    ],
    python=True,
)
def split(tensor: Any, split_size: Any, dim: Any = 0) -> Any:
    """split(tensor, split_size, dim=0) -> tuple of Tensors: views of pieces of one size or several.

    >>> arange(5).split(2)
    (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    """
    if not is_index(split_size):
        as_ints("split_with_sizes", "split_sizes", 2, split_size)
        return split_with_sizes(tensor, split_size, dim)
    shape = tensor._array.shape
    piece = as_int("split", "split_size", 1, split_size)
    if not shape:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    if piece < 0:
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={piece}")
    d = wrap_dim(as_int("split", "dim", 2, dim), len(shape))
    if piece == 0 and shape[d]:
        raise RuntimeError(
            f"split_size can only be 0 if dimension size is 0, but got dimension size of {shape[d]}"
        )
    return apply(Split, (tensor,), (even_sizes(shape[d], piece), d))


@api(samples=[Case(Draw(5, 2), [1, 4])])
def split_with_sizes(input: Any, split_sizes: Any, dim: Any = 0) -> Any:
    """split_with_sizes(input, split_sizes, dim=0) -> tuple of Tensors: views of the given sizes.

    >>> split_with_sizes(arange(3), [1, 2])
    (tensor([0]), tensor([1, 2]))
    """
    sizes = as_ints("split_with_sizes", "split_sizes", 1, split_sizes)
    shape = input._array.shape
    if not shape:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    d = wrap_dim(as_int("split_with_sizes", "dim", 2, dim), len(shape))
    if any([n < 0 for n in sizes]):
        raise RuntimeError(
            "split_with_sizes expects split_sizes have only non-negative entries, but "
            f"got split_sizes={list(sizes)}"
        )
    if sum(sizes) != shape[d]:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {shape[d]} (input tensor's "
            f"size at dimension {dim}), but got split_sizes={list(sizes)}"
        )
    return apply(SplitWithSizes, (input,), (sizes, d))


@api(samples=[Case(Draw(5, 2), 2), Case(Draw(2, 5), 3, 1), Case(Draw(0, 2), 2)])
def chunk(input: Any, chunks: Any, dim: Any = 0) -> Any:
    """chunk(input, chunks, dim=0) -> tuple of Tensors: at most that many views of equal size.

    >>> arange(5).chunk(2)
    (tensor([0, 1, 2]), tensor([3, 4]))
    """
    shape = input._array.shape
    if not shape:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    count = as_int("chunk", "chunks", 1, chunks)
    if count <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {count}")
    d = wrap_dim(as_int("chunk", "dim", 2, dim), len(shape))
    if shape[d] == 0:
        check_room(count * VIEW_BYTES)
        return apply(SplitWithSizes, (input,), ((0,) * count, d))
    return apply(Split, (input,), (even_sizes(shape[d], -(-shape[d] // count)), d))


VIEW_BYTES = 512  # about what a view takes, its array and its history included


@api(samples=[Case(Draw(5, 2), 2), Case(Draw(2, 5), (1, -1), 1), Case(Draw(2), (1, 5))])
def tensor_split(
    input: Any,
    indices_or_sections: Any = None,
    dim: Any = 0,
    *,
    sections: Any = None,
    indices: Any = None,
    tensor_indices_or_sections: Any = None,
) -> Any:
    """tensor_split(input, indices_or_sections, dim=0) -> tuple of Tensors: pieces of nearly equal
    size, or cut at given places.

    >>> tensor_split(arange(5), (1, 3))
    (tensor([0]), tensor([1, 2]), tensor([3, 4]))
    """
    where = indices_or_sections
    for other in (sections, indices, tensor_indices_or_sections):
        where = other if where is None else where
    shape = input._array.shape
    if not shape:
        raise RuntimeError(
            "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"
        )
    d = wrap_dim(as_int("tensor_split", "dim", 2, dim), len(shape))
    size = shape[d]
    if isinstance(where, TensorBase):
        kind = dtypes.of(where._array.dtype)
        if kind is not dtypes.int64:
            raise RuntimeError(
                "tensor_split expected tensor_indices_or_sections to have dtype of long, "
                f"but got {kind.scalar_type}"
            )
        if not where.is_cpu:  # type: ignore[attr-defined]
            raise RuntimeError(
                "tensor_split expected tensor_indices_or_sections to be on cpu, but it's on "
                f"{where.device}"  # type: ignore[attr-defined]
            )
        where = read_values(where).tolist()
    if isinstance(where, (tuple, list)):
        cuts = [0, *as_ints("tensor_split", "indices", 1, where), size]
        bounds = [slice(a, b).indices(size)[:2] for a, b in zip(cuts[:-1], cuts[1:], strict=True)]
    else:
        count = as_int("tensor_split", "sections", 1, where)
        if count <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {count}")
        check_room(count * VIEW_BYTES)
        small, larger = divmod(size, count)
        ends = [small * i + min(i, larger) for i in range(count + 1)]
        bounds = list(zip(ends[:-1], ends[1:], strict=True))
    return tuple([sliced(input, d, a, max(a, b)) for a, b in bounds])


def split_dim(name: str, input: Any, where: Any, least: int, dim: int) -> Any:
    """hsplit, vsplit, dsplit: `tensor_split` along a fixed dimension, into equal parts only."""
    shape = input._array.shape
    if len(shape) < least:
        raise RuntimeError(
            f"torch.{name} requires a tensor with at least {least} dimension, but got a "
            f"tensor with {len(shape)} dimensions!"
        )
    if isinstance(where, str):
        raise TypeError(
            f"{name}() received an invalid combination of arguments - got (Tensor, str), but "
            "expected one of:\n * (Tensor input, int sections)\n * (Tensor input, tuple of ints "
            "indices)\n"
        )
    if hasattr(where, "__index__") and (where == 0 or shape[dim] % where):
        raise RuntimeError(
            f"torch.{name} attempted to split along dimension {dim}, but the size of the "
            f"dimension {shape[dim]} is not divisible by the split_size {where}!"
        )
    return tensor_split(input, where, dim)


@api(samples=[Case(Draw(2, 4), 2), Case(Draw(4), [1])], spread_ints=True)
def hsplit(input: Any, indices_or_sections: Any) -> Any:
    """hsplit(input, indices_or_sections) -> tuple of Tensors: pieces side by side: along the
    second dimension, of a vector along its only one.

    >>> hsplit(tensor([[1, 2], [3, 4]]), 2)[0]
    tensor([[1],
            [3]])
    """
    return split_dim("hsplit", input, indices_or_sections, 1, 0 if input._array.ndim == 1 else 1)


@api(samples=[Case(Draw(4, 2), 2)], spread_ints=True)
def vsplit(input: Any, indices_or_sections: Any) -> Any:
    """vsplit(input, indices_or_sections) -> tuple of Tensors: pieces along the first dimension (the
    rows).

    >>> vsplit(tensor([[1, 2], [3, 4]]), 2)[0]
    tensor([[1, 2]])
    """
    return split_dim("vsplit", input, indices_or_sections, 2, 0)


@api(samples=[Case(Draw(1, 2, 4), 2)], spread_ints=True)
def dsplit(input: Any, indices_or_sections: Any) -> Any:
    """dsplit(input, indices_or_sections) -> tuple of Tensors: split along the third dimension.

    >>> dsplit(zeros(1, 1, 4), 2)[0].shape
    torch.Size([1, 1, 2])
    """
    return split_dim("dsplit", input, indices_or_sections, 3, 2)


@op
class Unbind(Pieces):
    """unbind(input, dim=0) -> tuple of Tensors: a view for each index of one dimension.

    >>> tensor([[1, 2], [3, 4]]).unbind()
    (tensor([1, 2]), tensor([3, 4]))
    """

    aten = "unbind.int"
    public = True
    samples = (Case(Draw(2, 3)), Case(Draw(2, 3), -1))

    def fwd(xp, input, dim):
        input = settled(xp, input)
        return tuple([input[along(dim, i)] for i in range(input.shape[dim])])

    def d_input(F, grad, dim):
        return F.stack(grad, dim)

    def call(input, dim=0):
        d = wrap_dim(as_int("unbind", "dim", 1, dim), input._array.ndim)
        if not input._array.ndim:
            raise IndexError("Dimension specified as 0 but tensor has no dimensions")
        return apply(Unbind, (input,), (d,))


# ------------------------------------------------------------------ diagonals


def diagonal_view(xp: Any, x: Any, offset: int, dim1: int, dim2: int) -> Any:
    rows, columns = x.shape[dim1], x.shape[dim2]
    count = min(rows + offset, columns) if offset < 0 else min(rows, columns - offset)
    count = max(count, 0)
    own = strides_of(x)
    start = 0
    if count:
        start = -offset * own[dim1] if offset < 0 else offset * own[dim2]
    rest = [d for d in range(x.ndim) if d not in (dim1, dim2)]
    shape = (*[x.shape[d] for d in rest], count)
    strides = (*[own[d] for d in rest], own[dim1] + own[dim2])
    return strided(xp, x, shape, strides, start)


def two_dims(function: str, dim1: Any, dim2: Any, ndim: int) -> tuple[int, int]:
    d1 = wrap_dim(as_int(function, "dim1", 2, dim1), ndim)
    d2 = wrap_dim(as_int(function, "dim2", 3, dim2), ndim)
    if d1 == d2:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return d1, d2


@op
class Diagonal(ViewOp):
    """diagonal(input, offset=0, dim1=0, dim2=1) -> Tensor: a diagonal, as the last dimension.

    >>> tensor([[1, 2], [3, 4]]).diagonal()
    tensor([1, 4])
    """

    samples = (
        Case(Draw(3, 4)),
        Case(Draw(3, 4), 1),
        Case(Draw(3, 4), -2),
        Case(Draw(2, 2), 5),
        Case(Draw(2, 3, 3), 0, 1, 2),
        Case(Draw(2, 3, 2), 1, 2, 0),
    )
    dims = ("dim1", "dim2")

    def fwd(xp, input, offset, dim1, dim2):
        return diagonal_view(xp, input, offset, dim1, dim2)

    def d_input(F, grad, input_shape, offset, dim1, dim2):
        return F.diagonal_backward(grad, input_shape, offset, dim1, dim2)

    def call(input, offset=0, dim1=0, dim2=1):
        d1, d2 = two_dims("diagonal", dim1, dim2, input._array.ndim)
        return apply(Diagonal, (input,), (as_int("diagonal", "offset", 1, offset), d1, d2))


class OnDiagonal(Linear):
    """Zeros with a diagonal."""

    dims = ("dim1", "dim2")
    shapes = ("shape",)

    def fwd(xp, input, shape, offset, dim1, dim2):
        out = xp.zeros(shape, input.dtype)
        diagonal_view(xp, out, offset, dim1, dim2)[...] = input
        return out

    def d_input(F, grad, offset, dim1, dim2):
        return F.diagonal(grad, offset, dim1, dim2)


@op
class DiagonalBackward(OnDiagonal):
    """diagonal_backward(input, shape, offset, dim1, dim2) -> Tensor: zeros with a diagonal."""

    aten = "diagonal_backward"
    public = False


@op
class DiagonalCopy(Linear):
    """diagonal_copy(input, offset, dim1, dim2) -> Tensor: `diagonal` in memory of its own."""

    node = "DiagonalBackward0_copy"
    aten = "diagonal_copy"
    public = False
    dims = ("dim1", "dim2")

    def fwd(xp, input, offset, dim1, dim2):
        return diagonal_view(xp, input, offset, dim1, dim2).copy()

    def d_input(F, grad, input_shape, offset, dim1, dim2):
        return F.diagonal_backward(grad, input_shape, offset, dim1, dim2)


@op
class DiagEmbed(OnDiagonal):
    """diag_embed(input, offset=0, dim1=-2, dim2=-1) -> Tensor: matrices with `input` on a diagonal.

    >>> diag_embed(tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """

    samples = (Case(Draw(3)), Case(Draw(2, 3), 1), Case(Draw(2, 3), -1, 0, 2))

    def call(input, offset=0, dim1=-2, dim2=-1):
        ndim = input._array.ndim + 1
        if not input._array.ndim:
            wrap_dim(dim1, 1)
        d1, d2 = two_dims("diag_embed", dim1, dim2, ndim)
        shift = as_int("diag_embed", "offset", 1, offset)
        size = input._array.shape[-1] + abs(shift)
        shape = list(input._array.shape[:-1])
        for d in sorted((d1, d2)):
            shape.insert(d, size)
        return apply(DiagEmbed, (input,), (tuple(shape), shift, d1, d2))


@api(samples=[Case(Draw(3)), Case(Draw(3), -1), Case(Draw(2, 3), 1)], out_dtype=OUT_EXACT)
def diag(input: Any, diagonal: Any = 0) -> Any:
    """diag(input, diagonal=0) -> Tensor: a matrix with that diagonal, or the diagonal of a matrix.

    >>> diag(tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    ndim = input._array.ndim
    if ndim not in (1, 2):
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {ndim}D")
    if ndim == 1:
        return input.diag_embed(diagonal)
    return apply(DiagonalCopy, (input,), (as_int("diag", "diagonal", 1, diagonal), 0, 1))


@api(samples=[Case(Draw(2, 2)), Case(Draw(3), 1), Case(Draw())])
def diagflat(input: Any, offset: Any = 0) -> Any:
    """diagflat(input, offset=0) -> Tensor: all elements on the diagonal of one matrix.

    >>> diagflat(tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    return input.contiguous().view(-1).diag_embed(offset)


# ------------------------------------------------------------------ windows


@op
class Unfold(ViewOp):
    """unfold(dimension, size, step) -> Tensor: all windows of `size`, as a new last dimension.

    >>> arange(5).unfold(0, 3, 2)
    tensor([[0, 1, 2],
            [2, 3, 4]])
    """

    aten = "unfold"
    public = False
    dims = ("dim",)

    def fwd(xp, input, dim, size, step):
        if not input.ndim:
            return strided(xp, input, (size,), (input.itemsize,))
        shape, strides = list(input.shape), list(strides_of(input))
        last = strides[dim]
        shape[dim] = (shape[dim] - size) // step + 1
        strides[dim] *= step
        return strided(xp, input, (*shape, size), (*strides, last))

    def d_input(F, grad, input_shape, dim, size, step):
        return F.unfold_backward(grad, input_shape, dim, size, step)


@op
class UnfoldBackward(Linear):
    """unfold_backward(input, shape, dim, size, step) -> Tensor: the windows added up in place."""

    aten = "unfold_backward"
    public = False
    dims = ("dim",)
    shapes = ("shape",)

    def fwd(xp, input, shape, dim, size, step):
        if not shape:
            return input.sum().astype(input.dtype)
        out = xp.zeros(shape, input.dtype)
        count = input.shape[dim]
        for k in reversed(range(size)):  # the earlier window first, as PyTorch adds
            out[along(dim, slice(k, k + (count - 1) * step + 1, step))] += input[..., k]
        return out

    def d_input(F, grad, dim, size, step):
        return F.unfold(grad, dim, size, step)


@api(name="unfold", function=False, samples=[Case(Draw(7), 0, 3, 2), Case(Draw(2, 4), 1, 2, 1)])
def unfold_windows(input: Any, dimension: Any, size: Any, step: Any) -> Any:
    """unfold(dimension, size, step) -> Tensor: all windows of `size`, as a new last dimension.

    >>> arange(5).unfold(0, 3, 2)
    tensor([[0, 1, 2],
            [2, 3, 4]])
    """
    shape = input._array.shape
    d = wrap_dim(as_int("unfold", "dimension", 1, dimension), len(shape))
    most = shape[d] if shape else 1
    if size < 0:
        raise RuntimeError(f"size is {size} but must be >= 0")
    if size > most:
        raise RuntimeError(f"maximum size for tensor at dimension {d} is {most} but size is {size}")
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    return apply(Unfold, (input,), (d, as_int("unfold", "size", 2, size), step))
