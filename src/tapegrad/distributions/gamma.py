"""The gamma distribution."""

from __future__ import annotations

from typing import Any

import tapegrad as tg

from . import constraints
from .exp_family import ExponentialFamily
from .utils import EMPTY, broadcast_all

__all__ = ["Gamma"]


def _standard_gamma(concentration: Any) -> Any:
    return tg._standard_gamma(concentration)


class Gamma(ExponentialFamily):
    """The gamma distribution with the shape `concentration` and `rate`, one over the scale.

    >>> distributions.Gamma(2.0, 4.0).mean
    tensor(0.5000)
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(Gamma, batch_shape, _instance, ("concentration", "rate"))

    @property
    def mean(self) -> Any:
        return self.concentration / self.rate

    @property
    def mode(self) -> Any:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Any:
        return self.concentration / self.rate.pow(2)

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        shape = self._extended_shape(sample_shape)
        value = _standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        # Above zero, where log_prob is finite; gradients do not notice.
        value.detach().clamp_(min=tg.finfo(value.dtype).tiny)
        return value

    def log_prob(self, value: Any) -> Any:
        value = tg.as_tensor(value, dtype=self.rate.dtype, device=self.rate.device)
        if self._validate_args:
            self._validate_sample(value)
        return (
            tg.xlogy(self.concentration, self.rate)
            + tg.xlogy(self.concentration - 1, value)
            - self.rate * value
            - tg.lgamma(self.concentration)
        )

    def entropy(self) -> Any:
        shape = self.concentration
        return shape - tg.log(self.rate) + tg.lgamma(shape) + (1.0 - shape) * tg.digamma(shape)

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return tg.special.gammainc(self.concentration, self.rate * value)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (self.concentration - 1, -self.rate)

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        return tg.lgamma(x + 1) + (x + 1) * tg.log(-y.reciprocal())
