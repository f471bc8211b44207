"""Padding: a border of constants, or of what lies inside, mirrored, repeated or wrapped around.

A padding is (low, high) per dimension, the last dimension first, as PyTorch has it. Negative
numbers cut off.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import dtypes
from ...core.arguments import cast_value
from ...core.base import TensorBase
from ...core.op import Op
from ...errors import must_be_tensor
from ...kernels.conv_windows import Ints
from ...kernels.geometry import laid_out_like
from ..block import SINGLE, Autocast, Block, Case, api, apply, op
from ..block.checks import as_float, as_ints, not_implemented, refuse_overflow
from ..block.samples import Draw
from .smooth_activations import number_of

# ruff: noqa: N805


def pairs(pad: Ints) -> list[tuple[int, int]]:
    """(low, high) for the last dimensions, in the order of the dimensions."""
    return [(pad[i], pad[i + 1]) for i in range(len(pad) - 2, -1, -2)]


# ---------------------------------------------------------------------- constants


@op
class ConstantPadNd(Block):
    """constant_pad_nd(input, pad, value) -> Tensor: a border of one value."""

    aten = "constant_pad_nd"
    public = False

    def fwd(xp, input, pad, value):
        sides = pairs(pad)
        lead = input.ndim - len(sides)
        shape = list(input.shape)
        to, at = [...], [...]
        for d, (low, high) in enumerate(sides, lead):
            n = shape[d]
            shape[d] = n + low + high
            to.append(slice(max(low, 0), max(low, 0) + max(min(n, n + high) - max(-low, 0), 0)))
            at.append(slice(max(-low, 0), max(min(n, n + high), max(-low, 0))))
        out = xp.full(shape, cast_value(value, input.dtype), input.dtype)
        out[tuple(to)] = input[tuple(at)]
        return laid_out_like(xp, input, out, input.ndim - 2) if input.ndim in (4, 5) else out

    def d_input(F, grad, pad):
        return F.constant_pad_nd(grad, tuple([-n for n in pad]), 0)

    def jvp(F, t_input, pad):
        return F.constant_pad_nd(t_input, pad, 0)

    def batch(F, size, batched, input, pad, value):
        return F.constant_pad_nd(input, pad, value)


def check_input(function: str, input: Any) -> Ints:
    if not isinstance(input, TensorBase):
        raise must_be_tensor(function, "input", 1, input)
    shape: Ints = input._array.shape
    return shape


@api(
    method=False,
    samples=[
        Case(Draw(2, 3), [1, 2]),
        Case(Draw(2, 3), [-1, 2, 0, 1], 1.5),
        Case(Draw(3, layout="step"), [0, -3]),
        Case(Draw(2, 0), [1, 1]),
    ],
)
def constant_pad_nd(input: Any, pad: Any, value: Any = 0) -> Any:
    """constant_pad_nd(input, pad, value=0) -> Tensor: a border of one value.

    >>> constant_pad_nd(tensor([1, 2]), (1, 2), 9)
    tensor([9, 1, 2, 9, 9])
    """
    shape = check_input("constant_pad_nd", input)
    value = number_of("constant_pad_nd", "value", 3, value)
    refuse_overflow((value,), input)
    border = as_ints("constant_pad_nd", "pad", 2, pad)
    if len(border) % 2:
        raise RuntimeError(f"Length of pad must be even but instead it equals {len(border)}")
    if len(border) > 2 * len(shape):
        raise RuntimeError(
            "Length of pad should be no more than twice the number of dimensions of the input. "
            f"Pad length is {len(border)}while the input has {len(shape)} dimensions."
        )
    for n, (low, high) in zip(shape[len(shape) - len(border) // 2 :], pairs(border), strict=True):
        # PyTorch cuts at both ends before it adds anything.
        if n + min(low, 0) + min(high, 0) < 0:
            raise RuntimeError("narrow(): length must be non-negative.")
    return apply(ConstantPadNd, (input,), (border, value))


# ---------------------------------------------------------------------- what lies inside


def source(size: int, low: int, high: int, mode: str) -> Any:
    """Which element stands at each place of a padded dimension."""
    index = np.arange(-low, size + high)
    if mode == "reflect":
        return size - 1 - np.abs(size - 1 - np.abs(index))
    if mode == "replicate":
        return np.clip(index, 0, size - 1)
    # What is cut off at one end does not come back at the other.
    first, kept = max(-low, 0), size + min(low, 0) + min(high, 0)
    return first + (index - first) % max(kept, 1)


def surround(xp: Any, x: Any, pad: Ints, mode: str) -> Any:
    for d, (low, high) in enumerate(pairs(pad), x.ndim - len(pad) // 2):
        x = xp.take(x, xp.asarray(source(x.shape[d], low, high, mode)), axis=d)
    return x


def gathered_back(xp: Any, grad: Any, size: Ints, pad: Ints, mode: str) -> Any:
    """The transpose of `surround`: three runs of places per dimension are added up."""
    x = grad
    for d, (n, (low, high)) in enumerate(zip(size, pairs(pad), strict=True), grad.ndim - len(size)):
        index = source(n, low, high, mode)
        length = len(index)
        end = length - max(high, 0) if mode == "circular" else low + n
        edges = [0, min(max(low, 0), length), min(max(end, 0), length), length]
        before = (slice(None),) * d
        made = xp.zeros((*x.shape[:d], n, *x.shape[d + 1 :]), x.dtype)
        for start, stop in zip(edges[:-1], edges[1:], strict=True):
            if start >= stop:
                continue
            first, last = int(index[start]), int(index[stop - 1])
            run = x[(*before, slice(start, stop))]
            if first > last:
                run, first, last = xp.flip(run, d), last, first
            elif first == last:
                run = run.sum(axis=d, keepdims=True)
            made[(*before, slice(first, last + 1))] += run
        x = made
    return x


class Surround(Block):
    public = False
    linear = True


class Back(Block):
    """The gradient; `size` is that of the padded dimensions only."""

    tensors = ("grad_output",)
    public = False
    linear = True


def border(title: str, node_title: str, mode: str, what: str) -> Op:
    """The op of a border and, called `…_back`, that of its gradient: each the other's transpose."""
    back = f"{title}_back"
    # PyTorch has no rule for three mirrored dimensions, nor for the parts of a circular border.
    in_single = mode != "circular" and title != "reflection_pad3d"

    class Pad(Surround):
        __doc__ = f"{title}(input, pad) -> Tensor: {what}."
        name = title
        node = node_title
        aten = None if mode == "circular" else title
        autocast = Autocast(cpu=SINGLE) if in_single else None

        def fwd(xp, input, pad):
            out = surround(xp, input, pad, mode)
            if mode == "circular" or input.ndim not in (4, 5):
                return out
            return laid_out_like(xp, input, out, input.ndim - 2)

        def d_input(F, grad, input_shape, pad):
            return getattr(F, back)(grad, input_shape[-(len(pad) // 2) :], pad)

        def batch(F, entries, batched, input, pad):
            return getattr(F, title)(input, pad)

    class PadBack(Back):
        __doc__ = f"{back}(grad_output, size, pad) -> Tensor: the gradient of such a border."
        name = back
        node = node_title.replace("Backward0", "BackwardBackward0")
        aten = None

        def fwd(xp, grad_output, size, pad):
            return gathered_back(xp, grad_output, size, pad, mode)

        def d_grad_output(F, grad, pad):
            return getattr(F, title)(grad, pad)

        def batch(F, entries, batched, grad_output, size, pad):
            return getattr(F, back)(grad_output, size, pad)

    made = op(Pad)
    op(PadBack)
    return made


def borders(title: str, node_title: str, mode: str, what: str) -> list[Op]:
    """For one, two and three dimensions."""
    return [border(f"{title}{n}d", f"{node_title}{n}DBackward0", mode, what) for n in (1, 2, 3)]


# PyTorch writes the parts of a circular border into a new tensor.
CIRCULAR = border(
    "circular_pad",
    "torch::autograd::CopySlices",
    "circular",
    "a border that continues at the other end",
)
SURROUNDS = {
    "reflect": borders("reflection_pad", "ReflectionPad", "reflect", "a mirrored border"),
    "replicate": borders(
        "replication_pad", "ReplicationPad", "replicate", "a border of the outermost elements"
    ),
    "circular": [CIRCULAR] * 3,
}


def check_surround(x: Any, border: Ints, mode: str) -> None:
    """PyTorch's refusals for reflect and replicate."""
    shape = x.shape
    dims = len(border) // 2
    batched = len(shape) == dims + 2
    if 0 in shape[1:] or (not batched and 0 in shape):
        raise RuntimeError(
            f"Expected {dims + 1}D or {dims + 2}D (batch mode) tensor with possibly 0 batch size "
            f"and other non-zero dimensions for input, but got: {list(shape)}"
        )
    if mode == "reflect":
        for i in range(dims):
            low, high = border[2 * i], border[2 * i + 1]
            d = len(shape) - 1 - i
            if low >= shape[d] or high >= shape[d]:
                raise RuntimeError(
                    f"Argument #{4 + 2 * i}: Padding size should be less than the corresponding "
                    f"input dimension, but got: padding ({low}, {high}) at dimension {d} of input "
                    f"{list(shape)}"
                )
    size = shape[len(shape) - dims :]
    out = [n + low + high for n, (low, high) in zip(size, pairs(border), strict=True)]
    if dims == 3 and min(out) < 0:
        raise RuntimeError(
            f"Trying to create tensor with negative dimension {min(out)}: "
            f"{[*shape[: len(shape) - 3], *out]}"
        )
    if (dims == 1 and out[0] < 1) or (dims > 1 and max(out) < 1):
        names = "DHW"[-dims:]
        have = ", ".join([f"{a}: {n}" for a, n in zip(names, size, strict=True)])
        want = " ".join([f"{a}: {n}" for a, n in zip(names, out, strict=True)])
        space = " " if mode == "replicate" and dims == 2 else ""
        raise RuntimeError(f"input ({have}{space}) is too small. Calculated output {want}")
    if x.dtype.kind == "b":
        kernel = "reflection_pad" if mode == "reflect" else "replication_pad"
        raise not_implemented(f"{kernel}{dims}d", dtypes.of(x.dtype))


def check_circular(x: Any, border: Ints) -> None:
    shape = x.shape
    for d, (low, high) in enumerate(pairs(border), len(shape) - len(border) // 2):
        if low > shape[d] or high > shape[d]:
            raise RuntimeError("Padding value causes wrapping around more than once.")
        nothing_left = shape[d] + min(low, 0) + min(high, 0) <= 0 < shape[d] + low + high
        if shape[d] + low + high < 0 or nothing_left:
            raise RuntimeError("Negative padding value is resulting in an empty dimension")


@api(
    name="nn.functional.pad",
    samples=[
        Case(Draw(2, 3), (1, 2, 0, -1), value=0.5),
        Case(Draw(2, 2, 4), (2, 1), "reflect"),
        Case(Draw(1, 3, 3), (1, -1, 2, 0), "reflect"),
        Case(Draw(1, 2, 2, 3), (1, 0, 1, 1, 0, 1), "reflect"),
        Case(Draw(1, 2, 3, layout="T"), (3, -1), "replicate"),
        Case(Draw(1, 2, 2, 2), (1, 2, 0, 1), "replicate"),
        Case(Draw(1, 1, 2, 2, 2), (1, 0, 0, 1, 2, 0), "replicate"),
        Case(Draw(1, 2, 3, 2), (1, 2, -1, 2), "circular"),
    ],
)
def pad(input: Any, pad: Any, mode: str = "constant", value: Any = None) -> Any:
    """pad(input, pad, mode="constant", value=None) -> Tensor: a border around the last dimensions.

    >>> nn.functional.pad(tensor([[1, 2, 3]]), (2, 1), mode="reflect")
    tensor([[3, 2, 1, 2, 3, 2]])
    """
    shape = check_input("pad", input)
    border = as_ints("pad", "pad", 2, pad)
    if value is not None:
        value = float(as_float("pad", "value", 4, value))
    if len(border) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(border) > 2 * len(shape):
        raise RuntimeError(
            "Padding length should be less than or equal to two times the input dimension but got "
            f"padding length {len(border)} and input of dimension {len(shape)}"
        )
    if mode == "constant":
        return constant_pad_nd(input, border, 0 if value is None else value)
    if value:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    dims = len(border) // 2
    if dims not in (1, 2, 3) or len(shape) not in (dims + 1, dims + 2):
        raise NotImplementedError(
            f"Padding size {len(border)} is not supported for {len(shape)}D input tensor."
        )
    if mode not in SURROUNDS:
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if mode == "circular":
        check_circular(input._array, border)
    else:
        check_surround(input._array, border, mode)
    return apply(SURROUNDS[mode][dims - 1], (input,), (border,))
