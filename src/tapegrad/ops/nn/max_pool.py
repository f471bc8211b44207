"""The largest of every window: max_pool1d, 2d and 3d.

Where the maxima are is worked out when a gradient asks, or with the maxima if the caller wants the
indices. The first of equals wins, and the last NaN, as in PyTorch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.host_arrays import host
from ...core.op import Op
from ...core.rounding import half_as_single
from ...kernels.geometry import disjoint, laid_out_like
from ..block import SINGLE, Autocast, Block, Case, apply, op
from ..block.checks import only_bool
from ..block.samples import Draw
from .pool_windows import (
    CHECKED,
    COUNT,
    Sizes,
    check_one_axis,
    check_pool,
    check_tensor,
    cut,
    ints,
    margins,
    offsets,
    one_int,
    output_size,
    output_sizes,
    padded,
    per_axis,
    picked,
    published,
    refuse_dtype,
    remember,
    scattered,
)

# Blocks: their first argument is not a `self`. Attributes have one entry per spatial axis.
# ruff: noqa: N805

# ---------------------------------------------------------------------- kernels


def lowest(dtype: Any) -> Any:
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


def slices(xp: Any, x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, out: Any) -> Any:
    """One array per place inside the window: that element of all windows."""
    sizes = x.shape[x.ndim - len(kernel) :]
    around = margins(sizes, kernel, stride, padding, dilation, out)
    whole = padded(xp, x, around, lowest(x.dtype))
    return [whole[cut(offset, stride, dilation, out)] for offset in offsets(kernel)]


def largest(xp: Any, x: Any, *geometry: Any) -> Any:
    """The maxima of all windows."""
    parts = slices(xp, half_as_single(x), *geometry)
    if len(parts) == 1:
        return parts[0].astype(x.dtype, order="C")
    best = xp.maximum(parts[1], parts[0], order="C")  # of equal zeros the first one stays
    for part in parts[2:]:
        xp.maximum(part, best, out=best)
    return best.astype(x.dtype, copy=False)


def first_inside(
    xp: Any, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, out: Sizes
) -> Any:
    """Per window, its first place that is not padding."""
    first = xp.zeros((), np.int64)
    for axis, (k, s, p, d, n) in enumerate(
        zip(kernel, stride, padding, dilation, out, strict=True)
    ):
        outside = xp.maximum(p - s * xp.arange(n), 0)
        along = -(-outside // d)
        first = first * k + along.reshape(-1, *(1,) * (len(kernel) - 1 - axis))
    return first


def winners(
    xp: Any, x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, out: Any
) -> Any:
    """The place of the largest inside every window, counted with the last axis fastest."""
    parts = slices(xp, x, kernel, stride, padding, dilation, out)
    kind = xp.uint8 if len(parts) <= 256 else xp.int32
    found = xp.zeros(parts[0].shape, kind)
    if any(padding):
        # Matters where everything is -inf: the padding must not win.
        found += first_inside(xp, kernel, stride, padding, dilation, out).astype(kind)
    best = parts[0]
    has_nan = x.dtype.kind == "f" and x.size > 0
    if xp is host:  # a GPU does not tell without waiting
        has_nan = has_nan and bool(xp.isnan(x.max()))
    for place, part in enumerate(parts[1:], 1):
        new = part > best
        if has_nan:
            new |= part != part
        if place + 1 < len(parts):
            best = xp.maximum(best, part) if place == 1 else xp.maximum(best, part, out=best)
        # Later places are larger numbers: whoever comes last is the maximum.
        xp.maximum(found, xp.multiply(new, kind(place)), out=found)
    return found


def plane_indices(
    xp: Any, x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, out: Any
) -> Any:
    """Where the largest of every window is, as an index into the plane."""
    n = len(kernel)
    sizes = x.shape[x.ndim - n :]
    inside = xp.zeros((), np.int64)
    start = xp.zeros((), np.int64)
    for axis in range(n):
        behind = (1,) * (n - 1 - axis)
        steps = xp.arange(kernel[axis]) * dilation[axis]
        inside = inside * sizes[axis] + steps.reshape(-1, *behind)
        begins = xp.arange(out[axis]) * stride[axis] - padding[axis]
        start = start * sizes[axis] + begins.reshape(-1, *behind)
    found = winners(xp, half_as_single(x), kernel, stride, padding, dilation, out)
    indices = inside.reshape(-1).take(found)
    indices += start
    return indices


# ---------------------------------------------------------------------- blocks


class MaxPooling(Block):
    """Only the maxima."""

    public = False

    def fwd(xp, input, kernel, stride, padding, dilation, out_sizes):
        out = largest(xp, input, kernel, stride, padding, dilation, out_sizes)
        return laid_out_like(xp, input, out, len(kernel))

    def d_input(F, grad, input, kernel, stride, padding, dilation, out_sizes):
        indices = F.max_pool_indices(input, kernel, stride, padding, dilation, out_sizes)
        return back(F, grad, indices, input.shape, kernel, stride, dilation)

    def jvp(F, input, t_input, kernel, stride, padding, dilation, out_sizes):
        indices = F.max_pool_indices(input, kernel, stride, padding, dilation, out_sizes)
        return picked(F, t_input, indices, len(kernel))


class MaxPoolingIndices(Block):
    """The maxima and their indices into the plane."""

    public = False
    outs = ("values", "indices")
    plain_outs = (1,)

    def fwd(xp, input, kernel, stride, padding, dilation, out_sizes):
        geometry = (kernel, stride, padding, dilation, out_sizes)
        values, indices = largest(xp, input, *geometry), plane_indices(xp, input, *geometry)
        n = len(kernel)
        return laid_out_like(xp, input, values, n), laid_out_like(xp, input, indices, n)

    def d_input(F, grad, indices, input_shape, kernel, stride, dilation):
        return back(F, grad[0], indices, input_shape, kernel, stride, dilation)

    def jvp(F, t_input, indices, kernel):
        return picked(F, t_input, indices, len(kernel)), None


def back(
    F: Any, grad: Any, indices: Any, shape: Any, kernel: Sizes, stride: Sizes, dilation: Sizes
) -> Any:
    """The gradient goes to where the maxima were."""
    n = len(kernel)
    op_back = F.max_pool2d_backward if n == 2 else F.max_pool3d_backward
    return op_back(
        grad, indices, tuple(shape[len(shape) - n :]), disjoint(kernel, stride, dilation)
    )


@op
class MaxPoolIndices(Block):
    """max_pool_indices(input, …) -> LongTensor: where the largest of every window is."""

    aten = None
    public = False
    undifferentiable = "the results are indices"

    def fwd(xp, input, kernel, stride, padding, dilation, out_sizes):
        return plane_indices(xp, input, kernel, stride, padding, dilation, out_sizes)

    def batch(F, size, batched, input, *geometry):
        return F.max_pool_indices(input, *geometry)  # it has any number of leading dimensions


class MaxPoolingBackward(Block):
    tensors = ("grad", "indices")
    plain_tensors = ("indices",)
    linear = True  # in the gradient; indices have no derivative
    public = False

    def fwd(xp, grad, indices, sizes, apart):
        return scattered(xp, grad, indices, sizes, apart)

    def d_grad(F, grad, indices, sizes):
        return picked(F, grad, indices, len(sizes))


def max_pooling(n: int) -> tuple[Op, Op]:
    """The ops for windows of the last n dimensions, without and with indices, and the gradient."""
    title, node_title = f"max_pool{n}d", f"MaxPool{n}DWithIndices"
    shown = {"input": "grad at the maximum of each window, else 0"}

    class Maxima(MaxPooling):
        __doc__ = (
            f"{title}(input, …) -> Tensor: the maxima of windows of the last {COUNT[n]} dimensions."
        )
        name = title
        node = f"{node_title}Backward0"
        aten = f"{title}_with_indices"
        leading = (n,)
        autocast = Autocast(cpu=SINGLE, unless="return_indices") if n == 3 else None
        keeps_finite = n == 2
        gradient_text = shown if n == 2 else None

    class WithIndices(MaxPoolingIndices):
        __doc__ = (
            f"{title}_with_indices(input, …) -> (Tensor, LongTensor): maxima and where they are."
        )
        name = f"{title}_with_indices"
        node = f"{node_title}Backward0"
        aten = f"{title}_with_indices"
        leading = (n,)
        gradient_text = shown if n == 2 else None

    class Backward(MaxPoolingBackward):
        __doc__ = f"{title}_backward(grad, indices, …) -> Tensor: the gradient of `{title}`."
        name = f"{title}_backward"
        node = f"{node_title}BackwardBackward0"
        aten = f"{title}_backward" if n == 2 else None  # PyTorch has none for three dimensions
        leading = (n, n)

    made = op(Maxima), op(WithIndices)
    op(Backward)
    return made


MAX_POOLING = {n: max_pooling(n) for n in (2, 3)}


# ---------------------------------------------------------------------- public functions


def pool(name: str, n: int, input: Any, *given: Any) -> Any:
    """Run a 2-d or 3-d max pooling; what was checked before is not checked again."""
    array = check_tensor(name, input)
    key = (name, array.shape, array.dtype, *map(id, given))
    known = CHECKED.get(key)
    attrs = known[0] if known else remember(key, given, checked(name, n, input, *given[:-1]))
    return apply(MAX_POOLING[n][bool(given[-1])], (input,), attrs)


def checked(
    name: str,
    n: int,
    input: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
) -> tuple[Any, ...]:
    """The attributes of a 2-d or 3-d max pooling."""
    array = input._array
    tail = f"a single int, or a tuple of {COUNT[n]} ints"
    kernel = per_axis(
        ints(name, "kernel_size", 2, kernel_size), n, f"{name}: kernel_size must either be {tail}"
    )
    steps = () if stride is None else ints(name, "stride", 3, stride)
    steps = (
        per_axis(steps, n, f"{name}: stride must either be omitted, {tail}") if steps else kernel
    )
    pads = per_axis(ints(name, "padding", 4, padding), n, f"{name}: padding must either be {tail}")
    gaps = per_axis(
        ints(name, "dilation", 5, dilation), n, f"{name}: dilation must be either {tail}"
    )
    shape = array.shape
    if array.ndim not in (n + 1, n + 2):
        raise RuntimeError(f"non-empty {n + 1}D or {n + 2}D (batch mode) tensor expected for input")
    sizes = shape[array.ndim - n :]
    only_bool(name, "ceil_mode", 6, ceil_mode)
    out = output_sizes(sizes, kernel, steps, pads, gaps, ceil_mode)
    check_pool("max_pool3d_with_indices_out_cpu_template()", shape, kernel, steps, pads, gaps, out)
    refuse_dtype(name, input, "fViu")
    return kernel, steps, pads, gaps, out


def pool1d(
    input: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    indices: bool,
) -> Any:
    """A 2-d pooling of one row, as in PyTorch."""
    name = "max_pool1d"
    array = check_tensor(name, input)
    kernel = ints(name, "kernel_size", 2, kernel_size)
    steps = () if stride is None else ints(name, "stride", 3, stride)
    pads, gaps = ints(name, "padding", 4, padding), ints(name, "dilation", 5, dilation)
    if not indices:
        check_1d(array, kernel, steps or kernel, pads, gaps, bool(ceil_mode))
        refuse_dtype("max_pool1d_impl", input, "fV")
    else:
        check_one_axis(name, array)
    kernel = one_int(name, "kernel_size", 2, kernel)
    steps = one_int(name, "stride", 3, steps or kernel)
    pads, gaps = one_int(name, "padding", 4, pads), one_int(name, "dilation", 5, gaps)
    rows = input.unsqueeze(-2)
    attrs = checked(
        "max_pool2d",
        2,
        rows,
        (1, *kernel),
        (1, *steps),
        (0, *pads),
        (1, *gaps),
        ceil_mode,
    )
    found = apply(MAX_POOLING[2][bool(indices)], (rows,), attrs)
    if indices:
        return found[0].squeeze(-2), found[1].squeeze(-2)
    return found.squeeze(-2)


def check_1d(
    array: Any, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, ceil: bool
) -> None:
    """The checks of `max_pool1d` without indices, with its own messages."""
    shape = array.shape
    if array.ndim not in (2, 3) or 0 in shape[array.ndim - 2 :]:
        raise RuntimeError(
            "max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for "
            f"input, but got:{list(shape)}"
        )
    for what, values in (
        ("kernel_size", kernel),
        ("stride", stride),
        ("padding", padding),
        ("dilation", dilation),
    ):
        if len(values) != 1:
            raise RuntimeError(
                f"max_pool1d() {what} must be an int, list of ints or tuple of ints of size 1 but "
                f"got size {len(values)}"
            )
    k, s, p, d = kernel[0], stride[0], padding[0], dilation[0]
    for what, value in (("kernel_size", k), ("stride", s)):
        if value <= 0:
            raise RuntimeError(f"max_pool1d() {what} must be greater than zero, but got {value}")
    if p < 0:
        raise RuntimeError(f"max_pool1d() padding must be non-negative, but got {p}")
    if p > k // 2:
        raise RuntimeError(
            "max_pool1d() padding should be at most half of kernel size, but got "
            f"padding={p} and kernel_size={k}"
        )
    if d <= 0:
        raise RuntimeError(f"max_pool1d() dilation must be greater than zero, but got {d}")
    out = output_size(shape[-1], k, s, p, d, ceil)
    if out <= 0:
        raise RuntimeError(f"max_pool1d() Invalid computed output size: {out}")


CASES_1D = [
    Case(Draw(2, 3, 8), 2),
    Case(Draw(3, 8), 3, 2, 1),
    Case(Draw(2, 2, 9, layout="step"), (3,), stride=2, dilation=2, ceil_mode=True),
    Case(Draw(0, 2, 4), 2),
]
CASES_2D = [
    Case(Draw(1, 2, 4, 6), 2),
    Case(Draw(2, 5, 5), (3, 2), (2, 1), (1, 0)),
    Case(Draw(1, 1, 7, 6, layout="T"), 3, stride=2, dilation=(2, 1), ceil_mode=True),
    Case(Draw(0, 2, 4, 4), 2),
]
CASES_3D = [
    Case(Draw(1, 2, 4, 2, 4), 2),
    Case(Draw(1, 3, 4, 3), (2, 3, 2), 1, (1, 1, 0), ceil_mode=True),
]


def max_pool_function(**fields: Any) -> Any:
    """Publish a function that gets, by position, the arguments which all of these take."""

    def publish(pool_all: Any) -> Any:
        def made(
            input: Any,
            kernel_size: Any,
            stride: Any = None,
            padding: Any = 0,
            dilation: Any = 1,
            ceil_mode: bool = False,
            return_indices: bool = False,
        ) -> Any:
            return pool_all(
                input, kernel_size, stride, padding, dilation, ceil_mode, return_indices
            )

        return published(pool_all, made, fields)

    return publish


@max_pool_function(samples=CASES_1D, aliases=("max_pool1d",))
def max_pool1d(*given: Any) -> Any:
    """max_pool1d(input, kernel_size, stride=None, padding=0, dilation=1) -> Tensor: window maxima.

    With `return_indices`, a pair: the maxima and where they are.

    >>> nn.functional.max_pool1d(tensor([[1.0, 3.0, 2.0, 5.0]]), 2)
    tensor([[3., 5.]])
    """
    return pool1d(*given)


@max_pool_function(samples=CASES_2D, aliases=("max_pool2d",))
def max_pool2d(*given: Any) -> Any:
    """max_pool2d(input, kernel_size, stride=None, padding=0, dilation=1) -> Tensor: window maxima.

    With `return_indices`, a pair: the maxima and where they are.

    >>> nn.functional.max_pool2d(tensor([[[1.0, 3.0], [2.0, 0.0]]]), 2)
    tensor([[[3.]]])
    """
    return pool("max_pool2d", 2, *given)


@max_pool_function(
    samples=CASES_3D,
    aliases=("max_pool3d",),
    autocast=Autocast(cpu=SINGLE, unless="return_indices"),
)
def max_pool3d(*given: Any) -> Any:
    """max_pool3d(input, kernel_size, stride=None, padding=0, dilation=1) -> Tensor: window maxima.

    With `return_indices`, a pair: the maxima and where they are.

    >>> nn.functional.max_pool3d(arange(8.0).view(1, 2, 2, 2), 2)
    tensor([[[[7.]]]])
    """
    return pool("max_pool3d", 3, *given)


@max_pool_function(samples=CASES_1D, aliases=("max_pool1d_with_indices",))
def max_pool1d_with_indices(*given: Any) -> Any:
    """max_pool1d_with_indices(input, kernel_size) -> (Tensor, LongTensor): maxima and places.

    >>> nn.functional.max_pool1d_with_indices(tensor([[1.0, 3.0, 2.0, 5.0]]), 2)
    (tensor([[3., 5.]]), tensor([[1, 3]]))
    """
    return pool1d(*given[:-1], True)


@max_pool_function(samples=CASES_2D)
def max_pool2d_with_indices(*given: Any) -> Any:
    """max_pool2d_with_indices(input, kernel_size) -> (Tensor, LongTensor): maxima and places.

    >>> nn.functional.max_pool2d_with_indices(tensor([[[1.0, 3.0], [2.0, 0.0]]]), 2)
    (tensor([[[3.]]]), tensor([[[1]]]))
    """
    return pool("max_pool2d", 2, *given[:-1], True)


@max_pool_function(samples=CASES_3D)
def max_pool3d_with_indices(*given: Any) -> Any:
    """max_pool3d_with_indices(input, kernel_size) -> (Tensor, LongTensor): maxima and places.

    >>> nn.functional.max_pool3d_with_indices(arange(8.0).view(1, 2, 2, 2), 2)
    (tensor([[[[7.]]]]), tensor([[[[7]]]]))
    """
    return pool("max_pool3d", 3, *given[:-1], True)
