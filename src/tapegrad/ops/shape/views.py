"""Views: other shapes and orders of the same memory. (Parts of it are in part_views.py.)"""

from __future__ import annotations

import operator
import warnings
from typing import Any

from ... import dtypes, errors
from ..._tensor.indexing import wrap_dim
from ...autograd.inplace import repoint
from ...core.base import Cut, TensorBase, wrap
from ...core.layout import settled, strided, strides_of, viewed_strides
from ...core.op import REGISTRY
from ...core.transforms.batched import is_batched, through
from ...device import contiguous_format
from ..block import Case, ViewOp, api, apply, helper, op
from ..block.batching import up
from ..block.samples import Draw
from ..block.shapes import asked_shape, swapped_shape

# ruff: noqa: N805

# ------------------------------------------------------------------ arguments


def as_int(function: str, argument: str, position: int, value: Any) -> int:
    """An int, or something that stands for one."""
    if type(value) is int:
        return value
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(
            f"{function}(): argument '{argument}' (position {position}) must be int, "
            f"not {type(value).__name__}"
        ) from None


def as_ints(function: str, argument: str, position: int, values: Any) -> tuple[int, ...]:
    """A tuple of ints from one."""
    start = f"{function}(): argument '{argument}' (position {position}) must be tuple of ints, "
    if not isinstance(values, (tuple, list)):
        raise TypeError(start + f"not {type(values).__name__}")
    for i, value in enumerate(values):
        if type(value) is not int and not hasattr(value, "__index__"):
            raise TypeError(start + f"but found element of type {type(value).__name__} at pos {i}")
    return tuple([operator.index(v) for v in values])


def ints_of_call(function: str, argument: str, values: tuple[Any, ...]) -> tuple[int, ...]:
    """The ints of `f(1, 2)` or of `f((1, 2))`."""
    if values and all([type(v) is int for v in values]):
        return values
    if len(values) == 1 and isinstance(values[0], (tuple, list)):
        return as_ints(function, argument, 1, values[0])
    if not values:
        raise TypeError(f'{function}() missing 1 required positional arguments: "{argument}"')
    if not hasattr(values[0], "__index__"):
        raise TypeError(
            f"{function}(): argument '{argument}' (position 1) must be tuple of ints, "
            f"not {type(values[0]).__name__}"
        )
    for i, value in enumerate(values):
        if not hasattr(value, "__index__"):
            raise TypeError(
                f"{function}(): argument '{argument}' failed to unpack the object at pos "
                f'{i + 1} with error "type must be tuple of ints,but got '
                f'{type(value).__name__}"'
            )
    return tuple([operator.index(v) for v in values])


def full_shape(shape: tuple[int, ...], count: int) -> tuple[int, ...]:
    """`shape` with -1 replaced by what `count` elements leave for it."""
    product, unknown = 1, -1
    for i, n in enumerate(shape):
        if n == -1:
            if unknown >= 0:
                raise RuntimeError("only one dimension can be inferred")
            unknown = i
        elif n < 0:
            raise RuntimeError(f"invalid shape dimension {n} at index {i} of shape {list(shape)}")
        else:
            product *= n
    if unknown < 0 and product == count:
        return shape
    if unknown < 0 or (product and count % product) or (not product and count):
        raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {count}")
    if not product:
        raise RuntimeError(
            f"cannot reshape tensor of 0 elements into shape {list(shape)} because the unspecified "
            "dimension size -1 can be any value and is ambiguous"
        )
    return (*shape[:unknown], count // product, *shape[unknown + 1 :])


# ------------------------------------------------------------------ shape


NO_VIEW = (
    "view size is not compatible with input tensor's size and stride (at least one dimension spans "
    "across two contiguous subspaces). Use .reshape(...) instead."
)


class Viewing(ViewOp):
    public = False
    shapes = ("shape",)
    shape = asked_shape

    def fwd(xp, input, shape):
        if 1 not in input.shape and input.size and input.flags.c_contiguous:
            return input.reshape(shape)
        strides = viewed_strides(input.shape, strides_of(input), shape, input.itemsize)
        if strides is None:
            raise RuntimeError(NO_VIEW)
        return strided(xp, input, shape, strides)

    def d_input(F, grad, input_shape):
        return F.reshape(grad, input_shape)


@op
class View(Viewing):
    """view(input, shape) -> Tensor: the same memory in another shape."""

    aten = "view"


@op
class ReshapeAlias(Viewing):
    """reshape_alias(input, shape) -> Tensor: a view of memory that is not contiguous."""

    aten = "view"


@op
class UnsafeView(Viewing):
    """unsafe_view(input, shape) -> Tensor: a view of memory that nobody else holds."""

    aten = "_unsafe_view"
    view = False

    def aten_call(input, size):
        return input.reshape(size)


class Whole(ViewOp):
    public = False
    leading = (0,)

    def fwd(xp, input):
        return input.view()

    def d_input(F, grad):
        return grad


@op
class Alias(Whole):
    """alias(input) -> Tensor: the whole of it, as a view (`x[...]`)."""

    aten = "alias"


@op
class FwPrimal(Whole):
    """fw_primal(input) -> Tensor: what `unpack_dual` gives for the value of a dual tensor."""

    node = "torch::autograd::Identity"
    aten = "_fw_primal"


def reshaped(input: Any, shape: tuple[int, ...]) -> Any:
    """A view if the strides allow one, else a copy."""
    x = input.array
    if x.flags.c_contiguous:
        return apply(View, (input,), (shape,))
    if viewed_strides(x.shape, x.strides, shape, x.itemsize) is not None:
        return apply(ReshapeAlias, (input,), (shape,))
    return apply(UnsafeView, (input.clone(memory_format=contiguous_format),), (shape,))


def raw_reshape(x: Any, shape: tuple[int, ...]) -> Any:
    return x.reshape(shape)


# Where rules say view or reshape, a copy is as good.
helper("reshape", raw_reshape, reshaped)
helper("view", raw_reshape, reshaped)


def view(input: Any, *shape: Any, size: Any = None, dtype: Any = None) -> Any:
    """view(input, *shape) -> Tensor: the same memory in another shape, or read as another dtype.

    >>> arange(6).view(2, -1)
    tensor([[0, 1, 2],
            [3, 4, 5]])
    """
    given = shape[0] if len(shape) == 1 else shape
    if type(given) is int:
        given = shape
    if shape and isinstance(given, tuple) and all([type(n) is int for n in given]):
        try:
            return viewed(input, full_shape(tuple(given), input.array.size))
        except RuntimeError as error:
            errors.explain_call(error, "view", ("input", "size"), (input, given))
            raise
    if size is not None and not shape:
        shape = (size,)
    if dtype is not None and not shape:
        shape = (dtype,)
    first = shape[0] if len(shape) == 1 else None
    if isinstance(first, dtypes.dtype):
        return view_dtype(input, first)
    sizes = first if isinstance(first, (tuple, list)) else shape
    if not shape or not all([hasattr(n, "__index__") for n in sizes]):
        got = ", ".join([type(n).__name__ for n in shape])
        raise TypeError(
            f"view() received an invalid combination of arguments - got ({got}), but "
            "expected one of:\n * (torch.dtype dtype)\n * (tuple of ints size)\n"
        )
    try:
        found = full_shape(tuple([operator.index(n) for n in sizes]), input.array.size)
        return viewed(input, found)
    except RuntimeError as error:
        errors.explain_call(error, "view", ("input", "size"), (input, sizes))
        raise


def viewed(input: Any, shape: tuple[int, ...]) -> Any:
    if input.special and is_batched(input):
        x = input.array
        # The rule for batches would make a copy.
        if viewed_strides(x.shape, x.strides, shape, x.itemsize) is None:
            raise RuntimeError(NO_VIEW)
    return apply(View, (input,), (shape,))


def view_dtype(input: Any, dtype: dtypes.dtype) -> Any:
    """The same memory read as another dtype; gradients do not pass."""
    if is_batched(input):
        return through(lambda t: view_dtype(t, dtype), input)
    x = input.array
    old = dtypes.of(x.dtype)
    if dtype.itemsize != old.itemsize:
        check_dtype_view(input, old, dtype)
    t = wrap(x.view(dtype.np))
    t.cell = input.version_cell()
    t.cut = Cut("view") if input.wants_grad else input.cut
    return t


def check_dtype_view(input: Any, old: dtypes.dtype, new: dtypes.dtype) -> None:
    x = input.array
    names = f"to view {old.scalar_type} as {new.scalar_type} (different element sizes)"
    if not x.ndim:
        raise RuntimeError(f"self.dim() cannot be 0 {names}")
    step = x.strides[-1] // x.itemsize
    if step != 1:
        raise RuntimeError(f"self.stride(-1) must be 1 {names}, but got {step}")
    ratio = new.itemsize // old.itemsize
    if ratio > 1:
        if x.shape[-1] % ratio:
            raise RuntimeError(
                f"self.size(-1) must be divisible by {ratio} {names}, but got {x.shape[-1]}"
            )
        if input.storage_offset() % ratio:
            raise RuntimeError(
                f"self.storage_offset() must be divisible by {ratio} {names}, but got "
                f"{input.storage_offset()}"
            )
        for d, s in enumerate(x.strides[:-1]):
            if s % new.itemsize:
                raise RuntimeError(
                    f"self.stride({d}) must be divisible by {ratio} {names}, but got "
                    f"{s // x.itemsize}"
                )


def shape_of(function: str, other: Any) -> Any:
    if not isinstance(other, TensorBase):
        raise errors.must_be_tensor(function, "other", 1, other)
    return other.array.shape


@api(function=False, samples=[Case(Draw(2, 3), Draw(3, 2))])
def view_as(input: Any, other: Any) -> Any:
    """view_as(input, other) -> Tensor: `input.view(other.shape)`.

    >>> arange(6).view_as(zeros(2, 3)).shape
    torch.Size([2, 3])
    """
    return view(input, shape_of("view_as", other))


@api(
    method=False,
    samples=[
        Case(Draw(2, 6), (3, 4)),
        Case(Draw(2, 3, layout="T"), (6,)),
        Case(Draw(0, 2), (2, 0)),
    ],
)
def reshape(input: Any, shape: Any) -> Any:
    """reshape(input, shape) -> Tensor: another shape; a view where strides allow, else a copy.

    >>> reshape(arange(4), (2, 2))
    tensor([[0, 1],
            [2, 3]])
    """
    sizes = as_ints("reshape", "shape", 2, shape)
    return reshaped(input, full_shape(sizes, input.array.size))


def reshape_method(input: Any, *shape: Any, **kwargs: Any) -> Any:
    """reshape(*shape) -> Tensor: another shape; a view where strides allow, else a copy."""
    if "shape" in kwargs:
        shape = (kwargs["shape"],)
    sizes = ints_of_call("reshape", "shape", shape)
    try:
        return reshaped(input, full_shape(sizes, input.array.size))
    except RuntimeError as error:
        errors.explain_call(error, "reshape", ("input", "shape"), (input, sizes))
        raise


@api(function=False, samples=[Case(Draw(2, 3, layout="T"), Draw(6))])
def reshape_as(input: Any, other: Any) -> Any:
    """reshape_as(input, other) -> Tensor: `input.reshape(other.shape)`.

    >>> arange(6).reshape_as(zeros(2, 3)).shape
    torch.Size([2, 3])
    """
    return reshape(input, shape_of("reshape_as", other))


@api(
    samples=[
        Case(Draw(2, 3, 2)),
        Case(Draw(2, 3, 2), 1),
        Case(Draw()),
        Case(Draw(2, 3, layout="T")),
    ]
)
def flatten(input: Any, start_dim: Any = 0, end_dim: Any = -1) -> Any:
    """flatten(input, start_dim=0, end_dim=-1) -> Tensor: a range of dimensions joined into one.

    >>> zeros(2, 3, 4).flatten(1).shape
    torch.Size([2, 12])
    """
    shape = input.array.shape
    start = wrap_dim(as_int("flatten", "start_dim", 1, start_dim), len(shape))
    end = wrap_dim(as_int("flatten", "end_dim", 2, end_dim), len(shape))
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if not shape:
        return reshaped(input, (1,))
    if start == end:
        return input
    count = 1
    for n in shape[start : end + 1]:
        count *= n
    return reshaped(input, (*shape[:start], count, *shape[end + 1 :]))


@api(samples=[Case(Draw(2, 6), 1, (2, 3)), Case(Draw(6), 0, (-1, 2))])
def unflatten(input: Any, dim: Any, sizes: Any) -> Any:
    """unflatten(input, dim, sizes) -> Tensor: one dimension cut up into several.

    >>> zeros(2, 6).unflatten(1, (2, 3)).shape
    torch.Size([2, 2, 3])
    """
    shape = input.array.shape
    d = wrap_dim(as_int("unflatten", "dim", 1, dim), len(shape))
    new = as_ints("unflatten", "sizes", 2, sizes)
    if not new:
        raise RuntimeError("unflatten: sizes must be non-empty")
    if not shape:
        raise RuntimeError(
            "unflatten got an unexpected error:\n"
            "Dimension specified as 0 but tensor has no dimensions"
        )
    try:
        new = full_shape(new, shape[d])
    except RuntimeError as error:
        if "is invalid for input" in str(error):
            raise RuntimeError(
                f"unflatten: Provided sizes {list(new)} don't multiply up to the size of dim {d} "
                f"({shape[d]}) in the input tensor"
            ) from None
        raise RuntimeError(f"unflatten got an unexpected error:\n{error}") from None
    return apply(View, (input,), ((*shape[:d], *new, *shape[d + 1 :]),))


@api(samples=[Case(Draw(2, 3)), Case(Draw(2, 3, layout="T")), Case(Draw())])
def ravel(input: Any) -> Any:
    """ravel(input) -> Tensor: all elements in one dimension.

    >>> ravel(tensor([[1, 2], [3, 4]]))
    tensor([1, 2, 3, 4])
    """
    return view(input.contiguous(), -1)


# ------------------------------------------------------------------ order of dimensions


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
    """transpose(input, dim0, dim1) -> Tensor: two dimensions swapped.

    >>> zeros(2, 3, 4).transpose(0, 2).shape
    torch.Size([4, 3, 2])
    """

    aten = "transpose.int"
    public = True
    samples = (Case(Draw(2, 3, 4), 0, 2), Case(Draw(2, 3), -1, -2), Case(Draw(), 0, -1))

    def call(input, dim0, dim1):
        ndim = input.array.ndim
        first = wrap_dim(as_int("transpose", "dim0", 1, dim0), ndim)
        return apply(
            Transpose, (input,), (first, wrap_dim(as_int("transpose", "dim1", 2, dim1), ndim))
        )


@op
class TransposeWrite(Transposing):
    """transpose_(input, dim0, dim1) -> Tensor: `transpose` of the tensor itself."""

    name, node = "transpose_", "TransposeBackward1"
    aten = "transpose_"


@api(samples=[Case(Draw(2, 3), 0, 1)], aliases=("swapaxes",))
def swapdims(
    input: Any, dim0: Any = None, dim1: Any = None, *, axis0: Any = None, axis1: Any = None
) -> Any:
    """swapdims(input, dim0, dim1) -> Tensor: another name of `transpose`.

    >>> zeros(2, 3).swapdims(0, 1).shape
    torch.Size([3, 2])
    """
    return input.transpose(axis0 if dim0 is None else dim0, axis1 if dim1 is None else dim1)


@api(function=False, aliases=("swapdims_", "swapaxes_"))
def transpose_(input: Any, dim0: Any, dim1: Any) -> Any:
    """transpose_(dim0, dim1) -> Tensor: swap two dimensions of this tensor itself.

    >>> zeros(2, 3).transpose_(0, 1).shape
    torch.Size([3, 2])
    """
    ndim = input.array.ndim
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
    check_t("t_", input.array.ndim)
    return repoint(TWrite, input, ())


def inverse_order(dims: tuple[int, ...]) -> tuple[int, ...]:
    """What puts permuted dimensions back."""
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
    ndim = input.array.ndim
    if len(dims) != ndim:
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the "
            f"length of the desired ordering of dimensions i.e. input.dim() = {ndim} is not equal "
            f"to len(dims) = {len(dims)}"
        )
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
    return permuted(input, ints_of_call("permute", "dims", dims))


# Methods that take `1, 2` as well as `(1, 2)`, where a function of that name does not.
METHODS = {"view": view, "reshape": reshape_method, "permute": permute_method}


@api(
    samples=[Case(Draw(2, 3, 4), 0, -1), Case(Draw(2, 3, 4), (0, 1), (2, 0))], aliases=("moveaxis",)
)
def movedim(input: Any, source: Any, destination: Any) -> Any:
    """movedim(input, source, destination) -> Tensor: dimensions moved, the others in their order.

    >>> zeros(2, 3, 4).movedim(0, -1).shape
    torch.Size([3, 4, 2])
    """
    single = hasattr(source, "__index__") and hasattr(destination, "__index__")
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
    ndim = input.array.ndim
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
    ndim = input.array.ndim
    if ndim not in (0, 2):
        warnings.warn(
            "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is "
            "deprecated and it will throw an error in a future release. Consider `x.mT` to "
            "transpose batches of matrices or `x.permute(*torch.arange(x.ndim - 1, -1, -1))` to "
            "reverse the dimensions of a tensor.",
            UserWarning,
            stacklevel=3,
        )
    if ndim == 0:
        warnings.warn(
            "Tensor.T is deprecated on 0-D tensors. This function is the identity in these cases.",
            UserWarning,
            stacklevel=3,
        )
    return apply(Permute, (input,), (tuple(range(ndim))[::-1],))


def matrix_transpose(name: str, input: Any) -> Any:
    ndim = input.array.ndim
    if ndim == 1:
        raise RuntimeError(
            f"tensor.{name} is only supported on matrices or batches of matrices. Got {ndim}-D "
            "tensor."
        )
    return apply(Transpose, (input,), (ndim - 2, ndim - 1))


def mT(input: Any) -> Any:
    """The last two dimensions swapped."""
    if not input.array.ndim:
        warnings.warn(
            "Tensor.mT is deprecated on 0-D tensors. This function is the identity in these cases.",
            UserWarning,
            stacklevel=3,
        )
        return input
    return matrix_transpose("mT", input)


def H(input: Any) -> Any:
    """The conjugate transpose of a matrix."""
    ndim = input.array.ndim
    if not ndim:
        warnings.warn(
            "Tensor.H is deprecated on 0-D tensors. Consider using x.conj().",
            UserWarning,
            stacklevel=3,
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
    """The conjugate transpose of the last two dimensions."""
    return adjoint_named("mH", input)


def adjoint_named(name: str, input: Any) -> Any:
    if not input.array.ndim:
        shown = name if name == "adjoint()" else f"Tensor.{name}"
        warnings.warn(
            f"{shown} is deprecated on 0-D tensors. Consider using x.conj().",
            UserWarning,
            stacklevel=4,
        )
        return conjugated(input)
    return conjugated(matrix_transpose(name, input))


def conjugated(t: Any) -> Any:
    return t.conj() if t.array.dtype.kind == "c" else t


# Attributes of Tensor that are views (more in dim_views.py).
PROPERTIES = {"T": T_of, "mT": mT, "H": H, "mH": mH}
