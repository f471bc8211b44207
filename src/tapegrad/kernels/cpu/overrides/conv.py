"""Convolution and its two gradients, in one to three dimensions (c/kernels/conv.c says how).

The three products are those of kernels/conv_windows.py, and they are used in the same way.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import numpy as np

from ....core.strides import channels_last
from ...conv_windows import gather, scatter
from ...geometry import out_size, transposed_size
from .. import KERNELS
from ..blas import CONNECTED, dot
from .rows import F64, dense, empty, for_dtypes, is_dense, pick, zeros

Ints = tuple[int, ...]

FEW = 32  # outputs of an image; with less a product of matrices is better
ROOM = 1 << 19  # bytes of an image that are laid out at a time: they should stay in the cache
TASKS = 4  # pieces for each thread, so that none waits long for another
PARTS = 8  # likewise, where every piece has sums of its own
SUMS = 1 << 21  # bytes that these sums may take
LIKE_DOUBLE = np.empty(0, F64)


class Layout:
    """Where the pixels of an image are in memory for windows of one kind.

    `taps` says how far each tap is from the first one, along each of three dimensions.
    """

    def __init__(self, size: Ints, low: Ints, stride: Ints, taps: list[Ints], out: Ints) -> None:
        self.out = out
        reach = [max(each) for each in zip(*taps, strict=True)]
        self.laid = [o + r // s for o, r, s in zip(out, reach, stride, strict=True)]
        phases: dict[Ints, int] = {}
        self.places = []  # of the taps: phase, and offset there
        for tap in taps:
            phase = tuple([t % s for t, s in zip(tap, stride, strict=True)])
            at = self.flat([t // s for t, s in zip(tap, stride, strict=True)])
            self.places.append((phases.setdefault(phase, len(phases)), at))
        self.phases = len(phases)
        self.far = max([at for _, at in self.places])
        self.lines = out[0] * out[1]
        numbers = (*size, *low, *stride, *self.laid, *out, self.phases, self.far)
        all_phases = tuple(itertools.chain(*phases))
        # Vectors begin with each row, or go across rows where those are short.
        self.numbers = {
            flat: np.array((*numbers, flat, *all_phases), np.int64) for flat in (False, True)
        }

    def flat(self, at: Any) -> int:
        return int((at[0] * self.laid[1] + at[1]) * self.laid[2] + at[2])

    def line(self, number: int) -> int:
        return self.flat((number // self.out[1], number % self.out[1], 0))

    def offsets(self, depth: int, length: int) -> Any:
        """Of all channels and taps, where each channel has `length` elements of each phase."""
        places = np.array([phase * length + at for phase, at in self.places], np.int64)
        return (np.arange(depth)[:, None] * (self.phases * length) + places).reshape(-1)

    def in_lines(self, count: int, depth: int, itemsize: int) -> tuple[int, int]:
        """Rows of a band, for at least `count` bands, and how long its layout is at the most."""
        whole = depth * self.phases * math.prod(self.laid) * itemsize
        count = max(count, -(-whole // ROOM))
        # Rows that two bands share are laid out twice: not more of those than of others.
        count = max(1, min(count, math.prod(self.laid) // (2 * self.far + 1), self.lines))
        each = -(-self.lines // count)
        starts = range(0, self.lines, each)
        last = [min(first + each, self.lines) - 1 for first in starts]
        length = max([self.line(b) - self.line(a) for a, b in zip(starts, last, strict=True)])
        return each, length + self.out[2]


@functools.lru_cache(256)
def plan(size: Ints, kernel: Ints, stride: Ints, low: Ints, dilation: Ints, out: Ints) -> Layout:
    """The layout of images for the windows of a convolution."""
    steps = [range(0, d * k, d) for k, d in zip(kernel, dilation, strict=True)]
    return Layout(size, low, stride, list(itertools.product(*steps)), out)


class Bands:
    """The pieces that the outputs of images are made in: bands of units, and parts of features."""

    def __init__(
        self, layout: Layout, images: int, depth: int, features: int, itemsize: int, threads: int
    ) -> None:
        lanes = 64 // itemsize
        out, columns = layout.out, layout.out[2]
        by_row = -(-columns // lanes)
        end = layout.line(layout.lines - 1) + columns
        across = -(-end // lanes)
        flat = across < (0.9 if columns > lanes else 1.0) * by_row * layout.lines
        taps = depth * len(layout.places)
        large = images * math.prod(out) * taps * features > 1 << 21
        even = images % threads == 0 or images >= TASKS * threads
        wanted = 1 if even or not large else -(-TASKS * threads // images)
        of_weights = taps * features > depth * math.prod(layout.laid)
        each, length = layout.in_lines(1 if of_weights else wanted, depth, itemsize)
        self.units = across if flat else by_row * layout.lines
        if flat:
            self.each = -(-across // -(-layout.lines // each))
            length = self.each * lanes
        else:
            self.each = each * by_row
        self.bands = -(-self.units // self.each)
        self.parts = max(1, min(wanted // self.bands, features // 8))
        self.length = length + layout.far + lanes
        self.for_x = (-(-depth * layout.phases * self.length // lanes) + 1) * lanes
        self.room = self.for_x + -(-24 * self.each // 64) * lanes  # 24 bytes for every unit
        self.numbers = layout.numbers[flat]
        self.offsets = layout.offsets(depth, self.length)


@functools.lru_cache(256)
def bands(
    layout: Layout, images: int, depth: int, features: int, itemsize: int, threads: int
) -> Bands:
    return Bands(layout, images, depth, features, itemsize, threads)


CONV, WEIGHTS, DOTS = for_dtypes("conv"), for_dtypes("conv_weights"), for_dtypes("conv_dots")


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


def rooms(count: int, each: int, like: Any) -> tuple[int, Any]:
    """Room for every thread, of `each` elements; they begin at lines of the cache."""
    count = min(KERNELS.threads(), count, 64)
    return count, empty((count * each + 64,), like)


def fill(x: Any, layout: Layout, w: Weights, bias: Any, out: Any) -> None:
    """The outputs of images."""
    images = x.shape[0]
    threads = KERNELS.threads()
    how = bands(layout, images * w.groups, w.depth, w.features, x.itemsize, threads)
    taps = len(w.places)
    n = (images, w.groups, w.features, w.depth, taps, *w.steps)
    steps = [s // out.itemsize for s in out.strides]
    count, room = rooms(images * w.groups * how.bands * how.parts, how.room, x)
    packed = empty((w.groups * w.depth * taps * (w.features * 7 // 6 + 8),), x)
    arrays = (x, w.w, w.places, bias, out, how.numbers, how.offsets, packed, room)
    pieces = (how.units, how.each, how.bands, how.parts, how.length, count, how.room, how.for_x)
    pick(CONV, x)(arrays, (*n, *steps, *pieces))


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
    layout = plan(x.shape[2:], w.shape[2:], stride, low, dilation, out)
    y = empty((x.shape[0], w.shape[0], *out), x)
    features, depth, taps = w.shape[0] // groups, w.shape[1], math.prod(w.shape[2:])
    steps = (features * depth * taps, depth * taps, taps)
    places = places_of(tuple([range(k) for k in w.shape[2:]]), w.shape[2:])
    weights = Weights(w, groups, (features, depth), steps, places)
    fill(x, layout, weights, bias, y)
    return y


def x_of(
    y: Any,
    w: Any,
    size: Ints,
    stride: Ints,
    low: Ints,
    dilation: Ints,
    groups: int,
    bias: Any = None,
) -> Any:
    """The transpose of `correlate` in x: one correlation of y for each phase, see `phases`."""
    features, depth, kernel = w.shape[0] // groups, w.shape[1], w.shape[2:]
    taps = math.prod(kernel)
    steps = (features * depth * taps, taps, depth * taps)
    axes = [phases(*axis) for axis in zip(size, kernel, stride, low, dilation, strict=True)]
    whole = all([len(found) == min(s, n) for found, s, n in zip(axes, stride, size, strict=True)])
    x = (empty if whole else zeros)((y.shape[0], groups * depth, *size), y)
    for chosen in itertools.product(*axes):
        first, indices, shifts = zip(*chosen, strict=True)
        layout = plan_back(y.shape[2:], stride, first, shifts, size)
        places = places_of(indices, kernel)
        weights = Weights(w, groups, (depth, features), steps, places)
        every = [slice(a, None, s) for a, s in zip(first, stride, strict=True)]
        fill(y, layout, weights, bias if whole else None, x[(..., *every)])
    if bias is not None and not whole:
        x += bias.reshape(-1, 1, 1, 1)
    return x


@functools.lru_cache(256)
def places_of(indices: tuple[Any, ...], kernel: Ints) -> Any:
    """Where taps are in a kernel, from their indices along each dimension."""
    each = np.array(list(itertools.product(*indices)), np.int64)
    return np.ravel_multi_index(each.T, kernel).astype(np.int64)


@functools.lru_cache(256)
def phases(n: int, k: int, s: int, p: int, d: int) -> list[tuple[int, Ints, Ints]]:
    """Which taps reach pixels a, a + s, …: their indices, and where in y they come from."""
    taps: dict[int, list[int]] = {}
    for i in range(k):  # not all a: a stride, unlike a kernel, may be huge
        taps.setdefault((i * d - p) % s, []).append(i)
    return [
        (a, tuple(taps[a]), tuple([(a + p - i * d) // s for i in taps[a]]))
        for a in sorted(taps)
        if a < n
    ]


@functools.lru_cache(256)
def plan_back(size: Ints, stride: Ints, first: Ints, shifts: tuple[Ints, ...], out: Ints) -> Layout:
    count = tuple([-(-(n - a) // s) for n, a, s in zip(out, first, stride, strict=True)])
    low = tuple([-min(each) for each in shifts])
    taps = itertools.product(*[[i + p for i in each] for each, p in zip(shifts, low, strict=True)])
    return Layout(size, low, (1, 1, 1), list(taps), count)


def w_of(x: Any, y: Any, kernel: Ints, stride: Ints, low: Ints, dilation: Ints, groups: int) -> Any:
    images, out = y.shape[0], y.shape[2:]
    depth, features = x.shape[1] // groups, y.shape[1] // groups
    layout = plan(x.shape[2:], kernel, stride, low, dilation, out)
    how = shares(layout, images, groups, depth, features, x.itemsize)
    w = empty((groups * features, depth, *kernel), x)
    sums = empty((how.sums,), LIKE_DOUBLE if how.few else x)
    count, room = rooms(groups * how.splits * how.parts, how.room, x)
    n = (images, groups, features, depth, len(layout.places), how.splits)
    lines = (layout.lines, how.each, how.bands, how.parts, how.length)
    arrays = (x, y, sums, w, layout.numbers[False], how.offsets, room)
    pick(DOTS if how.few else WEIGHTS, x)(
        arrays, (*n, *(0,) * (13 - len(n)), *lines, count, how.room, how.for_x)
    )
    return w


class Shares:
    """The pieces that the gradient of weights is made in: the same for any number of threads, since
    each has sums of its own.
    """

    def __init__(
        self, layout: Layout, images: int, groups: int, depth: int, features: int, itemsize: int
    ) -> None:
        lanes = 64 // itemsize
        taps = depth * len(layout.places)
        self.few = features < lanes // 2
        self.splits = 1
        made = -(-features // lanes) * lanes
        size = groups * taps * (features * 8 if self.few else made * itemsize)
        wanted = max(1, min(PARTS, SUMS // size))
        if not self.few:
            self.splits = max(1, min(PARTS // wanted, depth // 32))
        if groups >= 2 * PARTS:
            wanted = 1
        some = -(-depth // self.splits)
        self.each, length = layout.in_lines(-(-wanted // images), some, itemsize)
        self.bands = -(-layout.lines // self.each)
        self.parts = min(wanted, images * self.bands)
        self.length = length + layout.far + lanes
        self.for_x = (-(-some * layout.phases * self.length // lanes) + 1) * lanes
        of_y = 0 if self.few else self.each * layout.out[2] * made
        self.room = self.for_x + of_y
        self.sums = self.parts * groups * taps * (features if self.few else made)
        self.offsets = layout.offsets(some, self.length)


@functools.lru_cache(256)
def shares(
    layout: Layout, images: int, groups: int, depth: int, features: int, itemsize: int
) -> Shares:
    return Shares(layout, images, groups, depth, features, itemsize)


# ---------------------------------------------------------------------- overrides


def takes(a: Any, b: Any, kernel: Ints, out: Ints, *others: Any) -> bool:
    """Whether the kernels take two arrays; `out` is the size of the images of y."""
    if pick(CONV, a) is None or len(kernel) > 3 or not a.size or not b.size:
        return False
    if math.prod(out) < FEW:
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


def in_three(x: Any) -> Any:
    """Add dimensions of size 1, so that images of one or two dimensions have three."""
    return x.reshape(*x.shape[:2], *(1,) * (5 - x.ndim), *x.shape[2:])


def all_three(stride: Ints, padding: Ints, dilation: Ints) -> tuple[Ints, Ints, Ints]:
    more = 3 - len(stride)
    return (1,) * more + stride, (0,) * more + padding, (1,) * more + dilation


def three(size: Ints) -> Ints:
    return (1,) * (3 - len(size)) + tuple(size)


# ---------------------------------------------------------------------- small images


def is_one_product(a: Any, b: Any, kernel: Ints, out: Ints, how: Any) -> bool:
    """Whether images are so small that one product of all of them is fastest."""
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
        by_channels_last = len(kernel) > 1 and (channels_last(input) or channels_last(weight))
        input, weight = in_c_order(input), in_c_order(weight)
        if not takes(input, weight, kernel, size if transposed else out, bias) or min(out) < 1:
            fits = bias is None or bias.dtype is input.dtype
            if fits and is_one_product(input, weight, kernel, out, how):
                made = dot(weight.reshape(len(weight), -1), columns(input, kernel, how, out))
                if bias is not None:
                    made += bias[:, None]
                return by_pixels(images_first(made, len(input), out), by_channels_last)
            return by_pixels(reference(input, weight, bias, *how), by_channels_last)
        x, w = in_three(input), in_three(weight)
        steps = all_three(stride, padding, dilation)
        sizes = three(out)
        if transposed:
            made = x_of(x, w, sizes, *steps, groups, bias)
        else:
            made = correlate(x, w, bias, *steps, groups, sizes)
        return by_pixels(made.reshape(shape), by_channels_last)

    return kernel


def in_c_order(x: Any) -> Any:
    """An array of floats in C order, copied if it is not: then the kernels take it."""
    return x if pick(CONV, x) is None else dense(x)


def by_pixels(made: Any, last: bool) -> Any:
    """A result of images, copied to lie channels last if it is to."""
    return np.moveaxis(dense(np.moveaxis(made, 1, -1)), -1, 1) if last else made


def conv_input_grad(reference: Any) -> Any:
    def kernel(grad_output: Any, weight: Any, shape: Ints, how: Any) -> Any:
        stride, padding, dilation, transposed, _, groups = how
        if not go_together(shape, weight.shape, grad_output.shape, how):
            return reference(grad_output, weight, shape, how)
        grad, weight = dense(grad_output), in_c_order(weight)
        y_size = shape[2:] if transposed else grad.shape[2:]
        if not takes(grad, weight, weight.shape[2:], y_size) or not math.prod(shape):
            if is_one_product(grad, weight, weight.shape[2:], y_size, how) and math.prod(shape):
                return x_by_product(grad, weight, shape, how)
            return reference(grad_output, weight, shape, how)
        y, w = in_three(grad), in_three(weight)
        steps = all_three(stride, padding, dilation)
        size = three(shape[2:])
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
        steps = all_three(stride, padding, dilation)
        made = w_of(in_three(x), in_three(y), three(shape[2:]), *steps, groups)
        return made.reshape(shape)

    return kernel


OVERRIDES = {
    "convolution": convolution,
    "conv_input_grad": conv_input_grad,
    "conv_weight_grad": conv_weight_grad,
}
