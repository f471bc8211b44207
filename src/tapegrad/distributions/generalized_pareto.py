"""The generalized Pareto distribution."""

from __future__ import annotations

import math
from typing import Any

import tapegrad as tg

from . import constraints
from .distribution import Distribution
from .utils import EMPTY, broadcast_all

__all__ = ["GeneralizedPareto"]


class GeneralizedPareto(Distribution):
    """Distribution of excesses over a high threshold: exponential, with a heavier or shorter tail.

    `concentration` 0 is the exponential distribution; below 0 there is a largest value.

    >>> distributions.GeneralizedPareto(0.0, 1.0, 0.5).mean
    tensor(2.)
    """

    arg_constraints = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True

    def __init__(
        self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        names = ("loc", "scale", "concentration")
        return self._expanded(GeneralizedPareto, batch_shape, _instance, names)

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        shape = self._extended_shape(sample_shape)
        return self.icdf(tg.rand(shape, dtype=self.loc.dtype, device=self.loc.device))

    def _split(self) -> tuple[Any, Any]:
        """Where the distribution is exponential, and a concentration to divide by elsewhere."""
        c = self.concentration
        is_zero = tg.isclose(c, tg.tensor(0.0, dtype=c.dtype, device=c.device))
        return is_zero, tg.where(is_zero, tg.ones_like(c), c)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        z = self._z(value)
        is_zero, safe = self._split()
        power = 1 / safe + tg.ones_like(z)
        tail = tg.where(power == 0, power, power * tg.log1p(safe * z))
        return -tg.log(self.scale) - tg.where(is_zero, z, tail)

    def log_survival_function(self, value: Any) -> Any:
        """The logarithm of the probability of more than `value`."""
        if self._validate_args:
            self._validate_sample(value)
        z = self._z(value)
        is_zero, safe = self._split()
        return tg.where(is_zero, -z, -tg.log1p(safe * z) / safe)

    def log_cdf(self, value: Any) -> Any:
        return tg.log1p(-tg.exp(self.log_survival_function(value)))

    def cdf(self, value: Any) -> Any:
        return tg.exp(self.log_cdf(value))

    def icdf(self, value: Any) -> Any:
        is_zero, safe = self._split()
        log_survival = tg.log1p(-value)
        bent = self.loc + self.scale / safe * tg.expm1(-safe * log_survival)
        return tg.where(is_zero, self.loc - self.scale * log_survival, bent)

    def _z(self, x: Any) -> Any:
        return (x - self.loc) / self.scale

    @property
    def mean(self) -> Any:
        finite = self.concentration < 1
        safe = tg.where(finite, self.concentration, 0.5)
        return tg.where(finite, self.loc + self.scale / (1 - safe), math.nan)

    @property
    def variance(self) -> Any:
        finite = self.concentration < 0.5
        safe = tg.where(finite, self.concentration, 0.25)
        variance = self.scale**2 / ((1 - safe) ** 2 * (1 - 2 * safe))
        return tg.where(finite, variance, math.nan)

    def entropy(self) -> Any:
        entropy = tg.log(self.scale) + self.concentration + 1
        return tg.broadcast_to(entropy, self._batch_shape)

    @property
    def mode(self) -> Any:
        return self.loc

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        end = self.loc - self.scale / self.concentration
        upper = tg.where(self.concentration < 0, end, math.inf)
        return constraints.interval(self.loc, upper)
