"""The multinomial distribution."""

from __future__ import annotations

import math
from typing import Any

import tapegrad as tg

from . import constraints
from ._traits import OfCategories
from .binomial import Binomial
from .categorical import Categorical
from .utils import EMPTY, broadcast_all

__all__ = ["Multinomial"]


class Multinomial(OfCategories):
    """How often each category comes up in `total_count` draws.

    >>> distributions.Multinomial(8, tensor([1.0, 3.0])).mean
    tensor([2., 6.])
    """

    total_count: int

    def __init__(
        self,
        total_count: int = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs=probs, logits=logits)
        self._binomial = Binomial(total_count=total_count, probs=self.probs)
        super().__init__(*self._shapes(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Multinomial, _instance)
        batch_shape = tg.Size(batch_shape)
        new.total_count = self.total_count
        new._categorical = self._categorical.expand(batch_shape)
        new._binomial = self._binomial.expand(batch_shape + self.event_shape)
        return self._finish_expanded(Multinomial, new, batch_shape, self.event_shape)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Any:
        return self.probs * self.total_count

    @property
    def variance(self) -> Any:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = EMPTY) -> Any:
        sample_shape = tg.Size(sample_shape)
        drawn = self._categorical.sample(tg.Size((self.total_count,)) + sample_shape)
        drawn = drawn.movedim(0, -1)
        counts = drawn.new_zeros(self._extended_shape(sample_shape))
        counts.scatter_add_(-1, drawn, tg.ones_like(drawn))
        return counts.type_as(self.probs)

    def entropy(self) -> Any:
        n = tg.tensor(self.total_count)
        certain = n * self._categorical.entropy() - tg.lgamma(n + 1)
        counts = self._binomial.enumerate_support(expand=False)[1:]
        chances = tg.exp(self._binomial.log_prob(counts))
        return certain + (chances * tg.lgamma(counts + 1)).sum([0, -1])

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        logits = logits.clone(memory_format=tg.contiguous_format)
        log_orders = tg.lgamma(value.sum(-1) + 1) - tg.lgamma(value + 1).sum(-1)
        logits[(value == 0) & (logits == -math.inf)] = 0  # 0 log 0 is 0
        return log_orders + (logits * value).sum(-1)
