"""The mean of every window: avg_pool1d, 2d and 3d, and the power means of lp_pool.

A box sum is separable: it is taken along one axis after the other, one strided slice per place of
the kernel along that axis.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.op import Op
from ...core.rounding import half_as_single
from ...errors import does_not_fit
from ...kernels.geometry import laid_out_like
from ..block import APIS, SINGLE, Autocast, Block, Case, api, apply, op
from ..block.checks import OUT_EXACT, only_bool
from ..block.samples import Draw
from .pool_windows import (
    CHECKED,
    COUNT,
    Sizes,
    check_one_axis,
    check_pool,
    check_tensor,
    ints,
    is_whole,
    one_int,
    output_sizes,
    per_axis,
    published,
    refuse_dtype,
    remember,
    volume,
)

# Blocks: their first argument is not a `self`. Attributes have one entry per spatial axis.
# ruff: noqa: N805

# ---------------------------------------------------------------------- kernels


def divisors(
    xp: Any,
    sizes: Sizes,
    kernel: Sizes,
    stride: Sizes,
    padding: Sizes,
    out: Sizes,
    count_padding: bool,
    override: int | None,
    dtype: Any,
) -> Any:
    """The divisors of the windows' sums: a number, or an array over the windows."""
    if override is not None:
        return dtype.type(override)
    if not any(padding) and all(
        [(o - 1) * s + k <= n for n, k, s, o in zip(sizes, kernel, stride, out, strict=True)]
    ):
        return dtype.type(volume(kernel))
    total = xp.ones((), np.int64)
    for n, k, s, p, o in zip(sizes, kernel, stride, padding, out, strict=True):
        begin = xp.arange(o) * s - p
        end = xp.minimum(begin + k, n + p)
        if not count_padding:
            begin, end = xp.maximum(begin, 0), xp.minimum(end, n)
        total = total[..., None] * (end - begin)
    return total.astype(dtype)


def along(axis: int, ndim: int, part: slice) -> tuple[Any, ...]:
    index = [slice(None)] * ndim
    index[axis] = part
    return tuple(index)


def inside(n: int, k: int, s: int, p: int, o: int) -> range:
    """The places of a window that are inside the input for some window; a kernel may be huge."""
    return range(max(p - (o - 1) * s, 0), min(k, n + p))


def box_sum(xp: Any, x: Any, axis: int, k: int, s: int, p: int, o: int) -> Any:
    """Sums of windows of `k` elements, `s` apart, along one axis; `p` zeros stand before it."""
    n = x.shape[axis]
    if k > 8 and s == k and not p and o * k == n:
        return x.reshape(*x.shape[:axis], o, k, *x.shape[axis + 1 :]).sum(axis + 1, dtype=x.dtype)
    total = None
    for place in inside(n, k, s, p, o):
        # Windows whose element at this place is inside: first <= w < last.
        first = max(-((place - p) // s), 0)
        last = min((n - 1 - place + p) // s + 1, o)
        if first >= last:
            continue
        begin = first * s + place - p
        part = x[along(axis, x.ndim, slice(begin, begin + (last - first - 1) * s + 1, s))]
        if total is None and first == 0 and last == o:
            total = part.copy()
            continue
        if total is None:
            total = xp.zeros((*x.shape[:axis], o, *x.shape[axis + 1 :]), x.dtype)
        total[along(axis, x.ndim, slice(first, last))] += part
    return xp.zeros((*x.shape[:axis], o, *x.shape[axis + 1 :]), x.dtype) if total is None else total


def box_spread(xp: Any, g: Any, axis: int, n: int, k: int, s: int, p: int) -> Any:
    """The transpose of `box_sum`: every window gives its value to all its elements."""
    o = g.shape[axis]
    if s == k and not p and o * k == n:
        return xp.repeat(g, k, axis)
    spread = xp.zeros((*g.shape[:axis], n, *g.shape[axis + 1 :]), g.dtype)
    for place in inside(n, k, s, p, o):
        first = max(-((place - p) // s), 0)
        last = min((n - 1 - place + p) // s + 1, o)
        if first < last:
            begin = first * s + place - p
            at = along(axis, g.ndim, slice(begin, begin + (last - first - 1) * s + 1, s))
            spread[at] += g[along(axis, g.ndim, slice(first, last))]
    return spread


# ---------------------------------------------------------------------- blocks


class AvgPooling(Block):
    linear = True
    public = False

    def fwd(xp, input, kernel, stride, padding, out_sizes, count_padding, override):
        x = half_as_single(input)
        lead = x.ndim - len(kernel)
        sizes = x.shape[lead:]
        by = divisors(
            xp, sizes, kernel, stride, padding, out_sizes, count_padding, override, x.dtype
        )
        for i in range(len(kernel)):
            x = box_sum(xp, x, lead + i, kernel[i], stride[i], padding[i], out_sizes[i])
        if x.dtype.kind == "i":
            out = xp.sign(x) * xp.sign(by) * (abs(x) // abs(by))  # C rounds towards zero
        else:
            out = (x / by).astype(input.dtype, copy=False)
        return laid_out_like(xp, input, out, 2)


class AvgPoolingBackward(Block):
    tensors = ("grad",)
    linear = True
    public = False

    def fwd(xp, grad, sizes, kernel, stride, padding, out_sizes, count_padding, override):
        g = half_as_single(grad)
        g = g / divisors(
            xp, sizes, kernel, stride, padding, out_sizes, count_padding, override, g.dtype
        )
        lead = g.ndim - len(kernel)
        for i in reversed(range(len(kernel))):
            g = box_spread(xp, g, lead + i, sizes[i], kernel[i], stride[i], padding[i])
        return g.astype(grad.dtype, copy=False)


def avg_pooling(n: int) -> Op:
    """The op for windows of the last n dimensions, and that of its gradient."""
    title, back = f"avg_pool{n}d", f"avg_pool{n}d_backward"

    class Means(AvgPooling):
        __doc__ = (
            f"{title}(input, …) -> Tensor: the means of windows of the last {COUNT[n]} dimensions."
        )
        name = title
        node = f"AvgPool{n}DBackward0"
        aten = title
        leading = (n,)
        autocast = Autocast(cpu=SINGLE) if n == 3 else None

        def d_input(
            F, grad, input_shape, kernel, stride, padding, out_sizes, count_padding, override
        ):
            sizes = tuple(input_shape[-n:])
            return getattr(F, back)(
                grad, sizes, kernel, stride, padding, out_sizes, count_padding, override
            )

    class Backward(AvgPoolingBackward):
        __doc__ = f"{back}(grad, …) -> Tensor: the gradient of `{title}`."
        name = back
        node = f"AvgPool{n}DBackwardBackward0"
        aten = back
        leading = (n,)

        def d_grad(F, grad, kernel, stride, padding, out_sizes, count_padding, override):
            return getattr(F, title)(
                grad, kernel, stride, padding, out_sizes, count_padding, override
            )

    made = op(Means)
    op(Backward)
    return made


AVG_POOLING = {n: avg_pooling(n) for n in (2, 3)}


# ---------------------------------------------------------------------- public functions


def pool(name: str, n: int, input: Any, *given: Any) -> Any:
    """Run a 2-d or 3-d average pooling; what was checked before is not checked again."""
    array = check_tensor(name, input)
    key = (name, array.shape, array.dtype, *map(id, given))
    known = CHECKED.get(key)
    attrs = known[0] if known else remember(key, given, checked(name, n, input, *given))
    return apply(AVG_POOLING[n], (input,), attrs)


def checked(
    name: str,
    n: int,
    input: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> tuple[Any, ...]:
    """The attributes of a 2-d or 3-d average pooling."""
    array = input._array
    tail = f"a single int, or a tuple of {COUNT[n]} ints"
    either = "either be" if n == 2 else "be"
    kernel = per_axis(
        ints(name, "kernel_size", 2, kernel_size), n, f"{name}: kernel_size must {either} {tail}"
    )
    steps = () if stride is None else ints(name, "stride", 3, stride)
    if steps:
        steps = per_axis(steps, n, f"{name}: stride must {either} omitted, {tail}")
    else:
        steps = kernel
    if max(*kernel, *steps) >= 1 << 31:
        raise does_not_fit(np.dtype(np.intc))
    pads = per_axis(ints(name, "padding", 4, padding), n, f"{name}: padding must {either} {tail}")
    if divisor_override is not None and not is_whole(divisor_override):
        raise TypeError(
            f"{name}(): argument 'divisor_override' must be int, not "
            f"{type(divisor_override).__name__}"
        )
    if divisor_override == 0:
        raise RuntimeError("divisor must be not zero")
    shape, ndim = array.shape, array.ndim
    if n == 2 and not ndim:
        raise IndexError("Dimension specified as -3 but tensor has no dimensions")
    if n == 2 and ndim < 3:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-max(ndim, 1)}, "
            f"{max(ndim, 1) - 1}], but got -3)"
        )
    if n == 3 and ndim not in (4, 5):
        raise RuntimeError("non-empty 4D or 5D (batch mode) tensor expected for input")
    ones = (1,) * n
    out = output_sizes(shape[ndim - n :], kernel, steps, pads, ones, bool(ceil_mode))
    check_pool("avg_pool3d()", shape, kernel, steps, pads, ones, out, fits=n == 3)
    if n == 2:
        refuse_dtype("avg_pool2d", input, "fV" if array.dtype != np.int64 else "i")
    else:
        refuse_dtype("avg_pool3d_out_frame", input, "f" if array.dtype != np.int64 else "i", False)
    return kernel, steps, pads, out, bool(count_include_pad), divisor_override


@api(
    name="nn.functional.avg_pool1d",
    aliases=("avg_pool1d",),
    method=False,
    samples=[
        Case(Draw(2, 3, 8), 2),
        Case(Draw(3, 8), 3, 2, 1),
        Case(Draw(2, 2, 9, layout="step"), (3,), 2, (1,), True, False),
        Case(Draw(0, 2, 4), 2),
    ],
)
def avg_pool1d(
    input: Any,
    kernel_size: Any,
    stride: Any = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:
    """avg_pool1d(input, kernel_size, stride=None, padding=0, ceil_mode=False) -> Tensor: the mean
    of each window.

    >>> nn.functional.avg_pool1d(tensor([[1.0, 3.0, 2.0, 6.0]]), 2)
    tensor([[2., 4.]])
    """
    name = "avg_pool1d"
    array = check_tensor(name, input)
    kernel = one_int(name, "kernel_size", 2, kernel_size)
    steps = () if stride is None else ints(name, "stride", 3, stride)
    if steps:
        steps = one_int(name, "stride", 3, steps)
    pads = one_int(name, "padding", 4, padding)
    check_one_axis(name, array)
    rows = input.unsqueeze(-2)
    attrs = checked(
        "avg_pool2d",
        2,
        rows,
        (1, *kernel),
        (1, *steps) if steps else (1, *kernel),
        (0, *pads),
        ceil_mode,
        count_include_pad,
        None,
    )
    return apply(AVG_POOLING[2], (rows,), attrs).squeeze(-2)


def avg_pool_function(**fields: Any) -> Any:
    """Publish a function that gets, by position, the arguments which both of these take."""

    def publish(pool_all: Any) -> Any:
        def made(
            input: Any,
            kernel_size: Any,
            stride: Any = None,
            padding: Any = 0,
            ceil_mode: bool = False,
            count_include_pad: bool = True,
            divisor_override: int | None = None,
        ) -> Any:
            window = (kernel_size, stride, padding)
            return pool_all(input, *window, ceil_mode, count_include_pad, divisor_override)

        return published(pool_all, made, fields)

    return publish


@avg_pool_function(
    samples=[
        Case(Draw(1, 2, 4, 6), 2),
        Case(Draw(2, 5, 5), (3, 2), (2, 1), (1, 0)),
        Case(Draw(1, 1, 7, 6, layout="T"), 3, 2, 1, True, False),
        Case(Draw(1, 1, 5, 5), 3, 1, divisor_override=2),
        Case(Draw(0, 2, 4, 4), 2),
    ],
    functional_out=True,
    out_dtype=OUT_EXACT,
)
def avg_pool2d(*given: Any) -> Any:
    """avg_pool2d(input, kernel_size, stride=None, padding=0, ceil_mode=False) -> Tensor: the mean
    of each window.

    >>> nn.functional.avg_pool2d(tensor([[[1.0, 3.0], [2.0, 6.0]]]), 2)
    tensor([[[3.]]])
    """
    return pool("avg_pool2d", 2, *given)


@avg_pool_function(
    samples=[
        Case(Draw(1, 2, 4, 2, 4), 2),
        Case(Draw(1, 3, 4, 3), (2, 3, 2), 1, (1, 1, 0), True, False),
        Case(Draw(1, 2, 3, 3), 2, 1, divisor_override=3),
    ],
    autocast=Autocast(cpu=SINGLE),
    functional_out=True,
    out_dtype=OUT_EXACT,
)
def avg_pool3d(*given: Any) -> Any:
    """avg_pool3d(input, kernel_size, stride=None, padding=0, ceil_mode=False) -> Tensor: the mean
    of each window.

    >>> nn.functional.avg_pool3d(arange(8.0).view(1, 2, 2, 2), 2)
    tensor([[[[3.5000]]]])
    """
    return pool("avg_pool3d", 3, *given)


# ---------------------------------------------------------------------- power means


def power_pool(
    mean_of: Any,
    n: int,
    input: Any,
    norm_type: float,
    kernel_size: Any,
    stride: Any,
    ceil_mode: bool,
) -> Any:
    """The `norm_type`-norm of every window, from the mean of powers."""
    if n > 1:
        windows(kernel_size, n)
    only_bool(mean_of.__name__, "ceil_mode", 5, ceil_mode)
    powers = mean_of(input.pow(norm_type), kernel_size, stride, 0, ceil_mode)
    positive = powers.sign() * APIS["relu"].call(powers.abs())
    count = kernel_size if n == 1 else product(kernel_size, n)
    return positive.mul(count).pow(1.0 / norm_type)


def windows(kernel_size: Any, n: int) -> tuple[Any, ...]:
    """Python's message where a size cannot be unpacked into `n` names."""
    sizes = tuple(kernel_size) if hasattr(kernel_size, "__iter__") else (kernel_size,) * n
    if len(sizes) < n:
        raise ValueError(f"not enough values to unpack (expected {n}, got {len(sizes)})")
    if len(sizes) > n:
        raise ValueError(f"too many values to unpack (expected {n})")
    return sizes


def product(kernel_size: Any, n: int) -> Any:
    """The number of elements in a window, of any argument that PyTorch takes for a size."""
    if not isinstance(kernel_size, (tuple, list)):
        return kernel_size**n
    return volume(tuple(kernel_size))


def lp_pool_function(**fields: Any) -> Any:
    """Publish a function that gets, by position, the arguments which all of these take."""

    def publish(pool_all: Any) -> Any:
        def made(
            input: Any,
            norm_type: float,
            kernel_size: Any,
            stride: Any = None,
            ceil_mode: bool = False,
        ) -> Any:
            return pool_all(input, norm_type, kernel_size, stride, ceil_mode)

        return published(pool_all, made, fields)

    return publish


@lp_pool_function(
    samples=[
        Case(Draw(2, 2, 6, low=0.5), 2, 3, 2),
        Case(Draw(2, 7, low=0.5), 3.0, 2, ceil_mode=True),
    ]
)
def lp_pool1d(*given: Any) -> Any:
    """lp_pool1d(input, norm_type, kernel_size, stride=None) -> Tensor: the p-norm of windows.

    >>> nn.functional.lp_pool1d(tensor([[3.0, 4.0]]), 2, 2)
    tensor([[5.]])
    """
    return power_pool(avg_pool1d, 1, *given)


@lp_pool_function(
    samples=[
        Case(Draw(1, 2, 4, 4, low=0.5), 2, 2),
        Case(Draw(1, 5, 4, low=0.5), 3.0, (2, 3), 1, True),
    ]
)
def lp_pool2d(*given: Any) -> Any:
    """lp_pool2d(input, norm_type, kernel_size, stride=None) -> Tensor: the p-norm of windows.

    >>> nn.functional.lp_pool2d(tensor([[[3.0, 4.0]]]), 2, (1, 2))
    tensor([[[5.]]])
    """
    return power_pool(avg_pool2d, 2, *given)


@lp_pool_function(
    samples=[
        Case(Draw(1, 2, 2, 4, 2, low=0.5), 2, 2),
    ]
)
def lp_pool3d(*given: Any) -> Any:
    """lp_pool3d(input, norm_type, kernel_size, stride=None) -> Tensor: the p-norm of windows.

    >>> nn.functional.lp_pool3d(tensor([[[[3.0, 4.0]]]]), 2, (1, 1, 2))
    tensor([[[[5.]]]])
    """
    return power_pool(avg_pool3d, 3, *given)
