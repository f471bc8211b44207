"""Running PyTorch programs on tapegrad: the ``torch`` alias, the runner and the checker.

>>> from tapegrad import compat
>>> compat.install()
>>> import torch, torch.nn.functional as F
>>> torch.__name__, F.__name__
('tapegrad', 'tapegrad.nn.functional')
>>> compat.uninstall()
"""

from __future__ import annotations

from tapegrad.compat.alias import install, is_installed, uninstall

__all__ = ["install", "is_installed", "uninstall"]
