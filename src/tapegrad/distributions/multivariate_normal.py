"""The multivariate normal distribution."""

from __future__ import annotations

import math
from typing import Any

import tapegrad as tg

from . import constraints
from ._traits import Centred
from .distribution import Distribution  # noqa: F401  libraries import it from here
from .utils import EMPTY, _standard_normal, lazy_property

__all__ = ["MultivariateNormal"]


def _batch_mv(bmat: Any, bvec: Any) -> Any:
    """Matrices times vectors."""
    return tg.matmul(bmat, bvec.unsqueeze(-1)).squeeze(-1)


def _batch_mahalanobis(bL: Any, bx: Any) -> Any:
    """x' (L L')^-1 x.

    The dimensions of x in front of the batch of L become columns: one solve for all of them.
    """
    outer = max(bx.dim() - bL.dim() + 1, 0)
    columns = bx.reshape((-1,) + bx.shape[outer:]).movedim(0, -1)
    squares = tg.linalg.solve_triangular(bL, columns, upper=False).pow(2).sum(-2)
    return squares.movedim(-1, 0).reshape(bx.shape[:outer] + squares.shape[:-1])


def _precision_to_scale_tril(P: Any) -> Any:
    """The Cholesky factor of the inverse, without inverting: by way of the reversed matrix."""
    reversed_factor = tg.linalg.cholesky(tg.flip(P, (-2, -1)))
    inverse = tg.transpose(tg.flip(reversed_factor, (-2, -1)), -2, -1)
    identity = tg.eye(P.shape[-1], dtype=P.dtype, device=P.device)
    return tg.linalg.solve_triangular(inverse, identity, upper=False)


def only_matrix(refusal: type, covariance: Any, precision: Any, factor: Any) -> tuple[str, Any]:
    """The one of them that was given, and its name."""
    named = {
        "scale_tril": factor,
        "covariance_matrix": covariance,
        "precision_matrix": precision,
    }
    given = [(name, value) for name, value in named.items() if value is not None]
    if len(given) != 1:
        raise refusal(
            "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
        )
    return given[0]


def factor_of(name: str, matrix: Any) -> Any:
    """The Cholesky factor of the covariance, from any of the three."""
    if name == "scale_tril":
        return matrix
    if name == "covariance_matrix":
        return tg.linalg.cholesky(matrix)
    return _precision_to_scale_tril(matrix)


class MultivariateNormal(Centred):
    """The normal distribution of vectors, by its covariance, precision or Cholesky factor.

    >>> distributions.MultivariateNormal(zeros(2), eye(2)).log_prob(zeros(2))
    tensor(-1.8379)
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        name, matrix = only_matrix(ValueError, covariance_matrix, precision_matrix, scale_tril)
        if matrix.dim() < 2:
            spoken = "scale_tril matrix" if name == "scale_tril" else name
            raise ValueError(
                f"{spoken} must be at least two-dimensional, with optional leading batch dimensions"
            )
        batch_shape = tg.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        setattr(self, name, matrix.expand(batch_shape + (-1, -1)))
        self.loc = loc.expand(batch_shape + (-1,))
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        self._unbroadcasted_scale_tril = factor_of(name, matrix)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(MultivariateNormal, _instance)
        batch_shape = tg.Size(batch_shape)
        new.loc = self.loc.expand(batch_shape + self.event_shape)
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        for name in ("covariance_matrix", "scale_tril", "precision_matrix"):
            if name in self.__dict__:
                wide = self.__dict__[name].expand(batch_shape + self.event_shape + self.event_shape)
                new.__dict__[name] = wide
        return self._finish_expanded(MultivariateNormal, new, batch_shape, self.event_shape)

    def _wide(self, matrix: Any) -> Any:
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Any:
        return self._wide(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Any:
        factor = self._unbroadcasted_scale_tril
        return self._wide(tg.matmul(factor, factor.mT))

    @lazy_property
    def precision_matrix(self) -> Any:
        return self._wide(tg.cholesky_inverse(self._unbroadcasted_scale_tril))

    @property
    def variance(self) -> Any:
        squares = self._unbroadcasted_scale_tril.pow(2).sum(-1)
        return squares.expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        shape = self._extended_shape(sample_shape)
        unit = _standard_normal(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_scale_tril, unit)

    def _half_log_det(self) -> Any:
        return self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        distance = _batch_mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        constant = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (constant + distance) - self._half_log_det()

    def entropy(self) -> Any:
        constant = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi))
        entropy = constant + self._half_log_det()
        return entropy.expand(self._batch_shape) if self._batch_shape else entropy
