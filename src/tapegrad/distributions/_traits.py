"""Base classes with properties that several distributions share; none has an `__init__`."""

from __future__ import annotations

import math
from typing import Any

import tapegrad as tg

from . import constraints
from .distribution import Distribution
from .transformed_distribution import TransformedDistribution


class LocScale(Distribution):
    """On the whole line, at a place `loc` and with a width `scale`."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True


class Centred(Distribution):
    """`loc` is the mean, and where the density is largest."""

    loc: Any

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc


class Folded(TransformedDistribution):
    """The size of a number from `base_dist`, which is symmetric around 0."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    @property
    def scale(self) -> Any:
        return self.base_dist.scale

    @property
    def mode(self) -> Any:
        return tg.zeros_like(self.scale)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        value = self._as_value(value)
        log_prob = self.base_dist.log_prob(value) + math.log(2)
        return tg.where(value >= 0, log_prob, -math.inf)

    def _as_value(self, value: Any) -> Any:
        """A checked value as the distribution computes with it."""
        return value

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, prob: Any) -> Any:
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self) -> Any:
        return self.base_dist.entropy() - math.log(2)


class Relaxed(TransformedDistribution):
    """A discrete distribution made continuous: the sharper, the lower `temperature` is."""

    has_rsample = True

    @property
    def temperature(self) -> Any:
        return self.base_dist.temperature

    @property
    def logits(self) -> Any:
        return self.base_dist.logits

    @property
    def probs(self) -> Any:
        return self.base_dist.probs


class OfCategories(Distribution):
    """The chances are those of a `Categorical`, kept as `_categorical`."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    _categorical: Any

    def _shapes(self) -> tuple[Any, Any]:
        """Of the batch, and of vectors with a number for each category."""
        return self._categorical.batch_shape, self._categorical.param_shape[-1:]

    def _new(self, *args: Any, **kwargs: Any) -> Any:
        return self._categorical._new(*args, **kwargs)

    @property
    def logits(self) -> Any:
        return self._categorical.logits

    @property
    def probs(self) -> Any:
        return self._categorical.probs

    @property
    def param_shape(self) -> Any:
        return self._categorical.param_shape
