"""Reductions and normalizations that skip masked elements: `masked.<name>`.

An element that the mask leaves out (False) is replaced by what does not count in the reduction: 0
for a sum, 1 for a product, infinity for a minimum …
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import dtypes
from ...core.arguments import is_index
from ...core.base import TensorBase
from ...core.devices import on_device_of
from ..block import Case, api
from ..block.checks import only_tensors
from ..block.public import public
from ..block.samples import Draw, Index
from ..reduce.vector_norm import vector_norm

MASK = Index([[True, False, True], [True, True, False]])
REDUCTION_CASES = [
    Case(Draw(2, 3)),
    Case(Draw(2, 3), mask=MASK),
    Case(Draw(2, 3), 1, keepdim=True, mask=MASK),
    Case(Draw(2, 2, 3), (0, -1), mask=MASK),
]
ALONG_CASES = [
    Case(Draw(2, 3), 1),
    Case(Draw(2, 3), -1, mask=MASK),
    Case(Draw(3, 2, 3), 2, mask=MASK),
]


def identity(function: str, input: Any, ord: Any = None) -> Any:
    """The number that does not change a reduction, in the dtype of `input`."""
    dtype = input.dtype
    if function == "sum":
        return 0
    if function == "prod":
        return 1
    if function == "norm":
        return math.inf if ord == -math.inf else 0
    if function == "median":
        return math.nan
    smallest = function != "amin" and function != "argmin"
    if dtype.is_floating_point:
        return -math.inf if smallest else math.inf
    if function == "logsumexp" and dtype.is_complex:
        return complex(-math.inf, 0)
    if dtype.is_complex:
        raise TypeError(
            "torch.iinfo() requires an integer input type. Use torch.finfo to handle 'torch.iinfo'"
        )
    if not (dtype.is_signed or dtype is dtypes.uint8):
        raise NotImplementedError(f"identity of {function} on {dtype} input")
    limits = np.iinfo(dtype.np)
    return limits.min if smallest else limits.max


def input_mask(input: Any, mask: Any) -> Any:
    """The mask in the shape of the input, as bools."""
    only_tensors("masked", input=input)
    if mask.shape != input.shape:
        if mask.ndim > input.ndim:
            raise IndexError(
                "_input_mask expected broadcastable mask (got mask dimensionality higher than of "
                "the input)"
            )
        mask = mask.broadcast_to(input.shape)
    return mask.to(dtypes.bool_)


def combined(function: str, input: Any, mask: Any, ord: Any = None) -> Any:
    """`input` with what the mask leaves out replaced by what does not count."""
    only_tensors("masked", input=input)
    if mask is None:
        return input
    canonical = input_mask(input, mask)
    filling = np.asarray(identity(function, input, ord)).astype(input._array.dtype)
    return public.where(canonical, input, on_device_of(input, filling))


def canonical_dim(dim: Any, ndim: int) -> tuple[int, ...]:
    """Dimensions in ascending order; None and () mean all of them."""
    if isinstance(dim, TensorBase):
        if not dim._array.ndim:
            raise TypeError("iteration over a 0-d tensor")
        if dim._array.ndim > 1:
            bool(dim)
        dim = tuple(dim.tolist())
    if dim is None or dim == ():
        return tuple(range(ndim))
    bound = max(ndim, 1)
    dims: list[int] = []
    for d in dim if isinstance(dim, (tuple, list)) else (dim,):
        if d in dims:
            raise RuntimeError(f"dim={d} appears multiple times in the list of dims")
        if not is_index(d):
            raise TypeError(f"'{type(d).__name__}' object is not iterable")
        if not -bound <= d < bound:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-bound}, {bound - 1}], but "
                f"got {d})"
            )
        dims.append(d % bound)
    return tuple(sorted(dims))


def wide(input: Any, dtype: Any) -> Any:
    """The dtype of a sum or product: small integers become int64."""
    if dtype is not None:
        return dtype
    small = input.dtype.category <= dtypes.INTEGRAL and input.dtype.index <= dtypes.int64.index
    return dtypes.int64 if small else input.dtype


# ---------------------------------------------------------------------- reductions


@api(name="masked.sum", samples=REDUCTION_CASES)
def sum(
    input: Any, dim: Any = None, *, keepdim: Any = False, dtype: Any = None, mask: Any = None
) -> Any:
    """masked.sum(input, dim=None, *, keepdim=False, dtype=None, mask=None) -> Tensor: the sum of
    the elements where `mask` holds.

    >>> torch.masked.sum(tensor([1.0, 2.0, 4.0]), mask=tensor([True, False, True]))
    tensor(5.)
    """
    dtype = wide(input, dtype)
    dims = canonical_dim(dim, input.ndim)
    return combined("sum", input, mask).sum(dims, bool(keepdim), dtype=dtype)


@api(name="masked.prod", samples=REDUCTION_CASES)
def prod(
    input: Any, dim: Any = None, *, keepdim: Any = False, dtype: Any = None, mask: Any = None
) -> Any:
    """masked.prod(input, dim=None, *, keepdim=False, dtype=None, mask=None) -> Tensor: the product
    of the elements where `mask` holds.

    >>> torch.masked.prod(tensor([3.0, 2.0, 4.0]), mask=tensor([True, False, True]))
    tensor(12.)
    """
    dtype = wide(input, dtype)
    dims = canonical_dim(dim, input.ndim)
    result = combined("prod", input, mask).to(dtype=dtype)
    for d in reversed(dims):
        result = result.prod(dim=d, keepdim=bool(keepdim))
    return result


@api(name="masked.amax", samples=REDUCTION_CASES)
def amax(
    input: Any, dim: Any = None, *, keepdim: Any = False, dtype: Any = None, mask: Any = None
) -> Any:
    """masked.amax(input, dim=None, *, keepdim=False, dtype=None, mask=None) -> Tensor: the largest
    of the elements where `mask` holds.

    >>> torch.masked.amax(tensor([1.0, 9.0, 4.0]), mask=tensor([True, False, True]))
    tensor(4.)
    """
    masked = combined("amax", input, mask)
    dims = canonical_dim(dim, masked.ndim)
    return masked.amax(dims, bool(keepdim)).to(dtype=dtype or input.dtype)


@api(name="masked.amin", samples=REDUCTION_CASES)
def amin(
    input: Any, dim: Any = None, *, keepdim: Any = False, dtype: Any = None, mask: Any = None
) -> Any:
    """masked.amin(input, dim=None, *, keepdim=False, dtype=None, mask=None) -> Tensor: the
    smallest of the elements where `mask` holds.

    >>> torch.masked.amin(tensor([3.0, 1.0, 4.0]), mask=tensor([True, False, True]))
    tensor(3.)
    """
    masked = combined("amin", input, mask)
    dims = canonical_dim(dim, masked.ndim)
    return masked.amin(dims, bool(keepdim)).to(dtype=dtype or input.dtype)


@api(name="masked.argmax", samples=REDUCTION_CASES[:3])
def argmax(
    input: Any, dim: Any = None, *, keepdim: Any = False, dtype: Any = None, mask: Any = None
) -> Any:
    """masked.argmax(input, dim=None, *, keepdim=False, …) -> Tensor: the position of the largest
    element where `mask` holds.

    In the dtype of the input, or in `dtype`.

    >>> torch.masked.argmax(tensor([1, 9, 4]), mask=tensor([True, False, True]))
    tensor(2)
    """
    masked = combined("argmax", input, mask)
    return masked.argmax(dim, bool(keepdim)).to(dtype=dtype or input.dtype)


@api(name="masked.argmin", samples=REDUCTION_CASES[:3])
def argmin(
    input: Any, dim: Any = None, *, keepdim: Any = False, dtype: Any = None, mask: Any = None
) -> Any:
    """masked.argmin(input, dim=None, *, keepdim=False, …) -> Tensor: the position of the smallest
    element where `mask` holds.

    In the dtype of the input, or in `dtype`.

    >>> torch.masked.argmin(tensor([3, 1, 4]), mask=tensor([True, False, True]))
    tensor(0)
    """
    masked = combined("argmin", input, mask)
    return masked.argmin(dim, bool(keepdim)).to(dtype=dtype or input.dtype)


@api(name="masked.logsumexp", samples=REDUCTION_CASES)
def logsumexp(
    input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Any:
    """masked.logsumexp(input, dim=None, *, keepdim=False, …) -> Tensor: logs of sums of exp.

    >>> torch.masked.logsumexp(tensor([0.0, 5.0]), 0, mask=tensor([True, False]))
    tensor(0.)
    """
    dims = canonical_dim(dim, input.ndim)
    masked = combined("logsumexp", input, mask)
    return masked.logsumexp(dims, keepdim=keepdim).to(dtype=dtype or input.dtype)


@api(
    name="masked.norm",
    samples=[
        Case(Draw(2, 3)),
        Case(Draw(2, 3), 3.0, 1, mask=MASK),
        Case(Draw(2, 3), -math.inf, mask=MASK),
    ],
)
def norm(
    input: Any,
    ord: Any = 2.0,
    dim: Any = None,
    *,
    keepdim: Any = False,
    dtype: Any = None,
    mask: Any = None,
) -> Any:
    """masked.norm(input, ord=2.0, dim=None, *, keepdim=False, …) -> Tensor: the norm of the
    elements where `mask` holds.

    >>> torch.masked.norm(tensor([3.0, 9.0, 4.0]), 2.0, mask=tensor([True, False, True]))
    tensor(5.)
    """
    if mask is not None and ord == -math.inf and not input.dtype.is_floating_point:
        raise AssertionError(f"input must be floating point, got {input.dtype}")
    masked = combined("norm", input, mask, ord)
    dims = canonical_dim(dim, input.ndim)
    return vector_norm(masked, ord, dims, bool(keepdim), dtype=dtype or input.dtype)


def count_of(input: Any, dim: Any, keepdim: bool, mask: Any) -> Any:
    """How many elements count."""
    if mask is None:
        every = on_device_of(input, np.ones(input._array.shape, np.int64))
        return every.sum(canonical_dim(dim, input.ndim), keepdim)
    return mask.sum(dim=dim, keepdim=keepdim)


@api(name="masked.mean", samples=REDUCTION_CASES)
def mean(
    input: Any, dim: Any = None, *, keepdim: Any = False, dtype: Any = None, mask: Any = None
) -> Any:
    """masked.mean(input, dim=None, *, keepdim=False, dtype=None, mask=None) -> Tensor: the mean of
    the elements where `mask` holds.

    >>> torch.masked.mean(tensor([1.0, 9.0, 4.0]), mask=tensor([True, False, True]))
    tensor(2.5000)
    """
    source = "Input" if dtype is None else "Optional"
    want = dtype or input.dtype
    if not (want.is_floating_point or want.is_complex):
        raise ValueError(
            f"mean(): Could not infer output dtype. {source} dtype must be either a floating point "
            f"or complex dtype. Got: {want}"
        )
    inside = None if mask is None else input_mask(input, mask)
    count = count_of(input, dim, bool(keepdim), inside)
    return sum(input, dim, keepdim=keepdim, dtype=want, mask=inside) / count


@api(name="masked.median", samples=ALONG_CASES)
def median(
    input: Any, dim: Any = -1, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Any:
    """masked.median(input, dim=-1, *, keepdim=False, dtype=None, mask=None) -> Tensor: the median
    of the elements where `mask` holds.

    >>> torch.masked.median(tensor([3.0, 1.0, 4.0]), 0, mask=tensor([True, False, True]))
    tensor(3.)
    """
    place = canonical_dim(dim, input.ndim)[0]
    want = dtype or input.dtype
    is_float = input.dtype.is_floating_point
    if not is_float:
        input = input.to(dtype=dtypes.float32)
    output = combined("median", input, mask).nanmedian(place, keepdim).values
    if is_float:
        return output
    if output.isnan().any():
        raise ValueError(
            "masked median expects no fully masked out rows if dtype is not floating point"
        )
    return output.to(dtype=want)


def masked_variance(
    input: Any,
    dim: Any,
    unbiased: Any,
    correction: Any,
    keepdim: Any,
    dtype: Any,
    mask: Any,
) -> Any:
    """Variances: the squares of the distances from the mean, added up and divided."""
    if unbiased is not None and correction is not None:
        raise AssertionError("Only one of unbiased and correction may be given")
    if correction is None:
        correction = 1.0 if unbiased is None or unbiased else 0.0
    have = dtype or input.dtype
    work = have if have.is_floating_point or have.is_complex else dtypes.float32
    want = have if dtype is not None else work
    inside = None if mask is None else input_mask(input, mask)
    count = count_of(input, dim, True, inside)
    middle = sum(input, dim, keepdim=True, dtype=want, mask=inside).divide(count)
    gap = input.subtract(middle)
    total = sum(gap * gap.conj(), dim, keepdim=keepdim, dtype=work, mask=inside)
    if not keepdim:
        count = count.reshape(total.shape)
    if correction != 0:
        count = count.to(work.to_real()).subtract(float(correction))
        count = count.maximum(count.new_zeros([]))
    return total.divide(count).to(dtype=want)


SPREAD_CASES = [
    Case(Draw(2, 3)),
    Case(Draw(2, 3), 1, mask=MASK),
    Case(Draw(2, 3), None, False, mask=MASK),
    Case(Draw(2, 4), 1, correction=2, keepdim=True),
]


@api(name="masked.var", samples=SPREAD_CASES)
def var(
    input: Any,
    dim: Any = None,
    unbiased: Any = None,
    *,
    correction: Any = None,
    keepdim: Any = False,
    dtype: Any = None,
    mask: Any = None,
) -> Any:
    """masked.var(input, dim=None, unbiased=None, *, correction=None, …) -> Tensor: the variance of
    the elements where `mask` holds.

    >>> torch.masked.var(tensor([1.0, 9.0, 5.0]), mask=tensor([True, False, True]))
    tensor(8.)
    """
    return masked_variance(input, dim, unbiased, correction, keepdim, dtype, mask)


@api(name="masked.std", samples=SPREAD_CASES)
def std(
    input: Any,
    dim: Any = None,
    unbiased: Any = None,
    *,
    correction: Any = None,
    keepdim: Any = False,
    dtype: Any = None,
    mask: Any = None,
) -> Any:
    """masked.std(input, dim=None, unbiased=None, *, correction=None, …) -> Tensor: the standard
    deviation of the elements where `mask` holds.

    >>> torch.masked.std(tensor([1.0, 9.0, 5.0]), mask=tensor([True, False, True]))
    tensor(2.8284)
    """
    return masked_variance(input, dim, unbiased, correction, keepdim, dtype, mask).sqrt()


# ---------------------------------------------------------------------- along one dimension


@api(name="masked.cumsum", samples=ALONG_CASES)
def cumsum(input: Any, dim: Any, *, dtype: Any = None, mask: Any = None) -> Any:
    """masked.cumsum(input, dim, *, dtype=None, mask=None) -> Tensor: running sums of the elements
    where `mask` holds.

    >>> torch.masked.cumsum(tensor([1.0, 2.0, 4.0]), 0, mask=tensor([True, False, True]))
    tensor([1., 1., 5.])
    """
    want = dtype or input.dtype
    place = canonical_dim(dim, input.ndim)[0]
    return combined("sum", input, mask).cumsum(place, dtype=want).to(dtype=want)


@api(name="masked.cumprod", samples=ALONG_CASES)
def cumprod(input: Any, dim: Any, *, dtype: Any = None, mask: Any = None) -> Any:
    """masked.cumprod(input, dim, *, dtype=None, mask=None) -> Tensor: running products of the
    elements where `mask` holds.

    >>> torch.masked.cumprod(tensor([3.0, 2.0, 4.0]), 0, mask=tensor([True, False, True]))
    tensor([ 3.,  3., 12.])
    """
    want = dtype or input.dtype
    place = canonical_dim(dim, input.ndim)[0]
    return combined("prod", input, mask).cumprod(place, dtype=want).to(dtype=want)


@api(name="masked.softmax", samples=ALONG_CASES)
def softmax(input: Any, dim: Any, *, dtype: Any = None, mask: Any = None) -> Any:
    """masked.softmax(input, dim, *, dtype=None, mask=None) -> Tensor: `softmax` over the elements
    where `mask` holds.

    >>> torch.masked.softmax(tensor([1.0, 9.0, 1.0]), 0, mask=tensor([True, False, True]))
    tensor([0.5000, 0.0000, 0.5000])
    """
    place = canonical_dim(dim, input.ndim)[0]
    return combined("amax", input, mask).softmax(place, dtype=dtype or input.dtype)


@api(name="masked.log_softmax", samples=ALONG_CASES[:1])
def log_softmax(input: Any, dim: Any, *, dtype: Any = None, mask: Any = None) -> Any:
    """masked.log_softmax(input, dim, *, dtype=None, mask=None) -> Tensor: log of `softmax`.

    >>> torch.masked.log_softmax(tensor([1.0, 9.0, 1.0]), 0, mask=tensor([True, False, True]))
    tensor([-0.6931,    -inf, -0.6931])
    """
    place = canonical_dim(dim, input.ndim)[0]
    return combined("amax", input, mask).log_softmax(place, dtype=dtype or input.dtype)


@api(name="masked.softmin", samples=ALONG_CASES)
def softmin(input: Any, dim: Any, *, dtype: Any = None, mask: Any = None) -> Any:
    """masked.softmin(input, dim, *, dtype=None, mask=None) -> Tensor: `softmax` of the negative.

    >>> torch.masked.softmin(tensor([1.0, -9.0, 1.0]), 0, mask=tensor([True, False, True]))
    tensor([0.5000, 0.0000, 0.5000])
    """
    place = canonical_dim(dim, input.ndim)[0]
    return (-combined("amin", input, mask)).softmax(place, dtype=dtype or input.dtype)


@api(
    name="masked.normalize",
    samples=[Case(Draw(2, 3), 2.0, 1), Case(Draw(2, 3), 3.0, 1, mask=MASK)],
)
def normalize(
    input: Any, ord: Any, dim: Any, *, eps: float = 1e-12, dtype: Any = None, mask: Any = None
) -> Any:
    """masked.normalize(input, ord, dim, *, eps=1e-12, …) -> Tensor: vectors of length 1.

    >>> torch.masked.normalize(tensor([3.0, 9.0, 4.0]), 2.0, 0, mask=tensor([True, False, True]))
    tensor([0.6000, 0.0000, 0.8000])
    """
    masked = combined("sum", input, mask)
    length = norm(input, ord, dim, keepdim=True, dtype=dtype or input.dtype, mask=mask)
    return masked.divide(length.maximum(length.new_full([], eps)))


@api(
    name="masked.logaddexp",
    samples=[Case(Draw(2, 3), Draw(2, 3)), Case(Draw(2, 3), Draw(3), other_mask=Index([True] * 3))],
)
def logaddexp(
    input: Any, other: Any, *, dtype: Any = None, input_mask: Any = None, other_mask: Any = None
) -> Any:
    """masked.logaddexp(input, other, *, dtype=None, …) -> Tensor: log(exp(input) + exp(other)).

    The masks are `input_mask` and `other_mask`.

    >>> x = tensor([1.0, 2.0])
    >>> torch.masked.logaddexp(x, x, input_mask=tensor([False, False]))
    tensor([1., 2.])
    """
    first = combined("logaddexp", input, input_mask)
    second = combined("logaddexp", other, other_mask)
    return first.logaddexp(second).to(dtype=dtype or input.dtype)
