"""The normal distribution."""

from __future__ import annotations

import math
from typing import Any

import tapegrad as tg

from ._traits import Centred, LocScale
from .exp_family import ExponentialFamily
from .utils import EMPTY, _standard_normal, broadcast_all

__all__ = ["Normal"]


class Normal(LocScale, Centred, ExponentialFamily):
    """The normal distribution with mean `loc` and standard deviation `scale`.

    >>> distributions.Normal(0.0, 1.0).log_prob(tensor(0.0))
    tensor(-0.9189)
    """

    _mean_carrier_measure = 0

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(Normal, batch_shape, _instance, ("loc", "scale"))

    @property
    def stddev(self) -> Any:
        return self.scale

    @property
    def variance(self) -> Any:
        return self.stddev.pow(2)

    def sample(self, sample_shape: Any = EMPTY) -> Any:
        shape = self._extended_shape(sample_shape)
        with tg.no_grad():
            return tg.normal(self.loc.expand(shape), self.scale.expand(shape))

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        shape = self._extended_shape(sample_shape)
        unit = _standard_normal(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + unit * self.scale

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        var = self.scale**2
        return -((value - self.loc) ** 2) / (2 * var) - self.scale.log() - LOG_ROOT_2_PI

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) * self.scale.reciprocal()
        return 0.5 * (1 + tg.erf(z / math.sqrt(2)))

    def icdf(self, value: Any) -> Any:
        return self.loc + self.scale * tg.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Any:
        return 0.5 + LOG_ROOT_2_PI + tg.log(self.scale)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        precision = self.scale.pow(2).reciprocal()
        return (self.loc * precision, -0.5 * precision)

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        return -0.25 * x.pow(2) / y + 0.5 * tg.log(-math.pi / y)


LOG_ROOT_2_PI = math.log(math.sqrt(2 * math.pi))
