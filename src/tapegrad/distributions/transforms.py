"""Invertible maps with their change of volume: numbers, vectors, matrices."""

from __future__ import annotations

import math
from typing import Any

import tapegrad as tg
import tapegrad.nn.functional as F
from tapegrad.nn.functional import pad, softplus

from . import constraints
from ._transform_base import (
    CatTransform,
    ComposeTransform,
    IndependentTransform,
    ReshapeTransform,
    StackTransform,
    Transform,
    check_dims,
    identity_transform,
)
from ._transform_base import _InverseTransform as _InverseTransform
from .utils import broadcast_all, lazy_property, tril_matrix_to_vec, vec_to_tril_matrix

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CatTransform",
    "ComposeTransform",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "IndependentTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftplusTransform",
    "TanhTransform",
    "SoftmaxTransform",
    "StackTransform",
    "StickBreakingTransform",
    "Transform",
    "identity_transform",
]


class Plain(Transform):
    """A transform without parameters: any two of a class are equal."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self))


class ExpTransform(Plain):
    """exp(x).

    >>> distributions.ExpTransform()(tensor([0.0]))
    tensor([1.])
    """

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = 1

    def _call(self, x: Any) -> Any:
        return x.exp()

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return x


class PowerTransform(Transform):
    """x to the power `exponent`, for positive x.

    >>> distributions.PowerTransform(tensor(2.0))(tensor([3.0]))
    tensor([9.])
    """

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        (self.exponent,) = broadcast_all(exponent)

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return PowerTransform(self.exponent, cache_size=cache_size)

    @lazy_property
    def sign(self) -> Any:
        return self.exponent.sign()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PowerTransform):
            return False
        return bool(self.exponent.eq(other.exponent).all().item())

    def _call(self, x: Any) -> Any:
        return x.pow(self.exponent)

    def _inverse(self, y: Any) -> Any:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Any) -> Any:
        return tg.broadcast_shapes(shape, self.exponent.shape)

    def inverse_shape(self, shape: Any) -> Any:
        return tg.broadcast_shapes(shape, self.exponent.shape)


def _clipped_sigmoid(x: Any) -> Any:
    limits = tg.finfo(x.dtype)
    return tg.clamp(tg.sigmoid(x), min=limits.tiny, max=1.0 - limits.eps)


class SigmoidTransform(Plain):
    """1 / (1 + exp(-x)).

    >>> distributions.SigmoidTransform()(tensor([0.0]))
    tensor([0.5000])
    """

    domain = constraints.real
    codomain = constraints.unit_interval
    bijective = True
    sign = 1

    def _call(self, x: Any) -> Any:
        return _clipped_sigmoid(x)

    def _inverse(self, y: Any) -> Any:
        limits = tg.finfo(y.dtype)
        y = y.clamp(min=limits.tiny, max=1.0 - limits.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -softplus(-x) - softplus(x)


class SoftplusTransform(Plain):
    """log(1 + exp(x)).

    >>> distributions.SoftplusTransform()(tensor([0.0]))
    tensor([0.6931])
    """

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = 1

    def _call(self, x: Any) -> Any:
        return softplus(x)

    def _inverse(self, y: Any) -> Any:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -softplus(-x)


class TanhTransform(Plain):
    """tanh(x).

    >>> distributions.TanhTransform()(tensor([0.0]))
    tensor([0.])
    """

    domain = constraints.real
    codomain = constraints.interval(-1.0, 1.0)
    bijective = True
    sign = 1

    def _call(self, x: Any) -> Any:
        return x.tanh()

    def _inverse(self, y: Any) -> Any:
        return tg.atanh(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return 2.0 * (math.log(2.0) - x - softplus(-2.0 * x))


class AbsTransform(Plain):
    """|x|, which is not invertible; its inverse is taken to be the positive one.

    >>> distributions.AbsTransform()(tensor([-1.0]))
    tensor([1.])
    """

    domain = constraints.real
    codomain = constraints.positive

    def _call(self, x: Any) -> Any:
        return x.abs()

    def _inverse(self, y: Any) -> Any:
        return y


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float))


def same_values(a: Any, b: Any) -> bool:
    """Equal numbers, or tensors with equal values."""
    return bool(a == b) if is_number(a) and is_number(b) else bool((a == b).all().item())


class AffineTransform(Transform):
    """loc + scale * x.

    >>> distributions.AffineTransform(1.0, 2.0)(tensor([3.0]))
    tensor([7.])
    """

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.loc = loc
        self.scale = scale
        self._event_dim = event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        return self._reals()

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        return self._reals()

    def _reals(self) -> Any:
        if self.event_dim == 0:
            return constraints.real
        return constraints.independent(constraints.real, self.event_dim)

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return AffineTransform(self.loc, self.scale, self.event_dim, cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AffineTransform):
            return False
        return same_values(self.loc, other.loc) and same_values(self.scale, other.scale)

    @property
    def sign(self) -> Any:
        if is_number(self.scale):
            return int(self.scale > 0) - int(self.scale < 0)
        return self.scale.sign()

    def _call(self, x: Any) -> Any:
        return self.loc + self.scale * x

    def _inverse(self, y: Any) -> Any:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        shape = x.shape
        if is_number(self.scale):
            result = tg.full_like(x, math.log(abs(self.scale)))
        else:
            result = tg.abs(self.scale).log()
        if self.event_dim:
            result = result.view(result.size()[: -self.event_dim] + (-1,)).sum(-1)
            shape = shape[: -self.event_dim]
        return result.expand(shape)

    def _joint_shape(self, shape: Any) -> Any:
        given = (getattr(v, "shape", ()) for v in (self.loc, self.scale))
        return tg.broadcast_shapes(shape, *given)

    def forward_shape(self, shape: Any) -> Any:
        return self._joint_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self._joint_shape(shape)


class CorrCholeskyTransform(Transform):
    """Vectors of n (n - 1) / 2 numbers to Cholesky factors of n × n correlation matrices.

    Each row of the factor is a point of a half sphere: tanh gives the share of the length that is
    left which an entry takes.

    >>> distributions.CorrCholeskyTransform()(zeros(1))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Any) -> Any:
        x = tg.tanh(x)
        eps = tg.finfo(x.dtype).eps
        shares = vec_to_tril_matrix(x.clamp(min=-1 + eps, max=1 - eps), diag=-1)
        left = (1 - shares**2).sqrt().cumprod(-1)
        shares = shares + tg.eye(shares.shape[-1], dtype=shares.dtype, device=shares.device)
        return shares * pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y: Any) -> Any:
        left = 1 - tg.cumsum(y * y, dim=-1)
        left = tril_matrix_to_vec(pad(left[..., :-1], [1, 0], value=1), diag=-1)
        share = tril_matrix_to_vec(y, diag=-1) / left.sqrt()
        return (share.log1p() - share.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x: Any, y: Any, intermediates: Any = None) -> Any:
        left = 1 - (y * y).cumsum(dim=-1)
        # Column by column, without the last: an entry below moves all that are right of it.
        sticks = 0.5 * tril_matrix_to_vec(left, diag=-2).log().sum(-1)
        tanh = -2 * (x + softplus(-2 * x) - math.log(2.0)).sum(dim=-1)
        return sticks + tanh

    def forward_shape(self, shape: Any) -> Any:
        check_dims(shape, 1)
        size = shape[-1]
        n = round((0.25 + 2 * size) ** 0.5 + 0.5)
        if n * (n - 1) // 2 != size:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return shape[:-1] + (n, n)

    def inverse_shape(self, shape: Any) -> Any:
        check_dims(shape, 2)
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        n = shape[-1]
        return shape[:-2] + (n * (n - 1) // 2,)


class SoftmaxTransform(Plain):
    """exp(x) over its sum: onto the simplex, but not one to one.

    >>> distributions.SoftmaxTransform()(zeros(2))
    tensor([0.5000, 0.5000])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Any) -> Any:
        weights = (x - x.max(-1, True)[0]).exp()
        return weights / weights.sum(-1, True)

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def forward_shape(self, shape: Any) -> Any:
        check_dims(shape, 1)
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        check_dims(shape, 1)
        return shape


class StickBreakingTransform(Plain):
    """Vectors onto the simplex with one entry more: each takes a share of what is left.

    >>> distributions.StickBreakingTransform()(zeros(1))
    tensor([0.5000, 0.5000])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    def _call(self, x: Any) -> Any:
        share = _clipped_sigmoid(x - log_left(x))
        left = (1 - share).cumprod(-1)
        return pad(share, [0, 1], value=1) * pad(left, [1, 0], value=1)

    def _inverse(self, y: Any) -> Any:
        taken = y[..., :-1]
        left = tg.clamp(1 - taken.cumsum(-1), min=tg.finfo(y.dtype).tiny)
        return taken.log() - left.log() + log_left(taken)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        x = x - log_left(x)
        return (-x + F.logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        check_dims(shape, 1)
        return shape[:-1] + (shape[-1] + 1,)

    def inverse_shape(self, shape: Any) -> Any:
        check_dims(shape, 1)
        return shape[:-1] + (shape[-1] - 1,)


def log_left(x: Any) -> Any:
    """The logarithm of how many entries come after each, so that 0 goes to equal shares."""
    n = x.shape[-1]
    return (n + 1 - x.new_ones(n).cumsum(-1)).log()


class LowerCholeskyTransform(Plain):
    """Matrices to lower triangles with positive diagonals.

    >>> distributions.LowerCholeskyTransform()(zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Any) -> Any:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Any) -> Any:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(Plain):
    """Matrices to positive definite ones, by way of their Cholesky factors.

    >>> distributions.PositiveDefiniteTransform()(zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Any) -> Any:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Any) -> Any:
        return LowerCholeskyTransform().inv(tg.linalg.cholesky(y))


class CumulativeDistributionTransform(Transform):
    """A distribution's cumulative function: it makes its samples uniform.

    >>> normal = distributions.Normal(0.0, 1.0)
    >>> distributions.CumulativeDistributionTransform(normal)(tensor([0.0]))
    tensor([0.5000])
    """

    bijective = True
    codomain = constraints.unit_interval
    sign = 1

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:
        return self.distribution.support

    def _call(self, x: Any) -> Any:
        return self.distribution.cdf(x)

    def _inverse(self, y: Any) -> Any:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return self.distribution.log_prob(x)

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return CumulativeDistributionTransform(self.distribution, cache_size=cache_size)
