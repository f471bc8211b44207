"""Optimizers."""

from __future__ import annotations

from . import optimizer, sgd
from .optimizer import Optimizer
from .sgd import SGD

__all__ = ["SGD", "Optimizer"]
