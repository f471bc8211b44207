"""The negative binomial distribution."""

from __future__ import annotations

from typing import Any

import tapegrad as tg
import tapegrad.nn.functional as F

from . import constraints
from ._odds import PARAMS, Odds
from .gamma import Gamma
from .utils import EMPTY, lazy_property

__all__ = ["NegativeBinomial"]


class NegativeBinomial(Odds):
    """How many throws succeed, each with the chance `probs`, before `total_count` of them fail.

    >>> distributions.NegativeBinomial(3, probs=tensor([0.5])).mean
    tensor([3.])
    """

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    def __init__(
        self,
        total_count: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        (count,) = self._set_param(probs, logits, total_count)
        self.total_count = count.type_as(self._param)
        super().__init__(self._param.size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(NegativeBinomial, batch_shape, _instance, ("total_count", *PARAMS))

    @property
    def mean(self) -> Any:
        return self.total_count * tg.exp(self.logits)

    @property
    def mode(self) -> Any:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Any:
        return self.mean / tg.sigmoid(-self.logits)

    @lazy_property
    def _gamma(self) -> Any:
        """The distribution of the rates: a sample is Poisson with such a rate."""
        return Gamma(concentration=self.total_count, rate=tg.exp(-self.logits), validate_args=False)

    def sample(self, sample_shape: Any = EMPTY) -> Any:
        with tg.no_grad():
            return tg.poisson(self._gamma.sample(sample_shape=sample_shape))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        weight = self.total_count * F.logsigmoid(-self.logits) + value * F.logsigmoid(self.logits)
        normalizer = (
            -tg.lgamma(self.total_count + value)
            + tg.lgamma(1.0 + value)
            + tg.lgamma(self.total_count)
        )
        return weight - normalizer.masked_fill(self.total_count + value == 0.0, 0.0)
