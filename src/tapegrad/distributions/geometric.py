"""The geometric distribution."""

from __future__ import annotations

from typing import Any

import tapegrad as tg
from tapegrad.nn.functional import binary_cross_entropy_with_logits

from . import constraints
from ._odds import Odds
from .utils import EMPTY, broadcast_all

__all__ = ["Geometric"]


class Geometric(Odds):
    """How many throws fail before the first success, which has the chance `probs`.

    >>> distributions.Geometric(tensor([0.25])).mean
    tensor([3.])
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._set_param(probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)
        if self._validate_args and probs is not None and not (self.probs > 0).all():
            wrong = self.probs[~(self.probs > 0)]
            raise ValueError(
                f"Expected parameter probs ({type(self.probs).__name__} of shape "
                f"{tuple(self.probs.shape)}) of distribution {self!r} to be positive but found "
                f"invalid values:\n{wrong}"
            )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(Geometric, batch_shape, _instance, ("probs", "logits", "_param"))

    @property
    def mean(self) -> Any:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Any:
        return tg.zeros_like(self.probs)

    @property
    def variance(self) -> Any:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Any = EMPTY) -> Any:
        shape = self._extended_shape(sample_shape)
        with tg.no_grad():
            u = self.probs.new_empty(shape).uniform_(tg.finfo(self.probs.dtype).tiny, 1)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        probs = probs.clone(memory_format=tg.contiguous_format)
        probs[(probs == 1) & (value == 0)] = 0  # 0 log 0 is 0
        return value * (-probs).log1p() + self.probs.log()

    def entropy(self) -> Any:
        bits = binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")
        return bits / self.probs
