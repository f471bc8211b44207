"""Convolutions in one, two and three dimensions, transposed ones, and lazy ones."""

from __future__ import annotations

import math
from typing import Any

import tapegrad as tg

from ...core.warned import warn
from .. import functional as F
from .. import init
from ..common_types import _size_1_t, _size_2_t, _size_3_t  # noqa: F401  others look here
from ..parameter import Parameter, UninitializedParameter, register_bias
from .lazy import LazyModuleMixin
from .module import Module
from .utils import _ntuple, _reverse_repeat_tuple

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
]

PADDING_NAMES = {"same", "valid"}
PADDING_MODES = {"zeros", "reflect", "replicate", "circular"}


class _ConvNd(Module):
    """Base of all convolutions: sizes, parameters and repr."""

    __constants__ = [
        "stride",
        "padding",
        "dilation",
        "groups",
        "padding_mode",
        "output_padding",
        "in_channels",
        "out_channels",
        "kernel_size",
    ]
    in_channels: int
    out_channels: int
    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: str | tuple[int, ...]
    dilation: tuple[int, ...]
    transposed: bool
    output_padding: tuple[int, ...]
    groups: int
    padding_mode: str
    weight: Parameter
    bias: Parameter | None
    _spatial_dims: int
    _reversed_padding_repeated_twice: Any

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: str | tuple[int, ...],
        dilation: tuple[int, ...],
        transposed: bool,
        output_padding: tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        check_sizes(in_channels, out_channels, stride, padding, groups, padding_mode)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        self._reversed_padding_repeated_twice = widths(kernel_size, padding, dilation)
        channels = (out_channels, in_channels // groups)
        if transposed:
            channels = (in_channels, out_channels // groups)
        self.weight = Parameter(tg.empty((*channels, *kernel_size), device=device, dtype=dtype))
        register_bias(self, bias, out_channels, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values."""
        # a = sqrt(5) makes the bound 1 / sqrt(inputs that feed an output).
        if self.weight.is_contiguous():
            init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        else:  # in the order of the dimensions, not of memory: channels_last draws the same
            with tg.no_grad():
                drawn = tg.empty_like(self.weight, memory_format=tg.contiguous_format)
                self.weight.copy_(init.kaiming_uniform_(drawn, a=math.sqrt(5)))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        parts = [
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}"
        ]
        if self.padding != (0,) * len(self.padding):
            parts.append(f"padding={self.padding}")
        if self.dilation != (1,) * len(self.dilation):
            parts.append(f"dilation={self.dilation}")
        if self.output_padding != (0,) * len(self.output_padding):
            parts.append(f"output_padding={self.output_padding}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if not hasattr(self, "padding_mode"):
            self.padding_mode = "zeros"


def check_sizes(
    in_channels: int,
    out_channels: int,
    stride: tuple[int, ...],
    padding: str | tuple[int, ...],
    groups: int,
    padding_mode: str,
) -> None:
    """PyTorch's errors for numbers that make no convolution."""
    if groups <= 0:
        raise ValueError("groups must be a positive integer")
    if in_channels % groups != 0:
        raise ValueError("in_channels must be divisible by groups")
    if out_channels % groups != 0:
        raise ValueError("out_channels must be divisible by groups")
    if isinstance(padding, str):
        if padding not in PADDING_NAMES:
            raise ValueError(
                f"Invalid padding string {padding!r}, should be one of {PADDING_NAMES}"
            )
        if padding == "same" and any(s != 1 for s in stride):
            raise ValueError("padding='same' is not supported for strided convolutions")
    if padding_mode not in PADDING_MODES:
        raise ValueError(f"padding_mode must be one of {PADDING_MODES}, but got {padding_mode=}")


def widths(
    kernel_size: tuple[int, ...], padding: str | tuple[int, ...], dilation: tuple[int, ...]
) -> Any:
    """Left and right padding of every dimension, the last dimension first: what `pad` takes."""
    if not isinstance(padding, str):
        return _reverse_repeat_tuple(padding, 2)
    found = [0, 0] * len(kernel_size)
    if padding == "same":
        for i, (k, d) in enumerate(zip(reversed(kernel_size), reversed(dilation), strict=False)):
            total = d * (k - 1)
            # An odd total puts the extra element on the right.
            found[2 * i], found[2 * i + 1] = total // 2, total - total // 2
    return found


# --- ordinary convolutions -------------------------------------------------------------------


class _Conv(_ConvNd):
    """The constructor and forward of the three sizes."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        sizes = _ntuple(self._spatial_dims)
        super().__init__(
            in_channels,
            out_channels,
            sizes(kernel_size),
            sizes(stride),
            padding if isinstance(padding, str) else sizes(padding),
            sizes(dilation),
            False,
            sizes(0),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _conv_forward(self, input: Any, weight: Any, bias: Any) -> Any:
        raise NotImplementedError

    def forward(self, input: Any) -> Any:
        return self._conv_forward(input, self.weight, self.bias)


def convolved(function: Any, layer: Any, input: Any, weight: Any, bias: Any) -> Any:
    """The layer's convolution; `layer` may be any object with the attributes of PyTorch's layers.

    Functional wrappers of other packages call `Conv2d._conv_forward` on objects of their own.
    """
    padding: Any = layer.padding
    if layer.padding_mode != "zeros":
        input = F.pad(input, layer._reversed_padding_repeated_twice, mode=layer.padding_mode)
        padding = (0,) * len(layer.stride)
    return function(input, weight, bias, layer.stride, padding, layer.dilation, layer.groups)


class Conv1d(_Conv):
    """A kernel moves along one dimension.

    Args:
        in_channels: channels of the input
        out_channels: channels of the result, one kernel each
        kernel_size: size of a kernel; one number, or one per dimension
        stride: how far it moves each time
        padding: what is added on each side; "same" keeps the size, "valid" adds nothing
        dilation: distance between the elements of a kernel
        groups: parts into which the channels fall, each with kernels of its own
        bias: add a learned constant to each channel
        padding_mode: what is added: "zeros", "reflect", "replicate" or "circular"
        device, dtype: of the parameters

    Shape:
        (N, in_channels, L) or (in_channels, L) -> (N, out_channels, L_out), each size
        floor((size + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1. `weight` is
        (out_channels, in_channels / groups, kernel_size).

    >>> nn.Conv1d(2, 4, 3)(zeros(5, 2, 10)).shape
    torch.Size([5, 4, 8])
    """

    _spatial_dims = 1

    def _conv_forward(self, input: Any, weight: Any, bias: Any) -> Any:
        return convolved(F.conv1d, self, input, weight, bias)


class Conv2d(_Conv):
    """A kernel moves over images.

    Args:
        in_channels: channels of the input
        out_channels: channels of the result, one kernel each
        kernel_size: size of a kernel; one number, or one per dimension
        stride: how far it moves each time
        padding: what is added on each side; "same" keeps the size, "valid" adds nothing
        dilation: distance between the elements of a kernel
        groups: parts into which the channels fall, each with kernels of its own
        bias: add a learned constant to each channel
        padding_mode: what is added: "zeros", "reflect", "replicate" or "circular"
        device, dtype: of the parameters

    Shape:
        (N, in_channels, H, W) or (in_channels, H, W) -> (N, out_channels, H_out, W_out), each
        size floor((size + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1.
        `weight` is (out_channels, in_channels / groups, kernel_size, kernel_size).

    >>> layer = nn.Conv2d(3, 8, 3, padding=1)
    >>> layer
    Conv2d(3, 8, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))
    >>> layer(zeros(5, 3, 16, 16)).shape
    torch.Size([5, 8, 16, 16])
    """

    _spatial_dims = 2

    def _conv_forward(self, input: Any, weight: Any, bias: Any) -> Any:
        return convolved(F.conv2d, self, input, weight, bias)


class Conv3d(_Conv):
    """A kernel moves over volumes.

    Args:
        in_channels: channels of the input
        out_channels: channels of the result, one kernel each
        kernel_size: size of a kernel; one number, or one per dimension
        stride: how far it moves each time
        padding: what is added on each side; "same" keeps the size, "valid" adds nothing
        dilation: distance between the elements of a kernel
        groups: parts into which the channels fall, each with kernels of its own
        bias: add a learned constant to each channel
        padding_mode: what is added: "zeros", "reflect", "replicate" or "circular"
        device, dtype: of the parameters

    Shape:
        (N, in_channels, D, H, W) or (in_channels, D, H, W) -> (N, out_channels, D_out, H_out,
        W_out), each size floor((size + 2 * padding - dilation * (kernel_size - 1) - 1) /
        stride) + 1. `weight` is (out_channels, in_channels / groups, kernel_size, kernel_size,
        kernel_size).

    >>> nn.Conv3d(1, 2, 3)(zeros(1, 1, 5, 6, 7)).shape
    torch.Size([1, 2, 3, 4, 5])
    """

    _spatial_dims = 3

    def _conv_forward(self, input: Any, weight: Any, bias: Any) -> Any:
        return convolved(F.conv3d, self, input, weight, bias)


# --- transposed convolutions -----------------------------------------------------------------


class _ConvTransposeNd(_ConvNd):
    """Base of transposed convolutions: only zero padding, and a choice of output size."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        transposed: bool,
        output_padding: Any,
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            transposed,
            output_padding,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _output_padding(
        self,
        input: Any,
        output_size: Any,
        stride: Any,
        padding: Any,
        kernel_size: Any,
        num_spatial_dims: int,
        dilation: Any = None,
    ) -> Any:
        """How much longer the output has to be to have the size asked for."""
        if output_size is None:
            return self.output_padding
        n = num_spatial_dims
        # How many dimensions come before the spatial ones: channels, and maybe a batch.
        before = 2 if input.dim() == n + 2 else 1
        if len(output_size) == n + before:
            output_size = output_size[before:]
        if len(output_size) != n:
            raise ValueError(
                f"ConvTranspose{n}D: for {input.dim()}D input, output_size must have {n} or "
                f"{n + before} elements (got {len(output_size)})"
            )
        smallest = [
            (input.size(i + before) - 1) * stride[i]
            - 2 * padding[i]
            + (1 if dilation is None else dilation[i]) * (kernel_size[i] - 1)
            + 1
            for i in range(n)
        ]
        largest = [low + s - 1 for low, s in zip(smallest, stride, strict=False)]
        for size, low, high in zip(output_size, smallest, largest, strict=True):
            if size < low or size > high:
                raise ValueError(
                    f"requested an output size of {output_size}, but valid sizes range from "
                    f"{smallest} to {largest} (for an input of {input.size()[2:]})"
                )
        return [size - low for size, low in zip(output_size, smallest, strict=True)]


class _ConvTranspose(_ConvTransposeNd):
    """The constructor and forward of the three sizes."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        sizes = _ntuple(self._spatial_dims)
        super().__init__(
            in_channels,
            out_channels,
            sizes(kernel_size),
            sizes(stride),
            sizes(padding),
            sizes(dilation),
            True,
            sizes(output_padding),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )


def spread(function: Any, layer: Any, dims: int, input: Any, output_size: list[int] | None) -> Any:
    """The forward pass: `layer` may be any object with a transposed convolution's attributes."""
    if layer.padding_mode != "zeros":
        raise ValueError(f"Only `zeros` padding mode is supported for ConvTranspose{dims}d")
    output_padding = layer._output_padding(
        input,
        output_size,
        layer.stride,
        layer.padding,
        layer.kernel_size,
        dims,
        layer.dilation,
    )
    return function(
        input,
        layer.weight,
        layer.bias,
        layer.stride,
        layer.padding,
        output_padding,
        layer.groups,
        layer.dilation,
    )


class ConvTranspose1d(_ConvTranspose):
    """The gradient of Conv1d as a layer: spreads every input over a kernel.

    Args:
        in_channels: channels of the input
        out_channels: channels of the result, one kernel each
        kernel_size: size of a kernel; one number, or one per dimension
        stride: distance between the places to which neighbouring inputs go
        padding: what is cut off on each side of the result
        output_padding: what is added to one side of the result, where sizes are ambiguous
        dilation: distance between the elements of a kernel
        groups: parts into which the channels fall, each with kernels of its own
        bias: add a learned constant to each channel
        padding_mode: "zeros" only
        device, dtype: of the parameters

    Shape:
        (N, in_channels, L) -> (N, out_channels, L_out), each size (size - 1) * stride - 2 *
        padding + dilation * (kernel_size - 1) + output_padding + 1.

    >>> nn.ConvTranspose1d(4, 2, 3, stride=2)(zeros(5, 4, 6)).shape
    torch.Size([5, 2, 13])
    """

    _spatial_dims = 1

    def forward(self, input: Any, output_size: Any = None) -> Any:
        return spread(F.conv_transpose1d, self, 1, input, output_size)


class ConvTranspose2d(_ConvTranspose):
    """The gradient of Conv2d as a layer.

    Args:
        in_channels: channels of the input
        out_channels: channels of the result, one kernel each
        kernel_size: size of a kernel; one number, or one per dimension
        stride: distance between the places to which neighbouring inputs go
        padding: what is cut off on each side of the result
        output_padding: what is added to one side of the result, where sizes are ambiguous
        dilation: distance between the elements of a kernel
        groups: parts into which the channels fall, each with kernels of its own
        bias: add a learned constant to each channel
        padding_mode: "zeros" only
        device, dtype: of the parameters

    Shape:
        (N, in_channels, H, W) -> (N, out_channels, H_out, W_out), each size (size - 1) * stride
        - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1.

    >>> up = nn.ConvTranspose2d(4, 2, 3, stride=2)
    >>> up(zeros(5, 4, 6, 6), output_size=(14, 13)).shape
    torch.Size([5, 2, 14, 13])
    """

    _spatial_dims = 2

    def forward(self, input: Any, output_size: Any = None) -> Any:
        return spread(F.conv_transpose2d, self, 2, input, output_size)


class ConvTranspose3d(_ConvTranspose):
    """The gradient of Conv3d as a layer.

    Args:
        in_channels: channels of the input
        out_channels: channels of the result, one kernel each
        kernel_size: size of a kernel; one number, or one per dimension
        stride: distance between the places to which neighbouring inputs go
        padding: what is cut off on each side of the result
        output_padding: what is added to one side of the result, where sizes are ambiguous
        dilation: distance between the elements of a kernel
        groups: parts into which the channels fall, each with kernels of its own
        bias: add a learned constant to each channel
        padding_mode: "zeros" only
        device, dtype: of the parameters

    Shape:
        (N, in_channels, D, H, W) -> (N, out_channels, D_out, H_out, W_out), each size (size -
        1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1.

    >>> nn.ConvTranspose3d(2, 1, 2, stride=2)(zeros(1, 2, 3, 3, 3)).shape
    torch.Size([1, 1, 6, 6, 6])
    """

    _spatial_dims = 3

    def forward(self, input: Any, output_size: Any = None) -> Any:
        return spread(F.conv_transpose3d, self, 3, input, output_size)


class _ConvTransposeMixin(_ConvTransposeNd):
    """The old name of `_ConvTransposeNd`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warn(
            "`_ConvTransposeMixin` is a deprecated internal class. Please consider using public "
            "APIs.",
            FutureWarning,
        )
        super().__init__(*args, **kwargs)


# --- lazy convolutions -----------------------------------------------------------------------


class _LazyConvXdMixin(LazyModuleMixin):
    """Takes `in_channels` from the first input."""

    groups: int
    transposed: bool
    in_channels: int
    out_channels: int
    kernel_size: tuple[int, ...]
    weight: Parameter
    bias: Parameter | None
    _spatial_dims: int

    def _leave_open(self, out_channels: int, bias: bool, device: Any, dtype: Any) -> None:
        """Parameters without a shape, after the constructor made empty ones."""
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw new values, once there are shapes."""
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Any, *args: Any, **kwargs: Any) -> None:
        """The dimension in front of the spatial ones is `in_channels`."""
        if not self.has_uninitialized_params():
            return
        self.in_channels = self._get_in_channels(input)
        if self.in_channels % self.groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        channels = (self.out_channels, self.in_channels // self.groups)
        if self.transposed:
            channels = (self.in_channels, self.out_channels // self.groups)
        self.weight.materialize((*channels, *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()

    def _get_in_channels(self, input: Any) -> int:
        alone = self._get_num_spatial_dims() + 1
        if input.dim() not in (alone, alone + 1):
            raise RuntimeError(
                f"Expected {alone}D (unbatched) or {alone + 1}D (batched) input to "
                f"{type(self).__name__}, but got input of size: {input.shape}"
            )
        channels: int = input.shape[-alone]
        return channels

    def _get_num_spatial_dims(self) -> int:
        return self._spatial_dims


class _LazyConv(_LazyConvXdMixin):
    """The constructor of the lazy Conv1d, 2d and 3d."""

    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode, device, dtype
        )
        self._leave_open(out_channels, bias, device, dtype)


class LazyConv1d(_LazyConv, Conv1d):
    """A Conv1d that takes `in_channels` from its first input.

    >>> layer = nn.LazyConv1d(8, kernel_size=3)
    >>> layer(rand(1, 3, 10)).shape, layer
    (torch.Size([1, 8, 8]), Conv1d(3, 8, kernel_size=(3,), stride=(1,)))
    """

    cls_to_become = Conv1d


class LazyConv2d(_LazyConv, Conv2d):
    """A Conv2d that takes `in_channels` from its first input.

    >>> layer = nn.LazyConv2d(8, 3)
    >>> layer(zeros(1, 5, 10, 10)).shape, layer.in_channels
    (torch.Size([1, 8, 8, 8]), 5)
    """

    cls_to_become = Conv2d


class LazyConv3d(_LazyConv, Conv3d):
    """A Conv3d that takes `in_channels` from its first input.

    >>> layer = nn.LazyConv3d(8, kernel_size=3)
    >>> layer(rand(1, 3, 5, 5, 5)).shape, layer
    (torch.Size([1, 8, 3, 3, 3]), Conv3d(3, 8, kernel_size=(3, 3, 3), stride=(1, 1, 1)))
    """

    cls_to_become = Conv3d


class _LazyConvTranspose(_LazyConvXdMixin):
    """The constructor of the lazy ConvTranspose1d, 2d and 3d."""

    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            0,
            0,
            kernel_size,
            stride,
            padding,
            output_padding,
            groups,
            False,
            dilation,
            padding_mode,
            device,
            dtype,
        )
        self._leave_open(out_channels, bias, device, dtype)


class LazyConvTranspose1d(_LazyConvTranspose, ConvTranspose1d):
    """A ConvTranspose1d that takes `in_channels` from its first input.

    >>> layer = nn.LazyConvTranspose1d(8, kernel_size=3)
    >>> layer(rand(1, 3, 10)).shape, layer
    (torch.Size([1, 8, 12]), ConvTranspose1d(3, 8, kernel_size=(3,), stride=(1,)))
    """

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose, ConvTranspose2d):
    """A ConvTranspose2d that takes `in_channels` from its first input.

    >>> layer = nn.LazyConvTranspose2d(8, kernel_size=3)
    >>> layer(rand(1, 3, 10, 10)).shape, layer
    (torch.Size([1, 8, 12, 12]), ConvTranspose2d(3, 8, kernel_size=(3, 3), stride=(1, 1)))
    """

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose, ConvTranspose3d):
    """A ConvTranspose3d that takes `in_channels` from its first input.

    >>> layer = nn.LazyConvTranspose3d(8, kernel_size=3)
    >>> layer(rand(1, 3, 5, 5, 5)).shape, layer
    (torch.Size([1, 8, 7, 7, 7]), ConvTranspose3d(3, 8, kernel_size=(3, 3, 3), stride=(1, 1, 1)))
    """

    cls_to_become = ConvTranspose3d
