"""Sums and their kin: many elements become one, along some dimensions or all of them."""

from __future__ import annotations

import math
from typing import Any

from ... import dtypes
from ...core.base import F32, F64, TensorBase
from ...core.python_dispatch import is_recorded
from ...core.rounding import half_as_single, rounded_to
from ...core.rule_functions import RAW
from ...core.strides import contiguous
from ..block import SINGLE, Autocast, Block, Case, Linear, api, apply, op, reads_as
from ..block.batching import entry_dims, flattened
from ..block.checks import all_dims, array_of, one_dim, only_bool, plain_dtype
from ..block.samples import Draw
from ..block.shapes import no_dims, reduced_shape

# ruff: noqa: N805, E704

# `sum()` and `sum(None)` are two functions in PyTorch, with two node names.
MISSING: Any = type("Missing", (), {"__repr__": lambda self: "..."})()

DTYPE_FORMS = (
    "*, torch.dtype dtype = None",
    "tuple of ints dim, bool keepdim = False, *, torch.dtype dtype = None",
)
PROD_FORMS = (DTYPE_FORMS[0], "int dim, bool keepdim = False, *, torch.dtype dtype = None")

REDUCTION_CASES = [
    Case(Draw(3, 4)),
    Case(Draw()),
    Case(Draw(3, 4), 0),
    Case(Draw(2, 3, 4), -2, True),
    Case(Draw(), -1),
    Case(Draw(2, 0), 0),
    Case(Draw(4, 3, layout="T"), 1),
    Case(Draw(2, 3, layout="step"), dim=1, keepdim=True),
]
DIMS_CASES = [
    Case(Draw(2, 3, 4), (0, 2)),
    Case(Draw(2, 3, 4), [-1, 0], keepdim=True),
    Case(Draw(4, 3, 2, layout="T"), (1,)),
    Case(Draw(2, 3), ()),
]


def count(shape: tuple[int, ...], dim: tuple[int, ...] | None) -> int:
    """How many elements become one."""
    return math.prod(shape) if dim is None else math.prod([shape[d] for d in dim])


def is_half(dtype: Any) -> bool:
    return dtype.itemsize == 2 and dtype.kind in "fV"


def computed_wide(xp: Any, x: Any) -> Any:
    """Half precision is only for storage: computing happens in single precision."""
    return half_as_single(x)


def single(xp: Any, x: Any) -> Any:
    return half_as_single(x) if is_half(x.dtype) else x.astype(xp.float32)


def reduced(xp: Any, ufunc: Any, x: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    """`ufunc` (add, multiply) over dimensions; integers widen, halves add up as float32."""
    if dtype is None and (x.dtype is F32 or x.dtype is F64):
        if dim is None and not keepdim and x.flags.c_contiguous:
            return ufunc.reduce(x.ravel())  # NumPy is fastest along one dimension
        axis = dim[0] if dim is not None and len(dim) == 1 else dim
        return contiguous(xp, ufunc.reduce(x, axis, None, None, keepdim))
    if dtype is None:
        dtype = xp.dtype(xp.int64) if x.dtype.kind in "biu" else x.dtype
    if is_half(dtype):
        out = ufunc.reduce(single(xp, x), axis=dim, keepdims=keepdim)
        return rounded_to(contiguous(xp, out), dtype)
    if x.dtype != dtype:
        x = x.astype(dtype)
    return contiguous(xp, ufunc.reduce(x, axis=dim, keepdims=keepdim, dtype=dtype))


@reads_as("unsqueeze(x, dim)")
def unreduce(F: Any, x: Any, dim: tuple[int, ...] | None, keepdim: bool) -> Any:
    """A reduction's result with its dimensions back, of size one, so that it broadcasts."""
    if keepdim or dim is None:
        return x
    if len(dim) == 1:
        return F.unsqueeze(x, dim[0])
    for d in sorted(dim):
        x = F.unsqueeze(x, d)
    return x


@op
class SumAll(Linear):
    """sum_all(input, dtype) -> Tensor: the sum of all elements."""

    node = "SumBackward0"
    aten = "sum"
    public = False
    gradient_text = {"input": "expand(grad, input.shape)"}
    shape = no_dims
    onnx = "ReduceSum"

    def fwd(xp, input, dtype):
        return reduced(xp, xp.add, input, None, False, dtype)

    def d_input(F, grad, input_shape):
        return F.expand(grad, input_shape)

    def batch(F, size, batched, input, dtype):
        return F.sum(input, entry_dims(input), False, dtype)


@op
class Sum(Linear):
    """sum(input, dim, keepdim, dtype) -> Tensor: sums over dimensions."""

    node = "SumBackward1"
    aten = "sum.dim_IntList"
    public = False
    dims = ("dim",)
    autocast = Autocast(gpu=SINGLE)
    gradient_text = {"input": "expand(grad, input.shape)"}
    formula = "sum(input, dim)"
    shape = reduced_shape
    onnx = "ReduceSum"

    def fwd(xp, input, dim, keepdim, dtype):
        return reduced(xp, xp.add, input, dim, keepdim, dtype)

    def d_input(F, grad, input_shape, dim, keepdim):
        return F.expand(unreduce(F, grad, dim, keepdim), input_shape)


@api(samples=[*REDUCTION_CASES, *DIMS_CASES], autocast=Autocast(gpu=SINGLE), out_decides=True)
def sum(input: Any, dim: Any = MISSING, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """sum(input, dim=None, keepdim=False, *, dtype=None) -> Tensor: the sum of the elements.

    Over all of them, or over the dimensions `dim`. Integers and bools add up as int64.

    >>> x = tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> x.sum(), x.sum(0)
    (tensor(10.), tensor([4., 6.]))
    """
    if dim is MISSING and dtype is None and isinstance(input, TensorBase):
        return apply(SumAll, (input,), (None,))
    if dim is MISSING:
        array_of("sum", input)
        return apply(SumAll, (input,), (plain_dtype("sum", dtype),))
    dims = all_dims("sum", input, dim, DTYPE_FORMS)
    only_bool("sum", "keepdim", 3, keepdim)
    return apply(Sum, (input,), (dims, keepdim, plain_dtype("sum", dtype)))


@op
class Nansum(Block):
    """nansum(input, dim=None, keepdim=False, *, dtype=None) -> Tensor: the sum, NaN taken as 0.

    >>> nansum(tensor([1.0, float("nan"), 2.0]))
    tensor(3.)
    """

    samples = (*REDUCTION_CASES, *DIMS_CASES)
    dims = ("dim",)

    def fwd(xp, input, dim, keepdim, dtype):
        if input.dtype.kind in "fV":
            input = xp.where(xp.isnan(input), input.dtype.type(0), input)
        return reduced(xp, xp.add, input, dim, keepdim, dtype)

    def d_input(F, grad, input, dim, keepdim):
        # Only a number equals itself.
        return F.expand(unreduce(F, grad, dim, keepdim), input.shape) * (input == input)

    def jvp(F, input, t_input, dim, keepdim, dtype):
        return F.sum(F.where(input == input, t_input, 0), dim, keepdim, dtype)

    def call(input, dim=None, keepdim=False, *, dtype=None):
        if array_of("nansum", input).dtype.kind == "c":
            raise RuntimeError("nansum on CPU does not support complex inputs")
        only_bool("nansum", "keepdim", 3, keepdim)
        return apply(
            Nansum,
            (input,),
            (all_dims("nansum", input, dim), keepdim, plain_dtype("nansum", dtype)),
        )


@op
class MeanAll(Linear):
    """mean_all(input, dtype) -> Tensor: the mean of all elements."""

    node = "MeanBackward0"
    aten = "mean"
    public = False
    gradient_text = {"input": "expand(grad, input.shape) / n, n = input.numel()"}
    shape = no_dims
    onnx = "ReduceMean"

    def fwd(xp, input, dtype):
        return averaged(xp, input, None, False, dtype)

    def d_input(F, grad, input_shape):
        return F.div_number(F.expand(grad, input_shape), count(input_shape, None))

    def batch(F, size, batched, input, dtype):
        return F.mean(input, entry_dims(input), False, dtype)


@op
class Mean(Linear):
    """mean(input, dim, keepdim, dtype) -> Tensor: means over dimensions."""

    node = "MeanBackward1"
    aten = "mean.dim"
    public = False
    dims = ("dim",)
    gradient_text = {"input": "expand(grad, input.shape) / n, n = how many were averaged"}
    shape = reduced_shape
    onnx = "ReduceMean"

    def fwd(xp, input, dim, keepdim, dtype):
        return averaged(xp, input, dim, keepdim, dtype)

    def d_input(F, grad, input_shape, dim, keepdim):
        full = F.expand(unreduce(F, grad, dim, keepdim), input_shape)
        return F.div_number(full, count(input_shape, dim))


def averaged(xp: Any, x: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    if dtype is None and (x.dtype is F32 or x.dtype is F64):
        return reduced(xp, xp.add, x, dim, keepdim, None) / count(x.shape, dim)
    want = x.dtype if dtype is None else dtype
    wide = xp.float32 if is_half(want) else want
    total = reduced(xp, xp.add, x, dim, keepdim, xp.dtype(wide))
    return xp.true_divide(total, count(x.shape, dim)).astype(want, copy=False)


@api(samples=[*REDUCTION_CASES, *DIMS_CASES])
def mean(input: Any, dim: Any = MISSING, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """mean(input, dim=None, keepdim=False, *, dtype=None) -> Tensor: the mean of the elements.

    >>> x = tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> x.mean(), x.mean(1, keepdim=True)
    (tensor(2.5000), tensor([[1.5000],
            [3.5000]]))
    """
    array = array_of("mean", input)
    wanted = plain_dtype("mean", dtype)
    source, kind = ("Input", array.dtype) if wanted is None else ("Optional", wanted)
    if kind.kind in "biu":
        raise RuntimeError(
            f"mean(): could not infer output dtype. {source} dtype must be either a "
            f"floating point or complex dtype. Got: {dtypes.of(kind).scalar_type}"
        )
    if dim is MISSING:
        return apply(MeanAll, (input,), (wanted,))
    dims = all_dims("mean", input, dim, DTYPE_FORMS)
    only_bool("mean", "keepdim", 3, keepdim)
    return apply(Mean, (input,), (dims, keepdim, wanted))


def others(F: Any, x: Any, dim: int) -> Any:
    """For each element the product of all others along `dim`: right also where some are zero."""
    size = x.shape[dim]
    if size == 0:
        return F.ones_like(x)
    first = F.ones_like(F.narrow(x, dim, 0, 1))
    before = F.cumprod(F.cat([first, F.narrow(x, dim, 0, size - 1)], dim), dim)
    back = F.flip(x, (dim,))
    after = F.cumprod(F.cat([first, F.narrow(back, dim, 0, size - 1)], dim), dim)
    return before * F.flip(after, (dim,))


def rest_of(F: Any, x: Any, product: Any, dim: int) -> Any:
    """For each element the product of all others, from the product of all: by a division unless
    some are zero. If it may be differentiated once more, by products alone.
    """
    if F.recorded:
        is_one_op = is_recorded() and F.is_final(x, product)
        return F.prod_others(x, product, dim) if is_one_op else others(F, x, dim)
    return product / x if bool((x != 0).all()) else others(F, x, dim)


@op
class ProdOthers(Block):
    """prod_others(input, product, dim) -> Tensor: for each element the product of all others."""

    aten = None
    tensors = ("input", "product")
    public = False
    dims = ("dim",)
    undifferentiable = "the rule of prod does without it where that is wanted"

    def fwd(xp, input, product, dim):
        return rest_of(RAW, input, product, dim)


WIDE = 2048  # elements, from which on products are made side by side


def side_by_side(xp: Any, x: Any, dtype: Any) -> Any:
    """Products of every 64th element: NumPy multiplies one after the other along a single row."""
    x = x.reshape(-1)
    whole = x.size // 64 * 64
    made = reduced(xp, xp.multiply, x[:whole].reshape(-1, 64), (0,), False, dtype)
    return made if whole == x.size else xp.concatenate([made, x[whole:].astype(made.dtype)])


@op
class ProdAll(Block):
    """prod_all(input, dtype) -> Tensor: the product of all elements."""

    node = "ProdBackward0"
    aten = "prod"
    public = False
    shape = no_dims
    onnx = "ReduceProd"

    def fwd(xp, input, dtype):
        if input.size >= WIDE and input.flags.c_contiguous and not is_half(dtype or input.dtype):
            input = side_by_side(xp, input, dtype)
        return reduced(xp, xp.multiply, input, None, False, dtype)

    def d_input(F, grad, input, out, input_shape):
        line = F.reshape(input, (count(input_shape, None),))
        return grad * F.reshape(rest_of(F, line, out, 0), input_shape)

    def jvp(F, input, t_input, dtype):
        size = (count(input.shape, None),)
        parts = F.reshape(t_input, size) * others(F, F.reshape(input, size), 0)
        return F.sum(parts, None, False, dtype)

    def batch(F, size, batched, input, dtype):
        return F.prod(flattened(F, input), 1, False, dtype)


@op
class Prod(Block):
    """prod(input, dim, keepdim, dtype) -> Tensor: products over one dimension."""

    node = "ProdBackward1"
    aten = "prod.dim_int"
    public = False
    dims = ("dim",)
    autocast = Autocast(cpu=SINGLE, gpu=SINGLE)
    onnx = "ReduceProd"

    def fwd(xp, input, dim, keepdim, dtype):
        return reduced(xp, xp.multiply, input, (dim,) if input.ndim else None, keepdim, dtype)

    def d_input(F, grad, input, out, dim, keepdim):
        if not input.shape:
            return grad * F.ones_like(input)
        grad = unreduce(F, grad, (dim,), keepdim)
        return grad * rest_of(F, input, unreduce(F, out, (dim,), keepdim), dim)

    def jvp(F, input, t_input, dim, keepdim, dtype):
        if not input.shape:
            return F.sum(t_input, None, keepdim, dtype)
        return F.sum(t_input * others(F, input, dim), (dim,), keepdim, dtype)


@api(samples=REDUCTION_CASES, autocast=Autocast(cpu=SINGLE, gpu=SINGLE), out_decides=True)
def prod(input: Any, dim: Any = MISSING, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """prod(input, dim=None, keepdim=False, *, dtype=None) -> Tensor: the product of the elements.

    >>> tensor([[1.0, 2.0], [3.0, 4.0]]).prod(1)
    tensor([ 2., 12.])
    """
    wanted = plain_dtype("prod", dtype)
    if dim is MISSING:
        array_of("prod", input)
        return apply(ProdAll, (input,), (wanted,))
    place = one_dim("prod", input, dim, PROD_FORMS)
    only_bool("prod", "keepdim", 3, keepdim)
    return apply(Prod, (input,), (place, keepdim, wanted))


@op
class TraceScatter(Linear):
    """trace_scatter(input, shape) -> Tensor: zeros with `input` on the diagonal."""

    aten = None
    public = False

    def fwd(xp, input, shape):
        out = xp.zeros(shape, input.dtype)
        rows = xp.arange(shape[0] if shape[0] < shape[1] else shape[1])
        out[rows, rows] = input
        return out

    def d_input(F, grad):
        return F.trace(grad)

    def batch(F, size, batched, input, shape):
        rows = F.expand(F.unsqueeze(input, 1), (size, min(shape)))
        return F.diagonal_backward(rows, (size, *shape), 0, 1, 2)


@op
class Trace(Linear):
    """trace(input) -> Tensor: the sum of the diagonal of a matrix.

    >>> trace(tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor(5.)
    """

    autocast = Autocast(cpu=SINGLE)
    samples = (Case(Draw(3, 3)), Case(Draw(2, 4, layout="T")), Case(Draw(0, 2)))

    def fwd(xp, input):
        return reduced(xp, xp.add, xp.diagonal(input), None, False, None)

    def d_input(F, grad, input_shape):
        return F.trace_scatter(grad, input_shape)

    def call(input):
        array = array_of("trace", input)
        if array.ndim != 2:
            raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {array.ndim}")
        if array.dtype.kind == "b":
            raise NotImplementedError("\"trace\" not implemented for 'Bool'")
        return apply(Trace, (input,))

    def batch(F, size, batched, input):
        return F.sum(F.diagonal(input, 0, 1, 2), (1,), False, None)
