"""Views: other shapes of the same memory. (Orders are in dim_order.py, parts in part_views.py.)"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ... import dtypes, errors
from ...core.arguments import wrap_dim
from ...core.base import Cut, TensorBase, wrap
from ...core.function_modes import WATCHED, ask_watchers, is_watched
from ...core.late_bound import TENSOR
from ...core.python_dispatch import ACTIVE
from ...core.strides import strided, strides_of, viewed_strides
from ...core.transforms.batched import is_batched, through
from ...device import contiguous_format
from ...kernels.cpu import KERNELS
from ..block import Case, ViewOp, api, apply, helper, op
from ..block.checks import as_int, as_ints, ints_of_call
from ..block.samples import Draw
from ..block.shapes import asked_shape

# ruff: noqa: N805

# ------------------------------------------------------------------ arguments


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


LARGE = 4096  # elements: of so many our copies of what is turned are faster than NumPy's


def reshaped(input: Any, shape: tuple[int, ...]) -> Any:
    """A view if the strides allow one, else a copy."""
    x = input._array
    if x.flags.c_contiguous:
        return apply(View, (input,), (shape,))
    if viewed_strides(x.shape, x.strides, shape, x.itemsize) is not None:
        # Where somebody looks at the ops, PyTorch calls it by its public name.
        return apply(View if ACTIVE.modes else ReshapeAlias, (input,), (shape,))
    return apply(UnsafeView, (input.clone(memory_format=contiguous_format),), (shape,))


def raw_reshape(x: Any, shape: tuple[int, ...]) -> Any:
    if (
        KERNELS is not None
        and type(x) is np.ndarray
        and x.size >= LARGE
        and not x.flags.c_contiguous
        and viewed_strides(x.shape, x.strides, shape, x.itemsize) is None
    ):
        return KERNELS.copied(x).reshape(shape)
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
            return viewed(input, full_shape(tuple(given), input._array.size))
        except AttributeError as error:
            raise errors.unbound_call(error, "view", input) from None
        except RuntimeError as error:
            errors.explain_call(error, "view", ("input", "size"), (input, given))
            raise
    if size is not None and not shape:
        shape = (size,)
    if dtype is not None and not shape:
        shape = (dtype,)
    first = shape[0] if len(shape) == 1 else None
    if isinstance(first, dtypes.dtype):
        if WATCHED and is_watched((input,), {}):
            return ask_watchers(TENSOR.cls.view, (input, first), {})
        return view_dtype(input, first)
    sizes = first if isinstance(first, (tuple, list)) else shape
    if not shape or not all([hasattr(n, "__index__") for n in sizes]):
        got = ", ".join([type(n).__name__ for n in shape])
        raise TypeError(
            f"view() received an invalid combination of arguments - got ({got}), but "
            "expected one of:\n * (torch.dtype dtype)\n * (tuple of ints size)\n"
        )
    try:
        found = full_shape(tuple([operator.index(n) for n in sizes]), input._array.size)
        return viewed(input, found)
    except RuntimeError as error:
        errors.explain_call(error, "view", ("input", "size"), (input, sizes))
        raise


def viewed(input: Any, shape: tuple[int, ...]) -> Any:
    if input._special and is_batched(input):
        x = input._array
        # The rule for batches would make a copy.
        if viewed_strides(x.shape, x.strides, shape, x.itemsize) is None:
            raise RuntimeError(NO_VIEW)
    return apply(View, (input,), (shape,))


NEGATIVES = "tensors with negative bit set"


def view_dtype(input: Any, dtype: dtypes.dtype) -> Any:
    """A view that reads the memory as another dtype; gradients do not pass."""
    if is_batched(input):
        return through(lambda t: view_dtype(t, dtype), input)
    x = input._array
    for has, kind in ((input.is_conj(), "conjugate view tensors"), (input.is_neg(), NEGATIVES)):
        if has:
            raise RuntimeError(
                f"torch.Tensor.view is not supported for {kind} when converting to a different "
                "dtype."
            )
    old = dtypes.of(x.dtype)
    if dtype.itemsize != old.itemsize:
        check_dtype_view(input, old, dtype)
    t = wrap(x.view(dtype.np))
    t._cell = input._version_cell()
    t._cut = Cut("view") if input._wants_grad else input._cut
    return t


def check_dtype_view(input: Any, old: dtypes.dtype, new: dtypes.dtype) -> None:
    x = input._array
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
    return other._array.shape


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
    return reshaped(input, full_shape(sizes, input._array.size))


def reshape_method(input: Any, *shape: Any, **kwargs: Any) -> Any:
    """reshape(*shape) -> Tensor: another shape; a view where strides allow, else a copy."""
    if "shape" in kwargs:
        shape = (kwargs["shape"],)
    sizes = ints_of_call("reshape", "shape", shape)
    try:
        return reshaped(input, full_shape(sizes, input._array.size))
    except AttributeError as error:
        raise errors.unbound_call(error, "reshape", input) from None
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
    shape = input._array.shape
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
    shape = input._array.shape
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


# Methods that take `1, 2` as well as `(1, 2)`, where a function of that name does not.
METHODS = {"view": view, "reshape": reshape_method}
