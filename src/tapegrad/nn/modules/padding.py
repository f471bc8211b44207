"""Padding as layers: more elements at the edges."""

from __future__ import annotations

from typing import Any

from .. import functional as F
from .module import Module
from .utils import _ntuple

__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]


class _PadNd(Module):
    """Base of the pads: widths, left and right, the last dimension first.

    Each kind sets the mode, each size how many dimensions are padded.
    """

    __constants__ = ["padding"]
    padding: tuple[int, ...]
    _mode: str
    _spatial_dims: int

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = _ntuple(2 * self._spatial_dims)(padding)

    def forward(self, input: Any) -> Any:
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


# --- what comes out at one end comes in at the other -----------------------------------------


class _CircularPadNd(_PadNd):
    _mode = "circular"

    def _check_input_dim(self, input: Any) -> None:
        alone = self._spatial_dims + 1
        if input.dim() not in (alone, alone + 1):
            raise ValueError(f"expected {alone}D or {alone + 1}D input (got {input.dim()}D input)")

    def forward(self, input: Any) -> Any:
        self._check_input_dim(input)
        return super().forward(input)


class CircularPad1d(_CircularPadNd):
    """Wraps around.

    >>> nn.CircularPad1d(1)(tensor([[1.0, 2.0, 3.0]]))
    tensor([[3., 1., 2., 3., 1.]])
    """

    _spatial_dims = 1


class CircularPad2d(_CircularPadNd):
    """Wraps around in two dimensions.

    >>> nn.CircularPad2d(1)(tensor([[[1.0, 2.0], [3.0, 4.0]]]))
    tensor([[[4., 3., 4., 3.],
             [2., 1., 2., 1.],
             [4., 3., 4., 3.],
             [2., 1., 2., 1.]]])
    """

    _spatial_dims = 2


class CircularPad3d(_CircularPadNd):
    """Wraps around in three dimensions.

    >>> nn.CircularPad3d((1, 1, 0, 0, 0, 0))(tensor([[[[1.0, 2.0, 3.0]]]]))
    tensor([[[[3., 1., 2., 3., 1.]]]])
    """

    _spatial_dims = 3


# --- one value -------------------------------------------------------------------------------


class _ConstantPadNd(Module):
    """Base of the constant pads: holds the value."""

    __constants__ = ["padding", "value"]
    padding: tuple[int, ...]
    value: float

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def forward(self, input: Any) -> Any:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """One value at both ends.

    >>> nn.ConstantPad1d((1, 2), 9.0)(tensor([[1.0]]))
    tensor([[9., 1., 9., 9.]])
    """

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(value)
        self.padding = _ntuple(2)(padding)


class ConstantPad2d(_ConstantPadNd):
    """One value around an image.

    >>> nn.ConstantPad2d((1, 0, 0, 1), 9.0)(tensor([[[1.0, 2.0]]]))
    tensor([[[9., 1., 2.],
             [9., 9., 9.]]])
    """

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(value)
        self.padding = _ntuple(4)(padding)


class ConstantPad3d(_ConstantPadNd):
    """One value around a volume.

    >>> nn.ConstantPad3d((1, 1, 0, 0, 0, 0), 9.0)(tensor([[[[1.0, 2.0]]]]))
    tensor([[[[9., 1., 2., 9.]]]])
    """

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(value)
        self.padding = _ntuple(6)(padding)


class ZeroPad1d(ConstantPad1d):
    """Zeros at both ends.

    >>> nn.ZeroPad1d(1)(tensor([[1.0]]))
    tensor([[0., 1., 0.]])
    """

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad2d(ConstantPad2d):
    """Zeros around an image.

    Args:
        padding: one number, or (left, right, top, bottom)

    Shape:
        (N, C, H, W) or (C, H, W) -> (N, C, H + top + bottom, W + left + right).

    >>> nn.ZeroPad2d((1, 0, 2, 0))(ones(1, 1, 2, 2)).shape
    torch.Size([1, 1, 4, 3])
    """

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad3d(ConstantPad3d):
    """Zeros around a volume.

    >>> nn.ZeroPad3d((1, 1, 0, 0, 0, 0))(tensor([[[[1.0, 2.0]]]]))
    tensor([[[[0., 1., 2., 0.]]]])
    """

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


# --- a mirror at the edge --------------------------------------------------------------------


class _ReflectionPadNd(_PadNd):
    _mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd):
    """Mirrored, without the edge itself.

    >>> nn.ReflectionPad1d(1)(tensor([[1.0, 2.0, 3.0]]))
    tensor([[2., 1., 2., 3., 2.]])
    """

    _spatial_dims = 1


class ReflectionPad2d(_ReflectionPadNd):
    """Mirrored in two dimensions.

    >>> nn.ReflectionPad2d(1)(tensor([[[1.0, 2.0], [3.0, 4.0]]]))
    tensor([[[4., 3., 4., 3.],
             [2., 1., 2., 1.],
             [4., 3., 4., 3.],
             [2., 1., 2., 1.]]])
    """

    _spatial_dims = 2


class ReflectionPad3d(_ReflectionPadNd):
    """Mirrored in three dimensions.

    >>> nn.ReflectionPad3d((1, 1, 0, 0, 0, 0))(tensor([[[[1.0, 2.0, 3.0]]]]))
    tensor([[[[2., 1., 2., 3., 2.]]]])
    """

    _spatial_dims = 3


# --- the edge again --------------------------------------------------------------------------


class _ReplicationPadNd(_PadNd):
    _mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd):
    """Repeats the edge.

    >>> nn.ReplicationPad1d(1)(tensor([[1.0, 2.0, 3.0]]))
    tensor([[1., 1., 2., 3., 3.]])
    """

    _spatial_dims = 1


class ReplicationPad2d(_ReplicationPadNd):
    """Repeats the edge in two dimensions.

    >>> nn.ReplicationPad2d(1)(tensor([[[1.0, 2.0], [3.0, 4.0]]]))
    tensor([[[1., 1., 2., 2.],
             [1., 1., 2., 2.],
             [3., 3., 4., 4.],
             [3., 3., 4., 4.]]])
    """

    _spatial_dims = 2


class ReplicationPad3d(_ReplicationPadNd):
    """Repeats the edge in three dimensions.

    >>> nn.ReplicationPad3d((2, 1, 0, 0, 0, 0))(tensor([[[[1.0, 2.0]]]]))
    tensor([[[[1., 1., 1., 2., 2.]]]])
    """

    _spatial_dims = 3
