"""Exponential families: densities exp(<t(x), θ> - F(θ) + k(x)) with natural parameters θ."""

from __future__ import annotations

from typing import Any

import tapegrad as tg

from .distribution import Distribution

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """A distribution whose entropy follows from its log normalizer F.

    >>> isinstance(distributions.Normal(0.0, 1.0), distributions.ExponentialFamily)
    True
    """

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Any) -> Any:
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> Any:
        """The mean of k(x)."""
        raise NotImplementedError

    def entropy(self) -> Any:
        """F(θ) - <θ, dF/dθ> - E[k(x)]."""
        result = -self._mean_carrier_measure
        params = [p.detach().requires_grad_() for p in self._natural_params]
        log_normalizer = self._log_normalizer(*params)
        slopes = tg.autograd.grad(log_normalizer.sum(), params, create_graph=True)
        result += log_normalizer
        for param, slope in zip(params, slopes, strict=True):
            result -= (param * slope).reshape(self._batch_shape + (-1,)).sum(-1)
        return result
