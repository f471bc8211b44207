"""Dropout as layers."""

from __future__ import annotations

from typing import Any

from .. import functional as F
from .module import Module

__all__ = [
    "AlphaDropout",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
    "FeatureAlphaDropout",
]


class _DropoutNd(Module):
    """Base of the dropout layers: holds the probability."""

    __constants__ = ["p", "inplace"]
    p: float
    inplace: bool

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """Zeroes elements at random while training, and scales up the others.

    Args:
        p: probability of an element to become zero; the others are divided by 1 - p
        inplace: write the result over the input

    Shape:
        Any shape -> the same.

    >>> nn.Dropout(0.5).eval()(tensor([1.0, 2.0]))
    tensor([1., 2.])
    """

    def forward(self, input: Any) -> Any:
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """Zeroes whole channels of sequences.

    Args:
        p: probability of a channel to become zero; the others are divided by 1 - p
        inplace: write the result over the input

    Shape:
        (N, C, L) or (C, L) -> the same.

    >>> nn.Dropout1d(0.5).eval()(ones(1, 2, 3)).shape
    torch.Size([1, 2, 3])
    """

    def forward(self, input: Any) -> Any:
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """Zeroes whole channels of images.

    Args:
        p: probability of a channel to become zero; the others are divided by 1 - p
        inplace: write the result over the input

    Shape:
        (N, C, H, W) or (C, H, W) -> the same.

    >>> nn.Dropout2d(1.0)(ones(1, 2, 2, 2)).sum()
    tensor(0.)
    """

    def forward(self, input: Any) -> Any:
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """Zeroes whole channels of volumes.

    >>> layer = nn.Dropout3d(0.5)
    >>> layer(ones(1, 4, 1, 1, 2)).reshape(4, 2)
    tensor([[0., 0.],
            [0., 0.],
            [2., 2.],
            [0., 0.]])
    """

    def forward(self, input: Any) -> Any:
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """Dropout that keeps mean and variance after SELU (Klambauer et al., 2017).

    Args:
        p: probability of an element to be dropped
        inplace: write the result over the input

    Shape:
        Any shape -> the same.

    >>> nn.AlphaDropout(0.5).eval()(ones(2))
    tensor([1., 1.])
    """

    def forward(self, input: Any) -> Any:
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_DropoutNd):
    """AlphaDropout of whole channels.

    >>> layer = nn.FeatureAlphaDropout(0.5)
    >>> layer(ones(1, 3, 1, 2)).reshape(3, 2)
    tensor([[-0.7792, -0.7792],
            [-0.7792, -0.7792],
            [ 1.6656,  1.6656]])
    """

    def forward(self, input: Any) -> Any:
        return F.feature_alpha_dropout(input, self.p, self.training)
