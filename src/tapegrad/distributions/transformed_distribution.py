"""Distributions of transformed samples."""

from __future__ import annotations

from typing import Any

import tapegrad as tg

from . import constraints
from .distribution import Distribution
from .independent import Independent
from .transforms import ComposeTransform, Transform
from .utils import EMPTY, _sum_rightmost

__all__ = ["TransformedDistribution"]


class TransformedDistribution(Distribution):
    """Samples of a base distribution, put through transforms.

    >>> exp = distributions.ExpTransform()
    >>> log_normal = distributions.TransformedDistribution(distributions.Normal(0.0, 1.0), exp)
    >>> log_normal.cdf(tensor(1.0))
    tensor(0.5000)
    """

    arg_constraints: dict[str, Any] = {}

    def __init__(
        self, base_distribution: Any, transforms: Any, validate_args: bool | None = None
    ) -> None:
        self.transforms = checked_transforms(transforms)
        transform = ComposeTransform(self.transforms)
        domain_dim, codomain_dim = transform.domain.event_dim, transform.codomain.event_dim
        base_shape = base_distribution.batch_shape + base_distribution.event_shape
        if len(base_shape) < domain_dim:
            raise ValueError(
                "base_distribution needs to have shape with size at least "
                f"{domain_dim}, but got {base_shape}."
            )
        # Parameters of the transforms may widen the batch.
        forward_shape = transform.forward_shape(base_shape)
        wide_shape = transform.inverse_shape(forward_shape)
        if base_shape != wide_shape:
            cut = len(wide_shape) - len(base_distribution.event_shape)
            base_distribution = base_distribution.expand(wide_shape[:cut])
        # What the transforms take for an event is one, although the base has it as a batch.
        missing = domain_dim - len(base_distribution.event_shape)
        if missing > 0:
            base_distribution = Independent(base_distribution, missing)
        self.base_dist = base_distribution
        change = codomain_dim - domain_dim
        event_dim = max(codomain_dim, len(base_distribution.event_shape) + change)
        cut = len(forward_shape) - event_dim
        super().__init__(forward_shape[:cut], forward_shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(TransformedDistribution, _instance)
        batch_shape = tg.Size(batch_shape)
        shape = batch_shape + self.event_shape
        for t in reversed(self.transforms):
            shape = t.inverse_shape(shape)
        new.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        new.transforms = self.transforms
        return self._finish_expanded(TransformedDistribution, new, batch_shape, self.event_shape)

    def _rebuilt(self, cls: type, new: Any, batch_shape: Any) -> Any:
        """`expand` for a class whose transforms hold its parameters: `_steps` makes them again."""
        base = self.base_dist.expand(batch_shape)
        super(cls, new).__init__(base, new._steps(), validate_args=False)
        new._validate_args = self._validate_args
        return new

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        missing = len(self.event_shape) - support.event_dim
        return constraints.independent(support, missing) if missing > 0 else support

    @property
    def has_rsample(self) -> bool:
        return bool(self.base_dist.has_rsample)

    def sample(self, sample_shape: Any = EMPTY) -> Any:
        with tg.no_grad():
            return self._forward(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        return self._forward(self.base_dist.rsample(sample_shape))

    def _forward(self, x: Any) -> Any:
        for t in self.transforms:
            x = t(x)
        return x

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        event_dim = len(self.event_shape)
        log_prob: Any = 0.0
        y = value
        for t in reversed(self.transforms):
            x = t.inv(y)
            event_dim += t.domain.event_dim - t.codomain.event_dim
            volume = t.log_abs_det_jacobian(x, y)
            log_prob = log_prob - _sum_rightmost(volume, event_dim - t.domain.event_dim)
            y = x
        base = self.base_dist.log_prob(y)
        return log_prob + _sum_rightmost(base, event_dim - len(self.base_dist.event_shape))

    def _monotonize_cdf(self, value: Any) -> Any:
        """1 - value if the transforms turn the order around."""
        sign: Any = 1
        for t in self.transforms:
            sign = sign * t.sign
        if isinstance(sign, int) and sign == 1:
            return value
        return sign * (value - 0.5) + 0.5

    def cdf(self, value: Any) -> Any:
        for t in self.transforms[::-1]:
            value = t.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._monotonize_cdf(self.base_dist.cdf(value))

    def icdf(self, value: Any) -> Any:
        value = self._monotonize_cdf(value)
        return self._forward(self.base_dist.icdf(value))


def checked_transforms(transforms: Any) -> list[Any]:
    if isinstance(transforms, Transform):
        return [transforms]
    if not isinstance(transforms, list):
        raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
    if not all(isinstance(t, Transform) for t in transforms):
        raise ValueError("transforms must be a Transform or a list of Transforms")
    return transforms
