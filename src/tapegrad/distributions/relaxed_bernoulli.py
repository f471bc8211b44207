"""Bernoulli variables made continuous, so that gradients pass."""

from __future__ import annotations

from typing import Any

import tapegrad as tg

from . import constraints
from ._odds import PARAMS, Odds
from ._traits import Relaxed
from .transforms import SigmoidTransform
from .utils import EMPTY, broadcast_all, clamp_probs

__all__ = ["LogitRelaxedBernoulli", "RelaxedBernoulli"]


class LogitRelaxedBernoulli(Odds):
    """The log odds of a `RelaxedBernoulli`: (logits + logistic noise) / temperature.

    >>> from tapegrad.distributions.relaxed_bernoulli import LogitRelaxedBernoulli
    >>> LogitRelaxedBernoulli(tensor(2.0), probs=tensor([0.5])).rsample().shape
    torch.Size([1])
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        self._set_param(probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(LogitRelaxedBernoulli, _instance)
        new.temperature = self.temperature
        return self._expanded(LogitRelaxedBernoulli, batch_shape, new, PARAMS)

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        u = clamp_probs(tg.rand(shape, dtype=probs.dtype, device=probs.device))
        noisy = u.log() - (-u).log1p() + probs.log() - (-probs).log1p()
        return noisy / self.temperature

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        gap = logits - value.mul(self.temperature)
        return self.temperature.log() + gap - 2 * gap.exp().log1p()


class RelaxedBernoulli(Relaxed):
    """Numbers in (0, 1) that gather at the ends as `temperature` falls (the concrete distribution).

    >>> distributions.RelaxedBernoulli(tensor(2.0), probs=tensor([0.5])).rsample().shape
    torch.Size([1])
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    base_dist: LogitRelaxedBernoulli

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(RelaxedBernoulli, _instance)
        return super().expand(batch_shape, _instance=new)
