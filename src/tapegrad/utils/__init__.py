"""What PyTorch keeps in `torch.utils`."""

from __future__ import annotations

from . import hooks
