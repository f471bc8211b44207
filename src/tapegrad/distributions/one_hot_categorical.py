"""The categorical distribution over one-hot vectors."""

from __future__ import annotations

from typing import Any

import tapegrad as tg
import tapegrad.nn.functional as F

from . import constraints
from ._traits import OfCategories
from .categorical import Categorical
from .utils import EMPTY

__all__ = ["OneHotCategorical", "OneHotCategoricalStraightThrough"]


class OneHotCategorical(OfCategories):
    """`Categorical`, with vectors that have a 1 at the index in place of the index.

    >>> distributions.OneHotCategorical(tensor([1.0, 3.0])).mean
    tensor([0.2500, 0.7500])
    """

    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._categorical = Categorical(probs, logits)
        super().__init__(*self._shapes(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(OneHotCategorical, _instance)
        batch_shape = tg.Size(batch_shape)
        new._categorical = self._categorical.expand(batch_shape)
        return self._finish_expanded(OneHotCategorical, new, batch_shape, self.event_shape)

    @property
    def _param(self) -> Any:
        return self._categorical._param

    @property
    def mean(self) -> Any:
        return self._categorical.probs

    @property
    def mode(self) -> Any:
        return self._one_hot(self.probs.argmax(dim=-1))

    @property
    def variance(self) -> Any:
        return self._categorical.probs * (1 - self._categorical.probs)

    def _one_hot(self, index: Any) -> Any:
        return F.one_hot(index, self._categorical._num_events).to(self.probs)

    def sample(self, sample_shape: Any = EMPTY) -> Any:
        return self._one_hot(self._categorical.sample(tg.Size(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return self._categorical.log_prob(value.max(-1)[1])

    def entropy(self) -> Any:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Any:
        n = self.event_shape[0]
        values = tg.eye(n, dtype=self._param.dtype, device=self._param.device)
        values = values.view((n,) + (1,) * len(self.batch_shape) + (n,))
        return values.expand((n,) + self.batch_shape + (n,)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """`OneHotCategorical` whose samples pass gradients on as if they were the chances.

    >>> weights = tensor([1.0, 3.0], requires_grad=True)
    >>> distributions.OneHotCategoricalStraightThrough(weights).rsample().requires_grad
    True
    """

    has_rsample = True

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        samples = self.sample(sample_shape)
        probs = self._categorical.probs
        return samples + (probs - probs.detach())
