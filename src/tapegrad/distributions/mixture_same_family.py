"""Mixtures whose components are one batch."""

from __future__ import annotations

from typing import Any

import tapegrad as tg

from . import constraints
from .categorical import Categorical
from .distribution import Distribution
from .utils import EMPTY

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """One of the components, which are the last batch dimension, chosen by a `Categorical`.

    >>> chances = distributions.Categorical(tensor([0.5, 0.5]))
    >>> components = distributions.Normal(tensor([-1.0, 1.0]), ones(2))
    >>> distributions.MixtureSameFamily(chances, components).mean
    tensor(0.)
    """

    arg_constraints: dict[str, Any] = {}
    has_rsample = False

    def __init__(
        self,
        mixture_distribution: Any,
        component_distribution: Any,
        validate_args: bool | None = None,
    ) -> None:
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                " The Mixture distribution needs to be an  instance of "
                "torch.distributions.Categorical"
            )
        if not isinstance(component_distribution, Distribution):
            raise ValueError(
                "The Component distribution needs to be an instance of "
                "torch.distributions.Distribution"
            )
        mixture_shape = mixture_distribution.batch_shape
        component_shape = component_distribution.batch_shape[:-1]
        for one, other in zip(reversed(mixture_shape), reversed(component_shape), strict=False):
            if one != 1 and other != 1 and one != other:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({mixture_shape}) is not compatible with "
                    f"`component_distribution.batch_shape`({component_shape})"
                )
        count = mixture_distribution.logits.shape[-1]
        components = component_distribution.batch_shape[-1]
        if count is not None and components is not None and count != components:
            raise ValueError(
                f"`mixture_distribution component` ({count}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({components})"
            )
        self._num_component = components
        event_shape = component_distribution.event_shape
        self._event_ndims = len(event_shape)
        super().__init__(component_shape, event_shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(MixtureSameFamily, _instance)
        batch_shape = tg.Size(batch_shape)
        new._component_distribution = self._component_distribution.expand(
            batch_shape + (self._num_component,)
        )
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        new._num_component = self._num_component
        new._event_ndims = self._event_ndims
        event_shape = new._component_distribution.event_shape
        return self._finish_expanded(MixtureSameFamily, new, batch_shape, event_shape)

    @constraints.dependent_property
    def support(self) -> Any:
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Any:
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Any:
        return self._component_distribution

    @property
    def mean(self) -> Any:
        probs = self._pad_mixture_dimensions(self.mixture_distribution.probs)
        return tg.sum(probs * self.component_distribution.mean, dim=-1 - self._event_ndims)

    @property
    def variance(self) -> Any:
        """The mean of the variances and the variance of the means."""
        dim = -1 - self._event_ndims
        probs = self._pad_mixture_dimensions(self.mixture_distribution.probs)
        inside = tg.sum(probs * self.component_distribution.variance, dim=dim)
        gaps = self.component_distribution.mean - self._pad(self.mean)
        return inside + tg.sum(probs * gaps.pow(2.0), dim=dim)

    def cdf(self, x: Any) -> Any:
        x = self._pad(x)
        each = self.component_distribution.cdf(x)
        return tg.sum(each * self.mixture_distribution.probs, dim=-1)

    def log_prob(self, x: Any) -> Any:
        if self._validate_args:
            self._validate_sample(x)
        each = self.component_distribution.log_prob(self._pad(x))
        chances = tg.log_softmax(self.mixture_distribution.logits, dim=-1)
        return tg.logsumexp(each + chances, dim=-1)

    def sample(self, sample_shape: Any = EMPTY) -> Any:
        with tg.no_grad():
            dim = len(sample_shape) + len(self.batch_shape)
            chosen = self.mixture_distribution.sample(sample_shape)
            all_samples = self.component_distribution.sample(sample_shape)
            index = chosen.reshape(chosen.shape + (1,) * (self._event_ndims + 1))
            index = index.repeat((1,) * chosen.dim() + (1,) + self.event_shape)
            return tg.gather(all_samples, dim, index).squeeze(dim)

    def _pad(self, x: Any) -> Any:
        return x.unsqueeze(-1 - self._event_ndims)

    def _pad_mixture_dimensions(self, x: Any) -> Any:
        """Chances, broadcast over the batch and the event of the components."""
        own = len(self.mixture_distribution.batch_shape)
        missing = 0 if own == 1 else len(self.batch_shape) - own
        shape = x.shape[:-1] + (1,) * missing + x.shape[-1:] + (1,) * self._event_ndims
        return x.reshape(shape)

    def __repr__(self) -> str:
        shown = f"\n  {self.mixture_distribution},\n  {self.component_distribution}"
        return f"MixtureSameFamily({shown})"
