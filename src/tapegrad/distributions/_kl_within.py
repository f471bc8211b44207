"""KL(p || q) where p and q are of one family."""

from __future__ import annotations

from typing import Any

import tapegrad as tg
import tapegrad.nn.functional as F

from .bernoulli import Bernoulli
from .beta import Beta
from .binomial import Binomial
from .categorical import Categorical
from .cauchy import Cauchy
from .continuous_bernoulli import ContinuousBernoulli
from .dirichlet import Dirichlet
from .exp_family import ExponentialFamily
from .exponential import Exponential
from .gamma import Gamma
from .geometric import Geometric
from .gumbel import Gumbel
from .half_normal import HalfNormal
from .independent import Independent
from .kl import _infinite_like, infinite_where, kl_divergence, register_kl
from .laplace import Laplace
from .lowrank_multivariate_normal import (
    LowRankMultivariateNormal,
    _batch_lowrank_logdet,
    _batch_lowrank_mahalanobis,
)
from .multivariate_normal import MultivariateNormal, _batch_mahalanobis
from .normal import Normal
from .one_hot_categorical import OneHotCategorical
from .pareto import Pareto
from .poisson import Poisson
from .transformed_distribution import TransformedDistribution
from .uniform import Uniform
from .utils import _sum_rightmost
from .utils import euler_constant as _euler_gamma

# Discrete


@register_kl(Bernoulli, Bernoulli)
def _kl_bernoulli_bernoulli(p: Any, q: Any) -> Any:
    hits = p.probs * (F.softplus(-q.logits) - F.softplus(-p.logits))
    hits[q.probs == 0] = tg.inf
    hits[p.probs == 0] = 0
    misses = (1 - p.probs) * (F.softplus(q.logits) - F.softplus(p.logits))
    misses[q.probs == 1] = tg.inf
    misses[p.probs == 1] = 0
    return hits + misses


@register_kl(Binomial, Binomial)
def _kl_binomial_binomial(p: Any, q: Any) -> Any:
    if (p.total_count < q.total_count).any():
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    per_throw = p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    kl = p.total_count * per_throw
    beyond = p.total_count > q.total_count
    kl[beyond] = _infinite_like(kl[beyond])
    return kl


@register_kl(Categorical, Categorical)
def _kl_categorical_categorical(p: Any, q: Any) -> Any:
    t = p.probs * (p.logits - q.logits)
    t[(q.probs == 0).expand_as(t)] = tg.inf
    t[(p.probs == 0).expand_as(t)] = 0
    return t.sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _kl_onehotcategorical_onehotcategorical(p: Any, q: Any) -> Any:
    return _kl_categorical_categorical(p._categorical, q._categorical)


@register_kl(Geometric, Geometric)
def _kl_geometric_geometric(p: Any, q: Any) -> Any:
    return -p.entropy() - tg.log1p(-q.probs) / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _kl_poisson_poisson(p: Any, q: Any) -> Any:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


# Continuous, one-dimensional


@register_kl(Beta, Beta)
def _kl_beta_beta(p: Any, q: Any) -> Any:
    p_total = p.concentration1 + p.concentration0
    q_total = q.concentration1 + q.concentration0
    t1 = q.concentration1.lgamma() + q.concentration0.lgamma() + p_total.lgamma()
    t2 = p.concentration1.lgamma() + p.concentration0.lgamma() + q_total.lgamma()
    t3 = (p.concentration1 - q.concentration1) * tg.digamma(p.concentration1)
    t4 = (p.concentration0 - q.concentration0) * tg.digamma(p.concentration0)
    return t1 - t2 + t3 + t4 + (q_total - p_total) * tg.digamma(p_total)


@register_kl(Cauchy, Cauchy)
def _kl_cauchy_cauchy(p: Any, q: Any) -> Any:
    spread = (p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)
    return spread.log() - (4 * p.scale * q.scale).log()


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _kl_continuous_bernoulli_continuous_bernoulli(p: Any, q: Any) -> Any:
    t1 = p.mean * (p.logits - q.logits)
    t2 = p._cont_bern_log_norm() + tg.log1p(-p.probs)
    t3 = -q._cont_bern_log_norm() - tg.log1p(-q.probs)
    return t1 + t2 + t3


@register_kl(Exponential, Exponential)
def _kl_exponential_exponential(p: Any, q: Any) -> Any:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(Gamma, Gamma)
def _kl_gamma_gamma(p: Any, q: Any) -> Any:
    t1 = q.concentration * (p.rate / q.rate).log()
    t2 = tg.lgamma(q.concentration) - tg.lgamma(p.concentration)
    t3 = (p.concentration - q.concentration) * tg.digamma(p.concentration)
    t4 = (q.rate - p.rate) * (p.concentration / p.rate)
    return t1 + t2 + t3 + t4


@register_kl(Gumbel, Gumbel)
def _kl_gumbel_gumbel(p: Any, q: Any) -> Any:
    ratio = p.scale / q.scale
    p_loc, q_loc = p.loc / q.scale, q.loc / q.scale
    t1 = -ratio.log() - q_loc + p_loc
    t2 = ratio * _euler_gamma
    t3 = tg.exp(q_loc + (1 + ratio).lgamma() - p_loc)
    return t1 + t2 + t3 - (1 + _euler_gamma)


@register_kl(HalfNormal, HalfNormal)
def _kl_halfnormal_halfnormal(p: Any, q: Any) -> Any:
    return _kl_normal_normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _kl_laplace_laplace(p: Any, q: Any) -> Any:
    ratio = p.scale / q.scale
    gap = (p.loc - q.loc).abs()
    return -ratio.log() + gap / q.scale + ratio * tg.exp(-gap / p.scale) - 1


@register_kl(Normal, Normal)
def _kl_normal_normal(p: Any, q: Any) -> Any:
    ratio = (p.scale / q.scale).pow(2)
    gap = ((p.loc - q.loc) / q.scale).pow(2)
    return 0.5 * (ratio + gap - 1 - ratio.log())


@register_kl(Pareto, Pareto)
def _kl_pareto_pareto(p: Any, q: Any) -> Any:
    ratio = q.alpha / p.alpha
    t1 = q.alpha * (p.scale / q.scale).log()
    result = t1 + -ratio.log() + ratio - 1
    return infinite_where(result, p.support.lower_bound < q.support.lower_bound)


@register_kl(Uniform, Uniform)
def _kl_uniform_uniform(p: Any, q: Any) -> Any:
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return infinite_where(result, (q.low > p.low) | (q.high < p.high))


# Vectors


@register_kl(Dirichlet, Dirichlet)
def _kl_dirichlet_dirichlet(p: Any, q: Any) -> Any:
    p_total, q_total = p.concentration.sum(-1), q.concentration.sum(-1)
    t1 = p_total.lgamma() - q_total.lgamma()
    t2 = (p.concentration.lgamma() - q.concentration.lgamma()).sum(-1)
    t3 = p.concentration - q.concentration
    t4 = p.concentration.digamma() - p_total.digamma().unsqueeze(-1)
    return t1 - t2 + (t3 * t4).sum(-1)


def _batch_trace_XXT(bmat: Any) -> Any:
    """The trace of X X': the sum of the squares of all entries."""
    return _sum_rightmost(bmat.pow(2), 2)


def log_diagonal(factor: Any) -> Any:
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def check_events(p: Any, q: Any, kind: str) -> None:
    if p.event_shape != q.event_shape:
        # The gap stands in PyTorch's message.
        raise ValueError(
            f"KL-divergence between two {kind} with" + " " * 26 + "different event shapes cannot "
            "be computed"
        )


class LowRank:
    """The parts of a low-rank normal that the formulas read."""

    def __init__(self, d: Any) -> None:
        self.W = d._unbroadcasted_cov_factor
        self.D = d._unbroadcasted_cov_diag
        self.capacitance = d._capacitance_tril

    def log_det(self) -> Any:
        return _batch_lowrank_logdet(self.W, self.D, self.capacitance)

    def distance(self, x: Any) -> Any:
        return _batch_lowrank_mahalanobis(self.W, self.D, x, self.capacitance)

    def reduced(self) -> Any:
        """A with (W W' + D)^-1 = D^-1 - A' A."""
        scaled = self.W.mT / self.D.unsqueeze(-2)
        return tg.linalg.solve_triangular(self.capacitance, scaled, upper=False)


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _kl_lowrankmultivariatenormal_lowrankmultivariatenormal(p: Any, q: Any) -> Any:
    check_events(p, q, "Low Rank Multivariate Normals")
    one, two = LowRank(p), LowRank(q)
    A = two.reduced()
    volume = two.log_det() - one.log_det()
    trace = (
        (one.D / two.D).sum(-1)
        + _batch_trace_XXT(one.W * two.D.rsqrt().unsqueeze(-1))
        - _batch_trace_XXT(A * one.D.sqrt().unsqueeze(-2))
        - _batch_trace_XXT(A.matmul(one.W))
    )
    return 0.5 * (volume + trace + two.distance(q.loc - p.loc) - p.event_shape[0])


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _kl_multivariatenormal_lowrankmultivariatenormal(p: Any, q: Any) -> Any:
    check_events(p, q, "(Low Rank) Multivariate Normals")
    L, two = p._unbroadcasted_scale_tril, LowRank(q)
    volume = two.log_det() - 2 * log_diagonal(L)
    trace = _batch_trace_XXT(L * two.D.rsqrt().unsqueeze(-1)) - _batch_trace_XXT(
        two.reduced().matmul(L)
    )
    return 0.5 * (volume + trace + two.distance(q.loc - p.loc) - p.event_shape[0])


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _kl_lowrankmultivariatenormal_multivariatenormal(p: Any, q: Any) -> Any:
    check_events(p, q, "(Low Rank) Multivariate Normals")
    one, L = LowRank(p), q._unbroadcasted_scale_tril
    volume = 2 * log_diagonal(L) - one.log_det()
    trace = _solved_trace(L, one.W) + _solved_trace(L, tg.diag_embed(one.D.sqrt()))
    return 0.5 * (volume + trace + _batch_mahalanobis(L, q.loc - p.loc) - p.event_shape[0])


@register_kl(MultivariateNormal, MultivariateNormal)
def _kl_multivariatenormal_multivariatenormal(p: Any, q: Any) -> Any:
    check_events(p, q, "Multivariate Normals")
    L = q._unbroadcasted_scale_tril
    half_volume = log_diagonal(L) - log_diagonal(p._unbroadcasted_scale_tril)
    trace = _solved_trace(L, p._unbroadcasted_scale_tril)
    distance = _batch_mahalanobis(L, q.loc - p.loc)
    return half_volume + 0.5 * (trace + distance - p.event_shape[0])


def _solved_trace(L: Any, X: Any) -> Any:
    """The trace of (L L')^-1 X X'."""
    return _batch_trace_XXT(tg.linalg.solve_triangular(L, X, upper=False))


# Families of families


@register_kl(ExponentialFamily, ExponentialFamily)
def _kl_expfamily_expfamily(p: Any, q: Any) -> Any:
    """The Bregman divergence of the log normalizer."""
    if type(p) is not type(q):
        # The gap stands in PyTorch's message.
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot"
            + " " * 29
            + "be computed using Bregman divergences"
        )
    p_params = [param.detach().requires_grad_() for param in p._natural_params]
    q_params = q._natural_params
    log_normalizer = p._log_normalizer(*p_params)
    slopes = tg.autograd.grad(log_normalizer.sum(), p_params, create_graph=True)
    result = q._log_normalizer(*q_params) - log_normalizer
    for p_param, q_param, slope in zip(p_params, q_params, slopes, strict=True):
        result -= _sum_rightmost((q_param - p_param) * slope, len(q.event_shape))
    return result


@register_kl(Independent, Independent)
def _kl_independent_independent(p: Any, q: Any) -> Any:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _kl_transformed_transformed(p: Any, q: Any) -> Any:
    """Invertible maps change nothing."""
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)
