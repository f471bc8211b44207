"""The older spellings of `torch.amp` for the CPU."""

from __future__ import annotations

from .autocast_mode import autocast
from .grad_scaler import GradScaler
