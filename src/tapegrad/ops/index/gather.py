"""Picking and placing along one dimension, element by element: gather and the scatter family."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ... import dtypes, errors
from ...autograd.dispatched import noted_sparse
from ...core.arguments import number_as_array, wrap_dim
from ...core.array_kind import out_of_sight
from ...core.base import TensorBase, as_array, wrap
from ...core.devices import to_host, xp_of
from ...core.host_arrays import host
from ...core.late_bound import ON_DEMAND
from ...core.python_dispatch import same_always
from ...core.rule_functions import RECORDED
from ...core.transforms.batched import left_to_device, physical_array
from ...core.warned import warn
from ...kernels.cpu import KERNELS
from ...kernels.cpu.backend import HOST
from ..block import WIDEST, Autocast, Block, Case, api, apply, helper, noted, op
from ..block.checks import OUT_EXACT, not_implemented
from ..block.samples import Draw, Index
from ..products.matmul import broadcast_batch
from .advanced import LinearMove, Move

# Kernels get index arrays that are in range: `call` looked. 0-d arrays count as having one
# dimension.
# ruff: noqa: N805

# ---------------------------------------------------------------------- shared by kernels and calls


def within(input: Any, index: Any, dim: int) -> Any:
    """The part of `input` that an index of smaller shape looks at."""
    cut = [slice(0, n) for n in index.shape]
    cut[dim] = slice(None)
    return input[tuple(cut)]


def grid(xp: Any, index: Any, dim: int) -> tuple[Any, ...]:
    """NumPy index of the places that `index` means along `dim`."""
    parts = open_grid(xp, index.shape)
    parts[dim] = index
    return tuple(parts)


def open_grid(xp: Any, shape: tuple[int, ...]) -> list[Any]:
    """Per dimension the positions along it, shaped to broadcast against the others."""
    if xp is host and sum(shape) <= FEW:
        return list(kept_grid(shape))
    last = len(shape) - 1
    return [xp.arange(n).reshape(-1, *(1,) * (last - d)) for d, n in enumerate(shape)]


FEW = 1 << 10  # numbers that are kept for the next call


@functools.lru_cache(64)
def kept_grid(shape: tuple[int, ...]) -> tuple[Any, ...]:
    """`open_grid` of small arrays on the host."""
    last = len(shape) - 1
    found = [np.arange(n).reshape(-1, *(1,) * (last - d)) for d, n in enumerate(shape)]
    for positions in found:
        positions.flags.writeable = False
    return tuple(found)


@functools.lru_cache(64)
def kept_starts(counts: tuple[int, ...], dim: int, shape: tuple[int, ...]) -> tuple[Any, int]:
    """Positions in a contiguous array of `shape`, less the part along `dim`, and its step."""
    where: Any = np.zeros((), np.int64)
    step = 1
    for d, part in enumerate(kept_grid(counts)):
        where = where * shape[d] + (0 if d == dim else part)
        step = step * shape[d] if d > dim else step
    starts = np.asarray(where)
    starts.flags.writeable = False
    return starts, step


def flat_places(xp: Any, index: Any, dim: int, shape: tuple[int, ...]) -> Any:
    """The places along `dim` as positions in a contiguous array of `shape`."""
    if xp is host and index.size <= FEW:
        starts, step = kept_starts(index.shape, dim, shape)
        return (starts + index * step).reshape(-1)
    where = xp.zeros((), np.int64)
    for d, part in enumerate(grid(xp, index, dim)):
        where = where * shape[d] + part
    return where.reshape(-1)


def one_dim(x: Any) -> Any:
    return x if x.ndim else x.reshape(1)


def place(xp: Any, out: Any, index: Any, src: Any, dim: int, how: Any) -> None:
    """Write `src`, or combine it with the ufunc `how`, at the places of `index` in `out`."""
    if not index.size:
        return
    out, index = one_dim(out), one_dim(index)
    if hasattr(src, "ndim") and src.ndim:
        src = src[tuple([slice(0, n) for n in index.shape])]
    if how is None:
        out[grid(xp, index, dim)] = src
    elif out.flags.c_contiguous:
        if getattr(src, "shape", ()) != index.shape:
            src = xp.broadcast_to(src, index.shape)
        values = src.reshape(-1)
        how.at(out.reshape(-1), flat_places(xp, index, dim, out.shape), values)
    else:
        how.at(out, grid(xp, index, dim), src)


def check_index_dtype(index: Any, sentence: str) -> None:
    dtype = index._array.dtype
    if dtype.kind != "i" or dtype.itemsize < 4:
        raise RuntimeError(sentence)


def check_tensor(function: str, argument: str, position: int, value: Any) -> None:
    if not isinstance(value, TensorBase):
        raise errors.must_be_tensor(function, argument, position, value)


@noted
def first_outside(index: Any, size: int) -> int | None:
    """The first index that is negative or too large."""
    if left_to_device(index, 0, size):
        return None
    x = physical_array(index)
    if KERNELS is not None and KERNELS.all_below(x, size):
        return None
    # Negative indices are large ones when read as unsigned: one look finds both.
    if not x.size or np.maximum.reduce(x.view(f"u{x.itemsize}"), None) < size:
        return None
    return int(x[(x < 0) | (x >= size)].flat[0])


@noted
def any_negative(index: Any) -> bool:
    """Whether an index counts from the end; on a GPU, whether it may."""
    return (
        index._special
        and out_of_sight(physical_array(index))
        or bool(physical_array(index).min(initial=0) < 0)
    )


def check_range(
    index: Any, shape: tuple[int, ...], dim: int, kind: type = RuntimeError, start: str = ""
) -> None:
    size = shape[dim] if shape else 1
    wrong = first_outside(index, size)
    if wrong is not None:
        raise kind(f"{start}index {wrong} is out of bounds for dimension {dim} with size {size}")


def scalar_name(t: Any) -> str:
    return dtypes.of(t._array.dtype).scalar_type


# ---------------------------------------------------------------------- gather


@op
class Gather(LinearMove):
    """gather(input, dim, index) -> Tensor: along `dim`, the elements that `index` names.

    >>> tensor([[1, 2], [3, 4]]).gather(1, tensor([[0, 0], [1, 0]]))
    tensor([[1, 1],
            [4, 3]])
    """

    tensors = ("input", "index")
    plain_tensors = ("index",)
    out_apart = True
    out_dtype = OUT_EXACT
    keeps_finite = True
    samples = [
        Case(Draw(2, 3), 1, Index([[2, 0], [1, 1]])),
        Case(Draw(2, 3, layout="T"), 0, Index([[1, 0, 1]])),
        Case(Draw(3, 2), -1, Index(np.zeros((3, 0), np.int64))),
        Case(Draw(), 0, Index(0)),
    ]
    dims = ("dim",)

    def fwd(xp, input, index, dim):
        if not index.size:
            return xp.empty(index.shape, input.dtype)
        source, where = one_dim(input), one_dim(index)
        if where.ndim == 2:
            return xp.ascontiguousarray(source[grid(xp, where, dim)])
        out = xp.take_along_axis(within(source, where, dim), where, axis=dim)
        return xp.ascontiguousarray(out).reshape(index.shape)

    def d_input(F, grad, index, input_shape, dim):
        return F.scatter_into(grad, index, input_shape, dim)

    def call(input, dim, index, *, sparse_grad=False, run=apply):
        check_tensor("gather", "index", 2, index)
        if index._array.size:
            check_index_dtype(index, "gather(): Expected dtype int32/int64 for index")
        shape, at = input._array.shape, index._array.shape
        dim = wrap_dim(dim, len(shape))
        if index._array.size:
            if max(len(shape), 1) != max(len(at), 1):
                raise RuntimeError(
                    "Index tensor must have the same number of dimensions as input tensor"
                )
            for d, n in enumerate(at):
                if d != dim and n > shape[d]:
                    raise RuntimeError(
                        f"Size does not match at dimension {d} expected index {list(at)} to be no "
                        f"larger than self {list(shape)} apart from dimension {dim}"
                    )
            check_range(index, shape, dim)
        if sparse_grad and run is apply:
            return noted_sparse(apply(GatherSparsely, (input, index), (dim,)), True)
        return run(Gather, (input, index), (dim,))


@op
class GatherSparsely(LinearMove):
    """gather_sparsely(input, index, dim) -> Tensor: `gather` whose gradient is a sparse tensor."""

    aten = None
    node = "GatherBackward0"
    tensors = ("input", "index")
    plain_tensors = ("index",)
    public = False
    dims = ("dim",)

    def fwd(xp, input, index, dim):
        return Gather.forward(xp, input, index, dim)

    def d_input(F, grad, index, input_shape, dim):
        if F.recorded:
            return sparse_gradient(grad, index, tuple(input_shape), dim)
        return F.scatter_into(grad, index, input_shape, dim)


def sparse_gradient(grad: Any, index: Any, shape: tuple[int, ...], dim: int) -> Any:
    """One entry for every element that was taken."""
    at_places = ON_DEMAND.sparse_gradient
    if not shape:
        return at_places(index.new_zeros(0, index.numel()), grad.reshape(-1), ())
    sizes = index.shape or (1,)
    where = np.indices(sizes).reshape(len(shape), -1)
    where[dim] = to_host(index._array).reshape(-1)
    return at_places(wrap(where), grad.reshape(-1), shape)


def scattered(xp: Any, values: Any, index: Any, shape: tuple[int, ...], dim: int) -> Any:
    """Zeros of `shape` with `values` added at the places of `index`: what gather sends back."""
    out = xp.zeros(shape, values.dtype)
    place(xp, out, index, values, dim, xp.add)
    return out


scattered_on_host = HOST.helper("scatter_into", functools.partial(scattered, host))


def scatter_into_raw(grad: Any, index: Any, shape: tuple[int, ...], dim: int) -> Any:
    xp, values = xp_of(grad), as_array(grad)
    if xp is host:
        return scattered_on_host(values, index, shape, dim)
    return scattered(xp, values, index, shape, dim)


def scatter_into_recorded(grad: Any, index: Any, shape: tuple[int, ...], dim: int) -> Any:
    return RECORDED.scatter_add(RECORDED.blank(grad, shape), index, grad, dim)


helper(
    "scatter_into",
    scatter_into_raw,
    scatter_into_recorded,
    "scatter_add(zeros(shape), dim, index, grad)",
)


# ---------------------------------------------------------------------- scatter


def same_places(name: str, index: Any, src_shape: tuple[int, ...]) -> None:
    """A source larger than the index has no gradient of its own shape; PyTorch says so too."""
    if tuple(index.shape) != tuple(src_shape):
        raise RuntimeError(
            f"Function {name} returned an invalid gradient at index 1 - got {list(index.shape)} "
            f"but expected shape compatible with {list(src_shape)}"
        )


@op
class ScatterSrc(Move):
    """scatter_src(input, index, src, dim) -> Tensor: `scatter` of a tensor."""

    node = "ScatterBackward0"
    aten = "scatter.src"
    tensors = ("input", "index", "src")
    plain_tensors = ("index",)
    public = False
    dims = ("dim",)
    apart = ("index", "src")

    def into(xp, input, index, src, dim):
        place(xp, input, index, src, dim, None)

    def d_input(F, grad, index, dim):
        return F.scatter_value(grad, index, 0, dim)

    def d_src(F, grad, index, src_shape, dim):
        same_places("ScatterBackward0", index, src_shape)
        return F.gather(grad, index, dim)

    def jvp(F, input, index, src, t_input, t_src, dim):
        a = F.zeros_like(input) if t_input is None else t_input
        b = F.zeros_like(src) if t_src is None else t_src
        return F.scatter_src(a, index, b, dim)


@op
class ScatterValue(Move):
    """scatter_value(input, index, value, dim) -> Tensor: `scatter` of a number."""

    node = "ScatterBackward1"
    aten = "scatter.value"
    tensors = ("input", "index")
    plain_tensors = ("index",)
    public = False
    dims = ("dim",)
    apart = ("index",)

    def into(xp, input, index, value, dim):
        place(xp, input, index, value, dim, None)

    def d_input(F, grad, index, dim):
        return F.scatter_value(grad, index, 0, dim)

    def jvp(F, index, t_input, dim):
        return F.scatter_value(t_input, index, 0, dim)


@op
class ScatterOld(Block):
    """scatter_old(input, index, src, dim, reduce) -> Tensor: `scatter` with `reduce=`."""

    node = "NotImplemented"
    aten = None
    tensors = ("input", "index", "src")
    plain_tensors = ("index",)
    public = False
    dims = ("dim",)
    apart = ("index", "src")
    nearest = "scatter_add, or scatter with a reduce that has a derivative"

    def into(xp, input, index, src, dim, reduce):
        place(xp, input, index, src, dim, xp.add if reduce == "add" else xp.multiply)

    def d_input(F, grad):
        raise RuntimeError("derivative for aten::scatter is not implemented")

    def d_src(F, grad):
        raise RuntimeError("derivative for aten::scatter is not implemented")

    def jvp(F, input):
        raise NotImplementedError(
            "Trying to use forward AD with aten::scatter that does not support it."
        )


@op
class ScatterAdd(LinearMove):
    """scatter_add(input, dim, index, src) -> Tensor: `src` added at the places that `index` names.

    >>> zeros(3).scatter_add(0, tensor([0, 2, 0]), tensor([1.0, 2.0, 3.0]))
    tensor([4., 0., 2.])
    """

    tensors = ("input", "index", "src")
    plain_tensors = ("index",)
    inplace = True
    autocast = Autocast(gpu=WIDEST)
    vmap_write = "scatter_add_"
    out_dtype = OUT_EXACT
    samples = [
        Case(Draw(2, 3), 1, Index([[0, 0], [2, 1]]), Draw(2, 2)),
        Case(Draw(2, 3, layout="T"), 0, Index([[1, 1, 1], [1, 0, 1]]), Draw(2, 3)),
    ]
    dims = ("dim",)
    apart = ("index", "src")

    def into(xp, input, index, src, dim):
        if input.size or input.ndim != 1 or index.ndim != 1:
            place(xp, input, index, src, dim, xp.add)

    def d_input(F, grad):
        return grad

    def d_src(F, grad, index, src_shape, dim):
        same_places("ScatterAddBackward0", index, src_shape)
        return F.gather(grad, index, dim)

    def jvp(F, input, index, src, t_input, t_src, dim):
        a = F.zeros_like(input) if t_input is None else t_input
        b = F.zeros_like(src) if t_src is None else t_src
        return F.scatter_add(a, index, b, dim)

    def call(input, dim, index, src, run=apply):
        check_tensor("scatter_add", "src", 3, src)
        dim = check_scatter("scatter", input, dim, index, src)
        return run(ScatterAdd, (input, index, src), (dim,))


def check_scatter(name: str, input: Any, dim: int, index: Any, src: Any) -> int:
    """PyTorch's refusals for the scatter family; gives `dim` counted from the front."""
    check_tensor(name, "index", 2, index)
    shape, at = input._array.shape, index._array.shape
    dim = wrap_dim(dim, len(shape))
    if index._array.size:
        check_index_dtype(index, f"{name}(): Expected dtype int32/int64 for index")
    if src is not None and src._array.dtype != input._array.dtype:
        raise RuntimeError(f"{name}(): Expected self.dtype to be equal to src.dtype")
    if not index._array.size:
        return dim
    if max(len(shape), 1) != max(len(at), 1):
        raise RuntimeError("Index tensor must have the same number of dimensions as self tensor")
    wrong = any([d != dim and n > shape[d] for d, n in enumerate(at)])
    sentence = (
        f"Expected index {list(at)} to be no larger than self {list(shape)} apart from "
        f"dimension {dim}"
    )
    if src is not None:
        given = src._array.shape
        if max(len(given), 1) != max(len(at), 1):
            raise RuntimeError("Index tensor must have the same number of dimensions as src tensor")
        wrong = wrong or any([n > m for n, m in zip(at, given, strict=False)])
        sentence += f" and to be no larger size than src {list(given)}"
    if wrong:
        raise RuntimeError(sentence)
    check_range(index, shape, dim)
    return dim


@api(
    inplace=True,
    samples=[
        Case(Draw(2, 3), 1, Index([[0, 2], [1, 0]]), Draw(2, 2)),
        Case(Draw(2, 3), 0, Index([[1, 0, 1]]), 4.0),
        Case(Draw(2, 3, layout="step"), -1, Index([[1], [2]]), value=2),
    ],
    out_dtype=OUT_EXACT,
)
def scatter(
    input: Any,
    dim: int,
    index: Any,
    src: Any = None,
    *,
    value: Any = None,
    reduce: str | None = None,
    run: Any = apply,
) -> Any:
    """scatter(input, dim, index, src) -> Tensor: `src` written to the places that `index` names.

    >>> zeros(2, 3).scatter(1, tensor([[1], [2]]), 7.0)
    tensor([[0., 7., 0.],
            [0., 0., 7.]])
    """
    if src is None:
        src = value
    if src is None:
        raise TypeError(
            "scatter() received an invalid combination of arguments - got (int, Tensor), but "
            "expected one of:"
        )
    if reduce is not None and reduce not in ("add", "multiply"):
        raise RuntimeError("reduce argument must be either add or multiply.")
    if isinstance(src, TensorBase):
        if reduce is not None:
            warn(
                "The reduce argument of torch.scatter with Tensor src is deprecated and will be "
                "removed in a future PyTorch release. Use torch.scatter_reduce instead for more "
                "reduction options.",
                UserWarning,
            )
        dim = check_scatter("scatter", input, dim, index, src)
        if reduce is None:
            return run(ScatterSrc, (input, index, src), (dim,))
        return run(ScatterOld, (input, index, src), (dim, reduce))
    dim = check_scatter("scatter", input, dim, index, None)
    fill = number_as_array(input._array.dtype, src)[()]
    if reduce is None:
        return run(ScatterValue, (input, index), (fill, dim))
    return run(ScatterOld, (input, index, same_always(wrap(np.asarray(fill)))), (dim, reduce))


@op
class ScatterReduce(Block):
    """scatter_reduce(input, dim, index, src, reduce) -> Tensor: `src` combined with `input`.

    >>> zeros(2).scatter_reduce(0, tensor([0, 0, 1]), tensor([1.0, 3.0, 2.0]), "amax")
    tensor([3., 2.])
    """

    aten = "scatter_reduce.two"
    tensors = ("input", "index", "src")
    inplace = True
    out_dtype = OUT_EXACT
    samples = [
        Case(Draw(2, 3), 1, Index([[0, 0], [2, 1]]), Draw(2, 2), how, include_self=own)
        for how in ("sum", "prod", "mean", "amax", "amin")
        for own in (True, False)
    ]
    dims = ("dim",)
    apart = ("index", "src")

    def into(xp, input, index, src, dim, reduce, include_self):
        combine(xp, input, index, src, dim, reduce, include_self)

    def backward(F, grad, needs, input, index, src, out, dim, reduce, include_self):
        d_input, d_src = reduced_gradients(
            F, grad, needs, input, index, src, out, dim, reduce, include_self
        )
        if needs[0] and not include_self:
            d_input = F.scatter_value(d_input, index, 0, dim)
        return d_input, None, d_src

    def jvp(F, input, index, src, t_input, t_src, out, dim, reduce, include_self):
        a = F.zeros_like(input) if t_input is None else t_input
        b = F.zeros_like(src) if t_src is None else t_src
        if reduce in ("sum", "mean"):
            return F.scatter_reduce(a, index, b, dim, reduce, include_self)
        if reduce == "prod":
            own = a / input if include_self else F.scatter_value(a / input, index, 0, dim)
            return F.scatter_add(own, index, b / src, dim) * out
        from_input, from_src = winners(F, input, index, src, out, dim, include_self)
        total = F.scatter_add(from_input * a, index, from_src * b, dim)
        return total / F.scatter_add(from_input, index, from_src, dim)

    def call(input, dim, index, src, reduce, *, include_self=True, run=apply):
        if reduce not in ("sum", "prod", "mean", "amax", "amin"):
            raise RuntimeError(
                f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"
            )
        check_tensor("scatter_reduce", "src", 3, src)
        dim = check_scatter("scatter", input, dim, index, src)
        kind = input._array.dtype.kind
        if index._array.size and (
            kind == "b" and reduce == "mean" or kind == "c" and reduce in ("amax", "amin")
        ):
            raise not_implemented(f"scatter_gather_tensor_cpu_reduce_{reduce}", input.dtype)
        return run(ScatterReduce, (input, index, src), (dim, reduce, bool(include_self)))


def combine(
    xp: Any, out: Any, index: Any, src: Any, dim: int, reduce: str, include_self: bool
) -> None:
    """Combine `src` with what is in `out`, or only with itself, at the places of `index`."""
    if not index.size:
        return
    out = one_dim(out)
    if not include_self:
        place(xp, out, index, neutral_element(out.dtype, reduce), dim, None)
    how = {
        "sum": xp.add,
        "mean": xp.add,
        "prod": xp.multiply,
        "amax": xp.maximum,
        "amin": xp.minimum,
    }[reduce]
    place(xp, out, index, src, dim, how)
    if reduce == "mean":
        # Zeroed memory costs nothing where nobody writes: only the places of `index` are counted.
        count = xp.zeros(out.shape, out.dtype)
        place(xp, count, index, out.dtype.type(1), dim, xp.add)
        places = grid(xp, one_dim(index), dim)
        counts = count[places] + out.dtype.type(include_self)
        sums = out[places]
        out[places] = sums // counts if out.dtype.kind in "iub" else sums / counts


def neutral_element(dtype: Any, reduce: str) -> Any:
    """The number that does not change the result of a reduction."""
    if reduce in ("sum", "mean"):
        return dtype.type(0)
    if reduce == "prod":
        return dtype.type(1)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return limits.min if reduce == "amax" else limits.max
    if dtype.kind == "b":
        return reduce == "amin"
    return dtype.type(-np.inf if reduce == "amax" else np.inf)


TWO_ZEROS = (
    "(): Double backward is unsupported for {0} when >1 zeros in {0} are scattered to the same "
    "position in self"
)


@op
class DelayedError(Block):
    """delayed_error(input, message) -> Tensor: its input; a gradient that comes back raises."""

    aten = None
    node = "torch::autograd::Error"
    public = False
    unbatchable = "it stands for a derivative that does not exist"

    def fwd(xp, input, message):
        return input

    def d_input(F, grad, message):
        raise RuntimeError(message)

    def jvp(F, t_input, message):
        raise RuntimeError(message)


def winners(
    F: Any, input: Any, index: Any, src: Any, out: Any, dim: int, include_self: bool
) -> tuple[Any, Any]:
    """Ones where an element of input, or of src, is the extreme that came out."""
    from_input = F.where(input == out, F.ones_like(input), F.zeros_like(input))
    if not include_self:
        untouched = F.scatter_value(F.ones_like(input), index, 0, dim)
        from_input = from_input * untouched
    from_src = F.where(src == F.gather(out, index, dim), F.ones_like(src), F.zeros_like(src))
    return from_input, from_src


def reduced_gradients(
    F: Any,
    grad: Any,
    needs: Any,
    input: Any,
    index: Any,
    src: Any,
    out: Any,
    dim: int,
    reduce: str,
    include_self: bool,
    name: str = "scatter_reduce",
    source: str = "src",
) -> tuple[Any, Any]:
    """The gradients of `scatter_reduce` for input and src, before `include_self` is looked at.

    `name` and `source` are what an error calls the function and its tensor of values.
    """
    same_places("ScatterReduceBackward0", index, src.shape)
    if reduce == "sum":
        return grad, F.gather(grad, index, dim) if needs[2] else None
    if reduce == "mean":
        start = F.ones_like(grad) if include_self else F.zeros_like(grad)
        count = F.scatter_add(start, index, F.ones_like(src), dim)
        share = grad / F.masked_fill(count, count == 0, 1)
        return share, F.gather(share, index, dim) if needs[2] else None
    if reduce == "prod":
        d_input = d_src = None
        if needs[0]:
            safe = F.masked_fill(input, input == 0, 1)
            rest = F.scatter_reduce(safe, index, src, dim, "prod", include_self)
            d_input = grad * rest / safe
        if needs[2]:
            zero = src == 0
            zeros = F.where(zero, F.ones_like(src), F.zeros_like(src))
            counts = F.gather(F.scatter_add(F.zeros_like(input), index, zeros, dim), index, dim)
            alone = zero & (counts == 1)
            rest = F.scatter_reduce(
                input, index, F.masked_fill(src, alone, 1), dim, "prod", include_self
            )
            others = F.gather(grad * out, index, dim) / F.masked_fill(src, zero, 1)
            d_src = F.where(alone, F.gather(grad, index, dim) * F.gather(rest, index, dim), others)
            if F.recorded and bool((zero & (counts > 1)).any()):
                d_src = F.delayed_error(d_src, f"{name}{TWO_ZEROS.format(source)}")
        return d_input, d_src
    from_input, from_src = winners(F, input, index, src, out, dim, True)
    share = grad / F.scatter_add(from_input, index, from_src, dim)
    return from_input * share, from_src * F.gather(share, index, dim)


@api(
    samples=[Case(Draw(2, 3), Index([[2, 0], [1, 1]]), 1), Case(Draw(2, 3), Index([5, 0]))],
    out_dtype=OUT_EXACT,
    out_apart=True,
)
def take_along_dim(input: Any, indices: Any, dim: int | None = None) -> Any:
    """take_along_dim(input, indices, dim=None) -> Tensor: `gather` with shapes that broadcast.

    >>> take_along_dim(tensor([[1, 2], [3, 4]]), tensor([[1], [0]]), 1)
    tensor([[2],
            [3]])
    """
    if indices._array.dtype != np.int64:
        raise RuntimeError(
            f"torch.take_along_dim(): dtype of indices should be Long but got "
            f"{scalar_name(indices)}"
        )
    if dim is None:
        return input.flatten().gather(0, indices.flatten())
    ndim = input._array.ndim
    if ndim != indices._array.ndim:
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, "
            f"but got {ndim} dimensions for input, and {indices._array.ndim} dimensions for indices"
        )
    dim = wrap_dim(dim, ndim)
    if not ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    own, other = list(input._array.shape), list(indices._array.shape)
    own[dim], other[dim] = other[dim], own[dim]
    spread = broadcast_batch(tuple(own), indices._array.shape)
    size = input._array.shape[dim]
    if indices._array.size and size and any_negative(indices):
        indices = indices.remainder(size)
    return input.expand(broadcast_batch(input._array.shape, tuple(other))).gather(
        dim, indices.expand(spread)
    )
