"""The half-Cauchy distribution."""

from __future__ import annotations

import math
from typing import Any

import tapegrad as tg

from ._traits import Folded
from .cauchy import Cauchy
from .transforms import AbsTransform

__all__ = ["HalfCauchy"]


class HalfCauchy(Folded):
    """The size of a Cauchy number around 0 with half width `scale`.

    >>> distributions.HalfCauchy(1.0).cdf(tensor(1.0))
    tensor(0.5000)
    """

    base_dist: Cauchy

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        base = Cauchy(0, scale, validate_args=False)
        super().__init__(base, AbsTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(HalfCauchy, _instance)
        return super().expand(batch_shape, _instance=new)

    @property
    def mean(self) -> Any:
        return self._infinity()

    @property
    def variance(self) -> Any:
        return self._infinity()

    def _infinity(self) -> Any:
        scale = self.scale
        return tg.full(self._extended_shape(), math.inf, dtype=scale.dtype, device=scale.device)

    def _as_value(self, value: Any) -> Any:
        return tg.as_tensor(value, dtype=self.scale.dtype, device=self.scale.device)
