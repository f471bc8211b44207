"""Views in memory of their own: the `*_copy` functions. (Those of parts are in part_copies.py.)

Each checks its arguments by making the view of the detached input.
"""

from __future__ import annotations

from typing import Any

from ... import dtypes
from ...autograd.inplace import overlapping
from ...core.arguments import wrap_dim
from ...core.op import REGISTRY
from ...core.strides import strides_of
from ...core.transforms.batched import batched, has_batched, innermost, is_batched, lift
from ..block import APIS, Block, Case, Linear, api, apply, op
from ..block.batching import padded, up
from ..block.checks import as_int, as_ints
from ..block.samples import Draw, Index
from ..index.view_scatter import check_part
from ..shape.dim_order import inverse_order, permuted
from ..shape.dim_views import expanded, put_back, squeeze_dims, unbroadcast, without
from ..shape.strided import as_strided, place
from ..shape.strided import bounds as extent
from ..shape.views import full_shape

# ruff: noqa: N805


class CopyOp(Linear):
    """Base of ops that return a copy of the view of that name."""

    method = False


def looked(xp: Any, view: str, input: Any, *attrs: Any) -> Any:
    """Run a view op on an array, and copy the result."""
    return REGISTRY[view].forward(xp, xp.asarray(input), *attrs).copy()


# ------------------------------------------------------------------ shape and order


@op
class AliasCopy(CopyOp):
    """alias_copy(input) -> Tensor: a contiguous copy.

    >>> alias_copy(tensor([1, 2]))
    tensor([1, 2])
    """

    node = "AliasBackward0_copy"
    samples = (Case(Draw(2, 3)), Case(Draw(2, 3, layout="T")), Case(Draw()))
    leading = (0,)

    def fwd(xp, input):
        return xp.asarray(input).copy()

    def d_input(F, grad):
        return grad


@op
class DetachCopy(Block):
    """detach_copy(input) -> Tensor: a contiguous copy; gradients do not pass.

    >>> detach_copy(tensor([1, 2]))
    tensor([1, 2])
    """

    node = "torch::autograd::NotImplemented"
    method = False
    nearest = "clone(), which keeps the history"
    samples = (Case(Index([1, 2])),)
    leading = (0,)

    def fwd(xp, input):
        return xp.asarray(input).copy()

    def d_input(F, grad):
        raise RuntimeError("derivative for aten::detach_copy is not implemented")

    def jvp(F, input):
        raise NotImplementedError(
            "Trying to use forward AD with detach_copy that does not support it because it has not "
            "been implemented yet."
        )


@op
class ViewCopy(CopyOp):
    """view_copy(input, size) -> Tensor: a copy in another shape, or read as another dtype.

    >>> view_copy(arange(4), (2, 2))
    tensor([[0, 1],
            [2, 3]])
    """

    node = "ViewBackward0_copy"
    samples = (Case(Draw(2, 3), (3, 2)), Case(Draw(2, 3, layout="T"), (-1,)), Case(Draw(), ()))
    shapes = ("shape",)

    def fwd(xp, input, shape):
        return xp.asarray(input).reshape(shape).copy()

    def d_input(F, grad, input_shape):
        return F.reshape(grad, input_shape)

    def call(input, size=None, *, dtype=None):
        wanted = size if dtype is None else dtype
        if isinstance(wanted, dtypes.dtype):
            return input.detach().view(wanted).clone()
        shape = as_ints("view_copy", "size", 2, wanted)
        return apply(ViewCopy, (input,), (full_shape(shape, input._array.size),))


@op
class ExpandCopy(CopyOp):
    """expand_copy(input, size) -> Tensor: dimensions of size 1 repeated.

    >>> expand_copy(tensor([1, 2]), (2, 2))
    tensor([[1, 2],
            [1, 2]])
    """

    node = "ExpandBackward0_copy"
    samples = (Case(Draw(3, 1), (2, 3, 4)), Case(Draw(1, 2), (-1, 2)), Case(Draw(), (2,)))

    def fwd(xp, input, shape):
        return looked(xp, "expand", input, shape)

    def d_input(F, grad, input_shape):
        return unbroadcast(F, grad, input_shape)

    def batch(F, size, batched, input, shape):
        return F.expand_copy(padded(F, input, 1, len(shape) + 1), (size, *shape))

    def call(input, size, *, implicit=False):
        sizes = as_ints("expand_copy", "size", 2, size)
        return apply(ExpandCopy, (input,), (expanded(input.detach(), sizes)._array.shape,))


@op
class PermuteCopy(CopyOp):
    """permute_copy(input, dims) -> Tensor: the dimensions in another order.

    >>> permute_copy(tensor([[1, 2], [3, 4]]), (1, 0))
    tensor([[1, 3],
            [2, 4]])
    """

    node = "PermuteBackward0_copy"
    samples = (Case(Draw(2, 3, 4), (2, 0, 1)), Case(Draw(2, 3), (-1, 0)), Case(Draw(), ()))

    def fwd(xp, input, dims):
        return looked(xp, "permute", input, dims)

    def d_input(F, grad, dims):
        return F.permute(grad, inverse_order(dims))

    def batch(F, size, batched, input, dims):
        return F.permute_copy(input, (0, *up(dims, len(input.shape))))

    def call(input, dims):
        order = as_ints("permute_copy", "dims", 2, dims)
        permuted(input.detach(), order)
        return apply(PermuteCopy, (input,), (tuple([d % len(order) for d in order]),))


@op
class TransposeCopy(CopyOp):
    """transpose_copy(input, dim0, dim1) -> Tensor: two dimensions swapped.

    >>> transpose_copy(tensor([[1, 2], [3, 4]]), 0, 1)
    tensor([[1, 3],
            [2, 4]])
    """

    node = "TransposeBackward0_copy"
    aten = "transpose_copy.int"
    samples = (Case(Draw(2, 3, 4), 0, 2), Case(Draw(2, 3), -1, -2), Case(Draw(), 0, -1))
    dims = ("dim0", "dim1")

    def fwd(xp, input, dim0, dim1):
        return looked(xp, "transpose", input, dim0, dim1)

    def d_input(F, grad, dim0, dim1):
        return F.transpose(grad, dim0, dim1)

    def call(input, dim0, dim1):
        ndim = input._array.ndim
        first = wrap_dim(as_int("transpose_copy", "dim0", 2, dim0), ndim)
        second = wrap_dim(as_int("transpose_copy", "dim1", 3, dim1), ndim)
        return apply(TransposeCopy, (input,), (first, second))


@op
class TCopy(CopyOp):
    """t_copy(input) -> Tensor: the transpose of a matrix; vectors and scalars as they are.

    >>> t_copy(tensor([[1, 2], [3, 4]]))
    tensor([[1, 3],
            [2, 4]])
    """

    name, node = "t_copy", "TBackward0_copy"
    samples = (Case(Draw(2, 3)), Case(Draw(3)), Case(Draw()))

    def fwd(xp, input):
        return looked(xp, "t", input)

    def d_input(F, grad):
        return F.t(grad)

    def batch(F, size, batched, input):
        if len(input.shape) == 3:
            return F.transpose_copy(input, 1, 2)
        return F.alias_copy(input)


# ------------------------------------------------------------------ squeeze, unsqueeze


@op
class SqueezeAllCopy(CopyOp):
    """squeeze_all_copy(input) -> Tensor: no dimension of size 1 left."""

    node = "SqueezeBackward0_copy"
    aten = "squeeze_copy"
    public = False

    def fwd(xp, input):
        x = xp.asarray(input)
        return without(xp, x, tuple(range(x.ndim))).copy()

    def d_input(F, grad, input_shape):
        return put_back(F, grad, tuple(range(len(input_shape))), input_shape)

    def batch(F, size, batched, input):
        ones = [d for d in range(1, len(input.shape)) if input.shape[d] == 1]
        return F.squeeze_copy(input, tuple(ones))


@op
class SqueezeOneCopy(CopyOp):
    """squeeze_one_copy(input, dim) -> Tensor: `dim` dropped if its size is 1."""

    node = "SqueezeBackward1_copy"
    aten = "squeeze_copy.dim"
    public = False

    def fwd(xp, input, dim):
        return without(xp, xp.asarray(input), (dim,)).copy()

    def d_input(F, grad, input_shape, dim):
        return put_back(F, grad, (dim,), input_shape)

    def batch(F, size, batched, input, dim):
        return F.squeeze_copy(input, (dim + 1,))


@op
class SqueezeCopy(CopyOp):
    """squeeze_copy(input, dims) -> Tensor: those of `dims` dropped whose size is 1."""

    node = "SqueezeBackward2_copy"
    aten = "squeeze_copy.dims"
    public = False
    dims = ("dims",)

    def fwd(xp, input, dims):
        return without(xp, xp.asarray(input), dims).copy()

    def d_input(F, grad, input_shape, dims):
        return put_back(F, grad, dims, input_shape)


@api(
    method=False,
    samples=[
        Case(Draw(1, 3, 1)),
        Case(Draw(1, 3, 1), -1),
        Case(Draw(1, 3, 1, 1), (0, 1, -1)),
        Case(Draw(), 0),
    ],
)
def squeeze_copy(input: Any, dim: Any = None) -> Any:
    """squeeze_copy(input, dim=None) -> Tensor: without dimensions of size 1.

    >>> squeeze_copy(tensor([[1, 2]]))
    tensor([1, 2])
    """
    if dim is None:
        return apply(SqueezeAllCopy, (input,))
    dims = squeeze_dims("squeeze_copy", input, dim)
    return apply(SqueezeOneCopy if type(dims) is int else SqueezeCopy, (input,), (dims,))


@op
class UnsqueezeCopy(CopyOp):
    """unsqueeze_copy(input, dim) -> Tensor: with a new dimension of size 1 at `dim`.

    >>> unsqueeze_copy(tensor([1, 2]), 1)
    tensor([[1],
            [2]])
    """

    node = "UnsqueezeBackward0_copy"
    samples = (Case(Draw(2, 3), 1), Case(Draw(2, 3), -1), Case(Draw(), 0))

    def fwd(xp, input, dim):
        return xp.expand_dims(xp.asarray(input), dim).copy()

    def d_input(F, grad, dim):
        return F.squeeze_one(grad, dim)

    def batch(F, size, batched, input, dim):
        return F.unsqueeze_copy(input, dim + 1)

    def call(input, dim):
        found = wrap_dim(as_int("unsqueeze_copy", "dim", 2, dim), input._array.ndim + 1)
        return apply(UnsqueezeCopy, (input,), (found,))


# ------------------------------------------------------------------ complex numbers, strides


@op
class ViewAsComplexCopy(CopyOp):
    """view_as_complex_copy(input) -> Tensor: pairs in the last dimension as complex numbers.

    >>> view_as_complex_copy(tensor([[1.0, 2.0]]))
    tensor([1.+2.j])
    """

    node = "ViewAsComplexBackward0_copy"
    wirtinger = True
    samples = (Case(Draw(3, 2)),)
    leading = (0,)

    def fwd(xp, input):
        return looked(xp, "view_as_complex", input)

    def d_input(F, grad):
        return F.view_as_real(grad)

    def call(input):
        APIS["view_as_complex"].call(input.detach())  # which says what is wrong with it
        return apply(ViewAsComplexCopy, (input,))


@op
class ViewAsRealCopy(CopyOp):
    """view_as_real_copy(input) -> Tensor: complex numbers as pairs in a new last dimension.

    >>> view_as_real_copy(tensor([1 + 2j]))
    tensor([[1., 2.]])
    """

    node = "ViewAsRealBackward0_copy"
    wirtinger = True
    samples = (Case(Index([1 + 2j, 3j])),)
    leading = (0,)

    def fwd(xp, input):
        return looked(xp, "view_as_real", input)

    def d_input(F, grad):
        return F.view_as_complex(grad)

    def call(input):
        if input._array.dtype.kind != "c":
            raise RuntimeError("view_as_real is only supported for complex tensors")
        return apply(ViewAsRealCopy, (input,))


@op
class AsStridedCopy(CopyOp):
    """as_strided_copy(input, size, stride, storage_offset=None) -> Tensor: elements by strides.

    >>> as_strided_copy(arange(5), (3, 2), (1, 1))
    tensor([[0, 1],
            [1, 2],
            [2, 3]])
    """

    node = "AsStridedBackward0_copy"
    unbatchable = "it speaks of memory that the entries of a batch share"
    samples = (Case(Draw(2, 3), (2, 2), (1, 2), 1), Case(Draw(6), (4, 3), (1, 1)))

    def fwd(xp, input, own, size, stride, offset):
        return looked(xp, "as_strided", input, size, stride, offset)

    def d_input(F, grad, own, size, stride, offset):
        return F.restride(grad, (size, stride, offset), own, own)

    def jvp(F, t_input, own, size, stride, offset):
        # A tangent may lie in memory otherwise than its tensor.
        return F.restride(t_input, own, (size, stride, offset), own)

    def call(input, size, stride, storage_offset=None):
        if is_batched(input):
            return as_strided(input, size, stride, storage_offset).clone()
        return apply(AsStridedCopy, (input,), geometry(input, size, stride, storage_offset))


def geometry(input: Any, size: Any, stride: Any, storage_offset: Any) -> tuple[Any, ...]:
    """Where the elements of `input` are, and size, strides and offset from there of the others."""
    as_strided(input.detach(), size, stride, storage_offset)
    x = input._array
    own = (x.shape, tuple([s // x.itemsize for s in strides_of(x)]), 0)
    offset = 0 if storage_offset is None else storage_offset - input.storage_offset()
    return own, tuple(size), tuple(stride), offset


@op
class AsStridedScatter(Block):
    """as_strided_scatter(input, src, size, stride, storage_offset=None) -> Tensor: a copy in which
    the part that as_strided would show is `src`.

    >>> as_strided_scatter(zeros(2, 2), ones(2), (2,), (2,))
    tensor([[1., 0.],
            [1., 0.]])
    """

    tensors = ("input", "src")
    unbatchable = "it speaks of memory that the entries of a batch share"
    samples = (
        Case(Draw(2, 3), Draw(2, 2), (2, 2), (1, 3), 1),
        Case(Draw(6), Draw(2), (2,), (2,)),
    )

    def fwd(xp, input, src, own, size, stride, offset):
        low, high = extent(own, (size, stride, offset))
        memory = xp.zeros(max(high - low + 1, 0), input.dtype)
        out = place(xp, memory, own, low)
        out[...] = input
        place(xp, memory, (size, stride, offset), low)[...] = src
        return out

    def d_input(F, grad, own, size, stride, offset):
        return F.as_strided_scatter(grad, F.blank(grad, size), own, size, stride, offset)

    def d_src(F, grad, own, size, stride, offset):
        return F.restride(grad, own, (size, stride, offset), own)

    def jvp(F, input, src, t_input, t_src, own, size, stride, offset):
        a = F.zeros_like(input) if t_input is None else t_input
        b = F.zeros_like(src) if t_src is None else t_src
        return F.as_strided_scatter(a, b, own, size, stride, offset)

    def call(input, src, size, stride, storage_offset=None):
        if input.requires_grad and not input._array.flags.c_contiguous:
            raise RuntimeError(
                "as_strided_scatter is currently only supported for contiguous inputs"
            )
        if has_batched((input, src)):
            level = innermost((input, src))
            out = batched(lift(input, level).clone(), level)
            # The copy begins where its memory does.
            offset = None if storage_offset is None else storage_offset - input.storage_offset()
            part = out.as_strided(size, stride, offset)
            check_part("as_strided_scatter", src, part._array.shape)
            part.copy_(src)
            return out
        where = geometry(input, size, stride, storage_offset)
        check_part("as_strided_scatter", src, where[1])
        if src.numel() and any([s == 0 and n > 1 for n, s in zip(where[1], where[2], strict=True)]):
            raise overlapping()
        return apply(AsStridedScatter, (input, src), where)
