"""Pooling to a given size: adaptive_avg_pool and adaptive_max_pool in one to three dimensions.

Window i of `out` covers floor(i n / out) to ceil((i + 1) n / out): windows differ in length by one
and may overlap. One gather per axis takes them all, the short ones filled up with weights of zero
(means) or with their own last element (maxima).
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...core.host_arrays import host
from ...core.op import Op
from ...core.rounding import half_as_single
from ...core.strides import channels_last, contiguous
from ...kernels.geometry import laid_out_like
from ...kernels.resampling_taps import Table, mix
from ..block import SINGLE, Autocast, Block, Case, api, apply, op
from ..block.checks import check_room
from ..block.samples import Draw
from .pool_windows import (
    COUNT,
    Sizes,
    check_one_axis,
    check_tensor,
    ints,
    offsets,
    one_int,
    picked,
    refuse_dtype,
    scattered,
    volume,
)

# Blocks: their first argument is not a `self`.
# ruff: noqa: N805

# ---------------------------------------------------------------------- windows


@functools.lru_cache(256)
def spans(n: int, out: int) -> tuple[Any, Any]:
    """Where the windows begin and end."""
    i = np.arange(out)
    return i * n // out, -(-(i + 1) * n // out)


@functools.lru_cache(256)
def members(n: int, out: int) -> tuple[Any, Any]:
    """Per window the places that it covers, and which of these columns are really its own."""
    begin, end = spans(n, out)
    return columns(begin, end)


@functools.lru_cache(256)
def means(n: int, out: int) -> Table:
    """The places of every window, and their shares of its mean."""
    begin, end = spans(n, out)
    places, own = members(n, out)
    return places, own / (end - begin)[:, None]


@functools.lru_cache(256)
def shares(n: int, out: int) -> Table:
    """The transpose: the windows that cover every place, and its share of their means."""
    begin, end = spans(n, out)
    places = np.arange(n)
    windows, own = columns(
        np.searchsorted(end, places, side="right"), np.searchsorted(begin, places, side="right")
    )
    return windows, own / (end - begin)[windows]


def columns(begin: Any, end: Any) -> tuple[Any, Any]:
    """The ranges begin … end-1 as the rows of a table; rows that are short repeat their end."""
    table = begin[:, None] + np.arange((end - begin).max())
    return np.minimum(table, end[:, None] - 1), table < end[:, None]


# ---------------------------------------------------------------------- means


class AdaptiveMean(Block):
    linear = True
    public = False

    def fwd(xp, input, out_sizes):
        x = half_as_single(input)
        lead = x.ndim - len(out_sizes)
        if not input.size or not volume(out_sizes):
            return xp.zeros((*input.shape[:lead], *out_sizes), input.dtype)
        for axis, out in enumerate(out_sizes, lead):
            n = x.shape[axis]
            before, behind = x.shape[:axis], x.shape[axis + 1 :]
            if n % out == 0:
                x = even_means(x.reshape(*before, out, n // out, *behind), axis + 1)
            else:
                x = mix(xp, x, axis, means(n, out))
        x = x.astype(input.dtype, copy=False)
        return laid_out_like(xp, input, x, 2) if len(out_sizes) == 2 else contiguous(xp, x)


FEW = 8  # elements of a window: adding slices of them is faster than a reduction


def even_means(x: Any, axis: int) -> Any:
    """The means along an axis of windows that are all of one length."""
    count = x.shape[axis]
    if count > FEW:
        return x.mean(axis)
    ahead = (slice(None),) * axis
    total = x[(*ahead, 0)]
    for k in range(1, count):
        total = total + x[(*ahead, k)]
    return total / x.dtype.type(count) if count > 1 else total.copy()


def rounded_means(xp: Any, x: Any, out_sizes: Sizes) -> Any:
    """Means in half precision throughout: PyTorch's 3-d kernel has no wider sum."""
    dtype = x.dtype
    x = x.astype(xp.float32)
    lead = x.ndim - len(out_sizes)
    tables = [members(n, out) for n, out in zip(x.shape[lead:], out_sizes, strict=True)]
    total = xp.zeros((*x.shape[:lead], *out_sizes), xp.float32)
    for offset in offsets(tuple([table.shape[1] for table, _ in tables])):
        part, own = x, xp.ones((), bool)
        for axis, (k, (table, counted)) in enumerate(zip(offset, tables, strict=True), lead):
            part = part.take(xp.asarray(table[:, k]), axis)
            own = own[..., None] & xp.asarray(counted[:, k])
        total = (total + xp.where(own, part, xp.float32(0))).astype(dtype).astype(xp.float32)
    for axis, (_, counted) in enumerate(tables):
        length = counted.sum(1).reshape(-1, *(1,) * (len(tables) - 1 - axis))
        total = (total / xp.asarray(length, xp.float32)).astype(dtype).astype(xp.float32)
    return total.astype(dtype)


class AdaptiveMeanBackward(Block):
    tensors = ("grad",)
    linear = True
    public = False

    def fwd(xp, grad, sizes):
        check_gradient(f"adaptive_avg_pool{len(sizes)}d_backward", grad.shape)
        g = half_as_single(grad)
        lead = g.ndim - len(sizes)
        if not grad.size:
            return xp.zeros((*grad.shape[:lead], *sizes), grad.dtype)
        for axis, n in enumerate(sizes, lead):
            out = g.shape[axis]
            if n % out == 0:
                g = xp.repeat(g / g.dtype.type(n // out), n // out, axis)
            else:
                g = mix(xp, g, axis, shares(n, out))
        return g.astype(grad.dtype, copy=False)


class RoundedMean(AdaptiveMean):
    """In three dimensions PyTorch has no wider sum for half precision."""

    def fwd(xp, input, out_sizes):
        if input.dtype.itemsize == 2 and volume(out_sizes):
            return rounded_means(xp, input, out_sizes)
        return AdaptiveMean.fwd(xp, input, out_sizes)


def adaptive_mean(n: int, base: type[Block]) -> Op:
    """The op for the last n dimensions, and that of its gradient."""
    title, back = f"adaptive_avg_pool{n}d", f"adaptive_avg_pool{n}d_backward"

    class Means(base):  # type: ignore[valid-type, misc]
        __doc__ = f"{title}(input, out_sizes) -> Tensor: means over the last {COUNT[n]} dimensions."
        name = title
        node = f"AdaptiveAvgPool{n}DBackward0"
        aten = f"_{title}"
        leading = (n,)
        autocast = Autocast(cpu=SINGLE) if n == 3 else None

        def d_input(F, grad, input_shape):
            return getattr(F, back)(grad, tuple(input_shape[-n:]))

    class Backward(AdaptiveMeanBackward):
        __doc__ = f"{back}(grad, sizes) -> Tensor: the gradient of the {n}-d means."
        name = back
        node = f"AdaptiveAvgPool{n}DBackwardBackward0"
        aten = f"_{back}"
        leading = (n,)

        def d_grad(F, grad, grad_shape):
            return getattr(F, title)(grad, tuple(grad_shape[-n:]))

    made = op(Means)
    op(Backward)
    return made


ADAPTIVE_MEAN = {2: adaptive_mean(2, AdaptiveMean), 3: adaptive_mean(3, RoundedMean)}


# ---------------------------------------------------------------------- maxima


def winner(xp: Any, candidates: Any) -> Any:
    """The place of the largest along the last axis: the first of equals, or the last NaN."""
    found = candidates.argmax(-1)
    best = xp.take_along_axis(candidates, found[..., None], -1)[..., 0]
    if xp is not host or xp.isnan(best).any():
        last = candidates.shape[-1] - 1 - xp.isnan(candidates[..., ::-1]).argmax(-1)
        found = xp.where(xp.isnan(best), last, found)
    return found


class AdaptiveMax(Block):
    outs = ("values", "indices")
    plain_outs = (1,)
    public = False

    def fwd(xp, input, out_sizes):
        n = len(out_sizes)
        lead = input.ndim - n
        if not all(out_sizes) or not input.size:
            shape = (*input.shape[:lead], *out_sizes)
            return xp.empty(shape, input.dtype), xp.empty(shape, np.int64)
        x = half_as_single(input)
        places = xp.zeros((), np.int64)  # into the plane, by window and place inside
        for axis, out in enumerate(out_sizes):
            size = input.shape[lead + axis]
            table = xp.asarray(members(size, out)[0])
            x = x.take(table, lead + 2 * axis)
            places = places[..., None, None] * size + table
        # (windows, places) of all axes alternate: places go to the end and become one.
        apart = (*range(0, 2 * n, 2), *range(1, 2 * n, 2))
        x = x.transpose(*range(lead), *[lead + d for d in apart])
        x = x.reshape(*x.shape[: lead + n], -1)
        places = places.transpose(apart).reshape(*out_sizes, -1)
        found = winner(xp, x)[..., None]
        values = xp.take_along_axis(x, found, -1)[..., 0]
        indices = xp.take_along_axis(xp.broadcast_to(places, x.shape), found, -1)[..., 0]
        values = values.astype(input.dtype, copy=False)
        return laid_out_like(xp, input, values, 2), laid_out_like(xp, input, indices, 2)


def check_gradient(name: str, shape: Sizes) -> None:
    for d in range(1, len(shape)):
        if shape[d] == 0:
            raise RuntimeError(
                f"{name}(): Expected grad_output to have non-zero size for non-batch dimensions, "
                f"but grad_output has sizes {list(shape)} with dimension {d} being empty"
            )


class AtIndices(Block):
    """Gradients that go back to indices into the planes of `sizes`."""

    tensors = ("grad", "indices")
    plain_tensors = ("indices",)
    linear = True  # in the gradient; indices have no derivative
    public = False

    def fwd(xp, grad, indices, sizes):
        return scattered(xp, grad, indices, sizes)

    def d_grad(F, grad, indices, sizes):
        return picked(F, grad, indices, len(sizes))


def with_indices(base: Any, n: int, title: str, node_title: str, about: str, of_grad: str) -> Op:
    """The op that gives the maxima of n dimensions and their indices, and that of its gradient."""
    back = f"{title}_backward"

    class Maxima(base):  # type: ignore[misc]
        __module__ = base.__module__  # the file that has to be loaded for the op
        __doc__ = f"{title}{about}"
        name = title
        node = f"{node_title}Backward0"
        aten = title
        leading = (n, *base.leading)
        autocast = Autocast(cpu=SINGLE) if n == 3 else base.autocast

        def d_input(F, grad, indices, input_shape):
            return getattr(F, back)(grad[0], indices, tuple(input_shape[-n:]))

        def jvp(F, t_input, indices):
            return picked(F, t_input, indices, n), None

    class Backward(AtIndices):
        __module__ = base.__module__
        __doc__ = f"{back}(grad, indices, sizes) -> Tensor: {of_grad}."
        name = back
        node = f"{node_title}BackwardBackward0"
        aten = back
        leading = (n, n)

    if base is AdaptiveMax:

        def checked(xp: Any, grad: Any, indices: Any, sizes: Sizes) -> Any:
            check_gradient(back, grad.shape)
            return AtIndices.fwd(xp, grad, indices, sizes)

        Backward.fwd = checked  # type: ignore[method-assign, assignment]
    made = op(Maxima)
    op(Backward)
    return made


ADAPTIVE_MAX = {
    n: with_indices(
        AdaptiveMax,
        n,
        f"adaptive_max_pool{n}d",
        f"AdaptiveMaxPool{n}D",
        f"(input, out_sizes) -> (Tensor, LongTensor): maxima of {COUNT[n]} dimensions.",
        f"the gradient of {n}-d maxima",
    )
    for n in (2, 3)
}


# ---------------------------------------------------------------------- public functions


def wanted(name: str, input: Any, output_size: Any, n: int) -> Sizes:
    """The output sizes: one for all, or one per axis with None for `as it is`."""
    if isinstance(output_size, int):
        return ints(name, "output_size", 2, output_size) * n
    shape = input._array.shape
    if len(shape) <= len(output_size):
        raise ValueError(f"Input dimension should be at least {len(output_size) + 1}")
    given = shape[len(shape) - len(output_size) :]
    sizes = [d if v is None else v for v, d in zip(output_size, given, strict=True)]
    return ints(name, "output_size", 2, sizes)


def check_filled(name: str, shape: Sizes, n: int, start: int) -> None:
    for d in range(start, len(shape)):
        if shape[d] == 0:
            raise RuntimeError(
                f"{name}(): Expected input to have non-zero size for non-batch dimensions, but "
                f"input has sizes {list(shape)} with dimension {d} being empty"
            )


def mean_pool(input: Any, sizes: Sizes, n: int) -> Any:
    name = f"adaptive_avg_pool{n}d"
    if len(sizes) != n:
        raise RuntimeError(f"{name}: output_size must be {n}")
    if min(sizes) < 0:
        spelled = f"{sizes[0]}, " + ",".join([str(v) for v in sizes[1:]])
        raise RuntimeError(
            f"{name}: elements of output_size must be greater than or equal to 0 but received "
            f"{{{spelled}}}"
        )
    shape = input._array.shape
    if volume(sizes) == 1:
        found = input.mean(tuple(range(-n, 0)), True)
        if len(shape) == n + 2 and not input.is_contiguous() and channels_last(input._array):
            channels = shape[1]
            found.as_strided_(found.shape, (channels, 1, *[channels] * n))
        return found
    if len(shape) not in (n + 1, n + 2):
        raise RuntimeError(f"{name}(): Expected {n + 1}D or {n + 2}D tensor, but got {list(shape)}")
    check_filled(name, shape, n, len(shape) - n)
    if n == 3 or input._array.size:
        refuse_dtype(name if n == 2 else f"{name}_cpu", input)
    return apply(ADAPTIVE_MEAN[n], (input,), (sizes,))


def max_pool(input: Any, sizes: Sizes, n: int) -> Any:
    name = f"adaptive_max_pool{n}d"
    shape = input._array.shape
    if len(shape) not in (n + 1, n + 2):
        raise RuntimeError(
            f"{name}(): Expected {n + 1}D or {n + 2}D tensor, but got: {list(shape)}"
        )
    check_filled(name, shape, n, 1)
    if len(sizes) != n:
        raise RuntimeError(f"{name}(): internal error: output_size.size() must be {n}")
    if min(sizes) < 0:
        full = [*shape[: len(shape) - n], *sizes]
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(sizes)}: {full}")
    check_room(volume(shape[: len(shape) - n]) * volume(sizes) * input._array.itemsize)
    refuse_dtype(name if n == 2 else f"{name}_cpu", input)
    return apply(ADAPTIVE_MAX[n], (input,), (sizes,))


def max_pool_1d(input: Any, output_size: Any) -> Any:
    array = check_tensor("adaptive_max_pool1d", input)
    size = one_int("adaptive_max_pool1d", "output_size", 2, output_size)
    check_one_axis("adaptive_max_pool1d", array)
    values, indices = max_pool(input.unsqueeze(-2), (1, *size), 2)
    return values.squeeze(-2), indices.squeeze(-2)


CASES_1D = [
    Case(Draw(2, 3, 7), 3),
    Case(Draw(3, 6, layout="step"), (2,)),
    Case(Draw(1, 2, 3), 5),
    Case(Draw(0, 2, 4), 2),
]
CASES_2D = [
    Case(Draw(1, 2, 5, 4), (3, 2)),
    Case(Draw(2, 5, 4, layout="T"), (None, 3)),
    Case(Draw(1, 1, 2, 3), 4),
    Case(Draw(0, 2, 4, 4), 2),
]
CASES_3D = [Case(Draw(1, 2, 3, 4, 2), (2, 3, 1)), Case(Draw(1, 4, 2, 3), 2)]


@api(
    name="nn.functional.adaptive_avg_pool1d",
    aliases=("adaptive_avg_pool1d",),
    method=False,
    samples=CASES_1D,
)
def adaptive_avg_pool1d(input: Any, output_size: Any) -> Any:
    """adaptive_avg_pool1d(input, output_size) -> Tensor: `output_size` means along the last axis.

    >>> nn.functional.adaptive_avg_pool1d(tensor([[1.0, 3.0, 2.0, 6.0]]), 2)
    tensor([[2., 4.]])
    """
    array = check_tensor("adaptive_avg_pool1d", input)
    size = one_int("adaptive_avg_pool1d", "output_size", 2, output_size)
    check_one_axis("adaptive_avg_pool1d", array)
    return mean_pool(input.unsqueeze(-2), (1, *size), 2).squeeze(-2)


@api(name="nn.functional.adaptive_avg_pool2d", method=False, samples=CASES_2D)
def adaptive_avg_pool2d(input: Any, output_size: Any) -> Any:
    """adaptive_avg_pool2d(input, output_size) -> Tensor: means of windows that tile the plane.

    >>> nn.functional.adaptive_avg_pool2d(tensor([[[1.0, 3.0], [2.0, 6.0]]]), (1, 2))
    tensor([[[1.5000, 4.5000]]])
    """
    check_tensor("adaptive_avg_pool2d", input)
    return mean_pool(input, wanted("adaptive_avg_pool2d", input, output_size, 2), 2)


@api(
    name="nn.functional.adaptive_avg_pool3d",
    method=False,
    samples=CASES_3D,
    autocast=Autocast(cpu=SINGLE),
)
def adaptive_avg_pool3d(input: Any, output_size: Any) -> Any:
    """adaptive_avg_pool3d(input, output_size) -> Tensor: means of windows that tile the volume.

    >>> nn.functional.adaptive_avg_pool3d(arange(8.0).view(1, 2, 2, 2), 1)
    tensor([[[[3.5000]]]])
    """
    check_tensor("adaptive_avg_pool3d", input)
    return mean_pool(input, wanted("adaptive_avg_pool3d", input, output_size, 3), 3)


@api(name="nn.functional.adaptive_max_pool1d", method=False, samples=CASES_1D, python=True)
def adaptive_max_pool1d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """adaptive_max_pool1d(input, output_size) -> Tensor: `output_size` maxima along the last axis.

    With `return_indices`, a pair: the maxima and where they are.

    >>> nn.functional.adaptive_max_pool1d(tensor([[1.0, 3.0, 2.0, 6.0]]), 2)
    tensor([[3., 6.]])
    """
    found = max_pool_1d(input, output_size)
    return found if return_indices else found[0]


@api(name="nn.functional.adaptive_max_pool2d", method=False, samples=CASES_2D, python=True)
def adaptive_max_pool2d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """adaptive_max_pool2d(input, output_size) -> Tensor: maxima of windows that tile the plane.

    With `return_indices`, a pair: the maxima and where they are.

    >>> nn.functional.adaptive_max_pool2d(tensor([[[1.0, 3.0], [2.0, 6.0]]]), (1, 2))
    tensor([[[2., 6.]]])
    """
    found = adaptive_max_pool2d_with_indices(input, output_size)
    return found if return_indices else found[0]


@api(
    name="nn.functional.adaptive_max_pool3d",
    method=False,
    python=True,
    samples=CASES_3D,
    autocast=Autocast(cpu=SINGLE),
)
def adaptive_max_pool3d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """adaptive_max_pool3d(input, output_size) -> Tensor: maxima of windows that tile the volume.

    With `return_indices`, a pair: the maxima and where they are.

    >>> nn.functional.adaptive_max_pool3d(arange(8.0).view(1, 2, 2, 2), 1)
    tensor([[[[7.]]]])
    """
    found = adaptive_max_pool3d_with_indices(input, output_size)
    return found if return_indices else found[0]


@api(name="adaptive_max_pool1d", method=False, samples=CASES_1D)
def max_pool_1d_pair(input: Any, output_size: Any) -> Any:
    """adaptive_max_pool1d(input, output_size) -> (Tensor, LongTensor): window maxima and where they
    are.

    >>> adaptive_max_pool1d(tensor([[1.0, 3.0, 2.0, 6.0]]), 2)
    (tensor([[3., 6.]]), tensor([[1, 3]]))
    """
    return max_pool_1d(input, output_size)


@api(
    name="nn.functional.adaptive_max_pool1d_with_indices",
    method=False,
    samples=CASES_1D,
    python=True,
)
def adaptive_max_pool1d_with_indices(
    input: Any, output_size: Any, return_indices: bool = False
) -> Any:
    """adaptive_max_pool1d_with_indices(input, output_size) -> (Tensor, LongTensor): window maxima
    and where they are.

    >>> nn.functional.adaptive_max_pool1d_with_indices(tensor([[1.0, 3.0, 2.0, 6.0]]), 2)
    (tensor([[3., 6.]]), tensor([[1, 3]]))
    """
    return max_pool_1d(input, output_size)


@api(
    name="nn.functional.adaptive_max_pool2d_with_indices",
    method=False,
    samples=CASES_2D,
    python=True,
)
def adaptive_max_pool2d_with_indices(
    input: Any, output_size: Any, return_indices: bool = False
) -> Any:
    """adaptive_max_pool2d_with_indices(input, output_size) -> (Tensor, LongTensor): window maxima
    and where they are.

    >>> nn.functional.adaptive_max_pool2d_with_indices(tensor([[[1.0, 3.0], [2.0, 6.0]]]), 1)
    (tensor([[[6.]]]), tensor([[[3]]]))
    """
    check_tensor("adaptive_max_pool2d", input)
    return max_pool(input, wanted("adaptive_max_pool2d", input, output_size, 2), 2)


@api(
    name="nn.functional.adaptive_max_pool3d_with_indices",
    method=False,
    samples=CASES_3D,
    python=True,
)
def adaptive_max_pool3d_with_indices(
    input: Any, output_size: Any, return_indices: bool = False
) -> Any:
    """adaptive_max_pool3d_with_indices(input, output_size) -> (Tensor, LongTensor): window maxima
    and where they are.

    >>> nn.functional.adaptive_max_pool3d_with_indices(arange(8.0).view(1, 2, 2, 2), 1)
    (tensor([[[[7.]]]]), tensor([[[[7]]]]))
    """
    check_tensor("adaptive_max_pool3d", input)
    return max_pool(input, wanted("adaptive_max_pool3d", input, output_size, 3), 3)
