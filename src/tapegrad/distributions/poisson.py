"""The Poisson distribution."""

from __future__ import annotations

from typing import Any

import tapegrad as tg

from . import constraints
from .exp_family import ExponentialFamily
from .utils import EMPTY, broadcast_all

__all__ = ["Poisson"]


class Poisson(ExponentialFamily):
    """How many events there are in a unit of time, if they come at `rate`.

    >>> distributions.Poisson(4.0).variance
    tensor(4.)
    """

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(Poisson, batch_shape, _instance, ("rate",))

    @property
    def mean(self) -> Any:
        return self.rate

    @property
    def mode(self) -> Any:
        return self.rate.floor()

    @property
    def variance(self) -> Any:
        return self.rate

    def sample(self, sample_shape: Any = EMPTY) -> Any:
        with tg.no_grad():
            return tg.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        rate, value = broadcast_all(self.rate, value)
        return value.xlogy(rate) - rate - (value + 1).lgamma()

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (tg.log(self.rate),)

    def _log_normalizer(self, x: Any) -> Any:
        return tg.exp(x)
