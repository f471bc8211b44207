"""Optimizers that PyTorch does not have: SOAP, Shampoo, self-scaled BFGS, energy natural gradient.

>>> p = nn.Parameter(tensor([[3.0, 1.0]]))
>>> optimizer = optim.extra.Shampoo([p], lr=0.1)
>>> (p * p).sum().backward()
>>> optimizer.step()
"""

from __future__ import annotations

from ._energy import EnergyNaturalGradient
from ._quasi_newton import SelfScaledBFGS
from ._shampoo import Shampoo
from ._soap import SOAP

__all__ = ["SOAP", "EnergyNaturalGradient", "SelfScaledBFGS", "Shampoo"]
