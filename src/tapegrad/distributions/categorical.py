"""The categorical distribution."""

from __future__ import annotations

import math
from typing import Any

import tapegrad as tg

from . import constraints
from .distribution import Distribution
from .utils import EMPTY, lazy_property, logits_to_probs, only_one, probs_to_logits

__all__ = ["Categorical"]


class Categorical(Distribution):
    """One of the indices 0 … K-1, with the chances along the last dimension of `probs`.

    `probs` need not sum to 1 and `logits` need not be normalised: they are.

    >>> distributions.Categorical(tensor([1.0, 3.0])).log_prob(tensor(1)).exp()
    tensor(0.7500)
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        if only_one(probs, logits):
            if probs.dim() < 1:
                raise ValueError("`probs` parameter must be at least one-dimensional.")
            self.probs = self._param = probs / probs.sum(-1, keepdim=True)
        else:
            if logits.dim() < 1:
                raise ValueError("`logits` parameter must be at least one-dimensional.")
            self.logits = self._param = logits - logits.logsumexp(dim=-1, keepdim=True)
        self._num_events = self._param.size()[-1]
        super().__init__(self._param.size()[:-1], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Categorical, _instance)
        batch_shape = tg.Size(batch_shape)
        for name in ("probs", "logits", "_param"):
            if name in self.__dict__:
                expanded = self.__dict__[name].expand(batch_shape + (self._num_events,))
                new.__dict__[name] = expanded
        new._num_events = self._num_events
        return self._finish_expanded(Categorical, new, batch_shape, tg.Size())

    def _new(self, *args: Any, **kwargs: Any) -> Any:
        return self._param.new(*args, **kwargs)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self._num_events - 1)

    @lazy_property
    def logits(self) -> Any:
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self) -> Any:
        return logits_to_probs(self.logits)

    @property
    def param_shape(self) -> Any:
        return self._param.size()

    @property
    def mean(self) -> Any:
        return self._no_number()

    @property
    def mode(self) -> Any:
        return self.probs.argmax(dim=-1)

    @property
    def variance(self) -> Any:
        return self._no_number()

    def _no_number(self) -> Any:
        """Categories have no mean."""
        probs = self.probs
        return tg.full(self._extended_shape(), math.nan, dtype=probs.dtype, device=probs.device)

    def sample(self, sample_shape: Any = EMPTY) -> Any:
        sample_shape = tg.Size(sample_shape)
        rows = self.probs.reshape(-1, self._num_events)
        drawn = tg.multinomial(rows, sample_shape.numel(), True).T
        return drawn.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        index, log_chances = tg.broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return log_chances.gather(-1, index[..., :1]).squeeze(-1)

    def entropy(self) -> Any:
        # An impossible category has the log chance -inf and adds nothing.
        finite = tg.clamp(self.logits, min=tg.finfo(self.logits.dtype).min)
        return -(finite * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Any:
        values = tg.arange(self._num_events, dtype=tg.long, device=self._param.device)
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1,) + self._batch_shape) if expand else values
