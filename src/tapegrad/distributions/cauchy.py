"""The Cauchy distribution."""

from __future__ import annotations

import math
from typing import Any

import tapegrad as tg

from ._traits import LocScale
from .utils import EMPTY, broadcast_all

__all__ = ["Cauchy"]


class Cauchy(LocScale):
    """The ratio of two normals: median `loc`, half width `scale`, no mean.

    >>> distributions.Cauchy(0.0, 1.0).cdf(tensor(1.0))
    tensor(0.7500)
    """

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(Cauchy, batch_shape, _instance, ("loc", "scale"))

    @property
    def mean(self) -> Any:
        return self._constant(math.nan)

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        return self._constant(math.inf)

    def _constant(self, number: float) -> Any:
        loc = self.loc
        return tg.full(self._extended_shape(), number, dtype=loc.dtype, device=loc.device)

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        unit = self.loc.new_empty(self._extended_shape(sample_shape)).cauchy_()
        return self.loc + unit * self.scale

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        return -math.log(math.pi) - self.scale.log() - (z**2).log1p()

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return tg.atan((value - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value: Any) -> Any:
        return tg.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> Any:
        return math.log(4 * math.pi) + self.scale.log()
