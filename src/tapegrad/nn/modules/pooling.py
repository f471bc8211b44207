"""Pooling: every window of the input gives one output."""

from __future__ import annotations

from typing import Any

from .. import functional as F
from .module import Module
from .utils import _ntuple

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
]


def options(module: Any, names: list[str]) -> dict[str, Any]:
    """The options of a pool: `forward` may run on any object that has them as attributes."""
    return {name: getattr(module, name) for name in names}


# --- the largest of a window -----------------------------------------------------------------


class _MaxPoolNd(Module):
    """Base of the max pools; they differ in the function that `forward` calls."""

    __constants__ = ["kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode"]
    return_indices: bool
    ceil_mode: bool

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPoolNd):
    """The largest element of every window along one dimension.

    Args:
        kernel_size: size of a window; one number, or one per dimension
        stride: how far it moves; by default `kernel_size`, so that windows do not overlap
        padding: what is added on each side
        dilation: distance between the elements of a window
        return_indices: also give the places of the largest elements, for MaxUnpool
        ceil_mode: round the size of the result up, not down

    Shape:
        (N, C, L) or (C, L) -> (N, C, L_out), by default each size floor((size + 2 * padding -
        kernel_size) / stride) + 1.

    >>> nn.MaxPool1d(2)(tensor([[1.0, 3.0, 2.0, 0.0]]))
    tensor([[3., 2.]])
    """

    def forward(self, input: Any) -> Any:
        return F.max_pool1d(input, **options(self, _MaxPoolNd.__constants__))


class MaxPool2d(_MaxPoolNd):
    """The largest element of every window of an image.

    Args:
        kernel_size: size of a window; one number, or one per dimension
        stride: how far it moves; by default `kernel_size`, so that windows do not overlap
        padding: what is added on each side
        dilation: distance between the elements of a window
        return_indices: also give the places of the largest elements, for MaxUnpool
        ceil_mode: round the size of the result up, not down

    Shape:
        (N, C, H, W) or (C, H, W) -> (N, C, H_out, W_out), by default each size floor((size + 2
        * padding - kernel_size) / stride) + 1.

    >>> nn.MaxPool2d(2)(zeros(1, 3, 8, 8)).shape
    torch.Size([1, 3, 4, 4])
    """

    def forward(self, input: Any) -> Any:
        return F.max_pool2d(input, **options(self, _MaxPoolNd.__constants__))


class MaxPool3d(_MaxPoolNd):
    """The largest element of every window of a volume.

    Args:
        kernel_size: size of a window; one number, or one per dimension
        stride: how far it moves; by default `kernel_size`, so that windows do not overlap
        padding: what is added on each side
        dilation: distance between the elements of a window
        return_indices: also give the places of the largest elements, for MaxUnpool
        ceil_mode: round the size of the result up, not down

    Shape:
        (N, C, D, H, W) or (C, D, H, W) -> (N, C, D_out, H_out, W_out), by default each size
        floor((size + 2 * padding - kernel_size) / stride) + 1.

    >>> nn.MaxPool3d(2)(zeros(1, 3, 4, 6, 8)).shape
    torch.Size([1, 3, 2, 3, 4])
    """

    def forward(self, input: Any) -> Any:
        return F.max_pool3d(input, **options(self, _MaxPoolNd.__constants__))


class _MaxUnpoolNd(Module):
    """Base of the unpools: sizes as tuples."""

    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    _spatial_dims: int

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        sizes = _ntuple(self._spatial_dims)
        self.kernel_size = sizes(kernel_size)
        self.stride = sizes(kernel_size if stride is None else stride)
        self.padding = sizes(padding)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpoolNd):
    """Puts the results of MaxPool1d back where they came from, zeros elsewhere.

    >>> values, where = nn.MaxPool1d(2, return_indices=True)(tensor([[1.0, 3.0, 2.0, 0.0]]))
    >>> nn.MaxUnpool1d(2)(values, where)
    tensor([[0., 3., 2., 0.]])
    """

    _spatial_dims = 1

    def forward(self, input: Any, indices: Any, output_size: Any = None) -> Any:
        return F.max_unpool1d(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )


class MaxUnpool2d(_MaxUnpoolNd):
    """Puts the results of MaxPool2d back where they came from, zeros elsewhere.

    >>> pool, unpool = nn.MaxPool2d(2, return_indices=True), nn.MaxUnpool2d(2)
    >>> kept, places = pool(tensor([[[1.0, 4.0], [2.0, 3.0]]]))
    >>> unpool(kept, places)
    tensor([[[0., 4.],
             [0., 0.]]])
    """

    _spatial_dims = 2

    def forward(self, input: Any, indices: Any, output_size: Any = None) -> Any:
        return F.max_unpool2d(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )


class MaxUnpool3d(_MaxUnpoolNd):
    """Puts the results of MaxPool3d back where they came from, zeros elsewhere.

    >>> pool, unpool = nn.MaxPool3d((1, 1, 2), return_indices=True), nn.MaxUnpool3d((1, 1, 2))
    >>> kept, places = pool(tensor([[[[1.0, 4.0, 3.0, 2.0]]]]))
    >>> unpool(kept, places)
    tensor([[[[0., 4., 3., 0.]]]])
    """

    _spatial_dims = 3

    def forward(self, input: Any, indices: Any, output_size: Any = None) -> Any:
        return F.max_unpool3d(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )


# --- the mean of a window --------------------------------------------------------------------


class _AvgPoolNd(Module):
    """Base of the average pools: the repr."""

    __constants__ = ["kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"]
    kernel_size: Any
    stride: Any
    padding: Any
    ceil_mode: bool
    count_include_pad: bool

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPoolNd):
    """The mean of every window along one dimension.

    Args:
        kernel_size: size of a window; one number, or one per dimension
        stride: how far it moves; by default `kernel_size`, so that windows do not overlap
        padding: what is added on each side
        ceil_mode: round the size of the result up, not down
        count_include_pad: count what was added in the mean

    Shape:
        (N, C, L) or (C, L) -> (N, C, L_out), by default each size floor((size + 2 * padding -
        kernel_size) / stride) + 1.

    >>> nn.AvgPool1d(2)(tensor([[1.0, 3.0, 2.0, 0.0]]))
    tensor([[2., 1.]])
    """

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        sizes = _ntuple(1)
        self.kernel_size = sizes(kernel_size)
        self.stride = sizes(kernel_size if stride is None else stride)
        self.padding = sizes(padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Any) -> Any:
        return F.avg_pool1d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
        )


class _AvgPoolWithDivisor(_AvgPoolNd):
    """The constructor of AvgPool2d and 3d, which can divide by another number."""

    __constants__ = [*_AvgPoolNd.__constants__, "divisor_override"]

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override


class AvgPool2d(_AvgPoolWithDivisor):
    """The mean of every window of an image.

    Args:
        kernel_size: size of a window; one number, or one per dimension
        stride: how far it moves; by default `kernel_size`, so that windows do not overlap
        padding: what is added on each side
        ceil_mode: round the size of the result up, not down
        count_include_pad: count what was added in the mean
        divisor_override: a number to divide by, instead of the size of the window

    Shape:
        (N, C, H, W) or (C, H, W) -> (N, C, H_out, W_out), by default each size floor((size + 2
        * padding - kernel_size) / stride) + 1.

    >>> nn.AvgPool2d(2)(ones(1, 3, 8, 8)).shape
    torch.Size([1, 3, 4, 4])
    """

    def forward(self, input: Any) -> Any:
        return F.avg_pool2d(input, **options(self, _AvgPoolWithDivisor.__constants__))


class AvgPool3d(_AvgPoolWithDivisor):
    """The mean of every window of a volume.

    Args:
        kernel_size: size of a window; one number, or one per dimension
        stride: how far it moves; by default `kernel_size`, so that windows do not overlap
        padding: what is added on each side
        ceil_mode: round the size of the result up, not down
        count_include_pad: count what was added in the mean
        divisor_override: a number to divide by, instead of the size of the window

    Shape:
        (N, C, D, H, W) or (C, D, H, W) -> (N, C, D_out, H_out, W_out), by default each size
        floor((size + 2 * padding - kernel_size) / stride) + 1.

    >>> nn.AvgPool3d(2)(ones(1, 3, 4, 6, 8)).shape
    torch.Size([1, 3, 2, 3, 4])
    """

    def forward(self, input: Any) -> Any:
        return F.avg_pool3d(input, **options(self, _AvgPoolWithDivisor.__constants__))

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        # Pickles of the first versions know only the window.
        for name, default in (("padding", 0), ("ceil_mode", False), ("count_include_pad", True)):
            self.__dict__.setdefault(name, default)


# --- windows placed at random ----------------------------------------------------------------


class _FractionalMaxPoolNd(Module):
    """Base of the two fractional pools: either a size or a ratio."""

    __constants__ = ["kernel_size", "return_indices", "output_size", "output_ratio"]
    _spatial_dims: int

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Any = None,
    ) -> None:
        super().__init__()
        given = (kernel_size,) if isinstance(kernel_size, int) else kernel_size
        listed = isinstance(given, (tuple, list))
        if self._spatial_dims == 3 and listed and not all([k > 0 for k in given]):
            raise ValueError(f"kernel_size must be greater than 0, but got {kernel_size}")
        sizes = _ntuple(self._spatial_dims)
        self.kernel_size = sizes(kernel_size)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else sizes(output_size)
        self.output_ratio = None if output_ratio is None else sizes(output_ratio)
        if output_size is None and output_ratio is None:
            raise ValueError(
                f"FractionalMaxPool{self._spatial_dims}d requires specifying either an output "
                "size, or a pooling ratio"
            )
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None:
            if not all(0 < ratio < 1 for ratio in self.output_ratio[: self._spatial_dims]):
                raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def _arguments(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in (*self.__constants__, "_random_samples")}


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """The largest element of windows whose places are drawn (Graham, 2014).

    >>> pool = nn.FractionalMaxPool2d(2, output_size=(2, 3))
    >>> pool(rand(1, 4, 5, 6)).shape
    torch.Size([1, 4, 2, 3])
    """

    _spatial_dims = 2

    def forward(self, input: Any) -> Any:
        return F.fractional_max_pool2d(input, **self._arguments())


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """The largest element of windows whose places are drawn, in volumes.

    >>> pool = nn.FractionalMaxPool3d(2, output_ratio=0.5)
    >>> pool(rand(1, 2, 8, 8, 8)).shape
    torch.Size([1, 2, 4, 4, 4])
    """

    _spatial_dims = 3

    def forward(self, input: Any) -> Any:
        return F.fractional_max_pool3d(input, **self._arguments())


# --- power means -----------------------------------------------------------------------------


class _LPPoolNd(Module):
    """Base of the power-average pools."""

    __constants__ = ["norm_type", "kernel_size", "stride", "ceil_mode"]
    norm_type: float
    ceil_mode: bool

    def __init__(
        self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPoolNd):
    """The p-norm of every window along one dimension.

    >>> nn.LPPool1d(2, 2)(tensor([[3.0, 4.0]]))
    tensor([[5.]])
    """

    def forward(self, input: Any) -> Any:
        return F.lp_pool1d(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )


class LPPool2d(_LPPoolNd):
    """The p-norm of every window of an image.

    >>> nn.LPPool2d(2, kernel_size=2)(tensor([[[[3.0, 0.0], [0.0, 4.0]]]]))
    tensor([[[[5.]]]])
    """

    def forward(self, input: Any) -> Any:
        return F.lp_pool2d(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )


class LPPool3d(_LPPoolNd):
    """The p-norm of every window of a volume.

    >>> nn.LPPool3d(2, kernel_size=(1, 1, 2))(tensor([[[[[3.0, 4.0]]]]]))
    tensor([[[[[5.]]]]])
    """

    def forward(self, input: Any) -> Any:
        return F.lp_pool3d(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )


# --- windows chosen for the size of the output -----------------------------------------------


class _AdaptiveMaxPoolNd(Module):
    """Base of the adaptive max pools."""

    __constants__ = ["output_size", "return_indices"]
    return_indices: bool

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """The largest elements of `output_size` windows that cover the input.

    >>> nn.AdaptiveMaxPool1d(1)(tensor([[1.0, 3.0, 2.0]]))
    tensor([[3.]])
    """

    def forward(self, input: Any) -> Any:
        return F.adaptive_max_pool1d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """The largest elements of windows that cover an image; None keeps a size.

    Args:
        output_size: size of the result, one number or one per dimension; None keeps one
        return_indices: also give the places of the largest elements

    Shape:
        (N, C, H, W) or (C, H, W) -> (N, C, *output_size).

    >>> nn.AdaptiveMaxPool2d(2)(zeros(1, 3, 8, 5)).shape
    torch.Size([1, 3, 2, 2])
    """

    def forward(self, input: Any) -> Any:
        return F.adaptive_max_pool2d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """The largest elements of windows that cover a volume; None keeps a size.

    >>> pool = nn.AdaptiveMaxPool3d((1, 1, 2))
    >>> pool(arange(8.0).reshape(1, 2, 2, 2))
    tensor([[[[6., 7.]]]])
    """

    def forward(self, input: Any) -> Any:
        return F.adaptive_max_pool3d(input, self.output_size, self.return_indices)


class _AdaptiveAvgPoolNd(Module):
    """Base of the adaptive average pools."""

    __constants__ = ["output_size"]

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """The means of `output_size` windows that cover the input.

    Args:
        output_size: size of the result, one number or one per dimension; None keeps one

    Shape:
        (N, C, L) or (C, L) -> (N, C, *output_size).

    >>> nn.AdaptiveAvgPool1d(1)(tensor([[1.0, 3.0, 2.0]]))
    tensor([[2.]])
    """

    def forward(self, input: Any) -> Any:
        return F.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """The means of windows that cover an image; None keeps a size.

    Args:
        output_size: size of the result, one number or one per dimension; None keeps one

    Shape:
        (N, C, H, W) or (C, H, W) -> (N, C, *output_size).

    >>> nn.AdaptiveAvgPool2d((1, None))(zeros(1, 3, 8, 5)).shape
    torch.Size([1, 3, 1, 5])
    """

    def forward(self, input: Any) -> Any:
        return F.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """The means of windows that cover a volume; None keeps a size.

    Args:
        output_size: size of the result, one number or one per dimension; None keeps one

    Shape:
        (N, C, D, H, W) or (C, D, H, W) -> (N, C, *output_size).

    >>> nn.AdaptiveAvgPool3d(1)(zeros(1, 3, 8, 5, 4)).shape
    torch.Size([1, 3, 1, 1, 1])
    """

    def forward(self, input: Any) -> Any:
        return F.adaptive_avg_pool3d(input, self.output_size)
