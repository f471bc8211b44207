"""The LKJ distribution of correlation matrices, by their Cholesky factors."""

from __future__ import annotations

import math
from typing import Any

import tapegrad as tg

from . import constraints
from .beta import Beta
from .distribution import Distribution
from .utils import EMPTY, broadcast_all

__all__ = ["LKJCholesky"]


class LKJCholesky(Distribution):
    """Cholesky factors of correlation matrices M with densities det(M)^(concentration - 1).

    >>> distributions.LKJCholesky(3, 0.5).sample().shape
    torch.Size([3, 3])
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(
        self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        if dim < 2:
            raise ValueError(
                f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}."
            )
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        # The squared length of the first i entries of row i is a beta number ("onion" method). The
        # method says (steps + 1) / 2 for its first parameter; PyTorch has steps + 1/2, and the same
        # seed has to give the same matrices.
        own = self.concentration
        steps = tg.arange(dim - 1, dtype=own.dtype, device=own.device)
        steps = tg.cat([steps.new_zeros((1,)), steps])
        beyond = (own + 0.5 * (dim - 2)).unsqueeze(-1) - 0.5 * steps
        self._beta = Beta(steps + 0.5, beyond)
        super().__init__(own.size(), tg.Size((dim, dim)), validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(LKJCholesky, _instance)
        batch_shape = tg.Size(batch_shape)
        new.dim = self.dim
        new.concentration = self.concentration.expand(batch_shape)
        new._beta = self._beta.expand(batch_shape + (self.dim,))
        return self._finish_expanded(LKJCholesky, new, batch_shape, self.event_shape)

    def sample(self, sample_shape: Any = EMPTY) -> Any:
        lengths = self._beta.sample(sample_shape).unsqueeze(-1)
        normals = tg.randn(
            self._extended_shape(sample_shape), dtype=lengths.dtype, device=lengths.device
        ).tril(-1)
        directions = normals / normals.norm(dim=-1, keepdim=True)
        directions[..., 0, :].fill_(0.0)  # the first row has no direction: it is 0 / 0
        rows = tg.sqrt(lengths) * directions
        least = tg.finfo(rows.dtype).tiny
        rest = tg.clamp(1 - tg.sum(rows**2, dim=-1), min=least).sqrt()
        rows += tg.diag_embed(rest)
        return rows

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        order = tg.arange(2, self.dim + 1, device=self.concentration.device)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - order
        weight = tg.sum(order * diagonal.log(), dim=-1)
        below = self.dim - 1
        alpha = self.concentration + 0.5 * below
        normalizer = (
            0.5 * below * math.log(math.pi)
            + tg.mvlgamma(alpha - 0.5, below)
            - tg.lgamma(alpha) * below
        )
        return weight - normalizer
