"""Multivariate normals whose covariance is a diagonal and a few directions."""

from __future__ import annotations

import math
from typing import Any

import tapegrad as tg

from . import constraints
from ._traits import Centred
from .multivariate_normal import _batch_mahalanobis, _batch_mv
from .utils import EMPTY, _standard_normal, lazy_property

__all__ = ["LowRankMultivariateNormal"]


def plus_identity(matrix: Any) -> Any:
    """The matrix, which is no one else's, with 1 added to its diagonal."""
    n = matrix.size(-1)
    matrix = matrix.contiguous()
    matrix.view(-1, n * n)[:, :: n + 1] += 1
    return matrix


def _batch_capacitance_tril(W: Any, D: Any) -> Any:
    """The Cholesky factor of I + W' D^-1 W, which is small."""
    return tg.linalg.cholesky(plus_identity(tg.matmul(W.mT / D.unsqueeze(-2), W)))


def _batch_lowrank_logdet(W: Any, D: Any, capacitance_tril: Any) -> Any:
    """log det (W W' + D), by the matrix determinant lemma."""
    small = 2 * capacitance_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return small + D.log().sum(-1)


def _batch_lowrank_mahalanobis(W: Any, D: Any, x: Any, capacitance_tril: Any) -> Any:
    """x' (W W' + D)^-1 x, by the Woodbury identity."""
    projected = _batch_mv(W.mT / D.unsqueeze(-2), x)
    return (x.pow(2) / D).sum(-1) - _batch_mahalanobis(capacitance_tril, projected)


class LowRankMultivariateNormal(Centred):
    """The normal distribution with the covariance W W' + diag(D): W `cov_factor`, D `cov_diag`.

    >>> low_rank = distributions.LowRankMultivariateNormal(zeros(2), zeros(2, 1), ones(2))
    >>> low_rank.log_prob(zeros(2))
    tensor(-1.8379)
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self, loc: Any, cov_factor: Any, cov_diag: Any, validate_args: bool | None = None
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event_shape = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError(
                "cov_factor must be at least two-dimensional, with optional leading batch "
                "dimensions"
            )
        if cov_factor.shape[-2:-1] != event_shape:
            raise ValueError(
                f"cov_factor must be a batch of matrices with shape {event_shape[0]} x m"
            )
        if cov_diag.shape[-1:] != event_shape:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event_shape}")
        try:
            wide_loc, self.cov_factor, wide_diag = tg.broadcast_tensors(
                loc.unsqueeze(-1), cov_factor, cov_diag.unsqueeze(-1)
            )
        except RuntimeError as error:
            raise ValueError(
                f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, "
                f"cov_diag {cov_diag.shape}"
            ) from error
        self.loc = wide_loc[..., 0]
        self.cov_diag = wide_diag[..., 0]
        self._unbroadcasted_cov_factor = cov_factor
        self._unbroadcasted_cov_diag = cov_diag
        self._capacitance_tril = _batch_capacitance_tril(cov_factor, cov_diag)
        super().__init__(self.loc.shape[:-1], event_shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(LowRankMultivariateNormal, _instance)
        batch_shape = tg.Size(batch_shape)
        vectors = batch_shape + self.event_shape
        new.loc = self.loc.expand(vectors)
        new.cov_diag = self.cov_diag.expand(vectors)
        new.cov_factor = self.cov_factor.expand(vectors + self.cov_factor.shape[-1:])
        new._unbroadcasted_cov_factor = self._unbroadcasted_cov_factor
        new._unbroadcasted_cov_diag = self._unbroadcasted_cov_diag
        new._capacitance_tril = self._capacitance_tril
        return self._finish_expanded(LowRankMultivariateNormal, new, batch_shape, self.event_shape)

    def _wide(self, matrix: Any) -> Any:
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def variance(self) -> Any:
        squares = self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag
        return squares.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Any:
        # D^1/2 times the factor of I + (D^-1/2 W) (D^-1/2 W)'
        roots = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / roots
        inner = plus_identity(tg.matmul(scaled, scaled.mT))
        return self._wide(roots * tg.linalg.cholesky(inner))

    @lazy_property
    def covariance_matrix(self) -> Any:
        W = self._unbroadcasted_cov_factor
        return self._wide(tg.matmul(W, W.mT) + tg.diag_embed(self._unbroadcasted_cov_diag))

    @lazy_property
    def precision_matrix(self) -> Any:
        D = self._unbroadcasted_cov_diag
        scaled = self._unbroadcasted_cov_factor.mT / D.unsqueeze(-2)
        A = tg.linalg.solve_triangular(self._capacitance_tril, scaled, upper=False)
        return self._wide(tg.diag_embed(D.reciprocal()) - tg.matmul(A.mT, A))

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        shape = self._extended_shape(sample_shape)
        options = {"dtype": self.loc.dtype, "device": self.loc.device}
        common = _standard_normal(shape[:-1] + self.cov_factor.shape[-1:], **options)
        own = _standard_normal(shape, **options)
        return (
            self.loc
            + _batch_mv(self._unbroadcasted_cov_factor, common)
            + self._unbroadcasted_cov_diag.sqrt() * own
        )

    def _log_det(self) -> Any:
        return _batch_lowrank_logdet(
            self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag, self._capacitance_tril
        )

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        distance = _batch_lowrank_mahalanobis(
            self._unbroadcasted_cov_factor,
            self._unbroadcasted_cov_diag,
            value - self.loc,
            self._capacitance_tril,
        )
        constant = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (constant + self._log_det() + distance)

    def entropy(self) -> Any:
        constant = self._event_shape[0] * (1.0 + math.log(2 * math.pi))
        entropy = 0.5 * (constant + self._log_det())
        return entropy.expand(self._batch_shape) if self._batch_shape else entropy
