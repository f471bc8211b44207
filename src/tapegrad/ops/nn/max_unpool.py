"""The way back from max pooling, max_unpool, and pooling over random windows, fractional_max_pool.

Both work with indices into planes, as max pooling returns them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd.grad_mode import is_grad_enabled
from ...core.base import TensorBase
from ...core.op import Op
from ...core.rounding import half_as_single
from ...core.transforms.batched import known_values
from ...errors import must_be_tensor
from ...kernels.geometry import laid_out_like
from ..block import APIS, SINGLE, Autocast, Block, Case, apply, looks_at_values, op
from ..block.samples import Draw, Index
from .adaptive_pool import with_indices
from .pool_windows import (
    Sizes,
    check_tensor,
    ints,
    is_whole,
    offsets,
    picked,
    published,
    refuse_dtype,
    volume,
)

# Blocks: their first argument is not a `self`.
# ruff: noqa: N805

# ---------------------------------------------------------------------- unpooling


class Unpooling(Block):
    tensors = ("input", "indices")
    plain_tensors = ("indices",)
    linear = True  # in the values; indices have no derivative
    public = False

    def fwd(xp, input, indices, sizes):
        lead = input.shape[: input.ndim - len(sizes)]
        plane, planes = volume(sizes), volume(lead)
        out = xp.zeros(planes * plane, input.dtype)
        if out.size and input.size:
            start = xp.arange(0, planes * plane, plane).reshape(-1, 1)
            out[(indices.reshape(planes, -1) + start).reshape(-1)] = input.reshape(-1)
        return laid_out_like(xp, input, out.reshape(*lead, *sizes), 2)

    def d_input(F, grad, indices, sizes):
        return picked(F, grad, indices, len(sizes))


def unpooling(n: int, planes: str) -> Op:
    """The op for the last n dimensions."""

    class Made(Unpooling):
        __doc__ = (
            f"max_unpool{n}d(input, indices, sizes) -> Tensor: {planes} of zeros with values at "
            "indices."
        )
        name = f"max_unpool{n}d"
        node = f"MaxUnpool{n}DBackward0"
        aten = f"max_unpool{n}d"
        leading = (n, n)
        meta_by_rows = 0
        autocast = Autocast(cpu=SINGLE)

    return op(Made)


UNPOOLING = {2: unpooling(2, "planes"), 3: unpooling(3, "volumes")}


def unpooled_sizes(
    input: Any, kernel: Sizes, stride: Sizes, padding: Sizes, output_size: Any
) -> list[int]:
    """The size before pooling: the smallest that fits, or a given one that fits too."""
    shape = input._array.shape
    n = len(kernel)
    # Counted from the end, so that an input of too few dimensions is refused later, as in PyTorch.
    spatial = [shape[d] if -d <= len(shape) else 1 for d in range(-n, 0)]
    default = [(spatial[d] - 1) * stride[d] + kernel[d] - 2 * padding[d] for d in range(n)]
    if output_size is None:
        found = default
    else:
        found = list(output_size)
        if len(found) == n + 2:
            found = found[2:]
        if len(found) != n:
            raise ValueError(
                f"output_size should be a sequence containing {n} or {n + 2} elements, but it has "
                f"a length of '{len(found)}'"
            )
        for d in range(n):
            low, high = default[d] - stride[d], default[d] + stride[d]
            if not low < found[d] < high:
                raise ValueError(
                    f'invalid output_size "{output_size}" (dim {d} must be between {low} and '
                    f"{high})"
                )
    for d, size in enumerate(found):
        if size < 0:
            raise ValueError(
                "max_unpooling: output_size must contain non-negative spatial dimensions, but got "
                f"output_size[{d}]={size}"
            )
    return found


def axes_of(value: Any, n: int) -> Sizes:
    """One value for all axes; a list as it is."""
    return (int(value),) * n if is_whole(value) else tuple(value)


def unpool(
    n: int,
    input: Any,
    indices: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    output_size: Any,
) -> Any:
    name = f"max_unpool{n}d"
    check_tensor(name, input)
    if not isinstance(indices, TensorBase):
        raise must_be_tensor(name, "indices", 2, indices)
    kernel = axes_of(kernel_size, n)
    steps = kernel if stride is None else axes_of(stride, n)
    pads = axes_of(padding, n)
    sizes = unpooled_sizes(input, kernel, steps, pads, output_size)
    if n == 1:
        found = unpool_planes(input.unsqueeze(-1), indices.unsqueeze(-1), (*sizes, 1), (1, 1))
        return found.squeeze(-1)
    if len(sizes) != n:
        axes = "two elements (height" if n == 2 else "three elements (depth, height"
        raise RuntimeError(
            f"There should be exactly {axes}, width) in output_size, but got {len(sizes)} elements."
        )
    return unpool_planes(input, indices, tuple(sizes), steps)


def unpool_planes(input: Any, indices: Any, sizes: Sizes, stride: Sizes) -> Any:
    """Check and run an unpooling of the last two or three dimensions."""
    n = len(sizes)
    shape, at = input._array.shape, indices._array.shape
    if indices._array.dtype != np.int64:
        found = f" but got: {indices.dtype.scalar_type}" if n == 2 else ""
        raise RuntimeError(f"elements in indices should be type int64{found}")
    if len(shape) not in (n + 1, n + 2):
        raise RuntimeError(
            f"Input to max_unpooling{n}d should be a {n + 1}d or {n + 2}d Tensor, but got a tensor "
            f"with {len(shape)} dimensions."
        )
    if n == 3 and min(stride) <= 0:
        raise RuntimeError(f"strides should be greater than zero, but got stride: {list(stride)}")
    if shape != at:
        raise RuntimeError(
            "Expected shape of indices to be same as that of the input tensor "
            f"({list(shape)}) but got indices tensor with shape: {list(at)}"
        )
    for d in range(1, len(shape)):
        if shape[d] == 0:
            raise RuntimeError(
                f"max_unpooling{n}d_forward_out_cpu(): Expected input to have non-zero size for "
                f"non-batch dimensions, but got {list(shape)} with dimension {d} being empty."
            )
    refuse_dtype(f"max_unpool{n}d", input)
    check_places(indices, sizes)
    return apply(UNPOOLING[n], (input, indices), (sizes,))


@looks_at_values
def check_places(indices: Any, sizes: Any) -> None:
    flat = known_values(indices)
    wrong = flat[(flat < 0) | (flat >= volume(sizes))]
    if wrong.size:
        spelled = "x".join([str(v) for v in sizes])
        raise RuntimeError(
            f"Found an invalid max index: {wrong.flat[0]} (output volumes are of size {spelled})"
        )


def unpool_function(**fields: Any) -> Any:
    """Publish a function that gets, by position, the arguments which all of these take."""

    def publish(unpool_all: Any) -> Any:
        def made(
            input: Any,
            indices: Any,
            kernel_size: Any,
            stride: Any = None,
            padding: Any = 0,
            output_size: Any = None,
        ) -> Any:
            return unpool_all(input, indices, kernel_size, stride, padding, output_size)

        return published(unpool_all, made, fields)

    return publish


@unpool_function(
    samples=[
        Case(Draw(1, 2, 3), Index([[[0, 3, 4], [1, 2, 5]]]), 2),
        Case(Draw(2, 2), Index([[0, 3], [1, 2]]), 2, output_size=[5]),
    ],
    autocast=Autocast(cpu=SINGLE),
)
def max_unpool1d(*given: Any) -> Any:
    """max_unpool1d(input, indices, kernel_size) -> Tensor: maxima back in place, else zeros.

    >>> nn.functional.max_unpool1d(tensor([[3.0, 5.0]]), tensor([[1, 2]]), 2)
    tensor([[0., 3., 5., 0.]])
    """
    return unpool(1, *given)


@unpool_function(
    samples=[
        Case(Draw(1, 1, 2, 2), Index([[[[0, 3], [9, 15]]]]), 2),
        Case(Draw(1, 2, 2), Index([[[0, 3], [10, 19]]]), 2, output_size=(1, 1, 5, 5)),
    ],
    autocast=Autocast(cpu=SINGLE),
)
def max_unpool2d(*given: Any) -> Any:
    """max_unpool2d(input, indices, kernel_size) -> Tensor: maxima back in place, else zeros.

    >>> nn.functional.max_unpool2d(tensor([[[3.0]]]), tensor([[[1]]]), 2)
    tensor([[[0., 3.],
             [0., 0.]]])
    """
    return unpool(2, *given)


@unpool_function(
    samples=[
        Case(Draw(1, 1, 2, 2), Index([[[[0, 3], [9, 30]]]]), 2),
    ],
    autocast=Autocast(cpu=SINGLE),
)
def max_unpool3d(*given: Any) -> Any:
    """max_unpool3d(input, indices, kernel_size) -> Tensor: maxima back in place, else zeros.

    >>> nn.functional.max_unpool3d(tensor([[[[3.0]]]]), tensor([[[[1]]]]), 2).sum()
    tensor(3.)
    """
    return unpool(3, *given)


# ---------------------------------------------------------------------- random windows


def starts(xp: Any, samples: Any, n: int, k: int, out: int) -> Any:
    """Where the windows of every plane begin along one axis: (planes, out)."""
    last = xp.full((*samples.shape, 1), n - k, np.int64)
    if out <= 1:
        return last[..., :out]
    # In the samples' own precision, as PyTorch does: the integer parts depend on it.
    kind = samples.dtype.type
    alpha = kind((n - k) / (out - 1))
    steps = xp.arange(out - 1).astype(samples.dtype) + samples[..., None]
    first = (samples * alpha).astype(np.int64)
    return xp.concatenate(((steps * alpha).astype(np.int64) - first[..., None], last), -1)


class FractionalMax(Block):
    tensors = ("input", "samples")
    plain_tensors = ("samples",)
    leading = (1,)  # of the samples
    autocast = Autocast(cpu=SINGLE)
    outs = ("values", "indices")
    plain_outs = (1,)
    public = False

    def fwd(xp, input, samples, kernel, out_sizes):
        n = len(kernel)
        lead = input.ndim - n
        sizes = input.shape[lead:]
        shape = (*input.shape[:lead], *out_sizes)
        if not volume(shape):
            return xp.empty(shape, input.dtype), xp.empty(shape, np.int64)
        x = half_as_single(input).reshape(*input.shape[:lead], -1)
        draws = samples.reshape(*input.shape[:lead], n)
        # The windows' corners as indices into the plane. In two dimensions x is drawn before y.
        order = (1, 0) if n == 2 else (0, 1, 2)
        corner = xp.zeros((), np.int64)
        for axis in range(n):
            begins = starts(xp, draws[..., order[axis]], sizes[axis], kernel[axis], out_sizes[axis])
            begins = begins.reshape(
                *begins.shape[:-1], *(1,) * axis, out_sizes[axis], *(1,) * (n - 1 - axis)
            )
            corner = corner * sizes[axis] + begins
        corner = corner.reshape(*input.shape[:lead], -1)
        best = indices = None
        for offset in offsets(kernel):
            step = 0
            for axis in range(n):
                step = step * sizes[axis] + offset[axis]
            at = corner + step
            part = xp.take_along_axis(x, at, -1)
            if best is None:
                best, indices = part, at
                continue
            new = (part > best) | (part != part)
            best, indices = xp.where(new, part, best), xp.where(new, at, indices)
        return best.astype(input.dtype, copy=False).reshape(shape), indices.reshape(shape)


FRACTIONAL_MAX = {
    n: with_indices(
        FractionalMax,
        n,
        f"fractional_max_pool{n}d",
        f"FractionalMaxPool{n}D",
        "(input, samples, …) -> (Tensor, LongTensor): over random windows.",
        "gradient of the maxima",
    )
    for n in (2, 3)
}


def fractional(
    n: int,
    input: Any,
    kernel_size: Any,
    output_size: Any,
    output_ratio: Any,
    samples: Any,
) -> Any:
    name = f"fractional_max_pool{n}d"
    array = check_tensor(name, input)
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    shape, ndim = array.shape, array.ndim
    if output_size is None:
        if n == 3 and not isinstance(output_ratio, (tuple, list)):
            output_ratio = (output_ratio,) * 3
        if len(output_ratio) > n:
            raise ValueError(
                f"{name} requires output_ratio to either be a single Int or tuple of Ints."
            )
        output_size = [int(shape[ndim - n + d] * output_ratio[d]) for d in range(n)]
    if samples is None:
        if ndim < n + 1:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but "
                f"got {-n - 1})"
            )
        planes = 1 if ndim == n + 1 else shape[0]
        samples = APIS["rand"].call(
            planes, shape[ndim - n - 1], n, dtype=input.dtype, device=input.device
        )
    kernel = sizes_for(name, "kernel_size", 2, kernel_size, n)
    out = sizes_for(name, "output_size", 3, output_size, n)
    check_fractional(name, shape, kernel, out)
    check_samples(input, samples, n)
    if array.size or n == 2:
        refuse_dtype(f"{name}_out_frame", input)
    if samples.requires_grad and is_grad_enabled():
        raise RuntimeError(
            f"The function '{name}' is not differentiable with respect to argument "
            "'random_samples'. This input cannot have requires_grad True."
        )
    if ndim == n + 1:
        samples = samples[0]
    elif samples._array.shape[0] > shape[0]:
        samples = samples[: shape[0]]
    return apply(FRACTIONAL_MAX[n], (input, samples), (kernel, out))


def sizes_for(name: str, argument: str, position: int, value: Any, n: int) -> Sizes:
    given = ints(name, argument, position, value)
    if is_whole(value):
        return given * n
    if len(given) != n:
        count = "" if n == 2 else "three "
        raise RuntimeError(
            f"{name}: {argument} must either be a single Int or tuple of {count}Ints"
        )
    return given


def check_fractional(name: str, shape: Sizes, kernel: Sizes, out: Sizes) -> None:
    n = len(kernel)
    start = len(shape) - n - 1
    if len(shape) not in (n + 1, n + 2):
        raise RuntimeError(
            f"{name}(): Expected {n + 1}D or {n + 2}D tensor, but got: {list(shape)}"
        )
    for d in range(start, len(shape)):
        if shape[d] == 0:
            raise RuntimeError(
                f"{name}(): Expected input to have non-zero size for non-batch dimensions, but got"
                f"{list(shape)} with dimension {d} being empty."
            )
    if min(out) < 0:
        whole = list(shape[: start + 1]) + list(out)
        first = min(out)
        raise RuntimeError(f"Trying to create tensor with negative dimension {first}: {whole}")
    if min(kernel) < 1:
        raise RuntimeError(f"{name}(): pool sizes must be greater than zero, but got {kernel}")
    axes = ("height", "width") if n == 2 else ("time", "height", "width")
    spoken = f"{name}()" if n == 2 else f"{name}_out()"
    for axis, size, k, o in zip(axes, shape[start + 1 :], kernel, out, strict=True):
        if o + k - 1 > (size if n == 2 else size - 1):
            raise RuntimeError(
                f"{spoken}: pool {axis} {k} too large relative to input {axis} {size}"
            )


def check_samples(input: Any, samples: Any, n: int) -> None:
    shape = input._array.shape
    given = samples._array.shape
    if samples._array.dtype != input._array.dtype:
        raise RuntimeError("Expect _random_samples to have the same dtype as input")
    if len(given) != 3:
        raise RuntimeError(f"Expect _random_samples to have 3 dimensions, got {len(given)}")
    planes = 1 if len(shape) == n + 1 else shape[0]
    if given[0] < planes:
        raise RuntimeError("Expect _random_samples.size(0) no less then input batch size.")
    if given[1] != shape[len(shape) - n - 1]:
        raise RuntimeError("Expect _random_samples.size(1) equals to input channel size.")
    if given[2] != n:
        raise RuntimeError(f"Expect _random_samples.size(2) equals to {n}; got {given[2]}.")


# Windows a whole number of steps apart lie in the same places whatever is drawn.
CASES_2D = [Case(Draw(1, 2, 6, 5), 2, (3, 4)), Case(Draw(2, 5, 6), (2, 3), (4, 2))]
CASES_3D = [Case(Draw(1, 1, 4, 5, 4), 2, 2)]


def fractional_function(**fields: Any) -> Any:
    """Publish a function that gets, by position, the arguments which all of these take."""

    def publish(pool_all: Any) -> Any:
        def made(
            input: Any,
            kernel_size: Any,
            output_size: Any = None,
            output_ratio: Any = None,
            return_indices: bool = False,
            _random_samples: Any = None,
        ) -> Any:
            sizes = (kernel_size, output_size, output_ratio)
            return pool_all(return_indices, input, *sizes, _random_samples)

        return published(pool_all, made, fields)

    return publish


@fractional_function(samples=CASES_2D, autocast=Autocast(cpu=SINGLE))
def fractional_max_pool2d(return_indices: bool, *given: Any) -> Any:
    """fractional_max_pool2d(input, kernel_size, output_size=None) -> Tensor: random window maxima.

    >>> nn.functional.fractional_max_pool2d(arange(16.0).view(1, 4, 4), 2, 1)
    tensor([[[15.]]])
    """
    found = fractional(2, *given)
    return found if return_indices else found[0]


@fractional_function(samples=CASES_3D, autocast=Autocast(cpu=SINGLE))
def fractional_max_pool3d(return_indices: bool, *given: Any) -> Any:
    """fractional_max_pool3d(input, kernel_size, output_size=None) -> Tensor: random window maxima.

    >>> nn.functional.fractional_max_pool3d(arange(27.0).view(1, 3, 3, 3), 2, 1)
    tensor([[[[26.]]]])
    """
    found = fractional(3, *given)
    return found if return_indices else found[0]


@fractional_function(samples=CASES_2D)
def fractional_max_pool2d_with_indices(return_indices: bool, *given: Any) -> Any:
    """fractional_max_pool2d_with_indices(input, kernel_size) -> (Tensor, LongTensor): maxima of
    windows drawn at random, and where they are.

    >>> nn.functional.fractional_max_pool2d_with_indices(arange(16.0).view(1, 4, 4), 2, 1)
    (tensor([[[15.]]]), tensor([[[15]]]))
    """
    return fractional(2, *given)


@fractional_function(samples=CASES_3D)
def fractional_max_pool3d_with_indices(return_indices: bool, *given: Any) -> Any:
    """fractional_max_pool3d_with_indices(input, kernel_size) -> (Tensor, LongTensor): maxima of
    windows drawn at random, and where they are.

    >>> nn.functional.fractional_max_pool3d_with_indices(arange(27.0).view(1, 3, 3, 3), 2, 1)
    (tensor([[[[26.]]]]), tensor([[[[26]]]]))
    """
    return fractional(3, *given)
