"""The binomial distribution."""

from __future__ import annotations

from typing import Any

import tapegrad as tg

from . import constraints
from ._odds import PARAMS, Odds
from .utils import EMPTY

__all__ = ["Binomial"]


def _clamp_by_zero(x: Any) -> Any:
    """max(x, 0), with the slope 1/2 at 0."""
    return (x.clamp(min=0) + x - x.clamp(max=0)) / 2


class Binomial(Odds):
    """How many of `total_count` throws succeed, each with the chance `probs`.

    >>> distributions.Binomial(4, probs=tensor([0.5])).variance
    tensor([1.])
    """

    arg_constraints = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True

    def __init__(
        self,
        total_count: Any = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        (count,) = self._set_param(probs, logits, total_count)
        self.total_count = count.type_as(self._param)
        super().__init__(self._param.size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(Binomial, batch_shape, _instance, ("total_count", *PARAMS))

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Any:
        return self.total_count * self.probs

    @property
    def mode(self) -> Any:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Any:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = EMPTY) -> Any:
        shape = self._extended_shape(sample_shape)
        with tg.no_grad():
            return tg.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        log_all = tg.lgamma(self.total_count + 1)
        log_hits = tg.lgamma(value + 1)
        log_misses = tg.lgamma(self.total_count - value + 1)
        # log(1 + exp(logits)) per throw, without overflow
        normalizer = (
            self.total_count * _clamp_by_zero(self.logits)
            + self.total_count * tg.log1p(tg.exp(-tg.abs(self.logits)))
            - log_all
        )
        return value * self.logits - log_hits - log_misses - normalizer

    def entropy(self) -> Any:
        self._common_count("entropy")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(tg.exp(log_prob) * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Any:
        count = self._common_count("enumerate_support")
        values = tg.arange(1 + count, dtype=self._param.dtype, device=self._param.device)
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1,) + self._batch_shape) if expand else values

    def _common_count(self, method: str) -> int:
        count = int(self.total_count.max())
        if not self.total_count.min() == count:
            raise NotImplementedError(f"Inhomogeneous total count not supported by `{method}`.")
        return count
