"""KL(p || q) where p and q are of two families."""

from __future__ import annotations

import math
from typing import Any

import tapegrad as tg

from .bernoulli import Bernoulli
from .beta import Beta
from .binomial import Binomial
from .continuous_bernoulli import ContinuousBernoulli
from .exponential import Exponential
from .gamma import Gamma
from .gumbel import Gumbel
from .kl import _infinite_like, _x_log_x, infinite_where, register_kl
from .laplace import Laplace
from .normal import Normal
from .pareto import Pareto
from .poisson import Poisson
from .uniform import Uniform
from .utils import euler_constant as _euler_gamma

# Where p has what q cannot have, whatever the parameters. The parameter that is named says how many
# infinities there are.
UNBOUNDED = (Beta, ContinuousBernoulli, Pareto, Uniform)
ON_A_PART = (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)
INFINITE: tuple[tuple[type, str, tuple[type, ...]], ...] = (
    (Beta, "concentration1", (Pareto,)),
    (ContinuousBernoulli, "probs", (Pareto,)),
    (Exponential, "rate", UNBOUNDED),
    (Gamma, "concentration", UNBOUNDED),
    (Gumbel, "loc", ON_A_PART),
    (Laplace, "loc", ON_A_PART),
    (Normal, "loc", ON_A_PART),
    (Pareto, "scale", (Beta, ContinuousBernoulli, Uniform)),
    (Poisson, "rate", (Bernoulli, Binomial)),
)


def infinite_by(parameter: str) -> Any:
    return lambda p, q: _infinite_like(getattr(p, parameter))


for family, parameter, others in INFINITE:
    for other in others:
        register_kl(family, other)(infinite_by(parameter))


@register_kl(Bernoulli, Poisson)
def _kl_bernoulli_poisson(p: Any, q: Any) -> Any:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


# From beta and continuous Bernoulli: numbers in [0, 1]


@register_kl(Beta, ContinuousBernoulli)
@register_kl(Uniform, ContinuousBernoulli)
def _kl_to_continuous_bernoulli(p: Any, q: Any) -> Any:
    result = -p.entropy() - p.mean * q.logits - tg.log1p(-q.probs) - q._cont_bern_log_norm()
    if not isinstance(p, Uniform):
        return result
    outside = tg.max(tg.ge(p.high, q.support.upper_bound), tg.le(p.low, q.support.lower_bound))
    return tg.where(outside, tg.ones_like(result) * tg.inf, result)


@register_kl(Beta, Exponential)
def _kl_beta_exponential(p: Any, q: Any) -> Any:
    mean = p.concentration1 / (p.concentration1 + p.concentration0)
    return -p.entropy() - q.rate.log() + q.rate * mean


@register_kl(Beta, Gamma)
def _kl_beta_gamma(p: Any, q: Any) -> Any:
    total = p.concentration1 + p.concentration0
    log_mean = p.concentration1.digamma() - total.digamma()
    t2 = q.concentration.lgamma() - q.concentration * q.rate.log()
    t3 = (q.concentration - 1) * log_mean
    return -p.entropy() + t2 - t3 + q.rate * p.concentration1 / total


@register_kl(Beta, Normal)
def _kl_beta_normal(p: Any, q: Any) -> Any:
    total = p.concentration1 + p.concentration0
    mean = p.concentration1 / total
    var = q.scale.pow(2)
    half_square = (mean * (1 - mean) / (total + 1) + mean.pow(2)) * 0.5
    gap = half_square - q.loc * mean + q.loc.pow(2) * 0.5
    return -p.entropy() + 0.5 * (var * 2 * math.pi).log() + gap / var


@register_kl(Beta, Uniform)
def _kl_beta_uniform(p: Any, q: Any) -> Any:
    result = -p.entropy() + (q.high - q.low).log()
    outside = (q.low > p.support.lower_bound) | (q.high < p.support.upper_bound)
    return infinite_where(result, outside)


@register_kl(ContinuousBernoulli, Exponential)
def _kl_continuous_bernoulli_exponential(p: Any, q: Any) -> Any:
    return -p.entropy() - tg.log(q.rate) + q.rate * p.mean


@register_kl(ContinuousBernoulli, Normal)
def _kl_continuous_bernoulli_normal(p: Any, q: Any) -> Any:
    t2 = 0.5 * (math.log(2.0 * math.pi) + tg.square(q.loc / q.scale)) + tg.log(q.scale)
    square = p.variance + tg.square(p.mean) - 2.0 * q.loc * p.mean
    return -p.entropy() + t2 + square / (2.0 * tg.square(q.scale))


@register_kl(ContinuousBernoulli, Uniform)
def _kl_continuous_bernoulli_uniform(p: Any, q: Any) -> Any:
    result = -p.entropy() + (q.high - q.low).log()
    outside = tg.max(tg.ge(q.low, p.support.lower_bound), tg.le(q.high, p.support.upper_bound))
    return tg.where(outside, tg.ones_like(result) * tg.inf, result)


# From exponential and gamma: numbers from 0 on


@register_kl(Exponential, Gamma)
def _kl_exponential_gamma(p: Any, q: Any) -> Any:
    ratio = q.rate / p.rate
    t1 = -q.concentration * tg.log(ratio)
    t2 = q.concentration.lgamma() + q.concentration * _euler_gamma
    return t1 + ratio + t2 - (1 + _euler_gamma)


@register_kl(Exponential, Gumbel)
def _kl_exponential_gumbel(p: Any, q: Any) -> Any:
    product = p.rate * q.scale
    loc = q.loc / q.scale
    t2 = tg.exp(loc) * product / (product + 1)
    return product.log() - 1 - loc + t2 + product.reciprocal()


@register_kl(Exponential, Normal)
def _kl_exponential_normal(p: Any, q: Any) -> Any:
    var, square = q.scale.pow(2), p.rate.pow(2)
    gap = square.reciprocal() - q.loc / p.rate + q.loc.pow(2) * 0.5
    return 0.5 * tg.log(square * var * 2 * math.pi) - 1 + gap / var


@register_kl(Gamma, Exponential)
def _kl_gamma_exponential(p: Any, q: Any) -> Any:
    return -p.entropy() - q.rate.log() + q.rate * p.concentration / p.rate


@register_kl(Gamma, Gumbel)
def _kl_gamma_gumbel(p: Any, q: Any) -> Any:
    a, product, loc = p.concentration, p.rate * q.scale, q.loc / q.scale
    t1 = (a - 1) * a.digamma() - a.lgamma() - a
    t2 = product.log() + a / product
    t3 = tg.exp(loc) * (1 + product.reciprocal()).pow(-a) - loc
    return t1 + t2 + t3


@register_kl(Gamma, Normal)
def _kl_gamma_normal(p: Any, q: Any) -> Any:
    a, var, square = p.concentration, q.scale.pow(2), p.rate.pow(2)
    t1 = 0.5 * tg.log(square * var * 2 * math.pi) - a - a.lgamma()
    gap = 0.5 * (a.pow(2) + a) / square - q.loc * a / p.rate + 0.5 * q.loc.pow(2)
    return t1 + (a - 1) * a.digamma() + gap / var


# From Gumbel, Laplace and normal: all numbers


@register_kl(Gumbel, Normal)
def _kl_gumbel_normal(p: Any, q: Any) -> Any:
    ratio = p.scale / q.scale
    t1 = (ratio / math.sqrt(2 * math.pi)).log()
    t2 = (math.pi * ratio * 0.5).pow(2) / 3
    t3 = ((p.loc + p.scale * _euler_gamma - q.loc) / q.scale).pow(2) * 0.5
    return -t1 + t2 + t3 - (_euler_gamma + 1)


@register_kl(Laplace, Normal)
def _kl_laplace_normal(p: Any, q: Any) -> Any:
    var = q.scale.pow(2)
    ratio = p.scale.pow(2) / var
    gap = 0.5 * p.loc.pow(2) - p.loc * q.loc + 0.5 * q.loc.pow(2)
    return -0.5 * tg.log(2 * ratio / math.pi) + ratio + gap / var - 1


@register_kl(Normal, Gumbel)
def _kl_normal_gumbel(p: Any, q: Any) -> Any:
    mean, loc = p.loc / q.scale, q.loc / q.scale
    ratio = (p.scale / q.scale).pow(2)
    t3 = tg.exp(-mean + 0.5 * ratio + loc)
    return -ratio.log() * 0.5 + (mean - loc) + t3 - (0.5 * (1 + math.log(2 * math.pi)))


@register_kl(Normal, Laplace)
def _kl_normal_laplace(p: Any, q: Any) -> Any:
    gap = p.loc - q.loc
    z = gap / p.scale
    t2 = math.sqrt(2 / math.pi) * p.scale * tg.exp(-0.5 * z.pow(2))
    t3 = gap * tg.erf(math.sqrt(0.5) * z)
    return -tg.log(p.scale / q.scale) + (t2 + t3) / q.scale - (0.5 * (1 + math.log(0.5 * math.pi)))


# From Pareto: its mean is infinite up to alpha = 1, its variance up to 2


@register_kl(Pareto, Exponential)
def _kl_pareto_exponential(p: Any, q: Any) -> Any:
    product = p.scale * q.rate
    mean = p.alpha * product / (p.alpha - 1)
    result = (p.alpha / product).log() - p.alpha.reciprocal() + mean - 1
    return infinite_where(result, p.alpha <= 1)


@register_kl(Pareto, Gamma)
def _kl_pareto_gamma(p: Any, q: Any) -> Any:
    log_mean = p.scale.log() + p.alpha.reciprocal()
    t2 = q.concentration.lgamma() - q.concentration * q.rate.log()
    t3 = (1 - q.concentration) * log_mean
    t4 = q.rate * p.alpha * p.scale / (p.alpha - 1)
    return infinite_where(p.alpha.log() - log_mean + t2 + t3 + t4 - 1, p.alpha <= 1)


@register_kl(Pareto, Normal)
def _kl_pareto_normal(p: Any, q: Any) -> Any:
    step = p.scale / (p.alpha - 1)
    t1 = (math.sqrt(2 * math.pi) * q.scale * p.alpha / p.scale).log()
    spread = p.alpha * step.pow(2) / (p.alpha - 2) + (p.alpha * step - q.loc).pow(2)
    result = t1 - p.alpha.reciprocal() + spread / (2 * q.scale.pow(2)) - 1
    return infinite_where(result, p.alpha <= 2)


# From uniform


@register_kl(Uniform, Beta)
def _kl_uniform_beta(p: Any, q: Any) -> Any:
    width = p.high - p.low
    log_mean = (_x_log_x(p.high) - _x_log_x(p.low) - width) / width
    log_rest = (_x_log_x(1 - p.high) - _x_log_x(1 - p.low) + width) / width
    t2 = (q.concentration1 - 1) * log_mean
    t3 = (q.concentration0 - 1) * log_rest
    t4 = (
        q.concentration1.lgamma()
        + q.concentration0.lgamma()
        - (q.concentration1 + q.concentration0).lgamma()
    )
    outside = (p.high > q.support.upper_bound) | (p.low < q.support.lower_bound)
    return infinite_where(t3 + t4 - tg.log(width) - t2, outside)


@register_kl(Uniform, Exponential)
def _kl_uniform_exponetial(p: Any, q: Any) -> Any:
    result = q.rate * (p.high + p.low) / 2 - ((p.high - p.low) * q.rate).log()
    return infinite_where(result, p.low < q.support.lower_bound)


@register_kl(Uniform, Gamma)
def _kl_uniform_gamma(p: Any, q: Any) -> Any:
    width = p.high - p.low
    log_mean = (_x_log_x(p.high) - _x_log_x(p.low) - width) / width
    t2 = q.concentration.lgamma() - q.concentration * q.rate.log()
    t3 = (1 - q.concentration) * log_mean
    result = -width.log() + t2 + t3 + q.rate * (p.high + p.low) / 2
    return infinite_where(result, p.low < q.support.lower_bound)


@register_kl(Uniform, Gumbel)
def _kl_uniform_gumbel(p: Any, q: Any) -> Any:
    ratio = q.scale / (p.high - p.low)
    high, low = (p.high - q.loc) / q.scale, (p.low - q.loc) / q.scale
    return ratio.log() + 0.5 * (high + low) - ratio * (tg.exp(-high) - tg.exp(-low))


@register_kl(Uniform, Normal)
def _kl_uniform_normal(p: Any, q: Any) -> Any:
    width = p.high - p.low
    t1 = (math.sqrt(math.pi * 2) * q.scale / width).log()
    gap = ((p.high + p.low - 2 * q.loc) / 2).pow(2)
    return t1 + 0.5 * (width.pow(2) / 12 + gap) / q.scale.pow(2)


@register_kl(Uniform, Pareto)
def _kl_uniform_pareto(p: Any, q: Any) -> Any:
    width = p.high - p.low
    t1 = (q.alpha * q.scale.pow(q.alpha) * width).log()
    log_mean = (_x_log_x(p.high) - _x_log_x(p.low) - width) / width
    result = log_mean * (q.alpha + 1) - t1
    return infinite_where(result, p.low < q.support.lower_bound)
