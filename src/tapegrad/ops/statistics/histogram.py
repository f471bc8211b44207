"""Histograms: how many elements, or how much weight, falls between each two edges."""

from __future__ import annotations

import math
from typing import Any

from ... import dtypes
from ...core.array_kind import refuse_meta
from ...core.base import STATE, TensorBase
from ...core.named_results import return_type
from ...core.python_dispatch import read_values
from ...core.rounding import half_as_single
from ...core.strides import contiguous
from ...core.transforms.batched import has_batched, is_batched, no_rule
from ...errors import no_tensor_in_list
from ..block import Block, Case, api, apply, op
from ..block.batching import up
from ..block.checks import all_dims, array_of, invalid_call, is_number, not_implemented, only_bool
from ..block.samples import Draw, Index
from ..creation.ranges import evenly

# ruff: noqa: N805

HistogramddResult = return_type("histogramdd", ("hist", "bin_edges"))

DATA_DEPENDENT = "the edges of the bins depend on the data"


def stretched(low: float, high: float) -> tuple[float, float]:
    """A range that has some width."""
    return (low - 0.5, high + 0.5) if low == high else (low, high)


def c_number(value: Any) -> str:
    return f"{float(value):g}"


# ---------------------------------------------------------------------- histc


SOFT = "a soft histogram: sums of torch.sigmoid differences at the bin edges"


@op
class Histc(Block):
    """histc(input, bins=100, min=0, max=0) -> Tensor: counts in bins of equal width.

    Without `min` and `max`, the bins span the data.

    >>> histc(tensor([1.0, 2.0, 1.0]), bins=4, min=0, max=3)
    tensor([0., 2., 1., 0.])
    """

    unbatchable = DATA_DEPENDENT
    undifferentiable = "the results are counts"
    samples = [
        Case(Draw(5), 4),
        Case(Draw(3, 4), bins=3, min=-1, max=1),
        Case(Draw(), 2),
        Case(Draw(0, 2), 3),
    ]

    def fwd(xp, input, bins, low, high):
        x = input.reshape(-1)
        ends = xp.asarray([low, high]).astype(input.dtype)
        x = x[(x >= ends[0]) & (x <= ends[1])]
        # In the dtype of the data, as the compared code does, roundings included.
        place = (x - ends[0]) * xp.asarray(bins).astype(input.dtype) / (ends[1] - ends[0])
        place = xp.minimum(place.astype(xp.float64).astype(xp.int64), bins - 1)
        return xp.bincount(place, minlength=bins).astype(input.dtype)

    def call(input, bins=100, min=0, max=0):
        x = array_of("histc", input)
        if isinstance(bins, bool) or not hasattr(bins, "__index__"):
            raise TypeError(
                f"histc(): argument 'bins' (position 2) must be int, not {type(bins).__name__}"
            )
        if bins <= 0:
            raise bad_bins(bins, 0)
        low, high = float(min), float(max)
        if low > high:
            raise RuntimeError("torch.histc: max must be larger than min")
        if is_batched(input):
            raise no_rule("histc")
        if low == high and x.size and type(x) is not STATE.meta_type:
            if x.dtype.kind == "c":
                raise not_implemented("aminmax_cpu", input.dtype)
            read_values(input)
            low, high = float(x.min()), float(x.max())
        if low == high:
            low, high = low - 1, high + 1
        if not (math.isfinite(low) and math.isfinite(high)):
            raise RuntimeError(
                f"torch.histc: range of [{c_number(low)}, {c_number(high)}] is not finite"
            )
        if x.dtype.kind == "b":
            raise not_implemented("linspace_cpu", input.dtype)
        if x.dtype.kind not in "fV":
            raise not_implemented("histogram_cpu", input.dtype)
        return apply(Histc, (input,), (int(bins), low, high))


def bad_bins(bins: int, dim: int) -> RuntimeError:
    return RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension {dim}")


# ---------------------------------------------------------------------- histogram


def not_differentiable(name: str) -> Any:
    """The node is recorded, and says no when a gradient arrives."""

    def backward(F: Any, grad: Any, needs: Any) -> Any:
        raise RuntimeError(f"derivative for {name} is not implemented")

    return backward


def counted(xp: Any, columns: Any, edges: list[Any], weight: Any, density: bool) -> Any:
    """The count in each cell of the grid that `edges` span; `columns` is (elements, D)."""
    dtype = columns.dtype
    columns, weight = half_as_single(columns), half_as_single(weight)
    edges = [half_as_single(ends) for ends in edges]
    inside = xp.ones(len(columns), bool)
    cell = xp.zeros(len(columns), xp.int64)
    for d, ends in enumerate(edges):
        x = columns[:, d]
        inside &= (x >= ends[0]) & (x <= ends[-1])
        # The last bin has both its ends.
        place = xp.searchsorted(ends, x, "right") - 1
        cell = cell * (len(ends) - 1) + xp.minimum(place, len(ends) - 2)
    shape = tuple([len(ends) - 1 for ends in edges])
    weight = None if weight is None else weight[inside]
    hist = xp.bincount(cell[inside], weight, math.prod(shape))
    hist = hist.astype(columns.dtype).reshape(shape)
    if density:
        hist = hist / hist.sum()
        for d, ends in enumerate(edges):
            hist = hist / xp.diff(ends).reshape([-1 if i == d else 1 for i in range(len(edges))])
    return hist.astype(dtype, copy=False)


def even_edges(x: Any, bins: Any, range: Any) -> list[Any]:
    """Edges of bins of equal width for each column of `x`, over `range` or the data."""
    found = []
    for d, count in enumerate(bins):
        if range is not None:
            low, high = float(range[2 * d]), float(range[2 * d + 1])
        elif not len(x):
            low, high = 0.0, 1.0
        else:
            low, high = float(x[:, d].min()), float(x[:, d].max())
        if not (math.isfinite(low) and math.isfinite(high)):
            raise RuntimeError(
                f"torch.histogramdd: dimension {d}'s range [{c_number(low)}, {c_number(high)}] is "
                "not finite"
            )
        if low > high:
            raise RuntimeError(
                "torch.histogramdd: min should not exceed max, but got min "
                f"{c_number(low)} max {c_number(high)} for dimension {d}"
            )
        found.append(evenly(*stretched(low, high), count + 1, x.dtype))
    return found


def refuse_dtype(input: Any, x: Any, even: bool, range: Any) -> None:
    kind = x.dtype.kind
    if even and range is None and x.size and (kind != "f" or x.dtype.itemsize < 4):
        raise not_implemented("histogramdd", input.dtype)
    if even and kind == "b":
        raise not_implemented("linspace_cpu", input.dtype)
    if kind not in "fV":
        raise not_implemented("histogram_cpu", input.dtype)


def check_histogram(input: Any, x: Any, bins: list[Any], weight: Any, range: Any) -> None:
    """`x` is (…, D), `bins` one number or array of edges for each column."""
    name = "torch.histogramdd: "
    ndim = x.shape[-1]
    refuse_dtype(input, x, isinstance(bins[0], int) if bins else False, range)
    for d, each in enumerate(bins):
        if isinstance(each, int):
            if each <= 0:
                raise bad_bins(each, d)
            continue
        if each.dtype != x.dtype:
            raise RuntimeError(
                f"{name}input tensor and bins tensors should have the same dtype, but got input "
                f"with dtype {dtypes.cpp_name(x.dtype)} and bins for dimension {d} with dtype "
                f"{dtypes.cpp_name(each.dtype)}"
            )
        if each.ndim != 1:
            raise RuntimeError(
                f"{name}bins tensor should have one dimension, but got {each.ndim} dimensions in "
                f"the bins tensor for dimension {d}"
            )
        if not each.size:
            raise RuntimeError(
                f"{name}bins tensor should have at least 1 element, but got 0 elements in the bins "
                f"tensor for dimension {d}"
            )
        if each.size == 1:
            raise bad_bins(0, d)
    if weight is not None:
        if weight._array.dtype != x.dtype:
            raise RuntimeError(
                f"{name}if weight tensor is provided, input tensor and weight tensor should have "
                f"the same dtype, but got input({dtypes.cpp_name(x.dtype)}), and "
                f"weight({dtypes.cpp_name(weight._array.dtype)})"
            )
        if weight._array.shape != x.shape[:-1]:
            raise RuntimeError(
                f"{name}if weight tensor is provided it should have the same shape as the input "
                "tensor excluding its innermost dimension, but got input with shape "
                f"{list(x.shape)} and weight with shape {list(weight._array.shape)}"
            )
    if range is not None and len(range) != 2 * ndim:
        raise RuntimeError(
            f"{name}for a {ndim}-dimensional histogram range should have {2 * ndim} elements, but "
            f"got {len(range)}"
        )


@op
class Histogram(Block):
    """histogram(input, bins, *, range=None, weight=None) -> (hist, bin_edges): how many elements
    fall into each bin.

    `bins` is a number of bins of equal width, or a tensor of their edges. With `density`, the
    integral is 1.

    >>> histogram(tensor([1.0, 2.0, 1.0]), bins=2, range=(0.0, 3.0))
    torch.return_types.histogram(
    hist=tensor([2., 1.]),
    bin_edges=tensor([0.0000, 1.5000, 3.0000]))
    """

    node = "torch::autograd::NotImplemented"
    aten = "histogram.bin_ct"
    tensors = ("input", "bins", "weight")
    outs = ("hist", "bin_edges")
    result = return_type("histogram", ("hist", "bin_edges"))
    backward = not_differentiable("aten::histogram")
    unbatchable = DATA_DEPENDENT
    nearest = SOFT
    samples = [
        Case(Draw(5), 2),
        Case(Draw(2, 3), 3, range=(-1.0, 1.0)),
        Case(Draw(5), Index([-2.0, 0.0, 1.0]), density=True),
        Case(Draw(5), 2, weight=Draw(5)),
    ]

    def fwd(xp, input, bins, weight, edges, density):
        edges = edges if bins is None else bins.copy()
        column = input.reshape(-1, 1)
        weight = None if weight is None else weight.reshape(-1)
        return counted(xp, column, [edges], weight, density), edges

    def jvp(F, input):
        raise no_forward_mode("histogram")

    def call(input, bins=100, *, range=None, weight=None, density=False):
        if has_batched((input, bins, weight)):
            raise no_rule("histogram")
        x = array_of("histogram", input).reshape(-1, 1)
        given = isinstance(bins, TensorBase)
        if not given and (isinstance(bins, bool) or not hasattr(bins, "__index__")):
            raise invalid_call("histogram", input, bins)
        if given and range is not None:
            raise invalid_call("histogram", input, bins)
        refuse_meta("histogram.bins_tensor" if given else "histogram.bin_ct", input)
        flat = None if weight is None else weight.reshape(-1)
        check_histogram(input, x, [bins._array if given else int(bins)], flat, range)
        edges = None if given else even_edges(x, [int(bins)], range)[0]
        return apply(Histogram, (input, bins if given else None, weight), (edges, bool(density)))


def no_forward_mode(name: str) -> NotImplementedError:
    return NotImplementedError(
        f"Trying to use forward AD with {name} that does not support it because it has not been "
        "implemented yet."
    )


@op
class HistogramddCounts(Block):
    """histogramdd_counts(input, weight, edges, density) -> Tensor: sums in the cells of a grid."""

    node = "torch::autograd::NotImplemented"
    aten = "_histogramdd_from_bin_cts"
    public = False
    tensors = ("input", "weight")
    backward = not_differentiable("aten::_histogramdd_from_bin_cts")
    unbatchable = DATA_DEPENDENT
    nearest = SOFT

    def fwd(xp, input, weight, edges, density):
        columns = input.reshape(-1, input.shape[-1])
        weight = None if weight is None else weight.reshape(-1)
        return counted(xp, columns, list(edges), weight, density)

    def jvp(F, input):
        raise no_forward_mode("_histogramdd_from_bin_cts")


@op
class HistogramddBinEdges(Block):
    """histogramdd_bin_edges(input, bins, range) -> tuple of Tensors: edges for each coordinate."""

    node = "torch::autograd::NotImplemented"
    aten = "_histogramdd_bin_edges"
    public = False
    several = True
    backward = not_differentiable("aten::_histogramdd_bin_edges")
    unbatchable = DATA_DEPENDENT
    nearest = SOFT

    def fwd(xp, input, bins, range):
        width = input.shape[-1]
        edges = even_edges(input.reshape(input.size // max(width, 1), width), bins, range)
        return tuple([xp.asarray(ends) for ends in edges])

    def jvp(F, input):
        raise no_forward_mode("_histogramdd_bin_edges")


@api(
    method=False,
    samples=[
        Case(Draw(4, 2), [2, 3]),
        Case(Draw(4, 2), 2, range=[-2.0, 2.0, -2.0, 2.0], density=True),
        Case(Draw(2, 2), [Index([-2.0, 0.0, 2.0]), Index([-2.0, 2.0])], weight=Draw(2)),
    ],
)
def histogramdd(
    input: Any, bins: Any, range: Any = None, weight: Any = None, density: bool = False
) -> Any:
    """histogramdd(input, bins, range=None, weight=None) -> (hist, bin_edges): how many points fall
    into each cell of a grid.

    The rows of `input` are points; `bins` says for each coordinate how many bins there are, or
    where their edges are.

    >>> histogramdd(tensor([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]]), bins=[2, 1]).hist
    tensor([[1.],
            [2.]])
    """
    x = array_of("histogramdd", input)
    each = bins if isinstance(bins, (tuple, list)) else ()
    if has_batched((input, weight, *each)):
        raise no_rule("histogramdd")
    if x.ndim < 2:
        raise RuntimeError("torch.histogramdd: input tensor should have at least 2 dimensions")
    ndim = x.shape[-1]
    if is_number(bins):
        bins = [bins] * ndim
    if not isinstance(bins, (tuple, list)):
        raise invalid_call("histogramdd", input, bins)
    given = any(isinstance(each, TensorBase) for each in bins)
    if len(bins) != ndim:
        if given:
            raise RuntimeError(
                f"torch.histogramdd: expected {ndim} sequences of bin edges for a {ndim}-"
                f"dimensional histogram but got {len(bins)}"
            )
        raise RuntimeError(
            "histogramdd: The size of bins must be equal to the innermost dimension of the input."
        )
    for i, each in enumerate(bins):
        if not isinstance(each, TensorBase if given else int):
            raise no_tensor_in_list(i, 1, each)
        if not given and each >= (1 << 63) - 1:  # one more edge than this is a negative number
            raise RuntimeError("number of steps must be non-negative")
    refuse_meta("_histogramdd_from_bin_tensors" if given else "_histogramdd_bin_edges", input)
    if given:
        check_histogram(input, x, [each._array for each in bins], weight, None)
        parts = tuple(bins)
    else:
        check_histogram(input, x, list(bins), weight, range)
        parts = apply(HistogramddBinEdges, (input,), (tuple(bins), range))
    edges = tuple([part._array for part in parts])
    hist = apply(HistogramddCounts, (input, weight), (edges, bool(density)), parts)
    return HistogramddResult((hist, parts))


# ---------------------------------------------------------------------- hash_tensor


@op
class HashTensor(Block):
    """hash_tensor(input, dim=(), *, keepdim=False, mode=0) -> Tensor: the bits, combined by xor.

    Elements are widened to 64 bits first.

    >>> hash_tensor(tensor([1, 2, 4]))
    tensor(7, dtype=torch.uint64)
    """

    undifferentiable = "the result is made of bits"
    samples = [Case(Draw(3, 4)), Case(Draw(3, 4), 0), Case(Draw(2, 3), (0, 1), keepdim=True)]

    def fwd(xp, input, dim, keepdim):
        wide = xp.float64 if input.dtype.kind in "fV" else xp.int64
        bits = input.astype(wide).view(xp.uint64)
        return contiguous(xp, xp.bitwise_xor.reduce(bits, axis=dim, keepdims=keepdim))

    def call(input, dim=(), *, keepdim=False, mode=0):
        x = array_of("hash_tensor", input)
        only_bool("hash_tensor", "keepdim", 3, keepdim)
        if mode != 0:
            raise RuntimeError(f"Unknown hash_tensor mode: {mode}")
        dims = all_dims("hash_tensor", input, dim)
        if not x.size:
            check_some(x, dims)
        if x.dtype.kind == "c":
            raise not_implemented("xor_sum_cpu", input.dtype)
        return apply(HashTensor, (input,), (dims, bool(keepdim)))

    def batch(F, size, batched, input, dim, keepdim):
        return F.hash_tensor(input, up(dim, len(input.shape)), keepdim)


def check_some(x: Any, dims: Any) -> None:
    if dims is None:
        raise RuntimeError(
            "hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Specify "
            "the reduction dim with the 'dim' argument."
        )
    for d in dims:
        if x.shape[d] == 0:
            raise IndexError(f"hash_tensor: Expected reduction dim {d} to have non-zero size.")
