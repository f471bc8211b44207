"""The Wishart distribution."""

from __future__ import annotations

import math
from typing import Any

import tapegrad as tg

from ..core.warned import warn
from . import constraints
from .chi2 import Chi2
from .exp_family import ExponentialFamily
from .multivariate_normal import factor_of, only_matrix
from .utils import EMPTY, lazy_property

__all__ = ["Wishart"]

_log_2 = math.log(2)


def _mvdigamma(x: Any, p: int) -> Any:
    """The derivative of the logarithm of the multivariate gamma function."""
    assert x.gt((p - 1) / 2).all(), "Wrong domain for multivariate digamma function."
    steps = tg.arange(p, dtype=x.dtype, device=x.device).div(2)
    return tg.digamma(x.unsqueeze(-1) - steps.expand(x.shape + (-1,))).sum(-1)


class Wishart(ExponentialFamily):
    """Sums of `df` squares x x' of normal vectors with a covariance.

    >>> distributions.Wishart(tensor(3.0), eye(2)).mean
    tensor([[3., 0.],
            [0., 3.]])
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(
        self,
        df: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        name, matrix = only_matrix(AssertionError, covariance_matrix, precision_matrix, scale_tril)
        if matrix.dim() < 2:
            raise ValueError(
                "scale_tril must be at least two-dimensional, with optional leading batch "
                "dimensions"
            )
        if isinstance(df, (int, float)):
            df = tg.tensor(df, dtype=matrix.dtype, device=matrix.device)
        batch_shape = tg.broadcast_shapes(matrix.shape[:-2], df.shape)
        self.df = df.expand(batch_shape)
        event_shape = matrix.shape[-2:]
        ndim = event_shape[-1]
        if self.df.le(ndim - 1).any():
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {ndim - 1}.")
        setattr(self, name, matrix.expand(batch_shape + (-1, -1)))
        if self.df.lt(ndim).any():
            warn(
                "Low df values detected. Singular samples are highly likely to occur for ndim - 1 "
                "< df < ndim.",
            )
        super().__init__(batch_shape, event_shape, validate_args=validate_args)
        self._batch_dims = [-(x + 1) for x in range(len(batch_shape))]
        self._unbroadcasted_scale_tril = factor_of(name, matrix)
        self._dist_chi2 = self._diagonal_squares(self.df, batch_shape)

    def _diagonal_squares(self, df: Any, batch_shape: Any) -> Chi2:
        """The squares on the diagonal of the factor of a sample, one degree less in each row."""
        n = self._event_shape[-1]
        fewer = tg.arange(n, dtype=self._unbroadcasted_scale_tril.dtype, device=df.device).expand(
            batch_shape + (-1,)
        )
        return Chi2(df=df.unsqueeze(-1) - fewer)

    @property
    def arg_constraints(self) -> dict[str, Any]:
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self.event_shape[-1] - 1),
        }

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Wishart, _instance)
        batch_shape = tg.Size(batch_shape)
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril.expand(
            batch_shape + self.event_shape
        )
        new.df = self.df.expand(batch_shape)
        new._batch_dims = [-(x + 1) for x in range(len(batch_shape))]
        for name in ("covariance_matrix", "scale_tril", "precision_matrix"):
            if name in self.__dict__:
                new.__dict__[name] = self.__dict__[name].expand(batch_shape + self.event_shape)
        new._dist_chi2 = self._diagonal_squares(new.df, batch_shape)
        return self._finish_expanded(Wishart, new, batch_shape, self.event_shape)

    def _wide(self, matrix: Any) -> Any:
        return matrix.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Any:
        return self._wide(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Any:
        factor = self._unbroadcasted_scale_tril
        return self._wide(factor @ factor.transpose(-2, -1))

    @lazy_property
    def precision_matrix(self) -> Any:
        factor = self._unbroadcasted_scale_tril
        identity = tg.eye(self._event_shape[-1], dtype=factor.dtype, device=factor.device)
        return self._wide(tg.cholesky_solve(identity, factor))

    @property
    def mean(self) -> Any:
        return self._per_matrix(self.df) * self.covariance_matrix

    @property
    def mode(self) -> Any:
        factor = self.df - self.covariance_matrix.shape[-1] - 1
        factor[factor <= 0] = math.nan
        return self._per_matrix(factor) * self.covariance_matrix

    @property
    def variance(self) -> Any:
        V = self.covariance_matrix
        diagonal = V.diagonal(dim1=-2, dim2=-1)
        products = tg.einsum("...i,...j->...ij", diagonal, diagonal)
        return self._per_matrix(self.df) * (V.pow(2) + products)

    def _per_matrix(self, numbers: Any) -> Any:
        return numbers.view(self._batch_shape + (1, 1))

    def _bartlett_sampling(self, sample_shape: Any = EMPTY) -> Any:
        """Samples by their Cholesky factors, whose entries are independent."""
        p = self._event_shape[-1]
        diagonal = self._dist_chi2.rsample(sample_shape).sqrt()
        diagonal = diagonal.clamp(min=tg.finfo(diagonal.dtype).tiny)
        noise = diagonal.diag_embed(dim1=-2, dim2=-1)
        i, j = tg.tril_indices(p, p, offset=-1)
        noise[..., i, j] = tg.randn(
            tg.Size(sample_shape) + self._batch_shape + (p * (p - 1) // 2,),
            dtype=noise.dtype,
            device=noise.device,
        )
        factor = self._unbroadcasted_scale_tril @ noise
        return factor @ factor.transpose(-2, -1)

    def rsample(self, sample_shape: Any = EMPTY, max_try_correction: int | None = None) -> Any:
        tries = 10 if max_try_correction is None else max_try_correction
        sample = self._bartlett_sampling(tg.Size(sample_shape))
        # PyTorch takes the samples inside of the support for the singular ones and draws those
        # again, once if all goes well: the same seed has to give the same numbers, so we do too.
        redo = self._any_in_batch(self.support.check(sample))
        if redo.any():
            warn("Singular sample detected.")
            for _ in range(tries):
                fresh = self._bartlett_sampling(redo[redo].shape)
                sample[redo] = fresh
                redo[redo.clone()] = self._any_in_batch(~self.support.check(fresh))
                if not redo.any():
                    break
        return sample

    def _any_in_batch(self, flags: Any) -> Any:
        return flags.amax(self._batch_dims) if self._batch_shape else flags

    def _log_scale(self) -> Any:
        """Half the log determinant of twice the covariance."""
        p = self._event_shape[-1]
        log_diagonal = self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log()
        return log_diagonal.sum(-1) + p * _log_2 / 2

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        nu, p = self.df, self._event_shape[-1]
        ratio = tg.cholesky_solve(value, self._unbroadcasted_scale_tril)
        return (
            -nu * self._log_scale()
            - tg.mvlgamma(nu / 2, p=p)
            + (nu - p - 1) / 2 * tg.linalg.slogdet(value).logabsdet
            - ratio.diagonal(dim1=-2, dim2=-1).sum(dim=-1) / 2
        )

    def entropy(self) -> Any:
        nu, p = self.df, self._event_shape[-1]
        return (
            (p + 1) * self._log_scale()
            + tg.mvlgamma(nu / 2, p=p)
            - (nu - p - 1) / 2 * _mvdigamma(nu / 2, p=p)
            + nu * p / 2
        )

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        nu, p = self.df, self._event_shape[-1]
        return -self.precision_matrix / 2, (nu - p - 1) / 2

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        p = self._event_shape[-1]
        half = y + (p + 1) / 2
        return half * (-tg.linalg.slogdet(-2 * x).logabsdet + _log_2 * p) + tg.mvlgamma(half, p=p)
