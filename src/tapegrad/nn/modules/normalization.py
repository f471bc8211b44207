"""Normalization within a sample: over layers, groups of channels, neighbouring channels."""

from __future__ import annotations

import numbers
from typing import Any, TypeAlias

import tapegrad as tg

from .. import functional as F
from .. import init
from ..parameter import Parameter
from ._functions import CrossMapLRN2d as _cross_map_lrn2d
from .module import Module

__all__ = ["CrossMapLRN2d", "GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]

_shape_t: TypeAlias = int | list[int] | tg.Size  # the name by which others import it


class _ResponseNorm(Module):
    """Base of the two response norms: how many channels count, and with which weights."""

    size: int
    alpha: float
    beta: float
    k: float

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class LocalResponseNorm(_ResponseNorm):
    """Divides by the squares of neighbouring channels (Krizhevsky et al., 2012).

    >>> nn.LocalResponseNorm(2)(zeros(1, 4, 3)).shape
    torch.Size([1, 4, 3])
    """

    __constants__ = ["size", "alpha", "beta", "k"]

    def forward(self, input: Any) -> Any:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)


class CrossMapLRN2d(_ResponseNorm):
    """The older LocalResponseNorm, for images only.

    >>> nn.CrossMapLRN2d(2, alpha=1.0)(ones(1, 2, 1, 1)).flatten()
    tensor([0.7378, 0.5946])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__(size, alpha, beta, k)

    def forward(self, input: Any) -> Any:
        return _cross_map_lrn2d.apply(input, self.size, self.alpha, self.beta, self.k)


def shape_of(normalized_shape: Any) -> tuple[int, ...]:
    """One number stands for the last dimension."""
    if isinstance(normalized_shape, numbers.Integral):
        return (int(normalized_shape),)
    return tuple(normalized_shape)


class _Affine(Module):
    """Base of norms whose results may be scaled and shifted afterwards."""

    weight: Parameter
    bias: Parameter | None

    def _make_affine(self, size: Any, scale: bool, shift: bool, device: Any, dtype: Any) -> None:
        for name, wanted in (("weight", scale), ("bias", shift)):
            values = tg.empty(size, device=device, dtype=dtype) if wanted else None
            self.register_parameter(name, None if values is None else Parameter(values))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Scale one, shift zero."""
        if self.weight is not None:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)


class LayerNorm(_Affine):
    """Mean zero and variance one over the last dimensions.

    Args:
        normalized_shape: sizes of the last dimensions, which are normalised together
        eps: added to the variance, so that it is never zero
        elementwise_affine: learn a factor and a constant per element
        bias: with that, a learned constant
        device, dtype: of the parameters

    Shape:
        (*, *normalized_shape) -> the same.

    >>> nn.LayerNorm(2)(tensor([[1.0, 3.0]])).detach()
    tensor([[-1.0000,  1.0000]])
    """

    __constants__ = ["normalized_shape", "eps", "elementwise_affine"]
    normalized_shape: tuple[int, ...]
    eps: float
    elementwise_affine: bool

    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = shape_of(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self._make_affine(
            self.normalized_shape, elementwise_affine, elementwise_affine and bias, device, dtype
        )

    def forward(self, input: Any) -> Any:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class GroupNorm(_Affine):
    """Mean zero and variance one over every group of channels.

    Args:
        num_groups: groups into which the channels fall
        num_channels: how many channels, C; a multiple of `num_groups`
        eps: added to the variance, so that it is never zero
        affine: learn a factor and a constant per channel
        device, dtype: of the parameters
        bias: whether `affine` has the constant too

    Shape:
        (N, C, *) -> the same.

    >>> nn.GroupNorm(2, 4)
    GroupNorm(2, 4, eps=1e-05, affine=True, bias=True)
    >>> nn.GroupNorm(2, 4)(zeros(3, 4, 5)).shape
    torch.Size([3, 4, 5])
    """

    __constants__ = ["num_groups", "num_channels", "eps", "affine"]
    num_groups: int
    num_channels: int
    eps: float
    affine: bool

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups != 0:
            raise ValueError(
                f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})"
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        self._make_affine(num_channels, affine, affine and bias, device, dtype)

    def forward(self, input: Any) -> Any:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Root mean square one over the last dimensions (Zhang and Sennrich, 2019).

    Args:
        normalized_shape: sizes of the last dimensions, which are normalised together
        eps: added to the mean square; by default the smallest step of the dtype
        elementwise_affine: learn a factor per element
        device, dtype: of the parameters

    Shape:
        (*, *normalized_shape) -> the same.

    >>> nn.RMSNorm(2, elementwise_affine=False)(tensor([[1.0, 7.0]]))
    tensor([[0.2000, 1.4000]])
    """

    __constants__ = ["normalized_shape", "eps", "elementwise_affine"]
    normalized_shape: tuple[int, ...]
    eps: float | None
    elementwise_affine: bool

    def __init__(
        self,
        normalized_shape: Any,
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = shape_of(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        if elementwise_affine:
            self.weight = Parameter(tg.empty(self.normalized_shape, device=device, dtype=dtype))
        else:
            self.register_parameter("weight", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Scale one."""
        if self.elementwise_affine:
            init.ones_(self.weight)

    def forward(self, x: Any) -> Any:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )
