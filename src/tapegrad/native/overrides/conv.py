"""Convolution and its two gradients, in one and two dimensions (c/conv.c says how).

The three products are those of ops/nn/conv_kernels.py, and they are used in the same way.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import numpy as np

from ...core.layout import channels_last
from ...ops.nn.conv import out_size, transposed_size
from ...ops.nn.conv_kernels import gather, scatter
from ..blas import CONNECTED, dot
from .rows import F32, F64, dense, for_dtypes, is_dense, pick

Ints = tuple[int, ...]

MARGIN = 128  # elements that may be read behind the last that is used
FEW = 32  # outputs of an image; with less a product of matrices is better
LANES = {F32: 16, F64: 8}  # features that the gradient of weights takes at once


class Layout:
    """Where the pixels of an image are in memory for windows of one kind.

    `reach` is how far, along each dimension, the last tap lies behind the first.
    """

    def __init__(self, size: Ints, low: Ints, stride: Ints, reach: Ints, out: Ints) -> None:
        self.out = out
        rows = [o + r // s for o, r, s in zip(out, reach, stride, strict=True)]
        axes = [(n, p, s, r) for n, p, s, r in zip(size, low, stride, rows, strict=True)]
        self.sizes = tuple(itertools.chain(*axes))
        self.stride = stride
        self.width = rows[1]
        self.phase = rows[0] * rows[1]
        self.plane = math.prod(stride) * self.phase

    def place(self, row: int, column: int) -> int:
        """The offset of a tap that is so far behind the first one."""
        (s, t) = self.stride
        at = (row % s * t + column % t) * self.phase
        return at + row // s * self.width + column // t

    def offsets(self, depth: int, taps: list[tuple[int, int]]) -> Any:
        places = np.array([self.place(*tap) for tap in taps], np.int64)
        return (np.arange(depth)[:, None] * self.plane + places).reshape(-1)


@functools.lru_cache(256)
def plan(
    size: Ints, kernel: Ints, stride: Ints, low: Ints, dilation: Ints, out: Ints, depth: int
) -> tuple[Layout, Any]:
    """The layout of images for windows, and the offsets of all channels and taps."""
    reach = tuple([d * (k - 1) for k, d in zip(kernel, dilation, strict=True)])
    layout = Layout(size, low, stride, reach, out)
    steps = [range(0, r + 1, d) for r, d in zip(reach, dilation, strict=True)]
    return layout, layout.offsets(depth, list(itertools.product(*steps)))


LAY, CONV, TURN = for_dtypes("conv_lay"), for_dtypes("conv"), for_dtypes("conv_turn")
WEIGHTS, DOTS, PACK = (
    for_dtypes("conv_weights"),
    for_dtypes("conv_dots"),
    for_dtypes("conv_pack"),
)


def laid_out(x: Any, layout: Layout) -> Any:
    planes = x.shape[0] * x.shape[1]
    room = np.empty(planes * layout.plane + layout.width + MARGIN, x.dtype)
    pick(LAY, x)((x, room), (planes, *layout.sizes))
    return room


class Weights:
    """An array of weights: where its groups, features, channels and taps are.

    Steps are in elements; `places` are those of the taps.
    """

    def __init__(self, w: Any, groups: int, sizes: Ints, steps: Ints, places: Any) -> None:
        self.w = w
        self.groups = groups
        self.features, self.depth = sizes
        self.steps = steps
        self.places = places
        # As many features side by side as there are registers for, unless too many are made up.
        few = self.features < 3
        self.high = 1 if few else 6 if -self.features % 6 * 12 <= self.features else 4

    def packed(self) -> Any:
        taps = len(self.places)
        blocks = -(-self.features // self.high)
        room = np.empty(self.groups * blocks * self.depth * taps * self.high, self.w.dtype)
        sizes = (self.groups, self.features, self.depth, taps, self.high)
        pick(PACK, room)((self.w, self.places, room), (*sizes, *self.steps))
        return room


def fill(x: Any, layout: Layout, offsets: Any, w: Weights, bias: Any, out: Any) -> None:
    """The outputs of images."""
    group = layout.plane * w.depth
    n = (x.shape[0], w.groups, len(offsets), w.features, w.high, group * w.groups, group)
    steps = [s // out.itemsize for s in out.strides]
    arrays = (laid_out(x, layout), w.packed(), offsets, bias, out)
    pick(CONV, x)(arrays, (*n, *layout.out, layout.width, *steps))


def correlate(
    x: Any,
    w: Any,
    bias: Any,
    stride: Ints,
    low: Ints,
    dilation: Ints,
    groups: int,
    out: Ints,
) -> Any:
    layout, offsets = plan(x.shape[2:], w.shape[2:], stride, low, dilation, out, w.shape[1])
    y = np.empty((x.shape[0], w.shape[0], *out), x.dtype)
    features, depth, taps = w.shape[0] // groups, w.shape[1], math.prod(w.shape[2:])
    steps = (features * depth * taps, depth * taps, taps)
    weights = Weights(w, groups, (features, depth), steps, np.arange(taps))
    fill(x, layout, offsets, weights, bias, y)
    return y


def x_of(y: Any, w: Any, size: Ints, stride: Ints, low: Ints, dilation: Ints, groups: int) -> Any:
    """Every s-th pixel is a correlation of y with every s-th tap, or so: see `phases`."""
    features, depth, kernel = w.shape[0] // groups, w.shape[1], w.shape[2:]
    taps = math.prod(kernel)
    steps = (features * depth * taps, taps, depth * taps)
    axes = [phases(*axis) for axis in zip(size, kernel, stride, low, dilation, strict=True)]
    whole = all([len(found) == min(s, n) for found, s, n in zip(axes, stride, size, strict=True)])
    x = (np.empty if whole else np.zeros)((y.shape[0], groups * depth, *size), y.dtype)
    for (a, rows, shifts), (b, columns, others) in itertools.product(*axes):
        layout, offsets = plan_back(y.shape[2:], stride, (a, b), (shifts, others), size, features)
        places = np.array([i * kernel[1] + j for i in rows for j in columns])
        weights = Weights(w, groups, (depth, features), steps, places)
        fill(y, layout, offsets, weights, None, x[:, :, a :: stride[0], b :: stride[1]])
    return x


def phases(n: int, k: int, s: int, p: int, d: int) -> list[tuple[int, Ints, Ints]]:
    """Which taps reach pixels a, a + s, …: their indices, and where in y they come from."""
    found = []
    for a in range(min(s, n)):
        taps = tuple([i for i in range(k) if (a + p - i * d) % s == 0])
        if taps:
            found.append((a, taps, tuple([(a + p - i * d) // s for i in taps])))
    return found


@functools.lru_cache(256)
def plan_back(
    size: Ints, stride: Ints, first: Ints, shifts: tuple[Ints, Ints], out: Ints, depth: int
) -> tuple[Layout, Any]:
    count = tuple([-(-(n - a) // s) for n, a, s in zip(out, first, stride, strict=True)])
    low = tuple([-min(each) for each in shifts])
    reach = tuple([max(each) - min(each) for each in shifts])
    layout = Layout(size, low, (1, 1), reach, count)
    taps = itertools.product(*[[i + p for i in each] for each, p in zip(shifts, low, strict=True)])
    return layout, layout.offsets(depth, list(taps))


def w_of(x: Any, y: Any, kernel: Ints, stride: Ints, low: Ints, dilation: Ints, groups: int) -> Any:
    images, out = y.shape[0], y.shape[2:]
    depth, features = x.shape[1] // groups, y.shape[1] // groups
    layout, offsets = plan(x.shape[2:], kernel, stride, low, dilation, out, depth)
    w = np.empty((groups * features, depth, *kernel), x.dtype)
    group = layout.plane * depth
    n = (images, groups, len(offsets), features, group * groups, group, *out, layout.width)
    lanes = LANES[x.dtype]
    if features < lanes // 2:
        pick(DOTS, x)((laid_out(x, layout), y, offsets, w), n)
        return w
    turned = np.empty((images * groups, math.prod(out), -(-features // lanes) * lanes), x.dtype)
    pick(TURN, x)((y, turned), (images * groups, features, math.prod(out)))
    pick(WEIGHTS, x)((laid_out(x, layout), turned, offsets, w), n)
    return w


# ---------------------------------------------------------------------- overrides


def takes(a: Any, b: Any, kernel: Ints, out: Ints, *others: Any) -> bool:
    """Whether two arrays are for the kernels; `out` is the size of the side of y."""
    if pick(CONV, a) is None or len(kernel) not in (1, 2) or not a.size or not b.size:
        return False
    if math.prod(kernel) == 1 or math.prod(out) < FEW:
        return False
    return all([x is None or (x.dtype is a.dtype and is_dense(x)) for x in (a, b, *others)])


def go_together(x: Ints, w: Ints, y: Ints, how: Any) -> bool:
    """Whether the shapes of images, weights and results (sizes after channels) are a convolution's:
    kernels do not look, so that others must not get there.
    """
    stride, padding, dilation, transposed, output_padding, groups = how
    if transposed:
        inputs, outputs = w[0], w[1] * groups
        out = transposed_size(x[2:], w[2:], stride, padding, dilation, output_padding)
    else:
        inputs, outputs = w[1] * groups, w[0]
        out = out_size(x[2:], w[2:], stride, padding, dilation)
    return (
        w[0] % groups == 0
        and len(x) == len(w) == len(y)
        and (x[1], y[0], y[1]) == (inputs, x[0], outputs)
        and tuple(out) == tuple(y[2:])
    )


def as_images(x: Any) -> Any:
    return x if x.ndim == 4 else x.reshape(*x.shape[:2], 1, x.shape[2])


def of_two(stride: Ints, padding: Ints, dilation: Ints) -> tuple[Ints, Ints, Ints]:
    """For one dimension: those of images with one row."""
    if len(stride) == 2:
        return stride, padding, dilation
    return (1, *stride), (0, *padding), (1, *dilation)


# ---------------------------------------------------------------------- small images


def is_one_product(a: Any, b: Any, kernel: Ints, out: Ints, how: Any) -> bool:
    """Whether images are so small that all of them make one matrix; weights are not copied then."""
    if not CONNECTED or pick(CONV, a) is None or b.dtype is not a.dtype:
        return False
    _, _, _, transposed, _, groups = how
    if transposed or groups > 1 or math.prod(kernel) == 1 or math.prod(out) >= FEW:
        return False
    plain = is_dense(a) and is_dense(b) and not channels_last(a) and not channels_last(b)
    return plain and bool(a.size and b.size) and min(out) > 0


def columns(x: Any, kernel: Ints, how: Any, out: Ints) -> Any:
    """The windows of all images: a row for every channel and tap."""
    stride, padding, dilation = how[:3]
    sizes = ((1, *kernel), (1, *stride), (0, *padding), (1, *dilation), (x.shape[0], *out))
    return gather(np, x.swapaxes(0, 1), *sizes).reshape(x.shape[1] * math.prod(kernel), -1)


def features_first(y: Any) -> Any:
    return dense(y.swapaxes(0, 1)).reshape(y.shape[1], -1)


def images_first(y: Any, images: int, out: Ints) -> Any:
    lines = dense(y.reshape(len(y), images, -1).swapaxes(0, 1))
    return lines.reshape(-1).reshape(images, len(y), *out)  # one image has the usual strides too


def x_by_product(y: Any, w: Any, shape: Ints, how: Any) -> Any:
    stride, padding, dilation = how[:3]
    cols = dot(w.reshape(len(w), -1).T, features_first(y))
    cols = cols.reshape(*w.shape[1:], y.shape[0], *y.shape[2:])
    return scatter(np, np.moveaxis(cols, w.ndim - 1, 0), shape[2:], stride, padding, dilation)


# ---------------------------------------------------------------------- the overrides


def convolution(reference: Any) -> Any:
    def kernel(
        input: Any,
        weight: Any,
        bias: Any,
        stride: Ints,
        padding: Ints,
        dilation: Ints,
        transposed: bool,
        output_padding: Ints,
        groups: int,
    ) -> Any:
        kernel, size = weight.shape[2:], input.shape[2:]
        if transposed:
            out = transposed_size(size, kernel, stride, padding, dilation, output_padding)
        else:
            out = out_size(size, kernel, stride, padding, dilation)
        how = (stride, padding, dilation, transposed, output_padding, groups)
        features = weight.shape[1] * groups if transposed else weight.shape[0]
        shape = (input.shape[0], features, *out)
        if not go_together(input.shape, weight.shape, shape, how) or (
            bias is not None and bias.shape != (features,)
        ):
            return reference(input, weight, bias, *how)
        if not takes(input, weight, kernel, size if transposed else out, bias) or min(out) < 1:
            fits = bias is None or bias.dtype is input.dtype
            if fits and is_one_product(input, weight, kernel, out, how):
                made = dot(weight.reshape(len(weight), -1), columns(input, kernel, how, out))
                if bias is not None:
                    made += bias[:, None]
                return images_first(made, len(input), out)
            return reference(input, weight, bias, *how)
        x, w = as_images(input), as_images(weight)
        steps = of_two(stride, padding, dilation)
        sizes = out if len(out) == 2 else (1, *out)
        if transposed:
            made = x_of(x, w, sizes, *steps, groups)
            if bias is not None:
                made += bias.reshape(-1, 1, 1)
        else:
            made = correlate(x, w, bias, *steps, groups, sizes)
        if len(kernel) > 1 and (channels_last(input) or channels_last(weight)):
            return np.moveaxis(dense(np.moveaxis(made, 1, -1)), -1, 1)
        return made.reshape(*made.shape[:2], *out)

    return kernel


def conv_input_grad(reference: Any) -> Any:
    def kernel(grad_output: Any, weight: Any, shape: Ints, how: Any) -> Any:
        stride, padding, dilation, transposed, _, groups = how
        if not go_together(shape, weight.shape, grad_output.shape, how):
            return reference(grad_output, weight, shape, how)
        grad = dense(grad_output)
        y_size = shape[2:] if transposed else grad.shape[2:]
        if not takes(grad, weight, weight.shape[2:], y_size) or not math.prod(shape):
            if is_one_product(grad, weight, weight.shape[2:], y_size, how) and math.prod(shape):
                return x_by_product(grad, weight, shape, how)
            return reference(grad_output, weight, shape, how)
        y, w = as_images(grad), as_images(weight)
        steps = of_two(stride, padding, dilation)
        size = shape[2:] if len(shape) == 4 else (1, shape[2])
        if transposed:
            made = correlate(y, w, None, *steps, groups, size)
        else:
            made = x_of(y, w, size, *steps, groups)
        return made.reshape(shape)

    return kernel


def conv_weight_grad(reference: Any) -> Any:
    def kernel(grad_output: Any, input: Any, shape: Ints, how: Any) -> Any:
        stride, padding, dilation, transposed, _, groups = how
        if not go_together(input.shape, shape, grad_output.shape, how):
            return reference(grad_output, input, shape, how)
        y, x = dense(grad_output), dense(input)
        if transposed:
            x, y = y, x
        if not takes(x, y, shape[2:], y.shape[2:]):
            if is_one_product(x, y, shape[2:], y.shape[2:], how):
                cols = columns(x, shape[2:], how, y.shape[2:])
                return dot(features_first(y), cols.T).reshape(shape)
            return reference(grad_output, input, shape, how)
        kernel = shape[2:] if len(shape) == 4 else (1, shape[2])
        made = w_of(as_images(x), as_images(y), kernel, *of_two(stride, padding, dilation), groups)
        return made.reshape(shape)

    return kernel


OVERRIDES = {
    "convolution": convolution,
    "conv_input_grad": conv_input_grad,
    "conv_weight_grad": conv_weight_grad,
}
