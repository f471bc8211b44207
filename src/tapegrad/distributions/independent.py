"""Batches that count as one event."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import tapegrad as tg

from . import constraints
from .distribution import Distribution
from .utils import EMPTY, _sum_rightmost

__all__ = ["Independent"]

D = TypeVar("D", bound=Distribution)


class Independent(Distribution, Generic[D]):
    """A distribution whose last few batch dimensions are part of the event.

    >>> rows = distributions.Independent(distributions.Normal(zeros(3, 2), ones(3, 2)), 1)
    >>> rows.batch_shape, rows.event_shape, rows.log_prob(zeros(2)).shape
    (torch.Size([3]), torch.Size([2]), torch.Size([3]))
    """

    arg_constraints: dict[str, Any] = {}

    def __init__(
        self,
        base_distribution: D,
        reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ) -> None:
        batch_dim = len(base_distribution.batch_shape)
        if reinterpreted_batch_ndims > batch_dim:
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), "
                f"actual {reinterpreted_batch_ndims} vs {batch_dim}"
            )
        shape = base_distribution.batch_shape + base_distribution.event_shape
        cut = batch_dim - reinterpreted_batch_ndims
        self.base_dist: D = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Independent, _instance)
        batch_shape = tg.Size(batch_shape)
        own = self.event_shape[: self.reinterpreted_batch_ndims]
        new.base_dist = self.base_dist.expand(batch_shape + own)
        new.reinterpreted_batch_ndims = self.reinterpreted_batch_ndims
        return self._finish_expanded(Independent, new, batch_shape, self.event_shape)

    @property
    def has_rsample(self) -> bool:
        return bool(self.base_dist.has_rsample)

    @property
    def has_enumerate_support(self) -> bool:
        if self.reinterpreted_batch_ndims > 0:
            return False
        return bool(self.base_dist.has_enumerate_support)

    @constraints.dependent_property
    def support(self) -> Any:
        support = self.base_dist.support
        if self.reinterpreted_batch_ndims:
            support = constraints.independent(support, self.reinterpreted_batch_ndims)
        return support

    @property
    def mean(self) -> Any:
        return self.base_dist.mean

    @property
    def mode(self) -> Any:
        return self.base_dist.mode

    @property
    def variance(self) -> Any:
        return self.base_dist.variance

    def sample(self, sample_shape: Any = EMPTY) -> Any:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Any) -> Any:
        return _sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Any:
        return _sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Any:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        shown = f"{self.base_dist}, {self.reinterpreted_batch_ndims}"
        return f"{self.__class__.__name__}({shown})"
