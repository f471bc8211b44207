"""The largest and the smallest: their values, where they are, and what holds for all or any."""

from __future__ import annotations

from typing import Any

from ... import dtypes
from ...core.base import TensorBase
from ...core.host_arrays import host
from ...core.named_results import return_type
from ...core.strides import contiguous, repacked
from ..block import APIS, Block, Case, api, apply, op
from ..block.batching import entry_dims, flattened, up
from ..block.checks import OUT_EXACT, all_dims, array_of, one_dim, only_bool
from ..block.samples import Draw
from ..block.shapes import no_dims
from .sums import DIMS_CASES, REDUCTION_CASES, unreduce

# ruff: noqa: N805, E704

OUT_BOOL = "{name} only supports bool tensor for result, got: {got}"
OUT_MATCHES = (
    "Expected the dtype for input and out to match, but got {want} for input's dtype and {got} for "
    "out's dtype."
)

MAX_FORMS = ("", "Tensor other", "int dim, bool keepdim = False")


MaxResult = return_type("max", ("values", "indices"))
MinResult = return_type("min", ("values", "indices"))
AminmaxResult = return_type("aminmax", ("min", "max"))


def check_no_complex(kernel: str, array: Any) -> None:
    if array.dtype.kind == "c":
        raise NotImplementedError(
            f"\"{kernel}\" not implemented for '{dtypes.of(array.dtype).scalar_type}'"
        )


def check_not_empty(function: str, array: Any, dims: tuple[int, ...] | None) -> None:
    """An empty set has no extremum."""
    if array.size:
        return
    if dims is None:
        raise RuntimeError(
            f"{function}(): Expected reduction dim to be specified for "
            "input.numel() == 0. Specify the reduction dim with the 'dim' argument."
        )
    for d in dims:
        if array.shape[d] == 0:
            raise IndexError(f"{function}(): Expected reduction dim {d} to have non-zero size.")


def shared(F: Any, grad: Any, input: Any, out: Any, dim: Any) -> Any:
    """Every element that equals the extremum gets the same part of the gradient."""
    mask = F.where(input == out, F.ones_like(input), 0)
    return grad * mask / F.sum(mask, dim, True, None)


def shared_tangent(F: Any, input: Any, t: Any, out: Any, dim: Any, keepdim: bool) -> Any:
    mask = F.where(input == unreduce(F, out, dim, keepdim), F.ones_like(input), 0)
    return F.sum(mask * t, dim, keepdim, None) / F.sum(mask, dim, keepdim, None)


class WholeExtremum(Block):
    """One extremum of all elements; a NaN is the extremum, and shares with the other NaNs."""

    public = False
    shape = no_dims

    def d_input(F, grad, input, out):
        match = F.where(out == out, input == out, input != input)
        mask = F.where(match, F.ones_like(input), 0)
        return F.where(match, grad / F.sum(mask, None, False, None), 0)

    def jvp(F, input, t_input, out):
        return shared_tangent(F, input, t_input, out, None, False)


@op
class MaxAll(WholeExtremum):
    """max_all(input) -> Tensor: the largest element."""

    node = "MaxBackward1"
    aten = "max"
    gradient_text = {"input": "grad where input is the maximum (shared by ties), else 0"}
    onnx = "ReduceMax"

    def fwd(xp, input):
        return xp.maximum.reduce(input, axis=None)

    def batch(F, size, batched, input):
        return F.amax(input, entry_dims(input), False)


@op
class MinAll(WholeExtremum):
    """min_all(input) -> Tensor: the smallest element."""

    node = "MinBackward1"
    aten = "min"
    gradient_text = {"input": "grad where input is the minimum (shared by ties), else 0"}
    onnx = "ReduceMin"

    def fwd(xp, input):
        return xp.minimum.reduce(input, axis=None)

    def batch(F, size, batched, input):
        return F.amin(input, entry_dims(input), False)


class ExtremumAlong(Block):
    """Extrema along one dimension and where they are; the first of equals gets the gradient."""

    public = False
    outs = ("values", "indices")
    plain_outs = positions = (1,)
    dims = ("dim",)

    def d_input(F, grad, indices, input_shape, dim, keepdim):
        grad = grad[0]
        if not input_shape:
            return grad
        if not keepdim:
            grad = F.unsqueeze(grad, dim)
            indices = F.unsqueeze(indices, dim)
        empty = F.expand(F.zeros_like(grad), input_shape)
        return F.scatter_add(empty, indices, grad, dim)

    def jvp(F, t_input, indices, dim, keepdim):
        if not t_input.shape:
            return t_input, None
        if keepdim:
            return F.gather(t_input, indices, dim), None
        return F.squeeze(F.gather(t_input, F.unsqueeze(indices, dim), dim), (dim,)), None


def taken(xp: Any, x: Any, indices: Any, dim: int, keepdim: bool) -> Any:
    """The elements at `indices` along `dim`, and the indices."""
    if x.ndim == 2 and not keepdim:
        every = xp.arange(indices.size)
        return x[(every, indices) if dim else (indices, every)], contiguous(xp, indices)
    indices = xp.expand_dims(indices, dim)
    values = xp.take_along_axis(x, indices, axis=dim)
    if not keepdim:
        values, indices = values.squeeze(dim), indices.squeeze(dim)
    return contiguous(xp, values), contiguous(xp, indices)


@op
class Max(ExtremumAlong):
    """max(input, dim, keepdim) -> (Tensor, LongTensor): the largest along a dimension."""

    aten = "max.dim"
    result = MaxResult
    gradient_text = {"input": "grad at the maximum along dim, else 0"}

    def fwd(xp, input, dim, keepdim):
        if not input.ndim:
            return input.copy(), xp.zeros((), xp.int64)
        return taken(xp, input, input.argmax(dim), dim, keepdim)


@op
class Min(ExtremumAlong):
    """min(input, dim, keepdim) -> (Tensor, LongTensor): the smallest along a dimension."""

    aten = "min.dim"
    result = MinResult
    gradient_text = {"input": "grad at the minimum along dim, else 0"}

    def fwd(xp, input, dim, keepdim):
        if not input.ndim:
            return input.copy(), xp.zeros((), xp.int64)
        return taken(xp, input, input.argmin(dim), dim, keepdim)


MAX_CASES = [*REDUCTION_CASES, Case(Draw(2, 3), Draw(3))]


def extremum(
    name: str, whole: Any, along: Any, input: Any, dim: Any, keepdim: bool, other: Any
) -> Any:
    """The three functions that `max` is, and the three that `min` is."""
    array = array_of(name, input)
    if other is None and isinstance(dim, TensorBase) and not keepdim:
        other = dim
    if other is not None:
        return APIS[name + "imum"].call(input, other)
    if dim is None:
        check_not_empty(name, array, None)
        check_no_complex(f"{name}_all", array)
        return apply(whole, (input,))
    place = one_dim(name, input, dim, MAX_FORMS)
    only_bool(name, "keepdim", 3, keepdim)
    check_not_empty(name, array, (place,))
    if array.dtype.kind == "c":
        raise RuntimeError(f"{name}(): does not support complex input")
    check_not_empty(name, array, (place,))
    return apply(along, (input,), (place, keepdim))


@api(samples=MAX_CASES)
def max(input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """max(input, dim=None, keepdim=False, *, other=None) -> Tensor or tuple: the largest element,
    or with `dim` the largest along it and where.

    Of all; along `dim`, as (values, indices); or elementwise of two tensors.

    >>> max(tensor([[1.0, 3.0], [5.0, 2.0]]), 1)
    torch.return_types.max(
    values=tensor([3., 5.]),
    indices=tensor([1, 0]))
    """
    return extremum("max", MaxAll, Max, input, dim, keepdim, other)


@api(samples=MAX_CASES)
def min(input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """min(input, dim=None, keepdim=False, *, other=None) -> Tensor or tuple: the smallest element,
    or with `dim` the smallest along it and where.

    Of all; along `dim`, as (values, indices); or elementwise of two tensors.

    >>> min(tensor([[1.0, 3.0], [5.0, 2.0]]))
    tensor(1.)
    """
    return extremum("min", MinAll, Min, input, dim, keepdim, other)


class SharedExtremum(Block):
    """Equals share the gradient."""

    out_dtype = OUT_MATCHES
    samples = (*REDUCTION_CASES, *DIMS_CASES)
    dims = ("dim",)

    def d_input(F, grad, input, out, dim, keepdim):
        out = unreduce(F, out, dim, keepdim)
        return shared(F, unreduce(F, grad, dim, keepdim), input, out, dim)

    def jvp(F, input, t_input, out, dim, keepdim):
        return shared_tangent(F, input, t_input, out, dim, keepdim)


@op
class Amax(SharedExtremum):
    """amax(input, dim=(), keepdim=False) -> Tensor: the largest; equals share the gradient.

    >>> tensor([[1.0, 3.0], [5.0, 2.0]]).amax(0)
    tensor([5., 3.])
    """

    onnx = "ReduceMax"

    def fwd(xp, input, dim, keepdim):
        return repacked(xp, xp.maximum.reduce(input, axis=dim, keepdims=keepdim))

    def call(input, dim=(), keepdim=False):
        return shared_extremum(Amax, "max_values_cpu", input, dim, keepdim)


@op
class Amin(SharedExtremum):
    """amin(input, dim=(), keepdim=False) -> Tensor: the smallest; equals share the gradient.

    >>> tensor([[1.0, 3.0], [5.0, 2.0]]).amin(0)
    tensor([1., 2.])
    """

    onnx = "ReduceMin"

    def fwd(xp, input, dim, keepdim):
        return repacked(xp, xp.minimum.reduce(input, axis=dim, keepdims=keepdim))

    def call(input, dim=(), keepdim=False):
        return shared_extremum(Amin, "min_values_cpu", input, dim, keepdim)


def shared_extremum(record: Any, kernel: str, input: Any, dim: Any, keepdim: bool) -> Any:
    dims = all_dims(record.name, input, dim)
    only_bool(record.name, "keepdim", 3, keepdim)
    check_not_empty(record.name, input._array, dims)
    if input._array.size:
        check_no_complex(kernel, input._array)
    return apply(record, (input,), (dims, keepdim))


@op
class Aminmax(Block):
    """aminmax(input, *, dim=None, keepdim=False) -> (min, max): the smallest and the largest.

    >>> aminmax(tensor([1.0, 3.0, 2.0]))
    torch.return_types.aminmax(
    min=tensor(1.),
    max=tensor(3.))
    """

    outs = ("min", "max")
    result = AminmaxResult
    out_dtype = OUT_EXACT
    samples = (
        Case(Draw(3, 4)),
        Case(Draw()),
        Case(Draw(2, 3, 4), dim=1),
        Case(Draw(4, 3, layout="T"), dim=-1, keepdim=True),
        Case(Draw(2, 0), dim=0),
    )

    def fwd(xp, input, dim, keepdim):
        return (
            contiguous(xp, xp.minimum.reduce(input, axis=dim, keepdims=keepdim)),
            contiguous(xp, xp.maximum.reduce(input, axis=dim, keepdims=keepdim)),
        )

    def d_input(F, grad, input, min, max, dim, keepdim):
        low, high = [unreduce(F, g, dim, keepdim) for g in grad]
        return shared(F, low, input, unreduce(F, min, dim, keepdim), dim) + shared(
            F, high, input, unreduce(F, max, dim, keepdim), dim
        )

    def jvp(F, input, t_input, min, max, dim, keepdim):
        return (
            shared_tangent(F, input, t_input, min, dim, keepdim),
            shared_tangent(F, input, t_input, max, dim, keepdim),
        )

    def call(input, *, dim=None, keepdim=False):
        array = array_of("aminmax", input)
        place = None if dim is None else one_dim("aminmax", input, dim)
        only_bool("aminmax", "keepdim", 3, keepdim)
        if place is None and not array.size:
            raise RuntimeError(
                "aminmax(): cannot compute aminmax over an empty dimension as the "
                "operation has no identity."
            )
        if place is not None and array.ndim and array.shape[place] == 0:
            raise IndexError(f"aminmax: Expected reduction dim {place} to have non-zero size.")
        check_no_complex("aminmax_cpu", array)
        dims = (place,) if place is not None and array.ndim else None
        return apply(Aminmax, (input,), (dims, keepdim))

    def batch(F, size, batched, input, dim, keepdim):
        return F.aminmax(input, up(dim, len(input.shape)), keepdim)


def where_extremum(record: Any, input: Any, dim: Any, keepdim: bool) -> Any:
    name = record.name
    array = array_of(name, input)
    if array.dtype.kind in "bc":
        kind = "bool" if array.dtype.kind == "b" else "complex"
        raise RuntimeError(f"{name}(): does not support {kind} input")
    place = None if dim is None else one_dim(name, input, dim)
    only_bool(name, "keepdim", 3, keepdim)
    if not array.size:
        if place is None:
            raise IndexError(
                f"{name}(): Expected reduction dim to be specified for input.numel() == 0."
            )
        check_not_empty(name, array, (place,))
    return apply(record, (input,), (place if array.ndim else None, keepdim))


ARG_CASES = [case for case in MAX_CASES if len(case.args) < 2 or not isinstance(case.args[1], Draw)]


def arg_over_batch(F: Any, which: Any, size: int, input: Any, dim: Any, keepdim: bool) -> Any:
    """argmax or argmin of every entry; without `dim` they count through the flat entry."""
    if dim is not None:
        return which(input, dim + 1, keepdim)
    found = which(flattened(F, input), 1, False)
    return F.reshape(found, (size, *(1,) * (len(input.shape) - 1))) if keepdim else found


class WhereExtremum(Block):
    """The place of an extreme element."""

    out_dtype = OUT_EXACT
    undifferentiable = "the results are indices"
    positions = (0,)
    samples = ARG_CASES


@op
class Argmax(WhereExtremum):
    """argmax(input, dim=None, keepdim=False) -> LongTensor: where the largest element is.

    >>> argmax(tensor([[1.0, 3.0], [5.0, 2.0]])), argmax(tensor([[1.0, 3.0], [5.0, 2.0]]), 1)
    (tensor(2), tensor([1, 0]))
    """

    onnx = "ArgMax"

    def fwd(xp, input, dim, keepdim):
        return contiguous(xp, xp.argmax(input, axis=dim, keepdims=keepdim))

    def call(input, dim=None, keepdim=False):
        return where_extremum(Argmax, input, dim, keepdim)

    def batch(F, size, batched, input, dim, keepdim):
        return arg_over_batch(F, F.argmax, size, input, dim, keepdim)


@op
class Argmin(WhereExtremum):
    """argmin(input, dim=None, keepdim=False) -> LongTensor: where the smallest element is.

    >>> argmin(tensor([[1.0, 3.0], [5.0, 2.0]])), argmin(tensor([[1.0, 3.0], [5.0, 2.0]]), 1)
    (tensor(0), tensor([0, 1]))
    """

    onnx = "ArgMin"

    def fwd(xp, input, dim, keepdim):
        return contiguous(xp, xp.argmin(input, axis=dim, keepdims=keepdim))

    def call(input, dim=None, keepdim=False):
        return where_extremum(Argmin, input, dim, keepdim)

    def batch(F, size, batched, input, dim, keepdim):
        return arg_over_batch(F, F.argmin, size, input, dim, keepdim)


def truth(record: Any, input: Any, dim: Any, keepdim: bool) -> Any:
    dims = all_dims(record.name, input, dim)
    only_bool(record.name, "keepdim", 3, keepdim)
    if isinstance(dim, (tuple, list)) and not len(dim):
        dims = ()  # unlike elsewhere: no dimension, not every one
    return apply(record, (input,), (dims, keepdim))


class Truth(Block):
    """A reduction of truth values. The result is bool; uint8, PyTorch's bool once, stays uint8."""

    aten_dim = ("dim", "dims")
    out_dtype = OUT_BOOL
    undifferentiable = "the result is a bool"
    samples = (*REDUCTION_CASES, *DIMS_CASES)
    dims = ("dim",)


def reduced_truth(xp: Any, ufunc: Any, x: Any, dim: Any, keepdim: bool) -> Any:
    out = contiguous(xp, ufunc.reduce(x, axis=dim, keepdims=keepdim))
    return out.astype(x.dtype if x.dtype == xp.uint8 else xp.bool_, copy=False)


@op
class All(Truth):
    """all(input, dim=None, keepdim=False) -> Tensor: whether every element is true (not zero).

    >>> tensor([[True, False], [True, True]]).all(1)
    tensor([False,  True])
    """

    def fwd(xp, input, dim, keepdim):
        return reduced_truth(xp, xp.logical_and, input, dim, keepdim)

    def call(input, dim=None, keepdim=False):
        return truth(All, input, dim, keepdim)


@op
class Any_(Truth):
    """any(input, dim=None, keepdim=False) -> Tensor: whether some element is true (not zero).

    >>> tensor([[True, False], [False, False]]).any(1)
    tensor([ True, False])
    """

    name = "any"

    def fwd(xp, input, dim, keepdim):
        return reduced_truth(xp, xp.logical_or, input, dim, keepdim)

    def call(input, dim=None, keepdim=False):
        return truth(Any_, input, dim, keepdim)


@op
class CountNonzero(Block):
    """count_nonzero(input, dim=None) -> LongTensor: how many elements are not zero.

    >>> count_nonzero(tensor([[1, 0], [2, 3]]), 0)
    tensor([2, 1])
    """

    aten_dim = ("", "dim_IntList")
    undifferentiable = "the results are counts"
    spread_ints = True
    samples = (
        Case(Draw(3, 4)),
        Case(Draw()),
        Case(Draw(2, 3, 4), (0, -1)),
        Case(Draw(2, 0), 1),
        Case(Draw(4, 3, layout="T"), dim=1),
    )
    dims = ("dim",)

    def fwd(xp, input, dim):
        if dim is None and xp is host and input.dtype.kind in "fiub":
            return xp.asarray(xp.count_nonzero(input), xp.int64)
        return contiguous(xp, xp.add.reduce(input != 0, axis=dim, dtype=xp.int64))

    def call(input, dim=None):
        return apply(CountNonzero, (input,), (all_dims("count_nonzero", input, dim),))
