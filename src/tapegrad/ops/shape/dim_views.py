"""Views that add, drop or stretch dimensions, and views of complex numbers as pairs."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ... import dtypes, errors
from ...autograd.inplace import repoint
from ...core.arguments import wrap_dim
from ...core.base import TensorBase
from ...core.node import unbroadcast
from ...core.strides import settled, stretched, strided, strides_of
from ...errors import no_tensor_in_list
from ..block import SINGLE, Autocast, Case, ViewOp, api, apply, op, reads_as
from ..block.batching import padded
from ..block.checks import as_int, as_ints, ints_of_call, only_tensors, without_complex32
from ..block.samples import Draw, Index
from ..block.shapes import asked_shape
from .bit_views import conjugate_view, negative_view
from .dim_order import PROPERTIES
from .part_views import select

# ruff: noqa: N805

# ------------------------------------------------------------------ expand


@op
class Expand(ViewOp):
    """expand(input, shape) -> Tensor: dimensions of size 1 repeated without copying."""

    aten = "expand"
    public = False
    shape = asked_shape

    fwd = stretched

    def d_input(F, grad, input_shape):
        return unbroadcast(F, grad, input_shape)

    def batch(F, size, batched, input, shape):
        return F.expand(padded(F, input, 1, len(shape) + 1), (size, *shape))


def expanded(input: Any, sizes: tuple[int, ...]) -> Any:
    shape = input._array.shape
    extra = len(sizes) - len(shape)
    if extra < 0:
        raise RuntimeError(
            f"expand({errors.type_name(input._array)}{{{list(shape)}}}, size={list(sizes)}): the "
            "number "
            f"of sizes provided ({len(sizes)}) must be greater or equal to the number of "
            "dimensions in "
            f"the tensor ({len(shape)})"
        )
    full = list(sizes)
    for d in range(len(sizes) - 1, -1, -1):  # the last dimension that does not fit is named
        n = sizes[d]
        old = shape[d - extra] if d >= extra else 1
        if n == -1:
            if d < extra:
                raise RuntimeError(
                    f"The expanded size of the tensor ({n}) isn't allowed in a leading, "
                    f"non-existing dimension {d}"
                )
            n = old
        if n != old and (old != 1 or n < 0):
            raise RuntimeError(
                f"The expanded size of the tensor ({n}) must match the existing size ({old}) at "
                f"non-singleton dimension {d}.  Target sizes: {list(sizes)}.  Tensor sizes: "
                f"{list(shape)}"
            )
        full[d] = n
    return apply(Expand, (input,), (tuple(full),))


@api(
    function=False,
    samples=[
        Case(Draw(3, 1), 2, 3, 4),
        Case(Draw(3, 1), -1, 2),
        Case(Draw(), (2,)),
        Case(Draw(1, 2), 0, 2),
    ],
)
def expand(input: Any, *size: Any, implicit: bool = False, **kwargs: Any) -> Any:
    """expand(input, *size) -> Tensor: dimensions of size 1 repeated without copying.

    >>> tensor([[1], [2]]).expand(2, 3)
    tensor([[1, 1, 1],
            [2, 2, 2]])
    """
    if "size" in kwargs:
        size = (kwargs["size"],)
    return expanded(input, ints_of_call("expand", "size", size))


@api(function=False, samples=[Case(Draw(3), Draw(2, 3))])
def expand_as(input: Any, other: Any) -> Any:
    """expand_as(input, other) -> Tensor: `input.expand(other.shape)`.

    >>> tensor([1, 2]).expand_as(zeros(3, 2)).shape
    torch.Size([3, 2])
    """
    if not isinstance(other, TensorBase):
        raise errors.must_be_tensor("expand_as", "other", 1, other)
    return expanded(input, other._array.shape)


@api(samples=[Case(Draw(1, 2), (3, 2))])
def broadcast_to(input: Any, *size: Any, **kwargs: Any) -> Any:
    """broadcast_to(input, size) -> Tensor: `input.expand(size)`.

    >>> broadcast_to(tensor([1, 2]), (2, 2))
    tensor([[1, 2],
            [1, 2]])
    """
    if not size and "size" in kwargs:
        size = (kwargs["size"],)
    if len(size) == 1:
        return expanded(input, as_ints("broadcast_to", "size", 2, size[0]))
    return expanded(input, ints_of_call("broadcast_to", "size", size))


@api(method=False, samples=[Case(Draw(3, 1), Draw(2))], python=True)
def broadcast_tensors(*tensors: Any) -> Any:
    """broadcast_tensors(*tensors) -> tuple of Tensors: all of them expanded to their common shape.

    >>> broadcast_tensors(tensor([[1], [2]]), tensor([3, 4]))[0]
    tensor([[1, 1],
            [2, 2]])
    """
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tuple(tensors[0])
    for i, t in enumerate(tensors):
        if not isinstance(t, TensorBase):
            raise no_tensor_in_list(i, 0, t)
    shapes = [t._array.shape for t in tensors]
    if len(set(shapes)) == 1:
        return tensors
    errors.check_broadcast([t._array for t in tensors])
    shape = np.broadcast_shapes(*shapes)
    # What has the shape already comes back itself, not a view of it.
    return tuple([t if t._array.shape == shape else expanded(t, shape) for t in tensors])


# ------------------------------------------------------------------ squeeze, unsqueeze


def without(xp: Any, x: Any, dims: tuple[int, ...]) -> Any:
    """A view without those of `dims` that have size 1."""
    found = tuple([d for d in dims if d < x.ndim and x.shape[d] == 1])
    return settled(xp, x).squeeze(found) if found else x.view()


@reads_as("reshape(grad, shape)")
def put_back(F: Any, grad: Any, dims: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    """The dimensions of size 1 of `shape` among `dims`, inserted again."""
    for d in sorted(dims):
        if d < len(shape) and shape[d] == 1:
            grad = F.unsqueeze(grad, d)
    return grad


class SqueezingAll(ViewOp):
    public = False

    def fwd(xp, input):
        return without(xp, input, tuple(range(input.ndim)))

    def d_input(F, grad, input_shape):
        return put_back(F, grad, tuple(range(len(input_shape))), input_shape)

    def batch(F, size, batched, input):
        ones = [d for d in range(1, len(input.shape)) if input.shape[d] == 1]
        return F.squeeze(input, tuple(ones))


class SqueezingOne(ViewOp):
    public = False

    def fwd(xp, input, dim):
        return without(xp, input, (dim,))

    def d_input(F, grad, input_shape, dim):
        return put_back(F, grad, (dim,), input_shape)

    def shape(input, dim):
        return (*input[:dim], *[s for s in input[dim : dim + 1] if s != 1], *input[dim + 1 :])

    def batch(F, size, batched, input, dim):
        return F.squeeze(input, (dim + 1,)) if len(input.shape) > 1 else F.alias(input)


class SqueezingSome(ViewOp):
    public = False
    dims = ("dims",)

    def fwd(xp, input, dims):
        return without(xp, input, dims)

    def d_input(F, grad, input_shape, dims):
        return put_back(F, grad, dims, input_shape)


@op
class SqueezeAll(SqueezingAll):
    """squeeze_all(input) -> Tensor: no dimension of size 1 left."""

    node = "SqueezeBackward0"
    aten = "squeeze"


@op
class SqueezeOne(SqueezingOne):
    """squeeze_one(input, dim) -> Tensor: `dim` dropped if its size is 1."""

    node = "SqueezeBackward1"
    aten = "squeeze.dim"


@op
class Squeeze(SqueezingSome):
    """squeeze(input, dims) -> Tensor: those of `dims` dropped whose size is 1."""

    node = "SqueezeBackward2"
    aten = "squeeze.dims"


@op
class SqueezeAllWrite(SqueezingAll):
    """squeeze_all_(input) -> Tensor: `squeeze` of the tensor itself."""

    name, node = "squeeze_all_", "SqueezeBackward3"
    aten = None


@op
class SqueezeOneWrite(SqueezingOne):
    """squeeze_one_(input, dim) -> Tensor: `squeeze` of the tensor itself."""

    name, node = "squeeze_one_", "SqueezeBackward4"
    aten = None


@op
class SqueezeWrite(SqueezingSome):
    """squeeze_(input, dims) -> Tensor: `squeeze` of the tensor itself."""

    name, node = "squeeze_", "SqueezeBackward5"
    aten = "squeeze_"


def squeeze_dims(function: str, input: Any, dim: Any) -> Any:
    """() for all, an int, or a tuple of ints: as attributes of the three ops."""
    ndim = input._array.ndim
    if hasattr(dim, "__index__"):
        return wrap_dim(operator.index(dim), ndim)
    if not isinstance(dim, (tuple, list)):
        raise TypeError(
            f"{function}() received an invalid combination of arguments - got "
            f"({type(dim).__name__}), but expected one of:\n * ()\n * (int dim)\n"
            " * (tuple of ints dim)\n"
        )
    for i, d in enumerate(dim):
        if not hasattr(d, "__index__"):
            raise TypeError(
                f"{function}(): argument 'dim' failed to unpack the object at pos {i + 1} "
                f'with error "type must be tuple of ints,but got {type(d).__name__}"'
            )
    dims = tuple([wrap_dim(operator.index(d), ndim) for d in dim])
    for d in dims:
        if dims.count(d) > 1:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    return dims


@api(
    samples=[
        Case(Draw(1, 3, 1)),
        Case(Draw(1, 3, 1), -1),
        Case(Draw(1, 3), 1),
        Case(Draw(), 0),
        Case(Draw(1, 3, 1, 1), (0, 1, -1)),
    ],
    spread_ints=True,
)
def squeeze(input: Any, dim: Any = None) -> Any:
    """squeeze(input, dim=None) -> Tensor: dimensions of size 1 dropped, all of them or those named.

    >>> zeros(1, 3, 1).squeeze().shape, zeros(1, 3, 1).squeeze(0).shape
    (torch.Size([3]), torch.Size([3, 1]))
    """
    if not isinstance(input, TensorBase):
        raise errors.must_be_tensor("squeeze", "input", 1, input)
    if dim is None:
        return apply(SqueezeAll, (input,))
    dims = squeeze_dims("squeeze", input, dim)
    return apply(SqueezeOne if type(dims) is int else Squeeze, (input,), (dims,))


@api(function=False, spread_ints=True)
def squeeze_(input: Any, dim: Any = None) -> Any:
    """squeeze_(dim=None) -> Tensor: drop dimensions of size 1 of this tensor itself.

    >>> zeros(1, 3, 1).squeeze_().shape
    torch.Size([3])
    """
    if dim is None:
        return repoint(SqueezeAllWrite, input, ())
    dims = squeeze_dims("squeeze_", input, dim)
    return repoint(SqueezeOneWrite if type(dims) is int else SqueezeWrite, input, (dims,))


class Unsqueezing(ViewOp):
    public = False

    def fwd(xp, input, dim):
        input = xp.asarray(input)
        shape, strides = input.shape, strides_of(input)
        new = shape[dim] * strides[dim] if dim < len(shape) else input.itemsize
        return strided(
            xp, input, (*shape[:dim], 1, *shape[dim:]), (*strides[:dim], new, *strides[dim:])
        )

    def d_input(F, grad, dim):
        return F.squeeze_one(grad, dim)

    def shape(input, dim):
        return (*input[:dim], 1, *input[dim:])

    def batch(F, size, batched, input, dim):
        return F.unsqueeze(input, dim + 1)


@op
class Unsqueeze(Unsqueezing):
    """unsqueeze(input, dim) -> Tensor: a new dimension of size 1 at `dim`.

    >>> tensor([1, 2]).unsqueeze(1)
    tensor([[1],
            [2]])
    """

    public = True
    samples = (Case(Draw(2, 3), 1), Case(Draw(2, 3), -1), Case(Draw(), 0), Case(Draw(0), 0))

    def call(input, dim):
        found = wrap_dim(as_int("unsqueeze", "dim", 1, dim), input._array.ndim + 1)
        return apply(Unsqueeze, (input,), (found,))


@op
class UnsqueezeWrite(Unsqueezing):
    """unsqueeze_(input, dim) -> Tensor: `unsqueeze` of the tensor itself."""

    name, node = "unsqueeze_", "UnsqueezeBackward1"
    aten = "unsqueeze_"


@api(function=False)
def unsqueeze_(input: Any, dim: Any) -> Any:
    """unsqueeze_(dim) -> Tensor: give this tensor itself a dimension of size 1.

    >>> zeros(2).unsqueeze_(0).shape
    torch.Size([1, 2])
    """
    found = wrap_dim(as_int("unsqueeze_", "dim", 1, dim), input._array.ndim + 1)
    return repoint(UnsqueezeWrite, input, (found,))


def each(tensors: tuple[Any, ...], at_least: Any) -> Any:
    """`at_least` of one tensor, or a tuple of them of several."""
    if len(tensors) == 1 and isinstance(tensors[0], TensorBase):
        return at_least(tensors[0])
    if len(tensors) == 1:
        tensors = tuple(tensors[0])
    return tuple([at_least(t) for t in tensors])


@api(method=False, samples=[Case(Draw()), Case(Draw(2))], python=True)
def atleast_1d(*tensors: Any) -> Any:
    """atleast_1d(*tensors) -> Tensor or tuple: scalars become vectors of one element.

    >>> atleast_1d(tensor(1))
    tensor([1])
    """
    return each(tensors, lambda t: t.reshape(1) if t._array.ndim == 0 else t)


@api(method=False, samples=[Case(Draw()), Case(Draw(2)), Case(Draw(2, 3))], python=True)
def atleast_2d(*tensors: Any) -> Any:
    """atleast_2d(*tensors) -> Tensor or tuple: with at least two dimensions: vectors become rows.

    >>> atleast_2d(tensor([1, 2]))
    tensor([[1, 2]])
    """

    def widen(t: Any) -> Any:
        only_tensors("atleast_2d", tensors=t)
        ndim = t._array.ndim
        return t.reshape(1, 1) if ndim == 0 else t.unsqueeze(0) if ndim == 1 else t

    return each(tensors, widen)


@api(method=False, samples=[Case(Draw()), Case(Draw(2)), Case(Draw(2, 3))], python=True)
def atleast_3d(*tensors: Any) -> Any:
    """atleast_3d(*tensors) -> Tensor or tuple: at least three dimensions each.

    >>> atleast_3d(tensor([1, 2])).shape
    torch.Size([1, 2, 1])
    """

    def widen(t: Any) -> Any:
        ndim = t._array.ndim
        if ndim == 0:
            return t.reshape(1, 1, 1)
        return t.unsqueeze(0).unsqueeze(-1) if ndim == 1 else t.unsqueeze(-1) if ndim == 2 else t

    return each(tensors, widen)


# ------------------------------------------------------------------ complex numbers


CONJUGATED = (
    "view_as_real doesn't work on unresolved conjugated tensors.  To resolve the conjugate tensor "
    "so you can view it as real, use self.resolve_conj(); however, be warned that the resulting "
    "tensor will NOT alias the original."
)


@op
class ViewAsReal(ViewOp):
    """view_as_real(input) -> Tensor: complex numbers as pairs in a new last dimension.

    >>> view_as_real(tensor([1 + 2j]))
    tensor([[1., 2.]])
    """

    replays = True
    wirtinger = True
    method = False
    samples = (Case(Index([1 + 2j, 3j])), Case(Index(1 - 1j)))
    leading = (0,)

    def fwd(xp, input):
        half = input.itemsize // 2
        parts = xp.asarray(input).real
        return strided(xp, parts, (*input.shape, 2), (*input.strides, half))

    def d_input(F, grad):
        return F.view_as_complex(grad)

    def call(input):
        if input._array.dtype.kind != "c":
            raise RuntimeError("view_as_real is only supported for complex tensors")
        if input.is_conj():
            raise RuntimeError(CONJUGATED)
        return apply(ViewAsReal, (input,))


@op
class ViewAsComplex(ViewOp):
    """view_as_complex(input) -> Tensor: pairs in the last dimension as complex numbers.

    >>> view_as_complex(tensor([[1.0, 2.0]]))
    tensor([1.+2.j])
    """

    replays = True
    wirtinger = True
    method = False
    autocast = Autocast(cpu=SINGLE)
    samples = (Case(Draw(3, 2)), Case(Draw(2)), Case(Draw(2, 1, 2)))
    leading = (1,)

    def fwd(xp, input):
        if input.strides[-1] != input.itemsize or any(
            [s % (2 * input.itemsize) for s in input.strides[:-1]]
        ):
            input = xp.ascontiguousarray(input)  # a gradient may lie anyhow
        kind = xp.complex64 if input.itemsize == 4 else xp.complex128
        return input.view(kind)[..., 0]

    def d_input(F, grad):
        return F.view_as_real(grad)

    def call(input):
        x = input._array
        if x.dtype.kind != "f":
            raise RuntimeError(
                "view_as_complex is only supported for half, float and double tensors, but got a "
                f"tensor of scalar type: {dtypes.of(x.dtype).scalar_type}"
            )
        if not x.ndim:
            raise RuntimeError("Input tensor must have one or more dimensions")
        if x.shape[-1] != 2:
            raise RuntimeError("Tensor must have a last dimension of size 2")
        if x.size and x.strides[-1] != x.itemsize:
            raise RuntimeError("Tensor must have a last dimension with stride 1")
        if any([s % (2 * x.itemsize) for s in x.strides[:-1]]):
            raise RuntimeError(
                "Tensor must have a stride divisible by 2 for all but last dimension"
            )
        if input.storage_offset() % 2:
            raise RuntimeError("Tensor must have a storage_offset divisible by 2")
        if x.itemsize == 2:
            raise without_complex32()
        return apply(ViewAsComplex, (input,))


@api(method=False, samples=[Case(Draw(2))])
def real(input: Any) -> Any:
    """real(input) -> Tensor: the real parts, as a view; a real tensor itself.

    >>> real(tensor([1 + 2j]))
    tensor([1.])
    """
    if input._array.dtype.kind != "c":
        return input
    return select(pairs(input), -1, 0)


@api(method=False, samples=[Case(Index([1 + 2j, 3j])), Case(Index(1 - 1j))])
def imag(input: Any) -> Any:
    """imag(input) -> Tensor: the imaginary parts, as a view.

    >>> imag(tensor([1 + 2j]))
    tensor([2.])
    """
    if input._array.dtype.kind != "c":
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    return select(pairs(input, imaginary=True), -1, 1)


def pairs(input: Any, imaginary: bool = False) -> Any:
    """Complex numbers as pairs; of a conjugate view, with the imaginary parts negated."""
    if not input.is_conj():
        return apply(ViewAsReal, (input,))
    found = apply(ViewAsReal, (conjugate_view(input),))
    return negative_view(found) if imaginary else found


def set_real(input: Any, value: Any) -> None:
    real(input).copy_(value)


def set_imag(input: Any, value: Any) -> None:
    imag(input).copy_(value)


PROPERTIES["real"] = property(real, set_real)
PROPERTIES["imag"] = property(imag, set_imag)
