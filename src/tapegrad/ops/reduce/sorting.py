"""Order: sort, topk, unique, and looking things up in sorted tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import dtypes
from ...core.arguments import wrap_dim
from ...core.base import STATE, TensorBase, wrap
from ...core.devices import on_device_of, xp_of
from ...core.host_arrays import host
from ...core.named_results import return_type
from ...core.promote import promote_types
from ...core.python_dispatch import is_asked, is_recorded, read_values
from ...core.rounding import half_as_single
from ...core.strides import empty_like
from ...core.transforms.batched import is_batched, known_values, refusal
from ...errors import explain_call
from ..block import Block, Case, api, apply, looks_at_values, op
from ..block.batching import flattened, lift
from ..block.checks import (
    OUT_EXACT,
    array_of,
    common,
    invalid_call,
    is_number,
    not_implemented,
    only_tensors,
    refuse_too_big,
)
from ..block.samples import Draw, Index
from ..statistics.quickselect import sorted_by

# ruff: noqa: N805

SortResult = return_type("sort", ("values", "indices"))
TopkResult = return_type("topk", ("values", "indices"))


def ranks(xp: Any, x: Any, dim: int, descending: bool) -> Any:
    """Positions in order, equal elements as they stood; NaN counts as the largest."""
    x = half_as_single(x)
    if not descending:
        return xp.argsort(x, axis=dim, kind="stable")
    turned = xp.argsort(xp.flip(x, dim), axis=dim, kind="stable")
    return x.shape[dim] - 1 - xp.flip(turned, dim)


def best(xp: Any, x: Any, k: int, dim: int, largest: bool) -> Any:
    """The first `k` positions in order; where that is a small part, only that part is sorted."""
    size = x.shape[dim]
    if not 0 < 4 * k < size:
        return xp.take(ranks(xp, x, dim, largest), xp.arange(k), axis=dim)
    x = half_as_single(x)
    split = xp.argpartition(x, size - k if largest else k - 1, axis=dim)
    kept = xp.arange(size - k, size) if largest else xp.arange(k)
    some = xp.sort(xp.take(split, kept, axis=dim), axis=dim)
    order = ranks(xp, xp.take_along_axis(x, some, axis=dim), dim, largest)
    return xp.take_along_axis(some, order, axis=dim)


def like_input(xp: Any, out: Any, input: Any) -> Any:
    """`out`, of the same shape, laid out as a copy of `input` is."""
    made = empty_like(xp, input, out.dtype)
    if made.strides == out.strides:
        return out
    made[...] = out
    return made


class Sorting(Block):
    outs = ("values", "indices")
    result = SortResult
    plain_outs = positions = (1,)
    public = False
    dims = ("dim",)

    def fwd(xp, input, dim, descending):
        if not input.ndim:
            return input.copy(), xp.zeros((), np.int64)
        order = ranks(xp, input, dim, descending)
        values = xp.take_along_axis(input, order, axis=dim)
        return like_input(xp, values, input), like_input(xp, order, input)

    def d_input(F, grad, indices, input_shape, dim):
        return F.scatter_add(F.blank(grad[0], input_shape), indices, grad[0], dim)

    def jvp(F, indices, t_input, dim):
        return F.gather(t_input, indices, dim), None


@op
class Sort(Sorting):
    """sort(input, dim, descending) -> (Tensor, Tensor): `sort` with no word about stability."""

    aten = "sort"


@op
class SortStable(Sorting):
    """sort_stable(input, dim, descending) -> (Tensor, Tensor): `sort` when `stable` was given."""

    node = "SortBackward1"
    aten = "sort.stable"


@api(
    name="sort",
    samples=[
        Case(Draw(5)),
        Case(Draw(3, 4), 0),
        Case(Draw(3, 4), -1, True),
        Case(Draw(3, 2, layout="T"), stable=True),
        Case(Draw()),
    ],
    out_dtype=OUT_EXACT,
    keywords_only_with="stable",
)
def ordered(
    input: Any, dim: int = -1, descending: bool = False, *, stable: bool | None = None
) -> Any:
    """sort(input, dim=-1, descending=False) -> (Tensor, Tensor): values in order, and their places.

    >>> sort(tensor([3, 1, 2]))
    torch.return_types.sort(
    values=tensor([1, 2, 3]),
    indices=tensor([1, 2, 0]))
    """
    if type(dim) is bool:
        raise invalid_call("sort", dim)
    if input._array.dtype.kind == "c":
        raise RuntimeError(" Sort does not support complex dtypes on CPU")
    dim = wrap_dim(dim, input._array.ndim)
    return apply(Sort if stable is None else SortStable, (input,), (dim, bool(descending)))


@api(samples=[Case(Draw(5)), Case(Draw(3, 4), 0, True)], keywords_only_with="stable")
def argsort(input: Any, dim: int = -1, descending: bool = False, *, stable: bool = False) -> Any:
    """argsort(input, dim=-1, descending=False) -> Tensor: where the elements in order are.

    >>> argsort(tensor([3, 1, 2]))
    tensor([1, 2, 0])
    """
    if type(dim) is bool:
        raise invalid_call("argsort", dim)
    return ordered(input, dim, descending)[1]


@api(samples=[Case(Draw(3, 2))], out_dtype=OUT_EXACT)
def msort(input: Any) -> Any:
    """msort(input) -> Tensor: values in order along the first dimension.

    >>> msort(tensor([3, 1, 2]))
    tensor([1, 2, 3])
    """
    return ordered(input, 0)[0]


@op
class Topk(Block):
    """topk(input, k, dim=-1, largest=True, sorted=True) -> (Tensor, Tensor): the `k` largest
    elements and their indices.

    >>> topk(tensor([3, 1, 2]), 2).values
    tensor([3, 2])
    """

    outs = ("values", "indices")
    result = TopkResult
    plain_outs = positions = (1,)
    out_dtype = OUT_EXACT
    samples = [
        Case(Draw(5), 2),
        Case(Draw(3, 4), 2, 0),
        Case(Draw(3, 4), 1, largest=False),
        Case(Draw(), 1),
    ]
    dims = ("dim",)

    def fwd(xp, input, k, dim, largest):
        if not input.ndim:
            return input.copy(), xp.zeros((), np.int64)
        order = best(xp, input, k, dim, largest)
        return xp.take_along_axis(xp.ascontiguousarray(input), order, axis=dim), order

    def d_input(F, grad, indices, input_shape, dim):
        return F.scatter_add(F.blank(grad[0], input_shape), indices, grad[0], dim)

    def jvp(F, indices, t_input, dim):
        return F.gather(t_input, indices, dim), None

    def call(input, k, dim=-1, largest=True, sorted=True, run=apply):
        dim = wrap_dim(dim, input._array.ndim)
        size = input._array.shape[dim] if input._array.ndim else 1
        if not 0 <= k <= size:
            raise RuntimeError("selected index k out of range")
        if input._array.dtype.kind == "b":
            raise RuntimeError("topk does not support bool dtypes on CPU")
        if input._array.dtype.kind == "c":
            raise RuntimeError(" topk does not support complex dtypes on CPU")
        return run(Topk, (input,), (k, dim, bool(largest)))


# ---------------------------------------------------------------------- distinct values


def no_gradient(name: str) -> Any:
    """A rule that refuses: the node is recorded, and says no when a gradient arrives."""

    def d_input(F: Any, grad: Any) -> Any:
        raise NotImplementedError(f"the derivative for '{name}' is not implemented.")

    return d_input


def no_tangent(name: str) -> Any:
    def jvp(F: Any, input: Any) -> Any:
        raise NotImplementedError(
            f"Trying to use forward AD with {name} that does not support it because it has not "
            "been implemented yet."
        )

    return jvp


class Distinct(Block):
    """Values that are there once, where they went, and how many there were of each."""

    outs = ("out", "inverse", "counts")
    plain_outs = positions = (1, 2)
    public = False
    unbatchable = "how many distinct values there are depends on the data"
    dynamic_shape = True


@op
class UniqueParts(Distinct):
    """unique_parts(input) -> (Tensor, Tensor, Tensor): distinct values, inverse, counts."""

    node = "Unique2Backward0"
    aten = "_unique2"
    d_input = no_gradient("_unique2")
    jvp = no_tangent("_unique2")

    def fwd(xp, input):
        values, inverse, counts = xp.unique(
            half_as_single(input), return_inverse=True, return_counts=True, equal_nan=False
        )
        return values.astype(input.dtype, copy=False), inverse.reshape(input.shape), counts


@op
class UniqueDim(Distinct):
    """unique_dim(input, dim) -> (Tensor, Tensor, Tensor): the same of slices along `dim`."""

    aten = "unique_dim"
    d_input = no_gradient("unique_dim")
    jvp = no_tangent("unique_dim")

    def fwd(xp, input, dim):
        x = half_as_single(input)
        if xp is host and input.size and has_nan(xp, x):
            first, inverse, counts = distinct_with_nan(xp.moveaxis(x, dim, 0))
            return xp.ascontiguousarray(xp.take(input, first, axis=dim)), inverse, counts
        values, inverse, counts = xp.unique(
            x, return_inverse=True, return_counts=True, axis=dim, equal_nan=False
        )
        return values.astype(input.dtype, copy=False), inverse.reshape(-1), counts


def distinct_with_nan(slices: Any) -> tuple[Any, Any, Any]:
    """The first of equal slices in PyTorch's order, which slice is where, and how many there are.

    NaN is neither less nor greater than anything, nor equal to itself.
    """
    rows = slices.reshape(len(slices), -1).tolist()

    def less(a: int, b: int) -> bool:
        for x, y in zip(rows[a], rows[b], strict=True):
            if x < y or x > y:
                return bool(x < y)
        return False

    order = sorted_by(len(rows), less)
    first: list[int] = []
    inverse = np.empty(len(rows), np.int64)
    counts: list[int] = []
    for place in order:
        row = rows[place]
        if first and all([x == y for x, y in zip(rows[first[-1]], row, strict=True)]):
            counts[-1] += 1
        else:
            first.append(place)
            counts.append(1)
        inverse[place] = len(first) - 1
    return np.array(first, np.int64), inverse, np.array(counts, np.int64)


@op
class UniqueRuns(Distinct):
    """unique_runs(input, dim) -> (Tensor, Tensor, Tensor): first of each run, inverse, counts."""

    node = "UniqueConsecutiveBackward0"
    aten = "unique_consecutive"
    d_input = no_gradient("unique_consecutive")
    jvp = no_tangent("unique_consecutive")

    def fwd(xp, input, dim):
        x = input.reshape(-1) if dim is None else xp.moveaxis(input, dim, 0)
        lines = x.reshape(x.shape[0], x.size // max(x.shape[0], 1))
        changes = (lines[1:] != lines[:-1]).any(axis=1)
        fresh = xp.concatenate((xp.ones(min(1, len(x)), bool), changes))
        first = xp.flatnonzero(fresh)
        counts = xp.diff(xp.concatenate((first, xp.asarray([len(x)]))))
        inverse = xp.cumsum(fresh) - 1
        if dim is None:
            return x[first], inverse.reshape(input.shape), counts
        return xp.ascontiguousarray(xp.moveaxis(x[first], 0, dim)), inverse, counts


def look_at_flags(*flags: Any) -> None:
    """Ask for the truth of what is given as flags: PyTorch does it before anything else."""
    for flag in flags:
        bool(flag)


def chosen(parts: Any, inverse: bool, counts: bool) -> Any:
    """The outputs that were asked for."""
    found = [parts[0]]
    if inverse:
        found.append(parts[1])
    if counts:
        found.append(parts[2])
    return found[0] if len(found) == 1 else tuple(found)


@api(samples=[Case(Index([3, 1, 1]))], python=True)
def unique(
    input: Any,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """unique(input, return_inverse=False, return_counts=False, dim=None) -> Any: the different
    values, sorted.

    >>> unique(tensor([3, 1, 1]))
    tensor([1, 3])
    """
    look_at_flags(return_inverse, return_counts)
    only_tensors("_unique2", input=input)
    if not isinstance(sorted, bool):
        raise TypeError(f"_unique2(): argument 'sorted' must be bool, not {type(sorted).__name__}")
    at = None if dim is None else wrap_dim(dim, input._array.ndim)
    check_slices(input, at)
    refuse_complex("unique" if at is None else "unique_dim", input)
    parts = apply(UniqueParts, (input,)) if at is None else apply(UniqueDim, (input,), (at,))
    return chosen(parts, return_inverse, return_counts)


def _unique(input: Any, sorted: bool = True, return_inverse: bool = False) -> Any:
    """The values and where each element is among them, which is empty if not asked for."""
    return _unique2(input, sorted, return_inverse)[:2]


def _unique2(
    input: Any, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> Any:
    """The values, where each element is among them, and how often they occur."""
    values, inverse, counts = unique(input, sorted, True, True)
    nothing = inverse.new_empty(0)
    return (
        values,
        inverse if return_inverse else nothing,
        counts if return_counts else nothing,
    )


def unique_dim(
    input: Any,
    dim: int,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
) -> Any:
    """Like `_unique2`, of the slices along a dimension; programs find it in `torch._VF`."""
    values, inverse, counts = unique(input, sorted, True, True, dim)
    return values, inverse, counts if return_counts else inverse.new_empty(0)


def check_slices(input: Any, dim: int | None) -> None:
    """Slices along a dimension are compared by their elements: there have to be some."""
    shape = input._array.shape
    if dim is None:
        return
    if not shape:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    if 0 in shape[:dim] + shape[dim + 1 :]:
        raise RuntimeError(
            "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied"
        )


def refuse_complex(kernel: str, input: Any) -> None:
    if input._array.dtype.kind == "c":
        raise not_implemented(kernel, input.dtype)


@api(samples=[Case(Index([1, 1, 2, 1]))], python=True)
def unique_consecutive(
    input: Any, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """unique_consecutive(input, dim=None) -> Tensor: one of each run of equal values.

    >>> unique_consecutive(tensor([1, 1, 2, 1]))
    tensor([1, 2, 1])
    """
    look_at_flags(return_inverse, return_counts)
    only_tensors("unique_consecutive", input=input)
    if not isinstance(return_inverse, bool):
        kind = type(return_inverse).__name__
        raise TypeError(f"unique_consecutive(): argument 'return_inverse' must be bool, not {kind}")
    at = None if dim is None else wrap_dim(dim, input._array.ndim)
    check_slices(input, at)
    refuse_complex("unique" if at is None else "unique_consecutive", input)
    return chosen(apply(UniqueRuns, (input,), (at,)), return_inverse, return_counts)


# ---------------------------------------------------------------------- counting and looking up


@looks_at_values
def check_counted(input: Any) -> None:
    """Refuse what bincount cannot count."""
    x = input._array
    if x.ndim != 1 or (x.size and x.min() < 0):
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if x.size and x.max() == np.iinfo(np.int64).max:
        raise RuntimeError(
            f"maximum value of input overflowed, it should be < {x.max()} but got {x.max()}"
        )


@op
class Bincount(Block):
    """bincount(input, weights=None, minlength=0) -> Tensor: how often each integer occurs.

    >>> bincount(tensor([1, 1, 3]))
    tensor([0, 2, 0, 1])
    """

    tensors = ("input", "weights")
    undifferentiable = "the results are counts"
    samples = [Case(Index([1, 1, 3])), Case(Index([0, 2]), minlength=4)]
    unbatchable = "the size of the result depends on the data"
    dynamic_shape = True

    def fwd(xp, input, weights, minlength):
        if weights is None or not input.size:
            return xp.bincount(input, minlength=minlength).astype(np.int64)
        kind = weights.dtype if weights.dtype == np.float32 else np.dtype(np.float64)
        return xp.bincount(input, weights, minlength).astype(kind)

    def call(input, weights=None, minlength=0, run=apply):
        x = input._array
        if x.dtype.kind not in "iu":
            name = dtypes.of(x.dtype).scalar_type
            raise NotImplementedError(f"\"bincount_cpu\" not implemented for '{name}'")
        if minlength < 0:
            raise RuntimeError("minlength should be >= 0")
        if is_batched(input) or type(x) is STATE.meta_type:
            return run(Bincount, (input, weights), (minlength,))
        check_counted(input)
        if weights is not None and x.size and weights._array.shape != x.shape:
            raise RuntimeError("weights should be 1-d and have the same length as input")
        return run(Bincount, (input, weights), (minlength,))


def has_nan(xp: Any, array: Any) -> bool:
    return array.dtype.kind in "fV" and bool(xp.isnan(array).any())


def bisected(xp: Any, rows: Any, wanted: Any, right: bool) -> Any:
    """A binary search step by step: with NaNs about, what it finds depends on where it looks."""
    start = xp.zeros(wanted.shape, np.int64)
    end = xp.full(wanted.shape, rows.shape[-1], np.int64)
    while (start < end).any():
        middle = (start + end) // 2
        at = xp.minimum(middle, rows.shape[-1] - 1)
        value = rows[at] if rows.ndim == 1 else xp.take_along_axis(rows, at, axis=-1)
        onwards = ~(value > wanted) if right else ~(value >= wanted)
        open_ = start < end
        end = xp.where(open_ & ~onwards, middle, end)
        start = xp.where(open_ & onwards, middle + 1, start)
    return start


def check_sortable(boundaries: Any, input: Any) -> None:
    if not input._array.size:
        return
    common = promote_types(boundaries.dtype, input.dtype)
    if common is dtypes.bool_ or common.is_complex:
        raise not_implemented("searchsorted_out_cpu", common)


def beside_number(boundaries: Any, input: Any) -> tuple[Any, Any]:
    """A number becomes a tensor, and both have the dtype of an expression of the two.

    Ints must not round the number that is looked for: 2.5 comes after 2.
    """
    if isinstance(input, TensorBase) or not is_number(input):
        return boundaries, input
    refuse_too_big(input)
    dtype = common(boundaries._array, input)
    if dtype is not boundaries.dtype:
        boundaries = boundaries.to(dtype)
    return boundaries, on_device_of(boundaries, np.asarray(input).astype(dtype.np))


@op
class Searchsorted(Block):
    """searchsorted(sorted_sequence, input, *, right=False) -> Tensor: where each value would be
    inserted to keep the order.

    >>> searchsorted(tensor([1, 3, 5]), tensor([3, 4]))
    tensor([1, 2])
    """

    aten = "searchsorted.Tensor"
    tensors = ("sorted_sequence", "input")
    method = False
    undifferentiable = "the results are indices"
    samples = [Case(Index([1, 3, 5]), Index([3, 4])), Case(Index([1, 3, 5]), 4, right=True)]

    def fwd(xp, sorted_sequence, input, out_int32, right):
        side = "right" if right else "left"
        width = sorted_sequence.shape[-1]
        if has_nan(xp, sorted_sequence) or has_nan(xp, input):
            found = bisected(xp, sorted_sequence, input, right)
        elif sorted_sequence.ndim == 1:
            found = xp.searchsorted(sorted_sequence, input, side)
        else:
            # One search over all rows: ranks within the union are comparable across rows.
            union = xp.unique(xp.concatenate((sorted_sequence.reshape(-1), input.reshape(-1))))
            height = sorted_sequence.size // width if width else 0
            shift = xp.arange(height)[:, None] * (union.size + 1)
            rows = xp.searchsorted(union, sorted_sequence).reshape(height, width) + shift
            wanted = xp.searchsorted(union, input).reshape(height, input.shape[-1]) + shift
            found = xp.searchsorted(rows.reshape(-1), wanted, side)
            found = (found - xp.arange(height)[:, None] * width).reshape(input.shape)
        return xp.asarray(found).astype(np.int32 if out_int32 else np.int64)

    def call(
        sorted_sequence, input, *, out_int32=False, right=False, side=None, sorter=None, run=apply
    ):
        if sorter is not None:
            if sorter._array.shape != sorted_sequence._array.shape:
                raise RuntimeError(
                    "torch.searchsorted(): boundary and sorter must have the same size, but got "
                    f"boundary tensor {list(sorted_sequence._array.shape)}and got sorter tensor "
                    f"{list(sorter._array.shape)}"
                )
            sorted_sequence = sorted_sequence.gather(-1, sorter)
        if side is not None:
            if side not in ("left", "right"):
                raise RuntimeError(
                    "torch.searchsorted(): side can only be 'left' or 'right' but got " + str(side)
                )
            if right and side == "left":
                raise RuntimeError(
                    "torch.searchsorted(): side and right can't be set to opposites, got side of "
                    "left while right was True"
                )
            right = side == "right"
        sorted_sequence, input = beside_number(sorted_sequence, input)
        have, want = sorted_sequence._array.shape, input._array.shape
        if not want and len(have) != 1:
            raise RuntimeError(
                "torch.searchsorted(): input value can be a scalar only when boundaries tensor "
                f"dimension is 1, but we got boundaries tensor dim({len(have)}) and input value's "
                "dim(0) numel(1)"
            )
        if len(have) != 1 and (len(have) != len(want) or have[:-1] != want[:-1]):
            raise RuntimeError(
                "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 "
                f"dimensions of boundaries tensor and input value tensor must match, but we got "
                f"boundaries tensor {list(have)} and input value tensor {list(want)}"
            )
        check_sortable(sorted_sequence, input)
        return run(Searchsorted, (sorted_sequence, input), (bool(out_int32), bool(right)))

    def batch(F, size, batched, sorted_sequence, input, out_int32, right):
        rows = lift(F, sorted_sequence, size, batched[0])
        wanted = lift(F, input, size, batched[1])
        if len(rows.shape) > 2:
            return F.searchsorted(rows, wanted, out_int32, right)
        found = F.searchsorted(rows, flattened(F, wanted), out_int32, right)
        return F.reshape(found, wanted.shape)


@api(method=False, samples=[Case(Index([2, 0]), Index([1, 2, 3]))])
def bucketize(input: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    """bucketize(input, boundaries, *, right=False) -> Tensor: the bucket of each value.

    >>> bucketize(tensor([3, 6]), tensor([1, 5]))
    tensor([1, 2])
    """
    if boundaries._array.ndim != 1:
        raise RuntimeError(
            f"torch.searchsorted(): boundaries tensor must be 1 dimension, but got dim("
            f"{boundaries._array.ndim})"
        )
    boundaries, input = beside_number(boundaries, input)
    check_sortable(boundaries, input)
    return apply(Searchsorted, (boundaries, input), (bool(out_int32), bool(right)))


@api(name="nn.functional.one_hot", samples=[Case(Index([0, 2])), Case(Index([[1]]), 3)])
def one_hot(input: Any, num_classes: int = -1) -> Any:
    """one_hot(input, num_classes=-1) -> Tensor: a 1 at the place that each class index names.

    >>> torch.nn.functional.one_hot(tensor([0, 2]))
    tensor([[1, 0, 0],
            [0, 0, 1]])
    """
    x = array_of("one_hot", input)
    if is_batched(input) or num_classes > 0 and is_asked(input):
        return one_hot_in_batch(input, num_classes)
    if x.dtype != np.int64:
        refusal = RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
        explain_call(refusal, "one_hot", ("input",), (input,))
        raise refusal
    if not x.size:
        if num_classes <= 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        return on_device_of(input, np.empty((*x.shape, num_classes), np.int64))
    xp = xp_of(x)
    if num_classes == -1:
        num_classes = max(int(read_values(input).max()) + 1, 1)
    check_classes(input, num_classes)
    if is_recorded():
        return places_of(input, num_classes)
    return wrap((x[..., None] == xp.arange(num_classes)).astype(np.int64, order="C"))


@looks_at_values
def check_classes(input: Any, num_classes: int) -> None:
    x = known_values(input)
    if x.size and x.min() < 0:
        raise RuntimeError("Class values must be non-negative.")
    if x.size and x.max() >= num_classes:
        raise RuntimeError("Class values must be smaller than num_classes.")


def one_hot_in_batch(input: Any, num_classes: int) -> Any:
    """`one_hot` under vmap, where the number of classes cannot follow from the data."""
    if num_classes <= 0:
        raise refusal(
            "When vmap-ing torch.nn.functional.one_hot, please provide an explicit positive "
            "num_classes argument."
        )
    check_classes(input, num_classes)
    return places_of(input, num_classes)


def places_of(input: Any, num_classes: int) -> Any:
    """`one_hot` by ops."""
    return (input.unsqueeze(-1) == on_device_of(input, np.arange(num_classes))).to(dtypes.int64)
