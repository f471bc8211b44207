"""The Weibull distribution."""

from __future__ import annotations

from typing import Any

import tapegrad as tg

from . import constraints
from .exponential import Exponential
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, PowerTransform
from .utils import broadcast_all, euler_constant

__all__ = ["Weibull"]


class Weibull(TransformedDistribution):
    """`scale` times the root of order `concentration` of an exponential number.

    >>> distributions.Weibull(2.0, 1.0).mean
    tensor(2.)
    """

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = self.concentration.reciprocal()
        base = Exponential(tg.ones_like(self.scale), validate_args=validate_args)
        super().__init__(base, self._steps(), validate_args=validate_args)

    def _steps(self) -> list[Any]:
        return [
            PowerTransform(exponent=self.concentration_reciprocal),
            AffineTransform(loc=0, scale=self.scale),
        ]

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Weibull, _instance)
        new.scale = self.scale.expand(batch_shape)
        new.concentration = self.concentration.expand(batch_shape)
        new.concentration_reciprocal = new.concentration.reciprocal()
        return self._rebuilt(Weibull, new, batch_shape)

    @property
    def mean(self) -> Any:
        return self.scale * tg.exp(tg.lgamma(1 + self.concentration_reciprocal))

    @property
    def mode(self) -> Any:
        share = (self.concentration - 1) / self.concentration
        return self.scale * share ** self.concentration.reciprocal()

    @property
    def variance(self) -> Any:
        return self.scale.pow(2) * (
            tg.exp(tg.lgamma(1 + 2 * self.concentration_reciprocal))
            - tg.exp(2 * tg.lgamma(1 + self.concentration_reciprocal))
        )

    def entropy(self) -> Any:
        root = self.concentration_reciprocal
        return euler_constant * (1 - root) + tg.log(self.scale * root) + 1
