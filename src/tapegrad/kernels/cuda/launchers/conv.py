"""Convolution on the GPU (sources/conv.cu has the kernels).

A convolution is a product: a kernel gathers the windows of all images as the columns of a matrix,
cuBLAS multiplies it by the weights, and another kernel puts the result in order and adds the bias.
Its gradients are the same three steps the other way round. What needs no gathering has its own
ways: kernels of one element, windows as large as the image, and one channel to a group.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from ....backends import cudnn
from ....core.settings import Settings
from ....core.strides import channels_last, strided
from ...geometry import out_size, transposed_size
from .. import cublaslt
from ..cublas import F32, NAMES
from . import pool as cupy_pool
from . import resize as cupy_resize
from .conv_products import Implicit
from .depthwise import Depthwise
from .kernels import BLOCK, I32, I64, SQUARE, Gpu, accumulator, real
from .launcher import Launcher
from .moves import MANY, U32, Plans
from .pool import compiled, cut, windows
from .rms import is_aligned
from .rows import dense, pointer

Ints = tuple[int, ...]
LIMIT = 256 << 20  # bytes of gathered windows: more images than fit go one part after the other
GRID = 65535  # blocks along y


def precision() -> str:
    """Of products of float32: PyTorch's convolutions take TF32 unless told otherwise."""
    return "tf32" if cudnn.allow_tf32 else Settings.matmul_fp32


class Conv:
    """y (images, features, *out) from x (images, channels, *size), or back: all that sizes say.

    Arrays are contiguous. A transposed convolution is `x_of`.
    """

    def __init__(
        self,
        backend: Any,
        gpu: Gpu,
        x_shape: Ints,
        w_shape: Ints,
        y_shape: Ints,
        how: tuple[Ints, Ints, Ints, int],
        dtype: Any,
    ) -> None:
        stride, low, dilation, groups = how
        self.backend = backend
        self.gpu = gpu
        self.dtype = dtype
        self.wide = accumulator(dtype)
        self.x_shape, self.w_shape, self.y_shape = x_shape, w_shape, y_shape
        self.images, self.channels = x_shape[:2]
        self.features, self.groups = w_shape[0], groups
        size, kernel, out = x_shape[2:], w_shape[2:], y_shape[2:]
        self.taps, self.length = math.prod(kernel), math.prod(out)
        self.whole = math.prod(size)
        self.windows = windows(out, size, stride, kernel, low, dilation)
        self.stacks: dict[tuple[str, str], cublaslt.Plan | None] = {}  # of `stack`
        self.by_channel, self.by_feature = cut(self.channels), cut(self.features)
        self.by_length = cut(self.length)
        self.times = cut(self.features // groups)
        plain = set(stride) == {1} and not any(low)
        self.depthwise = groups > 1 and w_shape[1] == 1
        # Nothing but a product of (images, channels * taps) by the weights.
        self.one_window = groups == 1 and kernel == size and self.length == 1 and not any(low)
        self.one_tap = groups == 1 and self.taps == 1 and plain and size == out
        simple = self.depthwise or self.one_window or self.one_tap
        self.tiled: Depthwise | None = None
        if self.depthwise and Depthwise.takes(x_shape, w_shape, how):
            self.tiled = Depthwise(gpu, x_shape, w_shape, y_shape, self.windows, how, dtype)
        self.implicit: Implicit | None = None
        if dtype is F32 and not simple and Implicit.takes(groups, x_shape, w_shape):
            self.implicit = Implicit(gpu, x_shape, w_shape, y_shape, self.windows, how[:3])
        each = self.channels * self.taps * self.length * self.wide.itemsize
        count = max(1, LIMIT // each)
        self.parts = -(-self.images // count)
        self.at_once = -(-self.images // self.parts)
        self.parts = -(-self.images // self.at_once)

    def run(self, name: str, count: int, args: tuple[Any, ...]) -> None:
        kernel = compiled(self.gpu, NAMES[self.dtype], name, "conv")
        kernel(self.gpu.grid(count), BLOCK, args)

    def new(self, shape: Ints, dtype: Any = None) -> Any:
        return self.gpu.xp.ndarray(shape, self.dtype if dtype is None else dtype)

    def in_tf32(self) -> bool:
        """Whether the kernels of conv_products.py do it."""
        return self.implicit is not None and precision() == "tf32"

    def some_images(self) -> Iterator[tuple[int, Any]]:
        """The images in parts of a size that memory is there for: how many, and which."""
        for start in range(0, self.images, self.at_once):
            stop = min(start + self.at_once, self.images)
            yield stop - start, slice(start, stop)

    def taken(self, x: Any, which: slice) -> Any:
        return x if self.parts == 1 else x[which]

    # Matrices have a third dimension in front if there are groups.

    def grouped(self, x: Any, rows: int) -> Any:
        if self.groups == 1:
            return x.reshape(rows, -1)
        return x.reshape(self.groups, rows // self.groups, -1)

    def gathered(self, x: Any, images: int) -> Any:
        """Columns for the windows of x."""
        rows, n = self.channels * self.taps, images * self.length
        cols = self.new((rows, n))
        count = self.channels * n
        args = (U32(count), self.windows, self.by_channel, I64(n), I64(self.length))
        self.run("gather", count, (x, cols, *args))
        return self.grouped(cols, rows)

    def merged(self, y: Any, images: int) -> Any:
        """y as a matrix with as many columns."""
        if images > 1:
            y = self.backend.copied(y.reshape(images, self.features, -1).transpose(1, 0, 2))
        return self.grouped(y, self.features)

    def product(self, a: Any, b: Any, out: Any = None, bias: Any = None) -> Any:
        fp32 = precision()
        if a.ndim == 2 and out is None:
            return cublaslt.product(self.gpu.lt, a, b, bias, fp32)
        if a.ndim == 2:
            a, b, out = a[None], b[None], out[None]
        return cublaslt.stack_product(self.gpu.lt, a, b, out, fp32)

    def for_each_image(self, w: Any) -> Any:
        """The weights as a stack that repeats them."""
        item = self.dtype.itemsize
        shape = (self.images, self.features, self.channels)
        return strided(self.gpu.xp, w, shape, (0, self.channels * item, item))

    def stack(self, which: str, left: Any, right: Any, out: Any) -> None:
        """The products of each image with a kernel of one element, made in `out`.

        Arrays are contiguous: what their matrices are has to be worked out once.
        """
        fp32 = precision()
        try:
            plan = self.stacks[which, fp32]
        except KeyError:
            matrices = self.matrices(which, left, right)
            plan = cublaslt.plan_stack(self.gpu.lt, *matrices, out.dtype, fp32)
            self.stacks[which, fp32] = plan
        if plan is not None and is_aligned(left, right, out):
            plan.run(left.data.ptr, right.data.ptr, out.data.ptr, 0)
            return
        a, b = self.matrices(which, left, right)
        self.product(a, b, out.reshape(self.images, a.shape[1], b.shape[2]))

    def matrices(self, which: str, left: Any, right: Any) -> tuple[Any, Any]:
        """The stacks whose product is y, x or w."""
        if which == "w":
            x = right.reshape(self.images, self.channels, self.length)
            return left.reshape(self.images, self.features, self.length), x.transpose(0, 2, 1)
        weights, given = self.for_each_image(left), right.reshape(self.images, -1, self.length)
        return weights if which == "y" else weights.transpose(0, 2, 1), given

    def with_bias(self, y: Any, bias: Any, features: Any) -> Any:
        if bias is not None:
            self.run("add_bias", y.size, (y, bias, U32(y.size), self.by_length, features))
        return y

    def correlate(self, x: Any, w: Any, bias: Any) -> Any:
        """y from x."""
        if self.depthwise:
            y = None if self.tiled is None else self.tiled.y_of(x, w, bias)
            if y is not None:
                return y
            y = self.new(self.y_shape)
            args = (U32(y.size), self.windows, self.by_channel, self.times)
            self.run("each_channel", y.size, (x, w, pointer(bias), y, *args))
            return y
        if self.one_window:
            left, right = x.reshape(self.images, -1), w.reshape(self.features, -1)
            return self.product(left, right.T, bias=bias).reshape(self.y_shape)
        if self.one_tap:
            y = self.new(self.y_shape)
            self.stack("y", w, x, y)
            return self.with_bias(y, bias, self.by_feature)
        if self.implicit is not None and self.in_tf32():
            return self.implicit.made(x, w, bias, False)
        w = self.grouped(w, self.features)
        if self.images == 1 and bias is None:
            return self.product(w, self.gathered(x, 1)).reshape(self.y_shape)
        y = self.new(self.y_shape)
        for images, which in self.some_images():
            made = self.product(w, self.gathered(self.taken(x, which), images))
            n = made.size
            args = (U32(n), self.by_length, self.by_feature, U32(images))
            self.run("part", n, (made, pointer(bias), self.taken(y, which), *args))
        return y

    def x_of(self, y: Any, w: Any, bias: Any, merged: Any = None) -> Any:
        """The gradient of x from that of y; `merged` is y as a matrix, if it is there."""
        if self.depthwise:
            x = None if self.tiled is None else self.tiled.x_of(y, w, bias)
            if x is not None:
                return x
            x = self.new(self.x_shape)
            sizes = (U32(x.size), self.windows, self.by_channel, self.times)
            self.run("each_channel_back", x.size, (y, w, pointer(bias), x, *sizes))
            return x
        if self.one_window and (bias is None or self.taps == 1):
            left, right = y.reshape(self.images, -1), w.reshape(self.features, -1)
            return self.product(left, right, bias=bias).reshape(self.x_shape)
        if self.one_tap:
            x = self.new(self.x_shape)
            self.stack("x", w, y, x)
            return self.with_bias(x, bias, self.by_channel)
        if self.implicit is not None and self.in_tf32():
            return self.implicit.made(y, w, bias, True)
        w = self.grouped(w, self.features).swapaxes(-1, -2)
        x = self.new(self.x_shape)
        for images, which in self.some_images():
            given = self.merged(self.taken(y, which), images) if merged is None else merged
            cols = None
            if self.wide is not self.dtype:  # partial sums are not rounded to half precision
                cols = self.new((*w.shape[:-1], given.shape[-1]), self.wide)
            cols = self.product(w, given, cols)
            n = images * self.channels * self.whole
            steps = (I64(images * self.length), I64(self.length))
            args = (cols, pointer(bias), self.taken(x, which), U32(n))
            self.run("scatter", n, (*args, self.windows, self.by_channel, *steps))
        return x

    def w_of(self, x: Any, y: Any, merged: Any = None) -> Any:
        """The gradient of the weights."""
        if self.depthwise:
            parts = None if self.tiled is None else self.tiled.parts_of_w(x, y)
            if parts is not None:
                return self.added(parts)
            w = self.new(self.w_shape)
            kernel = compiled(self.gpu, NAMES[self.dtype], "each_channel_weight", "conv")
            args = (U32(self.images * self.length), self.windows, self.by_channel, self.times)
            kernel((self.taps, self.features), BLOCK, (x, y, w, *args))
            return w
        if self.one_window:
            left, right = y.reshape(self.images, -1), x.reshape(self.images, -1)
            return self.product(left.T, right).reshape(self.w_shape)
        if self.one_tap and self.images > 1 and self.channels <= self.length:
            each = self.new((self.images, self.features, self.channels), self.wide)
            self.stack("w", y, x, each)
            return self.added(each)
        if self.implicit is not None and self.in_tf32():
            return self.implicit.to_weights(x, y)
        made: Any = None
        if self.parts > 1:
            rows = self.w_shape[0] // self.groups
            shape = (rows, -1) if self.groups == 1 else (self.groups, rows, -1)
            made = self.new((self.parts, math.prod(self.w_shape)), self.wide)
        for i, (images, which) in enumerate(self.some_images()):
            given = self.merged(self.taken(y, which), images) if merged is None else merged
            cols = self.gathered(self.taken(x, which), images).swapaxes(-1, -2)
            if made is None:
                return self.product(given, cols).reshape(self.w_shape)
            self.product(given, cols, made[i].reshape(shape))
        return self.added(made)

    def added(self, made: Any) -> Any:
        """The sum of weights' gradients."""
        count, n = made.shape[0], math.prod(self.w_shape)
        w = self.new(self.w_shape)
        end = self.gpu.kernel("sums.cu", NAMES[self.dtype], "columns_end")
        sizes = (real(self.dtype, 1), I32(count), I32(n))
        end(((n + 31) // 32, 1), SQUARE, (made, w, pointer(None), *sizes))
        return w

    def gradients(self, grad: Any, x: Any, w: Any, wanted: tuple[bool, ...]) -> list[Any]:
        """The gradients of input, weight and bias, with y copied at most once."""
        simple = self.depthwise or self.one_window or self.one_tap or self.parts > 1
        simple = simple or self.in_tf32()
        merged = None if simple or not (wanted[0] or wanted[1]) else self.merged(grad, self.images)
        to_weight = to_bias = None
        if wanted[1]:
            found = None
            if wanted[2] and merged is not None and self.groups == 1:
                cols = self.gathered(x, self.images)
                found = cublaslt.product_and_sums(self.gpu.lt, merged, cols.T, precision())
                if found is None:
                    to_weight = self.product(merged, cols.T).reshape(self.w_shape)
            else:
                to_weight = self.w_of(x, grad, merged)
            if found is not None:
                to_weight, to_bias = found[0].reshape(self.w_shape), found[1]
        if wanted[2] and to_bias is None:
            to_bias = channel_sums(self.gpu, grad)
        return [self.x_of(grad, w, None, merged) if wanted[0] else None, to_weight, to_bias]


def channel_sums(gpu: Gpu, y: Any) -> Any:
    """The sums of y (images, channels, …), contiguous, over all but the channels."""
    images, features = y.shape[:2]
    length = math.prod(y.shape[2:])
    sums = gpu.xp.ndarray((features,), y.dtype)
    run = compiled(gpu, NAMES[y.dtype], "channel_sums", "conv")
    n = images * length
    run((features,), (1024 if n > 4096 else 256,), (y, sums, U32(n), cut(length), U32(features)))
    return sums


def register(backend: Any, gpu: Gpu, reference: Any) -> None:
    cupy_pool.register(backend, gpu, reference)
    cupy_resize.register(backend, gpu, reference)
    convs = Convs(backend, gpu)
    for launcher in (Convolution, ConvInputGrad, ConvWeightGrad, ConvBiasGrad):
        launcher(convs, reference).register(backend)
    backend.pulls["convolution"] = convs.pull


class Convs:
    """The plans of convolutions of one array module, and their gradients all at once."""

    def __init__(self, backend: Any, gpu: Gpu) -> None:
        self.backend = backend
        self.gpu = gpu
        self.plans = Plans(self.plan)
        self.forwards = Plans(self.plan_forward)

    def plan(self, x: Ints, w: Ints, y: Ints, how: Any, dtype: Any) -> Conv | None:
        """None: too large for the kernels, or nothing to do."""
        sizes = (math.prod(x), math.prod(w), math.prod(y))
        if min((*sizes, *y)) <= 0 or max(sizes) >= MANY or w[0] > GRID:
            return None
        conv = Conv(self.backend, self.gpu, x, w, y, how, dtype)
        # Elements of the largest matrix of windows, and of what it is multiplied into.
        biggest = conv.at_once * conv.channels * max(conv.length, conv.whole)
        return conv if biggest < MANY else None

    def plan_forward(
        self, x: Ints, x_strides: Ints, w: Ints, w_strides: Ints, dtype: Any, how: Any
    ) -> Any:
        """The plan, and whether results are channels-last."""
        stride, padding, dilation, transposed, output_padding, groups = how
        if transposed:
            out = transposed_size(x[2:], w[2:], stride, padding, dilation, output_padding)
            made = (x[0], w[1] * groups, *out)
        else:
            made = (x[0], w[0], *out_size(x[2:], w[2:], stride, padding, dilation))
        found = self.get(x, w, made, how, dtype)
        layouts = [Layout(x, x_strides), Layout(w, w_strides)]
        return found, len(w) > 3 and any([channels_last(v) for v in layouts])

    def get(self, x: Ints, w: Ints, y: Ints, how: Any, dtype: Any) -> Conv | None:
        """The plan of a convolution; a transposed one is that of its gradient."""
        stride, padding, dilation, transposed, _, groups = how
        shapes = (y, w, x) if transposed else (x, w, y)
        found: Conv | None = self.plans.get((*shapes, (stride, padding, dilation, groups), dtype))
        return found

    def dense(self, x: Any) -> Any:
        return None if x is None else dense(self.backend, x)

    def pull(self, node: Any, grad: Any, kept: Any) -> Any:
        """All gradients of a convolution that is not transposed."""
        x, w = kept.input, kept.weight  # each is kept for the gradient of the other
        where = kept.stride, kept.padding, kept.dilation
        how = (*where, kept.transposed, kept.output_padding, kept.groups)
        dtype = grad.dtype
        wanted = tuple([edge is not None for edge in node._edges[:3]])
        missing = (wanted[0] and w is None) or (wanted[1] and x is None)
        if missing or kept.transposed or node._fixes is not None or not of_dtype(dtype, x, w):
            return None
        conv = self.get(kept.input_shape, kept.weight_shape, grad.shape, how, dtype)
        if conv is None:
            return None
        return conv.gradients(self.dense(grad), self.dense(x), self.dense(w), wanted)


def of_dtype(dtype: Any, *arrays: Any) -> bool:
    """Whether all arrays that are there have a dtype that kernels take."""
    return dtype in NAMES and all([a is None or a.dtype is dtype for a in arrays])


class ConvLauncher(Launcher):
    """A launcher with the plans of convolutions."""

    def __init__(self, convs: Convs, reference: Any) -> None:
        super().__init__(reference)
        self.convs = convs


class Convolution(ConvLauncher):
    """`how` is stride, padding, dilation, whether it is transposed, output padding and groups."""

    op = "convolution"

    def fits(self, input: Any, weight: Any, bias: Any, *how: Any) -> bool:
        return of_dtype(input.dtype, weight, bias)

    def plan(self, input: Any, weight: Any, bias: Any, *how: Any) -> Any:
        key = (input.shape, input.strides, weight.shape, weight.strides, input.dtype, how)
        plan = self.convs.forwards.get(key)
        return None if plan[0] is None else plan

    def run(self, plan: Any, input: Any, weight: Any, bias: Any, *how: Any) -> Any:
        conv, last = plan
        x, w, b = [self.convs.dense(v) for v in (input, weight, bias)]
        made = conv.x_of(x, w, b) if how[3] else conv.correlate(x, w, b)
        if last:
            rank = made.ndim
            made = self.convs.backend.copied(made.transpose(0, *range(2, rank), 1))
            made = made.transpose(0, rank - 1, *range(1, rank - 1))
        return made


class ConvInputGrad(ConvLauncher):
    op = "conv_input_grad"

    def fits(self, grad: Any, weight: Any, shape: Any, how: Any) -> bool:
        return of_dtype(grad.dtype, weight)

    def plan(self, grad: Any, weight: Any, shape: Any, how: Any) -> Any:
        return self.convs.get(tuple(shape), weight.shape, grad.shape, how, grad.dtype)

    def run(self, plan: Any, grad: Any, weight: Any, shape: Any, how: Any) -> Any:
        y, w = self.convs.dense(grad), self.convs.dense(weight)
        return plan.correlate(y, w, None) if how[3] else plan.x_of(y, w, None)


class ConvWeightGrad(ConvLauncher):
    op = "conv_weight_grad"

    def fits(self, grad: Any, input: Any, shape: Any, how: Any) -> bool:
        return of_dtype(grad.dtype, input)

    def plan(self, grad: Any, input: Any, shape: Any, how: Any) -> Any:
        return self.convs.get(input.shape, tuple(shape), grad.shape, how, grad.dtype)

    def run(self, plan: Any, grad: Any, input: Any, shape: Any, how: Any) -> Any:
        y, x = self.convs.dense(grad), self.convs.dense(input)
        return plan.w_of(y, x) if how[3] else plan.w_of(x, y)


class ConvBiasGrad(ConvLauncher):
    op = "conv_bias_grad"

    def fits(self, grad: Any) -> bool:
        return grad.dtype in NAMES and 0 < grad.size < MANY

    def plan(self, grad: Any) -> Any:
        return self.convs.gpu

    def run(self, plan: Any, grad: Any) -> Any:
        return channel_sums(plan, self.convs.dense(grad))


class Layout:
    """The shape and strides of an array that is not there."""

    def __init__(self, shape: Ints, strides: Ints) -> None:
        self.shape = shape
        self.strides = strides
        self.ndim = len(shape)
