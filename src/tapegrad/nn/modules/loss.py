"""Losses as layers."""

from __future__ import annotations

from typing import Any

from .. import _reduction
from .. import functional as F
from .module import Module

__all__ = ["L1Loss", "MSELoss"]


class _Loss(Module):
    """What losses share: how the elements are reduced."""

    __constants__ = ["reduction"]
    reduction: str

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__()
        self.reduction = _reduction.chosen(reduction, size_average, reduce)


class L1Loss(_Loss):
    """The mean of absolute differences.

    >>> nn.L1Loss()(tensor([1.0, 2.0]), tensor([1.0, 4.0]))
    tensor(1.)
    """

    def forward(self, input: Any, target: Any) -> Any:
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """The mean of squared differences.

    >>> nn.MSELoss()(tensor([1.0, 2.0]), tensor([1.0, 4.0]))
    tensor(2.)
    """

    def forward(self, input: Any, target: Any) -> Any:
        return F.mse_loss(input, target, reduction=self.reduction)
