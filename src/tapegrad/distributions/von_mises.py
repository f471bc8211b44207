"""The von Mises distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import tapegrad as tg

from . import constraints
from ._traits import Centred
from .utils import EMPTY, broadcast_all, lazy_property

__all__ = ["VonMises"]

# Abramowitz and Stegun 9.8.1 to 9.8.4, lowest power first: per order, below and above x = 3.75.
NEAR = (
    (1.0, 3.5156229, 3.0899424, 1.2067492, 0.2659732, 0.0360768, 0.0045813),
    (0.5, 0.87890594, 0.51498869, 0.15084934, 0.02658733, 0.00301532, 0.00032411),
)
FAR = (
    (
        0.39894228,
        0.01328592,
        0.00225319,
        -0.00157565,
        0.00916281,
        -0.02057706,
        0.02635537,
        -0.01647633,
        0.00392377,
    ),
    (
        0.39894228,
        -0.03988024,
        -0.00362018,
        0.00163801,
        -0.01031555,
        0.02282967,
        -0.02895312,
        0.01787654,
        -0.00420059,
    ),
)


def polynomial(y: Any, coefficients: Sequence[float]) -> Any:
    result: Any = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        result = c + y * result
    return result


def _log_modified_bessel_fn(x: Any, order: int = 0) -> Any:
    """log I_order(x) for positive x; the order is 0 or 1."""
    y = (x / 3.75) * (x / 3.75)
    near = polynomial(y, NEAR[order])
    if order == 1:
        near = x.abs() * near
    far = x - 0.5 * x.log() + polynomial(3.75 / x, FAR[order]).log()
    return tg.where(x < 3.75, near.log(), far)


class VonMises(Centred):
    """Angles around `loc`, much as a normal distribution wound around the circle.

    >>> distributions.VonMises(tensor(0.0), tensor(4.0)).variance
    tensor(0.1365)
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, tg.Size(), validate_args)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        normalizer = _log_modified_bessel_fn(self.concentration, order=0)
        pull = self.concentration * tg.cos(value - self.loc)
        return pull - math.log(2 * math.pi) - normalizer

    @lazy_property
    def _loc(self) -> Any:
        return self.loc.to(tg.double)

    @lazy_property
    def _concentration(self) -> Any:
        return self.concentration.to(tg.double)

    @lazy_property
    def _proposal_r(self) -> Any:
        """The parameter of the wrapped Cauchy distribution that proposals come from."""
        kappa = self._concentration
        tau = 1 + (1 + 4 * kappa**2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
        return tg.where(kappa < 1e-5, 1 / kappa + kappa, (1 + rho**2) / (2 * rho))

    @tg.no_grad()
    def sample(self, sample_shape: Any = EMPTY) -> Any:
        """By rejection (Best and Fisher 1979), in double precision."""
        shape = self._extended_shape(sample_shape)
        kappa, r = self._concentration, self._proposal_r
        angle = tg.empty(shape, dtype=self._loc.dtype, device=self.loc.device)
        done = tg.zeros(shape, dtype=tg.bool, device=self.loc.device)
        while not done.all():
            u1, u2, u3 = tg.rand((3,) + shape, dtype=r.dtype, device=r.device).unbind()
            z = tg.cos(math.pi * u1)
            f = (1 + r * z) / (r + z)
            c = kappa * (r - f)
            accept = ((c * (2 - c) - u2) > 0) | ((c / u2).log() + 1 - c >= 0)
            if accept.any():
                angle = tg.where(accept, (u3 - 0.5).sign() * f.acos(), angle)
                done = done | accept
        wound = (angle + math.pi + self._loc) % (2 * math.pi) - math.pi
        return wound.to(self.loc.dtype)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return type(self)(
            self.loc.expand(batch_shape),
            self.concentration.expand(batch_shape),
            validate_args=self.__dict__.get("_validate_args"),
        )

    @lazy_property
    def variance(self) -> Any:
        """The circular variance: 1 less the mean of the cosine."""
        k = self.concentration
        return 1 - (_log_modified_bessel_fn(k, order=1) - _log_modified_bessel_fn(k)).exp()
