"""Distributions that take one chance, as a probability or as log odds."""

from __future__ import annotations

from typing import Any

from .distribution import Distribution
from .utils import broadcast_all, lazy_property, logits_to_probs, only_one, probs_to_logits


class Odds(Distribution):
    """`probs` or `logits` was given, and is `_param`; the other follows when it is asked for."""

    _param: Any

    def _set_param(self, probs: Any, logits: Any, *others: Any) -> list[Any]:
        """Set the one that was given, in one shape with the other parameters, and return those."""
        if only_one(probs, logits):
            *rest, self.probs = broadcast_all(*others, probs)
            self._param = self.probs
        else:
            *rest, self.logits = broadcast_all(*others, logits)
            self._param = self.logits
        return rest

    def _new(self, *args: Any, **kwargs: Any) -> Any:
        return self._param.new(*args, **kwargs)

    @lazy_property
    def logits(self) -> Any:
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Any:
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def param_shape(self) -> Any:
        return self._param.size()


PARAMS = ("probs", "logits", "_param")
