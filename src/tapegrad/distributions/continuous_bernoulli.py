"""The continuous Bernoulli distribution."""

from __future__ import annotations

import math
from typing import Any

import tapegrad as tg
from tapegrad.nn.functional import binary_cross_entropy_with_logits

from . import constraints
from ._odds import PARAMS, Odds
from .exp_family import ExponentialFamily
from .utils import EMPTY, broadcast_all, clamp_probs

__all__ = ["ContinuousBernoulli"]


class ContinuousBernoulli(Odds, ExponentialFamily):
    """Numbers in [0, 1] with densities in proportion to p^x (1-p)^(1-x).

    The formulas cancel near p = 1/2: between `lims`, expansions around that point take over.

    >>> distributions.ContinuousBernoulli(tensor([0.5])).mean
    tensor([0.5000])
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    _mean_carrier_measure = 0
    has_rsample = True

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        self._set_param(probs, logits)
        if logits is None:
            # Before they are clamped; later they would pass.
            if validate_args is not None and not constraints.unit_interval.check(self.probs).all():
                raise ValueError("The parameter probs has invalid values")
            self.probs = self._param = clamp_probs(self.probs)
        self._lims = lims
        super().__init__(self._param.size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(ContinuousBernoulli, _instance)
        new._lims = self._lims
        return self._expanded(ContinuousBernoulli, batch_shape, new, PARAMS)

    def _outside_unstable_region(self) -> Any:
        return self._outside(self.probs, 0.0)

    def _outside(self, x: Any, shift: float) -> Any:
        low, high = self._lims
        return tg.max(tg.le(x, low - shift), tg.gt(x, high - shift))

    def _cut_probs(self) -> Any:
        """The chances, with a harmless one where the expansions are used."""
        return tg.where(
            self._outside_unstable_region(), self.probs, self._lims[0] * tg.ones_like(self.probs)
        )

    def _cont_bern_log_norm(self) -> Any:
        """The logarithm of the factor that makes the density integrate to 1."""
        cut = self._cut_probs()
        below = tg.where(cut <= 0.5, cut, tg.zeros_like(cut))
        above = tg.where(cut >= 0.5, cut, tg.ones_like(cut))
        width = tg.where(cut <= 0.5, tg.log1p(-2.0 * below), tg.log(2.0 * above - 1.0))
        log_norm = tg.log(tg.abs(tg.log1p(-cut) - tg.log(cut))) - width
        square = tg.pow(self.probs - 0.5, 2)
        expansion = math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * square) * square
        return tg.where(self._outside_unstable_region(), log_norm, expansion)

    @property
    def mean(self) -> Any:
        cut = self._cut_probs()
        mean = cut / (2.0 * cut - 1.0) + 1.0 / (tg.log1p(-cut) - tg.log(cut))
        x = self.probs - 0.5
        expansion = 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * tg.pow(x, 2)) * x
        return tg.where(self._outside_unstable_region(), mean, expansion)

    @property
    def stddev(self) -> Any:
        return tg.sqrt(self.variance)

    @property
    def variance(self) -> Any:
        cut = self._cut_probs()
        spread = tg.pow(tg.log1p(-cut) - tg.log(cut), 2)
        variance = cut * (cut - 1.0) / tg.pow(1.0 - 2.0 * cut, 2) + 1.0 / spread
        square = tg.pow(self.probs - 0.5, 2)
        expansion = 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * square) * square
        return tg.where(self._outside_unstable_region(), variance, expansion)

    def sample(self, sample_shape: Any = EMPTY) -> Any:
        with tg.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        shape = self._extended_shape(sample_shape)
        return self.icdf(tg.rand(shape, dtype=self.probs.dtype, device=self.probs.device))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        bits = binary_cross_entropy_with_logits(logits, value, reduction="none")
        return -bits + self._cont_bern_log_norm()

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        cut = self._cut_probs()
        weights = tg.pow(cut, value) * tg.pow(1.0 - cut, 1.0 - value)
        inner = (weights + cut - 1.0) / (2.0 * cut - 1.0)
        inside = tg.where(self._outside_unstable_region(), inner, value)
        above = tg.where(tg.ge(value, 1.0), tg.ones_like(value), inside)
        return tg.where(tg.le(value, 0.0), tg.zeros_like(value), above)

    def icdf(self, value: Any) -> Any:
        cut = self._cut_probs()
        inner = tg.log1p(-cut + value * (2.0 * cut - 1.0)) - tg.log1p(-cut)
        found = inner / (tg.log(cut) - tg.log1p(-cut))
        return tg.where(self._outside_unstable_region(), found, value)

    def entropy(self) -> Any:
        log_miss = tg.log1p(-self.probs)
        log_hit = tg.log(self.probs)
        return self.mean * (log_miss - log_hit) - self._cont_bern_log_norm() - log_miss

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (self.logits,)

    def _log_normalizer(self, x: Any) -> Any:
        outside = self._outside(x, 0.5)
        cut = tg.where(outside, x, (self._lims[0] - 0.5) * tg.ones_like(x))
        log_norm = tg.log(tg.abs(tg.special.expm1(cut))) - tg.log(tg.abs(cut))
        expansion = 0.5 * x + tg.pow(x, 2) / 24.0 - tg.pow(x, 4) / 2880.0
        return tg.where(outside, log_norm, expansion)
