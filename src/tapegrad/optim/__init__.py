"""Optimizers."""

from __future__ import annotations

from . import adam, adamw, optimizer, sgd
from .adam import Adam
from .adamw import AdamW
from .optimizer import Optimizer
from .sgd import SGD

__all__ = ["Adam", "AdamW", "Optimizer", "SGD"]
