"""Views with the dimensions in another order: transpose, permute, movedim and the properties."""

from __future__ import annotations

import operator
from typing import Any

from ...autograd.inplace import repoint
from ...core.arguments import is_index, wrap_dim
from ...core.op import REGISTRY
from ...core.strides import settled
from ...core.warned import warn
from ...errors import explain_call, unbound_call
from ..block import Case, ViewOp, api, apply, op
from ..block.batching import up
from ..block.checks import as_int, as_ints, ints_of_call
from ..block.samples import Draw
from ..block.shapes import swapped_shape

# ruff: noqa: N805


class Transposing(ViewOp):
    public = False
    dims = ("dim0", "dim1")

    def fwd(xp, input, dim0, dim1):
        return input.view() if dim0 == dim1 else xp.swapaxes(settled(xp, input), dim0, dim1)

    def d_input(F, grad, dim0, dim1):
        return F.transpose(grad, dim0, dim1)

    def shape(input, dim0, dim1):
        return swapped_shape(input, dim0, dim1)

    def shape_input(out, dim0, dim1):
        return swapped_shape(out, dim0, dim1)


@op
class Transpose(Transposing):
    """transpose(input, dim0, dim1) -> Tensor: a view with two dimensions swapped.

    >>> zeros(2, 3, 4).transpose(0, 2).shape
    torch.Size([4, 3, 2])
    """

    aten = "transpose.int"
    public = True
    samples = (Case(Draw(2, 3, 4), 0, 2), Case(Draw(2, 3), -1, -2), Case(Draw(), 0, -1))

    def call(input, dim0, dim1):
        ndim = input._array.ndim
        first = wrap_dim(as_int("transpose", "dim0", 1, dim0), ndim)
        return apply(
            Transpose, (input,), (first, wrap_dim(as_int("transpose", "dim1", 2, dim1), ndim))
        )


@op
class TransposeWrite(Transposing):
    """transpose_(input, dim0, dim1) -> Tensor: `transpose` of the tensor itself."""

    name, node = "transpose_", "TransposeBackward1"
    aten = "transpose_"


@api(samples=[Case(Draw(2, 3), 0, 1)])
def swapdims(input: Any, dim0: Any, dim1: Any) -> Any:
    """swapdims(input, dim0, dim1) -> Tensor: another name of `transpose`.

    >>> zeros(2, 3).swapdims(0, 1).shape
    torch.Size([3, 2])
    """
    return input.transpose(dim0, dim1)


@api(samples=[Case(Draw(2, 3), 0, 1)])
def swapaxes(input: Any, axis0: Any, axis1: Any) -> Any:
    """swapaxes(input, axis0, axis1) -> Tensor: another name of `transpose`.

    >>> zeros(2, 3).swapaxes(0, 1).shape
    torch.Size([3, 2])
    """
    return input.transpose(axis0, axis1)


@api(function=False, aliases=("swapdims_", "swapaxes_"))
def transpose_(input: Any, dim0: Any, dim1: Any) -> Any:
    """transpose_(dim0, dim1) -> Tensor: swap two dimensions of this tensor itself.

    >>> zeros(2, 3).transpose_(0, 1).shape
    torch.Size([3, 2])
    """
    ndim = input._array.ndim
    first = wrap_dim(as_int("transpose_", "dim0", 1, dim0), ndim)
    return repoint(
        TransposeWrite, input, (first, wrap_dim(as_int("transpose_", "dim1", 2, dim1), ndim))
    )


class Turning(ViewOp):
    public = False

    def fwd(xp, input):
        if input.ndim == 2:
            return input.T if input.size else settled(xp, input).T
        check_t("t", input.ndim)
        return input.view()

    def d_input(F, grad):
        return F.t(grad)

    def shape(input):
        return input[::-1]

    def shape_input(out):
        return out[::-1]

    def batch(F, size, batched, input):
        return F.transpose(input, 1, 2) if len(input.shape) == 3 else F.alias(input)


def check_t(function: str, ndim: int) -> None:
    if ndim > 2:
        raise RuntimeError(
            f"{function}() expects a tensor with <= 2 dimensions, but self is {ndim}D"
        )


@op
class T(Turning):
    """t(input) -> Tensor: the transpose of a matrix; vectors and scalars as they are.

    >>> zeros(2, 3).t().shape
    torch.Size([3, 2])
    """

    public = True
    formula = "input.T"
    samples = (Case(Draw(2, 3)), Case(Draw(3)), Case(Draw()), Case(Draw(0, 2)))


@op
class TWrite(Turning):
    """t_(input) -> Tensor: `t` of the tensor itself."""

    name, node = "t_", "TBackward1"
    aten = "t_"


@api(function=False)
def t_(input: Any) -> Any:
    """t_() -> Tensor: transpose this matrix itself.

    >>> zeros(2, 3).t_().shape
    torch.Size([3, 2])
    """
    check_t("t_", input._array.ndim)
    return repoint(TWrite, input, ())


def inverse_order(dims: tuple[int, ...]) -> tuple[int, ...]:
    """The permutation that undoes a permutation of dimensions."""
    back = [0] * len(dims)
    for i, d in enumerate(dims):
        back[d] = i
    return tuple(back)


@op
class Permute(ViewOp):
    """permute(input, dims) -> Tensor: the dimensions in another order."""

    aten = "permute"
    public = False
    gradient_text = {"input": "permute(grad, the inverse of dims)"}

    def fwd(xp, input, dims):
        return settled(xp, input).transpose(dims) if dims else input.view()

    def d_input(F, grad, dims):
        return F.permute(grad, inverse_order(dims))

    def shape(input, dims):
        return tuple([input[d] for d in dims])

    def batch(F, size, batched, input, dims):
        return F.permute(input, (0, *up(dims, len(input.shape))))


def permuted(input: Any, dims: tuple[int, ...]) -> Any:
    ndim = input._array.ndim
    if len(dims) != ndim:
        error = RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the "
            f"length of the desired ordering of dimensions i.e. input.dim() = {ndim} is not equal "
            f"to len(dims) = {len(dims)}"
        )
        explain_call(error, "permute", ("input", "dims"), (input, dims))
        raise error
    order = tuple([wrap_dim(d, ndim) for d in dims])
    if len(set(order)) != ndim:
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return apply(Permute, (input,), (order,))


@api(
    method=False,
    samples=[Case(Draw(2, 3, 4), (2, 0, 1)), Case(Draw(2, 3), (-1, 0)), Case(Draw(), ())],
)
def permute(input: Any, dims: Any) -> Any:
    """permute(input, dims) -> Tensor: the dimensions in another order.

    >>> permute(zeros(2, 3, 4), (2, 0, 1)).shape
    torch.Size([4, 2, 3])
    """
    return permuted(input, as_ints("permute", "dims", 2, dims))


def permute_method(input: Any, *dims: Any, **kwargs: Any) -> Any:
    """permute(*dims) -> Tensor: the dimensions in another order."""
    if "dims" in kwargs:
        dims = (kwargs["dims"],)
    try:
        return permuted(input, ints_of_call("permute", "dims", dims))
    except AttributeError as error:
        raise unbound_call(error, "permute", input) from None


# A method that takes `1, 2` as well as `(1, 2)`, which the function does not.
METHODS = {"permute": permute_method}


@api(
    samples=[Case(Draw(2, 3, 4), 0, -1), Case(Draw(2, 3, 4), (0, 1), (2, 0))], aliases=("moveaxis",)
)
def movedim(input: Any, source: Any, destination: Any) -> Any:
    """movedim(input, source, destination) -> Tensor: dimensions moved, the others in their order.

    >>> zeros(2, 3, 4).movedim(0, -1).shape
    torch.Size([3, 4, 2])
    """
    single = is_index(source) and is_index(destination)
    if not single and not (
        isinstance(source, (tuple, list)) and isinstance(destination, (tuple, list))
    ):
        raise TypeError(
            "movedim() received an invalid combination of arguments - got "
            f"({type(source).__name__}, {type(destination).__name__}), but expected one of:"
        )
    given = ((source,), (destination,)) if single else (source, destination)
    if len(given[0]) != len(given[1]):
        raise RuntimeError(
            "movedim: Invalid source or destination dims: source "
            f"({list(given[0])} dims) should contain the same number of dims as destination "
            f"({list(given[1])} dims)"
        )
    ndim = input._array.ndim
    start, end = [[wrap_dim(operator.index(d), ndim) for d in dims] for dims in given]
    for name, dims, shown in (("source", start, given[0]), ("destination", end, given[1])):
        if len(set(dims)) != len(dims):
            raise RuntimeError(f"movedim: repeated dim in `{name}` ({list(shown)})")
    if not ndim:
        return apply(REGISTRY["alias"], (input,))
    rest = iter([d for d in range(ndim) if d not in start])
    places = dict(zip(end, start, strict=True))
    order = tuple([places[d] if d in places else next(rest) for d in range(ndim)])
    return apply(Permute, (input,), (order,))


def T_of(input: Any) -> Any:
    """All dimensions in reverse order."""
    ndim = input._array.ndim
    if ndim not in (0, 2):
        warn(
            "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is "
            "deprecated and it will throw an error in a future release. Consider `x.mT` to "
            "transpose batches of matrices or `x.permute(*torch.arange(x.ndim - 1, -1, -1))` to "
            "reverse the dimensions of a tensor.",
            UserWarning,
        )
    if ndim == 0:
        warn(
            "Tensor.T is deprecated on 0-D tensors. This function is the identity in these cases.",
            UserWarning,
        )
    return apply(Permute, (input,), (tuple(range(ndim))[::-1],))


def matrix_transpose(name: str, input: Any) -> Any:
    ndim = input._array.ndim
    if ndim == 1:
        raise RuntimeError(
            f"tensor.{name} is only supported on matrices or batches of matrices. Got {ndim}-D "
            "tensor."
        )
    return apply(Transpose, (input,), (ndim - 2, ndim - 1))


def mT(input: Any) -> Any:
    """The last two dimensions swapped.

    >>> zeros(5, 2, 3).mT.shape
    torch.Size([5, 3, 2])
    """
    if not input._array.ndim:
        warn(
            "Tensor.mT is deprecated on 0-D tensors. This function is the identity in these cases.",
            UserWarning,
        )
        return input
    return matrix_transpose("mT", input)


def H(input: Any) -> Any:
    """The conjugate transpose of a matrix.

    >>> tensor([[1 + 2j, 3j]]).H
    tensor([[1.-2.j],
            [0.-3.j]])
    """
    ndim = input._array.ndim
    if not ndim:
        warn(
            "Tensor.H is deprecated on 0-D tensors. Consider using x.conj().",
            UserWarning,
        )
        return conjugated(input)
    if ndim != 2:
        raise RuntimeError(
            f"tensor.H is only supported on matrices (2-D tensors). Got {ndim}-D tensor."
            + (" For batches of matrices, consider using tensor.mH" if ndim > 2 else "")
        )
    return conjugated(apply(Transpose, (input,), (0, 1)))


@api(samples=[Case(Draw(2, 3)), Case(Draw(2, 3, 4))])
def adjoint(input: Any) -> Any:
    """adjoint(input) -> Tensor: the conjugate transpose of the last two dimensions.

    >>> adjoint(zeros(2, 3)).shape
    torch.Size([3, 2])
    """
    return adjoint_named("adjoint()", input)


def mH(input: Any) -> Any:
    """The conjugate transpose of the last two dimensions.

    >>> tensor([[1 + 2j, 3j]]).mH
    tensor([[1.-2.j],
            [0.-3.j]])
    """
    return adjoint_named("mH", input)


def adjoint_named(name: str, input: Any) -> Any:
    if not input._array.ndim:
        shown = name if name == "adjoint()" else f"Tensor.{name}"
        warn(
            f"{shown} is deprecated on 0-D tensors. Consider using x.conj().",
            UserWarning,
        )
        return conjugated(input)
    return conjugated(matrix_transpose(name, input))


def conjugated(t: Any) -> Any:
    return t.conj() if t._array.dtype.kind == "c" else t


# Attributes of Tensor that are views (more in dim_views.py).
PROPERTIES: dict[str, Any] = {"T": T_of, "mT": mT, "H": H, "mH": mH}
