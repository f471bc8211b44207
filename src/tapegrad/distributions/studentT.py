"""Student's t-distribution."""

from __future__ import annotations

import math
from typing import Any

import tapegrad as tg

from . import constraints
from .chi2 import Chi2
from .distribution import Distribution
from .utils import EMPTY, _standard_normal, broadcast_all

__all__ = ["StudentT"]


class StudentT(Distribution):
    """A normal over the root of a scaled chi-squared number with `df` degrees of freedom.

    >>> distributions.StudentT(4.0).variance
    tensor(2.)
    """

    arg_constraints = {
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real
    has_rsample = True

    def __init__(
        self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df)
        super().__init__(self.df.size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(StudentT, _instance)
        new._chi2 = self._chi2.expand(tg.Size(batch_shape))
        return self._expanded(StudentT, batch_shape, new, ("df", "loc", "scale"))

    @property
    def mean(self) -> Any:
        mean = self.loc.clone(memory_format=tg.contiguous_format)
        mean[self.df <= 1] = math.nan
        return mean

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        var = self.df.clone(memory_format=tg.contiguous_format)
        finite = self.df > 2
        var[finite] = self.scale[finite].pow(2) * self.df[finite] / (self.df[finite] - 2)
        var[(self.df <= 2) & (self.df > 1)] = math.inf
        var[self.df <= 1] = math.nan
        return var

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        shape = self._extended_shape(sample_shape)
        unit = _standard_normal(shape, dtype=self.df.dtype, device=self.df.device)
        squares = self._chi2.rsample(sample_shape)
        return self.loc + self.scale * (unit * tg.rsqrt(squares / self.df))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        log_normalizer = (
            self.scale.log()
            + 0.5 * self.df.log()
            + 0.5 * math.log(math.pi)
            + tg.lgamma(0.5 * self.df)
            - tg.lgamma(0.5 * (self.df + 1.0))
        )
        return -0.5 * (self.df + 1.0) * tg.log1p(z**2.0 / self.df) - log_normalizer

    def entropy(self) -> Any:
        half, next_half = 0.5 * self.df, 0.5 * (self.df + 1)
        log_beta = tg.lgamma(half) + math.lgamma(0.5) - tg.lgamma(next_half)
        return (
            self.scale.log()
            + next_half * (tg.digamma(next_half) - tg.digamma(half))
            + 0.5 * self.df.log()
            + log_beta
        )
