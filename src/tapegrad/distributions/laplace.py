"""The Laplace distribution."""

from __future__ import annotations

from typing import Any

import tapegrad as tg

from ._traits import Centred, LocScale
from .utils import EMPTY, broadcast_all

__all__ = ["Laplace"]


class Laplace(LocScale, Centred):
    """Exponential to both sides of `loc`, with the scale `scale`.

    >>> distributions.Laplace(0.0, 1.0).cdf(tensor(0.0))
    tensor(0.5000)
    """

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(Laplace, batch_shape, _instance, ("loc", "scale"))

    @property
    def variance(self) -> Any:
        return 2 * self.scale.pow(2)

    @property
    def stddev(self) -> Any:
        return 2**0.5 * self.scale

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        shape = self._extended_shape(sample_shape)
        lowest = tg.finfo(self.loc.dtype).eps - 1  # log1p(-|u|) stays finite
        u = self.loc.new_empty(shape).uniform_(lowest, 1)
        return self.loc - self.scale * u.sign() * tg.log1p(-u.abs())

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return -tg.log(2 * self.scale) - tg.abs(value - self.loc) / self.scale

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        distance = value - self.loc
        return 0.5 - 0.5 * distance.sign() * tg.expm1(-distance.abs() / self.scale)

    def icdf(self, value: Any) -> Any:
        centred = value - 0.5
        return self.loc - self.scale * centred.sign() * tg.log1p(-2 * centred.abs())

    def entropy(self) -> Any:
        return 1 + tg.log(2 * self.scale)
