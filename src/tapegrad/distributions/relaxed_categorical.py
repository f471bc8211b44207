"""Categorical variables made continuous, so that gradients pass."""

from __future__ import annotations

from typing import Any

import tapegrad as tg

from . import constraints
from ._traits import OfCategories, Relaxed
from .categorical import Categorical
from .transforms import ExpTransform
from .utils import EMPTY, broadcast_all, clamp_probs

__all__ = ["ExpRelaxedCategorical", "RelaxedOneHotCategorical"]


class ExpRelaxedCategorical(OfCategories):
    """The logarithm of a `RelaxedOneHotCategorical`: log softmax of noisy logits.

    >>> from tapegrad.distributions.relaxed_categorical import ExpRelaxedCategorical
    >>> ExpRelaxedCategorical(tensor(2.0), probs=ones(3)).rsample().exp().sum()
    tensor(1.)
    """

    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        self._categorical = Categorical(probs, logits)
        self.temperature = temperature
        super().__init__(*self._shapes(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(ExpRelaxedCategorical, _instance)
        batch_shape = tg.Size(batch_shape)
        new.temperature = self.temperature
        new._categorical = self._categorical.expand(batch_shape)
        return self._finish_expanded(ExpRelaxedCategorical, new, batch_shape, self.event_shape)

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        shape = self._extended_shape(sample_shape)
        u = clamp_probs(tg.rand(shape, dtype=self.logits.dtype, device=self.logits.device))
        scores = (self.logits + -(-(u.log())).log()) / self.temperature
        return scores - scores.logsumexp(dim=-1, keepdim=True)

    def log_prob(self, value: Any) -> Any:
        k = self._categorical._num_events
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        scale = tg.full_like(self.temperature, float(k)).lgamma()
        log_scale = scale - self.temperature.log().mul(-(k - 1))
        score = logits - value.mul(self.temperature)
        return (score - score.logsumexp(dim=-1, keepdim=True)).sum(-1) + log_scale


class RelaxedOneHotCategorical(Relaxed):
    """Vectors of chances that gather at the corners as `temperature` falls.

    >>> distributions.RelaxedOneHotCategorical(tensor(2.0), probs=ones(3)).rsample().sum()
    tensor(1.)
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    base_dist: ExpRelaxedCategorical

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(RelaxedOneHotCategorical, _instance)
        return super().expand(batch_shape, _instance=new)
