"""Statistics of order: median, quantiles, the k-th smallest, the most frequent; and `nanmean`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import dtypes
from ...core.base import TensorBase
from ...core.devices import on_device_of
from ...core.host_arrays import host
from ...core.named_results import return_type
from ...core.rounding import half_as_single
from ...core.strides import contiguous
from ...core.transforms.batched import known_values
from ..block import SINGLE, Autocast, Case, api, apply, looks_at_values, op
from ..block.batching import flattened
from ..block.checks import (
    all_dims,
    array_of,
    invalid_call,
    is_number,
    not_implemented,
    one_dim,
    only_bool,
    plain_dtype,
)
from ..block.samples import Draw, Index
from ..reduce.extrema import ExtremumAlong, WholeExtremum, check_not_empty
from .quickselect import SMALL, by_quickselect, last_by_sort, mode_with_nan

# ruff: noqa: N805

MEDIAN_FORMS = ("", "int dim, bool keepdim = False")
INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def refuse(kernel: str, input: Any, kinds: str) -> None:
    if input._array.dtype.kind in kinds:
        raise not_implemented(kernel, input.dtype)


def lines(xp: Any, x: Any, dim: int) -> Any:
    """Everything along `dim`, as rows."""
    moved = half_as_single(x)
    if dim != x.ndim - 1:
        moved = xp.moveaxis(moved, dim, -1)
    return moved.reshape(x.size // max(x.shape[dim], 1), x.shape[dim])


def found(xp: Any, input: Any, places: Any, dim: int, keepdim: bool) -> tuple[Any, Any]:
    """The values at one place per row, and the places, in the shape of the result."""
    shape = input.shape[:dim] + (1,) * keepdim + input.shape[dim + 1 :]
    moved = input if dim == input.ndim - 1 else xp.moveaxis(input, dim, -1)
    rows = moved.reshape(places.size, input.shape[dim])
    values = rows[xp.arange(places.size), places.reshape(-1)]
    return values.reshape(shape), contiguous(xp, places.reshape(shape))


def nth(xp: Any, rows: Any, value: Any, k: Any) -> Any:
    """Where in each row `value`, of rank `k`, is; of equals, the one whose turn it is."""
    before = (rows < value).sum(axis=1)
    same = (rows == value) | ((rows != rows) & (value != value))
    return (same.cumsum(axis=1) == (k - before + 1)[:, None]).argmax(axis=1)


class Picked(ExtremumAlong):
    """One element of each row, and where it was; that place gets the gradient."""


@op
class Median(Picked):
    """median(input, dim, keepdim) -> (Tensor, LongTensor): the (lower) middle along a dimension."""

    node = "MedianBackward1"
    aten = "median.dim"
    result = return_type("median", ("values", "indices"))

    def fwd(xp, input, dim, keepdim):
        if not input.ndim:
            return input.copy(), xp.zeros((), xp.int64)
        rows = lines(xp, input, dim)
        k = (rows.shape[1] - 1) // 2
        places = nth(xp, rows, xp.partition(rows, k, axis=1)[:, k : k + 1], k)
        missing = rows != rows
        places = xp.where(missing.any(axis=1), missing.argmax(axis=1), places)
        return found(xp, input, places, dim, keepdim)


@op
class Nanmedian(Picked):
    """nanmedian(input, dim, keepdim) -> (Tensor, LongTensor): the middle of what is not NaN."""

    node = "NanmedianBackward1"
    aten = "nanmedian.dim"
    result = return_type("nanmedian", ("values", "indices"))

    def fwd(xp, input, dim, keepdim):
        if not input.ndim:
            return input.copy(), xp.zeros((), xp.int64)
        rows = lines(xp, input, dim)
        k = xp.maximum((rows == rows).sum(axis=1) - 1, 0) // 2
        value = xp.take_along_axis(xp.sort(rows, axis=1), k[:, None], axis=1)
        places = nth(xp, rows, value, k)
        return found(xp, input, places, dim, keepdim)


def nothing(xp: Any, dtype: Any) -> Any:
    """The median of no elements: NaN, whatever integers make of it."""
    return xp.full((), xp.nan, xp.float64).astype(dtype)


@op
class MedianAll(WholeExtremum):
    """median_all(input) -> Tensor: the (lower) middle of all elements."""

    node = "MedianBackward0"
    aten = "median"

    def fwd(xp, input):
        x = half_as_single(input.reshape(-1))
        if not x.size:
            return nothing(xp, input.dtype)
        if xp is not host:
            k = xp.where((x != x).any(), x.size - 1, (x.size - 1) // 2)
            return xp.sort(x).take(k).astype(input.dtype)
        lacks = (x != x).any()
        k = x.size - 1 if lacks else (x.size - 1) // 2
        ordered = x.copy()
        ordered.partition(k)
        return ordered[k].astype(input.dtype)

    def batch(F, size, batched, input):
        return F.median(flattened(F, input), 1, False)[0]


@op
class NanmedianAll(WholeExtremum):
    """nanmedian_all(input) -> Tensor: the (lower) middle of what is not NaN."""

    node = "NanmedianBackward0"
    aten = "nanmedian"

    def fwd(xp, input):
        x = half_as_single(input.reshape(-1))
        if not x.size:
            return nothing(xp, input.dtype)
        if xp is not host:
            k = xp.maximum(((x == x).sum() - 1) // 2, 0)
            return xp.sort(x).take(k).astype(input.dtype)
        count = int((x == x).sum())
        k = max((count - 1) // 2, 0)
        return xp.partition(x, k)[k].astype(input.dtype)

    def batch(F, size, batched, input):
        return F.nanmedian(flattened(F, input), 1, False)[0]


MEDIAN_CASES = [
    Case(Draw(3, 4)),
    Case(Draw()),
    Case(Draw(3, 5), 0),
    Case(Draw(2, 3, 4), -2, True),
    Case(Draw(), -1),
    Case(Draw(2, 0), 0),
    Case(Draw(4, 3, layout="T"), 1),
    Case(Draw(2, 3, layout="step"), dim=1, keepdim=True),
]


def middle(whole: Any, along: Any, input: Any, dim: Any, keepdim: bool) -> Any:
    array = array_of(along.name, input)
    if dim is None:
        refuse("median_cpu", input, "bc")
        return apply(whole, (input,))
    place = one_dim(along.name, input, dim, MEDIAN_FORMS)
    only_bool(along.name, "keepdim", 3, keepdim)
    if array.ndim:
        check_not_empty("median", array, (place,))
    refuse("median_out", input, "bc")
    return apply(along, (input,), (place, keepdim))


@api(samples=MEDIAN_CASES)
def median(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """median(input, dim=None, keepdim=False) -> Tensor or tuple: the middle, the lower of two.

    Of all; or along `dim`, as (values, indices). NaN if there is one.

    >>> median(tensor([[1.0, 3.0, 2.0], [6.0, 5.0, 4.0]]), 1)
    torch.return_types.median(
    values=tensor([2., 5.]),
    indices=tensor([2, 1]))
    """
    return middle(MedianAll, Median, input, dim, keepdim)


@api(samples=MEDIAN_CASES)
def nanmedian(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """nanmedian(input, dim=None, keepdim=False) -> Tensor or tuple: the middle of what is not NaN.

    >>> nanmedian(tensor([1.0, float("nan"), 3.0]))
    tensor(1.)
    """
    return middle(NanmedianAll, Nanmedian, input, dim, keepdim)


@op
class Kthvalue(Picked):
    """kthvalue(input, k, dim=-1, keepdim=False) -> (Tensor, LongTensor): the `k`-th smallest
    element and its index.

    >>> kthvalue(tensor([3.0, 1.0, 2.0]), 2)
    torch.return_types.kthvalue(
    values=tensor(2.),
    indices=tensor(2))
    """

    public = True
    result = return_type("kthvalue", ("values", "indices"))
    out_apart = True
    samples = [
        Case(Draw(5), 2),
        Case(Draw(3, 4), 3, 0),
        Case(Draw(2, 3, 4), 1, -2, True),
        Case(Draw(), 1),
        Case(Draw(4, 3, layout="T"), 2, 1),
    ]

    def fwd(xp, input, k, dim, keepdim):
        if not input.ndim:
            return input.copy(), xp.zeros((), xp.int64)
        rows = lines(xp, input, dim)
        value = xp.partition(rows, k - 1, axis=1)[:, k - 1 : k]
        same = (rows == value) | ((rows != rows) & (value != value))
        places = same.argmax(axis=1)
        for i in xp.flatnonzero(same.sum(axis=1) > 1) if xp is host else ():
            places[i] = by_quickselect(xp, rows[i], k - 1)
        return found(xp, input, places, dim, keepdim)

    def call(input, k, dim=-1, keepdim=False):
        array = array_of("kthvalue", input)
        only_bool("kthvalue", "keepdim", 4, keepdim)
        place = one_dim("kthvalue", input, dim)
        if array.ndim:
            check_not_empty("kthvalue", array, (place,))
        if not 1 <= k <= (array.shape[place] if array.ndim else 1):
            raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {place}")
        if array.ndim:
            refuse("kthvalue_cpu", input, "bc")
        return apply(Kthvalue, (input,), (int(k), place, bool(keepdim)))


@op
class Mode(Picked):
    """mode(input, dim=-1, keepdim=False) -> (Tensor, LongTensor): the most frequent element along
    `dim`, and where it is.

    The smallest of several.

    >>> mode(tensor([2, 1, 2, 3]))
    torch.return_types.mode(
    values=tensor(2),
    indices=tensor(2))
    """

    public = True
    result = return_type("mode", ("values", "indices"))
    nearest = "median, whose gradient goes to the chosen element"
    samples = [
        Case(Draw(5)),
        Case(Draw(3, 4), 0),
        Case(Draw(2, 3, 4), -2, True),
        Case(Draw()),
        Case(Draw(4, 3, layout="T"), 1),
    ]

    def fwd(xp, input, dim, keepdim):
        if not input.ndim:
            return input.copy(), xp.zeros((), xp.int64)
        rows = lines(xp, input, dim)
        size = rows.shape[1]
        ordered = xp.sort(rows, axis=1)
        fresh = xp.ones(rows.shape, bool)
        fresh[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
        begun = xp.maximum.accumulate(xp.where(fresh, xp.arange(size), 0), axis=1)
        best = (xp.arange(size) - begun).argmax(axis=1)
        value = ordered[xp.arange(best.size), best][:, None]
        same = (rows == value) | ((rows != rows) & (value != value))
        places = size - 1 - same[:, ::-1].argmax(axis=1)
        for i in xp.flatnonzero(same.sum(axis=1) > 1) if xp is host and size > SMALL else ():
            places[i] = last_by_sort(xp, rows[i], int(places[i]))
        for i in xp.flatnonzero((rows != rows).any(axis=1)) if xp is host else ():
            places[i] = mode_with_nan(rows[i].tolist())
        return found(xp, input, places, dim, keepdim)

    def call(input, dim=-1, keepdim=False):
        array = array_of("mode", input)
        place = one_dim("mode", input, dim)
        only_bool("mode", "keepdim", 3, keepdim)
        if array.ndim:
            check_not_empty("mode", array, (place,))
        if array.ndim:
            refuse("mode_cpu", input, "c")
        return apply(Mode, (input,), (place, keepdim))


# ---------------------------------------------------------------------- quantiles

LARGEST = 16 * 1000 * 1000  # elements along the dimension


@looks_at_values
def is_fraction(q: Any) -> bool:
    values = known_values(q)
    return bool(((values >= 0) & (values <= 1)).all())


def check_quantile(input: Any, q: Any, interpolation: str) -> Any:
    """`q` as a tensor of the input's dtype, if everything is as it should be."""
    dtype = input._array.dtype
    if interpolation not in INTERPOLATIONS:
        raise RuntimeError(
            "quantile() interpolation must be one of linear, lower, higher, midpoint or nearest, "
            f"but got {interpolation}"
        )
    if isinstance(q, TensorBase):
        if not input._array.size:
            raise RuntimeError("quantile() input tensor must be non-empty")
        if q._array.ndim > 1:
            raise RuntimeError("quantile() q must be a scalar or 1D tensor")
        check_floating(input)
        if q._array.dtype != dtype:
            raise RuntimeError("quantile() q tensor must be same dtype as the input tensor")
        if not is_fraction(q):
            raise RuntimeError("quantile() q values must be in the range [0, 1]")
        return q
    if not is_number(q):
        raise invalid_call("quantile", input, q)
    if not 0 <= q <= 1:
        raise RuntimeError(f"quantile() q must be in the range [0, 1] but got {q:g}")
    if not input._array.size:
        raise RuntimeError("quantile() input tensor must be non-empty")
    check_floating(input)
    return on_device_of(input, np.asarray(q, dtype))


def check_floating(input: Any) -> None:
    dtype = input._array.dtype
    if dtype.kind != "f" or dtype.itemsize < 4:
        raise RuntimeError("quantile() input tensor must be either float or double dtype")


def sorted_last(input: Any, dim: int | None, keepdim: bool) -> Any:
    """The input sorted along its last dimension, the others as in the result."""
    shape = list(input._array.shape)
    if dim is None or not shape:
        ordered = input.flatten().sort()[0]
        shape = [1] * len(shape) if keepdim else []
    else:
        if dim == len(shape) - 1:
            ordered = input.sort()[0]
        else:
            ordered = input.unsqueeze(-1).transpose(dim, -1).sort()[0]
        shape[dim : dim + 1] = [1] if keepdim else []
    return ordered.view(*shape, ordered._array.shape[-1])


def quantiles(
    input: Any, q: Any, dim: Any, keepdim: bool, interpolation: str, ignore_nan: bool
) -> Any:
    q = check_quantile(input, q, interpolation)
    place = None if dim is None else one_dim("quantile", input, dim)
    ordered = sorted_last(input, place, keepdim)
    size = ordered._array.shape[-1]
    if size > LARGEST:
        raise RuntimeError("quantile() input tensor is too large")
    missing = ordered.isnan()
    if ignore_nan:
        ranks = q * ((~missing).sum(-1, True) - 1)
        ranks = ranks.masked_fill(ranks < 0, 0)
    else:
        ranks = (q * (size - 1)).masked_fill(missing.any(-1, True), size - 1)
    if interpolation == "lower":
        ranks = ranks.floor()
    elif interpolation == "higher":
        ranks = ranks.ceil()
    elif interpolation == "nearest":
        ranks = ranks.round()
    below = ranks.long()
    out = ordered.gather(-1, below)
    if interpolation in ("linear", "midpoint"):
        between = interpolation == "midpoint"
        weight = ranks.detach().clone().fill_(0.5) if between else ranks - below
        out = out.lerp_(ordered.gather(-1, ranks.ceil().long()), weight)
    if not q._array.ndim:
        return out.squeeze_(-1)
    return out.unsqueeze_(0).transpose_(0, -1).squeeze_(-1)


def quantile_cases() -> list[Case]:
    return [
        Case(Draw(5), 0.3),
        Case(Draw(3, 4), 0.6, 0),
        Case(Draw(3, 4), Index([0.1, 0.7]), dim=1, keepdim=True),
        Case(Draw(2, 3, 4), Draw(2, low=0.1, high=0.3), dim=1),
        Case(Draw(), 0.5),
        *[
            Case(Draw(4, 3, layout="T"), 0.45, 0, interpolation=interpolation)
            for interpolation in INTERPOLATIONS[1:]
        ],
    ]


@api(samples=quantile_cases(), autocast=Autocast(cpu=SINGLE))
def quantile(
    input: Any, q: Any, dim: Any = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Any:
    """quantile(input, q, dim=None, keepdim=False, *, interpolation="linear") -> Tensor: the values
    below which fractions `q` of the elements lie.

    `q` is a number or a tensor of them. NaN where there is one.

    >>> quantile(tensor([1.0, 2.0, 4.0]), 0.75)
    tensor(3.)
    """
    return quantiles(input, q, dim, keepdim, interpolation, False)


@api(samples=quantile_cases(), autocast=Autocast(cpu=SINGLE))
def nanquantile(
    input: Any, q: Any, dim: Any = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Any:
    """nanquantile(input, q, dim=None, keepdim=False) -> Tensor: quantiles of what is not NaN.

    >>> nanquantile(tensor([1.0, float("nan"), 3.0]), 0.5)
    tensor(2.)
    """
    return quantiles(input, q, dim, keepdim, interpolation, True)


@api(
    samples=[
        Case(Draw(3, 4)),
        Case(Draw(2, 3, 4), (0, -1)),
        Case(Draw(3, 4), 0, True),
        Case(Draw()),
        Case(Draw(4, 3, layout="T"), dim=1),
    ]
)
def nanmean(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """nanmean(input, dim=None, keepdim=False, *, dtype=None) -> Tensor: the mean without NaNs.

    >>> nanmean(tensor([1.0, float("nan"), 3.0]))
    tensor(2.)
    """
    own = dtypes.of(array_of("nanmean", input).dtype)
    only_bool("nanmean", "keepdim", 3, keepdim)
    if not (own.is_floating_point or own.is_complex):
        raise RuntimeError(
            "nanmean(): expected input to have floating point or complex dtype but got "
            f"{own.scalar_type}"
        )
    wanted = plain_dtype("nanmean", dtype)
    if wanted is not None and wanted.kind in "biu":
        raise RuntimeError(
            "nanmean(): could not infer output dtype. Optional dtype must be either a floating "
            f"point or complex dtype. Got: {dtypes.of(wanted).scalar_type}"
        )
    all_dims("nanmean", input, dim)
    counts = (~input.detach().isnan()).sum(dim, keepdim)
    return input.nansum(dim, keepdim, dtype=dtype).div(counts)
