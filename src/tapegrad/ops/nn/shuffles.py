"""Channels made into pixels, pixels into channels, and channels dealt out anew."""

from __future__ import annotations

from typing import Any

from ...core.base import TensorBase
from ...errors import must_be_tensor
from ...kernels.geometry import laid_out_like
from ..block import Case, Linear, api, apply, op
from ..block.checks import as_int
from ..block.samples import Draw, Index

# ruff: noqa: N805


@op
class PixelShuffle(Linear):
    """pixel_shuffle(input, upscale_factor) -> Tensor: channels become pixels."""

    aten = "pixel_shuffle"
    public = False
    leading = (3,)

    def fwd(xp, input, upscale_factor):
        r = upscale_factor
        *lead, channels, height, width = input.shape
        parts = input.reshape(*lead, channels // (r * r), r, r, height, width)
        at = len(lead)
        order = (*range(at), at, at + 3, at + 1, at + 4, at + 2)
        shape = (*lead, channels // (r * r), height * r, width * r)
        return laid_out_like(xp, input, parts.transpose(order).copy().reshape(shape), 2)

    def d_input(F, grad, upscale_factor):
        return F.pixel_unshuffle(grad, upscale_factor)


@op
class PixelUnshuffle(Linear):
    """pixel_unshuffle(input, downscale_factor) -> Tensor: pixels become channels."""

    aten = "pixel_unshuffle"
    public = False
    leading = (3,)

    def fwd(xp, input, downscale_factor):
        r = downscale_factor
        *lead, channels, height, width = input.shape
        parts = input.reshape(*lead, channels, height // r, r, width // r, r)
        at = len(lead)
        order = (*range(at), at, at + 2, at + 4, at + 1, at + 3)
        shape = (*lead, channels * r * r, height // r, width // r)
        return laid_out_like(xp, input, parts.transpose(order).copy().reshape(shape), 2)

    def d_input(F, grad, downscale_factor):
        return F.pixel_shuffle(grad, downscale_factor)


class Dealt(Linear):
    public = False
    fold = True

    def fwd(xp, input, groups):
        return laid_out_like(xp, input, dealt(input, groups), input.ndim - 2)


@op
class ChannelShuffle(Dealt):
    """channel_shuffle(input, groups) -> Tensor: one channel of each group in turn."""

    aten = "channel_shuffle"

    def d_input(F, grad, groups):
        return F.channel_shuffle(grad, max(grad.shape[1] // groups, 1))


@op
class NativeChannelShuffle(Dealt):
    """native_channel_shuffle(input, groups) -> Tensor: the same, without a derivative."""

    node = "torch::autograd::NotImplemented"
    aten = "native_channel_shuffle"
    nearest = "x.view(n, g, c // g, h, w).transpose(1, 2).reshape(n, c, h, w)"

    def d_input(F, grad):
        raise RuntimeError("derivative for aten::native_channel_shuffle is not implemented")

    def jvp(F, input):
        raise NotImplementedError(
            "Trying to use forward AD with native_channel_shuffle that does not support it."
        )


def dealt(input: Any, groups: int) -> Any:
    images, channels, *size = input.shape
    parts = input.reshape(images, groups, channels // groups, *size)
    return parts.swapaxes(1, 2).copy().reshape(input.shape)


def check_image(function: str, input: Any) -> tuple[int, ...]:
    if not isinstance(input, TensorBase):
        raise must_be_tensor(function, "input", 1, input)
    shape: tuple[int, ...] = input._array.shape
    if len(shape) < 3:
        raise RuntimeError(
            f"{function} expects input to have at least 3 dimensions, but got input with "
            f"{len(shape)} dimension(s)"
        )
    return shape


@api(
    method=False,
    aliases=("nn.functional.pixel_shuffle",),
    samples=[Case(Draw(2, 4, 2, 3), 2), Case(Draw(9, 1, 2), 3)],
)
def pixel_shuffle(input: Any, upscale_factor: int) -> Any:
    """pixel_shuffle(input, upscale_factor) -> Tensor: (C * r * r, H, W) as (C, H * r, W * r).

    >>> pixel_shuffle(arange(4).view(4, 1, 1), 2)
    tensor([[[0, 1],
             [2, 3]]])
    """
    shape = check_image("pixel_shuffle", input)
    factor = as_int("pixel_shuffle", "upscale_factor", 2, upscale_factor)
    if factor <= 0:
        raise RuntimeError(f"pixel_shuffle expects a positive upscale_factor, but got {factor}")
    if factor * factor >= 1 << 63:
        raise ValueError(
            f"upscale factor is too large, (upscale_factor)^2 overflowed: upscale_factor={factor}"
        )
    if shape[-3] % (factor * factor):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square "
            f"of upscale_factor, but input.size(-3)={shape[-3]} is not divisible by "
            f"{factor * factor}"
        )
    return apply(PixelShuffle, (input,), (factor,))


@api(
    method=False,
    aliases=("nn.functional.pixel_unshuffle",),
    samples=[Case(Draw(2, 1, 4, 2), 2), Case(Draw(1, 3, 6), 3)],
)
def pixel_unshuffle(input: Any, downscale_factor: int) -> Any:
    """pixel_unshuffle(input, downscale_factor) -> Tensor: (C, H * r, W * r) as (C * r * r, H, W).

    >>> pixel_unshuffle(arange(4).view(1, 2, 2), 2).flatten()
    tensor([0, 1, 2, 3])
    """
    shape = check_image("pixel_unshuffle", input)
    factor = as_int("pixel_unshuffle", "downscale_factor", 2, downscale_factor)
    if factor <= 0:
        raise RuntimeError(f"pixel_unshuffle expects a positive downscale_factor, but got {factor}")
    for name, d in (("height", -2), ("width", -1)):
        if shape[d] % factor:
            raise RuntimeError(
                f"pixel_unshuffle expects {name} to be divisible by downscale_factor, but "
                f"input.size({d})={shape[d]} is not divisible by {factor}"
            )
    if not input._array.size:
        return input.clone()
    return apply(PixelUnshuffle, (input,), (factor,))


def shuffled(function: str, record: Any, input: Any, groups: int) -> Any:
    if not isinstance(input, TensorBase):
        raise must_be_tensor(function, "input", 1, input)
    shape = input._array.shape
    count = as_int(function, "groups", 2, groups)
    if len(shape) < 3:
        raise RuntimeError(
            f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(shape)}"
        )
    if count <= 0:
        raise RuntimeError(
            f"Number of groups to divide channels in must be positive. Value of groups:{count}"
        )
    if shape[1] % count:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {shape[1]} channels and {count} "
            "groups."
        )
    return apply(record, (input,), (count,))


@api(
    method=False,
    aliases=("nn.functional.channel_shuffle",),
    samples=[Case(Draw(2, 4, 3), 2), Case(Draw(1, 6, 2, 2), 3), Case(Draw(0, 4, 1), 4)],
)
def channel_shuffle(input: Any, groups: int) -> Any:
    """channel_shuffle(input, groups) -> Tensor: one channel of each group in turn.

    >>> channel_shuffle(arange(4).view(1, 4, 1), 2).flatten()
    tensor([0, 2, 1, 3])
    """
    return shuffled("channel_shuffle", ChannelShuffle, input, groups)


@api(
    method=False,
    aliases=("nn.functional.native_channel_shuffle",),
    samples=[Case(Index([[[1, 2], [3, 4], [5, 6], [7, 8]]]), 2)],
)
def native_channel_shuffle(input: Any, groups: int) -> Any:
    """native_channel_shuffle(input, groups) -> Tensor: one channel of each group in turn.

    >>> native_channel_shuffle(arange(4).view(1, 4, 1), 2).flatten()
    tensor([0, 2, 1, 3])
    """
    return shuffled("native_channel_shuffle", NativeChannelShuffle, input, groups)
